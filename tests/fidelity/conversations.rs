//! Conversations of very different kinds, the same in every run.

use std::sync::Arc;

use arya_presets::{Block, Message, Source};

pub(crate) struct Conversation {
    pub(crate) kind: &'static str,
    pub(crate) messages: Vec<Arc<Message>>,
}

pub(crate) fn all() -> Vec<Conversation> {
    vec![debugging(), analysis(), operations(), writing(), chinese()]
}

/// A conversation as it is written down.
struct Talk {
    kind: &'static str,
    messages: Vec<Message>,
    state: u64,
}

impl Talk {
    fn new(kind: &'static str) -> Self {
        Self { kind, messages: Vec::new(), state: kind.bytes().map(u64::from).sum() }
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        // Knuth's linear congruential generator; the high bits are the good ones.
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % n
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn id(&self) -> String {
        format!("m{}", self.messages.len())
    }

    fn user(&mut self, text: impl Into<String>) {
        let message = Message::user(self.id(), text);
        self.messages.push(message);
    }

    fn model(&mut self, text: impl Into<String>) {
        let message = Message::assistant(self.id(), Source::model("p", "m"), vec![Block::text(text)]);
        self.messages.push(message);
    }

    /// A call with a word before it, and what it printed.
    fn call(&mut self, text: &str, tool: &str, arguments: &serde_json::Value, printed: String, failed: bool) {
        let id = format!("c{}", self.messages.len());
        let mut content = vec![Block::tool_call(&id, tool, arguments.to_string())];
        if !text.is_empty() {
            content.insert(0, Block::text(text));
        }
        let message = Message::assistant(self.id(), Source::model("p", "m"), content);
        self.messages.push(message);
        let result = Message::tool_result(self.id(), id, printed, failed);
        self.messages.push(result);
    }

    fn shell(&mut self, text: &str, command: &str, printed: String, failed: bool) {
        self.call(text, "bash", &serde_json::json!({ "command": command }), printed, failed);
    }

    fn done(self) -> Conversation {
        Conversation { kind: self.kind, messages: self.messages.into_iter().map(Arc::new).collect() }
    }
}

const LOG_WORDS: &[&str] = &[
    "accepted connection from peer",
    "handing frame to decoder",
    "cache warm after restart",
    "lease renewed in time",
    "heartbeat sent",
    "queue drained to the low mark",
    "compaction of segment finished",
    "snapshot written and synced",
    "stream resumed at offset",
];

fn log_lines(talk: &mut Talk, lines: usize) -> String {
    let line = |talk: &mut Talk| {
        let (minute, second) = (talk.below(60), talk.below(60));
        format!("12:{minute:02}:{second:02} DEBUG worker-{} {}\n", talk.below(8), talk.pick(LOG_WORDS))
    };
    (0..lines).map(|_| line(talk)).collect()
}

/// A crash is hunted for a long time through many files.
fn debugging() -> Conversation {
    let mut talk = Talk::new("debugging");
    talk.user(
        "The ingest service dies about twice a day with a segmentation fault in libframe.so, always under load. The core dumps are in \
         /var/crash/ingest. Never restart the production pods while you look. Only change files under src/ingest/, and do not touch the \
         vendored code in third_party/. I want to know the cause before anything is fixed.",
    );
    let modules = [
        "decoder",
        "ring_buffer",
        "session_table",
        "frame_pool",
        "timer_wheel",
        "lease_keeper",
        "peer_link",
        "chunk_reader",
    ];
    let faults = [
        ("use after free", "release_frame", "AddressSanitizer: heap-use-after-free"),
        ("double release", "return_to_pool", "double free detected in tcache"),
        ("stale pointer", "advance_cursor", "SIGSEGV in advance_cursor"),
        ("missing fence", "publish_head", "ThreadSanitizer: data race"),
    ];
    for (round, module) in modules.iter().enumerate() {
        let path = format!("src/ingest/{module}.cc");
        let lines = log_lines(&mut talk, 60);
        talk.call(&format!("I look at `{module}` now."), "read", &serde_json::json!({ "path": path }), lines, false);
        let (fault, function, message) = faults[round % faults.len()];
        let command = format!("ctest -R {module}_stress --repeat until-fail:{}", 20 + round * 5);
        let noise = log_lines(&mut talk, 48);
        let broken = round % 2 == 0;
        let printed = if broken { format!("{noise}ERROR: {message} at {path}:{}\n", 100 + round * 17) } else { noise };
        talk.shell("", &command, printed, broken);
        let ms = 40 + talk.below(400);
        let text = format!(
            "The stress run of `{module}` shows a {fault} in `{function}_{round}`: the object is handed out again after {ms} ms while \
             `{module}_guard` still holds it, because `kMaxInFlight` is checked before the lock. Next I compare this with `{path}`."
        );
        talk.model(text);
        if round % 3 == 1 {
            talk.user(format!(
                "Careful, {module} is also used by the replay tool. It must keep working with buffers of {} KB. What did the core dump \
                 core.{}.gz say about it?",
                64 << (round % 3),
                4100 + round
            ));
        }
    }
    talk.user("Good. The race in publish_head is the one, ticket ING-2207. Fix it with a release fence only, no new lock, please.");
    talk.call(
        "A release fence before the store is enough.",
        "edit",
        &serde_json::json!({ "path": "src/ingest/ring_buffer.cc", "old": "head_.store(next);",
            "new": "std::atomic_thread_fence(std::memory_order_release);\nhead_.store(next_head, std::memory_order_relaxed);" }),
        "Edited src/ingest/ring_buffer.cc: 1 replacement".into(),
        false,
    );
    let lines = log_lines(&mut talk, 80);
    talk.shell("", "ctest -R ring_buffer_stress --repeat until-fail:500", lines, false);
    talk.model(
        "500 runs of `ring_buffer_stress` pass. What is left: a soak test of 24 hours on staging, and removing `kMaxInFlight` from \
         `session_table`, which nobody reads any more.",
    );
    talk.done()
}

/// Numbers out of tables, and little code.
fn analysis() -> Conversation {
    let mut talk = Talk::new("analysis");
    talk.user(
        "I need the churn analysis for the board. The raw data is in data/subscriptions_2025.csv, about 48000 rows. Always exclude test \
         accounts (plan = internal). Report percentages with 1 decimal. Never show single customers, only groups of at least 50 customers.",
    );
    let segments = ["trial", "starter", "team", "business", "enterprise", "education", "nonprofit", "legacy"];
    for (round, segment) in segments.iter().enumerate() {
        let rows: String = (0..120)
            .map(|week| format!("{segment},2025-W{week:03},{},{}\n", 400 + talk.below(900), talk.below(40)))
            .collect();
        let code = format!(
            "df_{segment} = df[df.plan == '{segment}']\nmonthly_churn_{segment} = df_{segment}.groupby('month_start').churned.mean()"
        );
        talk.call("", "run_code", &serde_json::json!({ "code": code }), rows, false);
        let (churn, lost, revenue) = (talk.below(90) + 10, talk.below(900) + 50, talk.below(700) + 100);
        let text = format!(
            "Segment {segment}: churn is {}.{}%, that is {lost} customers, and {revenue} orders fewer in the quarter. The median account \
             leaves after {} days. The chart is in out/churn_{segment}.html.",
            churn / 10,
            churn % 10,
            30 + talk.below(300)
        );
        talk.model(text);
        if round == 2 {
            talk.user("For team use 30 days of inactivity as churn, not 14 days. The finance people count that way.");
        }
        if round == 5 {
            let error =
                "Traceback (most recent call last):\n  File \"churn.py\", line 88\nKeyError: 'seat_count'\n".to_owned();
            talk.shell("Now the seats.", "python churn.py --by seat_count", error, true);
            talk.model("The column is called `seats_paid` since March, so I map it in `load_subscriptions`.");
        }
    }
    talk.user(
        "The education number looks wrong, they have summer breaks. Please leave July and August out for education only, and say so in a \
         footnote. The board meets on Thursday, the deck must have 6 pages at most.",
    );
    talk.model(
        "Without July and August the churn of education is 3.2% instead of 7.9%. I put the footnote into out/board_deck.md. Still to do: \
         the page on legacy plans, and a check of `monthly_churn_enterprise` against the 41 contracts that ended early.",
    );
    talk.done()
}

/// Machines, addresses, identifiers.
fn operations() -> Conversation {
    let mut talk = Talk::new("operations");
    talk.user(
        "We move the payment cluster from fra1 to ams3 tonight. Window 22:00 to 02:00 UTC. Do not fail over the primary database before I \
         say so. The old load balancer 10.20.4.17 must stay up for 48 hours after the switch. Runbook: https://runbooks.example.net/pay/move.",
    );
    let roles = ["gateway", "ledger", "fraud", "webhook", "settlement", "vault", "queue", "metrics", "bastion"];
    for (round, role) in roles.iter().enumerate() {
        let host = format!("10.40.{}.{}", round + 1, 10 + talk.below(200));
        let instance = format!("i-{:08x}", talk.below(usize::MAX >> 34));
        let listing: String = (0..60)
            .map(|pod| {
                format!("pay-{role}-{pod:03}   1/1   Running   0   {}h   node-{}\n", talk.below(90), talk.below(30))
            })
            .collect();
        talk.shell("", &format!("kubectl -n payments get pods -l app=pay-{role}"), listing, false);
        let text = format!(
            "`pay-{role}` runs as {instance} on {host}:{} now, with {} pods, and answers in {} ms. Its secret is read from \
             vault/payments/{role}/api. The old instance is drained.",
            8_000 + round * 11,
            2 + talk.below(9),
            5 + talk.below(60)
        );
        talk.model(text);
        if round == 3 {
            let error = format!(
                "Error: failed to attach volume vol-0c{:06x} to {instance}: quota exceeded\n",
                talk.below(1 << 24)
            );
            talk.shell("The volume is missing.", "terraform apply -target=module.webhook", error, true);
            talk.model("The quota of ams3 is 20 volumes and 20 are used. I released two snapshots of `pay-batch-old` and applied again.");
            talk.user("Always tag new volumes with owner=payments, billing complains otherwise. And mail ops-night@example.net when a step fails.");
        }
        if round == 6 {
            talk.user("The queue must keep at least 3 replicas, it was 2 in fra1 and we lost messages on 2025-11-03.");
        }
    }
    talk.user("Looks good. You may switch the DNS of pay.example.net now, TTL 60 seconds. Do not delete anything in fra1 yet.");
    let answer = "pay.example.net.  60  IN  A  10.40.1.5\n".repeat(20);
    talk.shell("", "dig +short pay.example.net @ns1.example.net", answer, false);
    talk.model(
        "pay.example.net points to ams3. Remaining: fail over the primary database on your word, remove 10.20.4.17 after 48 hours, and close \
         change CHG-88412.",
    );
    talk.done()
}

/// A text is written; code hardly occurs.
fn writing() -> Conversation {
    let mut talk = Talk::new("writing");
    talk.user(
        "Help me with the grant proposal for the river archive. It goes to the city council, so no jargon. British spelling. Never call \
         the volunteers staff. The text must stay under 2500 words, and the budget is 84000 EUR. My draft is in proposal/draft-3.md.",
    );
    let chapters = ["summary", "need", "method", "partners", "budget", "timetable", "risks", "legacy"];
    let sentences = [
        "The river has shaped the quarter for three hundred years, and its people have kept letters, ledgers and photographs of it.",
        "Much of this lies in cellars that flood more often than they used to.",
        "We want to collect it, describe it and make it readable for every school in the city.",
        "The work is done by people who live there, with help from the library.",
        "Nothing like this exists between the harbour and the old mills.",
        "What is lost in the next flood cannot be bought back.",
    ];
    for (round, chapter) in chapters.iter().enumerate() {
        let mut text = String::new();
        for _ in 0..35 {
            text.push_str(talk.pick(&sentences));
            text.push(' ');
        }
        talk.call(
            &format!("Here is the chapter on the {chapter}."),
            "write",
            &serde_json::json!({ "path": format!("proposal/{:02}-{chapter}.md", round + 1), "content": text }),
            "Written.".into(),
            false,
        );
        let words = 180 + talk.below(160);
        let text = format!(
            "The chapter on the {chapter} has {words} words now. I kept your opening, because it names the flood of 1962, and cut the passage \
             on storage. {}",
            talk.pick(&sentences)
        );
        talk.model(text);
        match round {
            1 => talk.user("Too grand. I prefer plain sentences, and please do not use the word heritage anywhere. The rest is lovely, my sister cried."),
            3 => talk.user("The museum left the partners. The library and the rowing club stay. Only mention partners who have signed."),
            5 => talk.user("The start moves from March to May 2026, the hall is not free before. It was nice weather on Sunday, we were out on the boats."),
            _ => {}
        }
    }
    talk.user("Please make the closing paragraph shorter, and always write Ouse Bank with two capitals.");
    talk.model("Done. What remains is the letter of the rowing club and a final count: the whole text has 2310 words.");
    talk.done()
}

/// Another script, with code in it.
fn chinese() -> Conversation {
    let mut talk = Talk::new("chinese");
    talk.user(
        "我们的订单服务最近经常超时。请先看 services/order/handler.go 和 config/order.yaml。不要修改数据库结构。响应时间必须在300毫秒以内。所有注释都要用中文写。",
    );
    let parts = ["库存", "支付", "物流", "优惠券", "会员", "退款", "通知", "对账"];
    let names = [
        "stock_client",
        "pay_client",
        "ship_client",
        "coupon_client",
        "member_client",
        "refund_client",
        "notify_client",
        "audit_client",
    ];
    for (round, (part, name)) in parts.iter().zip(names).enumerate() {
        let lines = log_lines(&mut talk, 48);
        let path = format!("services/order/{name}.go");
        talk.call(&format!("我先看一下{part}模块。"), "read", &serde_json::json!({ "path": path }), lines, false);
        let (ms, retries) = (80 + talk.below(900), 2 + talk.below(5));
        let text = format!(
            "{part}模块在 `{name}` 里调用了{retries}次远程接口，平均耗时{ms}毫秒，因为 `fetch_{name}_batch` 没有使用缓存。我把超时设为{}秒，并增加了单元测试。",
            1 + talk.below(9)
        );
        talk.model(text);
        match round {
            1 => talk.user("支付接口最多重试2次，绝不能重复扣款。这个要写进文档 docs/payment.md。今天有点忙，慢慢来。"),
            3 => talk.user("优惠券的缓存时间改为15分钟，不是30分钟。辛苦了。"),
            4 => {
                let error = "--- FAIL: TestMemberLevel (0.02s)\nerror: expected level 3, got level 2\n".to_owned();
                talk.shell("跑一下测试。", "go test ./services/order/... -run TestMemberLevel", error, true);
                talk.model("`TestMemberLevel` 失败，原因是会员等级从0开始计算。已在 `member_level_offset` 中修正。");
            }
            6 => talk.user("通知只能在早上8点到晚上9点之间发送。日志里禁止出现手机号。"),
            _ => {}
        }
    }
    talk.user("很好。最后请把压测结果发给我，至少要跑20分钟。");
    talk.model("压测跑了20分钟，平均响应212毫秒，99线是287毫秒。还剩下对账任务 `audit_client` 的告警，工单 ORD-731。");
    talk.done()
}
