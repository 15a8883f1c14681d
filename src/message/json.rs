//! JSON as the log's JavaScript writers print it: prices and header comparisons depend on that text to the last character.

use std::fmt::{self, Write};

use serde_json::{Map, Number, Value};

/// Compact JavaScript JSON of a value: what `JSON.stringify` would print.
pub(crate) fn json_text(value: &Value) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_json(&mut text, value);
    text
}

/// Bytes of a value as JSON, which is counted and not kept.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and what cannot be written as JSON is in no log.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Number of UTF-16 code units of a text.
pub(crate) fn utf16_len(text: &str) -> u64 {
    if text.is_ascii() {
        return text.len() as u64;
    }
    // A code unit per byte that starts a character, and one more for the characters outside the basic plane, which start
    // with 0xF0 and above. Written over bytes so that the compiler can vectorise it.
    text.as_bytes().iter().map(|&byte| u64::from((byte as i8) >= -64) + u64::from(byte >= 0xF0)).sum()
}

fn write_json(out: &mut impl Write, value: &Value) -> fmt::Result {
    match value {
        Value::Null => out.write_str("null"),
        Value::Bool(true) => out.write_str("true"),
        Value::Bool(false) => out.write_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.write_char('[')?;
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.write_char(',')?;
                }
                write_json(out, item)?;
            }
            out.write_char(']')
        }
        Value::Object(map) => write_object(out, map),
    }
}

/// JavaScript lists keys that are array indices first, in numeric order, then the rest as inserted.
fn write_object(out: &mut impl Write, map: &Map<String, Value>) -> fmt::Result {
    let mut indices: Vec<(u32, &Value)> =
        map.iter().filter_map(|(key, value)| Some((array_index(key)?, value))).collect();
    indices.sort_unstable_by_key(|(index, _)| *index);
    out.write_char('{')?;
    let mut first = true;
    for (index, value) in indices {
        separator(out, &mut first)?;
        write!(out, "\"{index}\":")?;
        write_json(out, value)?;
    }
    for (key, value) in map.iter().filter(|(key, _)| array_index(key).is_none()) {
        separator(out, &mut first)?;
        write_string(out, key)?;
        out.write_char(':')?;
        write_json(out, value)?;
    }
    out.write_char('}')
}

fn separator(out: &mut impl Write, first: &mut bool) -> fmt::Result {
    if std::mem::take(first) { Ok(()) } else { out.write_char(',') }
}

fn array_index(key: &str) -> Option<u32> {
    let canonical = key == "0" || (!key.starts_with('0') && key.bytes().all(|b| b.is_ascii_digit()));
    let index: u32 = canonical.then(|| key.parse().ok())??;
    (index < u32::MAX).then_some(index)
}

fn write_string(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| b < 0x20 || b == b'"' || b == b'\\') {
        let (plain, tail) = rest.split_at(at);
        out.write_str(plain)?;
        let mut chars = tail.chars();
        match chars.next() {
            Some('"') => out.write_str("\\\"")?,
            Some('\\') => out.write_str("\\\\")?,
            Some('\n') => out.write_str("\\n")?,
            Some('\r') => out.write_str("\\r")?,
            Some('\t') => out.write_str("\\t")?,
            Some('\u{8}') => out.write_str("\\b")?,
            Some('\u{c}') => out.write_str("\\f")?,
            Some(control) => write!(out, "\\u{:04x}", u32::from(control))?,
            None => {}
        }
        rest = chars.as_str();
    }
    out.write_str(rest)?;
    out.write_char('"')
}

/// Integers above 2^53 print as the nearest double, as they would after a pass through JavaScript.
const LARGEST_EXACT: u64 = 1 << 53;

fn write_number(out: &mut impl Write, number: &Number) -> fmt::Result {
    if let Some(n) = number.as_u64().filter(|n| *n <= LARGEST_EXACT) {
        return write!(out, "{n}");
    }
    if let Some(n) = number.as_i64().filter(|n| n.unsigned_abs() <= LARGEST_EXACT) {
        return write!(out, "{n}");
    }
    match number.as_f64() {
        Some(n) => out.write_str(&js_number(n)),
        None => write!(out, "{number}"),
    }
}

/// A double as JavaScript prints it: shortest digits that read back, exponent form from 1e21 and below 1e-6.
fn js_number(n: f64) -> String {
    if n == 0.0 {
        return "0".into();
    }
    if !n.is_finite() {
        return "null".into();
    }
    let scientific = format!("{:e}", n.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let sign = if n < 0.0 { "-" } else { "" };
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    let split = |at: i32| digits.split_at(usize::try_from(at).unwrap_or(0).min(digits.len()));
    let body = if (0..21).contains(&exponent) {
        if count <= exponent + 1 {
            format!("{digits}{}", zeros(exponent + 1 - count))
        } else {
            let (whole, fraction) = split(exponent + 1);
            format!("{whole}.{fraction}")
        }
    } else if (-6..0).contains(&exponent) {
        format!("0.{}{digits}", zeros(-exponent - 1))
    } else {
        let (first, rest) = split(1);
        let point = if rest.is_empty() { "" } else { "." };
        format!("{first}{point}{rest}e{exponent:+}")
    };
    format!("{sign}{body}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_print_as_javascript_prints_them() {
        let cases: [(f64, &str); 12] = [
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (-2.5, "-2.5"),
            (123_456.789, "123456.789"),
            (1.234e25, "1.234e+25"),
            (5e-324, "5e-324"),
            (-0.0, "0"),
        ];
        for (number, expected) in cases {
            assert_eq!(js_number(number), expected);
        }
        assert_eq!(json_text(&json!(9_007_199_254_740_993_u64)), "9007199254740992");
    }

    #[test]
    fn index_keys_come_first_in_numeric_order() {
        let value: Value = serde_json::from_str(r#"{"b":1,"10":2,"2":3,"01":4,"a":5}"#).unwrap();
        assert_eq!(json_text(&value), r#"{"2":3,"10":2,"b":1,"01":4,"a":5}"#);
    }

    #[test]
    fn control_characters_are_escaped_and_separators_are_not() {
        let value = json!("\u{0}\u{8}\u{1f}\"\\\u{2028}é");
        assert_eq!(json_text(&value), "\"\\u0000\\b\\u001f\\\"\\\\\u{2028}é\"");
    }

    #[test]
    fn length_counts_code_units_of_every_plane() {
        for text in ["", "a", "é", "数", "😀", "a😀é数\u{301}"] {
            assert_eq!(utf16_len(text), text.encode_utf16().count() as u64);
        }
    }
}
