//! The adapter for the core prompt of Qwen Code: as text, with holes, or in the source that assembles it.

use super::adapter::Action::{Fence, Item, Replace, Section, Sentence};
use super::adapter::{Adapter, Agent};

/// Makes the core prompt of Qwen Code fit.
///
/// ```
/// let text = "# Core Mandates\n\n- Look with '${ToolNames.GREP}' before you use '${ToolNames.EDIT}'.\n";
/// let adapted = arya_presets::prompt::qwen().adapt(text)?;
/// assert!(adapted.text.contains("Look with `grep` before you use `edit`."));
/// # Ok::<(), arya_presets::prompt::PromptError>(())
/// ```
pub fn qwen() -> Adapter {
    Adapter::of(&QWEN)
}

/// Tools that start other agents: in quotes, as a call, or called a tool.
const DELEGATION: &str = r"(?i:[`'](?:task|agent|exec)(?:[`']|\())|\b(?:Task|Agent|Exec)\((?:[^s]|s[^)])|(?i:\b(?:task|agent) tool\b)|\bsubagent_type\b|(?i:\bsub-?agents?\b)";

static QWEN: Agent = Agent {
    name: "Qwen Code",
    own_name: "Qwen",
    own_things: r"(?i)[.~/]qwen\b|\bqwen[ -]?(?:cli|coder|\d)",
    product: r"(?i)\bQwen[ -]?Code\b",
    marks: &["core mandates", "qwen", "primary workflows", "operational guidelines"],
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
    single_quotes: true,
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
    forbidden: &["tool_call", "function_call", "QWEN.md"],
    risks: &[(
        "names a tool that the harness may lack",
        r"(?i)`(?:task|agent|exec|lsp|cron\w*|team\w*)(?:`|\()|\bLSP\b",
    )],
    opening: "You are an interactive agent for software engineering tasks.",
    instruction_file: "QWEN.md",
    rules: &[
        ("sandbox chapters go", Section, r"seatbelt|sandbox|bwrap|bubblewrap"),
        ("examples in call syntax go", Section, r"^examples?\b"),
        (
            "chapters on missing machinery go",
            Section,
            r"^(?:hooks?|output styles?|code mode|interaction modes?|agent teams?|lsp\b|cron|scheduled tasks|subagents?|sub-agents?|programmatic tool)",
        ),
        ("fences in call syntax go", Fence, r"\[tool_call|<tool_call|<function=|<function_call|\bfunctionCall\b"),
        (
            "worked examples go",
            Replace("\n"),
            r"(?is)\n*(?:[^\n]*examples?[^\n]*:\s*\n+)?<example>.*?</example>[ \t]*\n?",
        ),
        (
            "lines in call syntax go",
            Replace(""),
            r#"(?im)^[^\n]*(?:\[tool_call|</?tool_call>|<function=|</function>|</?parameter|</?function_call|\{"name"\s*:)[^\n]*\n?"#,
        ),
        (
            "commands of another client go",
            Sentence,
            r"(?:^|[\s'`(])/(?:help|bug|clear|memory|approval-mode|init|compress|quit)\b",
        ),
        ("remarks on worked examples go", Sentence, r"(?i)\b(?:above|previous|preceding|following) examples?\b"),
        ("memory tools go", Item, r"\bsave_memory\b"),
        (
            "tools that this harness lacks go",
            Sentence,
            r"\benter_plan_mode\b|\bUserPromptSubmit\b|(?i)\b(?:lsp|cron|team|tool_search)_\w+|`lsp(?:`|\()|\blsp(?:\(| (?:tool|server)s?\b)",
        ),
        ("calls from a script go", Sentence, r"\btools\.[A-Za-z_]\w*"),
        ("delegation goes", Sentence, DELEGATION),
        ("sandbox hints go", Sentence, r"(?i)\bseatbelt\b|\bsandbox-exec\b|\bbwrap\b|\bsandbox(?:ed|ing)?\b"),
        (
            "a call that sets the foreground starts there",
            Replace("${1}tart${2} foreground calls"),
            r"\b([Ss])et(?:t(ing))?\s+`?is_background`?(?:\s*[:=]\s*|\s+to\s+)`?false`?",
        ),
        (
            "work in the foreground is no job",
            Replace("foreground calls"),
            r"`?\bis_background`?(?:\s*[:=]\s*|\s+to\s+)`?false`?",
        ),
        (
            "a call that sets the background starts a job",
            Replace("${1}tart${2} background jobs"),
            r"\b([Ss])et(?:t(ing))?\s+`?is_background`?(?:(?:\s*[:=]\s*|\s+to\s+)`?true`?)?",
        ),
        (
            "background work is started as a job",
            Replace("background jobs"),
            r"`?\bis_background`?(?:(?:\s*[:=]\s*|\s+to\s+)`?true`?)?",
        ),
        ("the tool Bash is quoted", Replace("`Bash`$1"), r"\bBash( tool| command|\s*\()"),
    ],
};
