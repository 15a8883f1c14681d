//! Times the log, the meter and the engine on a synthetic conversation of a given number of nodes.
//!
//! `cargo run --release --example workload -- --nodes 50000 --json`

use std::time::Instant;

use arya_presets::{
    BaseEngine, Block, CompactionEngine, Draft, Event, EventData, Extra, HarnessHeuristic, Kit, MediaPricing, Message,
    Meter, MeterRules, Policy, Pricing, PruneBudget, PrunePlan, PrunePolicy, RequestHeader, RuleSet, Session,
    SessionHeader, Situation, Source, Step, SummaryReply, ToolCallStart, Trigger, TrimPolicy, select_range,
};
use clap::Parser;
use serde_json::json;

/// Counts the heap, which costs every allocation an atomic addition.
#[global_allocator]
static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

#[derive(Parser)]
#[command(about = "Times the log, the meter and the engine on a synthetic conversation.")]
struct Args {
    /// Number of surface nodes.
    #[arg(long, default_value_t = 10_000)]
    nodes: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// How often each figure is taken; the median is printed.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

const WORDS: [&str; 16] = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "omicron", "pi",
];

/// The text of a node: 300 characters of words picked by a linear congruential generator.
fn text(index: u32) -> String {
    const LENGTH: usize = 300;
    let mut state = index.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut out = String::with_capacity(LENGTH + 8);
    while out.len() < LENGTH {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(WORDS.get(state as usize >> 28).copied().unwrap_or_default());
    }
    out.truncate(LENGTH);
    out
}

/// The events of the conversation: turns of a request, an answer with one call, and its result.
fn drafts(nodes: u32) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut next = 0;
    let mut take = || {
        let index = next;
        next += 1;
        (format!("m-{index}"), text(index))
    };
    let triples = nodes / 3;
    for number in 1..=triples {
        let turn = u64::from(number);
        drafts.push(Draft::turn_start(turn));
        let (id, content) = take();
        drafts.push(Draft::user(Message::user(id, content)));
        drafts.push(Draft::step_start(turn, 1));
        if number == 1 {
            drafts.push(Draft::request_header(RequestHeader::new("bench", "bench").with_system(text(0))));
        }
        let (call, name) = (format!("call-{number}"), "read");
        let arguments = format!("{{\"path\":\"src/file-{number:06}.rs\"}}");
        let (id, content) = take();
        let answer = vec![Block::text(content), Block::tool_call(&call, name, &arguments)];
        let message = Message::assistant(id, Source::model("bench", "bench"), answer);
        drafts.push(Draft::assistant(turn, 1, message, None));
        drafts.push(Draft::new(EventData::ToolCall(Box::new(ToolCallStart {
            turn,
            step: 1,
            call_id: call.clone(),
            name: name.into(),
            arguments,
            extra: Extra::default(),
        }))));
        let (id, content) = take();
        drafts.push(Draft::tool_result(turn, 1, Message::tool_result(id, call, content, false)));
        drafts.push(Draft::step_end(turn, 1));
        drafts.push(Draft::turn_end(turn));
    }
    drafts.push(Draft::turn_start(u64::from(triples) + 1));
    for _ in triples * 3..nodes {
        let (id, content) = take();
        drafts.push(Draft::user(Message::user(id, content)));
    }
    drafts
}

/// Characters of the texts in some blocks.
fn chars_of(blocks: &[Block]) -> usize {
    blocks
        .iter()
        .map(|block| match block {
            Block::ToolResult(result) => chars_of(&result.content),
            block => block.as_text().map_or(0, |text| text.chars().count()),
        })
        .sum()
}

fn meter() -> Meter {
    Meter::new(Pricing::new(std::sync::Arc::new(HarnessHeuristic), MediaPricing::AsJson), MeterRules::HARNESS)
}

/// The median of several timings of `work` on fresh input, in milliseconds, and its last result.
fn time<I, T>(runs: usize, mut input: impl FnMut() -> I, mut work: impl FnMut(I) -> T) -> (f64, T) {
    let mut timings = Vec::new();
    let mut result = None;
    for _ in 0..runs.max(1) {
        let fresh = input();
        let start = Instant::now();
        let out = work(fresh);
        timings.push(start.elapsed().as_secs_f64() * 1e3);
        result = Some(out);
    }
    timings.sort_by(f64::total_cmp);
    let median = timings.get(timings.len() / 2).copied().unwrap_or_default();
    match result {
        Some(result) => (median, result),
        None => unreachable!("at least one run"),
    }
}

/// Peak resident memory of this process, where the system tells it.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes / 1024.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let (nodes, runs) = (args.nodes, args.runs);

    let build = || (Session::new("bench"), meter(), drafts(nodes));
    let (append_ms, appended) = time(runs, build, |(mut session, mut meter, drafts)| {
        for draft in drafts {
            session.append(draft)?;
            meter.sync(&session)?;
        }
        Ok::<_, Box<dyn std::error::Error>>((session, meter))
    });
    let (session, mut warm) = appended?;

    let (measure_cold_ms, measured) = time(runs, meter, |mut meter| meter.measure(&session));
    let measured = measured?;
    let (warm_ms, _) = time(runs * 20, || (), |()| warm.measure(&session).map(|m| m.total_tokens));
    let (select_ms, range) = time(
        runs,
        || (),
        |()| {
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let retain = (measured.surface_tokens as f64 * 0.16) as u64;
            select_range(&session, &warm, retain, arya_presets::CutRule::ById)
        },
    );
    let range = range?.ok_or("nothing to select")?;

    let events = session.events().to_vec();
    let restored = || Session::from_events(SessionHeader::new("bench", 0), events.clone());
    let (replay_ms, replayed) =
        time(runs, || events.clone(), |events| Session::from_events(SessionHeader::new("bench", 0), events));
    replayed?;

    let mut grown = restored()?;
    let mut grown_meter = meter();
    grown_meter.measure(&grown)?;
    let mut after_append = Vec::new();
    for index in 0..101 {
        grown.append(Draft::user(Message::user(format!("more-{index}"), text(index))))?;
        let start = Instant::now();
        grown_meter.measure(&grown)?;
        after_append.push(start.elapsed().as_secs_f64() * 1e6);
    }
    after_append.sort_by(f64::total_cmp);
    let measure_after_append_us = after_append.get(50).copied().unwrap_or_default();

    let (count_chars_ms, chars) =
        time(runs, || (), |()| session.nodes().iter().map(|node| chars_of(&node.message.content)).sum::<usize>());

    // The harness's heuristic and the same pass; first the plan alone, then landing it, metered.
    let trim = TrimPolicy { threshold_chars: 200, head_chars: 64, tail_chars: 64, ..TrimPolicy::default() };
    let prune = PrunePolicy::trimming(trim);
    let (plan_ms, plan) = time(runs, || (), |()| PrunePlan::new(&session, &mut warm, &prune, PruneBudget::default()));
    let plan = plan?;
    let synced = || {
        let session = restored()?;
        let mut meter = meter();
        // The meter follows the session before the pass, as in a running host.
        meter.sync(&session)?;
        Ok::<_, Box<dyn std::error::Error>>((session, meter))
    };
    let (apply_ms, pruned) = time(
        runs,
        || Ok::<_, Box<dyn std::error::Error>>((synced()?, plan.clone())),
        |fresh| {
            let ((mut session, mut meter), plan) = fresh?;
            let report = plan.apply(&mut session, 0).map_err(|(error, _)| error)?;
            meter.sync(&session)?;
            Ok::<_, Box<dyn std::error::Error>>(report.pruned.len())
        },
    );
    let pruned = pruned?;

    let (compact_ms, folded) = time(
        runs,
        || {
            let session = restored()?;
            let mut engine =
                BaseEngine::new(Policy::default(), Kit::base(), RuleSet::Default)?.with_pricing(Pricing::harness());
            // The meter has followed the session, as in a running host.
            engine.measure(&session, &Situation::new())?;
            Ok::<_, Box<dyn std::error::Error>>((session, engine))
        },
        |fresh| {
            let (mut session, mut engine) = fresh?;
            let trigger = Trigger::Region { start: range.start, end: range.end };
            let step = engine.begin(&mut session, trigger, &Situation::new())?;
            let Step::Summarize(pending) = step else { return Err("no summary was wanted".into()) };
            let reply = SummaryReply::text("bench", "canned", "## Current Work\ncanned checkpoint summary");
            let step = engine.resume(&mut session, pending, Ok(reply))?;
            let Step::Done(outcome) = step else { return Err("another summary was wanted".into()) };
            let folded = outcome
                .compacted()
                .map_or(0, |compacted| compacted.landed.folds.iter().map(|f| f.shadowed_seqs.len()).sum());
            Ok::<usize, Box<dyn std::error::Error>>(folded)
        },
    );
    let folded = folded?;

    let mut file = Vec::new();
    session.write_jsonl(&mut file)?;
    let (load_jsonl_ms, loaded) = time(runs, || file.as_slice(), Session::read_jsonl);
    loaded?;
    let heap_before = HEAP.allocated();
    let held = Session::read_jsonl(file.as_slice())?;
    let heap_bytes = HEAP.allocated().saturating_sub(heap_before);
    drop(held);
    let text = String::from_utf8(file)?;
    let lines = || text.lines().skip(1);
    let (typed_parse_ms, parsed) =
        time(runs, || (), |()| lines().map(Event::from_json).collect::<Result<Vec<Event>, _>>().map(|e| e.len()));
    parsed?;
    let (value_parse_ms, parsed) = time(
        runs,
        || (),
        |()| lines().map(serde_json::from_str::<serde_json::Value>).collect::<Result<Vec<_>, _>>().map(|v| v.len()),
    );
    parsed?;

    #[allow(clippy::cast_precision_loss)]
    let heap_per_text = heap_bytes as f64 / text.len() as f64;
    #[allow(clippy::cast_precision_loss)]
    let append_us_per_event = append_ms * 1e3 / session.events().len() as f64;
    let figures = json!({
        "nodes": nodes,
        "events": session.events().len(),
        "surface_tokens": measured.surface_tokens,
        "total_tokens": measured.total_tokens,
        "append_ms": append_ms,
        "append_us_per_event": append_us_per_event,
        "measure_cold_ms": measure_cold_ms,
        "measure_warm_us": warm_ms * 1e3,
        "measure_after_append_us": measure_after_append_us,
        "select_us": select_ms * 1e3,
        "chars": chars,
        "count_chars_ms": count_chars_ms,
        "prune_ms": plan_ms + apply_ms,
        "plan_ms": plan_ms,
        "apply_ms": apply_ms,
        "pruned": pruned,
        "compact_ms": compact_ms,
        "folded": folded,
        "replay_ms": replay_ms,
        "load_jsonl_ms": load_jsonl_ms,
        "typed_parse_ms": typed_parse_ms,
        "value_parse_ms": value_parse_ms,
        "heap_per_text": heap_per_text,
        "jsonl_bytes": text.len(),
        "peak_rss_mb": peak_rss_mb(),
        "runs": runs,
    });
    if args.json {
        println!("{figures}");
    } else if let Some(map) = figures.as_object() {
        for (name, value) in map {
            println!("{name:>24}  {value}");
        }
    }
    Ok(())
}
