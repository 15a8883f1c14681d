//! Facts in a text: paths, addresses, identifiers, numbers with their units. Found by one pass over the bytes.

/// What a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum FactKind {
    /// A path or an address.
    Path,
    /// A number that says something: with a unit, a decimal point, a percent sign, or of several digits.
    Number,
    /// A name of code: `snake_case`, `camelCase`, with `::`, an issue number, a version.
    Identifier,
}

/// Longest token that is still a fact and not data.
const LONGEST_FACT: usize = 100;

/// Calls `take` with every fact of a text, in order, repeats included.
pub(super) fn facts<'a>(text: &'a str, mut take: impl FnMut(FactKind, &'a str)) {
    let mut number: Option<(usize, &str)> = None;
    for (at, raw) in tokens(text) {
        let word = raw.trim_matches(|c: char| matches!(c, '.' | ':' | '!' | '?' | '*' | '#' | '~'));
        if let Some((start, before)) = number.take() {
            // "250 ms" is one fact; the unit follows after one blank.
            let joins = is_unit(word) && at == start + before.len() + 1;
            if joins && let Some(joined) = text.get(start..at + word.len()) {
                take(FactKind::Number, joined);
                continue;
            }
            if says_something(before) {
                take(FactKind::Number, before);
            }
        }
        if word.is_empty() || word.len() > LONGEST_FACT {
            continue;
        }
        if is_number(word) {
            number = Some((at + (raw.len() - raw.trim_start_matches(['.', ':', '*', '#', '~']).len()), word));
        } else if let Some(kind) = kind_of(word) {
            take(kind, word);
        }
    }
    if let Some((_, before)) = number.filter(|(_, number)| says_something(number)) {
        take(FactKind::Number, before);
    }
}

/// The parts of a text between blanks, quotes, brackets and the like, with where they begin.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at).is_some_and(|byte| is_separator(*byte)) {
            at += 1;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| !is_separator(*byte)) {
            at += 1;
        }
        text.get(start..at).filter(|token| !token.is_empty()).map(|token| (start, token))
    })
}

fn is_separator(byte: u8) -> bool {
    matches!(
        byte,
        0..=b' '
            | b'"'
            | b'\''
            | b'('
            | b')'
            | b'['
            | b']'
            | b'{'
            | b'}'
            | b'<'
            | b'>'
            | b','
            | b';'
            | b'`'
            | b'|'
            | b'='
            | b'\\'
    )
}

fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+', '$', '£']).trim_end_matches('%');
    digits.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b':' | b'-' | b'/'))
}

/// Small bare numbers are list marks and counts; they mean nothing without what stands around them.
fn says_something(number: &str) -> bool {
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    digits >= 3 || number.ends_with('%') || (digits >= 2 && number.contains(['.', ':', '$']))
}

const UNITS: &[&str] = &[
    "%",
    "b",
    "kb",
    "mb",
    "gb",
    "tb",
    "kib",
    "mib",
    "gib",
    "bytes",
    "byte",
    "chars",
    "characters",
    "lines",
    "rows",
    "tokens",
    "ns",
    "us",
    "µs",
    "ms",
    "s",
    "sec",
    "seconds",
    "second",
    "min",
    "minutes",
    "minute",
    "h",
    "hours",
    "hour",
    "days",
    "day",
    "weeks",
    "months",
    "years",
    "m",
    "cm",
    "mm",
    "km",
    "kg",
    "g",
    "hz",
    "khz",
    "mhz",
    "ghz",
    "rps",
    "qps",
    "req/s",
    "px",
    "eur",
    "usd",
    "€",
    "requests",
    "retries",
    "attempts",
    "times",
    "users",
    "nodes",
    "threads",
    "workers",
    "connections",
    "items",
    "percent",
    "v",
    "w",
    "°c",
    "k",
    "cpus",
    "cores",
    "replicas",
    "shards",
    "mbit",
    "gbit",
];

fn is_unit(word: &str) -> bool {
    word.len() <= 12 && UNITS.iter().any(|unit| word.eq_ignore_ascii_case(unit))
}

fn kind_of(word: &str) -> Option<FactKind> {
    let bytes = word.as_bytes();
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    if letters == 0 {
        return None;
    }
    if word.contains("://") || is_path(word) {
        return Some(FactKind::Path);
    }
    if is_identifier(word) {
        return Some(FactKind::Identifier);
    }
    // "250ms", "3.5GB", "v2.1"
    let has_digit = bytes.iter().any(u8::is_ascii_digit);
    let number_first = bytes.first().is_some_and(u8::is_ascii_digit) || word.starts_with(['-', '+', '$']);
    if has_digit && number_first && word.len() <= 16 {
        return Some(FactKind::Number);
    }
    (has_digit && letters >= 1 && word.len() >= 4 && word.is_ascii()).then_some(FactKind::Identifier)
}

/// Endings that make a file of a word; others are methods and fields.
const EXTENSIONS: &[&str] = &[
    "rs", "toml", "md", "py", "ts", "tsx", "js", "jsx", "mjs", "json", "jsonl", "csv", "log", "sql", "yml", "yaml",
    "sh", "txt", "html", "css", "go", "java", "kt", "c", "h", "cc", "cpp", "hpp", "cs", "rb", "php", "swift", "lock",
    "xml", "proto", "ini", "cfg", "conf", "env", "pdf", "png", "jpg", "svg", "zip", "gz", "ipynb", "vue", "lua", "zig",
    "ex", "exs", "scala", "tf", "bak", "l5x",
];

fn is_path(word: &str) -> bool {
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-' | b'~' | b'*' | b':' | b'@' | b'+')
    };
    if !word.bytes().all(|byte| plain(byte) || !byte.is_ascii()) {
        return false;
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.split(':').next().unwrap_or(name);
    let extension = name.rsplit_once('.').map(|(stem, extension)| (stem.len(), extension));
    let has_extension = extension.is_some_and(|(stem, extension)| {
        stem >= 1 && EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
    });
    let slashes = word.bytes().filter(|byte| *byte == b'/').count();
    match slashes {
        0 => has_extension && name.bytes().any(|byte| byte.is_ascii_alphabetic()) && !name.contains(".."),
        1 => has_extension || word.starts_with(['/', '~', '.']) || word.ends_with('/'),
        _ => true,
    }
}

fn is_identifier(word: &str) -> bool {
    let bytes = word.as_bytes();
    if !bytes
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-' | b'.' | b'!' | b'$' | b'/'))
    {
        return false;
    }
    let inner = bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default();
    let snake = inner.contains(&b'_');
    let path = word.contains("::");
    let camel = bytes.windows(2).any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()));
    // "NB01", "TW-118", "E0631"
    let code = word.len() >= 3
        && bytes.first().is_some_and(u8::is_ascii_uppercase)
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'-');
    let flag = word.starts_with("--") && word.len() > 3;
    snake || path || camel || code || flag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(FactKind, &str)> {
        let mut found = Vec::new();
        facts(text, |kind, fact| found.push((kind, fact)));
        found
    }

    #[test]
    fn facts_are_told_from_words() {
        use FactKind::{Identifier, Number, Path};
        let cases: [(&str, &[(FactKind, &str)]); 12] = [
            ("keep p95 under 250 ms, please", &[(Number, "250 ms")]),
            ("see src/frame.rs:30 and `docs/`.", &[(Path, "src/frame.rs:30"), (Path, "docs/")]),
            ("call parse_frame() or Dedup::forget", &[(Identifier, "parse_frame"), (Identifier, "Dedup::forget")]),
            ("error[E0631] in fooBar", &[(Identifier, "E0631"), (Identifier, "fooBar")]),
            ("https://example.org/a?b=1", &[(Path, "https://example.org/a?b")]),
            ("1. first 2. second", &[]),
            ("95 % of 12,5", &[(Number, "95 %")]),
            ("limit=3 retries", &[(Number, "3 retries")]),
            ("at 10:45 on 2026-01-02", &[(Number, "10:45"), (Number, "2026-01-02")]),
            ("e.g. this, i.e. that. And so on...", &[]),
            ("3.5GB and 12ms", &[(Number, "3.5GB"), (Number, "12ms")]),
            ("TW-118 with --dry-run", &[(Identifier, "TW-118"), (Identifier, "--dry-run")]),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
