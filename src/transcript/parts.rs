//! What several formats share: media in their spellings, tool definitions, times, and JSON taken apart without a copy.

use serde_json::{Map, Value, json};

use crate::message::{Block, Extra, MediaBlock, MediaKind, TextBlock};

/// An object of the given fields. Unlike `json!` it takes what it is given and copies nothing.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Takes a string out of an object.
pub(super) fn take_text(map: &mut Map<String, Value>, key: &str) -> Option<String> {
    match map.get_mut(key) {
        Some(Value::String(text)) => {
            let text = std::mem::take(text);
            map.shift_remove(key);
            Some(text)
        }
        _ => None,
    }
}

/// Takes a list out of an object.
pub(super) fn take_list(map: &mut Map<String, Value>, key: &str) -> Option<Vec<Value>> {
    match map.get_mut(key) {
        Some(Value::Array(items)) => {
            let items = std::mem::take(items);
            map.shift_remove(key);
            Some(items)
        }
        _ => None,
    }
}

/// Takes an object out of an object.
pub(super) fn take_map(map: &mut Map<String, Value>, key: &str) -> Option<Map<String, Value>> {
    match map.get_mut(key) {
        Some(Value::Object(inner)) => {
            let inner = std::mem::take(inner);
            map.shift_remove(key);
            Some(inner)
        }
        _ => None,
    }
}

/// Fields beside those that were taken, kept for the API that wrote them.
pub(super) fn extra_of(api: &str, mut rest: Map<String, Value>) -> Extra {
    rest.retain(|_, value| !value.is_null());
    let mut extra = Extra::default();
    if !rest.is_empty() {
        extra.insert(api, Value::Object(rest));
    }
    extra
}

/// The fields that an API keeps in an extra.
pub(super) fn fields_for<'a>(extra: &'a Extra, api: &str) -> Option<&'a Map<String, Value>> {
    extra.get(api)?.as_object()
}

/// Adds the fields that an API keeps in an extra to an object, after its own.
pub(super) fn restore_fields(map: &mut Map<String, Value>, extra: &Extra, api: &str) {
    restore_but(map, extra, api, |_| false);
}

/// As [`restore_fields`], but for the fields that the writer alone answers for: what a reader could not make sense of there is not
/// written back. Whether there was such a field.
pub(super) fn restore_but(
    map: &mut Map<String, Value>,
    extra: &Extra,
    api: &str,
    is_own: impl Fn(&str) -> bool,
) -> bool {
    let mut leaves_out = false;
    for (key, value) in fields_for(extra, api).into_iter().flatten() {
        if is_own(key) {
            leaves_out |= map.get(key) != Some(value);
        } else if !map.contains_key(key) {
            map.insert(key.clone(), value.clone());
        }
    }
    leaves_out
}

/// A text block with the fields that its API has beside the text.
pub(super) fn text_block(text: String, api: &str, rest: Map<String, Value>) -> Block {
    Block::Text(TextBlock { text, extra: extra_of(api, rest) })
}

/// A reasoning block with the fields that its API has beside the text.
pub(super) fn reasoning_block(text: String, api: &str, rest: Map<String, Value>) -> Block {
    Block::Reasoning(TextBlock { text, extra: extra_of(api, rest) })
}

/// The texts of a system prompt, and whether there was more: fields beside a text, or what is no text.
pub(super) fn system_texts(content: &[Block]) -> (Vec<&str>, bool) {
    let has_more = |block: &Block| !matches!(block, Block::Text(text) if text.extra.is_empty());
    (content.iter().filter_map(Block::as_text).collect(), content.iter().any(has_more))
}

fn kind_of_media_type(media_type: Option<&str>) -> MediaKind {
    match media_type.and_then(|kind| kind.split('/').next()) {
        Some("audio") => MediaKind::Audio,
        Some("image") | None => MediaKind::Image,
        Some(_) => MediaKind::Document,
    }
}

/// Media of which a format says the data.
pub(super) fn media_of_data(media_type: Option<String>, data: String, rest: &Extra) -> Block {
    let kind = kind_of_media_type(media_type.as_deref());
    let mut fields = Map::new();
    if let Some(media_type) = media_type {
        fields.insert("mediaType".into(), media_type.into());
    }
    fields.insert("data".into(), data.into());
    fields.extend(rest.iter().map(|(key, value)| (key.clone(), value.clone())));
    Block::Media(MediaBlock { kind, fields })
}

/// Media of which a format says the address, which may hold the data itself. `kind` stands where the address tells no type.
pub(super) fn media_of_url(mut url: String, media_type: Option<String>, kind: MediaKind, rest: &Extra) -> Block {
    let inline = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
        .filter(|(kind, _)| !kind.is_empty() && !kind.contains([';', ',']))
        .map(|(kind, _)| (kind.to_owned(), "data:".len() + kind.len() + ";base64,".len()));
    if let Some((media_type, prefix)) = inline {
        url.drain(..prefix);
        return media_of_data(Some(media_type), url, rest);
    }
    let kind = if media_type.is_some() { kind_of_media_type(media_type.as_deref()) } else { kind };
    let mut fields = Map::new();
    if let Some(media_type) = media_type {
        fields.insert("mediaType".into(), media_type.into());
    }
    fields.insert("url".into(), url.into());
    fields.extend(rest.iter().map(|(key, value)| (key.clone(), value.clone())));
    Block::Media(MediaBlock { kind, fields })
}

/// What an export can do with a media block.
pub(super) enum MediaRef<'a> {
    Data { media_type: &'a str, data: &'a str },
    Url { url: &'a str, media_type: Option<&'a str> },
}

/// The data or address of a media block, where it has one that any API can be given.
pub(super) fn media_ref(media: &MediaBlock) -> Option<MediaRef<'_>> {
    let text = |key: &str| media.fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (text("data"), text("url")) {
        (Some(data), _) => Some(MediaRef::Data { media_type: media.media_type()?, data }),
        (None, Some(url)) => Some(MediaRef::Url { url, media_type: media.media_type() }),
        _ => None,
    }
}

/// The address form of a media block: a data URL where it holds the data.
pub(super) fn media_url(media: &MediaBlock) -> Option<String> {
    Some(match media_ref(media)? {
        MediaRef::Data { media_type, data } => format!("data:{media_type};base64,{data}"),
        MediaRef::Url { url, .. } => url.to_owned(),
    })
}

/// The fields that an API keeps in a media block.
pub(super) fn media_fields<'a>(media: &'a MediaBlock, api: &str) -> Option<&'a Map<String, Value>> {
    media.fields.get(api)?.as_object()
}

/// What stands for media that a target does not take.
pub(super) fn media_marker(media: &MediaBlock) -> String {
    match media.media_type() {
        Some(media_type) => format!("[{} omitted: {media_type}]", media.kind.as_str()),
        None => format!("[{} omitted]", media.kind.as_str()),
    }
}

/// Tool definitions in the form in which a session keeps them: `{name, description, parameters}`.
///
/// What is no function, such as a search that the provider runs itself, stays as it is.
pub(super) fn read_tools(tools: Vec<Value>) -> Vec<Value> {
    let mut read = Vec::with_capacity(tools.len());
    for tool in tools {
        let Value::Object(mut map) = tool else { continue };
        if let Some(declarations) = take_list(&mut map, "functionDeclarations") {
            read.extend(read_tools(declarations));
            continue;
        }
        let kind = map.get("type").and_then(Value::as_str).unwrap_or("function").to_owned();
        let is_function = kind == "function" || (kind == "custom" && map.contains_key("input_schema"));
        if !is_function {
            read.push(Value::Object(map));
            continue;
        }
        map.shift_remove("type");
        if let Some(mut function) = take_map(&mut map, "function") {
            function.extend(map);
            read.push(Value::Object(function));
            continue;
        }
        let mut tool = Map::new();
        for (key, value) in map {
            let key = match key.as_str() {
                "input_schema" | "parametersJsonSchema" => "parameters".to_owned(),
                _ => key,
            };
            tool.insert(key, value);
        }
        read.push(Value::Object(tool));
    }
    read
}

/// How an API spells a tool definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolSpelling {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

/// Tool definitions as an API spells them; those that are no functions are left to the API that wrote them.
pub(super) fn write_tools(tools: &[Value], spelling: ToolSpelling) -> Option<Value> {
    let mut written = Vec::new();
    for tool in tools {
        let Some(map) = tool.as_object() else { continue };
        let is_function = map.get("name").is_some() && map.get("type").is_none();
        if !is_function {
            if matches!(spelling, ToolSpelling::Responses | ToolSpelling::Anthropic) {
                written.push(tool.clone());
            }
            continue;
        }
        written.push(match spelling {
            ToolSpelling::Chat => json!({ "type": "function", "function": map }),
            ToolSpelling::Responses => {
                let mut out = Map::from_iter([("type".to_owned(), "function".into())]);
                out.extend(map.clone());
                Value::Object(out)
            }
            ToolSpelling::Anthropic => {
                let rename = |key: &String| if key == "parameters" { "input_schema".to_owned() } else { key.clone() };
                let mut out: Map<String, Value> = map.iter().map(|(key, value)| (rename(key), value.clone())).collect();
                out.entry("input_schema").or_insert_with(|| json!({ "type": "object" }));
                Value::Object(out)
            }
            ToolSpelling::Gemini => Value::Object(
                map.iter()
                    .filter(|(key, _)| matches!(key.as_str(), "name" | "description" | "parameters"))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            ),
        });
    }
    if written.is_empty() {
        return None;
    }
    Some(match spelling {
        ToolSpelling::Gemini => json!([{ "functionDeclarations": written }]),
        _ => Value::Array(written),
    })
}

/// Milliseconds since the epoch of an RFC 3339 time, or of a number of seconds, milliseconds or microseconds.
pub(super) fn time_ms(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => rfc3339_ms(text),
        #[allow(clippy::cast_possible_truncation, reason = "the bounds are checked")]
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| number.is_finite() && *number >= 0.0)?;
            match number {
                seconds if seconds < 1e11 => Some((seconds * 1e3) as i64),
                millis if millis < 1e14 => Some(millis as i64),
                micros if micros < 1e17 => Some((micros / 1e3) as i64),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Milliseconds since the epoch of an RFC 3339 time. A time without a zone is taken for UTC.
pub(super) fn rfc3339_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let separators = [(4, b"-"), (7, b"-"), (13, b":"), (16, b":")];
    if separators.iter().any(|(at, byte)| bytes.get(*at..at + 1) != Some(*byte)) {
        return None;
    }
    if !matches!(bytes.get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = text.get(19..)?;
    let fraction: String = rest.strip_prefix('.').map(digits_of).unwrap_or_default();
    let zone = rest.get(if fraction.is_empty() { 0 } else { fraction.len() + 1 }..)?;
    let millis: i64 = format!("{:0<3}", fraction).get(..3)?.parse().ok()?;
    let offset_minutes = match zone.as_bytes() {
        [] | [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), ..] => {
            let (hours, minutes) = (zone.get(1..3)?.parse::<i64>().ok()?, zone.get(4..6)?.parse::<i64>().ok()?);
            let offset = hours * 60 + minutes;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    // Days since the epoch by the civil calendar, with years that begin in March.
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some((((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second) * 1_000 + millis)
}

fn digits_of(text: &str) -> String {
    text.chars().take_while(char::is_ascii_digit).collect()
}

/// An RFC 3339 time in UTC, with milliseconds.
pub(super) fn rfc3339(ms: i64) -> String {
    let days = ms.div_euclid(86_400_000);
    let of_day = ms.rem_euclid(86_400_000);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millis) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_every_spelling_and_zone() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-08-17T13:00:00.000Z", Some(1_786_971_600_000)),
            ("2026-08-17T15:00:00+02:00", Some(1_786_971_600_000)),
            ("2024-02-29T23:59:59.5Z", Some(1_709_251_199_500)),
            ("2025-01-27T22:44:56.900854", Some(1_738_017_896_900)),
            ("2026-13-01T00:00:00Z", None),
            ("yesterday", None),
            ("2026-08-17T13:00:00.000Zé", None),
            ("…-…-…T…:…", None),
        ] {
            assert_eq!(rfc3339_ms(text), expected, "{text}");
        }
        assert_eq!(time_ms(&json!(1_786_971_600_000_i64)), Some(1_786_971_600_000));
        assert_eq!(time_ms(&json!(1_786_971_600)), Some(1_786_971_600_000));
    }

    #[test]
    fn tools_of_every_api_read_alike_and_are_written_back() {
        let schema = json!({ "type": "object", "properties": {} });
        let neutral = json!({ "name": "read", "description": "Reads.", "parameters": schema });
        for (spelling, tools) in [
            (ToolSpelling::Chat, json!([{ "type": "function", "function": neutral }])),
            (
                ToolSpelling::Responses,
                json!([{ "type": "function", "name": "read", "description": "Reads.", "parameters": schema }]),
            ),
            (ToolSpelling::Anthropic, json!([{ "name": "read", "description": "Reads.", "input_schema": schema }])),
            (ToolSpelling::Gemini, json!([{ "functionDeclarations": [neutral] }])),
        ] {
            let read = read_tools(tools.as_array().unwrap().clone());
            assert_eq!(read, std::slice::from_ref(&neutral), "{spelling:?}");
            assert_eq!(write_tools(&read, spelling), Some(tools));
        }
    }

    proptest! {
        #[test]
        fn a_time_that_is_written_reads_back(ms in 0_i64..4_102_444_800_000) {
            prop_assert_eq!(rfc3339_ms(&rfc3339(ms)), Some(ms));
        }

        #[test]
        fn no_text_is_too_odd_for_a_time(text in "\\PC{0,30}") {
            let _ = rfc3339_ms(&text);
        }
    }
}
