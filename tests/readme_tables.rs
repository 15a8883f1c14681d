//! The tables of the README are those that the example prints.

#![cfg(all(feature = "presets", feature = "tiktoken"))]
#![allow(clippy::unwrap_used, reason = "a broken test may panic")]

#[path = "../examples/presets.rs"]
#[allow(dead_code, reason = "only its tables are compared")]
mod example;

const README: &str = include_str!("../README.md");

#[test]
fn the_table_of_the_presets_comes_from_the_code() {
    assert!(
        README.contains(&example::preset_table()),
        "`cargo run --example presets` prints the table that belongs there"
    );
}

#[test]
fn the_table_of_characters_and_tokens_comes_from_the_prompts() {
    assert!(
        README.contains(&example::prompt_table()),
        "`cargo run --example presets` prints the table that belongs there"
    );
}
