//! Token counters: how near the estimate is, that exact counts are exact, and that no text makes them panic.

#[path = "../benches/texts/mod.rs"]
mod texts;

use arya_presets::{ClassAware, TokenCounter, default_counter};
use texts::Text;
use tiktoken_rs::o200k_base_singleton;

fn exact_o200k(text: &str) -> u64 {
    o200k_base_singleton().count_ordinary(text) as u64
}

#[test]
fn the_estimate_is_near_o200k_on_every_kind_of_text() {
    let mut errors = Vec::new();
    println!("{:28} {:>8} {:>8} {:>8}", "kind", "o200k", "estimate", "error");
    for Text { kind, body } in [texts::written(4_000), texts::generated(8_000), texts::mixed(24_000)].concat() {
        let exact = exact_o200k(&body);
        let estimate = ClassAware.count(&body);
        let error = (estimate as f64 / exact as f64 - 1.0) * 100.0;
        println!("{kind:28} {exact:>8} {estimate:>8} {error:>+7.1}%");
        errors.push((kind, error.abs()));
    }
    let mean = errors.iter().map(|(_, error)| error).sum::<f64>() / errors.len() as f64;
    println!("mean error {mean:.1}% of {} kinds", errors.len());
    assert!(mean <= 12.0, "mean error {mean:.1}%");
    for (kind, error) in errors {
        assert!(error <= 40.0, "{kind}: {error:.1}%");
    }
}

#[test]
fn estimates_of_east_asian_text_are_near_a_token_a_character() {
    let chinese: String = "港务局从一八七一年开始记录水位在大部分时间里都需要有人提着灯走到码头的尽头去读数"
        .chars()
        .cycle()
        .take(160)
        .collect();
    let decomposed: String = "항만청은 수위를 기록해 왔습니다".chars().flat_map(jamo).filter(|c| *c != ' ').collect();
    let half_width = "ｺｳﾜﾝｷｮｸﾊｽｲｲｦｷﾛｸｼﾃｲﾏｽ";
    let extension_b: String = ('\u{20000}'..'\u{20040}').collect();
    for (text, name) in [
        (&*chinese, "Chinese"),
        (&decomposed, "decomposed Hangul"),
        (half_width, "half-width kana"),
        (&extension_b, "extension B"),
    ] {
        let chars = text.chars().count() as u64;
        let estimate = ClassAware.count(text);
        println!("{name}: {chars} characters, {estimate} tokens estimated, {} by o200k", exact_o200k(text));
        assert!(estimate * 2 >= chars && estimate * 2 <= chars * 3, "{name}: {estimate} tokens for {chars} characters");
    }
}

/// A Hangul syllable as its letters.
fn jamo(c: char) -> Vec<char> {
    let Some(index) = u32::from(c).checked_sub(0xac00).filter(|index| *index < 11_172) else {
        return vec![c];
    };
    let parts = [0x1100 + index / 588, 0x1161 + index % 588 / 28, 0x11a7 + index % 28];
    parts.into_iter().filter(|part| *part != 0x11a7).filter_map(char::from_u32).collect()
}

#[test]
fn a_limit_gives_the_count_or_nothing() {
    let mut counters = vec![default_counter(), std::sync::Arc::new(ClassAware)];
    counters.extend(optional_counters());
    let mut all = [texts::written(3_000), texts::generated(20_000), texts::hostile(20_000)].concat();
    all.push(Text { kind: "nothing".into(), body: String::new() });
    all.push(Text { kind: "a letter".into(), body: "a".into() });
    for counter in counters {
        for Text { kind, body } in &all {
            let count = counter.count(body);
            let name = counter.name();
            for enough in [count, count + 1, u64::MAX] {
                assert_eq!(counter.count_up_to(body, enough), Some(count), "{name}, {kind}");
            }
            for short in [count.checked_sub(1), count.checked_sub(count.div_ceil(2)), count.checked_sub(count)] {
                let expected = short.and_then(|short| (count <= short).then_some(count));
                assert_eq!(short.and_then(|short| counter.count_up_to(body, short)), expected, "{name}, {kind}");
            }
        }
    }
}

fn optional_counters() -> Vec<std::sync::Arc<dyn TokenCounter>> {
    vec![
        #[cfg(feature = "tiktoken")]
        std::sync::Arc::new(arya_presets::Bpe::cl100k()),
        #[cfg(feature = "bpe")]
        std::sync::Arc::new(arya_presets::LinearBpe::o200k()),
        #[cfg(feature = "bpe")]
        std::sync::Arc::new(arya_presets::LinearBpe::cl100k()),
    ]
}

/// Promise 8: no input panics. A direct call of tiktoken-rs does on a million spaces.
#[test]
fn a_megabyte_of_anything_is_counted() {
    let mut counters = vec![default_counter(), std::sync::Arc::new(ClassAware)];
    counters.extend(optional_counters());
    for Text { kind, body } in texts::hostile(1 << 20) {
        for counter in &counters {
            let count = counter.count(&body);
            assert!(count > 0 && count <= body.len() as u64, "{}, {kind}: {count}", counter.name());
            assert_eq!(counter.count_up_to(&body, 20), None, "{}, {kind}", counter.name());
        }
    }
}

#[test]
fn the_default_counter_is_the_best_at_hand() {
    let expected = if cfg!(feature = "tiktoken") { "o200k_base" } else { "class-aware" };
    assert_eq!(default_counter().name(), expected);
}

#[cfg(feature = "tiktoken")]
mod exact {
    use super::texts::{self, Dice, Text};
    use arya_presets::{Bpe, TokenCounter};
    use proptest::prelude::*;
    use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};

    fn both() -> [(Bpe, &'static CoreBPE); 2] {
        [(Bpe::o200k(), o200k_base_singleton()), (Bpe::cl100k(), cl100k_base_singleton())]
    }

    #[test]
    fn special_tokens_are_text() {
        for (bpe, direct) in both() {
            for text in ["<|endoftext|>", "a<|fim_prefix|>b", "<|endofprompt|>\n"] {
                assert_eq!(bpe.count(text), direct.encode_ordinary(text).len() as u64);
                assert!(bpe.count(text) > 1, "{text}");
            }
        }
    }

    #[test]
    fn every_kind_of_text_is_counted_as_by_a_direct_call() {
        for bytes in [100, 8_000, 8 * 1024, 8 * 1024 + 1, 40_000] {
            let all = [texts::written(bytes), texts::generated(bytes), texts::mixed(bytes), texts::hostile(bytes)];
            for Text { kind, body } in all.concat() {
                for (bpe, direct) in both() {
                    assert_eq!(
                        bpe.count(&body),
                        direct.count_ordinary(&body) as u64,
                        "{bpe:?}, {bytes} bytes of {kind}"
                    );
                }
            }
        }
    }

    /// Runs of one kind after another, some of them longer than a slice.
    fn runs() -> impl Strategy<Value = String> {
        let alphabets = [
            " ",
            "\n",
            " \n",
            " \t\r\n",
            "a",
            "abcdefgh",
            "ABcd",
            "0123456789",
            "٠١٢٣",
            "=",
            "!?.,",
            "!\n",
            "!\n/",
            "/\n",
            "'s",
            "it's",
            "字",
            "漢字かなカナ",
            "漢aB",
            "ж",
            "Привет ",
            "é\n",
            "e\u{301}",
            "\u{301}'",
            "😀👍\u{200d}",
            "\u{3000}",
            "。\n",
            "한글",
            "(a",
            "a.",
        ];
        let run = (
            0..alphabets.len(),
            prop_oneof![4 => 1..40_usize, 3 => 40..3_000_usize, 2 => 3_000..12_000_usize],
            any::<u64>(),
        )
            .prop_map(move |(index, length, seed)| {
                let mut dice = Dice::new(seed);
                (0..length).map(|_| dice.char(alphabets.get(index).unwrap_or(&"a"))).collect::<String>()
            });
        prop::collection::vec(run, 1..7).prop_map(|runs| runs.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn up_to_eight_kib_are_exact(text in "\\PC{0,400}|[ a-zA-Z0-9\\n\\r\\t'!/.,-]{0,2000}", seed in any::<u64>()) {
            let jumble = texts::jumble(&mut Dice::new(seed));
            for text in [text, jumble] {
                for (bpe, direct) in both() {
                    prop_assert_eq!(bpe.count(&text), direct.count_ordinary(&text) as u64);
                }
            }
        }

        #[test]
        fn beyond_they_are_within_a_thousandth(text in runs()) {
            for (bpe, direct) in both() {
                let exact = direct.count_ordinary(&text) as u64;
                let count = bpe.count(&text);
                let slices = text.len().div_ceil(8 * 1024) as u64;
                prop_assert!(count.abs_diff(exact) * 1_000 <= exact, "{:?}: {} instead of {}", bpe, count, exact);
                prop_assert!(count + slices >= exact, "{:?}: {} instead of {}", bpe, count, exact);
                if text.len() <= 8 * 1024 {
                    prop_assert_eq!(count, exact);
                }
            }
        }
    }

    fn cases() -> u32 {
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
    }
}

#[cfg(all(feature = "tiktoken", feature = "bpe"))]
mod differential {
    use super::texts::{self, Dice, Text};
    use arya_presets::{Bpe, LinearBpe, TokenCounter};

    fn both() -> [(Bpe, LinearBpe); 2] {
        [(Bpe::o200k(), LinearBpe::o200k()), (Bpe::cl100k(), LinearBpe::cl100k())]
    }

    /// `COUNTER_STRINGS` says how many strings are tried.
    #[test]
    fn both_exact_counters_agree_on_generated_strings() {
        let strings = std::env::var("COUNTER_STRINGS").ok().and_then(|strings| strings.parse().ok()).unwrap_or(20_000);
        let mut dice = Dice::new(11);
        let mut bytes = 0;
        for _ in 0..strings {
            let text = texts::jumble(&mut dice);
            bytes += text.len();
            for (bpe, linear) in both() {
                assert_eq!(bpe.count(&text), linear.count(&text), "{bpe:?} {text:?}");
            }
        }
        println!("{strings} strings, {bytes} bytes");
    }

    #[test]
    fn both_exact_counters_agree_on_a_megabyte_of_anything() {
        for Text { kind, body } in texts::hostile(1 << 20) {
            for (bpe, linear) in both() {
                assert_eq!(bpe.count(&body), linear.count(&body), "{bpe:?} {kind}");
            }
        }
    }
}
