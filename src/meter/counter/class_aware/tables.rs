//! What the prices of [`ClassAware`](super::ClassAware) know of letters. Taken from the vocabulary `o200k_base`.

use std::sync::LazyLock;

/// A bit for each second letter that follows the first letter in fewer than 60 words of the vocabulary. Words of most languages in
/// Latin script hardly have such pairs, encoded data is full of them.
const RARE_PAIRS: [u32; 26] = [
    0x0000000, 0x2e1b4e8, 0x0e1326a, 0x0818620, 0x0000000, 0x2e1b6ce, 0x2e1862c, 0x2a186e6, 0x0400000, 0x3ebbae6,
    0x2a1926e, 0x2c30000, 0x2e306ec, 0x0800000, 0x0000000, 0x2e13662, 0x3effffe, 0x0810200, 0x0800200, 0x0a10642,
    0x0010000, 0x3edbeee, 0x2f99e6e, 0x3777eea, 0x3e106e2, 0x0efbeee,
];

/// Whether a pair of letters is rare in words. Of other than ASCII letters nothing is known.
pub(super) fn is_rare_pair(first: char, second: char) -> bool {
    let (Some(first), Some(second)) = (letter_index(first), letter_index(second)) else {
        return false;
    };
    RARE_PAIRS.get(first).is_some_and(|seconds| seconds & (1 << second) != 0)
}

fn letter_index(letter: char) -> Option<usize> {
    letter.is_ascii_alphabetic().then(|| usize::from(letter.to_ascii_lowercase() as u8 - b'a'))
}

/// For each sign from `!` to `~`: the binary logarithm of how many of it in a row are one token.
const REPEATS: &[u8] =
    b"4262512226526660000000000443633332212311211221211111111421121361322223122123213112211213211215";

/// How many of a character are a token in a long run of it, as a power of two; none where that is not known.
pub(super) fn repeats_log2(c: char) -> Option<u32> {
    let index = (c as usize).checked_sub('!' as usize)?;
    REPEATS.get(index).map(|digit| u32::from(digit - b'0'))
}

/// The commonest ideographs, simplified, traditional and Japanese: two thirds of running text, while the rest of the block is nearly
/// all of what is in random text. They are tokens, alone or in words; a rare one takes two or three.
const COMMON_IDEOGRAPHS: &str = "\
    一万三上下不与且世业东两个中为主么义之也书了争事二于五些交产人什今从他代以们件任会传但位住体何作你使來例便保信個們候值做\
    像儿先光克入全公共关其内円再军决几出分切则利别到制前力加务动動化北区十南即却原去参又及反发取受变口只可司各合同名后向吗听\
    告员命和品問四回因国國在地场基声处外多大天太头女她好如子字学學它安完定实家實对导将對小少尔就展山工己已市师带常平年并应度\
    建开式张强当形很後得德心必思性总情想意感應成我或战户所手才打把报拉指据接提放政教数文斯新方无日时明是時更書最會月有望期本\
    术机权条来東果样格業樣機次正此死比民气気水求没治法活海清点為無然物特王现現理生用由电界當發白的目直相看真眼着知确示社神种\
    科程空立第等管类系經经结给统美老者而能自至色行表被西要見见观规觉解話語說计认让记许论设识话该误说请象资走起路身車输边込达\
    过运返还这进选這通進過道還那部都里重量金错長长開關门问间队院难電非面頭项领题马體高點";

const FIRST_IDEOGRAPH: u32 = 0x4e00;

static COMMON: LazyLock<[u64; 0x5200 / 64]> = LazyLock::new(|| {
    let mut bits = [0; 0x5200 / 64];
    for c in COMMON_IDEOGRAPHS.chars() {
        let index = u32::from(c).wrapping_sub(FIRST_IDEOGRAPH);
        if let Some(word) = bits.get_mut((index / 64) as usize) {
            *word |= 1 << (index % 64);
        }
    }
    bits
});

/// Whether an ideograph is one of the commonest.
pub(super) fn is_common_ideograph(c: char) -> bool {
    let index = u32::from(c).wrapping_sub(FIRST_IDEOGRAPH);
    COMMON.get((index / 64) as usize).is_some_and(|word| word & (1 << (index % 64)) != 0)
}
