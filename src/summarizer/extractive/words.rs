//! What words tell of a sentence: whether it states a rule, a wish or a correction, and which words mean nothing by themselves.

use std::sync::LazyLock;

use hashbrown::HashMap;
use regex::RegexSet;

/// What a word is, or a phrase.
pub(super) mod is {
    pub(in super::super) const RULE: u8 = 1;
    pub(in super::super) const PREFERENCE: u8 = 2;
    pub(in super::super) const GOAL: u8 = 4;
    pub(in super::super) const CORRECTION: u8 = 8;
    /// No part of what a sentence speaks of.
    pub(in super::super) const FILLER: u8 = 16;
    pub(in super::super) const PLEASE: u8 = 32;
    /// A value may stand behind it: what something is set to.
    pub(in super::super) const SETTER: u8 = 64;
}

/// Words behind which stands what something is set to, the surest first.
pub(super) const SETTERS: [&str; 5] = ["use", "to", "is", "are", "be"];

/// Longest word of the lists, in bytes.
const LONGEST_LISTED: usize = 16;

static KINDS: LazyLock<HashMap<&'static str, u8>> = LazyLock::new(|| {
    let lists: [(&[&'static str], u8); 6] = [
        (RULE_WORDS, is::RULE),
        (PREFERENCE_WORDS, is::PREFERENCE),
        (GOAL_WORDS, is::GOAL),
        (CORRECTIONS, is::CORRECTION | is::FILLER),
        (FILLERS, is::FILLER),
        (SOFT_WORDS, is::FILLER),
    ];
    let mut kinds = HashMap::new();
    for (list, kind) in lists {
        for word in list {
            *kinds.entry(*word).or_insert(0) |= kind;
        }
    }
    *kinds.entry("please").or_insert(0) |= is::PLEASE;
    for word in SETTERS {
        *kinds.entry(word).or_insert(0) |= is::SETTER;
    }
    kinds
});

/// What a word in lower case is.
pub(super) fn kinds_of(word: &str) -> u8 {
    if word.len() > LONGEST_LISTED { 0 } else { KINDS.get(word).copied().unwrap_or(0) }
}

/// Phrases that do what single words do, in the order of [`PHRASE_KINDS`].
static PHRASES: LazyLock<RegexSet> = LazyLock::new(|| {
    let bounded = |phrases: &str, others: &str| format!(r"(?-u:\b)(?:{phrases})(?-u:\b)|{others}");
    let patterns = [
        bounded(
            "do not|may not|no longer|at most|at least|not even|off limits|hands off",
            concat!(
                r"(?:^|, |: |; |and )(?:\d+[.)] )?no [a-z]|",
                "不要|不得|不能|不可|不许|别再|必须|务必|只能|只有|绝不|禁止|永远|始终|总是|一律|最多|至少|不准|",
                "しない|してはいけ|必ず|絶対|だけ|ないで|以内|以下|",
                "никогда|всегда|только|нельзя|должн|обязательн|절대|반드시|하지 마|만 사용",
            ),
        ),
        bounded(
            "i like|i'd like|i'd rather|i hate|in the style",
            "我喜欢|我希望|最好|尽量|偏好|好みます|ほうがいい|方がいい|я предпочитаю|лучше|선호",
        ),
        bounded(
            "so that we can|the goal|i want|we want|i need|we need",
            "请|我想|我要|我们要|需要|目标|してください|お願い|したい|目的|пожалуйста|нужно|хочу|цель|해 주세요|원합니다",
        ),
        bounded(
            "no longer|instead of|changed to|rather than|change of",
            "改为|改成|而不是|更正|ではなく|変更|вместо|теперь",
        ),
    ];
    // The patterns are fixed; a set that could not be built would hold nothing, and the words alone would tell.
    RegexSet::new(patterns).unwrap_or_else(|_| RegexSet::empty())
});

const PHRASE_KINDS: [u8; 4] = [is::RULE, is::PREFERENCE, is::GOAL, is::CORRECTION];

/// What the phrases of a sentence in lower case are.
pub(super) fn phrase_kinds(lower: &str) -> u8 {
    PHRASES.matches(lower).into_iter().filter_map(|at| PHRASE_KINDS.get(at)).fold(0, |kinds, kind| kinds | kind)
}

/// The digits of a number that is written as a word.
pub(super) fn digits_of(word: &str) -> Option<&'static str> {
    NUMBER_WORDS.iter().find(|(name, _)| *name == word).map(|(_, digits)| *digits)
}

static GROUPS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    SAME.iter().flat_map(|group| group.iter().filter_map(|word| Some((*word, *group.first()?)))).collect()
});

/// A word without its ending, and one word for those that mean the same.
pub(super) fn stem(word: &str) -> &str {
    if let Some(same) = GROUPS.get(word) {
        return same;
    }
    let cut = ["ings", "ing", "ies", "ed", "es", "s"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|stem| stem.len() >= 4))
        .unwrap_or(word);
    GROUPS.get(cut).copied().unwrap_or(cut)
}

const NUMBER_WORDS: &[(&str, &str)] = &[
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("twelve", "12"),
    ("twenty", "20"),
    ("thirty", "30"),
];

const RULE_WORDS: &[&str] = &[
    "never",
    "always",
    "must",
    "mustn't",
    "only",
    "don't",
    "cannot",
    "can't",
    "forbidden",
    "required",
    "mandatory",
    "without",
    "except",
    "unless",
    "under",
    "avoid",
    "ensure",
    "keep",
    "stay",
    "stays",
    "rule",
    "rules",
    "constraint",
    "limit",
    "requirement",
    "shall",
    "prohibited",
    "nie",
    "niemals",
    "immer",
    "muss",
    "müssen",
    "nur",
    "darf",
    "höchstens",
    "mindestens",
    "jamais",
    "toujours",
    "nunca",
    "siempre",
];
const PREFERENCE_WORDS: &[&str] = &[
    "prefer",
    "preference",
    "prefers",
    "preferred",
    "favour",
    "favor",
    "rather",
    "ideally",
    "style",
    "tone",
    "lieber",
    "bevorzuge",
];
const GOAL_WORDS: &[&str] = &[
    "want",
    "need",
    "goal",
    "goals",
    "please",
    "aim",
    "objective",
    "task",
    "target",
    "should",
    "fix",
    "add",
    "build",
    "implement",
    "write",
    "make",
    "find",
    "change",
    "update",
    "deliver",
    "finish",
    "remember",
    "important",
    "deadline",
    "ship",
    "bitte",
];
const CORRECTIONS: &[&str] = &[
    "correction",
    "actually",
    "instead",
    "now",
    "changed",
    "update",
    "updated",
    "switch",
    "switched",
    "revised",
    "moved",
    "new",
    "scratch",
    "sorry",
    "wrong",
    "not",
    "bump",
    "raise",
    "lower",
    "replace",
    "replaced",
    "jetzt",
    "statt",
    "doch",
];

const FILLERS: &[&str] = &[
    "the", "a", "an", "is", "are", "was", "were", "be", "been", "to", "of", "in", "on", "at", "for", "and", "or",
    "but", "it", "its", "this", "that", "these", "those", "we", "i", "you", "our", "my", "your", "they", "their",
    "with", "from", "as", "by", "so", "if", "then", "than", "there", "have", "has", "had", "do", "does", "did", "will",
    "would", "can", "could", "should", "may", "might", "us", "me", "him", "her", "he", "she", "them", "what", "which",
    "who", "when", "where", "how", "all", "any", "each", "every", "more", "most", "some", "such", "no", "nor", "too",
    "very", "just", "also", "up", "down", "out", "off", "over", "about", "into", "after", "before", "again", "further",
    "once", "here", "both", "few", "other", "own", "same", "s", "t", "re", "ll", "ve", "d", "lets", "let", "set",
    "use", "used", "using", "make", "makes", "get", "gets", "go", "goes", "want", "wants", "need", "needs", "please",
    "thanks", "ok", "okay", "yes",
];
/// Words of the frame of a statement, not of its subject.
const SOFT_WORDS: &[&str] = &[
    "must",
    "never",
    "always",
    "only",
    "note",
    "remember",
    "value",
    "number",
    "decided",
    "decision",
    "today",
    "still",
    "currently",
    "going",
    "forward",
    "per",
    "team",
    "says",
    "said",
    "confirmed",
    "agreed",
    "time",
    "times",
    "it's",
    "that's",
    "we're",
    "let's",
];

/// Words that mean the same thing for a setting.
const SAME: &[&[&str]] = &[
    &["limit", "max", "maximum", "cap", "ceiling", "upper"],
    &["timeout", "wait", "waits"],
    &["deadline", "due", "ship", "release", "launch"],
    &["retry", "attempt", "attempts", "retries"],
    &["owner", "lead", "responsible", "charge", "owns"],
    &["budget", "cost", "spend"],
    &["colour", "color"],
    &["database", "db"],
    &["directory", "folder", "dir"],
    &["delete", "remove", "drop"],
    &["meeting", "call", "sync"],
    &["region", "zone"],
    &["language", "lang"],
];
