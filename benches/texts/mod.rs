//! The kinds of text that counters are tried on: written ones, generated ones, and runs that tokenizers are slow on.

// Bench, example and tests include this file and use different parts of it.
#![allow(dead_code, unreachable_pub, clippy::indexing_slicing)]

mod written;

pub use written::WRITTEN;

/// A text and its kind.
#[derive(Debug, Clone)]
pub struct Text {
    pub kind: String,
    pub body: String,
}

impl Text {
    fn new(kind: &str, body: String) -> Self {
        Self { kind: kind.to_owned(), body }
    }
}

/// A small generator of numbers, so that every run tries the same texts.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound.max(1)
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    pub fn char(&mut self, from: &str) -> char {
        from.chars().nth(self.below(from.chars().count())).unwrap_or('x')
    }

    fn char_between(&mut self, first: u32, last: u32) -> char {
        char::from_u32(first + self.below((last - first + 1) as usize) as u32).unwrap_or('x')
    }
}

fn fill(bytes: usize, mut more: impl FnMut(&mut String)) -> String {
    let mut text = String::with_capacity(bytes + 256);
    while text.len() < bytes {
        more(&mut text);
    }
    cut(&mut text, bytes);
    text
}

fn cut(text: &mut String, bytes: usize) {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// The written snippets, each repeated to a length.
pub fn written(bytes: usize) -> Vec<Text> {
    WRITTEN.iter().map(|(kind, snippet)| Text::new(kind, fill(bytes, |text| text.push_str(snippet)))).collect()
}

const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "was",
    "on",
    "with",
    "as",
    "be",
    "at",
    "by",
    "this",
    "had",
    "not",
    "are",
    "but",
    "from",
    "or",
    "have",
    "they",
    "which",
    "one",
    "you",
    "were",
    "all",
    "her",
    "she",
    "there",
    "would",
    "their",
    "we",
    "him",
    "been",
    "has",
    "when",
    "who",
    "will",
    "no",
    "more",
    "if",
    "out",
    "so",
    "up",
    "said",
    "what",
    "its",
    "about",
    "than",
    "into",
    "them",
    "can",
    "only",
    "other",
    "time",
    "new",
    "some",
    "could",
    "these",
    "two",
    "may",
    "first",
    "then",
    "do",
    "any",
    "like",
    "my",
    "now",
    "over",
    "such",
    "our",
    "man",
    "me",
    "even",
    "most",
    "made",
    "after",
    "also",
    "did",
    "many",
    "off",
    "before",
    "must",
    "well",
    "back",
    "through",
    "years",
    "much",
    "where",
    "your",
    "way",
    "harbour",
    "gauge",
    "water",
    "level",
    "station",
    "reading",
    "archive",
    "commission",
    "correction",
    "unfortunately",
    "measurement",
    "instrument",
    "lighthouse",
    "particularly",
    "temperature",
    "breakwater",
    "sediment",
    "calibrated",
    "thunderstorm",
];

const IDENTIFIERS: &[&str] = &[
    "reader",
    "next_record",
    "line",
    "station",
    "level",
    "HashMap",
    "buffer",
    "parseHeader",
    "is_empty",
    "Config",
    "i",
    "x",
    "count",
    "total_tokens",
    "MAX_RETRIES",
    "getValue",
    "Result",
    "String",
    "Vec",
    "index",
    "session",
    "userId",
    "handler",
    "to_string",
    "unwrap_or_default",
    "offset",
    "self",
    "items",
    "Option",
    "len",
    "DateTimeFormatter",
    "http_client",
    "ctx",
];

const RUSSIAN_WORDS: &[&str] = &[
    "и",
    "в",
    "не",
    "на",
    "что",
    "он",
    "как",
    "это",
    "по",
    "но",
    "они",
    "мы",
    "из",
    "за",
    "вода",
    "уровень",
    "станция",
    "порт",
    "измерение",
    "работает",
    "программа",
    "ошибка",
    "данные",
    "файл",
    "нужно",
    "проверить",
    "результат",
    "который",
    "сообщение",
    "запись",
    "пользователь",
    "время",
    "после",
    "было",
    "значение",
    "настройка",
    "причал",
    "управление",
    "заржавевший",
    "поплавок",
    "волнорез",
    "переустановил",
    "смотритель",
    "невнимательно",
    "перепроверяя",
    "маяками",
    "двоюродный",
    "пригодится",
    "осадка",
    "штормовой",
];

const CHINESE_WORDS: &[&str] = &[
    "的",
    "是",
    "在",
    "我们",
    "数据",
    "水位",
    "记录",
    "可以",
    "如果",
    "文件",
    "没有",
    "问题",
    "系统",
    "时间",
    "需要",
    "检查",
    "结果",
    "程序",
    "使用",
    "这个",
    "进行",
    "但是",
    "港口",
    "测量",
    "错误",
    "用户",
    "已经",
    "一个",
    "工作",
    "说明",
    "以后",
    "码头",
    "潮汐",
    "浮标",
    "仔细",
    "风暴",
    "报酬",
    "灯塔",
    "抱怨",
    "刻度",
    "沉淀",
    "锈蚀",
    "缺失",
    "堤坝",
    "值班员",
];

const EMOJI: &[&str] = &[
    "😀",
    "😂",
    "👍",
    "🎉",
    "🚀",
    "✅",
    "❤️",
    "🔥",
    "🙏",
    "😅",
    "👀",
    "💯",
    "🤔",
    "😎",
    "🐛",
    "📝",
    "⚠️",
    "👩‍💻",
    "👍🏽",
    "🇩🇪",
];

/// Generated texts of the kinds that conversations hold, each of a length.
pub fn generated(bytes: usize) -> Vec<Text> {
    vec![
        Text::new("code", code(bytes)),
        Text::new("prose", prose(bytes)),
        Text::new("JSON logs", json_logs(bytes)),
        Text::new("CJK", cjk(bytes)),
        Text::new("Cyrillic", cyrillic(bytes)),
        Text::new("emoji", emoji(bytes)),
        Text::new("base64", base64(bytes, None)),
        Text::new("base64 in lines", base64(bytes, Some(76))),
        Text::new("hex", hex(bytes, "0123456789abcdef")),
        Text::new("hex, capitals", hex(bytes, "0123456789ABCDEF")),
        Text::new("one letter, a", "a".repeat(bytes)),
        Text::new("one letter, x", "x".repeat(bytes)),
        Text::new("one letter, Q", "Q".repeat(bytes)),
        Text::new("one letter, я", "я".repeat(bytes / 2)),
        Text::new("one letter, 字", "字".repeat(bytes / 3)),
    ]
}

/// Documents in which kinds alternate.
pub fn mixed(bytes: usize) -> Vec<Text> {
    let mut dice = Dice::new(5);
    let mut mix = |kind: &str, parts: &[String]| {
        let body = fill(bytes, |text| {
            let part = &parts[dice.below(parts.len())];
            let mut piece = part.get(..part.len().min(900)).unwrap_or(part).to_owned();
            piece.push_str("\n\n");
            text.push_str(&piece);
        });
        Text::new(kind, body)
    };
    let snippets: Vec<String> = WRITTEN.iter().map(|(_, snippet)| (*snippet).to_owned()).collect();
    let session =
        [prose(600), code(900), json_logs(700), snippets[8].clone(), snippets[11].clone(), snippets[4].clone()];
    let data = [base64(800, Some(64)), hex(700, "0123456789abcdef"), json_logs(600), prose(200)];
    let languages = [cjk(600), cyrillic(600), prose(600), emoji(200), snippets[6].clone(), snippets[17].clone()];
    vec![
        mix("mixed, all snippets", &snippets),
        mix("mixed, working session", &session),
        mix("mixed, data", &data),
        mix("mixed, languages", &languages),
    ]
}

/// Runs that no tokenizer meets in normal text, each of a length.
pub fn hostile(bytes: usize) -> Vec<Text> {
    let mut dice = Dice::new(9);
    vec![
        Text::new("spaces", " ".repeat(bytes)),
        Text::new("newlines", "\n".repeat(bytes)),
        Text::new("tabs", "\t".repeat(bytes)),
        Text::new("mixed white space", fill(bytes, |text| text.push(dice.char(" \t\n\r\u{a0}\u{3000}")))),
        Text::new("spaces, then a letter", format!("{}a", " ".repeat(bytes - 1))),
        Text::new("a sign, then newlines", format!("!{}", "\n".repeat(bytes - 1))),
        Text::new("one letter", "a".repeat(bytes)),
        Text::new("digits", fill(bytes, |text| text.push(dice.char("0123456789")))),
        Text::new("Arabic digits", fill(bytes, |text| text.push(dice.char("٠١٢٣٤٥٦٧٨٩")))),
        Text::new("base64 without a break", base64(bytes, None)),
        Text::new("CJK without signs", fill(bytes, |text| text.push(dice.char_between(0x4e00, 0x9fa5)))),
        Text::new("random letters", fill(bytes, |text| text.push(dice.char("abcdefghijklmnopqrstuvwxyz")))),
        Text::new(
            "random letters, both cases",
            fill(bytes, |text| text.push(dice.char("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))),
        ),
        Text::new("random signs", fill(bytes, |text| text.push(dice.char("!#%&()*+,-./:;<=>?@[]^_{|}~")))),
        Text::new("equals signs", "=".repeat(bytes)),
        Text::new("apostrophes in words", "it's".repeat(bytes / 4)),
        Text::new("combining marks", "e\u{301}\u{302}".repeat(bytes / 5)),
        Text::new("emoji without blanks", fill(bytes, |text| text.push(dice.char_between(0x1f600, 0x1f64f)))),
        Text::new("special tokens", "<|endoftext|><|fim_prefix|>".repeat(bytes / 27)),
    ]
}

pub fn code(bytes: usize) -> String {
    let mut dice = Dice::new(1);
    fill(bytes, |text| {
        let indent = "    ".repeat(dice.below(4));
        let (a, b, c) = (dice.pick(IDENTIFIERS), dice.pick(IDENTIFIERS), dice.pick(IDENTIFIERS));
        let number = dice.below(300);
        text.push_str(&match dice.below(7) {
            0 => format!("{indent}let {a} = {b}.{c}({number});\n"),
            1 => format!("{indent}if {a} != {b} && {c}.len() > {number} {{\n"),
            2 => format!(
                "{indent}// {} {} {} {}\n",
                dice.pick(WORDS),
                dice.pick(WORDS),
                dice.pick(WORDS),
                dice.pick(WORDS)
            ),
            3 => format!("{indent}return {a}({b}, \"{c}\", &mut {a}[{number}]);\n"),
            4 => format!("{indent}}}\n\n"),
            5 => format!("{indent}pub fn {a}(&self, {b}: &str) -> {c}<u64> {{\n"),
            _ => format!("{indent}for {a} in 0..{number} {{ {b} += {c}[{a}]; }}\n"),
        });
    })
}

pub fn prose(bytes: usize) -> String {
    let mut dice = Dice::new(2);
    fill(bytes, |text| sentence(text, &mut dice, WORDS, " ", ", ", ". ", 14))
}

fn cjk(bytes: usize) -> String {
    let mut dice = Dice::new(3);
    fill(bytes, |text| sentence(text, &mut dice, CHINESE_WORDS, "", "，", "。", 9))
}

fn cyrillic(bytes: usize) -> String {
    let mut dice = Dice::new(4);
    fill(bytes, |text| sentence(text, &mut dice, RUSSIAN_WORDS, " ", ", ", ". ", 10))
}

fn sentence(text: &mut String, dice: &mut Dice, words: &[&str], gap: &str, comma: &str, stop: &str, longest: usize) {
    let length = 3 + dice.below(longest);
    for index in 0..length {
        let word = dice.pick(words);
        if index == 0 {
            let mut chars = word.chars();
            text.extend(chars.next().into_iter().flat_map(char::to_uppercase));
            text.push_str(chars.as_str());
        } else {
            text.push_str(word);
        }
        text.push_str(match (index + 1 == length, dice.below(9)) {
            (true, 0) => "\n\n",
            (true, _) => stop,
            (false, 0) => comma,
            (false, _) => gap,
        });
    }
}

fn json_logs(bytes: usize) -> String {
    let mut dice = Dice::new(6);
    fill(bytes, |text| {
        text.push_str(&format!(
            "{{\"ts\":{},\"level\":\"{}\",\"msg\":\"{} {} {}\",\"{}\":{}.{},\"id\":\"{}\",\"ok\":{}}}\n",
            1_710_000_000_000_u64 + dice.below(900_000_000) as u64,
            dice.pick(&["info", "warn", "error", "debug"]),
            dice.pick(WORDS),
            dice.pick(WORDS),
            dice.pick(WORDS),
            dice.pick(IDENTIFIERS),
            dice.below(500),
            dice.below(100),
            hex(8, "0123456789abcdef")
                .chars()
                .map(|c| if c == '0' { dice.char("0123456789abcdef") } else { c })
                .collect::<String>(),
            dice.pick(&["true", "false", "null"]),
        ));
    })
}

fn emoji(bytes: usize) -> String {
    let mut dice = Dice::new(7);
    fill(bytes, |text| {
        text.push_str(dice.pick(EMOJI));
        if dice.below(3) == 0 {
            text.push(' ');
            text.push_str(dice.pick(WORDS));
            text.push(' ');
        }
    })
}

fn base64(bytes: usize, line: Option<usize>) -> String {
    let mut dice = Dice::new(8);
    let mut column = 0;
    fill(bytes, |text| {
        text.push(dice.char("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"));
        column += 1;
        if line == Some(column) {
            text.push('\n');
            column = 0;
        }
    })
}

fn hex(bytes: usize, digits: &str) -> String {
    let mut dice = Dice::new(10);
    fill(bytes, |text| text.push(dice.char(digits)))
}

/// A short text in which anything can stand beside anything.
pub fn jumble(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..1 + dice.below(24) {
        match dice.below(12) {
            0 | 1 => text.push_str(dice.pick(WORDS)),
            2 => text.push_str(dice.pick(IDENTIFIERS)),
            3 => (0..1 + dice.below(5)).for_each(|_| text.push(dice.char(" \t\n\r\u{a0}\u{3000}\u{2028}"))),
            4 => text.push_str(&" ".repeat(1 + dice.below(9))),
            5 => (0..1 + dice.below(4)).for_each(|_| text.push(dice.char("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))),
            6 => (0..1 + dice.below(6)).for_each(|_| text.push(dice.char("0123456789٣²Ⅳ"))),
            7 => text.push_str(dice.pick(&[
                "'s",
                "'LL",
                "'Re",
                "’t",
                "'ſ",
                "\r\n",
                "!\n/",
                "//",
                "<|endoftext|>",
                "\u{200d}",
            ])),
            8 => text.push_str(dice.pick(CHINESE_WORDS)),
            9 => text.push_str(dice.pick(RUSSIAN_WORDS)),
            10 => text.push_str(dice.pick(EMOJI)),
            _ => text.push(dice.char_between(0, 0x3ffff)),
        }
        if dice.below(3) > 0 {
            text.push(' ');
        }
    }
    text
}
