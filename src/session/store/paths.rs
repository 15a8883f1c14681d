//! Names of folders and files, in the harness's layout.

use std::fmt::Write;
use std::path::PathBuf;

use super::Compression;

/// Longest escaped project name: what is left of a file name's 255 bytes beside the two pairs of dashes.
const LONGEST_PROJECT: usize = 251;

/// The file of a session, below the root.
pub(super) fn relative(cwd: Option<&str>, id: &str, compression: Compression) -> PathBuf {
    let project = cwd.map_or_else(|| "_no-cwd".to_owned(), |cwd| format!("--{}--", project_name(cwd)));
    let file = match compression {
        Compression::None => "session.jsonl",
        Compression::Zstd => "session.jsonl.zstd",
    };
    [project.as_str(), &session_name(id), file].iter().collect()
}

/// Separators become one dash a run, leading ones vanish, everything unusual is escaped.
fn project_name(cwd: &str) -> String {
    let mut joined = String::with_capacity(cwd.len());
    for c in cwd.chars() {
        let separator = matches!(c, '/' | '\\' | ':');
        match (separator, joined.ends_with('\0')) {
            (true, true) => {}
            (true, false) => joined.push('\0'),
            (false, _) => joined.push(c),
        }
    }
    let name: String = joined
        .split('\0')
        .map(escaped)
        .collect::<Vec<_>>()
        .join("-")
        .trim_start_matches('-')
        .chars()
        .take(LONGEST_PROJECT)
        .collect();
    if name.is_empty() { "root".into() } else { name }
}

/// As for projects, but one to one: separators are escaped too, and so are names that mean a folder.
fn session_name(id: &str) -> String {
    let name = escaped(id);
    if matches!(name.as_str(), "." | "..") { name.replace('.', "~002E") } else { name }
}

/// Every UTF-16 code unit outside letters, digits, dot, underscore and dash becomes `~XXXX`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            out.push(c);
            continue;
        }
        let mut units = [0u16; 2];
        for unit in c.encode_utf16(&mut units) {
            // Writing to a string cannot fail.
            let _ = write!(out, "~{unit:04X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cwd: Option<&str>, id: &str) -> String {
        relative(cwd, id, Compression::None).to_string_lossy().into_owned()
    }

    #[test]
    fn names_are_escaped_so_that_nothing_leaves_the_root() {
        let cases = [
            (Some("/srv/project"), "session-1", "--srv-project--/session-1/session.jsonl"),
            (Some("C:\\Users\\a b"), "s", "--C-Users-a~0020b--/s/session.jsonl"),
            (Some("/"), "..", "--root--/~002E~002E/session.jsonl"),
            (Some(""), ".", "--root--/~002E/session.jsonl"),
            (None, "a/../b", "_no-cwd/a~002F..~002Fb/session.jsonl"),
            (Some("/x/😀"), "s", "--x-~D83D~DE00--/s/session.jsonl"),
        ];
        for (cwd, id, path) in cases {
            assert_eq!(of(cwd, id), path);
        }
        let long = "x".repeat(600);
        assert_eq!(of(Some(&long), "s").split('/').next().map(str::len), Some(LONGEST_PROJECT + 4));
    }
}
