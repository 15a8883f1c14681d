//! Masking secrets in what becomes a checkpoint.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked {
    /// The text. Labels stay, so that a reader sees what was there.
    pub text: String,
    /// How many secrets were masked.
    pub count: usize,
}

/// What stands in the place of a secret.
pub(crate) const MASK: &str = "[masked]";

/// The kinds of secrets. Group `keep` stays, group `tail` stays behind the mask, everything else is masked.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // Private keys between their armour lines.
        r"(?s)(?P<keep>-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(?P<tail>-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        // User and password in an address.
        r"(?P<keep>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s:/@\[\]]{0,100}:)[^\s/@\[\]]{1,200}(?P<tail>@)",
        // Authorisation headers.
        r"(?i)(?P<keep>\b(?:bearer|basic|token)\s+)[a-z0-9._~+/-]{16,}=*",
        // Keys with a prefix of their issuer.
        r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9]{16,}\b",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,})",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}",
        // A value behind a name that says what it is.
        r#"(?i)(?P<keep>\b[a-z0-9_.-]{0,40}(?:api[_-]?key|secret|passwd|password|private[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|[_-]token|[_-]key)["']?\s{0,3}[=:]\s{0,3}["']?)[^\s"',;\[\]{}()<>]{8,}"#,
    ]
    .into_iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// Masks keys, tokens, private keys, credentials in addresses and authorisation headers. Masking a masked text changes nothing.
pub fn mask_secrets(text: &str) -> Masked {
    let mut masked = Masked { text: text.to_owned(), count: 0 };
    for secret in SECRETS.iter() {
        if !secret.is_match(&masked.text) {
            continue;
        }
        let mut count = 0;
        let replaced = secret.replace_all(&masked.text, |found: &Captures<'_>| {
            let group = |name: &str| found.name(name).map_or("", |group| group.as_str());
            let new = format!("{}{MASK}{}", group("keep"), group("tail"));
            let old = found.get(0).map_or("", |whole| whole.as_str());
            count += usize::from(old != new && old.trim() != new.trim());
            new
        });
        masked.text = replaced.into_owned();
        masked.count += count;
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_go_and_labels_stay() {
        let cases = [
            ("OPENAI_API_KEY=sk-proj-abcdefghijklmnop1234", "OPENAI_API_KEY=[masked]"),
            ("key: sk-abcdefghijklmnopqrst", "key: [masked]"),
            ("postgres://admin:hunter2@db.local/x", "postgres://admin:[masked]@db.local/x"),
            ("Authorization: Bearer abcdefghijklmnopqrstuvwx==", "Authorization: Bearer [masked]"),
            ("export AWS_SECRET_ACCESS_KEY='abcdEFGH1234/xyz'", "export AWS_SECRET_ACCESS_KEY='[masked]'"),
            ("id AKIAABCDEFGHIJKLMNOP ok", "id [masked] ok"),
            ("\"password\": \"correct horse\"", "\"password\": \"correct horse\""),
            ("\"password\": \"correct-horse\"", "\"password\": \"[masked]\""),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nrest",
                "-----BEGIN RSA PRIVATE KEY-----[masked]-----END RSA PRIVATE KEY-----\nrest",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "-----BEGIN PRIVATE KEY-----[masked]"),
            ("ghp_abcdefghijklmnopqrstuvwxyz012345", "[masked]"),
        ];
        for (text, expected) in cases {
            assert_eq!(mask_secrets(text).text, expected);
        }
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "the token bucket refills at 5 per second",
            "max_tokens: 8192",
            "https://example.org:8080/path@v2",
            "basic arithmetic is taught here",
            "skip-this-very-long-hyphenated-word",
            "monkey=12345678",
            "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        ] {
            assert_eq!(mask_secrets(text), Masked { text: text.into(), count: 0 }, "{text}");
        }
    }

    proptest! {
        #[test]
        fn masking_twice_changes_nothing(
            text in "(\\PC{0,12}|(API_KEY|password|Bearer|sk-|://u:|@h|=|: | |\n|abcdefgh12345678XY|-----BEGIN PRIVATE KEY-----)){0,8}"
        ) {
            let once = mask_secrets(&text);
            let twice = mask_secrets(&once.text);
            prop_assert_eq!(&twice.text, &once.text);
            prop_assert_eq!(twice.count, 0);
        }
    }
}
