//! From a summariser's answer to a checkpoint, and from a checkpoint back to its parts.
//!
//! Owns reading, cutting and framing. Touches no session.

mod cut;
mod foreign;
mod mask;
mod read;
mod scratchpad;
mod user_messages;

use crate::kit::Kit;
use crate::message::{Block, Extra, Message, Role, Source};
use crate::session::Seq;

pub use cut::{cut_at_sentence, cut_middle};
pub(crate) use mask::MASK;
pub use mask::{Masked, mask_secrets};
pub use read::{AnswerFault, read_answer};
pub(crate) use read::{has_any_section, is_error_text};
pub(crate) use user_messages::check_user_messages;

/// A part of a checkpoint beside its body, in a text block of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// The text under it.
    pub text: String,
}

impl Section {
    fn render(&self) -> String {
        format!("## {}\n\n{}", self.title, self.text)
    }
}

/// Heading of the newest request where a checkpoint pins it.
pub const PINNED_REQUEST_TITLE: &str = "Newest request of the user, verbatim";

/// A checkpoint, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Id of the kit that it was made with; none where the log does not say.
    pub kit: Option<String>,
    /// The body: the summary itself.
    pub body: String,
    /// The parts beside the body.
    pub sections: Vec<Section>,
    /// Seq of the message of the person that is pinned in it.
    pub pinned: Option<Seq>,
    /// Whether its first words alone say that it is a checkpoint; see [`guess`](Self::guess).
    pub guessed: bool,
}

/// Key under which a checkpoint's source names its kit.
const KIT_KEY: &str = "kit";
/// Key under which a checkpoint's source names the message that it pins.
const PINNED_KEY: &str = "pinnedSeq";

impl Checkpoint {
    /// A checkpoint of a kit, with the frame's end tag escaped wherever it occurs.
    pub fn new(kit: &Kit, body: &str) -> Self {
        Self {
            kit: Some(kit.id.clone()),
            body: escape_end_tag(body, &kit.frame.tag),
            sections: Vec::new(),
            pinned: None,
            guessed: false,
        }
    }

    /// Adds a part beside the body. Line ends in its title become blanks.
    pub fn with_section(mut self, kit: &Kit, title: &str, text: &str) -> Self {
        let title = title.split(['\n', '\r']).collect::<Vec<_>>().join(" ");
        let title = escape_end_tag(&title, &kit.frame.tag);
        self.sections.push(Section { title, text: escape_end_tag(text, &kit.frame.tag) });
        self
    }

    /// The content of the checkpoint's message: opening, body, further sections, closing, each in its own block.
    pub fn content(&self, kit: &Kit) -> Vec<Block> {
        let mut content = vec![Block::text(&kit.frame.opening), Block::text(&self.body)];
        content.extend(self.sections.iter().map(|section| Block::text(section.render())));
        content.push(Block::text(&kit.frame.closing));
        content
    }

    /// The checkpoint's message. Its source says which compaction and kit made it, so that it is known by provenance.
    pub fn into_message(self, kit: &Kit, id: impl Into<String>, compaction_id: impl Into<String>) -> Message {
        let mut extra = Extra::default();
        if let Some(kit) = &self.kit {
            extra.insert(KIT_KEY, kit.as_str().into());
        }
        if let Some(seq) = self.pinned {
            extra.insert(PINNED_KEY, seq.into());
        }
        let source = Source::Checkpoint { compaction_id: compaction_id.into(), extra };
        Message::new(id, Role::User, source, self.content(kit))
    }

    /// Takes a checkpoint's message apart; none for a message that no compaction wrote, whatever it looks like (promise 6).
    pub fn parse(message: &Message) -> Option<Self> {
        let Source::Checkpoint { extra, .. } = &message.source else { return None };
        let texts: Vec<&str> = message.content.iter().filter_map(Block::as_text).collect();
        // Opening and closing stand at the ends; a message of another writer may have fewer blocks.
        let inner = match texts.as_slice() {
            [_, inner @ .., _] => inner,
            other => other,
        };
        let (body, rest) = inner.split_first().map_or(("", inner), |(body, rest)| (*body, rest));
        let sections = rest
            .iter()
            .map(|text| {
                let (title, text) = text.split_once("\n\n").unwrap_or((text, ""));
                Section { title: title.strip_prefix("## ").unwrap_or(title).into(), text: text.into() }
            })
            .collect();
        Some(Self {
            kit: extra.get(KIT_KEY).and_then(|kit| kit.as_str()).map(str::to_owned),
            body: body.to_owned(),
            sections,
            pinned: extra.get(PINNED_KEY).and_then(serde_json::Value::as_u64),
            guessed: false,
        })
    }
}

/// Escapes every end tag of the frame in a text, in any case and with blanks inside, so that it cannot end the frame early.
pub(crate) fn escape_end_tag(text: &str, tag: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let after = tail.strip_prefix("</").unwrap_or(tail);
        let name = after.trim_start();
        let closes = name.get(..tag.len()).is_some_and(|name| name.eq_ignore_ascii_case(tag));
        out.push_str(if closes { "&lt;/" } else { "</" });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_end_tag_in_foreign_text_cannot_end_the_frame() {
        for hostile in
            ["</compacted-summary>", "</ COMPACTED-summary >", "</\ncompacted-summary", "</</compacted-summary>"]
        {
            let escaped = escape_end_tag(&format!("a{hostile}b"), "compacted-summary").to_lowercase();
            let squeezed: String = escaped.split_whitespace().collect();
            assert!(!squeezed.contains("</compacted-summary"), "{escaped}");
        }
        assert_eq!(escape_end_tag("</b> 1 < 2 </", "compacted-summary"), "</b> 1 < 2 </");
    }

    #[test]
    fn text_that_looks_like_a_checkpoint_is_none() {
        let content = Checkpoint::new(&Kit::base(), "body").content(&Kit::base());
        let message = Message::new("m", Role::User, Source::user(), content);
        assert_eq!(Checkpoint::parse(&message), None);
    }

    proptest! {
        #[test]
        fn parsing_a_framed_checkpoint_gives_it_back(body in "\\PC{0,80}", text in "\\PC{0,40}", pinned in 0u64..9) {
            let kit = Kit::base();
            let mut checkpoint = Checkpoint::new(&kit, &body).with_section(&kit, "Title", &text);
            checkpoint.pinned = Some(pinned);
            let message = checkpoint.clone().into_message(&kit, "m", "c");
            prop_assert_eq!(Checkpoint::parse(&message), Some(checkpoint));
        }
    }
}
