//! What a request to Anthropic may weigh: the sides of its pictures, and its bytes.

use serde_json::{Value, json};

use super::report::{Change, ExportReport};
use super::validate::image::pixels;
use crate::message::json::json_bytes;
use crate::session::Seq;

/// Longest side of a picture, in pixels.
pub(super) const MOST_SIDE_PIXELS: u32 = 8_000;
/// Longest side of a picture where there are more than [`MANY_IMAGES`].
pub(super) const MOST_SIDE_PIXELS_OF_MANY: u32 = 2_000;
/// Pictures up to which each may have the longer sides.
pub(super) const MANY_IMAGES: usize = 20;
/// Bytes of a request, less what the host adds beside the conversation: model, limits, tools.
const MOST_BYTES: usize = 31_000_000;

/// Replaces pictures and documents that the API would refuse by marks: those with too long a side, and then the oldest until the
/// conversation is small enough. `fixed_bytes` is what stands beside the messages.
pub(super) fn keep_limits(
    messages: &mut [(Seq, &'static str, Vec<Value>)],
    fixed_bytes: usize,
    report: &mut ExportReport,
) {
    let bytes: usize = messages.iter().flat_map(|(_, _, content)| content).map(json_bytes).sum();
    let mut media: Vec<(Seq, &mut Value)> = Vec::new();
    for (seq, _, content) in messages {
        for block in content {
            collect(*seq, block, &mut media);
        }
    }
    let pictures = media.iter().filter(|(_, block)| kind_of(block) == "image").count();
    let longest = if pictures > MANY_IMAGES { MOST_SIDE_PIXELS_OF_MANY } else { MOST_SIDE_PIXELS };
    let mut left = bytes.saturating_add(fixed_bytes);
    for (seq, block) in media {
        let size = data_of(block).and_then(pixels);
        let is_too_long = size.is_some_and(|(width, height)| width.max(height) > longest);
        if is_too_long || left > MOST_BYTES {
            left = left.saturating_sub(json_bytes(block));
            *block = json!({ "type": "text", "text": format!("[{} omitted]", kind_of(block)) });
            report.note(Change::MediaReplaced, seq);
        }
    }
}

fn kind_of(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn data_of(block: &Value) -> Option<&str> {
    block.get("source")?.get("data")?.as_str()
}

/// The pictures and documents of a block, those within a result included.
fn collect<'v>(seq: Seq, block: &'v mut Value, media: &mut Vec<(Seq, &'v mut Value)>) {
    match kind_of(block) {
        "image" | "document" => media.push((seq, block)),
        "tool_result" => {
            for inner in block.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
                collect(seq, inner, media);
            }
        }
        _ => {}
    }
}
