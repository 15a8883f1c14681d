//! What each format means, record by record: folds, branches, repeated records, usage, and whose words they are.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::needless_pass_by_value, reason = "records read better where they are written in place")]

use arya_presets::transcript::{self, Change, Export, Format, Import, Repair, Target, WriteOptions};
use arya_presets::{EventData, Session, Usage};
use serde_json::{Value, json};

fn lines(records: &[Value]) -> Import {
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    transcript::read(text.as_bytes()).unwrap()
}

fn document(value: &Value) -> Import {
    transcript::read(value.to_string().as_bytes()).unwrap()
}

fn write(session: &Session, target: Target) -> Export {
    transcript::write(session, target, &WriteOptions::default()).unwrap()
}

/// One letter for who speaks, and the text: U the user, A the model, R a result, C a checkpoint, I an injection.
fn shown(session: &Session) -> Vec<String> {
    session
        .messages()
        .map(|message| {
            let source = &message.source;
            let text = message.result().map_or_else(
                || message.text(),
                |result| result.content.iter().filter_map(|block| block.as_text()).collect::<Vec<_>>().join(" "),
            );
            let calls: String = message.tool_calls().map(|call| format!(" +{}", call.name)).collect();
            let who = match source.kind() {
                _ if source.is_checkpoint() => 'C',
                "user" => 'U',
                "model" => 'A',
                "tool" => 'R',
                _ => 'I',
            };
            format!("{who} {}", format!("{text}{calls}").trim()).trim().to_owned()
        })
        .collect()
}

fn usages(session: &Session) -> Vec<Usage> {
    session
        .events()
        .iter()
        .filter_map(|event| match &event.data {
            EventData::AssistantMessage(data) => data.usage.clone(),
            _ => None,
        })
        .collect()
}

// Codex

fn item(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    json!({"type": "response_item", "payload": {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}})
}

fn event(payload: Value) -> Value {
    json!({"type": "event_msg", "payload": payload})
}

fn started() -> Value {
    event(json!({"type": "task_started", "turn_id": "t"}))
}

fn compacted(text: &str) -> Value {
    json!({"type": "compacted", "payload": {"message": "", "replacement_history": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        {"type": "compaction", "encrypted_content": "x"}]}})
}

fn rolled_back(turns: u64) -> Value {
    event(json!({"type": "thread_rolled_back", "num_turns": turns}))
}

#[test]
fn codex_a_fold_in_a_turn_that_is_taken_back_goes_with_it() {
    let meta = || json!({"type": "session_meta", "payload": {"id": "s"}});
    let before = || {
        vec![
            meta(),
            started(),
            item("user", "one"),
            item("assistant", "1"),
            started(),
            item("user", "two"),
            item("assistant", "2"),
        ]
    };
    // Within the turn, behind its message.
    let mut records = before();
    records.extend([compacted("one"), item("assistant", "after"), rolled_back(1)]);
    let import = lines(&records);
    assert_eq!(shown(&import.session), ["U one", "A 1"]);
    assert_eq!(import.report.repaired[&Repair::FoldTakenBack].count, 1);
    // Before the turn's own message.
    let mut records = before();
    records.extend([started(), compacted("one"), item("user", "three"), item("assistant", "3"), rolled_back(1)]);
    assert_eq!(shown(&lines(&records).session), ["U one", "A 1", "U two", "A 2"]);
    // Between turns: only what came after the fold is taken back.
    let mut records = before();
    records.extend([event(json!({"type": "task_complete"})), compacted("one")]);
    records.extend([started(), item("user", "three"), item("assistant", "3"), rolled_back(1)]);
    assert_eq!(shown(&lines(&records).session), ["U one", "C"]);
    // More turns than came after it.
    records.pop();
    records.push(rolled_back(2));
    assert_eq!(shown(&lines(&records).session), ["U one", "A 1"]);
}

#[test]
fn codex_an_old_fold_without_a_replacement_keeps_the_person_s_messages() {
    let import = lines(&[
        json!({"type": "session_meta", "payload": {"id": "s"}}),
        item("user", "one"),
        item("assistant", "1"),
        json!({"type": "compacted", "payload": {"message": "Another language model started to solve this problem.\nDone: one."}}),
        item("user", "two"),
    ]);
    assert_eq!(
        shown(&import.session),
        ["U one", "C Another language model started to solve this problem.\nDone: one.", "U two"]
    );
}

#[test]
fn codex_the_last_usage_is_the_context_and_zeros_behind_a_fold_are_none() {
    let usage = |input: u64, total: u64| {
        event(json!({"type": "token_count", "info": {
            "total_token_usage": {"input_tokens": 35_000_000, "total_tokens": 35_800_000},
            "last_token_usage": {"input_tokens": input, "cached_input_tokens": input / 2, "output_tokens": 10,
                "reasoning_output_tokens": 4, "total_tokens": total},
            "model_context_window": 258_400}}))
    };
    let import = lines(&[
        json!({"type": "session_meta", "payload": {"id": "s"}}),
        event(json!({"type": "token_count", "info": null})),
        item("user", "one"),
        item("assistant", "1"),
        usage(2_000, 2_010),
    ]);
    let read = usages(&import.session);
    assert_eq!((read[0].input_tokens, read[0].cache_read_tokens, read[0].output_tokens), (1_000, Some(1_000), 10));
    assert_eq!(import.session.request_context().unwrap().context_window, Some(258_400));
    let import = lines(&[
        json!({"type": "session_meta", "payload": {"id": "s"}}),
        item("user", "one"),
        item("assistant", "1"),
        usage(2_000, 2_010),
        compacted("one"),
        item("assistant", "2"),
        usage(0, 940_499),
    ]);
    assert_eq!(usages(&import.session), []);
}

#[test]
fn codex_items_that_no_session_knows_are_kept_for_the_api_that_wrote_them() {
    let import = lines(&[
        json!({"type": "session_meta", "payload": {"id": "s"}}),
        item("user", "search"),
        json!({"type": "response_item", "payload": {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}}),
        json!({"type": "response_item", "payload": {"type": "something_new", "x": 1}}),
        json!({"type": "response_item", "payload": {"type": "ghost_snapshot", "ghost_commit": {}}}),
        item("assistant", "found"),
    ]);
    assert_eq!(shown(&import.session), ["U search", "A found"]);
    assert_eq!(import.session.messages().nth(1).unwrap().content.len(), 3);
    assert_eq!(import.report.skipped["ghost_snapshot"].count, 1);
}

// Claude Code

#[test]
fn codex_a_turn_is_taken_back_by_how_many_the_person_began_behind_the_fold() {
    let meta = json!({"type": "session_meta", "payload": {"id": "s"}});
    let base = [
        meta,
        item("user", "One"),
        compacted("One"),
        item("user", "Two"),
        item("assistant", "A"),
        item("user", "Three"),
    ];
    for (turns, left) in [(0, 3), (1, 2), (2, 0)] {
        let mut records = base.to_vec();
        records.push(rolled_back(turns));
        let import = lines(&records);
        // Behind what the fold kept: the checkpoint and the words of the first turn.
        assert_eq!(import.session.messages().count(), 2 + left, "{turns}: {:?}", shown(&import.session));
        assert_eq!(import.report.repaired.contains_key(&Repair::BranchLeft), turns > 0, "{turns}");
    }
}

#[test]
fn codex_a_message_of_another_agent_goes_back_as_what_it_was() {
    let message = json!({"type": "agent_message", "author": "/lead/worker", "recipient": "/lead", "content": [
        {"type": "input_text", "text": "The parser is done."}, {"type": "encrypted_content", "encrypted_content": "x"}]});
    let import = lines(&[
        json!({"type": "session_meta", "payload": {"id": "s"}}),
        item("user", "Go"),
        json!({"type": "response_item", "payload": message}),
        item("assistant", "Good."),
    ]);
    let written = write(&import.session, Target::CodexRollout);
    assert_eq!(written.value[0]["payload"]["replacement_history"][1], message);
    assert!(!written.report.changes.contains_key(&Change::RoleChanged), "{:?}", written.report.changes);
    let again = transcript::read(written.to_text().as_bytes()).unwrap().session;
    assert_eq!(again.messages().nth(1).unwrap().source.kind(), "agent-message");
    // The API has no such item: what it became is told.
    let written = write(&import.session, Target::Responses);
    assert_eq!(transcript::validate(Target::Responses, &written.value), []);
    assert_eq!(written.value["input"][1]["role"], "user");
    for change in [Change::RoleChanged, Change::FieldsDropped, Change::OpaqueDropped] {
        assert_eq!(written.report.changes[&change].count, 1, "{change:?}");
    }
}

fn claude(kind: &str, uuid: &str, more: Value) -> Value {
    let mut record = json!({"type": kind, "uuid": uuid, "sessionId": "s", "timestamp": "2026-09-01T10:00:00Z"});
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

fn prompt(uuid: &str, text: &str) -> Value {
    claude("user", uuid, json!({"message": {"role": "user", "content": text}}))
}

fn said(uuid: &str, id: &str, block: Value) -> Value {
    let usage = json!({"input_tokens": 3, "cache_creation_input_tokens": 180_000, "output_tokens": 1});
    claude(
        "assistant",
        uuid,
        json!({"message": {"id": id, "role": "assistant", "model": "c", "content": [block], "usage": usage}}),
    )
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn use_tool(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "/w/f"}})
}

fn tool_result(uuid: &str, id: &str, content: &str) -> Value {
    let result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
    claude(
        "user",
        uuid,
        json!({"message": {"role": "user", "content": [result]}, "toolUseResult": {"stdout": content}}),
    )
}

fn boundary(uuid: &str, metadata: Value) -> Value {
    claude("system", uuid, json!({"subtype": "compact_boundary", "compactMetadata": metadata}))
}

fn summary(uuid: &str, text: &str) -> Value {
    claude(
        "user",
        uuid,
        json!({"isCompactSummary": true, "isVisibleInTranscriptOnly": true, "message": {"role": "user", "content": text}}),
    )
}

#[test]
fn claude_records_of_one_message_are_joined_over_the_results_between_them() {
    let mut last = said("a3", "m1", text("both read"));
    last["message"]["usage"]["output_tokens"] = json!(90);
    let import = lines(&[
        prompt("u1", "read both"),
        said("a1", "m1", use_tool("t1")),
        tool_result("r1", "t1", "one"),
        tool_result("r2", "t2", "two"),
        said("a2", "m1", use_tool("t2")),
        last,
    ]);
    assert_eq!(shown(&import.session), ["U read both", "A both read +Read +Read", "R one", "R two"]);
    let usage = &usages(&import.session)[0];
    assert_eq!((usage.output_tokens, usage.total_tokens()), (90, 180_093));
    assert_eq!(import.report.repaired[&Repair::MessageJoined].count, 2);
}

#[test]
fn claude_what_a_fold_preserves_stands_behind_the_summary_or_before_it() {
    let before = [prompt("u1", "one"), said("a1", "m1", text("1")), prompt("u2", "two"), said("a2", "m2", text("2"))];
    for (anchor, expected) in
        [("k1", ["C Summary: one.", "U two", "A 2", "U three"]), ("b1", ["U two", "A 2", "C Summary: one.", "U three"])]
    {
        let mut records = before.to_vec();
        let segment = json!({"preservedSegment": {"headUuid": "u2", "anchorUuid": anchor, "tailUuid": "a2"}});
        records.extend([boundary("b1", segment), summary("k1", "Summary: one."), prompt("u3", "three")]);
        let import = lines(&records);
        assert_eq!(shown(&import.session), expected);
        assert_eq!((import.report.folds, import.report.folded_messages), (1, 2));
        assert_eq!(usages(&import.session), [], "usage from before the fold says nothing");
    }
}

#[test]
fn claude_a_fold_without_a_summary_or_with_an_error_for_one_loses_nothing() {
    let mut records = vec![
        prompt("u1", "one"),
        said("a1", "m1", text("1")),
        boundary("b1", json!({"trigger": "auto"})),
        prompt("u2", "two"),
    ];
    let import = lines(&records);
    assert_eq!(shown(&import.session), ["U one", "A 1", "U two"]);
    assert_eq!(import.report.repaired[&Repair::FoldWithoutSummary].places, [3]);
    records.insert(
        3,
        summary(
            "k1",
            "This session is being continued from a previous conversation.\nYou've hit your limit · resets 8pm",
        ),
    );
    let import = lines(&records);
    assert_eq!(shown(&import.session), ["U one", "A 1", "U two"]);
    assert_eq!(import.report.repaired[&Repair::FoldWithErrorText].places, [4]);
    assert_eq!(import.report.folds, 0);
}

#[test]
fn claude_records_between_boundary_and_summary_stay_behind_the_summary() {
    let import = lines(&[
        prompt("u1", "one"),
        boundary("b1", json!({"trigger": "manual"})),
        claude(
            "user",
            "u2",
            json!({"isMeta": true, "message": {"role": "user", "content": "Caveat: The messages below were generated by the user."}}),
        ),
        prompt("u3", "<command-name>/compact</command-name>"),
        summary("k1", "Summary: one."),
        prompt("u4", "two"),
    ]);
    let shown = shown(&import.session);
    assert_eq!((shown[0].as_str(), shown.last().unwrap().as_str(), shown.len()), ("C Summary: one.", "U two", 4));
    assert!(shown[1].starts_with("I Caveat") && shown[2].starts_with("I <command-name>"));
}

#[test]
fn claude_a_prompt_from_an_earlier_point_leaves_the_branch_behind_that_point() {
    let mut rewound = prompt("u3", "two, differently");
    rewound["parentUuid"] = json!("a1");
    let import = lines(&[
        prompt("u1", "one"),
        said("a1", "m1", text("1")),
        prompt("u2", "two"),
        said("a2", "m2", text("2")),
        rewound,
    ]);
    assert_eq!(shown(&import.session), ["U one", "A 1", "U two, differently"]);
    assert_eq!(import.report.repaired[&Repair::BranchLeft].places, [5]);
}

#[test]
fn claude_a_prompt_from_before_the_fold_takes_the_fold_back() {
    let mut rewound = prompt("u3", "two, differently");
    rewound["parentUuid"] = json!("a1");
    let import = lines(&[
        prompt("u1", "one"),
        said("a1", "m1", text("1")),
        prompt("u2", "two"),
        boundary("b1", json!({"trigger": "manual"})),
        summary("k1", "Summary: two."),
        rewound,
    ]);
    assert_eq!(shown(&import.session), ["U one", "A 1", "U two, differently"]);
    assert_eq!(import.report.repaired[&Repair::FoldTakenBack].places, [6]);
}

#[test]
fn a_field_of_another_type_costs_no_record() {
    let mut odd = prompt("u1", "one");
    for key in ["isSidechain", "isMeta", "timestamp", "cwd", "version", "parentUuid"] {
        odd[key] = json!([7]);
    }
    let mut answer = said("a1", "m1", text("1"));
    answer["message"]["usage"] = json!("none");
    answer["isApiErrorMessage"] = Value::Null;
    let import = lines(&[odd, answer]);
    assert_eq!((shown(&import.session).len(), import.report.unreadable_count), (2, 0));
    let mut count =
        event(json!({"type": "token_count", "info": {"last_token_usage": {"input_tokens": 5, "output_tokens": null}}}));
    count["timestamp"] = json!(7);
    let import = lines(&[item("user", "one"), item("assistant", "1"), count]);
    assert_eq!(import.report.unreadable_count, 0, "{:?}", import.report.unreadable);
    assert_eq!(usages(&import.session)[0].input_tokens, 5);
}

#[test]
fn claude_errors_sidechains_and_the_tool_s_own_words_are_not_the_conversation_s() {
    let mut error = said("a2", "m2", text("API Error: 529"));
    error["isApiErrorMessage"] = json!(true);
    let mut side = prompt("u9", "of a sub-agent");
    side["isSidechain"] = json!(true);
    let import = lines(&[
        prompt("u1", "one"),
        error,
        side,
        prompt("u2", "<task-notification>done</task-notification>"),
        prompt("u3", "[Request interrupted by user]"),
        claude(
            "attachment",
            "x1",
            json!({"attachment": {"type": "file", "filename": "/w/a.md", "content": {"type": "text", "file": {"content": "text of a"}}}}),
        ),
        claude("attachment", "x2", json!({"attachment": {"type": "todo_reminder", "content": []}})),
        prompt("u4", "two"),
    ]);
    assert_eq!(
        shown(&import.session),
        [
            "U one",
            "I <task-notification>done</task-notification>",
            "I [Request interrupted by user]",
            "I /w/a.md\ntext of a",
            "U two"
        ]
    );
    assert_eq!(import.report.skipped["assistant error"].count, 1);
}

// Qwen Code and gemini-cli

fn qwen(kind: &str, uuid: &str, parts: Value) -> Value {
    let role = if kind == "assistant" { "model" } else { "user" };
    json!({"uuid": uuid, "sessionId": "s", "type": kind, "cwd": "/w", "version": "0.24.0", "message": {"role": role, "parts": parts}})
}

fn qwen_system(uuid: &str, subtype: &str, payload: Value) -> Value {
    json!({"uuid": uuid, "sessionId": "s", "type": "system", "subtype": subtype, "systemPayload": payload})
}

#[test]
fn qwen_a_compression_with_a_history_is_a_wall_and_one_with_figures_is_none() {
    let mut answer = qwen("assistant", "a2", json!([{"text": "2"}]));
    answer["usageMetadata"] = json!({"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 20, "thoughtsTokenCount": 5, "totalTokenCount": 120});
    let import = lines(&[
        qwen("user", "u1", json!([{"text": "one"}])),
        qwen("assistant", "a1", json!([{"text": "1"}])),
        qwen_system(
            "k1",
            "chat_compression",
            json!({"info": {"originalTokenCount": 9}, "compressedHistory": [
            {"role": "user", "parts": [{"text": "<state_snapshot>one is done</state_snapshot>"}]},
            {"role": "model", "parts": [{"text": "ack"}]}]}),
        ),
        qwen_system("k2", "chat_compression", json!({"info": {"compressionStatus": 5}})),
        qwen("user", "u2", json!([{"text": "two"}])),
        answer,
    ]);
    assert_eq!(shown(&import.session), ["C <state_snapshot>one is done</state_snapshot>", "A ack", "U two", "A 2"]);
    assert_eq!(import.report.folds, 1);
    let usage = &usages(&import.session)[0];
    assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.output_tokens), (60, Some(40), 20));
}

#[test]
fn qwen_a_rewind_to_before_the_compression_takes_it_back() {
    let compressed =
        json!({"compressedHistory": [{"role": "user", "parts": [{"text": "<state_snapshot>x</state_snapshot>"}]}]});
    let import = lines(&[
        qwen("user", "u1", json!([{"text": "one"}])),
        qwen("assistant", "a1", json!([{"text": "1"}])),
        qwen("user", "u2", json!([{"text": "two"}])),
        qwen_system("k1", "chat_compression", compressed),
        qwen_system("w", "rewind", json!({"targetUuid": "a1"})),
        qwen("user", "u3", json!([{"text": "three"}])),
    ]);
    assert_eq!(shown(&import.session), ["U one", "A 1", "U three"]);
}

#[test]
fn qwen_older_rewinds_count_what_they_take_back() {
    let import = lines(&[
        qwen("user", "u1", json!([{"text": "one"}])),
        qwen("assistant", "a1", json!([{"text": "1"}])),
        qwen("user", "u2", json!([{"text": "two"}])),
        qwen("assistant", "a2", json!([{"text": "2"}])),
        qwen_system("w", "rewind", json!({"truncatedCount": 2})),
        qwen("user", "u3", json!([{"text": "three"}])),
    ]);
    assert_eq!(shown(&import.session), ["U one", "A 1", "U three"]);
}

#[test]
fn gemini_thoughts_stand_beside_the_output_and_calls_hold_their_results() {
    let import = document(
        &json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-30T06:08:50Z", "messages": [
            {"id": "1", "type": "user", "content": "list"},
            {"id": "2", "type": "info", "content": "a notice"},
            {"id": "3", "type": "gemini", "content": "", "model": "g", "thoughts": [{"subject": "Plan", "description": "look"}],
             "tokens": {"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 0, "total": 115},
             "toolCalls": [
                {"id": "c1", "name": "list_directory", "args": {"path": "."}, "status": "success",
                 "result": [{"functionResponse": {"id": "c1", "name": "list_directory", "response": {"output": "a b"}}}]},
                {"id": "c2", "name": "read_file", "args": {}, "status": "error",
                 "result": [{"functionResponse": {"id": "c2", "name": "read_file", "response": {"error": "no path"}}}]}]},
            {"id": "4", "type": "gemini", "content": "Two files.", "model": "g"},
        ]}),
    );
    assert_eq!(
        shown(&import.session),
        ["U list", "A +list_directory +read_file", "R a b", "R no path", "A Two files."]
    );
    let failed: Vec<Option<bool>> =
        import.session.messages().filter_map(|message| Some(message.result()?.is_error)).collect();
    assert_eq!(failed, [None, Some(true)]);
    let usage = &usages(&import.session)[0];
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens()), (60, 15, 115));
}

#[test]
fn gemini_stream_pieces_of_one_answer_are_one_text() {
    let piece = |text: &str| json!({"type": "message", "timestamp": "2026-01-30T06:16:21Z", "role": "assistant", "content": text, "delta": true});
    let import = lines(&[
        json!({"type": "init", "timestamp": "2026-01-30T06:16:20Z", "session_id": "s", "model": "g"}),
        json!({"type": "message", "timestamp": "2026-01-30T06:16:20Z", "role": "user", "content": "go"}),
        piece("Look"),
        piece("ing."),
        json!({"type": "tool_use", "timestamp": "2026-01-30T06:16:22Z", "tool_name": "read_file", "tool_id": "c", "parameters": {}}),
        json!({"type": "tool_result", "timestamp": "2026-01-30T06:16:23Z", "tool_id": "c", "status": "success", "output": "text"}),
        json!({"type": "result", "timestamp": "2026-01-30T06:16:24Z", "status": "success", "stats": {}}),
    ]);
    assert_eq!(shown(&import.session), ["U go", "A Looking. +read_file", "R text"]);
}

#[test]
fn gemini_responses_without_ids_answer_the_calls_of_their_name() {
    let import = document(&json!([
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}}}, {"functionCall": {"name": "b", "args": {}}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "b", "response": {"output": "of b"}}},
            {"functionResponse": {"name": "a", "response": {"lines": 3}}}]},
    ]));
    assert_eq!(import.format, Format::Gemini);
    assert_eq!(shown(&import.session), ["U go", "A +a +b", "R of b", "R {\"lines\":3}"]);
    let calls: Vec<String> = import.session.nodes()[1].message.tool_calls().map(|call| call.id.clone()).collect();
    assert_eq!(import.session.nodes()[2].message.result().unwrap().tool_call_id, calls[1]);
}

// opencode, pi, OpenHands, SWE-agent

#[test]
fn gemini_responses_without_ids_go_to_open_calls_of_the_newest_answer_alone() {
    let call = |name: &str| json!({"functionCall": {"name": name, "args": {}}});
    let response = |name: &str, text: &str| json!({"functionResponse": {"name": name, "response": {"output": text}}});
    let import = document(&json!({"contents": [
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": [call("f"), call("g"), call("f"), {"functionCall": {"id": "own", "name": "f", "args": {}}}]},
        {"role": "user", "parts": [response("f", "first"), response("g", "of g")]},
        {"role": "user", "parts": [response("f", "second"), response("f", "one too many"), response("h", "unasked")]},
        {"role": "model", "parts": [call("f")]},
        {"role": "user", "parts": [response("g", "too late"), response("f", "third")]},
    ]}));
    assert_eq!(
        shown(&import.session),
        ["U Go", "A  +f +g +f +f", "R first", "R of g", "R second", "A  +f", "R third"]
            .map(|line| line.replace("  ", " "))
    );
    assert_eq!(import.report.repaired[&Repair::ResultWithoutCall].count, 3);
    assert_eq!(import.report.repaired[&Repair::CallWithoutResult].count, 1);
}

/// Many small records of the kinds that look something up in what was read before. What each costs must not grow with their number.
#[test]
fn a_file_of_very_many_small_records_is_read_in_time_that_grows_with_its_size() {
    const MANY: usize = 30_000;
    let call = || json!({"functionCall": {"name": "f", "args": {}}});
    let response = || json!({"functionResponse": {"name": "f", "response": {"output": "x"}}});
    let import = document(&json!({"contents": [
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": (0..MANY).map(|_| call()).collect::<Vec<_>>()},
        {"role": "user", "parts": (0..MANY).map(|_| response()).collect::<Vec<_>>()},
    ]}));
    assert_eq!(import.session.messages().count(), MANY + 2);
    assert!(!import.report.repaired.contains_key(&Repair::ResultWithoutCall));

    let said = |seq: usize, op: Value| json!({"type": "user/message", "seq": seq, "surfaceOp": op, "data": {"role": "user", "content": "x"}});
    let mut log = vec![json!({"type": "session", "version": 3, "id": "s", "createdAt": 0})];
    log.extend((0..MANY).map(|seq| said(seq, Value::Null)));
    // Each takes the place of the one before it, which stands at the end.
    log.extend((MANY..2 * MANY).map(|seq| said(seq, json!({"start": seq - 1, "end": seq - 1}))));
    assert_eq!(lines(&log).session.messages().count(), MANY);

    let mut cli = vec![json!({"sessionId": "s", "projectHash": "p"})];
    cli.extend((0..MANY).map(|id| json!({"type": "user", "id": id.to_string(), "content": "x"})));
    cli.extend((0..MANY).map(|_| json!({"$rewindTo": "nowhere"})));
    assert_eq!(lines(&cli).session.messages().count(), MANY);

    let prompts: Vec<Value> = (0..MANY)
        .map(|number| {
            claude(
                "user",
                &format!("u{number}"),
                json!({"parentUuid": "nowhere", "message": {"role": "user", "content": "x"}}),
            )
        })
        .collect();
    assert_eq!(lines(&prompts).session.messages().count(), MANY);

    let action = |id: usize, source: &str, action: &str, args: Value| json!({"id": id, "source": source, "action": action, "args": args});
    let mut events: Vec<Value> = (0..MANY).map(|id| action(id, "user", "message", json!({"content": "x"}))).collect();
    let forgotten: Vec<usize> = (1..10 * MANY).collect();
    events.push(action(MANY, "agent", "condensation", json!({"forgotten_event_ids": forgotten})));
    assert_eq!(lines(&events).session.messages().count(), 1);

    let mut item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]});
    item.as_object_mut().unwrap().extend((0..MANY).map(|key| (format!("k{key}"), json!(key))));
    assert_eq!(document(&json!({"input": [item]})).session.messages().count(), 1);
}

#[test]
fn pi_a_branch_that_was_left_is_left_out_and_a_fold_keeps_from_its_first_entry_on() {
    let entry = |id: &str, parent: Option<&str>, role: &str, text: &str| {
        json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-07-13T14:47:18Z",
            "message": {"role": role, "content": [{"type": "text", "text": text}], "provider": "p", "model": "m"}})
    };
    let head = json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-07-13T14:47:18Z", "cwd": "/w"});
    let mut records = vec![
        head,
        entry("1", None, "user", "one"),
        entry("2", Some("1"), "assistant", "1"),
        entry("3", Some("2"), "user", "left"),
        entry("4", Some("2"), "user", "two"),
        entry("5", Some("4"), "assistant", "2"),
    ];
    let import = lines(&records);
    assert_eq!(shown(&import.session), ["U one", "A 1", "U two", "A 2"]);
    assert_eq!(import.report.repaired[&Repair::BranchLeft].places, [4]);
    records.push(json!({"type": "compaction", "id": "6", "parentId": "5", "summary": "One is done.", "firstKeptEntryId": "5", "tokensBefore": 9}));
    records.push(entry("7", Some("6"), "user", "three"));
    assert_eq!(shown(&lines(&records).session), ["C One is done.", "A 2", "U three"]);
}

#[test]
fn pi_old_files_have_no_ids_and_count_their_entries_from_the_header() {
    let entry = |role: &str, text: &str| json!({"type": "message", "message": {"role": role, "content": text}});
    let import = lines(&[
        json!({"type": "session", "id": "s", "timestamp": "2026-07-13T14:47:18Z", "cwd": "/w"}),
        entry("user", "one"),
        entry("assistant", "1"),
        entry("user", "two"),
        json!({"type": "compaction", "summary": "One is done.", "firstKeptEntryIndex": 3}),
        entry("assistant", "2"),
    ]);
    assert_eq!(shown(&import.session), ["C One is done.", "U two", "A 2"]);
}

#[test]
fn openhands_parallel_actions_are_one_answer_and_a_condensation_forgets_what_it_names() {
    let called = |call: &str| {
        json!({"function_name": "run", "tool_call_id": call, "model_response": {"id": "r1", "model": "m",
        "choices": [{"message": {"tool_calls": [{"id": call, "function": {"name": "run", "arguments": "{\"command\":\"ls\"}"}}]}}]}})
    };
    let mut events = vec![
        json!({"id": 0, "source": "user", "action": "message", "args": {"content": "go"}}),
        json!({"id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "Look."}, "tool_call_metadata": called("a")}),
        json!({"id": 2, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "Look."}, "tool_call_metadata": called("b")}),
        json!({"id": 3, "source": "agent", "observation": "run", "content": "x", "cause": 1, "extras": {"exit_code": 0}}),
        json!({"id": 4, "source": "agent", "observation": "run", "content": "y", "cause": 2, "extras": {"exit_code": 1}}),
        json!({"id": 5, "source": "environment", "observation": "agent_state_changed", "content": ""}),
        json!({"id": 6, "source": "agent", "action": "message", "args": {"content": "Done."}}),
    ];
    let import = document(&Value::Array(events.clone()));
    assert_eq!(shown(&import.session), ["U go", "A Look. +run +run", "R x", "R y", "A Done."]);
    events.push(json!({"id": 7, "source": "agent", "action": "condensation",
        "args": {"forgotten_event_ids": [1, 2, 3, 4], "summary": "It listed files.", "summary_offset": 1}}));
    let import = document(&Value::Array(events));
    assert_eq!(shown(&import.session), ["U go", "C It listed files.", "A Done."]);
}

#[test]
fn swe_agent_demonstrations_are_left_out_and_observations_are_not_the_person_s() {
    let import = document(&json!({"trajectory": [], "history": [
        {"role": "system", "content": "Use commands.", "agent": "main"},
        {"role": "user", "content": "a demonstration", "is_demo": true},
        {"role": "user", "content": "Fix the bug.", "agent": "main"},
        {"role": "assistant", "content": "I look.\n```\nls\n```", "thought": "I look.", "action": "ls"},
        {"role": "user", "content": "a.py", "agent": "main"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "open", "arguments": "{}"}}]},
        {"role": "tool", "content": "text", "tool_call_ids": ["c"], "message_type": "observation"},
    ]}));
    assert_eq!(shown(&import.session), ["U Fix the bug.", "A I look.\n```\nls\n```", "I a.py", "A +open", "R text"]);
    assert_eq!(import.session.request_header().unwrap().system.as_deref(), Some("Use commands."));
}

// The harness

#[test]
fn harness_files_of_version_3_are_read_as_far_as_their_surface() {
    let message = |id: &str, kind: &str, text: &str| json!({"id": id, "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": kind}});
    let import = lines(&[
        json!({"type": "session", "version": 3, "id": "s", "createdAt": 1, "isSeeded": false}),
        json!({"type": "system/message", "seq": 0, "time": 5, "data": {"message": message("y1", "plugin", "Old prompt.")}, "surfaceOp": "append"}),
        json!({"type": "user/message", "seq": 1, "time": 5, "data": message("u1", "user", "one"), "surfaceOp": "append"}),
        json!({"type": "user/message", "seq": 2, "time": 6, "data": message("u2", "user", "two"), "surfaceOp": "append"}),
        json!({"type": "system/message", "seq": 3, "time": 6, "data": {"message": message("y2", "plugin", "New prompt.")}, "surfaceOp": {"op": "replace", "startSeq": 0, "endSeq": 0}}),
        json!({"type": "user/message", "seq": 4, "time": 7, "data": {"id": "c", "role": "user", "content": [{"type": "text", "text": "One is done."}],
            "source": {"kind": "plugin", "plugin": "compact", "compactionId": "k"}}, "surfaceOp": {"op": "replace", "startSeq": 1, "endSeq": 1}}),
    ]);
    assert_eq!(shown(&import.session), ["C One is done.", "U two"]);
    assert_eq!(import.session.request_header().unwrap().system.as_deref(), Some("New prompt."));
    assert_eq!((import.report.folds, import.report.folded_messages), (1, 1));
}

// Finding the format

#[test]
fn harness_a_message_that_takes_the_place_of_a_run_stands_where_the_run_did() {
    let said = |seq: u64, text: &str, op: Value| json!({"type": "user/message", "seq": seq, "surfaceOp": op, "data": {"role": "user", "content": text}});
    let session = json!({"type": "session", "version": 3, "id": "s", "createdAt": 0});
    let base = || (0..5).map(|seq| said(seq, &seq.to_string(), Value::Null));
    let place = |start: u64, end: u64| json!({"start": start, "end": end});
    for (later, expected) in [
        (vec![said(5, "a", place(1, 3))], "0 a 4"),
        (vec![said(5, "a", place(1, 3)), said(6, "b", place(5, 4))], "0 b"),
        (vec![said(5, "a", place(1, 1)), said(6, "b", place(0, 5)), said(7, "c", place(6, 6))], "c 2 3 4"),
        // A run that is not there, or that ends before it begins, replaces nothing.
        (vec![said(5, "a", place(1, 3)), said(6, "b", place(1, 3))], "0 a 4 b"),
        (vec![said(5, "a", place(3, 1))], "0 1 2 3 4 a"),
        (vec![said(5, "a", place(0, 0)), said(6, "b", place(1, 5))], "a 1 2 3 4 b"),
        // A seq that came twice names the first of its messages, as long as it is there.
        (
            vec![said(1, "again", Value::Null), said(5, "a", place(1, 1)), said(6, "b", place(1, 1))],
            "0 a 2 3 4 again b",
        ),
    ] {
        let records: Vec<Value> = [session.clone()].into_iter().chain(base()).chain(later.clone()).collect();
        let import = lines(&records);
        let texts: Vec<String> = import.session.messages().map(|message| message.text()).collect();
        assert_eq!(texts.join(" "), expected, "{later:?}");
    }
}

#[test]
fn harness_the_highest_seq_that_there_is_ends_no_file() {
    let said = |more: Value| {
        let mut event = json!({"type": "user/message", "data": {"role": "user", "content": "x"}});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let session = json!({"type": "session", "version": 3, "id": "s", "createdAt": 0});
    let import = lines(&[session, said(json!({"seq": u64::MAX})), said(json!({}))]);
    assert_eq!(import.session.messages().count(), 2);
}

#[test]
fn what_stands_beside_the_texts_of_a_system_prompt_is_told_where_it_is_left_out() {
    let user = json!({"role": "user", "content": "Go"});
    let cached = json!([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]);
    let plain = json!([{"type": "text", "text": "Be brief."}]);
    for (request, place) in [
        (json!({"system": cached, "messages": [user]}), Some(0)),
        (json!({"system": [{"type": "text", "text": "Be brief."}, {"type": "image"}], "messages": [user]}), Some(0)),
        (json!({"system": plain, "messages": [user]}), None),
        (json!({"system": "Be brief.", "messages": [user]}), None),
        (json!({"messages": [{"role": "system", "name": "boss", "content": "Be brief."}, user]}), Some(1)),
        (json!({"messages": [{"role": "system", "content": cached}, user]}), Some(1)),
        (json!({"messages": [{"role": "system", "content": plain}, user]}), None),
        (
            json!({"systemInstruction": {"parts": [{"text": "Be brief.", "thought": false, "k": 1}]}, "contents": [{"role": "user", "parts": [{"text": "Go"}]}]}),
            Some(0),
        ),
        (
            json!({"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": [{"role": "user", "parts": [{"text": "Go"}]}]}),
            None,
        ),
    ] {
        let import = document(&request);
        assert_eq!(import.session.request_header().unwrap().system.as_deref(), Some("Be brief."), "{request}");
        let told = import.report.repaired.get(&Repair::MetadataDropped).map(|tally| tally.places[0]);
        assert_eq!(told, place, "{request}");
    }
}

#[test]
fn a_system_message_s_name_and_cache_marks_are_kept_or_told() {
    let later = [
        json!({"role": "system", "name": "boss", "content": "Be brief."}),
        json!({"role": "developer", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]}),
        json!({"role": "system", "content": "Be brief."}),
    ];
    for (index, later) in later.into_iter().enumerate() {
        let import = document(&json!({"messages": [{"role": "user", "content": "Go"}, later]}));
        for target in Target::ALL.into_iter().filter(|target| !matches!(target, Target::Pi | Target::Harness)) {
            let written = write(&import.session, target);
            let told = written.report.changes.contains_key(&Change::FieldsDropped);
            assert_eq!(told, index < 2 && target != Target::ChatCompletions, "{target}: {later}");
            let kept = written.value["messages"][1] == later;
            assert_eq!(kept, target == Target::ChatCompletions, "{target}: {}", written.value);
        }
    }
    // A first system message that could not be read as the prompt becomes it, with less than it had.
    let mixed =
        json!([{"type": "text", "text": " ", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": " "}]);
    let import =
        document(&json!({"messages": [{"role": "system", "content": mixed}, {"role": "user", "content": "Go"}]}));
    let written = write(&import.session, Target::ChatCompletions);
    assert_eq!(written.value["messages"][0], json!({"role": "system", "content": " \n "}));
    assert!(written.report.changes.contains_key(&Change::FieldsDropped));
}

#[test]
fn texts_that_no_request_holds_are_refused_with_their_size_and_the_limit() {
    let request = |chars: usize| json!({"system": "s", "messages": [{"role": "user", "content": "x".repeat(chars)}]});
    let frame = request(0).to_string().len();
    let most = 32_000_000;
    let import = document(&request(most - frame));
    let written = write(&import.session, Target::Anthropic);
    assert_eq!(written.value.to_string().len(), most);
    assert_eq!(transcript::validate(Target::Anthropic, &written.value), []);
    let session = document(&request(most - frame + 1)).session;
    let error = transcript::write(&session, Target::Anthropic, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.code(), "inexpressible");
    let text = error.to_string();
    assert!(text.contains("32000001 bytes") && text.contains("at most 32000000"), "{text}");
    // A profile without that rule is not held to it, nor is any other target.
    let profile = transcript::Profile::default().without(transcript::Rule::AnthropicRequestSize);
    assert!(transcript::write(&session, Target::Anthropic, &WriteOptions::default().with_profile(profile)).is_ok());
    assert!(transcript::write(&session, Target::ClaudeCode, &WriteOptions::default()).is_ok());
}

#[test]
fn lines_before_a_document_and_further_conversations_are_told() {
    let document = json!({"info": {"id": "s"}, "messages": [{"info": {"role": "user", "id": "m"}, "parts": [{"type": "text", "text": "go"}]}]});
    let import = transcript::read(format!("Exporting session…\n{document:#}").as_bytes()).unwrap();
    assert_eq!(import.format, Format::Opencode);
    assert_eq!(import.report.repaired[&Repair::LinesBeforeDocument].count, 1);
    let one = json!({"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "ok"}]});
    let import = transcript::read(format!("{one}\n{one}\n{one}\n").as_bytes()).unwrap();
    assert_eq!((import.format, import.report.other_conversations), (Format::ChatCompletions, 2));
}

#[test]
fn a_first_line_that_is_cut_off_does_not_hide_the_format() {
    let text = format!("{{\"type\":\"response_item\",\"pay\n{}\n{}\n", item("user", "one"), item("assistant", "1"));
    let import = transcript::read(text.as_bytes()).unwrap();
    assert_eq!((import.format, import.report.unreadable_count), (Format::CodexRollout, 1));
    assert_eq!(shown(&import.session), ["U one", "A 1"]);
}

#[test]
fn a_byte_order_mark_blank_lines_and_carriage_returns_are_passed_over() {
    let text = format!("\u{feff}\r\n{}\r\n\r\n{}\r\n", prompt("u1", "one"), said("a1", "m1", text("1")));
    let import = transcript::read(text.as_bytes()).unwrap();
    assert_eq!(shown(&import.session), ["U one", "A 1"]);
    assert_eq!(import.report.unreadable_count, 0);
}

#[cfg(feature = "zstd")]
#[test]
fn a_compressed_file_is_read_as_what_it_holds() {
    let text = format!("{}\n{}\n", item("user", "one"), item("assistant", "1"));
    let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    assert_eq!(shown(&transcript::read(&*packed).unwrap().session), ["U one", "A 1"]);
}
