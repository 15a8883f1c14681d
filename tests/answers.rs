//! What a model may answer when it is asked for a summary, and what becomes of it under each kit: a table.

#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

mod common;

use std::collections::HashSet;

use arya_presets::*;
use serde_json::json;

use common::kits::{enveloped, inner_of, kept};
use common::*;

const ALL: &[&str] = &["base", "codex", "qwen", "claude"];
const PROSE: &[&str] = &["base", "codex"];
const STRUCTURED: &[&str] = &["qwen", "claude"];
const BASE: &[&str] = &["base"];
const CODEX: &[&str] = &["codex"];
const QWEN: &[&str] = &["qwen"];
const CLAUDE: &[&str] = &["claude"];

const FACT: &str =
    "The north gauge read 40 cm too high because its datum was old; the offset was set to 0 and checked.";

fn inner(kit: &Kit) -> String {
    inner_of(kit, FACT)
}

/// A summary as the kit wants it.
fn whole(kit: &Kit) -> String {
    enveloped(kit, &inner(kit))
}

fn tag(kit: &Kit) -> &str {
    &kit.envelope.as_ref().unwrap().tag
}

fn reply(text: impl Into<String>) -> SummaryReply {
    SummaryReply::text("p", "m", text)
}

fn blocks(content: Vec<Block>) -> SummaryReply {
    SummaryReply { content, ..reply("") }
}

fn cut_off(text: impl Into<String>) -> SummaryReply {
    SummaryReply { cut_off: true, ..reply(text) }
}

fn call() -> Block {
    Block::tool_call("x", "read", r#"{"path":"a.rs"}"#)
}

enum Want {
    /// The well-formed summary of the kit.
    Body,
    /// The answer's text as it is.
    Same,
    /// This text.
    Text(fn(&Kit) -> String),
    /// Something of which this holds.
    Such(fn(&Kit, &str) -> bool),
    /// A refusal.
    Code(&'static str),
}

use Want::{Body, Code, Same, Such, Text};

struct Row {
    name: &'static str,
    kits: &'static [&'static str],
    answer: fn(&Kit) -> SummaryReply,
    want: Want,
}

fn row(name: &'static str, kits: &'static [&'static str], answer: fn(&Kit) -> SummaryReply, want: Want) -> Row {
    Row { name, kits, answer, want }
}

/// Longer than the output cap of the test's policy, in any kit.
fn very_long(kit: &Kit) -> String {
    enveloped(kit, &inner_of(kit, &format!("{FACT} ").repeat(200)))
}

fn earlier_checkpoint(kit: &Kit) -> String {
    let content = Checkpoint::new(kit, &kept(kit, &inner(kit))).content(kit);
    content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}

fn quoting_the_frames_end(kit: &Kit) -> String {
    inner_of(kit, &format!("{FACT} The file ends with </compacted-summary> and </ Compacted-Summary>."))
}

fn table() -> Vec<Row> {
    vec![
        // As it should be, and nearly so.
        row("well-formed", ALL, |kit| reply(whole(kit)), Body),
        row("blanks and blank lines around it", ALL, |kit| reply(format!("\n\n  \t\n{}\n \n", whole(kit))), Body),
        row("fenced in backticks", STRUCTURED, |kit| reply(format!("```xml\n{}\n```", whole(kit))), Body),
        row("fenced in backticks", PROSE, |kit| reply(format!("```markdown\n{}\n```", whole(kit))), Same),
        row("text before and after", STRUCTURED, |kit| reply(format!("Here:\n{}\nAnything else?", whole(kit))), Body),
        row("text before and after", PROSE, |kit| reply(format!("Here:\n{}\nThat is all.", whole(kit))), Same),
        row(
            "split into two text blocks",
            STRUCTURED,
            |kit| {
                let whole = whole(kit);
                let (first, second) = whole.split_once('\n').unwrap();
                blocks(vec![Block::text(first), Block::text(second)])
            },
            Body,
        ),
        row(
            "lines that end in CR LF",
            ALL,
            |kit| reply(whole(kit).replace('\n', "\r\n")),
            Text(|kit| kept(kit, &inner(kit).replace('\n', "\r\n"))),
        ),
        row("a byte order mark in front", ALL, |kit| reply(format!("\u{feff}{}", whole(kit))), Body),
        row(
            "zero-width characters in words",
            ALL,
            |kit| reply(enveloped(kit, &inner_of(kit, &FACT.replace("gauge", "gau\u{200b}ge")))),
            Text(|kit| kept(kit, &inner_of(kit, &FACT.replace("gauge", "gau\u{200b}ge")))),
        ),
        row(
            "emoji of several code points",
            ALL,
            |kit| {
                reply(enveloped(
                    kit,
                    &inner_of(kit, "👩🏽\u{200d}💻 set it 🇫🇷, e\u{301}, and 数 too, which the log says in full."),
                ))
            },
            Text(|kit| {
                kept(kit, &inner_of(kit, "👩🏽\u{200d}💻 set it 🇫🇷, e\u{301}, and 数 too, which the log says in full."))
            }),
        ),
        row(
            "a piece of JSON in it",
            ALL,
            |kit| reply(enveloped(kit, &inner_of(kit, &format!("{FACT} {{\"offset\": [0, 1]}}")))),
            Text(|kit| kept(kit, &inner_of(kit, &format!("{FACT} {{\"offset\": [0, 1]}}")))),
        ),
        row(
            "a NUL in it",
            ALL,
            |kit| reply(enveloped(kit, &inner_of(kit, &format!("{FACT}\0{FACT}")))),
            Text(|kit| kept(kit, &inner_of(kit, &format!("{FACT}\0{FACT}")))),
        ),
        row(
            "angle brackets in it",
            ALL,
            |kit| reply(enveloped(kit, &inner_of(kit, &format!("{FACT} Vec<u8> < </b>")))),
            Text(|kit| kept(kit, &inner_of(kit, &format!("{FACT} Vec<u8> < </b>")))),
        ),
        row(
            "a secret in it",
            ALL,
            |kit| reply(enveloped(kit, &inner_of(kit, &format!("{FACT} API_KEY=sk-abcdefghijklmnop1234")))),
            Text(|kit| kept(kit, &inner_of(kit, &format!("{FACT} API_KEY=[masked]")))),
        ),
        // The envelope.
        row("no envelope", STRUCTURED, |kit| reply(inner(kit)), Code("no-envelope")),
        row(
            "opened and not closed",
            STRUCTURED,
            |kit| reply(format!("<{}>\n{}", tag(kit), inner(kit))),
            Code("no-envelope"),
        ),
        row(
            "closed and not opened",
            STRUCTURED,
            |kit| reply(format!("{}\n</{}>", inner(kit), tag(kit))),
            Code("no-envelope"),
        ),
        row(
            "closed before it is opened",
            STRUCTURED,
            |kit| reply(format!("</{0}>\n{1}\n<{0}>", tag(kit), inner(kit))),
            Code("no-envelope"),
        ),
        row(
            "two of them",
            STRUCTURED,
            |kit| reply(format!("{}\n\n{}", enveloped(kit, &inner_of(kit, "A draft.")), whole(kit))),
            Body,
        ),
        row(
            "two of them, the second not closed",
            STRUCTURED,
            |kit| reply(format!("{}\n\n<{}>\n{}", whole(kit), tag(kit), inner_of(kit, "A draft."))),
            Body,
        ),
        row("one inside the other", STRUCTURED, |kit| reply(enveloped(kit, &whole(kit))), Body),
        row("an empty one", STRUCTURED, |kit| reply(enveloped(kit, " \n")), Code("empty")),
        row(
            "one without the sections",
            STRUCTURED,
            |kit| reply(enveloped(kit, &FACT.repeat(5))),
            Code("missing-sections"),
        ),
        row(
            "tags in upper case",
            STRUCTURED,
            |kit| reply(format!("<{0}>\n{1}\n</{0}>", tag(kit).to_uppercase(), inner(kit))),
            Body,
        ),
        row(
            "opened in one case and closed in another",
            STRUCTURED,
            |kit| reply(format!("<{}>\n{}\n</{}>", tag(kit).to_uppercase(), inner(kit), tag(kit))),
            Body,
        ),
        row("indented", STRUCTURED, |kit| reply(format!("  <{0}>\n{1}\n  </{0}>", tag(kit), inner(kit))), Body),
        row(
            "with an attribute",
            STRUCTURED,
            |kit| reply(format!("<{0} lang=\"en\">\n{1}\n</{0}>", tag(kit), inner(kit))),
            Body,
        ),
        row(
            "closed at the end of the last line",
            STRUCTURED,
            |kit| reply(format!("<{0}>\n{1}</{0}>", tag(kit), inner(kit))),
            Body,
        ),
        row(
            "opened in the middle of a line",
            STRUCTURED,
            |kit| reply(format!("Here it is: <{0}>\n{1}\n</{0}>", tag(kit), inner(kit))),
            Code("no-envelope"),
        ),
        row(
            "a tag that only begins alike",
            STRUCTURED,
            |kit| reply(format!("<{0}s>\n{1}\n</{0}s>", tag(kit), inner(kit))),
            Code("no-envelope"),
        ),
        row(
            "tags written as entities",
            STRUCTURED,
            |kit| reply(format!("&lt;{0}&gt;\n{1}\n&lt;/{0}&gt;", tag(kit), inner(kit))),
            Code("no-envelope"),
        ),
        row("the other kit's envelope", QWEN, |kit| reply(enveloped(&Kit::claude(), &inner(kit))), Code("no-envelope")),
        row("the other kit's envelope", CLAUDE, |kit| reply(enveloped(&Kit::qwen(), &inner(kit))), Code("no-envelope")),
        // The scratchpad.
        row(
            "an analysis before it",
            ALL,
            |kit| reply(format!("<analysis>\nWhat was asked?\n</analysis>\n\n{}", whole(kit))),
            Body,
        ),
        row(
            "an analysis in upper case",
            ALL,
            |kit| reply(format!("<ANALYSIS>\nWhat was asked?\n</Analysis>\n{}", whole(kit))),
            Body,
        ),
        row(
            "two analyses",
            ALL,
            |kit| reply(format!("<analysis>a</analysis>\n<analysis>b</analysis>\n{}", whole(kit))),
            Body,
        ),
        row(
            "an analysis after it",
            ALL,
            |kit| reply(format!("{}\n<analysis>\nIs it whole?\n</analysis>", whole(kit))),
            Body,
        ),
        row(
            "an analysis inside it",
            STRUCTURED,
            |kit| reply(enveloped(kit, &format!("<analysis>hm</analysis>\n{}", inner(kit)))),
            Body,
        ),
        row(
            "an analysis that names the envelope",
            STRUCTURED,
            |kit| {
                reply(format!(
                    "<analysis>\nI end with <{0}> and </{0}>.\n<{0}>\n</analysis>\n{1}",
                    tag(kit),
                    whole(kit)
                ))
            },
            Body,
        ),
        row(
            "an analysis that is not closed before the envelope",
            STRUCTURED,
            |kit| reply(format!("<analysis>\nWhat was asked?\n\n{}", whole(kit))),
            Body,
        ),
        row(
            "an analysis that is never closed",
            PROSE,
            |kit| reply(format!("<analysis>\nWhat was asked?\n\n{}", whole(kit))),
            Code("empty"),
        ),
        row("an analysis alone", ALL, |_| reply("<analysis>\nWhat was asked?\n</analysis>"), Code("empty")),
        row(
            "thoughts in a tag of their own",
            ALL,
            |kit| reply(format!("<think>\nHm.\n</think>\n{}", whole(kit))),
            Body,
        ),
        row(
            "thoughts in upper case, twice, and an analysis",
            ALL,
            |kit| reply(format!("<THINK>a</Think><think>b</think>\n<analysis>c</analysis>\n{}", whole(kit))),
            Body,
        ),
        row("thoughts after it", ALL, |kit| reply(format!("{}\n<think>\nIs it whole?\n</think>", whole(kit))), Body),
        row(
            "thoughts that are not closed before the envelope",
            STRUCTURED,
            |kit| reply(format!("<think>\nWhat was asked?\n\n{}", whole(kit))),
            Body,
        ),
        row(
            "thoughts that are never closed",
            PROSE,
            |kit| reply(format!("<think>\nWhat was asked?\n\n{}", whole(kit))),
            Code("empty"),
        ),
        row("thoughts alone", ALL, |_| reply("<think>\nWhat was asked?\n</think>\n"), Code("empty")),
        row("the beginning of thoughts alone", ALL, |_| reply("<think>"), Code("empty")),
        row("thoughts that end in nothing", ALL, |_| reply("<think>\nWhat was"), Code("empty")),
        row(
            "thoughts whose beginning stands in the prompt",
            ALL,
            |kit| reply(format!("What was asked?\n</think>\n\n{}", whole(kit))),
            Body,
        ),
        row(
            "thoughts that mention their own tag in code quotes",
            ALL,
            |kit| reply(format!("<think>\nIs `<think>` one?\n</think>\n{}", whole(kit))),
            Body,
        ),
        row(
            "a summary that mentions the tags in code quotes",
            ALL,
            |kit| {
                reply(enveloped(
                    kit,
                    &inner_of(kit, &format!("{FACT} `<think>` and `</think>` and `<analysis>` stay.")),
                ))
            },
            Text(|kit| kept(kit, &inner_of(kit, &format!("{FACT} `<think>` and `</think>` and `<analysis>` stay.")))),
        ),
        row(
            "a summary that mentions the tag of thoughts in a longer name",
            ALL,
            |kit| reply(enveloped(kit, &inner_of(kit, &format!("{FACT} <thinking> is another tag.")))),
            Text(|kit| kept(kit, &inner_of(kit, &format!("{FACT} <thinking> is another tag.")))),
        ),
        row(
            "a scratchpad under another name",
            STRUCTURED,
            |kit| reply(format!("<scratchpad>\nHm.\n</scratchpad>\n{}", whole(kit))),
            Body,
        ),
        row(
            "a reasoning block before it",
            ALL,
            |kit| blocks(vec![Block::reasoning("Hm."), Block::text(whole(kit))]),
            Body,
        ),
        // Nothing.
        row("no blocks", ALL, |_| blocks(Vec::new()), Code("empty")),
        row("an empty text", ALL, |_| reply(""), Code("empty")),
        row("blanks of all kinds", ALL, |_| reply(" \t\r\n\u{a0}\u{2003}"), Code("empty")),
        row("characters without width alone", ALL, |_| reply("\u{feff}\u{200b}\n\u{200d}\u{2060}"), Code("empty")),
        row("a reasoning block alone", ALL, |_| blocks(vec![Block::reasoning("Hm.")]), Code("empty")),
        // Sections.
        row(
            "one section missing",
            STRUCTURED,
            |kit| {
                let inner = inner(kit);
                let name = &kit.sections[4];
                reply(enveloped(kit, &inner.replace(name.as_str(), "Another")))
            },
            Code("missing-sections"),
        ),
        row("one section missing", BASE, |kit| reply(inner(kit).replace("Pending Jobs", "Another")), Same),
        row(
            "prose that begins with the words of a title in the place of a section",
            CLAUDE,
            |kit| {
                let inner = inner(kit).replace("7. Pending Tasks: ", "Pending tasks are none, says the keeper. ");
                reply(enveloped(kit, &inner))
            },
            Code("missing-sections"),
        ),
        row(
            "titles with a dash, in brackets of their own, underlined",
            CLAUDE,
            |kit| {
                let inner = inner(kit)
                    .replace("7. Pending Tasks:", "7. Pending Tasks -")
                    .replace("8. Current Work:", "## Current Work (today)\n")
                    .replace("4. Errors and Fixes:", "4) __Errors and Fixes__");
                reply(enveloped(kit, &inner))
            },
            Such(|_, body| body.contains("__Errors and Fixes__") && body.contains("(today)")),
        ),
        row("titles alone", BASE, |kit| reply(inner_of(kit, "")), Text(|kit| inner_of(kit, ""))),
        row(
            "titles alone",
            STRUCTURED,
            |kit| reply(enveloped(kit, &inner_of(kit, ""))),
            Text(|kit| kept(kit, &inner_of(kit, ""))),
        ),
        row("a heading alone", CODEX, |_| reply("# Summary\n\n## Work"), Code("too-short")),
        row(
            "sections in another order",
            STRUCTURED,
            |kit| {
                let turned = Kit { sections: kit.sections.iter().rev().cloned().collect(), ..kit.clone() };
                reply(whole(&turned))
            },
            Text(|kit| {
                kept(kit, &inner(&Kit { sections: kit.sections.iter().rev().cloned().collect(), ..kit.clone() }))
            }),
        ),
        row(
            "titles as headings in bold",
            CLAUDE,
            |kit| {
                let titles: Vec<String> =
                    kit.sections.iter().map(|title| format!("### **{}**\n{FACT}", title.to_uppercase())).collect();
                reply(enveloped(kit, &titles.join("\n")))
            },
            Such(|kit, body| body.starts_with("### **PRIMARY") && body.matches(FACT).count() == kit.sections.len()),
        ),
        row(
            "tags of the sections in upper case",
            QWEN,
            |kit| reply(enveloped(kit, &inner(kit).replace("next_step", "NEXT_STEP"))),
            Text(|kit| kept(kit, &inner(kit).replace("next_step", "NEXT_STEP"))),
        ),
        row(
            "a section that is not closed",
            QWEN,
            |kit| reply(enveloped(kit, &inner(kit).replace("</current_work>\n", ""))),
            Code("missing-sections"),
        ),
        row(
            "an envelope of the same name quoted in a section",
            CLAUDE,
            |kit| reply(enveloped(kit, &inner(kit).replace("5. ", "```html\n<summary>More</summary>\n```\n5. "))),
            Text(|kit| inner(kit).replace("5. ", "```html\n<summary>More</summary>\n```\n5. ")),
        ),
        // Too little.
        row("a word", PROSE, |_| reply("Done."), Code("too-short")),
        row("a word", STRUCTURED, |_| reply("Done."), Code("no-envelope")),
        row("a line under a section", BASE, |_| reply("## Current Work\nThe gauge is set."), Same),
        row(
            "a question back",
            PROSE,
            |_| reply("Which part of the conversation should the checkpoint cover?"),
            Code("too-short"),
        ),
        row(
            "a question back",
            STRUCTURED,
            |_| reply("Which part of the conversation should the snapshot cover?"),
            Code("no-envelope"),
        ),
        row("numbers alone", PROSE, |_| reply("40 0 17\n3.5"), Code("too-short")),
        row("numbers alone", STRUCTURED, |_| reply("40 0 17\n3.5"), Code("no-envelope")),
        row("JSON alone", PROSE, |_| reply(r#"{"summary": "done"}"#), Code("too-short")),
        row("JSON alone", STRUCTURED, |_| reply(r#"{"summary": "done"}"#), Code("no-envelope")),
        // Something else.
        row("a refusal", ALL, |_| reply("I cannot help with that conversation."), Code("refusal")),
        row(
            "a refusal with a curly apostrophe",
            ALL,
            |_| reply("I’m sorry, but I can’t summarise this."),
            Code("refusal"),
        ),
        row("a refusal in German", ALL, |_| reply("Es tut mir leid, dabei kann ich nicht helfen."), Code("refusal")),
        row("a refusal in Chinese", ALL, |_| reply("抱歉，我无法总结这段对话。"), Code("refusal")),
        row(
            "a refusal after an analysis",
            ALL,
            |_| reply("<analysis>No.</analysis>\nI'm unable to summarise this."),
            Code("refusal"),
        ),
        row(
            "a refusal in the envelope",
            STRUCTURED,
            |kit| reply(enveloped(kit, "I cannot help with that.")),
            Code("missing-sections"),
        ),
        row(
            "a long record that begins like a refusal",
            CODEX,
            |kit| reply(format!("I cannot, the user said, wait any longer. {}", inner(kit))),
            Same,
        ),
        row("a usage limit", ALL, |_| reply("You’ve hit your limit · resets 8pm"), Code("error-text")),
        row("an error of the provider", ALL, |_| reply("API Error: 529 overloaded"), Code("error-text")),
        row("an error object", ALL, |_| reply(r#"{"error": {"type": "overloaded_error"}}"#), Code("error-text")),
        row("the instruction", ALL, |kit| reply(kit.instruction.clone()), Code("echo")),
        row(
            "a picture",
            ALL,
            |kit| {
                blocks(vec![
                    Block::text(whole(kit)),
                    serde_json::from_value(json!({"type": "image", "data": "AAAA"})).unwrap(),
                ])
            },
            Code("media"),
        ),
        // Calls.
        row("a call alone", ALL, |_| blocks(vec![call()]), Code("only-tool-calls")),
        row("a call after blanks", ALL, |_| blocks(vec![Block::text("\n"), call()]), Code("only-tool-calls")),
        row("a call after thoughts", ALL, |_| blocks(vec![Block::reasoning("Hm."), call()]), Code("only-tool-calls")),
        row("a call beside a summary", ALL, |kit| blocks(vec![Block::text(whole(kit)), call()]), Body),
        row(
            "a call written out in tags",
            ALL,
            |_| reply("<tool_call>{\"name\": \"read\"}</tool_call>"),
            Code("tool-markup"),
        ),
        row("a call written out as a function", ALL, |_| reply("<function=bash>ls</function>"), Code("tool-markup")),
        row("a call written out in full-width bars", ALL, |_| reply("<｜DSML｜tool_calls>read"), Code("tool-markup")),
        row(
            "a call written out as JSON",
            ALL,
            |_| reply("```json\n{\"name\": \"read\", \"arguments\": {}}\n```"),
            Code("tool-markup"),
        ),
        // Cut, too long, not read.
        row("cut off by the output cap", ALL, |kit| cut_off(whole(kit)), Code("cut-off")),
        row(
            "cut off in the middle",
            ALL,
            |kit| cut_off(whole(kit).chars().take(200).collect::<String>()),
            Code("cut-off"),
        ),
        row(
            "very long",
            PROSE,
            |kit| reply(very_long(kit)),
            Such(|kit, body| very_long(kit).starts_with(body) && body.ends_with('.') && body.len() > 2_000),
        ),
        row("very long", STRUCTURED, |kit| reply(very_long(kit)), Code("too-long")),
        row(
            "written without reading",
            ALL,
            |kit| {
                let usage = Usage { input_tokens: 40, output_tokens: 400, ..Usage::default() };
                SummaryReply { usage: Some(usage), ..reply(whole(kit)) }
            },
            Code("not-grounded"),
        ),
        // The frame.
        row(
            "the frame's end tag in it",
            ALL,
            |kit| reply(enveloped(kit, &quoting_the_frames_end(kit))),
            Text(|kit| {
                let text = quoting_the_frames_end(kit)
                    .replace("</compacted", "&lt;/compacted")
                    .replace("</ Comp", "&lt;/ Comp");
                kept(kit, &text)
            }),
        ),
        row(
            "an earlier checkpoint, frame and all",
            &["base", "codex", "qwen"],
            |kit| reply(earlier_checkpoint(kit)),
            Body,
        ),
        row("an earlier checkpoint, frame and all", CLAUDE, |kit| reply(earlier_checkpoint(kit)), Code("no-envelope")),
        row(
            "an earlier checkpoint without its last line",
            PROSE,
            |kit| reply(format!("{}\n{}", kit.frame.opening, whole(kit))),
            Body,
        ),
        row(
            "two envelopes, the second without the sections",
            STRUCTURED,
            |kit| reply(format!("{}\n\n{}", whole(kit), enveloped(kit, FACT))),
            Code("missing-sections"),
        ),
    ]
}

/// Twelve thousand tokens in six turns.
fn long() -> Session {
    conversation(6, 2_000)
}

fn engine_of(kit: &Kit) -> BaseEngine {
    let policy = Policy {
        max_tokens: 2_000,
        summary_retries: Some(0),
        // What the checkpoint says of the person is checked elsewhere.
        verify_user_messages: false,
        ..Policy::default()
    };
    BaseEngine::new(policy, kit.clone(), RuleSet::Default).unwrap().with_pricing(pricing(RuleSet::Default))
}

/// The body of the checkpoint, or why there is none; without one, nothing has changed.
fn judged(session: &Session, kit: &Kit, reply: &SummaryReply) -> Result<String, AnswerFault> {
    let mut session = replayed(session);
    let before = session.nodes().to_vec();
    let mut answer = |_: &SummaryRequest| Ok(reply.clone());
    match compact(&mut engine_of(kit), &mut session, Trigger::manual(), &window(200_000), &mut answer) {
        Ok(_) => {
            let checkpoint = Checkpoint::parse(&session.nodes()[0].message).unwrap();
            assert_eq!(checkpoint.kit.as_deref(), Some(kit.id.as_str()));
            let text = session.nodes()[0].message.text().to_lowercase();
            assert_eq!(text.matches("</compacted-summary").count(), 1, "the frame ends once");
            Ok(checkpoint.body)
        }
        Err(error) => {
            assert_eq!(session.nodes(), before, "a refused answer changes nothing");
            assert!(session.open_compaction().is_none() && error.landed.is_empty());
            match error.failure {
                Failure::Summary(SummaryFailure::Answer(fault)) => Err(fault),
                other => panic!("{other}"),
            }
        }
    }
}

fn text_of(reply: &SummaryReply) -> String {
    reply.content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}

fn complaint(session: &Session, kit: &Kit, row: &Row) -> Option<String> {
    let reply = (row.answer)(kit);
    let expected: Result<String, &str> = match &row.want {
        Body => Ok(kept(kit, &inner(kit))),
        Same => Ok(text_of(&reply).trim().to_owned()),
        Text(text) => Ok(text(kit)),
        Such(_) => Ok(String::new()),
        Code(code) => Err(code),
    };
    let found = judged(session, kit, &reply);
    let fine = match (&row.want, &found) {
        (Such(holds), Ok(body)) => holds(kit, body),
        (_, Ok(body)) => expected.as_ref() == Ok(body),
        (_, Err(fault)) => expected == Err(fault.code()),
    };
    (!fine).then(|| format!("{}: {}\n  wanted {expected:?}\n  found  {found:?}", kit.id, row.name))
}

fn check(id: &str) {
    let (kit, session) = (Kit::builtin(id).unwrap(), long());
    let rows: Vec<Row> = table().into_iter().filter(|row| row.kits.contains(&id)).collect();
    assert!(rows.len() >= 40, "{} rows", rows.len());
    let names: HashSet<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len(), "every row of a kit has its own name");
    let complaints: Vec<String> = rows.iter().filter_map(|row| complaint(&session, &kit, row)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_answer_to_the_base_kit_becomes_what_the_table_says() {
    check("base");
}

#[test]
fn every_answer_to_the_codex_kit_becomes_what_the_table_says() {
    check("codex");
}

#[test]
fn every_answer_to_the_qwen_kit_becomes_what_the_table_says() {
    check("qwen");
}

#[test]
fn every_answer_to_the_claude_kit_becomes_what_the_table_says() {
    check("claude");
}

#[test]
fn reading_alone_gives_the_code_that_compacting_gives() {
    // What only the span can tell is not known to the reader.
    const OF_THE_SPAN: [&str; 4] = ["too-short", "too-long", "not-smaller", "not-grounded"];
    for kit in ALL.iter().filter_map(|id| Kit::builtin(id)) {
        for row in table().iter().filter(|row| row.kits.contains(&kit.id.as_str())) {
            let reply = (row.answer)(&kit);
            let read = read_answer(&kit, &reply.content, reply.cut_off);
            match &row.want {
                Code(code) if !OF_THE_SPAN.contains(code) => {
                    assert_eq!(read.as_ref().map_err(AnswerFault::code), Err(*code), "{}: {}", kit.id, row.name);
                }
                _ => assert!(read.is_ok() || matches!(row.want, Such(_)), "{}: {}: {read:?}", kit.id, row.name),
            }
        }
    }
}

#[test]
fn a_short_span_is_not_judged_by_the_length_of_its_summary() {
    let session = conversation(2, 700);
    let kit = Kit::codex();
    assert_eq!(judged(&session, &kit, &reply("The gauge was set.")).as_deref(), Ok("The gauge was set."));
}

#[test]
fn every_refusal_says_in_words_what_was_wrong_with_the_answer() {
    let session = long();
    let kit = Kit::claude();
    for (answer, part) in [
        (reply(inner(&kit)), "<summary>"),
        (reply(enveloped(&kit, FACT)), "Optional Next Step"),
        (reply("I cannot help with that conversation."), "I cannot help"),
        (reply("API Error: 529"), "API Error: 529"),
        (cut_off(whole(&kit)), "cut off"),
        (reply(very_long(&kit)), "its room is 2000"),
    ] {
        let fault = judged(&session, &kit, &answer).unwrap_err();
        assert!(fault.to_string().contains(part), "{fault}");
    }
}

/// Would take minutes if the time grew with the square of the length.
#[test]
fn an_answer_of_one_tag_over_and_over_is_read_in_the_time_of_any_other() {
    for kit in ALL.iter().filter_map(|id| Kit::builtin(id)) {
        for part in [
            "<analysis></analysis>",
            "<analysis ",
            "<analysis>",
            "<think>",
            "</think>",
            "</think>\n",
            "`<think>`",
            "<summary ",
            "<summary>\n",
            "</summary ",
            "<",
        ] {
            let text = part.replace("summary", kit.envelope.as_ref().map_or("summary", |envelope| &envelope.tag));
            let read = read_answer(&kit, &[Block::text(text.repeat(100_000))], false);
            assert!(read.is_err() || !kit.is_structured(), "{}: {part}", kit.id);
        }
    }
}

#[test]
fn a_hundred_thousand_end_tags_are_read_like_one() {
    for kit in [Kit::qwen(), Kit::claude()] {
        let text = format!("{}{}", whole(&kit), format!("\n</{}>", tag(&kit)).repeat(100_000));
        assert_eq!(read_answer(&kit, &[Block::text(text)], false), Ok(kept(&kit, &inner(&kit))));
    }
}
