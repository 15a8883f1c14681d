//! Checkpoints of other tools, in formats that do not say of a message that it is one.

use super::Checkpoint;
use crate::message::{Message, Role};

/// By which first words a tool's checkpoint is known, and the kit that follows that tool.
const FIRST_WORDS: [(&str, &str); 5] = [
    ("Another language model started to solve this problem", "codex"),
    ("This session is being continued from a previous conversation", "claude"),
    // Gemini CLI writes the same tag.
    ("<state_snapshot>", "qwen"),
    // pi. Its summary has no form of its own.
    ("The conversation history before this point was compacted", "base"),
    ("<compacted-summary>", "base"),
];

impl Checkpoint {
    /// Takes a message for a checkpoint by its first words, for importers of formats that carry no provenance. The result is
    /// marked as [guessed](Checkpoint::guessed): a person can type such words.
    ///
    /// In a session provenance alone decides (promise 6); see [`parse`](Checkpoint::parse).
    pub fn guess(message: &Message) -> Option<Self> {
        if message.role != Role::User {
            return None;
        }
        let text = message.text();
        let text = text.trim_start_matches('\u{feff}').trim();
        let (first, kit) = FIRST_WORDS.iter().find(|(first, _)| text.starts_with(first))?;
        let body = match first.strip_prefix('<') {
            // The tag is the frame; a tool may have written on behind it.
            Some(tag) => {
                let inside = text.strip_prefix(first).unwrap_or(text);
                inside.split_once(&format!("</{tag}")).map_or(inside, |(inside, _)| inside)
            }
            // The preamble is the first line.
            None => without_summary_tags(text.split_once('\n').map_or("", |(_, body)| body)),
        };
        Some(Self {
            kit: Some((*kit).to_owned()),
            body: body.trim().to_owned(),
            sections: Vec::new(),
            pinned: None,
            guessed: true,
        })
    }
}

/// What stands between the tags of a summary, where a tool puts it between some.
fn without_summary_tags(body: &str) -> &str {
    let body = body.trim();
    let inside = body.strip_prefix("<summary>").and_then(|inside| inside.strip_suffix("</summary>"));
    inside.unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Block, Source};

    #[test]
    fn checkpoints_of_other_tools_are_known_by_their_first_words_and_marked_as_guessed() {
        let cases = [
            ("Another language model started to solve this problem, and so on.\nThe parser is fixed.", "codex"),
            ("This session is being continued from a previous conversation, etc.\n\nThe parser is fixed.\n", "claude"),
            ("\u{feff}\n<state_snapshot>\nThe parser is fixed.\n</state_snapshot>\nGo on.", "qwen"),
            ("<compacted-summary>The parser is fixed.</compacted-summary>", "base"),
            ("<state_snapshot>The parser is fixed.", "qwen"),
            (
                "The conversation history before this point was compacted, etc.\n\n<summary>\nThe parser is fixed.\n</summary>",
                "base",
            ),
            ("This session is being continued from a previous conversation.\r\nThe parser is fixed.", "claude"),
        ];
        for (text, kit) in cases {
            let found = Checkpoint::guess(&Message::user("m", text)).unwrap();
            assert_eq!(
                (found.kit.as_deref(), found.body.as_str(), found.guessed),
                (Some(kit), "The parser is fixed.", true)
            );
        }
    }

    #[test]
    fn what_says_it_later_or_is_not_in_the_users_place_is_no_checkpoint() {
        let text = "Look: <state_snapshot>x</state_snapshot>";
        assert_eq!(Checkpoint::guess(&Message::user("m", text)), None);
        assert_eq!(Checkpoint::guess(&Message::user("m", "")), None);
        let answer =
            Message::assistant("a", Source::model("p", "m"), vec![Block::text("<state_snapshot>x</state_snapshot>")]);
        assert_eq!(Checkpoint::guess(&answer), None);
        assert_eq!(
            Checkpoint::parse(&Message::user("m", "<state_snapshot>x</state_snapshot>")),
            None,
            "provenance decides"
        );
    }

    #[test]
    fn words_that_come_near_are_no_checkpoint() {
        for text in [
            "another language model started to solve this problem",
            "Another language model started on this problem.\nBody",
            "This session is being continued from a branch.\nBody",
            "> This session is being continued from a previous conversation\nBody",
            "<state_snapshots>x</state_snapshots>",
            "< state_snapshot>x</state_snapshot>",
            "`<state_snapshot>` is what Qwen Code writes.",
            "<summary>\nx\n</summary>",
            "<compacted-summaries>x",
            "The conversation history was compacted.",
        ] {
            assert_eq!(Checkpoint::guess(&Message::user("m", text)), None, "{text}");
        }
    }

    #[test]
    fn a_checkpoint_without_a_body_has_an_empty_one() {
        let found =
            Checkpoint::guess(&Message::user("m", "Another language model started to solve this problem")).unwrap();
        assert_eq!(found.body, "");
    }
}
