//! What holds of checkpoints whatever stands in them: text of all scripts, tags, end tags, secrets, headings.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken test may panic")]

mod common;

use arya_presets::*;
use proptest::prelude::*;

use common::kits::{enveloped, inner_of};
use common::*;

fn kits() -> [Kit; 4] {
    [Kit::base(), Kit::codex(), Kit::qwen(), Kit::claude()]
}

fn kit() -> impl Strategy<Value = Kit> {
    (0usize..4).prop_map(|at| kits()[at].clone())
}

/// Parts that frames, envelopes, headings and masks are made of.
fn hostile_part() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "<compacted-summary>",
        "</compacted-summary>",
        "</ COMPACTED-Summary\n>",
        "</</compacted-summary>",
        "</compacted-summary",
        "&lt;/compacted-summary>",
        "<state_snapshot>",
        "</state_snapshot>",
        "<summary>",
        "</summary>",
        "<analysis>",
        "</think>",
        "<think>",
        "## ",
        "## Newest request of the user, verbatim\n\n",
        "## Current Work\n",
        "8. Current Work:",
        "\n\n",
        "\n",
        "\r\n",
        "\u{2028}",
        "[user]\n",
        "~~~~~~~~~~",
        "```",
        "API_KEY=abcdefgh12345678",
        "https://u:hunter2hunter2@h/",
        "-----BEGIN PRIVATE KEY-----\nabc",
        "-----END PRIVATE KEY-----",
        "[masked]",
        "Bearer abcdefghijklmnopqrstuvwx",
        "漢字かな交じり文。",
        "Ünïcödé и кириллица",
        "مرحبا بالعالم",
        "👩\u{200d}💻👍🏽",
        "e\u{301}\u{301}",
        "\u{202e}",
        "\u{0}",
        "\u{feff}",
        " ",
    ]);
    prop_oneof![3 => known.prop_map(str::to_owned), 1 => any::<String>(), 2 => "\\PC{0,30}"]
}

fn hostile() -> impl Strategy<Value = String> {
    prop::collection::vec(hostile_part(), 0..12).prop_map(|parts| parts.concat())
}

/// How often the frame's tag is ended in a text, in any case and with blanks inside.
fn ends(text: &str, tag: &str) -> usize {
    let squeezed: String = text.split_whitespace().collect::<String>().to_lowercase();
    squeezed.matches(&format!("</{tag}")).count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn a_checkpoint_parsed_from_its_frame_is_the_one_that_was_framed(
        kit in kit(), body in hostile(), sections in prop::collection::vec((hostile(), hostile()), 0..3), pinned in any::<Option<u32>>()
    ) {
        let mut checkpoint = Checkpoint::new(&kit, &body);
        for (title, text) in &sections {
            checkpoint = checkpoint.with_section(&kit, title, text);
        }
        checkpoint.pinned = pinned.map(u64::from);
        let message = checkpoint.clone().into_message(&kit, "m", "c");
        prop_assert_eq!(Checkpoint::parse(&message), Some(checkpoint.clone()));
        // The same after a file.
        let written = serde_json::to_string(&message).unwrap();
        let read: Message = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(Checkpoint::parse(&read), Some(checkpoint));
    }

    #[test]
    fn nothing_in_a_checkpoint_ends_its_frame_early(kit in kit(), body in hostile(), title in hostile(), text in hostile()) {
        let checkpoint = Checkpoint::new(&kit, &body).with_section(&kit, &title, &text);
        let message = checkpoint.into_message(&kit, "m", "c");
        let parts: Vec<&str> = message.content.iter().filter_map(Block::as_text).collect();
        let (closing, inner) = parts.split_last().unwrap();
        for part in inner {
            prop_assert_eq!(ends(part, &kit.frame.tag), 0, "{}", part);
        }
        // Neither do two blocks together.
        prop_assert_eq!(ends(&inner.concat(), &kit.frame.tag), 0);
        let end = format!("</{}>", kit.frame.tag);
        prop_assert!(closing.contains(&end));
    }

    #[test]
    fn masking_a_masked_text_changes_nothing(text in hostile()) {
        let once = mask_secrets(&text);
        let twice = mask_secrets(&once.text);
        prop_assert_eq!(&twice.text, &once.text);
        prop_assert_eq!(twice.count, 0);
        prop_assert!(once.count > 0 || once.text == text);
    }

    #[test]
    fn reading_any_answer_panics_nowhere_and_gives_no_empty_body(kit in kit(), text in hostile(), wrapped in any::<bool>()) {
        let answer = if wrapped { enveloped(&kit, &inner_of(&kit, &text)) } else { text };
        if let Ok(body) = read_answer(&kit, &[Block::text(answer)], false) {
            prop_assert!(!body.trim().is_empty());
        }
    }

    #[test]
    fn a_summary_without_a_model_never_exceeds_its_room(
        kit in kit(), texts in prop::collection::vec((0u8..4, hostile()), 1..12), room in 0usize..1_500
    ) {
        let messages: Vec<std::sync::Arc<Message>> = texts.iter().enumerate().map(|(at, (speaker, text))| {
            let id = format!("m{at}");
            std::sync::Arc::new(match speaker {
                0 => Message::user(id, text.as_str()),
                1 => Message::assistant(id, model(), vec![Block::text(text.as_str()), Block::tool_call(format!("c{at}"), "bash", text.as_str())]),
                2 => Message::tool_result(id, format!("c{}", at.saturating_sub(1)), text.as_str(), true),
                _ => Checkpoint::new(&kit, text).into_message(&kit, id, "c"),
            })
        }).collect();
        if let Some(text) = ExtractiveSummarizer::new().summarize_within(&messages, &kit, room) {
            prop_assert!(text.chars().count() <= room);
            prop_assert!(!text.trim().is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn the_body_of_a_fold_never_exceeds_its_room(kit in kit(), parts in prop::collection::vec(hostile(), 1..40), most in 40u64..3_000) {
        let kit = Kit { min_body_tokens: 0, ..kit };
        let mut session = conversation(4, 2_000);
        assistant(&mut session, &words(4_000), &[]);
        user(&mut session, "Go on.");
        let policy = Policy { max_tokens: most, min_body_tokens: Some(0), ..Policy::default() };
        let mut engine = BaseEngine::new(policy, kit.clone(), RuleSet::Default).unwrap().with_pricing(pricing(RuleSet::Default));
        let answer = enveloped(&kit, &inner_of(&kit, &parts.join(" The gauge was set to 0 and checked. ")));
        let mut room = (0, None);
        let mut writer = |request: &SummaryRequest| {
            room = (request.max_output_tokens(), Some(request.clone()));
            Ok(SummaryReply::text("p", "m", answer.as_str()))
        };
        let outcome = compact(&mut engine, &mut session, Trigger::manual(), &window(200_000), &mut writer);
        if let Ok(Outcome::Compacted(compacted)) = outcome {
            let fold = compacted.fold().unwrap();
            let checkpoint = Checkpoint::parse(&fold.checkpoint).unwrap();
            prop_assert!(HarnessHeuristic.count(&checkpoint.body) <= room.0);
            prop_assert!(room.0 <= most);
            prop_assert!(fold.checkpoint_tokens < fold.shadowed_tokens);
            prop_assert_eq!(ends(&checkpoint.body, &kit.frame.tag), 0);
        }
    }
}
