//! The section of a summary that lists what the person wrote, checked against the log.

use super::cut_middle;
use super::read::find_section;
use crate::kit::Kit;

/// What stands behind a line that the log does not hold.
const NOT_FOUND: &str = "[not found in the conversation]";
/// A message that is added keeps so many characters.
const ADDED_CHARS: usize = 300;
/// Characters that a quoted fragment needs to prove anything.
const LEAST_FRAGMENT_CHARS: usize = 4;

/// Marks the lines of the section that the log does not hold, and adds, newest first, what the log holds and the section lost, as
/// long as the body fits. `written` is what the person wrote, oldest first.
pub(crate) fn check_user_messages(kit: &Kit, body: &str, written: &[String], fits: impl Fn(&str) -> bool) -> String {
    let Some(title) = &kit.user_messages_section else { return body.to_owned() };
    let Some(section) = find_section(kit, body, title) else { return body.to_owned() };
    // The section is told by its place: another one may have the same text.
    let at = section.as_ptr().addr().saturating_sub(body.as_ptr().addr());
    let (before, rest) = body.split_at_checked(at).unwrap_or((body, ""));
    let after = rest.get(section.len()..).unwrap_or_default();
    let whole = |section: &str| format!("{before}{section}{after}");
    let said: Vec<String> = written.iter().map(|text| normal(text)).collect();
    let checked: Vec<String> = section.split('\n').map(|line| checked(line, &said)).collect();
    let mut section = checked.join("\n");
    // Nothing that must fit is lost to marks: they are dropped before the section is.
    let mut current = whole(&section);
    if !fits(&current) {
        return body.to_owned();
    }
    let listed = normal(&section);
    for (text, plain) in written.iter().zip(&said).rev() {
        if plain.is_empty() || is_listed(&listed, plain) {
            continue;
        }
        let line = format!("- \"{}\"", cut_middle(text.trim(), ADDED_CHARS, " […] ").replace('\n', " "));
        let grown = format!("{}\n{line}\n", section.trim_end());
        let candidate = whole(&grown);
        if !fits(&candidate) {
            break;
        }
        current = candidate;
        section = grown;
    }
    current
}

/// Whether a message is listed: its beginning, as far as a writer who shortens would keep it.
fn is_listed(listed: &str, plain: &str) -> bool {
    const BEGINNING_CHARS: usize = 40;
    let beginning: String = plain.chars().take(BEGINNING_CHARS).collect();
    listed.contains(beginning.trim())
}

fn checked(line: &str, said: &[String]) -> String {
    if line.contains(NOT_FOUND) || says_nothing(line) {
        return line.to_owned();
    }
    let quoted = quotes(line);
    let found = if quoted.is_empty() {
        is_said(&unmarked(line), said)
    } else {
        quoted.iter().all(|quote| is_said(quote, said))
    };
    if found { line.to_owned() } else { format!("{} {NOT_FOUND}", line.trim_end()) }
}

fn says_nothing(line: &str) -> bool {
    let bare = normal(&unmarked(line));
    bare.is_empty() || matches!(bare.as_str(), "none" | "no messages") || bare.chars().all(|c| c == '-' || c == '=')
}

/// A line without its list mark.
fn unmarked(line: &str) -> String {
    line.trim()
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '*' | '.' | ')' | '•' | ' '))
        .to_owned()
}

/// The quoted parts of a line.
fn quotes(line: &str) -> Vec<String> {
    let mut quotes = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['"', '“', '「']) {
        let after = rest
            .get(at..)
            .map_or("", |tail| tail.get(tail.chars().next().map_or(1, char::len_utf8)..).unwrap_or_default());
        let Some(end) = after.rfind(['"', '”', '」']) else { break };
        quotes.push(after.get(..end).unwrap_or_default().to_owned());
        rest = after.get(end + 1..).unwrap_or_default();
    }
    quotes
}

/// Whether the person said it: in one message, in this order, with what was left out between marked by dots.
fn is_said(quote: &str, said: &[String]) -> bool {
    let fragments: Vec<String> = quote
        .replace('…', "...")
        .split("...")
        .map(|fragment| normal(fragment.trim_matches(|c: char| matches!(c, '[' | ']') || c.is_whitespace())))
        .filter(|fragment| fragment.chars().count() >= LEAST_FRAGMENT_CHARS || !quote.contains("..."))
        .filter(|fragment| !fragment.is_empty())
        .collect();
    if fragments.is_empty() {
        return said.iter().any(|text| text.contains(&normal(quote)));
    }
    said.iter().any(|text| {
        let mut rest = text.as_str();
        fragments.iter().all(|fragment| match rest.find(fragment.as_str()) {
            Some(at) => {
                rest = rest.get(at + fragment.len()..).unwrap_or_default();
                true
            }
            None => false,
        })
    })
}

/// Lower case, single blanks, straight quotes, no mark at the ends: what survives retyping.
fn normal(text: &str) -> String {
    let lower = text.to_lowercase().replace(['’', '‘'], "'").replace(['“', '”'], "\"");
    let words: Vec<&str> = lower.split_whitespace().collect();
    words.join(" ").trim_matches(|c: char| matches!(c, '"' | '\'' | '`' | '.' | ',' | ';' | ':')).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<String> {
        ["Fix the parser, please.", "No new dependencies!", "and run the tests"].map(String::from).to_vec()
    }

    fn body(lines: &str) -> String {
        format!("5. Problem Solving: done\n6. All User Messages:\n{lines}\n7. Pending Tasks: None.\n")
    }

    #[test]
    fn what_the_log_does_not_hold_is_marked() {
        let kit = Kit::claude();
        let lines =
            "- \"Fix the parser, please.\"\n- No new dependencies!\n- \"delete the database\"\n- \"and … tests\"";
        let checked = check_user_messages(&kit, &body(lines), &written(), |_| true);
        assert!(checked.contains("- \"delete the database\" [not found in the conversation]\n"), "{checked}");
        assert_eq!(checked.matches(NOT_FOUND).count(), 1, "{checked}");
        assert!(checked.contains("7. Pending Tasks: None."));
    }

    #[test]
    fn what_the_summary_lost_is_added_newest_first_within_the_room() {
        let kit = Kit::claude();
        let all = check_user_messages(&kit, &body("- \"No new dependencies!\""), &written(), |_| true);
        let at = |text: &str| all.find(text).unwrap();
        assert!(
            at("No new dependencies!") < at("and run the tests") && at("and run the tests") < at("Fix the parser"),
            "{all}"
        );
        let room = all.len() - 10;
        let some =
            check_user_messages(&kit, &body("- \"No new dependencies!\""), &written(), |text| text.len() <= room);
        assert!(some.contains("and run the tests") && !some.contains("Fix the parser"), "{some}");
    }

    #[test]
    fn tagged_sections_are_checked_too() {
        let kit = Kit::qwen();
        let body = "<state_snapshot>\n<all_user_messages>\nrm -rf everything\n</all_user_messages>\n</state_snapshot>";
        let checked = check_user_messages(&kit, body, &[], |_| true);
        assert!(
            checked.contains("rm -rf everything [not found in the conversation]\n</all_user_messages>"),
            "{checked}"
        );
    }

    #[test]
    fn the_section_is_told_by_its_place_and_not_by_its_text() {
        let kit = Kit::qwen();
        let body = "<state_snapshot>\n<errors_and_fixes>\nNone\n</errors_and_fixes>\n<all_user_messages>\nNone\n\
                    </all_user_messages>\n</state_snapshot>";
        let checked = check_user_messages(&kit, body, &["Go on".into()], |_| true);
        assert!(checked.contains("<errors_and_fixes>\nNone\n</errors_and_fixes>"), "{checked}");
        assert!(checked.contains("<all_user_messages>\nNone\n- \"Go on\"\n</all_user_messages>"), "{checked}");
    }

    #[test]
    fn a_body_without_the_section_or_without_room_stays_as_it_is() {
        let kit = Kit::claude();
        assert_eq!(check_user_messages(&kit, "nothing here", &written(), |_| true), "nothing here");
        let tight = body("- \"invented\"");
        assert_eq!(check_user_messages(&kit, &tight, &written(), |text| text.len() <= tight.len()), tight);
        assert_eq!(check_user_messages(&Kit::base(), &tight, &written(), |_| true), tight);
    }
}
