//! Content blocks.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::record::{Extra, Key};

/// One piece of a message's content.
///
/// A block of a known type whose fields do not have the expected shape is read as [`Block::Opaque`], so nothing is refused and
/// nothing is lost.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// Plain text.
    Text(TextBlock),
    /// The model's reasoning. Signatures and the like stand in `extra`.
    Reasoning(TextBlock),
    /// A call of a tool by the model.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// A picture, a document or a sound.
    Media(MediaBlock),
    /// Any other block, carried unchanged.
    Opaque(OpaqueBlock),
}

/// A text, with whatever fields beside it the writer added.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextBlock {
    /// The text.
    pub text: String,
    /// Fields that this version does not know; written back as they came.
    pub extra: Extra,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolCall {
    /// The call's id, which its result repeats. Some providers reuse ids within a conversation.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them, usually a JSON text, valid or not.
    pub arguments: String,
    /// Fields that this version does not know; written back as they came.
    pub extra: Extra,
}

/// The answer to a tool call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The id of the call.
    pub tool_call_id: String,
    /// What the tool returned.
    pub content: Vec<Block>,
    /// Whether the tool failed; absent in some writers.
    pub is_error: Option<bool>,
    /// Fields that this version does not know; written back as they came.
    pub extra: Extra,
}

/// What kind of media a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A document such as a PDF.
    Document,
    /// A sound.
    Audio,
}

impl MediaKind {
    /// The block type under which the log keeps it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Document => "document",
            Self::Audio => "audio",
        }
    }
}

/// A picture, document or sound: a reference to an attachment or inline data, as the host wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaBlock {
    /// What it is.
    pub kind: MediaKind,
    /// Every field but `type`.
    pub fields: Map<String, Value>,
}

impl MediaBlock {
    /// The media type that the attachment states, such as `image/png`.
    pub fn media_type(&self) -> Option<&str> {
        self.fields
            .get("attachment")
            .and_then(|attachment| attachment.get("mediaType"))
            .or_else(|| self.fields.get("mediaType"))
            .and_then(Value::as_str)
    }
}

/// A block of a type that this version does not know, or of a known type with fields of another shape.
#[derive(Debug, Clone, PartialEq)]
pub struct OpaqueBlock {
    /// The whole block, `type` included.
    pub value: Value,
}

impl OpaqueBlock {
    /// The block's type, where it states one.
    pub fn kind(&self) -> Option<&str> {
        self.value.get("type").and_then(Value::as_str)
    }
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { text: text.into(), extra: Extra::default() })
    }

    /// A reasoning block.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Reasoning(TextBlock { text: text.into(), extra: Extra::default() })
    }

    /// A tool call.
    pub fn tool_call(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::ToolCall(ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            extra: Extra::default(),
        })
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// The block as a JSON value.
    pub fn to_value(&self) -> Value {
        // A block holds strings, numbers and maps with string keys only: serialisation cannot fail.
        serde_json::to_value(self).unwrap_or(Value::Null)
    }
}

/// The fields of a block while it is being read; `content` apart, because it alone nests.
#[derive(Default)]
struct Fields {
    kind: Option<Value>,
    text: Option<Value>,
    id: Option<Value>,
    name: Option<Value>,
    arguments: Option<Value>,
    tool_call_id: Option<Value>,
    is_error: Option<Value>,
    content: Option<Content>,
    other: Map<String, Value>,
}

enum Content {
    Blocks(Vec<Block>),
    Other(Value),
}

impl Fields {
    fn slot(&mut self, key: &str) -> Option<&mut Option<Value>> {
        Some(match key {
            "type" => &mut self.kind,
            "text" => &mut self.text,
            "id" => &mut self.id,
            "name" => &mut self.name,
            "arguments" => &mut self.arguments,
            "toolCallId" => &mut self.tool_call_id,
            "isError" => &mut self.is_error,
            _ => return None,
        })
    }

    fn into_block(mut self) -> Block {
        let kind = self.kind.take();
        let typed = match kind.as_ref().and_then(Value::as_str) {
            Some("text") => {
                string(&mut self.text).map(|text| Block::Text(TextBlock { text, extra: self.remaining().into() }))
            }
            Some("reasoning") => {
                string(&mut self.text).map(|text| Block::Reasoning(TextBlock { text, extra: self.remaining().into() }))
            }
            Some("tool-call") => self.tool_call(),
            Some("tool-result") => self.tool_result(),
            Some("image") => Some(self.media(MediaKind::Image)),
            Some("document") => Some(self.media(MediaKind::Document)),
            Some("audio") => Some(self.media(MediaKind::Audio)),
            _ => None,
        };
        typed.unwrap_or_else(|| {
            self.kind = kind;
            Block::Opaque(OpaqueBlock { value: Value::Object(self.remaining()) })
        })
    }

    fn tool_call(&mut self) -> Option<Block> {
        let shape = [&self.id, &self.name, &self.arguments];
        if !shape.iter().all(|field| matches!(field, Some(Value::String(_)))) {
            return None;
        }
        Some(Block::ToolCall(ToolCall {
            id: string(&mut self.id)?,
            name: string(&mut self.name)?,
            arguments: string(&mut self.arguments)?,
            extra: self.remaining().into(),
        }))
    }

    fn tool_result(&mut self) -> Option<Block> {
        let shape = matches!(self.tool_call_id, Some(Value::String(_)))
            && matches!(self.content, Some(Content::Blocks(_)))
            && matches!(self.is_error, None | Some(Value::Bool(_)));
        let Some(Content::Blocks(content)) = self.content.take_if(|_| shape) else {
            return None;
        };
        Some(Block::ToolResult(ToolResult {
            tool_call_id: string(&mut self.tool_call_id)?,
            content,
            is_error: self.is_error.take().and_then(|value| value.as_bool()),
            extra: self.remaining().into(),
        }))
    }

    fn media(&mut self, kind: MediaKind) -> Block {
        Block::Media(MediaBlock { kind, fields: self.remaining() })
    }

    /// Every field that no typed block claimed.
    fn remaining(&mut self) -> Map<String, Value> {
        let mut map = Map::new();
        for key in ["type", "text", "id", "name", "arguments", "toolCallId", "isError"] {
            if let Some(value) = self.slot(key).and_then(Option::take) {
                map.insert(key.to_owned(), value);
            }
        }
        match self.content.take() {
            Some(Content::Blocks(blocks)) => {
                map.insert("content".to_owned(), blocks.iter().map(Block::to_value).collect());
            }
            Some(Content::Other(value)) => {
                map.insert("content".to_owned(), value);
            }
            None => {}
        }
        map.append(&mut self.other);
        map
    }
}

/// Takes a string out of a slot; leaves anything else where it is.
fn string(slot: &mut Option<Value>) -> Option<String> {
    match slot.take() {
        Some(Value::String(text)) => Some(text),
        other => {
            *slot = other;
            None
        }
    }
}

/// Visits of everything that is neither a map nor a sequence, each wrapped by `$wrap`.
macro_rules! visit_scalars {
    ($out:ty, $wrap:expr) => {
        fn visit_bool<E>(self, v: bool) -> Result<$out, E> {
            Ok($wrap(v.into()))
        }
        fn visit_u64<E>(self, v: u64) -> Result<$out, E> {
            Ok($wrap(v.into()))
        }
        fn visit_i64<E>(self, v: i64) -> Result<$out, E> {
            Ok($wrap(v.into()))
        }
        fn visit_f64<E>(self, v: f64) -> Result<$out, E> {
            Ok($wrap(v.into()))
        }
        fn visit_str<E>(self, v: &str) -> Result<$out, E> {
            Ok($wrap(v.into()))
        }
        fn visit_unit<E>(self) -> Result<$out, E> {
            Ok($wrap(Value::Null))
        }
    };
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BlockVisitor;
        fn opaque(value: Value) -> Block {
            Block::Opaque(OpaqueBlock { value })
        }
        impl<'de> Visitor<'de> for BlockVisitor {
            type Value = Block;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content block")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Block, A::Error> {
                let mut fields = Fields::default();
                while let Some(Key(key)) = map.next_key()? {
                    if key == "content" {
                        fields.content = Some(map.next_value()?);
                    } else if let Some(slot) = fields.slot(&key) {
                        *slot = Some(map.next_value()?);
                    } else {
                        fields.other.insert(key.into_owned(), map.next_value()?);
                    }
                }
                Ok(fields.into_block())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Block, A::Error> {
                Value::deserialize(SeqAccessDeserializer::new(seq)).map(opaque)
            }

            visit_scalars!(Block, opaque);
        }
        deserializer.deserialize_any(BlockVisitor)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the content of a block")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Content, A::Error> {
                let mut blocks = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
                blocks.shrink_to_fit();
                Ok(Content::Blocks(blocks))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Content, A::Error> {
                Value::deserialize(MapAccessDeserializer::new(map)).map(Content::Other)
            }

            visit_scalars!(Content, Content::Other);
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = match self {
            Self::Opaque(block) => return block.value.serialize(serializer),
            _ => serializer.serialize_map(None)?,
        };
        match self {
            Self::Text(block) | Self::Reasoning(block) => {
                let kind = if matches!(self, Self::Text(_)) { "text" } else { "reasoning" };
                map.serialize_entry("type", kind)?;
                map.serialize_entry("text", &block.text)?;
                block.extra.serialize_into(&mut map, |key| matches!(key, "type" | "text"))?;
            }
            Self::ToolCall(call) => {
                map.serialize_entry("type", "tool-call")?;
                map.serialize_entry("id", &call.id)?;
                map.serialize_entry("name", &call.name)?;
                map.serialize_entry("arguments", &call.arguments)?;
                call.extra.serialize_into(&mut map, |key| matches!(key, "type" | "id" | "name" | "arguments"))?;
            }
            Self::ToolResult(result) => {
                map.serialize_entry("type", "tool-result")?;
                map.serialize_entry("toolCallId", &result.tool_call_id)?;
                map.serialize_entry("content", &result.content)?;
                if let Some(is_error) = result.is_error {
                    map.serialize_entry("isError", &is_error)?;
                }
                result.extra.serialize_into(&mut map, |key| {
                    matches!(key, "type" | "toolCallId" | "content") || (key == "isError" && result.is_error.is_some())
                })?;
            }
            Self::Media(media) => {
                map.serialize_entry("type", media.kind.as_str())?;
                for (key, value) in media.fields.iter().filter(|(key, _)| *key != "type") {
                    map.serialize_entry(key, value)?;
                }
            }
            Self::Opaque(_) => {}
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Block {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn every_shape_of_block_is_written_back_as_it_was_read() {
        let blocks = [
            json!({"type": "text", "text": "a"}),
            json!({"type": "text", "text": "a", "cache": {"kind": "ephemeral"}, "id": "x"}),
            json!({"text": "type comes last", "type": "text"}),
            json!({"type": "text", "text": 5}),
            json!({"type": "text"}),
            json!({"type": "reasoning", "text": "", "signature": "s"}),
            json!({"type": "tool-call", "id": "c", "name": "n", "arguments": "{"}),
            json!({"type": "tool-call", "id": "c", "name": "n", "arguments": {"a": 1}}),
            json!({"type": "tool-result", "toolCallId": "c", "content": [{"type": "text", "text": "x"}]}),
            json!({"type": "tool-result", "toolCallId": "c", "content": "plain", "isError": false}),
            json!({"type": "tool-result", "toolCallId": "c", "content": [], "isError": null}),
            json!({"type": "tool-result", "toolCallId": "c", "content": ["odd", 1, null, ["x"]], "isError": true}),
            json!({"type": "image", "attachment": {"mediaType": "image/png"}}),
            json!({"type": "resource", "uri": "res://x", "payload": {"n": 1.5, "o": {}}}),
            json!({"no": "type"}),
            json!({"type": 7, "content": {"a": []}}),
            json!("text"),
            json!(null),
            json!([1, 2]),
        ];
        for value in blocks {
            assert_eq!(read(&value).to_value(), value);
        }
    }

    #[test]
    fn a_known_type_of_unknown_shape_is_opaque() {
        assert!(matches!(read(&json!({"type": "text", "text": null})), Block::Opaque(_)));
        assert!(matches!(read(&json!({"type": "tool-call", "id": "c", "name": "n"})), Block::Opaque(_)));
    }
}
