//! The adapter for the prompts of Codex, from those without headings to those with a mode of their own for each model.

use super::adapter::Action::{Block, Fence, Item, Replace, Section, Sentence, SentenceBecomes};
use super::adapter::{Adapter, Agent};

/// Makes a prompt of Codex fit: its base prompt or one of its model prompts.
///
/// ```
/// let text = "You are a coding agent in the Codex CLI.\n\n# Planning\n\nPlan with `update_plan`, then use `apply_patch`.\n";
/// let adapted = arya_presets::prompt::codex().adapt(text)?;
/// assert!(adapted.text.contains("Plan with `todo_write`, then use `edit`."));
/// # Ok::<(), arya_presets::prompt::PromptError>(())
/// ```
pub fn codex() -> Adapter {
    Adapter::of(&CODEX)
}

static CODEX: Agent = Agent {
    name: "Codex",
    own_name: "Codex",
    own_things: r"(?i)\bCodex refers to\b|[.~/$]codex\b|\bcodex[-/](?:rs|cli)\b",
    product: r"(?i)\b(?:the\s+)?Codex(?:CLI|\s+(?:CLI|desktop app|app|harness))(?:\s+harness)?\b",
    marks: &["codex", "apply_patch", "update_plan"],
    tools: &[
        ("apply_patch", "edit"),
        ("update_plan", "todo_write"),
        ("request_user_input", "ask_user_question"),
        ("view_image", "read_image"),
        ("exec_command", "bash"),
        ("shell_command", "bash"),
        ("local_shell", "bash"),
        ("shell", "bash"),
    ],
    single_quotes: false,
    constants: &[],
    anchors: &[
        "how you work",
        "personality",
        "agents.md spec",
        "responsiveness",
        "planning",
        "task execution",
        "validating your work",
        "ambition vs. precision",
        "sharing progress updates",
        "presenting your work and final message",
        "final answer structure and style guidelines",
        "editing constraints",
    ],
    forbidden: &["js_repl", "image_generation", "CODEX_HOME"],
    risks: &[(
        "may be of the grammar of patches",
        r"\b(?:Begin|End) Patch\b|\b[Pp]atch (?:language|envelope|grammar)\b|(?m:^@@ )",
    )],
    opening: "You are a coding agent that works in the user's workspace.",
    instruction_file: "AGENTS.md",
    rules: &[
        (
            "blocks between comments for another runtime go",
            Replace(""),
            r"(?is)<!--[^>]*js_repl[^>]*-->.*?<!--(?:\s*(?:/|end)|[^>]*js_repl)[^>]*-->",
        ),
        ("sandbox and approval chapters go", Section, r"\b(?:sandbox|sandboxing|approvals?|escalat\w*)\b"),
        ("the chapter on patch grammar goes", Section, r"^(?:the )?apply[ _-]?patch\b"),
        (
            "chapters on skills, channels and other runtimes go",
            Section,
            r"^(?:(?:how to use |available )?skills?\b|channels?\b|js[ _]repl|javascript|image[ _]gen)",
        ),
        ("fences with patches go", Fence, r"\*\*\* (?:Begin|End) Patch|Begin :=|\bapply_?patch\b|js_repl"),
        ("sentences on decoy spellings go from brackets", Replace(""), r"(?i)\s*\([^()]*\bapply-?patch\b[^()]*\)"),
        (
            "samples of patch calls go",
            Replace("."),
            r#"\s*:?\s*`?\{"(?:command|cmd|input)"\s*:\s*\[?\s*"(?:apply_patch|\*\*\*)[^\n]*"#,
        ),
        (
            "the patch grammar without a heading goes",
            Replace(""),
            r"(?im)^(?:(?:§ ?)?`?apply[-_ ]?patch`?(?: \w+)?:?\n\s*)?[^\n]*\bpatch (?:language|grammar|format)\b[^\n]*\n(?:[^#\n][^\n]*\n|\n)*[^\n]*(?:\b(?:begin|end) patch\b|\badd/delete/update\b|\bprefix new lines\b)[^\n]*\n?",
        ),
        (
            "references to the sandbox chapter go",
            Sentence,
            r#"(?i)sandbox(?:ing)? and approvals?|\bescalat|with_escalated_permissions|sandbox_permissions|require_escalated"#,
        ),
        (
            "approval modes by name become a description",
            Replace("$1 runs"),
            r"(?i)\b((?:non-)?interactive) approval modes?(?:,?\s*(?:like|such as)\s+(?:\*\*|`)[a-z-]+(?:\*\*|`)(?:(?:,?\s+(?:or|and)\s+|,\s+)(?:\*\*|`)[a-z-]+(?:\*\*|`))*)?",
        ),
        (
            "what holds in every approval mode holds",
            Replace(""),
            r"(?i),? (?:regardless of|in any|in every|whatever) (?:the |your )?approval (?:modes?|policy)",
        ),
        (
            "sentences on approval modes go",
            Sentence,
            r"(?:\*\*|`)(?:on-failure|on-request|untrusted)(?:\*\*|`)|(?i)\bapproval (?:modes?|polic)",
        ),
        (
            "patch grammar in prose goes",
            Sentence,
            r"(?:\*\*\*|\*\*_|_\*\*|(?:\\\*){3}) (?:Begin|End|Add File|Update File|Delete File|Move to)|(?i)\bpatch (?:language|grammar|envelope)\b|\bfree-?form tool\b",
        ),
        ("decoy spellings go", Sentence, r"(?i)\bapplypatch\b|\bapply-patch\b"),
        ("the citation ban goes", Item, r"【|†|(?i)\binline citations?\b"),
        ("the paragraph on file links goes", Block, r"(?i)^\s*\*\*file (?:references?|links?):?\*\*"),
        (
            "rules for file links go",
            Item,
            r"(?i)^\s*[-*] (?:\*\*)?file (?:references?|links?):|\bfile://|\bvscode://|\bclickable\b|\[[^\]]*\]\(/",
        ),
        ("rg goes from lists of commands", Replace("$1$2"), r"(`[\w.-]+`,\s+)`rg`,\s+(`)"),
        (
            "searching with rg becomes the search tools",
            SentenceBecomes("Search with `grep` and `glob` rather than through the shell."),
            r"`rg\b|\brg --files\b|\bripgrep\b",
        ),
        (
            "parameters of another shell tool go",
            Sentence,
            r#"(?i)\bexecvp\b|`workdir`|\["(?:bash|shell)",\s*"-lc"|\byield_time_ms\b|\bmax_output_tokens\b|`justification`|\bwrite_stdin\b"#,
        ),
        ("parallel calls have no wrapper", Replace("parallel tool calls"), r"`?multi_tool_use\.parallel`?"),
        ("skills of another registry go", Sentence, r"\bskills\.(?:read|list)\b|\bSKILL\.md\b"),
        (
            "messages have no channel",
            Replace("$1"),
            r"(?i)\b((?:message|update|answer|response)s?)\s+(?:in|to|on|through|via)\s+(?:the\s+)?[`'](?:commentary|final|analysis)[`'](?:\s+channel)?",
        ),
        (
            "output goes to messages, not to channels",
            Replace("in a message"),
            r"(?i)\b(?:in|to|on|through|via|using)\s+(?:the\s+)?[`'](?:commentary|final|analysis)[`'](?:\s+channel)?",
        ),
        ("sentences on channels go", Sentence, r"(?i)\bcommentary\b|`(?:final|analysis)` channel|\bchannels\b"),
        ("other runtimes go", Sentence, r"(?i)\bjs_repl\b|\bimage_generation\b|\bimagegen\b"),
    ],
};
