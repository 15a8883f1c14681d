//! Runs every vector of a folder and tallies the answers by op.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::deviation::{Mended, Rules};
use crate::vector::{Strings, Vector, read_folder, unresolved};
use crate::{compaction_ops, log_ops, store_ops};

/// Runs a vector; the error says what came out differently.
pub(crate) type Handler = fn(&Vector, &Strings) -> Result<(), String>;

const HANDLERS: &[(&str, Handler)] = &[
    ("appendEvent", log_ops::append_event),
    ("balance", log_ops::balance),
    ("compactIfNeeded", compaction_ops::compact_if_needed),
    ("compactNow", compaction_ops::compact_now),
    ("compactRegion", compaction_ops::compact_region),
    ("derive", log_ops::derive),
    ("estimateMessage", log_ops::estimate_message),
    ("measure", log_ops::measure),
    ("pruneContent", compaction_ops::prune_content),
    ("pruneSession", compaction_ops::prune_session),
    ("resolveCompactSpec", compaction_ops::resolve_compact_spec),
    ("resolveConfig", compaction_ops::resolve_config),
    ("resolvePruneConfig", compaction_ops::resolve_prune_config),
    ("repair", store_ops::repair),
    ("restore", log_ops::restore),
    ("scan", store_ops::scan),
    ("selectRange", compaction_ops::select_range),
    ("storage", store_ops::storage),
];

/// The fixed texts that a set of vectors must define.
const STRINGS: [&str; 5] =
    ["FRAMING_OPEN", "FRAMING_CLOSE", "PRUNE_MARKER", "TOOL_NOT_STARTED_TEXT", "TOOL_OUTCOME_UNKNOWN_TEXT"];

#[derive(Debug, Default)]
struct Tally {
    op: String,
    total: usize,
    passed: usize,
    not_built: usize,
    /// Names of the vectors that deviate as a rule says, with the rule's condition.
    deviating: Vec<(String, String)>,
    /// Names of the vectors that failed, with what differs.
    failures: Vec<(String, String)>,
}

/// What came out, by op.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Tally>);

impl Report {
    pub(crate) fn is_clean(&self) -> bool {
        self.0.iter().all(|tally| tally.failures.is_empty())
    }

    fn of(&mut self, op: &str) -> &mut Tally {
        let index = self.0.iter().position(|tally| tally.op == op).unwrap_or(self.0.len());
        if index == self.0.len() {
            self.0.push(Tally { op: op.into(), ..Tally::default() });
        }
        &mut self.0[index]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for tally in &self.0 {
            let Tally { op, total, passed, not_built, .. } = tally;
            let deviating = tally.deviating.len();
            match not_built {
                0 => writeln!(f, "{op}: {passed}/{total} (deviating {deviating})")?,
                _ => writeln!(f, "{op}: not built yet ({not_built})")?,
            }
            for (name, condition) in &tally.deviating {
                writeln!(f, "  deviates {name}: {condition}")?;
            }
            for (name, difference) in &tally.failures {
                writeln!(f, "  FAILED {name}")?;
                for line in difference.lines() {
                    writeln!(f, "    {line}")?;
                }
            }
        }
        Ok(())
    }
}

/// Runs the vectors of a folder.
pub(crate) fn run(folder: &Path, rules: &Rules) -> Result<Report, String> {
    let strings = Strings::read(folder)?;
    let vectors = read_folder(folder, &strings)?;
    if vectors.is_empty() {
        return Err(format!("{} holds no vectors", folder.display()));
    }
    let mut report = Report::default();
    check_strings(&strings, &vectors, report.of("strings"));
    for vector in &vectors {
        let tally = report.of(&vector.op);
        tally.total += 1;
        let Some((_, handler)) = HANDLERS.iter().find(|(op, _)| *op == vector.op) else {
            tally.not_built += 1;
            continue;
        };
        let deviation = rules.apply(vector)?;
        let answer = match &deviation {
            Some((_, Mended::Refused)) => Ok(()),
            Some((_, Mended::Expect(mended))) => guarded(*handler, mended, &strings),
            None => guarded(*handler, vector, &strings),
        };
        match (answer, deviation) {
            (Ok(()), None) => tally.passed += 1,
            (Ok(()), Some((condition, _))) => tally.deviating.push((vector.name.clone(), condition)),
            (Err(why), None) => tally.failures.push((vector.name.clone(), why)),
            (Err(why), Some((condition, _))) => {
                tally
                    .failures
                    .push((vector.name.clone(), format!("deviates ({condition}), but not as it should\n{why}")));
            }
        }
    }
    Ok(report)
}

fn guarded(handler: Handler, vector: &Vector, strings: &Strings) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| handler(vector, strings))).unwrap_or_else(|_| Err("panicked".into()))
}

fn check_strings(strings: &Strings, vectors: &[Vector], tally: &mut Tally) {
    for name in STRINGS {
        tally.total += 1;
        match strings.get(name) {
            Some(text) if !text.is_empty() => tally.passed += 1,
            _ => tally.failures.push((name.into(), "strings.json does not define it".into())),
        }
    }
    for vector in vectors {
        if let Some(placeholder) = unresolved(vector) {
            tally.failures.push((vector.name.clone(), format!("{placeholder} stands for no text")));
        }
    }
}
