#![no_main]

#[path = "../../tests/common/transcript_checks.rs"]
mod transcript_checks;

use arya_presets::transcript::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    transcript_checks::check(Some(Format::Harness), bytes);
    transcript_checks::check(None, bytes);
});
