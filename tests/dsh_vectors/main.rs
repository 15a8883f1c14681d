//! Runs the golden vectors of the harness against the crate.
//!
//! Two folders: the small copy in `tests/data/vectors`, always, and the full set, named by `ARYA_VECTORS`, where there is one.

#![allow(clippy::indexing_slicing, reason = "a broken runner may panic")]

mod compaction_ops;
mod compare;
mod deviation;
mod host;
mod log_ops;
mod runner;
mod script;
mod sink;
mod store_ops;
mod vector;
mod world;

use std::io::Write as _;
use std::path::{Path, PathBuf};

fn manifest_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn copied_vectors() -> PathBuf {
    manifest_dir().join("tests/data/vectors")
}

/// Says it also where the tests pass: what is printed in the usual way is then swallowed.
fn say(line: std::fmt::Arguments<'_>) {
    // A closed standard output is no reason to fail.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn check(folder: &Path) -> Result<(), String> {
    let rules = deviation::Rules::read(&copied_vectors().join("deviations.json"))?;
    let report = runner::run(folder, &rules)?;
    say(format_args!("{}\n{report}", folder.display()));
    if report.is_clean() { Ok(()) } else { Err("vectors failed; see above".into()) }
}

#[test]
fn the_copied_vectors_hold() -> Result<(), String> {
    check(&copied_vectors())
}

#[test]
fn all_vectors_hold() -> Result<(), String> {
    let folder =
        std::env::var_os("ARYA_VECTORS").map_or_else(|| manifest_dir().join("../shared/vectors/dsh"), PathBuf::from);
    if folder.is_dir() {
        return check(&folder);
    }
    say(format_args!("{} is absent: only the copied vectors were run", folder.display()));
    Ok(())
}
