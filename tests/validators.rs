//! What the four APIs refuse in a conversation: each rule by a conversation that breaks it alone, whole conversations that break
//! none, and what happens to those when a result is lost, doubled or moved.

#![allow(clippy::indexing_slicing, clippy::string_slice, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use arya_presets::transcript::{Profile, Rule, Target, Violation, validate, validate_with};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::Config;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    target: Target,
    /// Where the rule is broken first. Absent where none is.
    at: Option<String>,
    value: Value,
}

fn files(dir: &str) -> Vec<(String, Fixture)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/validators").join(dir);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort_by_key(|path| path.file_stem().unwrap().to_owned());
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut fixture: Fixture = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        unpack(&mut fixture.value);
        (name, fixture)
    };
    paths.into_iter().map(read).collect()
}

/// Long texts stand in the files as `{"repeat": text, "times": n}`.
fn unpack(value: &mut Value) {
    match value {
        Value::Object(map) => {
            match (map.get("repeat").and_then(Value::as_str), map.get("times").and_then(Value::as_u64)) {
                (Some(text), Some(times)) => *value = text.repeat(usize::try_from(times).unwrap()).into(),
                _ => map.values_mut().for_each(unpack),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unpack),
        _ => {}
    }
}

fn every_rule() -> Profile {
    Rule::ALL.iter().copied().fold(Profile::none(), Profile::with)
}

fn rules(found: &[Violation]) -> BTreeSet<Rule> {
    found.iter().map(|violation| violation.rule).collect()
}

#[test]
fn every_rule_has_a_conversation_that_breaks_it_and_no_other() {
    let files = files("");
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let mut wanted: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    for (name, fixture) in &files {
        let rule = Rule::of_name(name).unwrap();
        assert_eq!(rule.target(), fixture.target, "{name}");
        let profile = Profile::default().with(rule);
        let found = validate_with(fixture.target, &fixture.value, &profile);
        assert_eq!(rules(&found), BTreeSet::from([rule]), "{name}: {found:#?}");
        assert_eq!(Some(&found[0].at), fixture.at.as_ref(), "{name}");
        assert!(found.len() == 1 || rule == Rule::GeminiIdRefused, "{name}: {found:#?}");
        assert_eq!(validate_with(fixture.target, &fixture.value, &profile.without(rule)), [], "{name}, switched off");
        let by_default = validate(fixture.target, &fixture.value);
        assert_eq!(by_default.is_empty(), !rule.is_default(), "{name}, by default");
    }
}

#[test]
fn a_list_of_messages_is_checked_as_the_request_that_holds_it() {
    let mut checked = 0;
    for (name, fixture) in files("").into_iter().chain(files("valid")) {
        let Some((key, list)) = fixture.value.as_object().and_then(|request| {
            ["messages", "input", "contents"].into_iter().find_map(|key| Some((key, request.get(key)?)))
        }) else {
            continue;
        };
        if name == "responses-call-id-length" {
            continue; // It continues a stored response, which a list cannot say.
        }
        let bare = validate_with(fixture.target, list, &every_rule());
        let mut whole = validate_with(fixture.target, &json!({ key: list }), &every_rule());
        for violation in &mut whole {
            violation.at = violation.at.strip_prefix(&format!("/{key}")).unwrap_or(&violation.at).to_owned();
        }
        assert_eq!(bare.len(), whole.len(), "{name}");
        assert_eq!(rules(&bare), rules(&whole), "{name}");
        let places = |found: &[Violation]| found.iter().map(|violation| violation.at.clone()).collect::<Vec<_>>();
        assert_eq!(places(&bare), places(&whole), "{name}");
        checked += 1;
    }
    assert!(checked > 90, "{checked}");
}

#[test]
fn whole_conversations_with_parallel_calls_reasoning_images_and_errors_break_no_rule() {
    let files = files("valid");
    for target in Target::APIS {
        assert!(files.iter().filter(|(_, fixture)| fixture.target == target).count() >= 2, "{target}");
    }
    for (name, fixture) in files {
        assert_eq!(fixture.at, None, "{name}");
        assert_eq!(validate(fixture.target, &fixture.value), [], "{name}");
    }
}

#[test]
fn a_value_that_is_no_conversation_breaks_the_rule_of_the_shape_alone() {
    let shapes = [Rule::ChatShape, Rule::ResponsesShape, Rule::AnthropicShape, Rule::GeminiShape];
    let values = [
        json!(null),
        json!(true),
        json!(7),
        json!("hello"),
        json!({}),
        json!({"messages": {}, "input": 7, "contents": "x"}),
    ];
    for (target, rule) in Target::APIS.into_iter().zip(shapes) {
        for value in &values {
            let found = validate(target, value);
            assert_eq!(rules(&found), BTreeSet::from([rule]), "{target}: {value}");
            assert_eq!(found[0].at, "");
        }
    }
}

#[test]
fn files_of_tools_have_no_rules() {
    for target in Target::ALL.into_iter().filter(|target| !Target::APIS.contains(target)) {
        assert_eq!(validate_with(target, &json!(null), &every_rule()), [], "{target}");
    }
}

#[test]
fn names_are_kebab_case_unique_and_begin_with_their_api() {
    let mut seen = BTreeSet::new();
    for &rule in Rule::ALL {
        let api = match rule.target() {
            Target::ChatCompletions => "chat-",
            Target::Responses => "responses-",
            Target::Anthropic => "anthropic-",
            Target::Gemini => "gemini-",
            other => panic!("{rule} is a rule of {other}"),
        };
        let name = rule.name();
        assert!(name.starts_with(api) && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{name}");
        // The name of the variant in kebab-case, so that one leads to the other.
        let variant: String = format!("{rule:?}")
            .char_indices()
            .map(|(at, c)| if c.is_ascii_uppercase() && at > 0 { format!("-{c}") } else { c.to_string() })
            .collect();
        assert_eq!(variant.to_lowercase(), name);
        assert!(seen.insert(name));
        assert_eq!(Rule::of_name(name), Some(rule));
        assert_eq!(serde_json::to_value(rule).unwrap(), name);
        assert_eq!(serde_json::from_value::<Rule>(json!(name)).unwrap(), rule);
        assert_eq!(rule.to_string(), name);
    }
    assert_eq!(Rule::of_name("chat"), None);
}

#[test]
fn a_profile_is_a_list_of_names_and_refuses_unknown_ones() {
    let profile = Profile::none().with(Rule::GeminiEmptyText).with(Rule::ChatEmptyText);
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(text, r#"["chat-empty-text","gemini-empty-text"]"#);
    for profile in [profile, Profile::default(), Profile::lenient(), Profile::strict_roles(), every_rule()] {
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
    }
    let error = serde_json::from_str::<Profile>(r#"["chat-empty-text", "chat-blank-text"]"#).unwrap_err().to_string();
    assert!(error.contains("chat-blank-text") && error.contains("chat-empty-text"), "{error}");
}

#[test]
fn the_named_profiles_differ_from_the_default_as_they_say() {
    let standard = Profile::default();
    let differing = |profile: &Profile| -> Vec<Rule> {
        Rule::ALL.iter().copied().filter(|rule| profile.holds(*rule) != standard.holds(*rule)).collect()
    };
    let strict = [Rule::ChatLateSystem, Rule::ChatRepeatedUser, Rule::ChatRepeatedAssistant, Rule::AnthropicPrefill];
    assert_eq!(differing(&Profile::strict_roles()), strict);
    assert_eq!(differing(&Profile::reasoning_required()), [Rule::ChatReasoningRequired]);
    assert_eq!(differing(&Profile::reasoning_refused()), [Rule::ChatReasoningRefused]);
    assert!(Rule::ALL.iter().all(|rule| standard.holds(*rule) || !Profile::lenient().holds(*rule)));
    assert!(!standard.holds(Rule::ChatReasoningRequired) && !standard.holds(Rule::ChatReasoningRefused));
    assert_eq!(standard.rules().collect::<Vec<_>>(), differing(&Profile::none()));
}

#[test]
fn an_id_may_come_back_once_its_call_is_answered() {
    let call = json!({"role": "assistant", "content": null, "tool_calls":
        [{"id": "x", "type": "function", "function": {"name": "read", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "x", "content": "fn main() {}"});
    let user = json!({"role": "user", "content": "Read it four times."});
    let mut messages = vec![user.clone()];
    for _ in 0..4 {
        messages.extend([call.clone(), result.clone()]);
    }
    assert_eq!(validate(Target::ChatCompletions, &json!(messages)), []);
    // A second round without its result, and a third with: the second is the one that lacks it.
    let found = validate(Target::ChatCompletions, &json!([user, call, result, call, user, call, result]));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].rule, found[0].at.as_str()), (Rule::ChatUnansweredCall, "/3/tool_calls/0"));

    let call = json!({"type": "function_call", "call_id": "x", "name": "read", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "x", "output": "fn main() {}"});
    assert_eq!(validate(Target::Responses, &json!([call, output, call, output])), []);
}

#[test]
fn outputs_of_stored_calls_are_taken() {
    let output = json!({"type": "function_call_output", "call_id": "x", "output": ""});
    assert_eq!(rules(&validate(Target::Responses, &json!([output]))), BTreeSet::from([Rule::ResponsesOrphanOutput]));
    for continued in [
        json!({"previous_response_id": "resp_1", "input": [output]}),
        json!({"conversation": "conv_1", "input": [output]}),
        json!({"input": [{"type": "item_reference", "id": "fc_1"}, output]}),
    ] {
        assert_eq!(validate(Target::Responses, &continued), [], "{continued}");
    }
    assert_eq!(validate(Target::Responses, &json!({"input": "What is in a.rs?"})), []);
    let found = validate(Target::Responses, &json!({"input": ""}));
    assert_eq!(rules(&found), BTreeSet::from([Rule::ResponsesNoInput]));
}

#[test]
fn neighbours_of_one_role_are_read_as_the_api_merges_them() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id});
    let messages = json!([
        {"role": "user", "content": "Read both."},
        {"role": "assistant", "content": [call("a")]},
        {"role": "assistant", "content": [call("b")]},
        {"role": "user", "content": [result("b")]},
        {"role": "user", "content": [result("a"), {"type": "text", "text": "Go on."}]},
    ]);
    assert_eq!(rules(&validate(Target::Anthropic, &messages)), BTreeSet::from([Rule::AnthropicRepeatedRole]));
    assert_eq!(validate_with(Target::Anthropic, &messages, &Profile::lenient()), []);
}

#[test]
fn thinking_of_a_turn_is_all_there_or_gone() {
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {}});
    let result = |id: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id}]});
    let turn = |first: bool, second: bool| {
        let mut blocks = [vec![call("a")], vec![call("b")]];
        for (message, thinks) in blocks.iter_mut().zip([first, second]) {
            if thinks {
                message.insert(0, thinking.clone());
            }
        }
        json!([
            {"role": "user", "content": "Read both."},
            {"role": "assistant", "content": blocks[0]}, result("a"),
            {"role": "assistant", "content": blocks[1]}, result("b"),
        ])
    };
    for (first, second) in [(true, true), (true, false), (false, false)] {
        assert_eq!(validate(Target::Anthropic, &turn(first, second)), [], "{first} {second}");
    }
    let found = validate(Target::Anthropic, &turn(false, true));
    assert_eq!((found.len(), found[0].rule), (1, Rule::AnthropicThinkingFirst));
    // Behind another block of its own message it is refused, too, in the first message of a turn or a later one.
    for message in [1, 3] {
        let mut messages = turn(true, true);
        messages[message]["content"].as_array_mut().unwrap().swap(0, 1);
        let found = validate_with(Target::Anthropic, &messages, &Profile::none().with(Rule::AnthropicThinkingFirst));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].at, format!("/{message}/content/0"));
    }
}

#[test]
fn blank_text_before_what_must_come_first_is_one_refusal() {
    let blank = json!({"type": "text", "text": "\n\n"});
    let messages = json!([
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [blank, {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "tool_use", "id": "a", "name": "read", "input": {}}]},
        {"role": "user", "content": [blank, {"type": "tool_result", "tool_use_id": "a"}]},
    ]);
    let found = validate(Target::Anthropic, &messages);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(rules(&found), BTreeSet::from([Rule::AnthropicBlankText]));
    // Where blank text is taken, it is in the way.
    let found = validate_with(Target::Anthropic, &messages, &Profile::default().without(Rule::AnthropicBlankText));
    assert_eq!(rules(&found), BTreeSet::from([Rule::AnthropicThinkingFirst, Rule::AnthropicResultNotFirst]));
}

#[test]
fn sides_of_images_are_held_shorter_where_there_are_many() {
    // The head of a PNG of 2,001 × 8 pixels.
    let source =
        json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAB9EAAAAICAYAAAAAAAAA"});
    let messages = |count: usize| {
        let image = json!({"type": "image", "source": source});
        json!([{"role": "user", "content": vec![image; count]}])
    };
    assert_eq!(validate(Target::Anthropic, &messages(20)), []);
    let found = validate(Target::Anthropic, &messages(21));
    assert_eq!(found.len(), 21);
    assert_eq!(rules(&found), BTreeSet::from([Rule::AnthropicImagePixels]));
    assert!(found[0].why.contains("2001 × 8") && found[0].why.contains("2000"), "{}", found[0].why);
}

#[test]
fn limits_are_taken_to_their_last_character_and_no_further() {
    let with_name = |target: Target, name: &str| match target {
        Target::ChatCompletions => json!([{"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "x"}]),
        Target::Responses => json!([
            {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": ""}]),
        Target::Anthropic => json!([{"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": name, "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}]),
        _ => json!([{"role": "user", "parts": [{"text": "x"}]},
            {"role": "model", "parts": [{"functionCall": {"name": name}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {}}}]}]),
    };
    let named = [Rule::ChatFunctionName, Rule::ResponsesToolName, Rule::AnthropicToolName, Rule::GeminiFunctionName];
    for ((target, rule), most) in Target::APIS.into_iter().zip(named).zip([64, 64, 128, 64]) {
        for name in ["read", "Read_2-x", &"n".repeat(most)] {
            assert_eq!(validate(target, &with_name(target, name)), [], "{target}: {name}");
        }
        for name in ["", "a b", "größe", &"n".repeat(most + 1)] {
            let found = validate(target, &with_name(target, name));
            assert_eq!(rules(&found), BTreeSet::from([rule]), "{target}: {name}");
        }
    }
    for (name, is_taken) in [("fs.read:all", true), ("_x", true), ("2x", false), ("-x", false)] {
        assert_eq!(validate(Target::Gemini, &with_name(Target::Gemini, name)).is_empty(), is_taken, "{name}");
    }
    for (chars, is_taken) in [(64, true), (65, false)] {
        let id = "ü".repeat(chars);
        let input = json!({"previous_response_id": "r", "input": [{"type": "function_call_output", "call_id": id, "output": ""}]});
        assert_eq!(validate(Target::Responses, &input).is_empty(), is_taken, "{chars} characters");
    }
}

#[test]
fn arguments_are_the_text_of_a_json_object() {
    let with = |arguments: &str| {
        json!([{"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": "c", "content": "x"}])
    };
    let nested = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
    for arguments in ["{}", " {\"a\": [1, 2]}\n", "{\"a\": \"\\u00fc\"}", &nested] {
        assert_eq!(validate(Target::ChatCompletions, &with(arguments)), [], "{arguments}");
    }
    for arguments in ["", " ", "null", "\"{}\"", "[]", "{", "{} {}", "{\"a\": 1,}", "{'a': 1}", "{\"a\": \"\n\"}"] {
        let found = validate(Target::ChatCompletions, &with(arguments));
        assert_eq!(rules(&found), BTreeSet::from([Rule::ChatArgumentsJson]), "{arguments}");
    }
}

#[test]
fn a_refusal_shows_names_and_ids_cut_and_never_what_was_said() {
    let secret = "the tide is at 40 cm";
    let found = validate_with(
        Target::ChatCompletions,
        &json!([{"role": "user", "content": [{"type": "text", "text": secret}, {"type": "text"}]},
            {"role": "tool", "tool_call_id": "x".repeat(10_000), "content": secret},
            {"role": "assistant", "content": secret, "tool_calls": [{"id": "c", "type": "function",
                "function": {"name": "a\u{1b}b", "arguments": secret}}]}]),
        &every_rule(),
    );
    assert!(found.len() > 4, "{found:#?}");
    for violation in found {
        let text = violation.to_string();
        assert!(!text.contains(secret) && !text.contains('\u{1b}') && text.len() < 400, "{text}");
        assert!(text.starts_with(violation.rule.name()) && text.contains(&violation.at));
    }
}

/// A conversation as it is told: turns of batches of calls, each batch with its number of calls and how far its results are rotated.
type Turns = Vec<Vec<(usize, usize)>>;

fn turns() -> impl Strategy<Value = Turns> {
    prop::collection::vec(prop::collection::vec((1usize..4, 0usize..3), 0..4), 1..5)
}

/// Where a result stands: the pointer of a list, and a place in it.
type Place = (String, usize);

struct Written {
    value: Value,
    /// The results, batch by batch.
    results: Vec<Vec<Place>>,
}

/// The conversation in an API's form.
fn written(target: Target, turns: &Turns) -> Written {
    let (mut list, mut results) = (Vec::new(), Vec::new());
    let mut call = 0;
    let user = |text: &str| match target {
        Target::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
        Target::Anthropic => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
        _ => json!({"role": "user", "content": text}),
    };
    let answer = |text: &str| match target {
        Target::Gemini => json!({"role": "model", "parts": [{"text": text}]}),
        _ => json!({"role": "assistant", "content": text}),
    };
    for turn in turns {
        list.push(user("What does the gauge say?"));
        for &(count, rotated) in turn {
            let ids: Vec<String> = (call..call + count).map(|call| format!("call_{call}")).collect();
            call += count;
            let mut answered = ids.clone();
            answered.rotate_left(rotated % count);
            let at = list.len();
            match target {
                Target::ChatCompletions => {
                    let calls: Vec<Value> = ids
                        .iter()
                        .map(
                            |id| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}}),
                        )
                        .collect();
                    list.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
                    list.extend(
                        answered.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "40 cm"})),
                    );
                    results.push((at + 1..=at + count).map(|at| (String::new(), at)).collect());
                }
                Target::Responses => {
                    list.push(json!({"type": "reasoning", "id": format!("rs_{at}"), "summary": []}));
                    list.extend(ids.iter().map(|id| {
                        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "read", "arguments": "{}"})
                    }));
                    results.push((list.len()..list.len() + count).map(|at| (String::new(), at)).collect());
                    list.extend(
                        answered
                            .iter()
                            .map(|id| json!({"type": "function_call_output", "call_id": id, "output": "40 cm"})),
                    );
                }
                Target::Anthropic => {
                    let calls = ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "read", "input": {}}));
                    list.push(json!({"role": "assistant", "content": calls.collect::<Vec<_>>()}));
                    let blocks =
                        answered.iter().map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "40 cm"}));
                    list.push(json!({"role": "user", "content": blocks.collect::<Vec<_>>()}));
                    results.push((0..count).map(|block| (format!("/{}/content", at + 1), block)).collect());
                }
                _ => {
                    let calls = ids.iter().map(|id| json!({"functionCall": {"name": "read", "id": id}}));
                    list.push(json!({"role": "model", "parts": calls.collect::<Vec<_>>()}));
                    let parts = answered.iter().map(
                        |id| json!({"functionResponse": {"name": "read", "id": id, "response": {"output": "40 cm"}}}),
                    );
                    list.push(json!({"role": "user", "parts": parts.collect::<Vec<_>>()}));
                    results.push((0..count).map(|part| (format!("/{}/parts", at + 1), part)).collect());
                }
            }
        }
        list.push(answer("It says 40 cm."));
    }
    list.push(user("Read it again."));
    Written { value: json!(list), results }
}

fn list_at<'v>(value: &'v mut Value, pointer: &str) -> &'v mut Vec<Value> {
    value.pointer_mut(pointer).unwrap().as_array_mut().unwrap()
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Drop,
    Double,
    /// To the end of the conversation.
    MoveLater,
    /// To its beginning, before the call.
    MoveEarlier,
}

fn damaged(target: Target, written: &Written, place: &Place, damage: Damage) -> Value {
    let mut value = written.value.clone();
    let (pointer, at) = place;
    let result = list_at(&mut value, pointer)[*at].clone();
    if !matches!(damage, Damage::Double) {
        list_at(&mut value, pointer).remove(*at);
    }
    let inside = if target == Target::Anthropic { "content" } else { "parts" };
    let last = value.as_array().unwrap().len() - 1;
    match (damage, target) {
        (Damage::Drop, _) => {}
        (Damage::Double, _) => list_at(&mut value, pointer).insert(at + 1, result),
        (Damage::MoveLater, Target::ChatCompletions | Target::Responses) => list_at(&mut value, "").push(result),
        (Damage::MoveLater, _) => list_at(&mut value, &format!("/{last}/{inside}")).insert(0, result),
        (Damage::MoveEarlier, Target::ChatCompletions | Target::Responses) => list_at(&mut value, "").insert(1, result),
        (Damage::MoveEarlier, _) => list_at(&mut value, &format!("/0/{inside}")).insert(0, result),
    }
    value
}

/// What a damage must be called. Nothing else may be found where the batch has other results; without them the message that
/// held the result is empty, too.
fn wanted(target: Target, damage: Damage, is_alone: bool) -> Vec<Rule> {
    match (target, damage) {
        (Target::ChatCompletions, Damage::Drop) => vec![Rule::ChatUnansweredCall],
        (Target::ChatCompletions, Damage::Double) => vec![Rule::ChatDuplicateResult],
        (Target::ChatCompletions, Damage::MoveLater) => vec![Rule::ChatLateResult],
        (Target::ChatCompletions, Damage::MoveEarlier) => vec![Rule::ChatUnansweredCall, Rule::ChatOrphanResult],
        (Target::Responses, Damage::Drop) => vec![Rule::ResponsesUnansweredCall],
        (Target::Responses, Damage::Double) => vec![Rule::ResponsesDuplicateOutput],
        (Target::Responses, Damage::MoveLater) => vec![],
        (Target::Responses, Damage::MoveEarlier) => vec![Rule::ResponsesOutputBeforeCall],
        (Target::Anthropic, Damage::Drop) => vec![Rule::AnthropicUnansweredCall],
        (Target::Anthropic, Damage::Double) => vec![Rule::AnthropicDuplicateResult],
        (Target::Anthropic, Damage::MoveLater) => vec![Rule::AnthropicLateResult],
        (Target::Anthropic, Damage::MoveEarlier) => vec![Rule::AnthropicUnansweredCall, Rule::AnthropicOrphanResult],
        (_, Damage::Double) => vec![Rule::GeminiResponseCount],
        (_, Damage::Drop) if is_alone => vec![Rule::GeminiUnansweredCall],
        (_, Damage::Drop) => vec![Rule::GeminiResponseCount],
        (_, _) if is_alone => vec![Rule::GeminiUnansweredCall, Rule::GeminiOrphanResponse],
        (_, _) => vec![Rule::GeminiResponseCount, Rule::GeminiOrphanResponse],
    }
}

/// Words and keys that mean something to an API, so that strange values get past the first look.
const WORDS: &[&str] = &[
    "",
    " ",
    "user",
    "assistant",
    "model",
    "tool",
    "system",
    "text",
    "tool_use",
    "tool_result",
    "thinking",
    "image",
    "base64",
    "function",
    "function_call",
    "function_call_output",
    "reasoning",
    "message",
    "item_reference",
    "compaction",
    "call_1",
    "fc_1",
    "rs_1",
    "read",
    "{}",
    "{\"a\":",
    "image_url",
    "output_text",
    "input_text",
    "iVBORw0KGgo=",
    "/9j/4AAQ",
    "UklGRiQA",
    "ü\u{0}",
];
const KEYS: &[&str] = &[
    "messages",
    "input",
    "contents",
    "system",
    "systemInstruction",
    "role",
    "type",
    "content",
    "parts",
    "text",
    "tool_calls",
    "tool_call_id",
    "id",
    "function",
    "name",
    "arguments",
    "call_id",
    "output",
    "summary",
    "encrypted_content",
    "tool_use_id",
    "source",
    "media_type",
    "data",
    "signature",
    "thinking",
    "functionCall",
    "functionResponse",
    "response",
    "args",
    "inlineData",
    "reasoning_content",
    "image_url",
    "a/b~c",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        5 => select(WORDS).prop_map(|word| json!(word)),
        1 => any::<Option<bool>>().prop_map(|value| json!(value)),
        1 => any::<f64>().prop_map(|value| json!(value)),
        1 => ".{0,8}".prop_map(|text| json!(text)),
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(6, 48, 6, |inner| {
        let object = prop::collection::vec((select(KEYS), inner.clone()), 0..6).prop_map(|entries| {
            Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
        });
        prop_oneof![2 => object, 1 => prop::collection::vec(inner, 0..6).prop_map(Value::Array)]
    })
}

/// Every place in a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| pointers(item, &format!("{at}/{index}"), found));
        }
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            pointers(item, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }),
        _ => {}
    }
}

/// That each refusal has a place in the value or names a key that is missing there, and that the report is always the same one.
fn check_report(target: Target, value: &Value) {
    for profile in [Profile::default(), Profile::lenient(), every_rule()] {
        let found = validate_with(target, value, &profile);
        for violation in &found {
            let holder = violation.at.rsplit_once('/').map_or("", |(holder, _)| holder);
            let is_there =
                value.pointer(&violation.at).is_some() || value.pointer(holder).is_some_and(Value::is_object);
            assert!(is_there, "{violation} in {value}");
            assert!(profile.holds(violation.rule) && violation.rule.target() == target && !violation.why.is_empty());
        }
        assert_eq!(validate_with(target, value, &profile), found);
    }
    assert_eq!(validate_with(target, value, &Profile::none()), []);
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_lost_doubled_or_moved_result_is_always_found(turns in turns(), pick in any::<Index>()) {
        for target in Target::APIS {
            let written = written(target, &turns);
            prop_assert_eq!(validate(target, &written.value), []);
            let places: Vec<(usize, &Place)> =
                written.results.iter().flat_map(|batch| batch.iter().map(|place| (batch.len(), place))).collect();
            if places.is_empty() {
                continue;
            }
            let (count, place) = pick.get(&places);
            for damage in [Damage::Drop, Damage::Double, Damage::MoveLater, Damage::MoveEarlier] {
                let value = damaged(target, &written, place, damage);
                let found = rules(&validate(target, &value));
                let wanted: BTreeSet<Rule> = wanted(target, damage, *count == 1).into_iter().collect();
                prop_assert!(found.is_superset(&wanted), "{target} {damage:?}: {found:?} in {value}");
                let beside = [Rule::AnthropicEmptyContent, Rule::GeminiNoParts];
                let rest: Vec<_> = found.difference(&wanted).filter(|rule| *count > 1 || !beside.contains(rule)).collect();
                prop_assert!(rest.is_empty(), "{target} {damage:?}: {rest:?} in {value}");
            }
        }
    }

    #[test]
    fn no_json_makes_a_validator_panic(value in anything()) {
        for target in Target::APIS {
            check_report(target, &value);
            let key = match target {
                Target::Responses => "input",
                Target::Gemini => "contents",
                _ => "messages",
            };
            check_report(target, &json!({ key: [value] }));
        }
    }

    #[test]
    fn no_conversation_with_a_strange_value_in_it_makes_a_validator_panic(
        file in any::<Index>(),
        pick in any::<Index>(),
        strange in anything(),
    ) {
        let files = files("valid");
        let (_, fixture) = file.get(&files);
        let mut value = fixture.value.clone();
        let mut places = Vec::new();
        pointers(&value, "", &mut places);
        let place: &String = pick.get(&places);
        *value.pointer_mut(place).unwrap() = strange;
        check_report(fixture.target, &value);
    }
}
