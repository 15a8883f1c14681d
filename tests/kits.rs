//! The built-in kits: what each asks in both shapes of a request, how long its prompts may be, and which kits are refused.

#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

mod common;

use std::path::Path;

use arya_presets::*;
use serde_json::{Value, json};

use common::*;

const IDS: [&str; 4] = ["base", "codex", "qwen", "claude"];

fn kits() -> impl Iterator<Item = Kit> {
    IDS.into_iter().map(|id| Kit::builtin(id).unwrap())
}

const SYSTEM: &str = "You help to keep the harbour gauges in order.";
const SECRET: &str = "sk-abcdefghijklmnop1234";

/// Two turns, each with a call and its result. The results hold a secret, a line of tildes and an end tag of the frame.
fn gauges() -> Session {
    let mut session = session();
    let mut header = RequestHeader::new("p", "m");
    header.system = Some(SYSTEM.into());
    header.tools = Some(vec![json!({"name": "read", "description": "Reads a file."})]);
    session.append(Draft::request_header(header)).unwrap();
    injected(&mut session, "agent-instructions", "Heights are in centimetres.");
    let turns = [
        ("Why does the north gauge read 40 cm too high?", "I look at its settings.", "offset = 40\ndatum = \"old\""),
        ("Then set it to the new datum, and touch no other gauge.", "I check the rest first.", "~~~~~~~~~~\nall quiet"),
    ];
    for (turn, (request, announcement, found)) in turns.into_iter().enumerate() {
        user(&mut session, request);
        let call = format!("call-{turn}");
        assistant(&mut session, announcement, &[&call]);
        let result_text = format!("{found}\nkey: {SECRET}\n</compacted-summary>\n{}", "row of the log\n".repeat(40));
        result(&mut session, &call, &result_text);
        assistant(&mut session, &format!("Turn {turn} is done."), &[]);
    }
    session
}

fn request_of(kit: Kit) -> SummaryRequest {
    let mut session = gauges();
    let policy = Policy { min_body_tokens: Some(0), ..Policy::default() };
    let mut engine = BaseEngine::new(policy, kit, RuleSet::Default).unwrap().with_pricing(pricing(RuleSet::Default));
    let (start, end) = (session.nodes()[0].seq, session.nodes().last().unwrap().seq);
    match engine.begin(&mut session, Trigger::Region { start, end }, &window(200_000)).unwrap() {
        Step::Summarize(pending) => pending.request().clone(),
        Step::Done(outcome) => panic!("{outcome}"),
    }
}

#[test]
fn the_standalone_request_of_every_kit_is_as_it_was() {
    for kit in kits() {
        let name = format!("rendered_{}", kit.id);
        insta::assert_snapshot!(name, request_of(kit).rendered());
    }
}

#[test]
fn the_instruction_that_ends_the_warm_request_of_every_kit_is_as_it_was() {
    for kit in kits() {
        let name = format!("warm_instruction_{}", kit.id);
        let warm = request_of(kit).warm();
        insta::assert_snapshot!(name, warm.messages.last().unwrap().text());
    }
}

#[test]
fn the_warm_request_repeats_the_conversation_as_it_was_sent_and_appends_one_message() {
    let surface: Vec<_> = gauges().messages().cloned().collect();
    for kit in kits() {
        let warm = request_of(kit).warm();
        let (last, before) = warm.messages.split_last().unwrap();
        assert_eq!(before, surface);
        assert_eq!(warm.system.as_deref(), Some(SYSTEM));
        assert_eq!(warm.tools.unwrap().len(), 1);
        assert!(last.role == Role::User && last.source.is_injected(), "the person did not ask for a summary");
    }
}

#[test]
fn the_standalone_request_masks_secrets_and_the_warm_one_shows_what_the_model_saw_already() {
    for kit in kits() {
        let request = request_of(kit);
        assert!(!request.rendered().contains(SECRET) && request.rendered().contains("key: [masked]"));
        let warm = request.warm();
        assert!(serde_json::to_string(&warm.messages[3]).unwrap().contains(SECRET));
    }
}

#[test]
fn the_standalone_request_holds_neither_system_prompt_nor_tools_and_fences_the_conversation() {
    for kit in kits() {
        let rendered = request_of(kit.clone()).rendered();
        assert!(rendered.starts_with(&kit.instruction));
        assert!(!rendered.contains(SYSTEM) && !rendered.contains("Reads a file."));
        let fence = "~".repeat(11);
        let lines: Vec<usize> =
            rendered.lines().enumerate().filter(|(_, line)| *line == fence).map(|(at, _)| at).collect();
        assert_eq!(lines.len(), 2, "the fence is longer than the tildes inside");
        assert_eq!(lines[1] + 1, rendered.lines().count(), "nothing follows the fence");
    }
}

#[test]
fn the_instruction_goes_into_the_last_message_where_two_of_the_user_may_not_follow_each_other() {
    let mut session = gauges();
    let last = user(&mut session, "And now?");
    let start = session.nodes()[0].seq;
    for kit in kits() {
        let mut session = replayed(&session);
        let policy = Policy { min_body_tokens: Some(0), ..Policy::default() };
        let mut engine = BaseEngine::new(policy, kit.clone(), RuleSet::Default).unwrap();
        let step = engine.begin(&mut session, Trigger::Region { start, end: last }, &window(200_000)).unwrap();
        let Step::Summarize(pending) = step else { panic!("{step:?}") };
        let (plain, merged) = (pending.request().warm().messages, pending.request().warm_merged().messages);
        assert_eq!(merged.len() + 2, plain.len(), "rules and request, question and instruction");
        let blocks: Vec<_> = merged.last().unwrap().content.iter().filter_map(Block::as_text).collect();
        assert_eq!(blocks, ["And now?", kit.instruction.as_str()]);
    }
}

#[test]
fn an_instruction_of_the_hosts_own_still_names_envelope_and_sections_of_a_structured_kit() {
    for kit in kits() {
        let mut session = gauges();
        let policy = Policy { min_body_tokens: Some(0), checkpoint_prompt: "Sum it up.".into(), ..Policy::default() };
        let mut engine = BaseEngine::new(policy, kit.clone(), RuleSet::Default).unwrap();
        let (start, end) = (session.nodes()[0].seq, session.nodes().last().unwrap().seq);
        let step = engine.begin(&mut session, Trigger::Region { start, end }, &window(200_000)).unwrap();
        let Step::Summarize(pending) = step else { panic!("{step:?}") };
        let asked = pending.request().instruction();
        match &kit.envelope {
            None => assert_eq!(asked, "Sum it up."),
            Some(envelope) => {
                assert!(asked.starts_with("Sum it up.") && asked.contains(&format!("</{}>", envelope.tag)), "{asked}");
                assert!(kit.sections.iter().all(|section| asked.contains(section)), "{asked}");
            }
        }
    }
}

/// Characters that each prompt may have.
const BUDGETS: [(&str, usize); 8] = [
    ("standard/instruction.md", 3_000),
    ("arya-standard/instruction.md", 600),
    ("arya-standard/handoff-prefix.md", 399),
    ("arya-qwen/instruction.md", 3_583),
    ("arya-qwen/resume-suffix.md", 168),
    ("arya-claude/instruction.md", 3_378),
    ("arya-claude/continuation-prefix.md", 239),
    ("arya-claude/resume-suffix.md", 204),
];

fn prompt(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("presets").join(name)).unwrap()
}

#[test]
fn every_prompt_keeps_its_budget() {
    for (name, most) in BUDGETS {
        let chars = prompt(name).chars().count();
        assert!(chars <= most, "{name} has {chars} characters and may have {most}");
    }
}

#[test]
fn the_prompts_are_those_that_the_kits_ask() {
    let [base, codex, qwen, claude] = IDS.map(|id| Kit::builtin(id).unwrap());
    for (name, text) in [
        ("standard/instruction.md", &base.instruction),
        ("standard/frame-opening.md", &base.frame.opening),
        ("arya-standard/instruction.md", &codex.instruction),
        ("arya-standard/handoff-prefix.md", &codex.frame.opening),
        ("arya-qwen/instruction.md", &qwen.instruction),
        ("arya-qwen/resume-suffix.md", &qwen.frame.closing),
        ("arya-claude/instruction.md", &claude.instruction),
        ("arya-claude/continuation-prefix.md", &claude.frame.opening),
        ("arya-claude/resume-suffix.md", &claude.frame.closing),
    ] {
        assert_eq!(prompt(name).trim_end(), text, "{name}");
    }
}

#[test]
fn every_instruction_names_its_sections_in_order_and_its_envelope() {
    for kit in kits() {
        let mut rest = kit.instruction.as_str();
        for section in &kit.sections {
            let (_, after) = rest.split_once(section.as_str()).unwrap_or_else(|| panic!("{}: {section}", kit.id));
            rest = after;
        }
        if let Some(Envelope { tag, .. }) = &kit.envelope {
            let at = |text: String| kit.instruction.find(&text).unwrap();
            assert!(
                at("<analysis>".into()) < at(format!("<{tag}>")) && at(format!("<{tag}>")) < at(format!("</{tag}>"))
            );
        }
    }
}

#[test]
fn no_prompt_names_an_agent_or_has_a_hole_in_it() {
    for kit in kits() {
        for text in [&kit.instruction, &kit.frame.opening, &kit.frame.closing] {
            let lower = text.to_lowercase();
            // A tool's name would follow the last one at once; a sentence may end with the word.
            let lower = lower.replace("tools. ", "tools ").replace("tools.\n", "tools\n");
            for forbidden in ["claude", "codex", "qwen", "openai", "anthropic", "${", "{{", "@tool", "tools."] {
                assert!(!lower.contains(forbidden), "{}: {forbidden} in {text}", kit.id);
            }
        }
    }
}

#[test]
fn every_frame_says_that_it_is_a_record_or_only_opens_and_closes_its_own_tag_once() {
    for kit in kits() {
        let frame = format!("{}\n{}", kit.frame.opening, kit.frame.closing);
        let count = |text: String| frame.matches(&text).count();
        assert_eq!((count(format!("<{}>", kit.frame.tag)), count(format!("</{}>", kit.frame.tag))), (1, 1));
        assert!(frame.contains("record"), "{}", kit.id);
    }
}

#[test]
fn every_built_in_kit_is_valid_and_known_by_its_id_alone() {
    for id in IDS {
        let kit = Kit::builtin(id).unwrap();
        assert_eq!((kit.id.as_str(), kit.validate()), (id, Ok(())));
    }
    for id in ["", "Base", "claude ", "standard", "arya-claude"] {
        assert_eq!(Kit::builtin(id), None, "{id:?}");
    }
}

#[test]
fn every_built_in_kit_is_the_same_after_it_was_written_and_read() {
    for kit in kits() {
        let text = serde_json::to_string_pretty(&kit).unwrap();
        assert_eq!(serde_json::from_str::<Kit>(&text).unwrap(), kit);
    }
}

#[test]
fn a_kit_with_a_key_that_it_does_not_know_is_refused_by_name_on_every_level() {
    let whole: Value = serde_json::to_value(Kit::claude()).unwrap();
    let quoting: Value = serde_json::to_value(Kit::codex()).unwrap();
    let plus = |value: &Value, path: &str| {
        let mut value = value.clone();
        value.pointer_mut(path).unwrap()["colour"] = json!("blue");
        serde_json::from_value::<Kit>(value).unwrap_err().to_string()
    };
    for error in [plus(&whole, ""), plus(&whole, "/frame"), plus(&whole, "/envelope"), plus(&quoting, "/quotes")] {
        assert!(error.contains("unknown field `colour`"), "{error}");
    }
}

#[test]
fn a_kit_without_a_key_or_with_a_value_of_another_type_is_refused_by_name() {
    let whole = serde_json::to_value(Kit::base()).unwrap();
    let mut lacking = whole.clone();
    lacking.as_object_mut().unwrap().remove("hookNamespace");
    let error = serde_json::from_value::<Kit>(lacking).unwrap_err().to_string();
    assert!(error.contains("missing field `hookNamespace`"), "{error}");
    for (key, value) in [("minBodyTokens", json!(-1)), ("truncation", json!("maybe")), ("sections", json!("one"))] {
        let mut wrong = whole.clone();
        wrong[key] = value;
        assert!(serde_json::from_value::<Kit>(wrong).is_err(), "{key}");
    }
}

fn changed(mut kit: Kit, change: impl FnOnce(&mut Kit)) -> Result<(), KitError> {
    change(&mut kit);
    kit.validate()
}

#[test]
fn a_kit_that_says_nothing_where_something_must_be_said_is_refused_by_the_fields_name() {
    type Change = fn(&mut Kit);
    let cases: [(&str, Change); 8] = [
        ("id", |kit| kit.id.clear()),
        ("instruction", |kit| kit.instruction = " \n".into()),
        ("frame.opening", |kit| kit.frame.opening.clear()),
        ("frame.closing", |kit| kit.frame.closing = "\t".into()),
        ("frame.tag", |kit| kit.frame.tag.clear()),
        ("hook_namespace", |kit| kit.hook_namespace.clear()),
        ("sections", |kit| kit.sections.push(String::new())),
        ("sections", |kit| kit.sections.insert(0, "  ".into())),
    ];
    for kit in kits() {
        for (field, change) in cases {
            let error = changed(kit.clone(), change).unwrap_err();
            assert!(matches!(error, KitError::Empty { field: found, .. } if found == field), "{field}: {error}");
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}

#[test]
fn a_frame_that_never_closes_its_tag_is_refused() {
    for kit in kits() {
        let error = changed(kit.clone(), |kit| kit.frame.closing = "</other>".into()).unwrap_err();
        assert_eq!(error, KitError::FrameNotClosed { kit: kit.id, tag: kit.frame.tag });
    }
}

#[test]
fn two_sections_of_one_title_are_refused_in_whatever_case() {
    for kit in kits().filter(|kit| !kit.sections.is_empty()) {
        for title in [kit.sections[0].clone(), kit.sections[1].to_uppercase()] {
            let error = changed(kit.clone(), |kit| kit.sections.push(title.clone())).unwrap_err();
            assert_eq!(error, KitError::DuplicateSection { kit: kit.id.clone(), title });
        }
    }
}

#[test]
fn a_name_that_is_no_tag_is_refused_wherever_a_tag_is_needed() {
    for bad in ["two words", "a>b", "<a", "a/b", "é", "a.b"] {
        let named = |error: KitError| matches!(error, KitError::NoTagName { name, .. } if name == bad);
        assert!(
            named(changed(Kit::qwen(), |kit| kit.envelope.as_mut().unwrap().tag = bad.into()).unwrap_err()),
            "{bad}"
        );
        assert!(named(changed(Kit::qwen(), |kit| kit.sections.push(bad.into())).unwrap_err()), "{bad}");
        let frame =
            |kit: &mut Kit| kit.frame = Frame { opening: "x".into(), closing: format!("</{bad}>"), tag: bad.into() };
        assert!(named(changed(Kit::base(), frame).unwrap_err()), "{bad}");
    }
    let empty = |kit: &mut Kit| kit.envelope.as_mut().unwrap().tag.clear();
    assert!(matches!(changed(Kit::claude(), empty), Err(KitError::NoTagName { .. })));
    assert_eq!(changed(Kit::claude(), |kit| kit.sections.push("Two words".into())), Ok(()), "a title is no tag");
}

#[test]
fn a_share_of_quotes_outside_of_zero_to_one_is_refused_with_the_value() {
    let with = |share: f64| changed(Kit::codex(), |kit| kit.quotes.as_mut().unwrap().most_of_span = share);
    for share in [-0.1, 1.000_1, f64::INFINITY, f64::NEG_INFINITY] {
        let error = with(share).unwrap_err();
        assert!(matches!(error, KitError::QuoteShare { value, .. } if value == share), "{error}");
        assert!(error.to_string().contains(&share.to_string()), "{error}");
    }
    assert!(matches!(with(f64::NAN), Err(KitError::QuoteShare { .. })));
    assert_eq!([0.0, 0.5, 1.0].map(with), [Ok(()), Ok(()), Ok(())]);
}

#[test]
fn a_section_of_the_users_messages_that_is_none_of_the_sections_is_refused() {
    for kit in kits() {
        let error = changed(kit, |kit| kit.user_messages_section = Some("Mail".into())).unwrap_err();
        assert!(matches!(&error, KitError::UnknownSection { title, .. } if title == "Mail"), "{error}");
    }
}

#[test]
fn a_structured_answer_that_would_be_cut_or_has_no_sections_is_a_contradiction() {
    for kit in [Kit::qwen(), Kit::claude()] {
        let cut = changed(kit.clone(), |kit| kit.truncation = Truncation::Sentence).unwrap_err();
        assert!(matches!(cut, KitError::Contradiction { .. }) && cut.to_string().contains("last sections"), "{cut}");
        let bare = changed(kit, |kit| {
            kit.sections.clear();
            kit.user_messages_section = None;
        });
        assert!(matches!(bare, Err(KitError::Contradiction { .. })), "{bare:?}");
    }
}

#[test]
fn a_floor_above_the_output_cap_is_refused_when_the_engine_is_built_and_at_the_cap_it_is_not() {
    for kit in [Kit::qwen(), Kit::claude()] {
        let floor = kit.min_body_tokens;
        let policy = Policy { max_tokens: floor - 1, ..Policy::default() };
        let error = BaseEngine::new(policy.clone(), kit.clone(), RuleSet::Default).unwrap_err();
        let cap = "max_tokens".into();
        let expected =
            KitError::FloorAboveCap { kit: kit.id.clone(), min_body_tokens: floor, cap, max_tokens: floor - 1 };
        assert_eq!(error, BuildError::Kit(expected));
        assert!(BaseEngine::new(Policy { max_tokens: floor, ..policy.clone() }, kit.clone(), RuleSet::Default).is_ok());
        let own = Policy { min_body_tokens: Some(floor - 1), ..policy };
        assert!(BaseEngine::new(own, kit, RuleSet::Default).is_ok(), "the policy's own floor stands");
    }
}

#[test]
fn an_engine_is_not_built_from_an_impossible_kit() {
    let kit = Kit { instruction: String::new(), ..Kit::base() };
    let error = BaseEngine::new(Policy::default(), kit, RuleSet::Default).unwrap_err();
    assert!(error.to_string().contains("instruction is empty"), "{error}");
}

#[test]
fn the_floor_of_a_kit_is_the_one_of_its_presets_column() {
    let columns = [Policy::standard(), Policy::arya_standard(), Policy::arya_qwen(), Policy::arya_claude()];
    for (kit, column) in kits().zip(columns) {
        assert_eq!(column.min_body_tokens.unwrap_or(kit.min_body_tokens), kit.min_body_tokens, "{}", kit.id);
        assert!(BaseEngine::new(column, kit, RuleSet::Default).is_ok());
    }
}

#[test]
fn a_room_below_the_floor_is_refused_before_any_call_with_the_kit_and_both_figures() {
    for kit in [Kit::qwen(), Kit::claude()] {
        let mut session = gauges();
        let mut engine = BaseEngine::new(Policy::default(), kit.clone(), RuleSet::Default).unwrap();
        let step = engine.begin(&mut session, Trigger::manual(), &window(200_000)).unwrap();
        let Step::Done(Outcome::Unneeded(reason)) = step else { panic!("{step:?}") };
        let Reason::TooLittleRoom { kit: id, room_tokens, needed_tokens } = &reason else { panic!("{reason}") };
        assert_eq!((id, *needed_tokens), (&kit.id, kit.min_body_tokens));
        assert!(room_tokens < needed_tokens);
        let text = reason.to_string();
        assert!([id, &room_tokens.to_string(), &needed_tokens.to_string()].iter().all(|part| text.contains(*part)));
    }
}

#[test]
fn a_checkpoint_of_every_kit_stands_in_blocks_of_its_own_and_reads_back() {
    for kit in kits() {
        let checkpoint = Checkpoint::new(&kit, "what was done").with_section(&kit, "Files", "- a.rs");
        let content = checkpoint.content(&kit);
        let blocks: Vec<_> = content.iter().filter_map(Block::as_text).collect();
        assert_eq!(blocks, [&*kit.frame.opening, "what was done", "## Files\n\n- a.rs", &*kit.frame.closing]);
        let message = checkpoint.clone().into_message(&kit, "m", "c");
        assert_eq!(message.role, Role::User);
        assert_eq!(Checkpoint::parse(&message), Some(checkpoint));
    }
}
