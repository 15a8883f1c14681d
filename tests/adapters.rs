//! The adapters for the prompts of Codex and Qwen Code, over stand-ins for every generation of them.

#![cfg(feature = "presets")]
#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use arya_presets::prompt::{self, Adapted, Adapter, Audit, Place, PromptError, PromptFault, ToolMap};
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

#[test]
fn a_long_text_of_openings_and_tokens_takes_no_long_time() {
    let start = std::time::Instant::now();
    for part in [
        "${",
        "{{",
        "`",
        "Codex ",
        "Claude ",
        "# Sandbox\n",
        "- a. B. ",
        "'read_file ",
        "${`${",
        "<example>",
        "(apply-patch",
    ] {
        let text = format!("# Core Mandates\n\napply_patch\n{}", part.repeat(200_000 / part.len()));
        let _ = (prompt::codex().adapt(&text), prompt::qwen().adapt(&text));
    }
    assert!(start.elapsed().as_secs() < 90, "{:?}", start.elapsed());
}

/// Pieces of prompts and of what breaks them.
fn pieces() -> impl Strategy<Value = String> {
    let fixed = [
        "# Core Mandates\n",
        "## Sandbox\n",
        "`",
        "```\n",
        "${",
        "}",
        "{{",
        "}}",
        "'",
        "\"",
        "\n",
        "- ",
        "1. ",
        "apply_patch",
        "'read_file'",
        "Codex",
        "Qwen Code",
        "${ToolNames.EDIT}",
        "\u{2011}",
        "export const x = `",
        "\\`",
        ". ",
        "You are ",
        "<example>",
        "</example>",
        "é",
        "\u{e0ff}",
        "*** Begin Patch",
        "**File References**\n",
        "commentary",
        "{\"command\":[\"apply_patch\"",
        "    ",
    ];
    let piece = prop_oneof![4 => prop::sample::select(fixed.to_vec()).prop_map(str::to_owned), 1 => ".{0,8}"];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Built once: an adapter compiles some dozens of expressions.
static ADAPTERS: LazyLock<[Adapter; 2]> = LazyLock::new(|| [prompt::codex(), prompt::qwen()]);

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(2_000), ..ProptestConfig::default() })]

    /// Promise 8, and what is handed out has passed its checks.
    #[test]
    fn whatever_is_adapted_is_refused_or_clean(text in pieces()) {
        for adapter in ADAPTERS.iter() {
            if let Ok(Adapted { text, .. }) = adapter.adapt(&text) {
                let lower = text.to_lowercase();
                prop_assert!(!lower.contains("${"), "a hole in {text}");
                for token in ["apply_patch", "openai", "qwen", "read_file"] {
                    prop_assert!(words(&lower, token) == 0, "{token} in {text}");
                }
            }
        }
    }
}
