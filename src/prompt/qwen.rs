//! The adapter for the core prompt of Qwen Code: as text, with holes, or in the source that assembles it.

use super::ToolMap;
use super::adapter::Action::{Fence, Replace, Section, Sentence};
use super::adapter::{Adapter, Rule};
use super::personas::{FOREIGN_IDENTITY, FOREIGN_TOOLS, owned};

const OPENING: &str = "You are an interactive agent for software engineering tasks.";

/// Makes the core prompt of Qwen Code fit.
///
/// ```
/// let text = "# Core Mandates\n\n- Look with '${ToolNames.GREP}' before you use '${ToolNames.EDIT}'.\n";
/// let adapted = arya_presets::prompt::qwen().adapt(text)?;
/// assert!(adapted.text.contains("Look with `grep` before you use `edit`."));
/// # Ok::<(), arya_presets::prompt::PromptError>(())
/// ```
pub fn qwen() -> Adapter {
    Adapter {
        agent: "Qwen Code",
        marks: &["core mandates", "qwen", "primary workflows", "operational guidelines"],
        rules: rules(),
        tools: &[
            ("read_many_files", "read"),
            ("read_file", "read"),
            ("write_file", "write"),
            ("replace", "edit"),
            ("run_shell_command", "bash"),
            ("search_file_content", "grep"),
            ("grep_search", "grep"),
            ("list_directory", "glob"),
            ("Bash", "bash"),
            ("edit", "edit"),
            ("glob", "glob"),
            ("grep", "grep"),
            ("skill", "skill"),
            ("todo_write", "todo_write"),
            ("ask_user_question", "ask_user_question"),
            ("exit_plan_mode", "exit_plan_mode"),
            ("web_fetch", "web_fetch"),
            ("web_search", "web_search"),
        ],
        constants: &[
            ("READ_FILE", "read_file"),
            ("READ_MANY_FILES", "read_many_files"),
            ("WRITE_FILE", "write_file"),
            ("EDIT", "edit"),
            ("GREP", "grep_search"),
            ("GLOB", "glob"),
            ("LS", "list_directory"),
            ("SHELL", "run_shell_command"),
            ("TODO_WRITE", "todo_write"),
            ("MEMORY", "save_memory"),
            ("TASK", "task"),
            ("AGENT", "agent"),
            ("SKILL", "skill"),
            ("ASK_USER_QUESTION", "ask_user_question"),
            ("EXIT_PLAN_MODE", "exit_plan_mode"),
            ("ENTER_PLAN_MODE", "enter_plan_mode"),
            ("WEB_FETCH", "web_fetch"),
            ("WEB_SEARCH", "web_search"),
        ],
        anchors: &[
            "core mandates",
            "task management",
            "primary workflows",
            "software engineering tasks",
            "new applications",
            "operational guidelines",
            "tone and style",
            "security and safety rules",
            "tool usage",
            "git repository",
            "final reminder",
        ],
        forbidden: owned(&[FOREIGN_IDENTITY, FOREIGN_TOOLS, &["tool_call", "function_call", "QWEN.md"]].concat()),
        risks: super::adapter::risks(&[(
            "names a tool that the harness may lack",
            r"`(?:task|agent|exec|lsp|cron\w*|team\w*)`",
        )]),
        opening: OPENING,
        instruction_file: "AGENTS.md".into(),
        upstream_instruction_file: "QWEN.md",
        host_tools: ToolMap::new(),
    }
}

/// A tool in a hole or in quotes of any kind.
const DELEGATION: &str = r#"[`'"](?:task|agent|exec)[`'"]?\s|[`'"]?(?:task|agent|exec)[`'"](?:\W|$)|\bsubagent_type\b|(?i:\bsub-?agents?\b)"#;

fn rules() -> Vec<Rule> {
    let rule = Rule::new;
    vec![
        rule("sandbox chapters go", Section, r"seatbelt|sandbox|bwrap|bubblewrap"),
        rule("examples in call syntax go", Section, r"^examples?\b"),
        rule(
            "chapters on missing machinery go",
            Section,
            r"^(?:hooks?|output styles?|code mode|interaction modes?|agent teams?|lsp\b|cron|scheduled tasks|subagents?|sub-agents?|programmatic tool)",
        ),
        rule("fences in call syntax go", Fence, r"\[tool_call|<tool_call|<function=|<function_call|\bfunctionCall\b"),
        rule(
            "worked examples go",
            Replace("\n"),
            r"(?is)\n*(?:[^\n]*examples?[^\n]*:\s*\n+)?<example>.*?</example>[ \t]*\n?",
        ),
        rule(
            "lines in call syntax go",
            Replace(""),
            r#"(?im)^[^\n]*(?:\[tool_call|</?tool_call>|<function=|</function>|</?parameter|</?function_call|\{"name"\s*:)[^\n]*\n?"#,
        ),
        rule(
            "the opening says what the model is",
            Replace("You are an interactive agent for software engineering tasks.$1"),
            r"(?m)\A\s*You are\b[^\n]*?\b(?:Qwen|Alibaba|Google|Gemini)\b[^\n]*?(?:[.!](\s|\z)|$)",
        ),
        rule(
            "commands of another client go",
            Sentence,
            r"(?:^|[\s'`(])/(?:help|bug|clear|memory|approval-mode|init|compress|quit)\b",
        ),
        rule("remarks on worked examples go", Sentence, r"(?i)\b(?:above|previous|preceding|following) examples?\b"),
        rule("memory tools go", Sentence, r"\bsave_memory\b"),
        rule(
            "tools that this harness lacks go",
            Sentence,
            r"\benter_plan_mode\b|\bUserPromptSubmit\b|\b(?:lsp|cron|team|tool_search)_\w+",
        ),
        rule("calls from a script go", Sentence, r"\btools\.[A-Za-z_]\w*"),
        rule("delegation goes", Sentence, DELEGATION),
        rule("sandbox hints go", Sentence, r"(?i)\bseatbelt\b|\bsandbox-exec\b|\bbwrap\b|\bsandbox(?:ed|ing)?\b"),
        rule("sentences with closed holes go", Sentence, "\u{e0ff}"),
        rule(
            "background work is started as a job",
            Replace("background jobs"),
            r"`?\bis_background(?:`?\s*[:=]\s*`?(?:true|false))?`?",
        ),
        rule("the tool Bash is quoted", Replace("`Bash`$1"), r"\bBash( tool| command|\s*\()"),
        rule(
            "sentences on maker and model go",
            Sentence,
            r"(?i)\bAlibaba\b|\bGoogle\b|\bGemini\b|\bOpenAI\b|\bAnthropic\b|\bClaude\b|[.~/]qwen\b|\bqwen[ -]?(?:cli|coder|\d)",
        ),
        rule("the product is this harness", Replace("this harness"), r"(?i)\bQwen[ -]?Code\b"),
        rule("the agent is this agent", Replace("this agent"), r"\bQwen\b|\bqwen\b"),
    ]
}
