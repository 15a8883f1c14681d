//! Tokens: which are paths, names, numbers and addresses, and which words stand around them.

use super::facts::{FactKind, has};

/// A token without the marks around it. Dots that lead into a path stay.
pub(super) fn trimmed(raw: &str) -> &str {
    let plain = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    if plain(raw.as_bytes().first()) && plain(raw.as_bytes().last()) {
        return raw;
    }
    let end = |c: char| matches!(c, '.' | ':' | '!' | '?' | '*' | '#' | '~');
    let word = raw.trim_end_matches(end).trim_start_matches(|c| end(c) && !matches!(c, '.' | '~'));
    let leads = ["./", "../", "~/"].iter().any(|lead| word.starts_with(lead));
    if leads { word } else { word.trim_start_matches(end) }
}

/// Whether a word of a script without blanks ends between two characters.
pub(super) fn parts(last: char, next: char) -> bool {
    if is_wide_mark(last) || is_wide_mark(next) {
        return true;
    }
    is_wide(last) && next.is_ascii_alphanumeric() || last.is_ascii_alphanumeric() && is_wide(next)
}

/// Letters of scripts that set no blanks between words.
pub(super) fn is_wide(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{2ffff}')
}

/// Marks of those scripts, and quotes and dashes of others.
fn is_wide_mark(c: char) -> bool {
    matches!(c, '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}' | '“' | '”' | '„' | '‘' | '’' | '«' | '»' | '…' | '—' | '–' | '·' | '→')
}

const FOREIGN_UNITS: &[&str] = &[
    "毫秒",
    "分钟",
    "小时",
    "时间",
    "時間",
    "秒",
    "分",
    "时",
    "天",
    "日",
    "周",
    "週",
    "个月",
    "年",
    "元",
    "円",
    "个",
    "個",
    "次",
    "回",
    "件",
    "行",
    "人",
    "台",
    "条",
    "条记录",
    "度",
    "万",
    "億",
    "亿",
    "米",
    "公里",
    "公斤",
    "克",
    "％",
    "시간",
    "분",
    "초",
    "일",
    "명",
    "개",
    "원",
    "°",
    "€",
    "мс",
    "сек",
    "секунд",
    "мин",
    "минут",
    "часов",
    "дней",
    "руб",
    "тысяч",
    "строк",
];

/// The unit that a word begins with, or is.
pub(super) fn foreign_unit(word: &str) -> Option<&str> {
    let unit = FOREIGN_UNITS.iter().filter(|unit| word.starts_with(**unit)).max_by_key(|unit| unit.len())?;
    let whole = unit.chars().all(is_wide) || unit.len() == word.len() || !unit.chars().all(char::is_alphabetic);
    word.get(..unit.len()).filter(|_| whole)
}

/// Words that say nothing of a number that follows.
pub(super) fn is_empty_word(word: &str) -> bool {
    const EMPTY: &[&str] = &[
        "the", "and", "for", "from", "with", "about", "over", "under", "than", "only", "now", "was", "are", "has",
        "had", "have", "its", "this", "that", "still", "down", "roughly", "around", "nearly", "after", "before",
        "within", "below", "above", "between", "into", "just", "least", "most", "almost", "exactly", "then", "not",
        "all", "some", "another", "fell", "rose", "went", "every", "gives", "keeps", "stays",
    ];
    EMPTY.iter().any(|empty| word.eq_ignore_ascii_case(empty))
}

/// Words behind which a name is defined.
pub(super) const DEFINING: [&str; 12] =
    ["fn", "struct", "enum", "trait", "def", "class", "function", "interface", "type", "const", "TABLE", "static"];
pub(super) const LONGEST_DEFINING: usize = 9;

/// Whether a path is one where patterns stand beside paths: its name has an extension, or it has no letter alone between slashes
/// and begins at a root or in a directory.
pub(super) fn is_sure_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let named = name.rsplit_once('.').is_some_and(|(stem, extension)| !stem.is_empty() && extension.len() >= 2);
    let inner = path.matches('/').count();
    named || inner >= 2 && path.split('/').skip(1).all(|part| part.len() >= 2) && !path.starts_with("s/")
}

pub(super) fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+', '$']).trim_end_matches('%');
    digits.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b':' | b'-' | b'/'))
}

/// Small bare numbers are list marks and counts; they mean nothing without what stands around them.
pub(super) fn says_something(number: &str) -> bool {
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    digits >= 3 || number.ends_with('%') || (digits >= 2 && number.contains(['.', ':', '$']))
}

/// An address of a machine in four numbers, a port or a mask behind it.
pub(super) fn is_machine(number: &str) -> bool {
    let address = number.split(['/', ':']).next().unwrap_or(number);
    address.split('.').count() == 4 && address.split('.').all(|part| part.parse::<u8>().is_ok())
}

/// A path without the steps upwards before it: from where they are taken is not known.
pub(super) fn without_ascent(path: &str) -> &str {
    path.trim_start_matches("../").trim_start_matches("./")
}

/// A path without the line and column behind it.
pub(super) fn without_line(path: &str) -> &str {
    let mut path = path;
    while let Some((before, line)) = path.rsplit_once(':') {
        if before.is_empty() || !line.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        path = before;
    }
    path
}

const UNITS: &[&str] = &[
    "%",
    "b",
    "kb",
    "mb",
    "gb",
    "tb",
    "kib",
    "mib",
    "gib",
    "bytes",
    "byte",
    "chars",
    "characters",
    "lines",
    "rows",
    "tokens",
    "ns",
    "us",
    "µs",
    "ms",
    "s",
    "sec",
    "seconds",
    "second",
    "min",
    "minutes",
    "minute",
    "h",
    "hours",
    "hour",
    "days",
    "day",
    "weeks",
    "months",
    "years",
    "m",
    "cm",
    "mm",
    "km",
    "kg",
    "g",
    "hz",
    "khz",
    "mhz",
    "ghz",
    "rps",
    "qps",
    "req/s",
    "px",
    "eur",
    "usd",
    "€",
    "requests",
    "retries",
    "attempts",
    "times",
    "users",
    "nodes",
    "threads",
    "workers",
    "connections",
    "items",
    "percent",
    "v",
    "w",
    "°c",
    "k",
    "cpus",
    "cores",
    "replicas",
    "shards",
    "mbit",
    "tests",
    "files",
    "errors",
    "failures",
    "warnings",
    "records",
    "samples",
    "points",
    "words",
    "pages",
    "chapters",
    "people",
    "customers",
    "orders",
    "commits",
    "pods",
    "hosts",
    "partitions",
    "million",
    "thousand",
    "gbit",
];

pub(super) fn is_unit(word: &str) -> bool {
    word.len() <= 12 && UNITS.iter().any(|unit| word.eq_ignore_ascii_case(unit))
}

pub(super) fn kind_of(word: &str, classes: u8) -> Option<FactKind> {
    if is_data(word, classes) {
        return None;
    }
    if word.contains("://") || classes & has::MARK != 0 && is_mail(word) {
        return Some(FactKind::Address);
    }
    if classes & (has::SLASH | has::MARK) != 0 && is_path(word) {
        return Some(FactKind::Path);
    }
    if is_name(word) {
        return Some(FactKind::Name);
    }
    // "250ms", "3.5GB", "v2.1"
    let has_digit = classes & has::DIGIT != 0;
    let number_first = word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '$'));
    if has_digit && number_first && word.len() <= 16 {
        return Some(FactKind::Number);
    }
    let machine = word.rsplit_once(':').is_some_and(|(host, port)| {
        host.contains('.') && port.len() >= 2 && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if machine {
        return Some(FactKind::Address);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'#' | b'@');
    let begins = word.starts_with(|c: char| c.is_ascii_alphanumeric());
    (has_digit && begins && word.len() >= 4 && word.bytes().all(plain)).then_some(FactKind::Name)
}

/// Whether a token is a piece of encoded data, of a key for one, and no name.
fn is_data(word: &str, classes: u8) -> bool {
    const LEAST: usize = 32;
    let mixed = has::LOWER | has::UPPER | has::DIGIT;
    word.len() >= LEAST && classes & mixed == mixed && !word.contains(['_', '-', '.', ':'])
}

fn is_mail(word: &str) -> bool {
    word.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && !name.contains(['/', ':']) && host.contains('.') && !host.contains(['/', '@'])
    })
}

pub(super) fn is_camel(word: &str) -> bool {
    word.as_bytes().windows(2).any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()))
}

/// Endings that make a file of a word; others are methods and fields.
const EXTENSIONS: &[&str] = &[
    "rs", "toml", "md", "py", "ts", "tsx", "js", "jsx", "mjs", "json", "jsonl", "csv", "log", "sql", "yml", "yaml",
    "sh", "txt", "html", "css", "go", "java", "kt", "c", "h", "cc", "cpp", "hpp", "cs", "rb", "php", "swift", "lock",
    "xml", "proto", "ini", "cfg", "conf", "env", "pdf", "png", "jpg", "svg", "zip", "gz", "ipynb", "vue", "lua", "zig",
    "ex", "exs", "scala", "tf", "bak", "l5x",
];

fn is_path(word: &str) -> bool {
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-' | b'~' | b'*' | b':' | b'@' | b'+')
    };
    if !word.bytes().all(|byte| plain(byte) || !byte.is_ascii()) {
        return false;
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.split(':').next().unwrap_or(name);
    let extension = name.rsplit_once('.').map(|(stem, extension)| (stem.len(), extension));
    let has_extension = extension.is_some_and(|(stem, extension)| {
        stem >= 1 && EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
    });
    let slashes = word.bytes().filter(|byte| *byte == b'/').count();
    match slashes {
        // "self.state.lock" is no file, "Cargo.lock" is one.
        0 => {
            has_extension
                && !(name.ends_with(".lock") && name.matches('.').count() > 1)
                && name.bytes().any(|byte| byte.is_ascii_alphabetic())
                && !name.contains("..")
        }
        1 => has_extension || word.starts_with(['/', '~', '.']) || word.ends_with('/'),
        _ => true,
    }
}

pub(super) fn is_name(word: &str) -> bool {
    let bytes = word.as_bytes();
    if !bytes
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-' | b'.' | b'!' | b'$' | b'/'))
    {
        return false;
    }
    let inner = bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default();
    let snake = inner.contains(&b'_');
    let path = word.contains("::");
    // "NB01", "TW-118", "E0631"
    let code = word.len() >= 3
        && bytes.first().is_some_and(u8::is_ascii_uppercase)
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'-');
    let flag = word.starts_with("--") && word.len() > 3;
    snake || path || is_camel(word) || code || flag
}
