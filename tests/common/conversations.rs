//! Random conversations in the form of each API, as valid as its strictest server wants them.

use arya_presets::transcript::Target;
use serde_json::{Map, Value, json};

use super::common::Rng;

const TEXTS: [&str; 8] = [
    "Why does it hang?",
    "수정해 주세요. 数据库迁移。",
    "line one\n\n\tline two",
    "👩\u{200d}💻 e\u{301}",
    "{\"not\": \"arguments\"}",
    "a",
    "<b>no tag of ours</b>",
    "\u{feff}\"\\/\u{2028}.",
];
const PICTURE: &str = "iVBORw0KGgo=";

fn text(rng: &mut Rng) -> &'static str {
    rng.pick(&TEXTS)
}

fn arguments(rng: &mut Rng) -> Value {
    rng.pick(&[json!({}), json!({ "path": "a.rs" }), json!({ "n": [1, 2.5, null], "deep": { "数": "据" } })])
}

fn name(rng: &mut Rng) -> &'static str {
    rng.pick(&["read", "mcp__files__read", "Run-It", "_x"])
}

struct Ids {
    made: u64,
}

impl Ids {
    fn next(&mut self, rng: &mut Rng, odd: bool) -> String {
        self.made += 1;
        let shapes: &[&str] = if odd { &["call_{}", "c {}é", "{}", "a.b:{}/x"] } else { &["toolu_{}", "{}", "c-{}"] };
        rng.pick(shapes).replace("{}", &self.made.to_string())
    }
}

/// A conversation of so many turns, each with answers and, more often than not, calls.
pub(crate) fn conversation(target: Target, rng: &mut Rng, turns: usize) -> Value {
    match target {
        Target::ChatCompletions => chat(rng, turns),
        Target::Responses => responses(rng, turns),
        Target::Anthropic => anthropic(rng, turns),
        _ => gemini(rng, turns),
    }
}

fn chat(rng: &mut Rng, turns: usize) -> Value {
    let mut ids = Ids { made: 0 };
    let mut messages = Vec::new();
    if rng.chance(50) {
        messages.push(json!({ "role": rng.pick(&["system", "developer"]), "content": text(rng) }));
    }
    for turn in 0..turns {
        if turn > 0 && rng.chance(20) {
            messages.push(json!({ "role": "developer", "content": text(rng) }));
        }
        let mut user = json!({ "role": "user", "content": chat_user_content(rng) });
        if rng.chance(20) {
            user["name"] = "ann".into();
        }
        messages.push(user);
        for _ in 0..rng.index(3) {
            let calls: Vec<Value> = (0..1 + rng.index(3)).map(|_| chat_call(rng, &mut ids)).collect();
            let mut answer = json!({ "role": "assistant", "content": chat_text(rng), "tool_calls": calls });
            if rng.chance(40) {
                answer["content"] = Value::Null;
            }
            if rng.chance(40) {
                answer[rng.pick(&["reasoning_content", "reasoning"])] = text(rng).into();
            }
            messages.push(answer);
            let mut results: Vec<Value> = calls
                .iter()
                .map(|call| json!({ "role": "tool", "tool_call_id": call["id"], "content": chat_text(rng) }))
                .collect();
            if rng.chance(30) {
                results.reverse();
            }
            messages.extend(results);
        }
        if turn + 1 < turns || rng.chance(50) {
            let mut answer = json!({ "role": "assistant", "content": chat_text(rng) });
            if rng.chance(30) {
                answer["refusal"] = Value::Null;
                answer["annotations"] = json!([]);
            }
            messages.push(answer);
        }
    }
    json!({ "messages": messages })
}

fn chat_call(rng: &mut Rng, ids: &mut Ids) -> Value {
    let id = ids.next(rng, true);
    if rng.chance(15) {
        return json!({ "id": id, "type": "custom", "custom": { "name": name(rng), "input": text(rng) } });
    }
    let arguments = arguments(rng);
    let arguments = if rng.chance(50) { arguments.to_string() } else { format!("{arguments:#}") };
    json!({ "id": id, "type": "function", "function": { "name": name(rng), "arguments": arguments } })
}

fn chat_text(rng: &mut Rng) -> Value {
    match rng.below(4) {
        0 => json!([{ "type": "text", "text": text(rng) }, { "type": "text", "text": text(rng) }]),
        1 => json!([{ "type": "text", "text": text(rng), "cache_control": { "type": "ephemeral" } }]),
        _ => text(rng).into(),
    }
}

fn chat_user_content(rng: &mut Rng) -> Value {
    if rng.chance(60) {
        return chat_text(rng);
    }
    let mut parts = vec![json!({ "type": "text", "text": text(rng) })];
    let picture = json!({ "url": format!("data:image/png;base64,{PICTURE}"), "detail": "low" });
    parts.push(json!({ "type": "image_url", "image_url": picture }));
    if rng.chance(30) {
        parts.push(json!({ "type": "image_url", "image_url": { "url": "https://example.org/a.png" } }));
    }
    if rng.chance(30) {
        parts.push(json!({ "type": "input_audio", "input_audio": { "data": "QUJD", "format": "wav" } }));
    }
    if rng.chance(30) {
        let data = "data:application/pdf;base64,QUJD";
        parts.push(json!({ "type": "file", "file": { "filename": "a.pdf", "file_data": data } }));
    }
    if rng.chance(20) {
        parts.push(json!({ "type": "file", "file": { "file_id": "file-1" } }));
    }
    Value::Array(parts)
}

fn responses(rng: &mut Rng, turns: usize) -> Value {
    let mut ids = Ids { made: 0 };
    let mut items = Vec::new();
    let with_ids = rng.chance(50);
    let mut item_id = |prefix: &str, item: &mut Value| {
        if with_ids {
            ids.made += 1;
            item["id"] = format!("{prefix}_{}", ids.made).into();
        }
    };
    let mut call_ids = Ids { made: 0 };
    if rng.chance(15) {
        let mut item = json!({ "type": "compaction", "encrypted_content": "gAAA" });
        item_id("cmp", &mut item);
        items.push(item);
    }
    for turn in 0..turns {
        items.push(responses_input(rng));
        if rng.chance(20) {
            items.push(json!({ "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": text(rng) }] }));
        }
        for _ in 0..1 + rng.index(3) {
            let mut reasoning = json!({ "type": "reasoning", "summary": [], "encrypted_content": "gAAA" });
            if rng.chance(50) {
                reasoning["summary"] = json!([{ "type": "summary_text", "text": text(rng) }]);
            }
            item_id("rs", &mut reasoning);
            items.push(reasoning);
            if rng.chance(20) {
                let mut item =
                    json!({ "type": "web_search_call", "status": "completed", "action": { "type": "search" } });
                item_id("ws", &mut item);
                items.push(item);
            }
            if rng.chance(50) {
                items.push(responses_answer(rng, &mut item_id));
            }
            let mut outputs = Vec::new();
            for _ in 0..1 + rng.index(3) {
                let id = call_ids.next(rng, true);
                let (mut call, output) = match rng.below(4) {
                    0 => (
                        json!({ "type": "custom_tool_call", "call_id": id, "name": name(rng), "input": text(rng) }),
                        "custom_tool_call_output",
                    ),
                    1 => (
                        json!({ "type": "local_shell_call", "call_id": id, "action": { "type": "exec", "command": ["ls"] } }),
                        rng.pick(&["local_shell_call_output", "function_call_output"]),
                    ),
                    _ => (
                        json!({ "type": "function_call", "call_id": id, "name": name(rng), "arguments": arguments(rng).to_string() }),
                        "function_call_output",
                    ),
                };
                match call["type"].as_str() {
                    Some("custom_tool_call") => item_id("ctc", &mut call),
                    Some("function_call") => item_id("fc", &mut call),
                    _ => {}
                }
                items.push(call);
                outputs.push(json!({ "type": output, "call_id": id, "output": responses_output(rng) }));
            }
            if rng.chance(30) {
                outputs.reverse();
            }
            items.extend(outputs);
        }
        if turn + 1 < turns || rng.chance(50) {
            let mut reasoning = json!({ "type": "reasoning", "summary": [] });
            item_id("rs", &mut reasoning);
            items.push(reasoning);
            items.push(responses_answer(rng, &mut item_id));
        }
    }
    json!({ "instructions": text(rng), "input": items })
}

fn responses_answer(rng: &mut Rng, item_id: &mut impl FnMut(&str, &mut Value)) -> Value {
    let mut parts = vec![json!({ "type": "output_text", "text": text(rng), "annotations": [] })];
    if rng.chance(30) {
        parts.push(json!({ "type": "refusal", "refusal": text(rng) }));
    }
    if rng.chance(30) {
        parts.push(json!({ "type": "output_text", "text": text(rng) }));
    }
    let mut item = json!({ "type": "message", "role": "assistant", "status": "completed", "content": parts });
    if rng.chance(30) {
        item["phase"] = "commentary".into();
    }
    item_id("msg", &mut item);
    item
}

fn responses_input(rng: &mut Rng) -> Value {
    if rng.chance(30) {
        return json!({ "role": "user", "content": text(rng) });
    }
    let mut parts = vec![json!({ "type": "input_text", "text": text(rng) })];
    if rng.chance(40) {
        let url = rng.pick(&["data:image/png;base64,iVBORw0KGgo=", "https://example.org/a.png"]);
        parts.push(json!({ "type": "input_image", "image_url": url, "detail": "auto" }));
    }
    if rng.chance(30) {
        parts.push(
            json!({ "type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD" }),
        );
    }
    if rng.chance(20) {
        parts.push(json!({ "type": "input_image", "file_id": "file-1" }));
    }
    json!({ "type": "message", "role": "user", "content": parts })
}

fn responses_output(rng: &mut Rng) -> Value {
    match rng.below(4) {
        0 => json!([{ "type": "input_text", "text": text(rng) }, { "type": "input_text", "text": text(rng) }]),
        1 => json!([{ "type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=" }]),
        _ => text(rng).into(),
    }
}

fn anthropic(rng: &mut Rng, turns: usize) -> Value {
    let mut ids = Ids { made: 0 };
    let mut messages = Vec::new();
    // What stands beside the results of the step before.
    let mut beside: Vec<Value> = Vec::new();
    let mut thinks = false;
    for turn in 0..turns {
        if beside.is_empty() {
            thinks = rng.chance(50);
            messages.push(json!({ "role": "user", "content": anthropic_content(rng) }));
        } else {
            beside.push(json!({ "type": "text", "text": text(rng) }));
            messages.push(json!({ "role": "user", "content": std::mem::take(&mut beside) }));
        }
        for _ in 0..1 + rng.index(3) {
            let mut blocks = Vec::new();
            if thinks {
                blocks.push(json!({ "type": "thinking", "thinking": rng.pick(&["", "Hm."]), "signature": "sig" }));
                if rng.chance(20) {
                    blocks.push(json!({ "type": "redacted_thinking", "data": "ZZ" }));
                }
            }
            if rng.chance(60) {
                blocks.push(json!({ "type": "text", "text": text(rng) }));
            }
            if rng.chance(15) {
                blocks.push(json!({ "type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {} }));
                blocks.push(json!({ "type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [] }));
            }
            let calls: Vec<Value> = (0..1 + rng.index(3))
                .map(|_| json!({ "type": "tool_use", "id": ids.next(rng, false), "name": name(rng), "input": arguments(rng) }))
                .collect();
            blocks.extend(calls.iter().cloned());
            messages.push(json!({ "role": "assistant", "content": blocks }));
            let mut results: Vec<Value> = calls.iter().map(|call| anthropic_result(rng, &call["id"])).collect();
            if rng.chance(30) {
                results.reverse();
            }
            messages.push(json!({ "role": "user", "content": results }));
        }
        if turn + 1 < turns && rng.chance(30) {
            let Some(Value::Array(results)) = messages.pop().map(|mut message| message["content"].take()) else {
                continue;
            };
            beside = results;
        } else if turn + 1 < turns || rng.chance(50) {
            let content = if thinks {
                json!([{ "type": "thinking", "thinking": "Hm.", "signature": "sig" }, { "type": "text", "text": text(rng) }])
            } else {
                text(rng).into()
            };
            messages.push(json!({ "role": "assistant", "content": content }));
        }
    }
    json!({ "system": [{ "type": "text", "text": text(rng) }], "messages": messages })
}

fn anthropic_content(rng: &mut Rng) -> Value {
    if rng.chance(40) {
        return text(rng).into();
    }
    let mut blocks = vec![json!({ "type": "text", "text": text(rng), "cache_control": { "type": "ephemeral" } })];
    if rng.chance(50) {
        blocks.push(anthropic_picture(rng));
    }
    if rng.chance(30) {
        let source = rng.pick(&[
            json!({ "type": "base64", "media_type": "application/pdf", "data": "QUJD" }),
            json!({ "type": "text", "media_type": "text/plain", "data": "x" }),
            json!({ "type": "file", "file_id": "file_1" }),
        ]);
        blocks.push(json!({ "type": "document", "source": source, "title": "t" }));
    }
    blocks.push(json!({ "type": "text", "text": text(rng) }));
    Value::Array(blocks)
}

fn anthropic_picture(rng: &mut Rng) -> Value {
    let source = rng.pick(&[
        json!({ "type": "base64", "media_type": "image/png", "data": PICTURE }),
        json!({ "type": "url", "url": "https://example.org/a.png" }),
    ]);
    json!({ "type": "image", "source": source })
}

fn anthropic_result(rng: &mut Rng, id: &Value) -> Value {
    let mut result = json!({ "type": "tool_result", "tool_use_id": id });
    match rng.below(5) {
        0 => {}
        1 => result["content"] = json!([{ "type": "text", "text": text(rng) }, anthropic_picture(rng)]),
        2 => result["content"] = json!([{ "type": "tool_reference", "tool_name": "x" }]),
        _ => result["content"] = text(rng).into(),
    }
    if rng.chance(40) {
        result["is_error"] = rng.chance(50).into();
    }
    result
}

fn gemini(rng: &mut Rng, turns: usize) -> Value {
    let mut ids = Ids { made: 0 };
    let mut contents = Vec::new();
    let with_ids = rng.chance(50);
    for turn in 0..turns {
        let mut parts = vec![json!({ "text": text(rng) })];
        if rng.chance(30) {
            parts.push(json!({ "inlineData": { "mimeType": "image/png", "data": PICTURE, "displayName": "a.png" } }));
        }
        if rng.chance(20) {
            parts.push(json!({ "fileData": { "mimeType": "application/pdf", "fileUri": "gs://b/a.pdf" } }));
        }
        contents.push(json!({ "role": "user", "parts": parts }));
        for _ in 0..1 + rng.index(3) {
            let mut parts = Vec::new();
            if rng.chance(40) {
                parts.push(json!({ "text": text(rng), "thought": true }));
            }
            if rng.chance(40) {
                parts.push(json!({ "text": text(rng) }));
            }
            let mut responses = Vec::new();
            for call in 0..1 + rng.index(3) {
                let name = rng.pick(&["read", "files.read", "mcp:list-all", "_x"]);
                let mut inner = json!({ "name": name, "args": arguments(rng) });
                let mut answer = json!({ "name": name, "response": gemini_response(rng) });
                if with_ids {
                    let id = ids.next(rng, true);
                    inner["id"] = id.as_str().into();
                    answer["id"] = id.into();
                }
                if rng.chance(20) {
                    answer["parts"] = json!([{ "inlineData": { "mimeType": "image/png", "data": PICTURE } }]);
                }
                let mut part = json!({ "functionCall": inner });
                if call == 0 {
                    part["thoughtSignature"] = "s1".into();
                }
                parts.push(part);
                responses.push(json!({ "functionResponse": answer }));
            }
            if with_ids && rng.chance(30) {
                responses.reverse();
            }
            contents.push(json!({ "role": "model", "parts": parts }));
            contents.push(json!({ "role": "user", "parts": responses }));
        }
        if turn + 1 < turns || rng.chance(50) {
            let mut parts = vec![json!({ "text": text(rng) })];
            if rng.chance(30) {
                parts.push(json!({ "executableCode": { "language": "PYTHON", "code": "1" } }));
                parts.push(json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1" } }));
            }
            if rng.chance(30) {
                parts.push(json!({ "text": "", "thoughtSignature": "s2" }));
            }
            contents.push(json!({ "role": "model", "parts": parts }));
        }
    }
    json!({ "systemInstruction": { "parts": [{ "text": text(rng) }] }, "contents": contents })
}

fn gemini_response(rng: &mut Rng) -> Value {
    rng.pick(&[
        json!({ "output": "x" }),
        json!({ "output": "" }),
        json!({ "error": "bad" }),
        json!({ "output": "x", "exitCode": 1 }),
        json!({ "rows": [1, { "数": null }] }),
    ])
}

/// Breaks one thing, anywhere: a value goes, comes twice, changes its type, its place or its name.
pub(crate) fn damage(value: &mut Value, rng: &mut Rng) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            let at = rng.index(items.len());
            if rng.chance(85) {
                return damage(&mut items[at], rng);
            }
            match rng.below(4) {
                0 => _ = items.remove(at),
                1 => items.insert(at, items[at].clone()),
                2 => {
                    let other = rng.index(items.len());
                    items.swap(at, other);
                }
                _ => items[at] = odd_value(rng),
            }
        }
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(rng.index(map.len())).unwrap().clone();
            if rng.chance(75) {
                return damage(&mut map[&key], rng);
            }
            match rng.below(4) {
                0 => _ = map.shift_remove(&key),
                1 => {
                    _ = map.insert(
                        rng.pick(&["type", "role", "id", "content", "extra", "text"]).to_owned(),
                        odd_value(rng),
                    );
                }
                _ => map[&key] = odd_value(rng),
            }
        }
        other => *other = odd_value(rng),
    }
}

fn odd_value(rng: &mut Rng) -> Value {
    let injected = "<system-reminder>r</system-reminder>";
    let checkpoint = "<compacted-summary>";
    rng.pick(&[
        Value::Null,
        json!(""),
        json!(" "),
        json!(7),
        json!(true),
        json!([]),
        json!([{}]),
        json!({}),
        json!("user"),
        json!("assistant"),
        json!("tool"),
        json!("system"),
        json!("text"),
        json!(injected),
        json!(checkpoint),
        json!("1"),
        json!({ "type": "text", "text": "x " }),
        json!(Map::from_iter([("role".to_owned(), "user".into()), ("content".to_owned(), "x".into())])),
    ])
}
