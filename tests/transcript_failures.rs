//! Failures of other systems where a conversation is read, repaired or written for an API, each with a small input and what is right.
//! The names begin with the case's number.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken test may panic")]

mod common;

use arya_presets::transcript::{self, Change, Format, Import, Profile, Repair, Rule, Target, WriteOptions};
use arya_presets::{
    BaseEngine, Block, Draft, ExtractiveSummarizer, Kit, Message, NodeRange, Outcome, Policy, RuleSet, Session,
    Situation, Source, ToolCall, Trigger, WindowOrigin, compact,
};
use serde_json::{Value, json};

fn read(value: &Value) -> Import {
    transcript::read(value.to_string().as_bytes()).unwrap()
}

fn read_lines(lines: &[Value]) -> Import {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    transcript::read(text.as_bytes()).unwrap()
}

/// Writes for an API and holds what was written against what the API refuses.
fn write(session: &Session, target: Target) -> Value {
    write_with(session, target, &WriteOptions::default())
}

fn write_with(session: &Session, target: Target, options: &WriteOptions) -> Value {
    let export = transcript::write(session, target, options).unwrap();
    assert_eq!(transcript::validate_with(target, &export.value, &options.profile), [], "{target}");
    export.value
}

fn user(text: &str) -> Draft {
    Draft::user(Message::user(format!("u-{text}"), text))
}

fn answer(id: &str, content: Vec<Block>) -> Draft {
    Draft::assistant(1, 1, Message::assistant(id, Source::model("p", "m"), content), None)
}

fn result(id: &str, call: &str, text: &str) -> Draft {
    Draft::tool_result(1, 1, Message::tool_result(id, call, text, false))
}

fn call(id: &str) -> Block {
    Block::tool_call(id, "read", "{\"path\":\"a.md\"}")
}

fn session(drafts: Vec<Draft>) -> Session {
    let mut session = Session::new("s");
    session.append_all(drafts).unwrap();
    session
}

/// Which call each result answers, as a Chat Completions request shows it: the results behind each assistant message.
fn pairs(value: &Value) -> Vec<(Vec<String>, Vec<String>)> {
    let mut pairs: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for message in value["messages"].as_array().unwrap() {
        if let Some(calls) = message["tool_calls"].as_array() {
            pairs.push((calls.iter().map(|call| call["id"].as_str().unwrap().into()).collect(), Vec::new()));
        } else if message["role"] == "tool" {
            pairs.last_mut().unwrap().1.push(message["content"].as_str().unwrap().into());
        }
    }
    pairs
}

// Pairing and cut points

#[test]
fn o02_an_orphan_in_a_stored_conversation_is_left_out_when_it_is_read() {
    let import = read(&json!([
        {"role": "user", "content": "go"},
        {"role": "tool", "tool_call_id": "b", "content": "of a call that was cut away"},
        {"role": "assistant", "content": "done"},
    ]));
    assert_eq!(import.report.repaired[&Repair::ResultWithoutCall].places, [2]);
    for target in Target::APIS {
        write(&import.session, target);
    }
}

#[test]
fn o03_no_result_is_made_up_for_a_call_that_is_not_on_the_surface() {
    let mut session = session(vec![
        user("a"),
        answer("a1", vec![call("X")]),
        user("b"),
        answer("a2", vec![call("Y")]),
        result("r2", "Y", "text"),
    ]);
    let checkpoint = arya_presets::Checkpoint::new(&Kit::base(), "Done.").into_message(&Kit::base(), "c", "c1");
    session.append(Draft::user(checkpoint).citing(vec![0, 1]).replacing(0, 1)).unwrap();
    let value = write(&session, Target::ChatCompletions);
    assert!(!value.to_string().contains("\"X\""));
    assert_eq!(pairs(&value), [(vec!["Y".to_owned()], vec!["text".to_owned()])]);
}

#[test]
fn o04_text_beside_a_result_is_kept_when_the_result_has_lost_its_call() {
    let import = read(&json!({"system": "s", "messages": [
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "gone", "content": "old"},
            {"type": "text", "text": "also check tests"},
        ]},
        {"role": "assistant", "content": "Yes."},
    ]}));
    assert_eq!(import.format, Format::Anthropic);
    let texts: Vec<String> = import.session.messages().map(|message| message.text()).collect();
    assert_eq!(texts, ["also check tests", "Yes."]);
    assert!(import.session.messages().next().unwrap().source.is_user());
    assert_eq!(import.report.repaired[&Repair::ResultWithoutCall].count, 1);
}

#[test]
fn o05_results_after_all_calls_pair_by_id_and_none_is_made_up() {
    for order in [["A", "B"], ["B", "A"]] {
        let items = json!([
            {"type": "message", "role": "user", "content": "go"},
            {"type": "function_call", "call_id": "A", "name": "read", "arguments": "{}"},
            {"type": "function_call", "call_id": "B", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": order[0], "output": order[0]},
            {"type": "function_call_output", "call_id": order[1], "output": order[1]},
        ]);
        let import = read(&items);
        assert!(import.report.repaired.is_empty(), "{:?}", import.report.repaired);
        let (calls, results) = pairs(&write(&import.session, Target::ChatCompletions)).remove(0);
        assert_eq!((calls, results), (vec!["A".into(), "B".into()], order.map(String::from).to_vec()));
        assert_eq!(write(&import.session, Target::Responses)["input"].as_array().unwrap().len(), 5);
    }
}

#[test]
fn o06_a_late_result_goes_to_its_batch_in_the_order_of_the_calls() {
    let mut session = session(vec![
        user("go"),
        answer("a1", vec![call("1"), call("2")]),
        result("r2", "2", "two"),
        user("meanwhile"),
        result("r1", "1", "one"),
        answer("a2", vec![Block::text("done")]),
    ]);
    for target in Target::APIS {
        write(&session, target);
    }
    let value = write(&session, Target::ChatCompletions);
    assert_eq!(pairs(&value)[0].1, ["one", "two"]);
    // Folded before the person's message, the batch goes whole.
    let seqs: Vec<_> = session.nodes().iter().map(|node| node.seq).collect();
    assert!(!session.is_cut(3), "the batch is one unit up to its last result");
    let NodeRange { start, end } = NodeRange { start: seqs[0], end: seqs[4] };
    let checkpoint = arya_presets::Checkpoint::new(&Kit::base(), "Done.").into_message(&Kit::base(), "c", "c1");
    session.append(Draft::user(checkpoint).citing(seqs[..5].to_vec()).replacing(start, end)).unwrap();
    assert_eq!(pairs(&write(&session, Target::ChatCompletions)), []);
}

#[test]
fn o07_one_constant_call_id_keeps_all_its_pairs_on_the_way_in_and_out() {
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    for round in 0..4 {
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "X", "type": "function", "function": {"name": "read", "arguments": format!("{{\"n\":{round}}}")}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": "X", "content": format!("round {round}")}));
    }
    let import = read(&Value::Array(messages));
    assert!(import.report.repaired.is_empty());
    for target in Target::APIS {
        let text = write(&import.session, target).to_string();
        for round in 0..4 {
            assert!(text.contains(&format!("round {round}")), "{target}");
        }
    }
}

#[test]
fn o08_ids_that_start_anew_are_made_unique_where_the_api_wants_it() {
    let mut drafts = Vec::new();
    for (turn, path) in ["a", "b", "a"].into_iter().enumerate() {
        drafts.push(user(&format!("turn {turn}")));
        let arguments = format!("{{\"path\":\"{path}\"}}");
        drafts.push(answer(&format!("a{turn}"), vec![Block::tool_call("read_file_0", "read_file", arguments)]));
        drafts.push(result(&format!("r{turn}"), "read_file_0", &format!("content {turn}")));
    }
    let session = session(drafts);
    let export = transcript::write(&session, Target::Anthropic, &WriteOptions::default()).unwrap();
    let text = export.value.to_string();
    assert_eq!(export.report.changes[&Change::NameChanged].count, 2);
    for id in ["read_file_0\"", "read_file_0_2\"", "read_file_0_3\""] {
        assert_eq!(text.matches(id).count(), 2, "{id} in call and result");
    }
    assert_eq!(write(&session, Target::ChatCompletions).to_string().matches("\"read_file_0\"").count(), 6);
}

#[test]
fn o10_the_first_turn_is_the_user_s_where_the_api_wants_it() {
    let session = session(vec![answer("a", vec![call("1")]), result("r", "1", "x"), user("go on")]);
    for (target, path) in [(Target::Gemini, "/contents/0/role"), (Target::Anthropic, "/messages/0/role")] {
        let value = write(&session, target);
        assert_eq!(value.pointer(path), Some(&json!("user")), "{target}");
    }
}

// Thinking and reasoning

fn thinking(signature: &str) -> Value {
    json!({"type": "thinking", "thinking": "hm", "signature": signature})
}

#[test]
fn o12_signed_thinking_comes_back_byte_for_byte() {
    let last = json!([thinking("sig=="), {"type": "text", "text": "Look:"},
        {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}, "caller": {"type": "direct"}}]);
    let request = json!({"system": "s", "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": last},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]},
    ]});
    let value = write(&read(&request).session, Target::Anthropic);
    assert_eq!(value.to_string(), request.to_string());
}

#[test]
fn o13_a_turn_keeps_all_its_thinking_or_none() {
    let turn = |first: Value, second: Value| {
        json!({"system": "s", "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [first, {"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
            {"role": "assistant", "content": [second, {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "y"}]},
            {"role": "assistant", "content": "done"},
        ]})
    };
    let count = |value: &Value| value.to_string().matches("\"thinking\":").count();
    assert_eq!(count(&write(&read(&turn(thinking("1"), thinking("2"))).session, Target::Anthropic)), 2);
    // One block without its signature: then none of the turn's can be sent.
    assert_eq!(count(&write(&read(&turn(thinking("1"), thinking(""))).session, Target::Anthropic)), 0);
}

#[test]
fn o14_reasoning_stays_right_before_the_item_that_follows_it() {
    for items in [
        json!([
            {"type": "message", "role": "user", "content": "go"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "R"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "M"}], "id": "msg_1"},
            {"type": "function_call", "call_id": "F", "name": "f", "arguments": "{}", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "F", "output": "o"},
        ]),
        json!([
            {"type": "message", "role": "user", "content": "go"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "R"},
            {"type": "function_call", "call_id": "F", "name": "f", "arguments": "{}", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "F", "output": "o"},
        ]),
    ] {
        let kinds = |items: &Value| -> Vec<String> {
            items.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect()
        };
        let written = write(&read(&items).session, Target::Responses);
        assert_eq!(kinds(&written["input"]), kinds(&items));
        assert_eq!(written["input"][1]["encrypted_content"], "R");
    }
}

#[test]
fn o15_reasoning_goes_with_the_call_that_it_belongs_to() {
    // The call of the first reasoning has no output: it is answered, so that reasoning and call stay together.
    let import = read(&json!([
        {"type": "message", "role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "F1", "name": "f", "arguments": "{}", "id": "fc_1"},
        {"type": "message", "role": "user", "content": "never mind"},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "function_call", "call_id": "F2", "name": "f", "arguments": "{}", "id": "fc_2"},
        {"type": "function_call_output", "call_id": "F2", "output": "o"},
        {"type": "reasoning", "id": "rs_3", "summary": []},
    ]));
    let export = transcript::write(&import.session, Target::Responses, &WriteOptions::default()).unwrap();
    assert_eq!(transcript::validate(Target::Responses, &export.value), []);
    let ids: Vec<&str> =
        export.value["input"].as_array().unwrap().iter().filter_map(|item| item["id"].as_str()).collect();
    assert_eq!(ids, ["rs_1", "fc_1", "rs_2", "fc_2"], "reasoning that nothing follows goes");
    assert_eq!(export.report.changes[&Change::CallAnswered].count, 1);
}

#[test]
fn o16_reasoning_is_repeated_before_every_call_for_those_who_want_it() {
    let import = read(&json!([
        {"type": "message", "role": "user", "content": "go"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "because"}]},
        {"type": "function_call", "call_id": "A", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "B", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "A", "output": "a"},
        {"type": "function_call_output", "call_id": "B", "output": "b"},
    ]));
    let options = WriteOptions::default().with_profile(Profile::default().with(Rule::ResponsesReasoningPerCall));
    let value = write_with(&import.session, Target::Responses, &options);
    let kinds: Vec<&str> =
        value["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[1..5], ["reasoning", "function_call", "reasoning", "function_call"]);
    assert_eq!(value.to_string().matches("because").count(), 2);
    let plain = write(&import.session, Target::Responses);
    assert_eq!(plain.to_string().matches("because").count(), 1);
}

#[test]
fn o17_reasoning_text_goes_back_byte_for_byte_where_it_is_required() {
    let messages = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "reasoning_content": "  First,\nlook. ", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "assistant", "content": "done", "reasoning_content": "Good."},
    ]);
    let import = read(&messages);
    let options =
        WriteOptions::default().with_profile(Profile::reasoning_required().with(Rule::ChatReasoningRequiredEverywhere));
    let value = write_with(&import.session, Target::ChatCompletions, &options);
    assert_eq!(value["messages"][1]["reasoning_content"], "  First,\nlook. ");
    assert_eq!(value["messages"][3]["reasoning_content"], "Good.");
    let refused = WriteOptions::default().with_profile(Profile::reasoning_refused());
    assert!(!write_with(&import.session, Target::ChatCompletions, &refused).to_string().contains("reasoning_content"));
}

#[test]
fn o18_metadata_that_does_not_fit_its_message_is_dropped_and_reported() {
    let import = read_lines(&[
        json!({"type": "session", "version": 0, "id": "s", "createdAt": 1}),
        json!({"type": "user/message", "data": {"id": "u", "role": "user", "source": {"kind": "user"}, "content": [{"type": "text", "text": "go"}]}, "surfaceOp": "append"}),
        json!({"type": "assistant/message", "data": {"turn": 1, "step": 1, "message": {"id": "a", "role": "assistant",
            "source": {"kind": "model", "provider": "p", "model": "m", "replayState": {"blocks": [{}, {}, {}]}},
            "content": [{"type": "reasoning", "text": "r"}, {"type": "text", "text": "t"}]}}, "surfaceOp": "append"}),
    ]);
    assert_eq!(import.report.repaired[&Repair::MetadataDropped].places, [3]);
    let answer = import.session.messages().last().unwrap();
    assert_eq!(answer.content.len(), 2);
    assert!(!serde_json::to_string(&answer.source).unwrap().contains("replayState"));
}

// Images and bytes

#[test]
fn o19_a_pasted_picture_costs_what_a_picture_costs_whatever_form_it_came_in() {
    let data = "A".repeat(1_600_000);
    for request in [
        json!([{"role": "user", "content": [{"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}}]}]),
        json!({"system": "s", "messages": [{"role": "user", "content": [{"type": "text", "text": "what is this?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}]}]}),
        json!([{"role": "user", "parts": [{"text": "what is this?"}, {"inlineData": {"mimeType": "image/png", "data": data}}]}]),
        json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "what is this?"},
            {"type": "input_image", "image_url": format!("data:image/png;base64,{data}")}]}]),
    ] {
        let session = read(&request).session;
        let mut engine = BaseEngine::new(Policy::standard(), Kit::base(), RuleSet::Default).unwrap();
        let situation = Situation::new().window(200_000, WindowOrigin::Named("test".into()));
        let tokens = engine.measure(&session, &situation).unwrap().total_tokens;
        assert!((500..5_000).contains(&tokens), "{tokens}");
        // It is the same picture for every API.
        for target in Target::APIS {
            assert!(write(&session, target).to_string().contains(&data), "{target}");
        }
    }
}

#[test]
fn o20_what_an_api_does_not_take_leaves_a_mark_and_the_text_beside_it() {
    let import = read(&json!({"system": "s", "messages": [
        {"role": "user", "content": "chart it"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "chart", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [
            {"type": "text", "text": "{\"chart_id\":7}"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A".repeat(300_000)}}]}]},
    ]}));
    let text = write(&import.session, Target::ChatCompletions).to_string();
    assert!(text.contains("chart_id") && text.contains("[image omitted: image/png]") && text.len() < 2_000);
}

/// The head of a PNG picture with sides of so many pixels, as base64.
fn png(width: u32, height: u32) -> String {
    let mut bytes = vec![0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R'];
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, 2, 0, 0, 0, 0]);
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|chunk| {
            let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
            (0..4).map(move |at| char::from(ALPHABET[(word >> (18 - 6 * at)) as usize & 63]))
        })
        .collect()
}

#[test]
fn o21_pictures_that_weigh_too_much_go_and_the_oldest_first() {
    let request = |pictures: Vec<String>| {
        let blocks: Vec<Value> = pictures
            .into_iter()
            .map(|data| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}))
            .collect();
        json!({"system": "s", "messages": [{"role": "user", "content": blocks}, {"role": "assistant", "content": "Seen."}]})
    };
    let left = |request: &Value| {
        let value = write(&read(request).session, Target::Anthropic);
        let blocks = value["messages"][0]["content"].as_array().unwrap().clone();
        blocks.iter().map(|block| block["type"] == "image").collect::<Vec<bool>>()
    };
    assert_eq!(left(&request(vec![png(8_001, 10), png(7_999, 10)])), [false, true]);
    let mut many = vec![png(2_001, 10)];
    many.extend(vec![png(100, 100); 20]);
    assert_eq!(left(&request(many)).iter().filter(|is_image| **is_image).count(), 20);
    // Eight pictures of 4.5 MB are more than 32 MB.
    let heavy: Vec<String> = (0..8).map(|_| format!("{}{}", png(100, 100), "A".repeat(4_500_000))).collect();
    assert_eq!(left(&request(heavy)), [false, false, true, true, true, true, true, true]);
}

// Roles

#[test]
fn o48_a_synthetic_request_is_no_message_of_the_user() {
    let message = |id: &str, role: &str, parts: Value, more: Value| {
        let mut info = json!({"id": id, "role": role, "providerID": "p", "modelID": "m"});
        info.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"info": info, "parts": parts})
    };
    let import = read(&json!({"info": {"id": "ses"}, "messages": [
        message("m1", "user", json!([{"type": "text", "text": "Fix the parser."}]), json!({})),
        message("m2", "assistant", json!([{"type": "text", "text": "Working."}]), json!({})),
        message("m3", "user", json!([{"type": "compaction", "auto": true, "tail_start_id": "m2"}]), json!({})),
        message("m4", "assistant", json!([{"type": "text", "text": "The parser was half fixed."}]), json!({"summary": true, "mode": "compaction"})),
        message("m5", "user", json!([{"type": "text", "text": "What did we do so far?", "synthetic": true}]), json!({})),
        message("m6", "user", json!([{"type": "text", "text": "Now the lexer."}]), json!({})),
    ]}));
    let shown: Vec<(bool, bool, String)> = import
        .session
        .messages()
        .map(|message| (message.source.is_user(), message.source.is_checkpoint(), message.text()))
        .collect();
    assert_eq!(
        shown,
        [
            (false, true, "The parser was half fixed.".to_owned()),
            (false, false, "Working.".to_owned()),
            (false, false, "What did we do so far?".to_owned()),
            (true, false, "Now the lexer.".to_owned()),
        ]
    );
    assert_eq!((import.report.folds, import.report.folded_messages), (1, 1));
}

#[test]
fn o52_injected_context_is_recognised_so_that_one_copy_stands_after_a_fold() {
    let text = |role: &str, text: &str| {
        json!({"type": "response_item", "payload": {"type": "message", "role": role,
        "content": [{"type": "input_text", "text": text}]}})
    };
    let mut lines = vec![
        json!({"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}),
        text("developer", "<permissions instructions>ask</permissions instructions>"),
        text("user", "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>be brief</INSTRUCTIONS>"),
        text("user", "<environment_context><cwd>/w</cwd></environment_context>"),
    ];
    for round in 0..6 {
        lines.push(text("user", &format!("Request {round}: {}", "look at the gauge again. ".repeat(80))));
        let said = format!("Answer {round}: {}", "it reads three metres. ".repeat(80));
        lines.push(json!({"type": "response_item", "payload": {"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": said}]}}));
    }
    let import = read_lines(&lines);
    let kinds: Vec<String> =
        import.session.messages().take(4).map(|message| message.source.kind().to_owned()).collect();
    assert_eq!(kinds, ["developer", "agent-instructions", "environment-context", "user"]);
    let mut session = import.session;
    let situation = Situation::new().window(4_000, WindowOrigin::Named("test".into()));
    let mut engine = BaseEngine::new(Policy::standard(), Kit::base(), RuleSet::Default).unwrap();
    let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &situation, &mut ExtractiveSummarizer::new());
    let Outcome::Compacted(compacted) = outcome.unwrap() else { panic!("it should fold") };
    assert_eq!(compacted.landed.folds[0].injected_seqs.len(), 3, "the host puts exactly these back");
}

#[test]
fn o53_neighbours_are_merged_for_templates_that_want_turns_to_alternate() {
    let mut session = session(vec![user("a"), answer("x", vec![call("1")]), result("r", "1", "out")]);
    let checkpoint = arya_presets::Checkpoint::new(&Kit::base(), "Done.").into_message(&Kit::base(), "c", "c1");
    session.append(Draft::user(checkpoint).citing(vec![0]).replacing(0, 0)).unwrap();
    session.append(user("and now?")).unwrap();
    session.append(user("quickly")).unwrap();
    let options = WriteOptions::default().with_profile(Profile::strict_roles());
    let value = write_with(&session, Target::ChatCompletions, &options);
    let roles: Vec<&str> =
        value["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    assert_eq!(value["messages"][3]["content"].as_array().unwrap().len(), 2, "each stays a text of its own");
    let value = write(&session, Target::Anthropic);
    let last = value["messages"].as_array().unwrap().last().unwrap();
    let kinds: Vec<&str> =
        last["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tool_result", "text", "text"], "results stay first");
}

// Truncation and empty content

#[test]
fn o54_shortened_arguments_stay_json_and_keep_their_path() {
    let long = "x".repeat(5_000);
    for (arguments, shortened) in [
        (json!({"path": "a.md", "content": long}).to_string(), true),
        (json!({"path": "a.md", "edits": [{"deep": {"er": [long]}}]}).to_string(), true),
        (json!(long).to_string(), true),
        (format!("not json {long}"), false),
    ] {
        let session = session(vec![
            user("go"),
            answer("a", vec![Block::tool_call("1", "write", &arguments)]),
            result("r", "1", "ok"),
        ]);
        let options = WriteOptions::default().with_longest_argument(200);
        let value = write_with(&session, Target::ChatCompletions, &options);
        let written = value["messages"][1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        let parsed: Value = serde_json::from_str(written).unwrap();
        assert_eq!(written.len() < 600, shortened, "{}", written.len());
        if arguments.contains("a.md") {
            assert_eq!(parsed["path"], "a.md");
        }
        let kept: Vec<&ToolCall> = session.nodes()[1].message.tool_calls().collect();
        assert_eq!(kept[0].arguments, arguments, "the log has the whole");
    }
}

#[test]
fn o55_a_shortened_text_keeps_its_end_too() {
    let command = format!("{}--and-the-last-words-matter", "long ".repeat(60));
    let arguments = json!({"command": command}).to_string();
    let session = session(vec![
        user("go"),
        answer("a", vec![Block::tool_call("1", "execute", &arguments)]),
        result("r", "1", "ok"),
    ]);
    for (limit, whole) in [(1_000, true), (200, false)] {
        let options = WriteOptions::default().with_longest_argument(limit);
        let value = write_with(&session, Target::Anthropic, &options);
        let written = value["messages"][1]["content"][0]["input"]["command"].as_str().unwrap();
        assert_eq!(written == command, whole);
        assert!(written.starts_with("long ") && written.ends_with("--and-the-last-words-matter"));
        assert!(whole || (written.chars().count() <= 200 && written.contains("characters left out")));
    }
}

#[test]
fn o56_nothing_empty_is_sent() {
    let mut empty = Message::tool_result("r", "1", "", false);
    if let Block::ToolResult(block) = &mut empty.content[0] {
        block.content.clear();
    }
    let session = session(vec![
        user("go"),
        answer("a", vec![Block::text(""), call("1")]),
        Draft::tool_result(1, 1, empty),
        answer("b", vec![Block::text("")]),
        user("and?"),
    ]);
    for target in Target::APIS {
        let text = write(&session, target).to_string();
        // A response of Gemini's is an object, which may say nothing; the others want some content.
        assert!(text.contains("[no content]") || target == Target::Gemini, "{target}: {text}");
    }
}

#[test]
fn o57_blocks_keep_their_borders() {
    let import = read(&json!({"system": "s", "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [
            {"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}]},
    ]}));
    let value = write(&import.session, Target::Anthropic);
    let content = &value["messages"][2]["content"][0]["content"];
    assert_eq!(content, &json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]));
    assert_eq!(write(&import.session, Target::ChatCompletions)["messages"][3]["content"].as_array().unwrap().len(), 2);
}

// Persistence and provider items

#[test]
fn o61_a_record_from_before_the_fold_does_not_come_back_behind_it() {
    let old = json!({"type": "assistant", "uuid": "a1", "sessionId": "s", "message": {"id": "m1", "role": "assistant", "model": "c",
        "content": [{"type": "text", "text": "half an ans"}]}});
    let import = read_lines(&[
        json!({"type": "user", "uuid": "u1", "sessionId": "s", "message": {"role": "user", "content": "go"}}),
        old.clone(),
        json!({"type": "system", "subtype": "compact_boundary", "uuid": "b1", "sessionId": "s", "compactMetadata": {"trigger": "auto", "preTokens": 9}}),
        json!({"type": "user", "uuid": "k1", "sessionId": "s", "isCompactSummary": true, "message": {"role": "user", "content": "Summary: half done."}}),
        old,
    ]);
    let texts: Vec<String> = import.session.messages().map(|message| message.text()).collect();
    assert_eq!(texts, ["Summary: half done."]);
    assert_eq!(import.report.repaired[&Repair::RecordRepeated].places, [5]);
}

#[test]
fn o64_payloads_of_older_writers_are_mapped_and_unknown_ones_named_by_line() {
    let lines = [
        json!({"type": "session", "version": 0, "id": "s", "createdAt": 1}),
        json!({"type": "turn/start", "data": {"turn": 1, "trigger": "user"}}),
        json!({"type": "user/message", "data": {"content": [{"type": "text", "text": "go"}], "source": {"kind": "user"}}, "surfaceOp": "append"}),
        json!({"type": "assistant/message", "data": {"turn": 1, "step": 1, "content": [{"type": "tool-call", "id": "c", "name": "f", "arguments": {"a": 1}}],
            "provenance": {"provider": "p", "model": "m"}, "usage": {"input_tokens": 5, "output_tokens": 2}}, "surfaceOp": "append"}),
        json!({"type": "tool/result", "data": {"turn": 1, "step": 1, "callId": "c", "content": "out", "isError": false}, "surfaceOp": "append"}),
        json!({"type": "steering/message", "data": {"content": [{"type": "text", "text": "faster"}], "source": {"kind": "user"}}, "surfaceOp": "append"}),
        json!({"type": "user/message", "data": {"what": 7}, "surfaceOp": "append"}),
        json!({"type": "some/thing-new", "data": {}}),
    ];
    let import = read_lines(&lines);
    let shown: Vec<(String, String)> =
        import.session.messages().map(|message| (message.id.clone(), message.source.kind().to_owned())).collect();
    assert_eq!(shown.iter().map(|(_, kind)| kind.as_str()).collect::<Vec<_>>(), ["user", "model", "tool", "user"]);
    let again = read_lines(&lines);
    assert_eq!(again.session, import.session, "ids follow from the file");
    assert_eq!(import.report.unreadable.iter().map(|entry| entry.place).collect::<Vec<_>>(), [7]);
    assert_eq!(import.report.skipped["some/thing-new"].places, [8]);
    let call = import.session.messages().nth(1).unwrap().tool_calls().next().cloned().unwrap();
    assert_eq!(call.arguments, "{\"a\":1}");
}

#[test]
fn o66_a_late_result_and_old_usage_make_nothing_due_after_a_fold() {
    let result = "x".repeat(127_000);
    let import = read_lines(&[
        json!({"type": "user", "uuid": "u1", "sessionId": "s", "message": {"role": "user", "content": "go"}}),
        json!({"type": "assistant", "uuid": "a1", "sessionId": "s", "message": {"id": "m1", "role": "assistant", "model": "c",
            "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}], "usage": {"input_tokens": 345_000, "output_tokens": 5}}}),
        json!({"type": "system", "subtype": "compact_boundary", "uuid": "b1", "sessionId": "s"}),
        json!({"type": "user", "uuid": "k1", "sessionId": "s", "isCompactSummary": true, "message": {"role": "user", "content": "Summary: reading."}}),
        json!({"type": "user", "uuid": "r1", "sessionId": "s", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": result}]}}),
        json!({"type": "assistant", "uuid": "a2", "sessionId": "s", "message": {"id": "m1", "role": "assistant", "model": "c",
            "content": [{"type": "text", "text": "Read."}], "usage": {"input_tokens": 345_000, "output_tokens": 9}}}),
    ]);
    assert_eq!(import.report.repaired[&Repair::ResultWithoutCall].places, [5]);
    let mut engine = BaseEngine::new(Policy::arya_claude(), Kit::claude(), RuleSet::Default).unwrap();
    let situation = Situation::from_log(&import.session).window(200_000, WindowOrigin::Named("test".into()));
    assert!(engine.measure(&import.session, &situation).unwrap().total_tokens < 500);
}

#[test]
fn o68_an_item_that_one_service_alone_can_read_goes_to_no_other() {
    let import = read_lines(&[
        json!({"type": "session_meta", "payload": {"id": "s"}}),
        json!({"type": "compacted", "payload": {"message": "", "replacement_history": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "kept"}]},
            {"type": "compaction", "encrypted_content": "gAAAA"}]}}),
        json!({"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]}}),
    ]);
    assert!(import.report.opaque_checkpoint, "the host is told that the summary cannot be read");
    for target in [Target::ChatCompletions, Target::Anthropic, Target::Gemini] {
        let export = transcript::write(&import.session, target, &WriteOptions::default()).unwrap();
        assert!(!export.value.to_string().contains("gAAAA"));
        assert!(export.value.to_string().contains("kept"));
        assert_eq!(export.report.changes[&Change::OpaqueCheckpointDropped].count, 1, "{target}");
    }
    assert!(write(&import.session, Target::Responses).to_string().contains("gAAAA"));
    let other = WriteOptions::default().with_profile(Profile::default().with(Rule::ResponsesForeignCompaction));
    assert!(!write_with(&import.session, Target::Responses, &other).to_string().contains("gAAAA"));
}
