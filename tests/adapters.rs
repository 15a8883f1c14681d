//! The adapters for the prompts of Codex and Qwen Code, over stand-ins for every generation of them.

#![cfg(feature = "presets")]
#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use arya_presets::prompt::{
    self, Adapted, Adapter, Audit, Persona, Place, PromptError, PromptFault, PromptVariables, ToolMap,
};
use proptest::prelude::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/prompts")
}

fn stand_in(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

fn names(agent: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files.filter(|name| name.starts_with(agent)).collect();
    names.sort();
    names
}

fn adapted(adapter: &Adapter, name: &str) -> Adapted {
    adapter.adapt(&stand_in(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn count(audit: &Audit, rule: &str) -> usize {
    audit.applied.iter().find(|applied| applied.rule == rule).map_or(0, |applied| applied.count)
}

fn words(text: &str, word: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c| !is_word(c)).filter(|part| *part == word).count()
}

fn headings(text: &str) -> usize {
    let mut in_fence = false;
    let is_heading = |line: &&str| {
        in_fence ^= line.starts_with("```");
        let level = line.len() - line.trim_start_matches('#').len();
        !in_fence && (1..=6).contains(&level) && line.get(level..).is_some_and(|title| title.starts_with(' '))
    };
    text.lines().filter(is_heading).count()
}

#[test]
fn the_stand_ins_have_the_headings_and_tool_names_of_their_generations() {
    for (name, chapters, [apply_patch, update_plan, shell, rg]) in [
        ("codex-base-2025-04.md", 0, [5, 0, 1, 2]),
        ("codex-base-2025-07.md", 0, [5, 7, 1, 2]),
        ("codex-base-2025-08.md", 16, [8, 8, 2, 0]),
        ("codex-base-2025-09.md", 17, [5, 9, 2, 4]),
        ("codex-base-2025-12.md", 17, [5, 9, 2, 4]),
        ("codex-base-2026-01.md", 16, [5, 9, 1, 4]),
        ("codex-base-2026-06.md", 16, [5, 9, 1, 4]),
        ("codex-base-2026-06-patch.md", 17, [9, 9, 3, 4]),
    ] {
        let text = stand_in(name);
        let found = ["apply_patch", "update_plan", "shell", "rg"].map(|word| words(&text, word));
        assert_eq!((headings(&text), found), (chapters, [apply_patch, update_plan, shell, rg]), "{name}");
    }
    for (name, counts) in [
        ("qwen-1-rendered.md", [7, 5, 3, 8, 8, 3]),
        ("qwen-2-rendered.md", [8, 5, 3, 8, 8, 3]),
        ("qwen-3-rendered.md", [8, 3, 2, 7, 3, 5]),
    ] {
        let text = stand_in(name);
        let tools = ["read_file", "write_file", "edit", "run_shell_command", "todo_write", "glob"];
        assert_eq!(tools.map(|word| words(&text, word)), counts, "{name}");
    }
}

#[test]
fn every_generation_is_adapted_and_keeps_neither_identity_nor_foreign_tools_nor_holes() {
    for (agent, adapter) in [("codex", prompt::codex()), ("qwen", prompt::qwen())] {
        let names = names(agent);
        assert!(names.len() >= 11, "{names:?}");
        for name in names {
            let Adapted { text, audit } = adapted(&adapter, &name);
            let lower = text.to_lowercase();
            for gone in [
                "codex",
                "openai",
                "gpt",
                "qwen",
                "alibaba",
                "apply_patch",
                "applypatch",
                "apply-patch",
                "update_plan",
                "read_file",
                "write_file",
                "run_shell_command",
                "search_file_content",
                "grep_search",
                "save_memory",
                "exec_command",
                "multi_tool_use",
                "js_repl",
                "image_generation",
                "${",
                "{{",
                "toolnames",
                "tool_call",
                "<example>",
                "begin patch",
                "seatbelt",
                "bwrap",
                "execvp",
                "workdir",
                "`rg",
                "commentary",
                "skills.read",
                "/help",
                "/bug",
                "file://",
                "\u{e0ff}",
            ] {
                assert!(!lower.contains(gone), "{name}: {gone:?} is left in\n{text}");
            }
            assert!(text.starts_with("You are a"), "{name}: {text}");
            assert!(!audit.applied.is_empty() && !audit.unmatched.is_empty(), "{name}");
            assert!(!text.contains("\n\n\n") && text.ends_with('\n'), "{name}");
        }
    }
}

#[test]
fn what_an_adapter_does_to_a_prompt_is_as_it_was() {
    for (adapter, name) in [
        (prompt::codex(), "codex-base-2025-09.md"),
        (prompt::codex(), "codex-gpt-5-6-2026-08.md"),
        (prompt::qwen(), "qwen-1-source.ts"),
        (prompt::qwen(), "qwen-3-rendered.md"),
    ] {
        let Adapted { text, audit } = adapted(&adapter, name);
        insta::assert_snapshot!(
            format!("adapted_{}", name.replace(['-', '.'], "_")),
            format!("{text}\n====\n\n{audit}")
        );
    }
}

#[test]
fn chapters_on_sandboxes_and_approvals_go_and_so_does_the_reference_that_they_left_behind() {
    let adapter = prompt::codex();
    let with = adapted(&adapter, "codex-base-2025-09.md");
    let removed = &with.audit.removed[0];
    assert_eq!(removed.heading, "Sandbox and approvals");
    let text = stand_in("codex-base-2025-09.md");
    assert_eq!(text.lines().nth(removed.line.unwrap() - 1), Some("## Sandbox and approvals"));
    let without = adapted(&adapter, "codex-base-2026-01.md");
    assert_eq!(without.audit.removed, []);
    assert_eq!(count(&without.audit, "references to the sandbox chapter go"), 2);
    for text in [with.text, without.text] {
        assert!(!text.contains("escalated") && !text.contains("**on-failure**"));
        assert!(text.contains("When you run in interactive runs, hold off"));
    }
}

#[test]
fn rules_that_find_nothing_are_named() {
    let audit = adapted(&prompt::codex(), "codex-base-2025-04.md").audit;
    for rule in ["sandbox and approval chapters go", "heading \"planning\"", "tool update_plan is called todo_write"] {
        assert!(
            audit.unmatched.iter().any(|unmatched| unmatched == rule),
            "{rule} is missing from {:?}",
            audit.unmatched
        );
        assert_eq!(count(&audit, rule), 0);
    }
}

#[test]
fn risks_that_are_left_are_told_with_line_and_column_of_the_result() {
    let Adapted { text, audit } = adapted(&prompt::codex(), "codex-gpt-5-6-2026-08.md");
    let risk = audit.risks.iter().find(|risk| risk.why.contains("summaries")).unwrap();
    let line = text.lines().nth(risk.place.line - 1).unwrap();
    let at: String = line.chars().skip(risk.place.column - 1).collect();
    assert!(at.starts_with(&risk.found), "{risk:?} in {line:?}");
}

/// Adapts a sentence behind what makes it a prompt of Codex.
fn codex_says(text: &str) -> String {
    let adapted = prompt::codex().adapt(&format!("You are Codex.\n\n# Planning\n\nUse `apply_patch`.\n\n{text}\n"));
    let text = adapted.unwrap_or_else(|error| panic!("{text:?}: {error}")).text;
    text.split_once("Use `edit`.\n").unwrap().1.trim().to_owned()
}

fn qwen_says(text: &str) -> String {
    let adapted = prompt::qwen().adapt(&format!("You are Qwen.\n\n# Core Mandates\n\nBe safe.\n\n{text}\n"));
    let text = adapted.unwrap_or_else(|error| panic!("{text:?}: {error}")).text;
    text.split_once("Be safe.\n").unwrap().1.trim().to_owned()
}

#[test]
fn headings_are_known_whatever_their_level_quotes_case_or_trailing_blanks() {
    for heading in [
        "# Sandbox and approvals",
        "###### SANDBOX AND APPROVALS",
        "##  `Sandbox` and approvals  \t",
        "## Sandbox and approvals ##",
        "## **Sandbox and approvals**:",
        "## Sandbox\u{a0}and approvals",
        "## Codex CLI harness, sandboxing, and approvals",
    ] {
        let text = format!("{heading}\n\nNothing of this stays.\n\n# Other\n\nThis stays.");
        assert_eq!(codex_says(&text), "# Other\n\nThis stays.", "{heading:?}");
    }
    assert_eq!(
        codex_says("```\n# Sandbox\n```\n\nStays."),
        "```\n# Sandbox\n```\n\nStays.",
        "a comment in a fence is no heading"
    );
    assert_eq!(
        qwen_says("${before()}# Sandbox\n\nGone.\n\n${f(`a ${`b`} }`)}# Final Reminder\n\nStays."),
        "# Final Reminder\n\nStays."
    );
}

#[test]
fn holes_are_balanced_over_strings_comments_literals_and_braces() {
    for hole in [
        "${x}",
        "${a ? `}` : '}'}",
        "${f({b: {c: 1}})}",
        "${(function () { /* } */ return `x ${`y ${z}`}`; })()}",
        "${g(\"}\") // }\n}",
        "${h('it\\'s }')}",
    ] {
        assert_eq!(qwen_says(&format!("{hole}\n\n- Stays.\n- Goes with {hole} in it.")), "- Stays.", "{hole:?}");
    }
    let error = prompt::qwen().adapt("# Core Mandates\n\nBe safe.\n\nText ${never closed\n").unwrap_err();
    let PromptError::Refused { faults, audit } = error else { panic!("{error}") };
    assert!(audit.is_some());
    assert!(
        faults.iter().any(|fault| matches!(fault, PromptFault::Hole { place: Place { line: 7, column: 6 }, .. })),
        "{faults:?}"
    );
}

#[test]
fn a_section_in_a_hole_stays_unless_it_is_one_that_goes() {
    let text = "${(function () {\n  if (git()) { return `\n# Git Repository\n\n- Look with '${ToolNames.SHELL}' and \\`git\\`.\n`; }\n  \
                return `\n# macOS Seatbelt\n\nGone.\n`;\n})()}\n\n# Final Reminder\n\nStays.";
    assert_eq!(qwen_says(text), "# Git Repository\n\n- Look with `bash` and `git`.\n\n# Final Reminder\n\nStays.");
}

#[test]
fn typographic_hyphens_and_quotes_are_folded() {
    assert_eq!(codex_says("\u{201c}Well\u{2011}known\u{201d} isn\u{2019}t new."), "\"Well-known\" isn't new.");
    assert_eq!(codex_says("a\r\nb\u{feff}"), "a\nb");
}

#[test]
fn english_words_that_are_also_tools_are_renamed_only_inside_quotes() {
    assert_eq!(codex_says("The shell of `shell` is a shell."), "The shell of `bash` is a shell.");
    assert_eq!(
        qwen_says(
            "Edit with 'edit' to edit; replace text with 'replace'. A task is a task, an agent an agent, a skill a 'skill'."
        ),
        "Edit with `edit` to edit; replace text with `edit`. A task is a task, an agent an agent, a skill a `skill`."
    );
    assert_eq!(qwen_says("- Delegate with the 'task' tool.\n- Delegate with `agent`.\n- Stays."), "- Stays.");
}

#[test]
fn quotes_around_tools_become_code_quotes_and_one_that_nothing_closes_goes() {
    assert_eq!(qwen_says("Use 'read_file' and 'read_many_files to learn."), "Use `read` to learn.");
    assert_eq!(qwen_says("Use \"grep_search\", read_file, or `glob`."), "Use `grep`, `read`, or `glob`.");
    assert_eq!(qwen_says("An 'edit' and a 'edit', an 'write_file'."), "An `edit` and an `edit`, a `write`.");
}

#[test]
fn decoy_spellings_samples_and_grammar_of_patches_go() {
    assert_eq!(
        codex_says(
            r#"- Edit with `apply_patch` (not `applypatch`, not `apply-patch`): {"command":["apply_patch","*** Begin Patch\n"]}"#
        ),
        "- Edit with `edit`."
    );
    assert_eq!(codex_says("A patch is this:\n\n```\n*** Begin Patch\n*** End Patch\n```\n\nStays."), "Stays.");
    assert_eq!(codex_says("- `apply-patch` is wrong. Stays."), "- Stays.");
    assert_eq!(
        codex_says("- Use `apply_patch`. It is a FREEFORM tool: no JSON around it. Stays."),
        "- Use `edit`. Stays."
    );
}

#[test]
fn searching_with_rg_becomes_the_search_tools_once() {
    assert_eq!(
        codex_says(
            "- Find text with `rg`. (Without `rg`, use others.)\n- Read in parallel: `cat`, `rg`, `sed`.\n- Files by `rg --files`."
        ),
        "- Search with `grep` and `glob` rather than through the shell.\n- Read in parallel: `cat`, `sed`."
    );
}

#[test]
fn a_list_item_that_goes_takes_what_is_under_it_along_and_an_announcement_its_list() {
    assert_eq!(codex_says("- The approval mode is one of:\n  - one\n    - deep\n- Stays."), "- Stays.");
    assert_eq!(codex_says("The approval modes are these:\n\n- one\n- two\n\nStays."), "Stays.");
    assert_eq!(codex_says("1. Use `commentary` e.g. now. This stays.\n2. Too."), "1. This stays.\n2. Too.");
}

#[test]
fn the_file_of_rules_and_the_tools_are_called_as_the_host_calls_them() {
    let tools = ToolMap::new().rename("edit", "str_replace").unwrap().rename("todo_write", "plan").unwrap();
    let adapter = prompt::codex().with_instruction_file("RULES.md").with_tools(tools);
    let Adapted { text, audit } = adapted(&adapter, "codex-base-2026-06.md");
    assert!(text.contains("RULES.md spec") && !text.contains("AGENTS.md"));
    assert!(text.contains("`str_replace`") && text.contains("`plan`") && !text.contains("todo_write"));
    assert!(count(&audit, "tool todo_write is called plan by the host") > 5);
    let Adapted { text, .. } = adapted(&prompt::qwen().with_instruction_file("RULES.md"), "qwen-1-rendered.md");
    assert!(text.contains("`RULES.md`") && !text.contains("QWEN.md"));
}

#[test]
fn a_text_in_which_a_forbidden_token_remains_is_refused_with_its_place_and_the_whole_audit() {
    let error = prompt::codex()
        .adapt("You are Codex.\n\n# Planning\n\nUse `apply_patch`.\n\n## Ask Claude\n\nOr do not.\n")
        .unwrap_err();
    let PromptError::Refused { faults, audit: Some(audit) } = &error else { panic!("{error}") };
    let forbidden = PromptFault::Forbidden { token: "Claude".into(), place: Place { line: 7, column: 8 } };
    assert_eq!(faults, &[forbidden]);
    assert_eq!(count(audit, "tool apply_patch is called edit"), 1);
    assert!(error.to_string().contains("7:8: \"Claude\""), "{error}");
}

#[test]
fn an_anchor_that_the_rules_would_take_away_is_a_fault() {
    let error = prompt::codex()
        .adapt("You are Codex.\n\n# Planning\n\nThe approval mode decides.\n\n# Other\n\nStays.\n")
        .unwrap_err();
    assert!(error.to_string().contains("\"planning\" is missing"), "{error}");
}

#[test]
fn another_text_is_no_prompt_of_the_agent() {
    for text in ["", "\n", "# Gauges\n\nThe tide is high.\n", &prompt::Persona::arya_claude().text] {
        assert_eq!(prompt::codex().adapt(text).unwrap_err().code(), "not-this-agent", "{text:?}");
        assert_eq!(prompt::qwen().adapt(text).unwrap_err().code(), "not-this-agent", "{text:?}");
    }
    assert_eq!(prompt::codex().adapt("You are Codex.").unwrap_err().code(), "refused", "nothing is left of it");
}

#[test]
fn source_text_and_rendered_text_of_one_generation_come_to_nearly_the_same() {
    for generation in 1..=3 {
        let text = |form: &str| adapted(&prompt::qwen(), &format!("qwen-{generation}-{form}")).text;
        assert_eq!(text("source.ts"), text("naive.md"), "{generation}");
        let lines = |text: String| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        let (source, rendered) = (lines(text("source.ts")), lines(text("rendered.md")));
        let different = source.symmetric_difference(&rendered).count();
        assert!(different <= 6, "{generation}: {different} lines differ");
    }
}

/// What is found of these names in a text, with its column.
fn found(text: &str, forbidden: &[&str]) -> Vec<(String, usize)> {
    let forbidden = forbidden.iter().map(|name| (*name).to_owned()).collect();
    let persona = Persona { text: text.into(), native_capabilities: false, anchors: vec![], forbidden };
    let of = |fault| match fault {
        PromptFault::Forbidden { token, place } => (token, place.column),
        other => panic!("{other:?}"),
    };
    persona.check().into_iter().map(of).collect()
}

#[test]
fn a_forbidden_name_is_found_as_a_word_and_as_a_word_inside_an_identifier() {
    const NAMES: &[&str] = &["Codex", "ChatGPT", "GPT", "Claude", "Qwen", "OpenAI", "Google", "TodoWrite"];
    for (text, token, column) in [
        ("Codex", "Codex", 1),
        ("codex's", "codex", 1),
        ("a CODEX.", "CODEX", 3),
        ("codex_cli", "codex", 1),
        ("CodexCLI", "Codex", 1),
        ("my_codex", "codex", 4),
        ("CODEX_HOME", "CODEX", 1),
        ("runCodex", "Codex", 4),
        ("XMLCodexReader", "Codex", 4),
        ("GPT5", "GPT", 1),
        ("gpt4o", "gpt", 1),
        ("GPT-5.2", "GPT", 1),
        ("GPT\u{2011}5", "GPT", 1),
        ("GPTModel", "GPT", 1),
        ("ChatGPT", "ChatGPT", 1),
        ("ChatGPT4", "ChatGPT", 1),
        ("Claude3", "Claude", 1),
        ("claude_code", "claude", 1),
        ("Qwen3", "Qwen", 1),
        ("qwen2", "qwen", 1),
        ("QwenCode", "Qwen", 1),
        ("OPENAI_API_KEY", "OPENAI", 1),
        ("googleSearch", "google", 1),
        ("a TodoWriteTool", "TodoWrite", 3),
    ] {
        assert_eq!(found(text, NAMES), [(token.to_owned(), column)], "{text}");
    }
    for innocent in
        ["codexes", "Codexes", "gptq", "GPTQ", "gpts", "scripting", "claudette", "googling", "misqwen", "todo_write"]
    {
        assert_eq!(found(innocent, NAMES), [], "{innocent}");
    }
}

#[test]
fn a_forbidden_tool_is_found_with_any_dash_and_in_code_quotes_with_a_blank_but_not_inside_a_longer_identifier() {
    const NAMES: &[&str] = &["apply_patch", "apply-patch", "read_file"];
    for text in [
        "apply_patch",
        "APPLY_PATCH(",
        "apply-patch",
        "apply\u{2010}patch",
        "apply\u{2013}patch",
        "apply\u{2014}patch",
        "apply\u{2212}patch",
        "read\u{2011}file",
        "`apply patch`",
        "`read file`",
        "`read-file`",
        "`read file(path)`",
        "functions.read_file",
        "read_file.rs",
    ] {
        assert_eq!(found(text, NAMES).len(), 1, "{text}");
    }
    for innocent in [
        "apply patch",
        "read a file",
        "`git apply patch.diff`",
        "read-file",
        "read_files",
        "my_read_file",
        "read_file_sync",
        "read_file2",
    ] {
        assert_eq!(found(innocent, NAMES), [], "{innocent}");
    }
}

#[test]
fn a_sentence_goes_that_names_a_maker_or_a_model_however_the_name_is_joined() {
    for name in
        ["GPT5", "gpt4o", "GPT-5", "OPENAI_API_KEY", "Claude3", "Qwen3", "QwenCode", "codex_home", "`codex_cli`"]
    {
        assert_eq!(codex_says(&format!("Ask {name} first. Stays.")), "Stays.", "{name}");
    }
    for name in ["GPT5", "Qwen3", "qwen_code", "Claude4", "Alibaba", "codex_cli"] {
        assert_eq!(qwen_says(&format!("Ask {name} first. Stays.")), "Stays.", "{name}");
    }
    assert_eq!(codex_says("Run CodexCLI or the Codex CLI."), "Run this harness or this harness.");
    assert_eq!(qwen_says("Run QwenCode or Qwen Code."), "Run this harness or this harness.");
    assert_eq!(codex_says("## GPT5 habits\n\nNone."), "## this model habits\n\nNone.");
    assert_eq!(codex_says("Codexes and gptq are words."), "Codexes and gptq are words.");
}

#[test]
fn tools_that_start_agents_go_by_any_name_and_the_english_words_stay() {
    for gone in [
        "Call Task(prompt) first.",
        "Use `Task` for it.",
        "Use `task(…)` for it.",
        "Use 'Agent' for it.",
        "Use the Agent tool.",
        "Agent(prompt) helps.",
        "Use `Exec` to run scripts.",
        "Set subagent_type to one.",
        "Sub\u{2011}agents help.",
        "`LSP` finds symbols.",
        "Ask the LSP server.",
        "Call lsp_hover or LSP_hover.",
    ] {
        assert_eq!(qwen_says(&format!("{gone} Stays.")), "Stays.", "{gone}");
    }
    for stays in [
        "A task is a task, an agent an agent.",
        "Task (optional) and Agent(s) are words.",
        "A \"task\" and an \"agent\" are words, too.",
        "The agent's `background task` is code.",
    ] {
        assert_eq!(qwen_says(stays), stays);
    }
    let fenced = "# Core Mandates\n\nDo it.\n\n```\n`Task` and LSP\n```\n";
    let risks = prompt::qwen().adapt(fenced).unwrap().audit.risks;
    let told: Vec<_> = risks.iter().map(|risk| (risk.found.as_str(), risk.place.line, risk.place.column)).collect();
    assert_eq!(told, [("`Task`", 8, 1), ("LSP", 8, 12)]);
}

#[test]
fn other_spellings_of_a_tool_are_that_tool_and_decoys_stay_decoys() {
    for (text, says) in [
        ("Plan with `update plan`.", "Plan with `todo_write`."),
        ("Plan with `update-plan`.", "Plan with `todo_write`."),
        ("Plan with update\u{2013}plan.", "Plan with `todo_write`."),
        ("Plan with \u{2018}update_plan\u{2019}.", "Plan with `todo_write`."),
        ("Plan with Update_Plan.", "Plan with `todo_write`."),
        ("Never say apply\u{2013}patch. Stays.", "Stays."),
        ("Never say \u{201c}apply\u{2212}patch\u{201d}. Stays.", "Stays."),
        ("Never say `apply patch`. Stays.", "Stays."),
        ("Run `git apply patch.diff`.", "Run `git apply patch.diff`."),
        (
            "Say 8\u{2013}12 words \u{2014} or\u{2014}better\u{2014}less.",
            "Say 8\u{2013}12 words \u{2014} or\u{2014}better\u{2014}less.",
        ),
    ] {
        assert_eq!(codex_says(text), says, "{text}");
    }
}

#[test]
fn a_tool_in_a_namespace_is_renamed_as_a_whole_or_stays_and_is_told() {
    for (text, says) in [
        ("Use functions.exec_command.", "Use `bash`."),
        ("Use `functions.exec_command`.", "Use `bash`."),
        ("Use \"functions::apply_patch\".", "Use `edit`."),
        ("Use functions.shell, then `functions.shell`.", "Use `bash`, then `bash`."),
        ("Use apply_patch/update_plan.", "Use `edit`/`todo_write`."),
        ("{\"name\":\"functions.exec_command\"}", "{\"name\":\"bash\"}"),
        ("Wait...apply_patch.", "Wait...`edit`."),
        ("See `src/shell` and `other.shell`.", "See `src/shell` and `other.shell`."),
    ] {
        assert_eq!(codex_says(text), says, "{text}");
    }
    for (text, column) in [("Use mcp.exec_command.", 9), ("See apply_patch.rs.", 5), ("See src/apply_patch.", 9)] {
        let error = prompt::codex().adapt(&format!("You are Codex.\n\n{text}\n")).unwrap_err();
        let PromptError::Refused { faults, .. } = error else { panic!("{error}") };
        let [PromptFault::Forbidden { place, .. }] = faults.as_slice() else { panic!("{faults:?}") };
        assert_eq!((place.line, place.column), (3, column), "{text}");
    }
}

#[test]
fn a_word_of_english_is_a_tool_in_code_quotes_and_in_strings_of_code_alone() {
    for (text, says) in [
        ("A \"shell\" and a 'shell'.", "A \"shell\" and a 'shell'."),
        ("Use ``shell``, then `shell`.", "Use ``bash``, then `bash`."),
        ("Use `shell(command)`.", "Use `bash(command)`."),
        ("```json\n{\"tool\": \"shell\"}\nshell\n```", "```json\n{\"tool\": \"bash\"}\nshell\n```"),
        ("~~~\n[\"shell\", \"ls\"]\n~~~", "~~~\n[\"bash\", \"ls\"]\n~~~"),
        ("Send {\"tool\":\"shell\"}.", "Send {\"tool\":\"bash\"}."),
        ("```\nupdate_plan x\n```", "```\ntodo_write x\n```"),
    ] {
        assert_eq!(codex_says(text), says, "{text}");
    }
    assert_eq!(qwen_says("Use ${ToolNames.EDIT}, not `a ${ToolNames.GLOB}`."), "Use `edit`, not `a glob`.");
    assert_eq!(qwen_says("Use 'edit', no \"edit\"."), "Use `edit`, no \"edit\".");
}

#[test]
fn fences_are_of_backticks_or_tildes_of_any_length_and_indent() {
    for (open, close) in [
        ("```", "```"),
        ("~~~", "~~~"),
        ("~~~~ md", "~~~~~  "),
        ("````md", "````"),
        ("````\n```", "````"),
        ("~~~\n```", "~~~"),
        ("  ```sh", "  ```"),
        ("\t~~~", "\t~~~"),
        ("- ```", "  ```"),
        ("1. ~~~", "   ~~~"),
        ("> ```", "> ```"),
    ] {
        let code = format!("Code:\n{open}\n# Sandbox\n{close}\n\nStays.");
        assert_eq!(codex_says(&code), code, "a comment in a fence is no heading");
        let patch = format!("Stays. Like this:\n\n{open}\n*** Begin Patch\n{close}\n\nStays.");
        assert_eq!(codex_says(&patch), "Stays.\n\nStays.", "{open}");
    }
    let no_fence = "```not `a` fence```\n\n# Sandbox\n\nGone.\n\n# Other\n\nStays.";
    assert_eq!(codex_says(no_fence), "```not `a` fence```\n\n# Other\n\nStays.");
    let unclosed = "````\n```\n# Sandbox";
    assert_eq!(codex_says(unclosed), unclosed);
}

#[test]
fn underlined_titles_are_headings_and_rules_are_none() {
    for (text, says) in [
        ("Sandbox and approvals\n=====\n\nGone.\n\nOther\n=====\n\nStays.", "# Other\n\nStays."),
        ("`Sandbox`\n---\nGone.\n\nOther\n-----  \nStays.", "## Other\n\nStays."),
        ("Sandbox\n---\n\nGone.\n\n### Deeper\n\nGone.\n\n# Other\n\nStays.", "# Other\n\nStays."),
        ("Stays.\n\n---\n\nStays.", "Stays.\n\n---\n\nStays."),
        ("Stays\nSandbox\n---", "Stays\nSandbox\n---"),
        ("- Sandbox\n---", "- Sandbox\n---"),
        ("```\nSandbox\n---\n```", "```\nSandbox\n---\n```"),
        ("| a |\n---", "| a |\n---"),
    ] {
        assert_eq!(codex_says(text), says, "{text}");
    }
    let text = "You are Codex.\n\nNotes\n=====\n\nSandbox\n-------\n\nGone.\n\nSandbox\n-------\n\nGone.\n\nOther\n=====\n\nStays.\n";
    let audit = prompt::codex().adapt(text).unwrap().audit;
    assert_eq!(removed(&audit), [("Notes", 3), ("Sandbox", 6), ("Sandbox", 11)]);
    assert_eq!(count(&audit, "underlined titles become headings"), 4);
}

fn removed(audit: &Audit) -> Vec<(&str, usize)> {
    audit.removed.iter().map(|section| (section.heading.as_str(), section.line.unwrap())).collect()
}

#[test]
fn every_section_that_goes_is_told_with_its_own_line() {
    for (text, gone) in [
        ("# Sandbox\n\nOne.\n\n# Other\n\nStays.\n\n# Sandbox\n\nTwo.", vec![("Sandbox", 3), ("Sandbox", 11)]),
        ("# Sandbox\n\n## Sandbox\n\nOne.\n\n# Other\n\nStays.\n\n# Sandbox", vec![("Sandbox", 3), ("Sandbox", 13)]),
        ("```\n# Sandbox\n```\n\n# Sandbox\n\nOne.\n\n# Other\n\nStays.", vec![("Sandbox", 7)]),
        ("# Empty\n\n# Other\n\nStays.\n\n## Empty", vec![("Empty", 3), ("Empty", 9)]),
        ("# Sandbox\r\n\r\nOne.\r\n\r\n# Other\r\n\r\nStays.", vec![("Sandbox", 3)]),
        ("\u{feff}\n#\u{a0}Sandbox\u{2003}\n\nOne.\n\n# Other\n\nStays.", vec![("Sandbox", 4)]),
    ] {
        let audit = prompt::codex().adapt(&format!("You are Codex.\n\n{text}\n")).unwrap().audit;
        assert_eq!(removed(&audit), gone, "{text:?}");
    }
    let hole = "You are Qwen.\n\n# Sandbox\n\nGone.\n\n${f() ? `\n# Sandbox\n\nGone.\n` : `\n# Bwrap\n`}\n\n# Core Mandates\n\nStays.\n";
    let audit = prompt::qwen().adapt(hole).unwrap().audit;
    assert_eq!(removed(&audit), [("Sandbox", 3), ("Sandbox", 8), ("Bwrap", 12)]);
}

#[test]
fn a_hole_that_nothing_closes_stays_with_all_behind_it_and_is_told() {
    for hole in [
        "- One ${oops text.\n- Two has a } brace.",
        "- One ${oops {text.\n- Two has } braces }.",
        "- One ${it isn't.\n- Two has a } brace.",
        "One ${oops text.\n\nTwo has a } brace.",
        "One ${oops text\nand two has a } brace.",
        "- One ${oops\n\n1. Two } brace.",
        "One ${oops(\n# Two\n} brace.",
        "- One ${oops(\n```\n}\n```",
        "- One `${oops` here.\n- Two uses '${ToolNames.SHELL}'.",
    ] {
        let error = prompt::qwen().adapt(&format!("# Core Mandates\n\nBe safe.\n\n{hole}\n")).unwrap_err();
        let PromptError::Refused { faults, audit: Some(audit) } = error else { panic!("{error}") };
        let column = hole.find('$').unwrap() + 1;
        let place = Place { line: 7, column };
        let told = |fault: &PromptFault| matches!(fault, PromptFault::Hole { place: at, .. } if *at == place);
        assert!(faults.iter().any(told), "{hole:?}: {faults:?}");
        assert!(audit.risks.iter().any(|risk| risk.place == place && risk.found.starts_with("${")), "{hole:?}");
        assert_eq!(count(&audit, "sentences with closed holes go"), 0, "{hole:?}");
    }
    for hole in [
        "${\n  a\n    ? b\n    : c\n}",
        "${f(\n  a,\n  // a comment\n  b,\n)}",
        "${a\n  in b}",
        "${g(`\n- item\n\ntext\n`)}",
    ] {
        assert_eq!(qwen_says(&format!("{hole}\n\nStays.")), "Stays.", "{hole:?}");
    }
}

#[test]
fn a_closed_hole_leaves_nothing_of_itself_in_headings_and_fences() {
    assert_eq!(codex_says("# One {{x}} two\n\nStays."), "# One two\n\nStays.");
    assert_eq!(codex_says("Like this:\n\n```\nrun {{x}}\n```\n\nStays."), "Stays.");
    assert_eq!(codex_says("# {{title}}\n\nStays."), "Stays.");
}

#[test]
fn a_hole_of_another_template_and_a_line_of_source_are_told_as_risks() {
    for (text, found) in [("Say {{#if x}} so.", "{{#if x}}"), ("import { a } from 'b';", "import { a } from 'b';")] {
        let Adapted { text, audit } = prompt::codex().adapt(&format!("You are Codex.\n\nStays.\n\n{text}\n")).unwrap();
        let [risk] = audit.risks.as_slice() else { panic!("{audit}") };
        assert_eq!(risk.found, found);
        assert!(at(&text, risk.place).starts_with(found));
    }
}

#[test]
fn a_risk_is_told_where_it_begins_and_none_hides_the_next() {
    let text = "You are Codex.\n\nSay /help (/bug) /quit.\nOr\n/init `/clear`\n";
    let Adapted { text, audit } = prompt::codex().adapt(text).unwrap();
    let told: Vec<_> =
        audit.risks.iter().map(|risk| (risk.found.as_str(), risk.place.line, risk.place.column)).collect();
    assert_eq!(told, [("/help", 3, 5), ("/bug", 3, 12), ("/quit", 3, 18), ("/init", 5, 1), ("/clear", 5, 8)], "{text}");
}

#[test]
fn errors_and_risks_quote_a_bounded_part_of_a_text() {
    let holes = format!("# Core Mandates\n\nBe safe.\n\n{}", "${".repeat(250_000));
    let error = prompt::qwen().adapt(&holes).unwrap_err();
    assert!(error.to_string().len() < 4_000, "{}", error.to_string().len());
    assert!(error.to_string().contains(" more"), "{error}");
    let long = "x".repeat(500_000);
    let address = format!("You are Codex.\n\nSee https://{long} now.\n\n# Sandbox {long}\n\nGone.\n");
    let audit = prompt::codex().adapt(&address).unwrap().audit;
    assert!(audit.to_string().len() < 10_000, "{}", audit.to_string().len());
    assert!(audit.risks[0].found.ends_with('…') && audit.removed[0].heading.ends_with('…'));
    let rename = ToolMap::new().rename(format!("{long}-"), "b").unwrap_err();
    let persona = |text: &str, anchor: &str| Persona {
        text: text.into(),
        native_capabilities: false,
        anchors: vec![anchor.into()],
        forbidden: vec![long.clone()],
    };
    let lacking = persona(&long, &format!("{long}y")).render([], &ToolMap::new(), &PromptVariables::new()).unwrap_err();
    let unknown = persona("a", "a");
    let unknown = Persona { text: format!("{{{{{long}}}}} a"), ..unknown }.unknown_variables().remove(0);
    for error in [rename, lacking, unknown] {
        assert!(error.to_string().len() < 1_000, "{}", error.to_string().len());
    }
}

#[test]
fn the_hosts_file_of_rules_may_be_called_after_an_agent() {
    let text = "# Core Mandates\n\nRules stand in QWEN.md. Stays.\n";
    for file in ["CLAUDE.md", "QWEN.md", "docs/QWEN.md"] {
        let adapter = prompt::qwen().with_instruction_file(file);
        let adapted = adapter.adapt(text).unwrap().text;
        assert!(adapted.ends_with(&format!("Rules stand in {file}. Stays.\n")), "{adapted}");
        assert_eq!(adapter.adapt(&adapted).unwrap().text, adapted, "{file}");
    }
}

#[test]
fn two_tools_that_become_one_are_named_once_however_many_stand_in_a_row() {
    assert_eq!(
        qwen_says("Use read_file, read_many_files, read_file, and `read_many_files` or 'read_file'."),
        "Use `read`."
    );
}

#[test]
fn a_list_of_tools_keeps_its_last_joint() {
    assert_eq!(
        qwen_says("Use 'glob', 'read_file', and 'read_many_files'; or 'glob', 'read_file' or 'read_many_files'."),
        "Use `glob`, and `read`; or `glob` or `read`."
    );
}

#[test]
fn a_quote_goes_with_a_tool_unless_it_belongs_to_a_longer_quotation() {
    for (text, says) in [
        (
            "A file tool (e.g., ${ToolNames.READ_FILE}' or '${ToolNames.EDIT}').",
            "A file tool (e.g., `read` or `edit`).",
        ),
        (
            "A file tool (e.g., ${ToolNames.EDIT}' or '${ToolNames.READ_FILE}').",
            "A file tool (e.g., `edit` or `read`).",
        ),
        ("A file tool (e.g., read_file' or 'edit').", "A file tool (e.g., `read` or `edit`)."),
        ("Never say \"I used read_file\" to the user's face.", "Never say \"I used `read`\" to the user's face."),
        ("Never say 'read_file did it' or \"read_file failed\".", "Never say '`read` did it' or \"`read` failed\"."),
        ("Say 'with ${ToolNames.EDIT}' to it.", "Say 'with `edit`' to it."),
    ] {
        assert_eq!(qwen_says(text), says, "{text}");
    }
}

#[test]
fn strokes_before_backticks_go_from_the_literal_of_a_hole_that_has_no_hole_itself() {
    let text = "${git() ? `\n# Git Repository\n\n- Look at \\`git status\\`.\n` : ''}\n\n# Final Reminder\n\nStays.";
    assert_eq!(qwen_says(text), "# Git Repository\n\n- Look at `git status`.\n\n# Final Reminder\n\nStays.");
}

#[test]
fn what_is_said_of_the_background_is_not_said_of_the_foreground() {
    for (text, says) in [
        ("Servers go to the background (`is_background: true`).", "Servers go to the background (background jobs)."),
        ("Use `is_background: false` for the rest.", "Use foreground calls for the rest."),
        ("Set `is_background` to true for servers.", "Start background jobs for servers."),
        ("By setting is_background=false you wait.", "By starting foreground calls you wait."),
    ] {
        assert_eq!(qwen_says(text), says, "{text}");
    }
}

#[test]
fn an_item_on_a_memory_tool_goes_as_a_whole() {
    assert_eq!(
        qwen_says("- **Facts:** Keep them with 'save_memory'. If unsure, ask whether to keep one.\n- Stays."),
        "- Stays."
    );
}

#[test]
fn a_grammar_of_patches_goes_without_a_heading_too_and_what_is_left_of_one_is_told() {
    for stars in ["***", "**_", "_**", r"\*\*\*"] {
        let grammar = [
            "\u{a7} `apply\u{2011}patch` Specification\n\nYour patch language is small:\n",
            "*** Begin Patch\n[ sections ]\n*** End Patch\n\nThere are headers:\n",
            "*** Add File: <path> - new.\n\n- for old text,\n\n* for new text.\n",
            "Begin := \"*** Begin Patch\" NEWLINE\n\nMind this:\n",
            "- Have a header (Add/Delete/Update)\n- You must prefix new lines with `+`\n",
        ];
        let grammar = grammar.join("\n").replace("***", stars);
        let call = "Call it so:\n\n```\nshell {\"command\":[\"apply_patch\",\"*** Begin Patch\"]}\n```";
        let text = format!("- Before.\n\n{grammar}\n{call}\n\nPlans\n\nStays.");
        assert_eq!(codex_says(&text), "- Before.\n\nPlans\n\nStays.", "{stars}");
    }
    let between = "A patch language is known.\n\n# Other\n\nStays.\n\n```\nBegin Patch\n```";
    assert_eq!(codex_says(between), "# Other\n\nStays.\n\n```\nBegin Patch\n```", "a heading ends it");
    let audit = prompt::codex().adapt(&format!("You are Codex.\n\n{between}\n")).unwrap().audit;
    let told: Vec<_> = audit.risks.iter().map(|risk| (risk.found.as_str(), risk.place.line)).collect();
    assert_eq!(told, [("Begin Patch", 8)]);
}

#[test]
fn a_block_for_another_runtime_ends_with_a_comment_that_ends_it() {
    for (open, close) in [
        ("<!-- js_repl:begin -->", "<!-- js_repl:end -->"),
        ("<!-- if js_repl -->", "<!-- endif -->"),
        ("<!-- js_repl -->", "<!-- /js_repl -->"),
    ] {
        let text = format!("Stays.\n\n{open}\n# Runtime\n\nTools: {{{{JS_REPL_TOOL_LIST}}}}\n{close}\n\nStays, too.");
        assert_eq!(codex_says(&text), "Stays.\n\nStays, too.", "{open}");
    }
}

#[test]
fn a_sentence_goes_as_a_whole_from_lines_that_are_broken_at_a_width() {
    for (text, says) in [
        (
            "The program was made by OpenAI and speaks to the person in\nthe terminal. This sentence stays.",
            "This sentence stays.",
        ),
        (
            "- Ask the model, which was made by OpenAI, about the\n  weather. This sentence stays.\n- Stays.",
            "- This sentence stays.\n- Stays.",
        ),
        (
            "What stands here stays as it is, in all of its lines,\nto the last.",
            "What stands here stays as it is, in all of its lines,\nto the last.",
        ),
        ("Made by OpenAI\nNotes", "Notes"),
    ] {
        assert_eq!(codex_says(text), says, "{text}");
    }
    let text = "You are Codex, an agent that lives in the terminal of\nthe user. Be kind.\n\n# Planning\n\nUse `apply_patch`.\n";
    let text = prompt::codex().adapt(text).unwrap().text;
    assert!(text.starts_with("You are a coding agent that works in the user's workspace. Be kind.\n"), "{text}");
}

#[test]
fn the_product_has_a_capital_at_the_head_of_a_sentence() {
    assert_eq!(
        codex_says("- Codex CLI is here. The Codex CLI is what the Codex CLI is."),
        "- This harness is here. This harness is what this harness is."
    );
}

#[test]
fn a_text_of_openings_and_tokens_is_adapted_or_refused_in_few_words() {
    let parts: Vec<String> = serde_json::from_str(include_str!("data/hostile-prompt-parts.json")).unwrap();
    for part in parts {
        let text = format!("# Core Mandates\n\napply_patch\n{}", part.repeat(20_000 / part.len()));
        for adapter in ADAPTERS.iter() {
            match adapter.adapt(&text) {
                Ok(adapted) => {
                    assert!(!adapted.text.contains("${") && !adapted.text.contains("apply_patch"), "{part:?}");
                }
                Err(error) => assert!(error.to_string().len() < 10_000, "{part:?}"),
            }
        }
    }
}

/// Pieces of prompts and of what breaks them.
const PIECES: &[&str] = &[
    "# Core Mandates\n",
    "## Sandbox\n",
    "\n\nSandbox\n---\n",
    "\n\nTitle\n===\n",
    "# Planning\n",
    "# Empty\n\n",
    "`",
    "``",
    "```\n",
    "````md\n",
    "  ~~~\n",
    "${",
    "}",
    "${x ? `a` : '}'}",
    "${never closed\n- next }\n",
    "{{",
    "}}",
    "{{ personality }}",
    "'",
    "\"",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "- ",
    "1. ",
    "> ",
    "apply_patch",
    "apply\u{2013}patch",
    "`apply patch`",
    "`update-plan`",
    "'read_file'",
    "functions.exec_command",
    "mcp.read_file",
    "read_file.rs",
    "`shell`",
    "\"shell\"",
    "{\"tool\":\"shell\"}",
    "Codex",
    "codex_cli",
    "GPT5",
    "Qwen Code",
    "Qwen3",
    "QWEN.md",
    "Task(x)",
    "`Agent`",
    "'task' tool",
    "LSP",
    "${ToolNames.EDIT}",
    "'${ToolNames.SHELL}'",
    "\u{2011}",
    "\u{2014}",
    "\u{201c}",
    "\u{feff}",
    "export const x = `",
    "\\`",
    ". ",
    ".\n",
    ": ",
    "e.g. ",
    "You are ",
    "a ",
    " and ",
    "Word",
    "<example>",
    "</example>",
    "\u{e9}",
    "\u{e0ff}",
    "*** Begin Patch",
    "**File References**\n",
    "`rg`",
    "`commentary`",
    "in the `final` channel",
    "{\"command\":[\"apply_patch\"",
    "(not `apply-patch`)",
    "/help ",
    "https://x.y ",
    "    ",
];

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![6 => prop::sample::select(PIECES).prop_map(str::to_owned), 1 => ".{0,8}"];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Every stand-in with its agent: 0 for Codex, 1 for Qwen Code.
static STAND_INS: LazyLock<Vec<(usize, String)>> = LazyLock::new(|| {
    let of =
        |(index, agent): (usize, &str)| names(agent).into_iter().map(move |name| (index, stand_in(&name))).collect();
    ["codex", "qwen"].into_iter().enumerate().flat_map(|agent| -> Vec<_> { of(agent) }).collect()
});

/// A stand-in with pieces put between its lines, lines taken twice, headings of another level and blanks behind lines.
fn generations() -> impl Strategy<Value = (usize, String)> {
    let change = (any::<prop::sample::Index>(), 0..5_u8, prop::sample::select(PIECES));
    (0..STAND_INS.len(), proptest::collection::vec(change, 0..6)).prop_map(|(index, changes)| {
        let (agent, text) = &STAND_INS[index];
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (at, change, piece) in changes {
            let at = at.index(lines.len());
            match change {
                0 => lines.insert(at, piece.to_owned()),
                1 => lines[at].push_str(piece),
                2 => lines.insert(at, lines[at].clone()),
                3 if lines[at].starts_with('#') => lines[at].insert(0, '#'),
                _ => lines[at].push_str(" \t"),
            }
        }
        (*agent, lines.join("\n"))
    })
}

/// Built once: an adapter compiles some dozens of expressions.
static ADAPTERS: LazyLock<[Adapter; 2]> = LazyLock::new(|| [prompt::codex(), prompt::qwen()]);

/// What stands at a place.
fn at(text: &str, place: Place) -> String {
    text.lines().nth(place.line - 1).unwrap_or_default().chars().skip(place.column - 1).collect()
}

fn bare(heading: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c.to_lowercase().next().unwrap() } else { ' ' };
    heading.chars().map(plain).collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Blanks behind lines are not looked at.
fn same(text: &str, other: &str) -> Result<(), TestCaseError> {
    let mut pair = [text, other].map(|text| text.trim_end().lines().map(str::trim_end));
    let [text, other] = &mut pair;
    loop {
        let (line, other) = (text.next(), other.next());
        prop_assert_eq!(line, other);
        if line.is_none() {
            return Ok(());
        }
    }
}

/// What holds of every text that an adapter is given.
fn check(adapter: &Adapter, text: &str) -> Result<Option<Adapted>, TestCaseError> {
    let (result, audit) = match adapter.adapt(text) {
        Ok(Adapted { text, audit }) => (Some(text), audit),
        Err(PromptError::Refused { faults, audit: Some(audit) }) => {
            prop_assert!(!faults.is_empty());
            (None, *audit)
        }
        Err(error) => {
            prop_assert_eq!(error.code(), "not-this-agent");
            return Ok(None);
        }
    };
    let seen = text.replace("\r\n", "\n").replace(['\u{feff}', '\u{e0ff}'], "");
    let handed: Vec<String> = seen.split(['\n', '\r']).map(bare).collect();
    for removed in &audit.removed {
        let line = removed.line.map(|line| handed[line - 1].as_str());
        prop_assert!(line.is_none_or(|line| line.contains(&bare(&removed.heading))), "{removed:?} at {line:?}");
    }
    let mut rules: Vec<&String> = audit.applied.iter().map(|applied| &applied.rule).collect();
    prop_assert!(audit.applied.iter().all(|applied| applied.count > 0));
    rules.extend(&audit.unmatched);
    let all = rules.len();
    rules.sort();
    rules.dedup();
    prop_assert_eq!(all, rules.len(), "a rule is told twice");
    let Some(result) = result else { return Ok(None) };
    let lower = result.to_lowercase();
    prop_assert!(!lower.contains("${") && !lower.contains('\u{e0ff}'), "a hole in {result}");
    for token in ["apply_patch", "openai", "qwen", "read_file"] {
        prop_assert!(words(&lower, token) == 0, "{token} in {result}");
    }
    for risk in &audit.risks {
        let found = risk.found.trim_end_matches('…');
        prop_assert!(at(&result, risk.place).starts_with(found), "{risk:?} in {result}");
    }
    Ok(Some(Adapted { text: result, audit }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(2_000), ..ProptestConfig::default() })]

    /// Promise 8: whatever comes in is refused or comes out clean, and what is told of it is true.
    #[test]
    fn whatever_is_adapted_is_refused_or_clean(text in pieces()) {
        for adapter in ADAPTERS.iter() {
            check(adapter, &text)?;
        }
    }

    #[test]
    fn so_is_every_generation_with_lines_that_came_or_changed_and_adapting_it_again_does_nothing(
        (agent, text) in generations()
    ) {
        let adapter = &ADAPTERS[agent];
        let is_source = |adapted: &Adapted| adapted.audit.risks.iter().any(|risk| risk.why.contains("program source"));
        if let Some(adapted) = check(adapter, &text)?.filter(|adapted| !is_source(adapted)) {
            match adapter.adapt(&adapted.text) {
                Ok(again) => {
                    same(&again.text, &adapted.text)?;
                    prop_assert_eq!(again.audit.applied, []);
                    prop_assert_eq!(again.audit.removed, []);
                    prop_assert_eq!(again.audit.risks, adapted.audit.risks);
                }
                Err(error) => prop_assert_eq!(error.code(), "not-this-agent", "{} of {}", error, adapted.text),
            }
        }
    }

    /// Byte order marks, line ends and blanks behind lines are no reason for another result.
    #[test]
    fn line_ends_and_blanks_behind_lines_make_no_difference((agent, text) in generations()) {
        let adapter = &ADAPTERS[agent];
        let text = text.replace('\r', "");
        let plain = adapter.adapt(&text);
        for other in [text.replace('\n', "\r\n"), text.replace('\n', " \n") + "  ", format!("{text}\n\n")] {
            match (&plain, adapter.adapt(&other)) {
                (Ok(plain), Ok(other)) => {
                    same(&plain.text, &other.text)?;
                    prop_assert_eq!(&plain.audit.applied, &other.audit.applied);
                }
                (Err(plain), Err(other)) => prop_assert_eq!(plain.code(), other.code()),
                (plain, other) => prop_assert!(false, "{plain:?}\n{other:?}"),
            }
        }
    }
}
