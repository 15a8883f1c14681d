//! What messages and request headers cost.

use std::sync::Arc;

use super::counter::TokenCounter;
use crate::message::json::json_text;
use crate::message::{Block, MediaBlock, MediaKind, Message};
use crate::session::RequestHeader;

/// Tokens that every block and every message cost beside their text, for the markers around them: the harness's figure.
const OVERHEAD_TOKENS: u64 = 4;

/// The sum of prices. Counters and media prices are the host's, so a sum may leave the range; it then stays at the end.
pub(crate) fn total(prices: impl Iterator<Item = u64>) -> u64 {
    prices.fold(0, u64::saturating_add)
}

/// What pictures, documents and sounds cost. Models bill them by rules of their own, never as the text of their encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MediaPricing {
    /// The harness's way: the JSON text of the block, which in its logs is a short reference and no encoded picture.
    AsJson,
    /// A flat price each.
    Flat {
        /// Tokens of a picture.
        image_tokens: u64,
        /// Tokens of a document.
        document_tokens: u64,
        /// Tokens of a sound.
        audio_tokens: u64,
    },
}

impl Default for MediaPricing {
    /// 1,600 tokens a picture, which is what Qwen Code assumes; as much for a sound, and three times that for a document,
    /// which has pages.
    fn default() -> Self {
        Self::Flat { image_tokens: 1_600, document_tokens: 4_800, audio_tokens: 1_600 }
    }
}

/// A counter and the rules by which messages are priced with it.
#[derive(Clone)]
pub struct Pricing {
    counter: Arc<dyn TokenCounter>,
    media: MediaPricing,
}

impl std::fmt::Debug for Pricing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pricing").field("counter", &self.counter.name()).field("media", &self.media).finish()
    }
}

impl Pricing {
    /// Pricing by a counter, with media priced by `media`.
    pub fn new(counter: Arc<dyn TokenCounter>, media: MediaPricing) -> Self {
        Self { counter, media }
    }

    /// The harness's pricing, number for number.
    pub fn harness() -> Self {
        Self::new(Arc::new(super::HarnessHeuristic), MediaPricing::AsJson)
    }

    /// The counter.
    pub fn counter(&self) -> &Arc<dyn TokenCounter> {
        &self.counter
    }

    /// Tokens of a text, without overhead.
    pub fn text(&self, text: &str) -> u64 {
        self.counter.count(text)
    }

    /// Tokens of a text block.
    pub fn text_block(&self, text: &str) -> u64 {
        self.text(text).saturating_add(OVERHEAD_TOKENS)
    }

    /// Tokens of a block.
    pub fn block(&self, block: &Block) -> u64 {
        let content = match block {
            Block::Text(text) | Block::Reasoning(text) => self.text(&text.text),
            Block::ToolCall(call) => self.text(&call.name).saturating_add(self.text(&call.arguments)),
            Block::ToolResult(result) => self.blocks(&result.content),
            Block::Media(media) => self.media(media),
            Block::Opaque(opaque) => self.text(&json_text(&opaque.value)),
        };
        content.saturating_add(OVERHEAD_TOKENS)
    }

    /// Tokens of a message with this content; nothing when there is no content, for then there is no message.
    pub fn content(&self, content: &[Block]) -> u64 {
        if content.is_empty() { 0 } else { self.blocks(content).saturating_add(OVERHEAD_TOKENS) }
    }

    /// Tokens of a message.
    pub fn message(&self, message: &Message) -> u64 {
        self.blocks(&message.content).saturating_add(OVERHEAD_TOKENS)
    }

    /// Tokens of a request header: system prompt and tools. Sampling settings cost nothing.
    pub fn header(&self, header: &RequestHeader) -> u64 {
        let system = header.system.as_deref().filter(|system| !system.is_empty());
        let tools = header.tools.as_ref().filter(|tools| !tools.is_empty());
        let tools_text = tools.map(|tools| {
            let items: Vec<String> = tools.iter().map(json_text).collect();
            format!("[{}]", items.join(","))
        });
        let system = system.map_or(0, |system| self.text_block(system));
        system.saturating_add(tools_text.map_or(0, |text| self.text_block(&text)))
    }

    fn blocks(&self, blocks: &[Block]) -> u64 {
        total(blocks.iter().map(|block| self.block(block)))
    }

    fn media(&self, media: &MediaBlock) -> u64 {
        match (self.media, media.kind) {
            (MediaPricing::AsJson, _) => self.text(&json_text(&Block::Media(media.clone()).to_value())),
            (MediaPricing::Flat { image_tokens, .. }, MediaKind::Image) => image_tokens,
            (MediaPricing::Flat { document_tokens, .. }, MediaKind::Document) => document_tokens,
            (MediaPricing::Flat { audio_tokens, .. }, MediaKind::Audio) => audio_tokens,
        }
    }
}
