//! Conversations made from a seed, with demands of the person planted between talk, answers and tool output.

use std::sync::Arc;

use arya_presets::{Block, Message, Source};

/// Something that the person demanded.
pub(crate) struct Demand {
    /// What a summary must hold for it to be kept.
    pub(crate) keys: Vec<String>,
    /// What it replaced, and what therefore must not be there.
    pub(crate) old: Option<Vec<String>>,
}

pub(crate) struct Conversation {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) demands: Vec<Demand>,
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    /// Takes an element out, so that no two plants speak of the same thing.
    fn draw(&mut self, list: &mut Vec<&'static str>) -> &'static str {
        let at = self.below(list.len());
        list.swap_remove(at)
    }
}

const THINGS: &[&str] = &[
    "billing service",
    "search index",
    "ingest queue",
    "login page",
    "report export",
    "audit trail",
    "mail relay",
    "image cache",
    "price feed",
    "order archive",
    "sync daemon",
    "alert router",
    "session store",
    "tax module",
    "upload gateway",
    "map renderer",
    "backup runner",
    "invoice parser",
    "quota ledger",
    "chat bridge",
    "geo resolver",
    "theme editor",
    "stock mirror",
    "rate board",
];
const FOLDERS: &[&str] = &[
    "migrations",
    "vendor",
    "legacy",
    "fixtures",
    "generated",
    "contracts",
    "infra",
    "proto",
    "locales",
    "patches",
    "certs",
    "dumps",
];
const TALK: &[&str] = &[
    "Good morning, I hope the weekend was fine.",
    "That looks reasonable to me so far.",
    "I was in a meeting, so forgive the delay.",
    "Interesting, I had suspected something like that.",
    "Let me think about that for a moment.",
    "The coffee machine on our floor is broken again, by the way.",
    "Fine with me.",
    "Thanks, that was quick.",
    "I am not sure I follow, but go ahead.",
    "My colleague looked at it too and had nothing to add.",
    "We talked about this at lunch and nobody objected.",
    "It is raining here, so there is no hurry.",
];
const ANSWERS: &[&str] = &[
    "I looked at the code and the flow is what I expected from the layout of the folders.",
    "The change is small: the handler now goes through the shared path like all the others.",
    "There was nothing surprising in the output, the run went through.",
    "I will read the neighbouring modules first, so that the style matches.",
    "The structure follows the one in the other module, with the same names for the same parts.",
    "All of that is in place now, and the earlier behaviour is unchanged otherwise.",
];
const NOISE: &[&str] = &[
    "compiling",
    "checking",
    "finished",
    "linking",
    "warning",
    "resolved",
    "fetched",
    "unchanged",
    "skipping",
    "scanned",
    "cached",
    "queued",
    "visited",
    "loaded",
];

/// The conversation of a seed.
pub(crate) fn conversation(seed: u64) -> Conversation {
    let mut rng = Rng(seed.wrapping_mul(7_919) ^ 0x5EED);
    let mut things = THINGS.to_vec();
    let mut folders = FOLDERS.to_vec();
    let mut demands = Vec::new();
    // Each plant is said at a place; a change is said later than what it changes.
    let turns = 14 + rng.below(8);
    let mut said: Vec<Vec<String>> = vec![Vec::new(); turns];
    let mut say = |turn: usize, text: String| said[turn].push(text);
    for _ in 0..4 + rng.below(3) {
        let (text, keys) = rule(&mut rng, &mut things, &mut folders);
        say(rng.below(turns), text);
        demands.push(Demand { keys, old: None });
    }
    for _ in 0..3 + rng.below(3) {
        let (text, keys) = constraint(&mut rng, &mut things);
        say(rng.below(turns), text);
        demands.push(Demand { keys, old: None });
    }
    for _ in 0..2 + rng.below(2) {
        let (text, keys) = goal(&mut rng, &mut things);
        say(rng.below(turns), text);
        demands.push(Demand { keys, old: None });
    }
    for _ in 0..2 + rng.below(2) {
        let (text, keys) = preference(&mut rng);
        say(rng.below(turns), text);
        demands.push(Demand { keys, old: None });
    }
    for _ in 0..3 + rng.below(3) {
        let (texts, keys, old) = changing(&mut rng, &mut things);
        let mut places: Vec<usize> = (0..texts.len()).map(|_| rng.below(turns)).collect();
        places.sort_unstable();
        places.dedup();
        while places.len() < texts.len() {
            let place = rng.below(turns);
            if !places.contains(&place) {
                places.push(place);
                places.sort_unstable();
            }
        }
        for (place, text) in places.into_iter().zip(texts) {
            say(place, text);
        }
        demands.push(Demand { keys, old: Some(old) });
    }
    Conversation { messages: messages(&mut rng, said), demands }
}

fn messages(rng: &mut Rng, said: Vec<Vec<String>>) -> Vec<Arc<Message>> {
    let mut messages = Vec::new();
    for (turn, plants) in said.into_iter().enumerate() {
        let mut parts: Vec<String> = plants;
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(parts.len() + 1);
            parts.insert(at, rng.pick(TALK).to_owned());
        }
        messages.push(Message::user(format!("u{turn}"), parts.join(" ")));
        for step in 0..1 + rng.below(2) {
            let id = format!("c{turn}-{step}");
            let call = Block::tool_call(&id, "bash", format!("{{\"command\":\"run {}\"}}", rng.pick(NOISE)));
            let content = vec![Block::text(rng.pick(ANSWERS)), call];
            messages.push(Message::assistant(format!("a{turn}-{step}"), Source::model("p", "m"), content));
            let lines: Vec<String> = (0..6 + rng.below(10))
                .map(|_| format!("{} {} {}", rng.pick(NOISE), rng.pick(NOISE), rng.pick(NOISE)))
                .collect();
            messages.push(Message::tool_result(format!("r{turn}-{step}"), id, lines.join("\n"), false));
        }
        let closing = vec![Block::text(rng.pick(ANSWERS))];
        messages.push(Message::assistant(format!("z{turn}"), Source::model("p", "m"), closing));
    }
    messages.into_iter().map(Arc::new).collect()
}

type Planted = (String, Vec<String>);

fn keys(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

fn rule(rng: &mut Rng, things: &mut Vec<&'static str>, folders: &mut Vec<&'static str>) -> Planted {
    match rng.below(6) {
        0 => {
            let folder = rng.draw(folders);
            (format!("Never touch the {folder} folder, it belongs to another team."), keys(&["never touch", folder]))
        }
        1 => {
            let thing = rng.draw(things);
            (format!("Always ask me before you restart the {thing}."), keys(&["always ask", thing]))
        }
        2 => {
            let thing = rng.draw(things);
            (format!("Do not log any customer names in the {thing}."), keys(&["not log", "customer names", thing]))
        }
        3 => {
            let thing = rng.draw(things);
            (format!("Changes to the {thing} must go through a pull request."), keys(&[thing, "must", "pull request"]))
        }
        4 => {
            let thing = rng.draw(things);
            (format!("The {thing} may only be deployed on Tuesdays."), keys(&[thing, "only", "Tuesdays"]))
        }
        _ => {
            let folder = rng.draw(folders);
            (format!("Hands off {folder}/, that one is generated elsewhere."), keys(&["hands off", folder]))
        }
    }
}

fn constraint(rng: &mut Rng, things: &mut Vec<&'static str>) -> Planted {
    let thing = rng.draw(things);
    match rng.below(4) {
        0 => {
            let value = format!("{} ms", 40 + rng.below(90) * 10);
            (format!("The {thing} has to answer within {value}, that is in the contract."), vec![thing.into(), value])
        }
        1 => {
            let value = format!("{} MB", 64 + rng.below(60) * 8);
            (format!("Keep the memory of the {thing} under {value}."), vec![thing.into(), value])
        }
        2 => {
            let value = format!("{}.{} %", 90 + rng.below(9), rng.below(10));
            (format!("Coverage of the {thing} must not fall below {value}."), vec![thing.into(), value])
        }
        _ => {
            let value = format!("{} rows", 100 + rng.below(50) * 100);
            (format!("At most {value} per page in the {thing}."), vec![thing.into(), value])
        }
    }
}

fn goal(rng: &mut Rng, things: &mut Vec<&'static str>) -> Planted {
    let thing = rng.draw(things);
    match rng.below(3) {
        0 => (
            format!("What I want in the end is a {thing} that survives a restart."),
            keys(&[thing, "survives a restart"]),
        ),
        1 => (format!("Please make the {thing} readable for newcomers."), keys(&[thing, "readable for newcomers"])),
        _ => (format!("The goal is to retire the old {thing} by summer."), keys(&["retire", thing, "summer"])),
    }
}

fn preference(rng: &mut Rng) -> Planted {
    match rng.below(5) {
        0 => ("I prefer small commits with a reason in each.".into(), keys(&["prefer", "small commits"])),
        1 => ("I like British spelling in all documents.".into(), keys(&["British spelling"])),
        2 => ("I'd rather have plain functions than clever macros.".into(), keys(&["plain functions", "macros"])),
        3 => ("My preference is short answers without bullet lists.".into(), keys(&["preference", "short answers"])),
        _ => ("Ideally the tests read like the specification.".into(), keys(&["ideally", "tests read like"])),
    }
}

/// A value that is set and changed later, in other words. The sentences, what must be there, what must not.
fn changing(rng: &mut Rng, things: &mut Vec<&'static str>) -> (Vec<String>, Vec<String>, Vec<String>) {
    let thing = rng.draw(things);
    let mut numbers: Vec<usize> = Vec::new();
    while numbers.len() < 3 {
        let number = 11 + rng.below(88);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let (a, b, c) = (numbers[0], numbers[1], numbers[2]);
    match rng.below(5) {
        0 => (
            vec![
                format!("The retry limit of the {thing} is {a} attempts."),
                format!("Correction: the {thing} should retry at most {b} times."),
            ],
            vec![thing.into(), format!("{b} times")],
            vec![format!("{a} attempts")],
        ),
        1 => (
            vec![
                format!("Set the timeout of the {thing} to {a} seconds."),
                format!("The timeout of the {thing} is now {b} seconds."),
                format!("Make that {c} seconds for the {thing} timeout, the partner insists."),
            ],
            vec![thing.into(), format!("{c} seconds")],
            vec![format!("{a} seconds"), format!("{b} seconds")],
        ),
        2 => (
            vec![
                format!("The {thing} listens on port 8{a}0."),
                format!("We had to move the {thing}: its port is 9{b}0 instead."),
            ],
            vec![thing.into(), format!("9{b}0")],
            vec![format!("8{a}0")],
        ),
        3 => (
            vec![
                format!("The deadline for the {thing} is March {}.", a % 28 + 1),
                format!("The {thing} deadline moved, it is April {} now.", b % 28 + 1),
            ],
            vec![thing.into(), format!("April {}", b % 28 + 1)],
            vec![format!("March {}", a % 28 + 1)],
        ),
        _ => (
            vec![
                format!("The batch size of the {thing} is {a}00 records."),
                format!("Please use {b}50 records as batch size for the {thing}."),
            ],
            vec![thing.into(), format!("{b}50")],
            vec![format!("{a}00 records")],
        ),
    }
}
