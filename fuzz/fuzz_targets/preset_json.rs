//! Whatever text is handed in as a preset, it is refused or it works: no panic, and what was read is read again.
#![no_main]

use arya_presets::prompt::PromptVariables;
use arya_presets::{Preset, Registry};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut registry = Registry::builtin();
    let _ = registry.add_json(text).map(|entry| entry.preset().is_ok());
    if let Ok(preset) = Preset::from_json(text) {
        assert_eq!(preset.engine().is_ok(), preset.validate().is_ok());
        let _ = preset.prompt(&PromptVariables::new().model("m").cwd("/"));
        let _ = preset.diff(&Preset::standard());
        let _ = preset.settings_schema();
        assert_eq!(Preset::from_json(&preset.to_json().to_string()), Ok(preset));
    }
});
