//! The inputs of the fuzz targets, tried without a fuzzer: seeds that hold every kind of record, and what once failed.

#[path = "common/transcript_checks.rs"]
mod transcript_checks;

use std::path::Path;

use arya_presets::transcript::Format;

#[test]
fn every_input_of_the_fuzz_corpora_holds_what_is_promised_of_all() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fuzz");
    let mut failed = Vec::new();
    for format in Format::ALL {
        let mut paths: Vec<_> =
            std::fs::read_dir(root.join(format.name())).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let mut conversations = 0;
        for path in paths {
            let bytes = std::fs::read(&path).unwrap();
            for known in [Some(format), None] {
                match std::panic::catch_unwind(|| transcript_checks::check(known, &bytes)) {
                    Ok(is_conversation) => conversations += u32::from(is_conversation),
                    Err(_) => failed.push(format!("{} as {known:?}", path.display())),
                }
            }
        }
        assert!(conversations > 0, "the corpus of {format} makes no conversation");
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn the_first_seed_of_each_format_is_found_by_its_content() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fuzz");
    for format in Format::ALL {
        let bytes = std::fs::read(root.join(format.name()).join("seed-1")).unwrap();
        let import = arya_presets::transcript::read(&*bytes).unwrap();
        assert_eq!(import.format, format);
        assert_eq!(import.report.unreadable_count, 0, "{format}: {:?}", import.report.unreadable);
    }
}
