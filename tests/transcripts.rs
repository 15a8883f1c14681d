//! Transcripts of other tools: what is read of them, and what is written.

mod common;

use std::path::{Path, PathBuf};

use arya_presets::transcript::{self, Profile, Rule, Target, WriteOptions};

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/transcripts");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            found.push(file.path());
        }
    }
    found.sort();
    found
}

#[test]
fn look() {
    for file in files() {
        let bytes = std::fs::read(&file).unwrap();
        let name = format!(
            "{}/{}",
            file.parent().unwrap().file_name().unwrap().to_string_lossy(),
            file.file_name().unwrap().to_string_lossy()
        );
        match transcript::read(&*bytes) {
            Err(error) => println!("== {name}: ERROR {error}"),
            Ok(import) => {
                let r = &import.report;
                println!(
                    "== {name}: {} records {} msgs {} folds {} folded {} unreadable {} {:?}",
                    r.format,
                    r.records,
                    import.session.messages().count(),
                    r.folds,
                    r.folded_messages,
                    r.unreadable_count,
                    r.unreadable.first()
                );
                println!(
                    "   mapped {:?}",
                    r.mapped.iter().map(|(k, t)| format!("{k}:{}", t.count)).collect::<Vec<_>>()
                );
                println!(
                    "   skipped {:?}",
                    r.skipped.iter().map(|(k, t)| format!("{k}:{}", t.count)).collect::<Vec<_>>()
                );
                println!("   repaired {:?}", r.repaired);
                let mut kinds = std::collections::BTreeMap::new();
                for m in import.session.messages() {
                    *kinds.entry(format!("{:?} {}", m.role, m.source.kind())).or_insert(0) += 1;
                }
                println!("   kinds {kinds:?}");
                for target in Target::ALL {
                    match transcript::write(&import.session, target, &WriteOptions::default()) {
                        Err(e) => println!("   -> {target}: ERROR {e}"),
                        Ok(export) => {
                            let v = transcript::validate(target, &export.value);
                            println!(
                                "   -> {target}: {:?} violations {} {:?}",
                                export
                                    .report
                                    .changes
                                    .iter()
                                    .map(|(c, t)| format!("{c:?}:{}", t.count))
                                    .collect::<Vec<_>>(),
                                v.len(),
                                v.iter().take(3).collect::<Vec<_>>()
                            );
                        }
                    }
                }
            }
        }
    }
    let _ = (Profile::default(), Rule::ALL);
}
