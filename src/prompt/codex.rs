//! The adapter for the prompts of Codex, from those without headings to those with a mode of their own for each model.

use super::ToolMap;
use super::adapter::Action::{Block, Fence, Item, Replace, Section, Sentence, SentenceBecomes};
use super::adapter::{Adapter, Rule};
use super::personas::{FOREIGN_IDENTITY, FOREIGN_TOOLS, owned};

const OPENING: &str = "You are a coding agent that works in the user's workspace.";

/// Makes a prompt of Codex fit: its base prompt or one of its model prompts.
///
/// ```
/// let text = "You are a coding agent in the Codex CLI.\n\n# Planning\n\nPlan with `update_plan`, then use `apply_patch`.\n";
/// let adapted = arya_presets::prompt::codex().adapt(text)?;
/// assert!(adapted.text.contains("Plan with `todo_write`, then use `edit`."));
/// # Ok::<(), arya_presets::prompt::PromptError>(())
/// ```
pub fn codex() -> Adapter {
    Adapter {
        agent: "Codex",
        marks: &["codex", "apply_patch", "update_plan"],
        rules: rules(),
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
        forbidden: owned(&[FOREIGN_IDENTITY, FOREIGN_TOOLS, &["js_repl", "image_generation", "CODEX_HOME"]].concat()),
        risks: super::adapter::risks(&[]),
        opening: OPENING,
        instruction_file: "AGENTS.md".into(),
        upstream_instruction_file: "AGENTS.md",
        host_tools: ToolMap::new(),
    }
}

fn rules() -> Vec<Rule> {
    let rule = Rule::new;
    vec![
        rule(
            "blocks between comments for another runtime go",
            Replace(""),
            r"(?is)<!--[^>]*js_repl[^>]*-->.*?<!--[^>]*js_repl[^>]*-->",
        ),
        rule("sandbox and approval chapters go", Section, r"\b(?:sandbox|sandboxing|approvals?|escalat\w*)\b"),
        rule("the chapter on patch grammar goes", Section, r"^(?:the )?apply[ _-]?patch\b"),
        rule(
            "chapters on skills, channels and other runtimes go",
            Section,
            r"^(?:(?:how to use |available )?skills?\b|channels?\b|js[ _]repl|javascript|image[ _]gen)",
        ),
        rule("fences with patches go", Fence, r"\*\*\* (?:Begin|End) Patch|Begin :=|\bapply_?patch\b|js_repl"),
        rule("sentences on decoy spellings go from brackets", Replace(""), r"(?i)\s*\([^()]*\bapply-?patch\b[^()]*\)"),
        rule(
            "samples of patch calls go",
            Replace("."),
            r#"\s*:?\s*`?\{"(?:command|cmd|input)"\s*:\s*\[?\s*"(?:apply_patch|\*\*\*)[^\n]*"#,
        ),
        rule(
            "references to the sandbox chapter go",
            Sentence,
            r#"(?i)sandbox(?:ing)? and approvals?|\bescalat|with_escalated_permissions|sandbox_permissions|require_escalated"#,
        ),
        rule(
            "approval modes by name become a description",
            Replace("$1 runs"),
            r"(?i)\b((?:non-)?interactive) approval modes?(?:,?\s*(?:like|such as)\s+(?:\*\*|`)[a-z-]+(?:\*\*|`)(?:(?:,?\s+(?:or|and)\s+|,\s+)(?:\*\*|`)[a-z-]+(?:\*\*|`))*)?",
        ),
        rule(
            "what holds in every approval mode holds",
            Replace(""),
            r"(?i),? (?:regardless of|in any|in every|whatever) (?:the |your )?approval (?:modes?|policy)",
        ),
        rule(
            "sentences on approval modes go",
            Sentence,
            r"(?:\*\*|`)(?:on-failure|on-request|untrusted)(?:\*\*|`)|(?i)\bapproval (?:modes?|polic)",
        ),
        rule(
            "patch grammar in prose goes",
            Sentence,
            r"\*\*\* (?:Begin|End|Add File|Update File|Delete File)|(?i)\bpatch (?:language|grammar|envelope)\b",
        ),
        rule("decoy spellings go", Sentence, r"(?i)\bapplypatch\b|\bapply-patch\b"),
        rule("the citation ban goes", Item, r"【|†|(?i)\binline citations?\b"),
        rule("the paragraph on file links goes", Block, r"(?i)^\s*\*\*file (?:references?|links?):?\*\*"),
        rule(
            "rules for file links go",
            Item,
            r"(?i)^\s*[-*] (?:\*\*)?file (?:references?|links?):|\bfile://|\bvscode://|\bclickable\b|\[[^\]]*\]\(/",
        ),
        rule("rg goes from lists of commands", Replace("$1$2"), r"(`[\w.-]+`,\s+)`rg`,\s+(`)"),
        rule(
            "searching with rg becomes the search tools",
            SentenceBecomes("Search with `grep` and `glob` rather than through the shell."),
            r"`rg\b|\brg --files\b|\bripgrep\b",
        ),
        rule(
            "parameters of another shell tool go",
            Sentence,
            r#"(?i)\bexecvp\b|`workdir`|\["bash",\s*"-lc"|\byield_time_ms\b|\bmax_output_tokens\b|`justification`|\bwrite_stdin\b"#,
        ),
        rule("parallel calls have no wrapper", Replace("parallel tool calls"), r"`?multi_tool_use\.parallel`?"),
        rule("skills of another registry go", Sentence, r"\bskills\.(?:read|list)\b|\bSKILL\.md\b"),
        rule(
            "messages have no channel",
            Replace("$1"),
            r"(?i)\b((?:message|update|answer|response)s?)\s+(?:in|to|on|through|via)\s+(?:the\s+)?[`'](?:commentary|final|analysis)[`'](?:\s+channel)?",
        ),
        rule(
            "output goes to messages, not to channels",
            Replace("in a message"),
            r"(?i)\b(?:in|to|on|through|via|using)\s+(?:the\s+)?[`'](?:commentary|final|analysis)[`'](?:\s+channel)?",
        ),
        rule("sentences on channels go", Sentence, r"(?i)\bcommentary\b|`(?:final|analysis)` channel|\bchannels\b"),
        rule("other runtimes go", Sentence, r"(?i)\bjs_repl\b|\bimage_generation\b|\bimagegen\b"),
        rule("sentences with closed holes go", Sentence, "\u{e0ff}"),
        rule(
            "the opening says what the model is",
            Replace("You are a coding agent that works in the user's workspace.$1"),
            r"(?im)\A\s*You(?: are|'re)\b[^\n]*?\b(?:Codex|OpenAI|GPT)\b[^\n]*?(?:[.!](\s|\z)|$)",
        ),
        rule(
            "sentences on maker and model go",
            Sentence,
            r"(?i)\bOpenAI\b|\bGPT(?:-[\w.]+)?\b|\bCodex refers to\b|\bChatGPT\b|[.~/$]codex\b|CODEX_HOME|\bcodex[-/](?:rs|cli)\b|\bClaude\b|\bAnthropic\b|\bGemini\b",
        ),
        rule(
            "the product is this harness",
            Replace("this harness"),
            r"(?i)\b(?:the\s+)?Codex\s+(?:CLI|desktop app|app|harness)(?:\s+harness)?\b",
        ),
        rule(
            "the agent is this agent, at the head of a sentence",
            Replace("${1}This agent"),
            r"(?m)(^\s*(?:[-*] )?|[.!?] )Codex\b",
        ),
        rule("the agent is this agent", Replace("this agent"), r"\b(?:Codex|codex|CODEX)\b"),
        rule("models in headings lose their names", Replace("${1}this model"), r"(?m)^(#+ .*?)\bGPT(?:-[\w.]+)*\b"),
        rule("the terminal program is the client", Replace("${1}he client"), r"\b([Tt])he CLI\b"),
    ]
}
