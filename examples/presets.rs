//! Prints the presets as the README shows them: `cargo run --example presets`, and `-- ID` or `-- ID OTHER` for one preset's prompt
//! or for what differs between two.

use std::process::ExitCode;

use arya_presets::prompt::{self, PromptVariables};
use arya_presets::{Levels, Policy, Preset, Registry, Window, WindowOrigin, default_counter};

fn main() -> ExitCode {
    let ids: Vec<String> = std::env::args().skip(1).collect();
    match printed(&ids) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("presets: {message}");
            ExitCode::from(2)
        }
    }
}

fn printed(ids: &[String]) -> Result<String, String> {
    let registry = Registry::builtin();
    let preset = |id: &str| registry.get(id).map_err(|error| error.to_string());
    match ids {
        [] => Ok(format!("{}\n{}", preset_table(), prompt_table())),
        [id] => {
            let variables = PromptVariables::new().model("a-model").cwd("/path/of/project");
            preset(id)?.prompt(&variables).map_err(|error| error.to_string())
        }
        [from, to] => Ok(preset(from)?.diff(preset(to)?).join("\n")),
        _ => Err("one id prints its prompt, two print what differs".into()),
    }
}

/// What sets the presets apart.
pub(crate) fn preset_table() -> String {
    let presets = Preset::builtins();
    let row = |label: &str, cell: &dyn Fn(&Preset) -> String| {
        let cells: Vec<String> = presets.iter().map(cell).collect();
        format!("| {label} | {} |\n", cells.join(" | "))
    };
    let knob = |preset: &Preset, name: &str| preset.knob(name).unwrap_or_default().to_string();
    let mut table = row("", &|preset| format!("`{}`", preset.id));
    table.push_str(&format!("|{}\n", "---|".repeat(presets.len() + 1)));
    table.push_str(&row("place in a picker", &|preset| preset.order.to_string()));
    table.push_str(&row("kit", &|preset| preset.kit.id.clone()));
    table.push_str(&row("shape of a checkpoint", &|preset| match (&preset.kit.envelope, preset.kit.sections.len()) {
        (Some(envelope), sections) if envelope.kept => format!("`<{}>` with {sections} tagged sections", envelope.tag),
        (Some(_), sections) => format!("{sections} titled sections"),
        (None, 0) => "prose, and the person's words".into(),
        (None, sections) => format!("{sections} Markdown sections"),
    }));
    table.push_str(&row("trigger at 200,000 tokens, 8,000 reserved", &|preset| trigger(&preset.policy)));
    table.push_str(&row("folds ahead of need, after a turn", &|preset| match (
        knob(preset, "pre_warm_percent").as_str(),
        knob(preset, "post_turn_percent").as_str(),
    ) {
        ("0", "0") => "–".into(),
        (pre_warm, post_turn) => format!("{pre_warm} %, {post_turn} %"),
    }));
    table.push_str(&row("person's words kept, tokens", &|preset| thousands(&knob(preset, "keep_user_tokens"))));
    table.push_str(&row("a result is trimmed over, characters", &|preset| {
        thousands(&knob(preset, "prune_threshold_chars"))
    }));
    table.push_str(&row("old results are cleared", &|preset| match (
        &preset.policy.prune.clear_old,
        &preset.policy.prune.clear_by_class,
    ) {
        (Some(clear), _) => format!("but the newest {}", clear.keep_recent_tool_results),
        (None, Some(clear)) => format!("by class, but the newest {}", clear.keep_recent),
        (None, None) => "–".into(),
    }));
    table.push_str(&row("breaker", &|preset| match preset.breaker.auto_compact_failure_limit {
        0 => "–".into(),
        limit => format!("after {limit} failures"),
    }));
    table.push_str(&row("tools", &|preset| preset.tools().len().to_string()));
    table
}

fn trigger(policy: &Policy) -> String {
    let window = Window { tokens: 200_000, origin: WindowOrigin::Host };
    let levels = Levels::new(policy, Some(&window), Some(8_000));
    levels.ok().and_then(|levels| levels.trigger()).map_or_else(|| "–".into(), |tokens| thousands(&tokens.to_string()))
}

/// Every prompt with its size.
pub(crate) fn prompt_table() -> String {
    let counter = default_counter();
    let mut table = String::from("| prompt | characters | tokens |\n|---|---|---|\n");
    let mut add = |name: &str, text: &str| {
        let (chars, tokens) = (text.chars().count(), counter.count(text));
        table.push_str(&format!(
            "| {name} | {} | {} |\n",
            thousands(&chars.to_string()),
            thousands(&tokens.to_string())
        ));
    };
    let native = prompt::NATIVE_CAPABILITIES.trim_end();
    for preset in Preset::builtins() {
        add(&format!("`{}`: persona", preset.id), &preset.persona.text);
        if preset.id == "arya-standard" {
            add("native capabilities, after every persona but the first", native);
        }
        if preset.id == "arya-automation" {
            // Its kit is the one of `arya-standard`.
            continue;
        }
        add(&format!("`{}`: instruction", preset.id), &preset.kit.instruction);
        add(&format!("`{}`: frame", preset.id), &format!("{}\n{}", preset.kit.frame.opening, preset.kit.frame.closing));
    }
    table
}

fn thousands(number: &str) -> String {
    let digits = number.len();
    number.chars().enumerate().fold(String::new(), |mut text, (index, digit)| {
        if index > 0 && (digits - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
        text
    })
}
