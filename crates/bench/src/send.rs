//! `bench send`: what it costs to have a message stored and acknowledged, and how long it takes.
//!
//! Twice the same senders: first in a closed loop, where each answer is followed by the next
//! message, which finds the most that the server takes; then in an open loop at half of that, in
//! which every message has a moment at which it is due, and latency counts from there. Between
//! the two the embedded store runs by itself with the same messages in batches of the same size:
//! what lies between its cost and the server's is the server's own. On PostgreSQL the comparison
//! is `pgbench`, which stores the same messages one by one, after the server has ended.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use heartline_routing::Clock;
use tokio::time::sleep;

use super::child::Footing;
use super::counters::{Counters, Epoch, Tally};
use super::dial::DialPlan;
use super::fleet::Fleet;
use super::layout::{Chats, Layout};
use super::letter::{Letter, Naming, content};
use super::load::{Load, Pacing, drive};
use super::postgres::{self, Database, PgbenchPlan};
use super::report::{Columns, Report, Target, new_histogram};
use super::rest::{self, Batches};
use super::sender::Senders;
use super::side::users;
use super::store::{self, StoreFigures, StorePlan};
use super::subject::Subject;
use super::{Common, SendArgs, machine};

/// How long everybody sends before anything is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long answers may pause before the rest is given up as lost.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often answers are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Messages that the store by itself is measured with at most.
const STORE_MESSAGES_MAX: u64 = 200_000;
/// Acknowledged sends each second.
const PER_SECOND_MIN: f64 = 15_000.0;
/// CPU of the server per acknowledged send, against the store by itself.
const CPU_RATIO_MAX: f64 = 2.0;
/// Acknowledged sends each second on PostgreSQL, against messages that are stored one by one.
const POSTGRES_RATIO_MIN: f64 = 1.5;
/// The 99th percentile at half load, in milliseconds.
const HALF_LOAD_P99_MAX: f64 = 50.0;

/// The server with its chats and those who send.
struct Crowd {
    subject: Subject,
    users: Vec<String>,
    chats: Chats,
    fleet: Fleet,
    senders: Senders,
}

/// What one window of sending measured.
struct Window {
    sent: u64,
    acknowledged: u64,
    delivered: u64,
    /// Deliveries that the acknowledged messages should have led to.
    expected: u64,
    stored: u64,
    elapsed: Duration,
    cpu: Option<Duration>,
    ack_latency: Histogram<u64>,
    latency: Histogram<u64>,
    refusals: u64,
    closed: u64,
}

/// What is measured with one kind of ids.
struct Measured {
    closed_loop: Window,
    /// Messages that the server stored together, on average.
    batch: Option<f64>,
    store: StoreFigures,
    open_loop: Window,
    /// The same in the open loop.
    open_batch: Option<f64>,
    /// Messages per second of the open loop.
    offered: f64,
    refusals: Vec<String>,
}

/// Measures sends to a server beside the store by itself.
pub(super) async fn run(options: &SendArgs, common: &Common) -> Result<Report> {
    ensure!(options.seconds > 0 && options.in_flight > 0, "--seconds, --in-flight: at least 1");
    machine::require_open_files(2 * options.senders)?;
    let layout = Layout::new(options.senders, options.chats, options.members)?;
    let database = Database::open(options).await?;
    ensure!(database.is_none() || common.url.is_none(), "give --url or a store, not both");
    let mut report = Report::new("send");
    let baseline = if database.is_some() { "pgbench" } else { "store alone" };
    report.columns = Columns { value: "heartline", baseline };
    report.parameter("senders", options.senders);
    report.parameter("messages in flight of each", options.in_flight);
    report.parameter("chats", layout.chats);
    report.parameter("members of each", layout.members);
    report.parameter("content bytes", options.content);
    report.parameter("seconds of each loop", options.seconds);
    match &database {
        Some(database) => report.parameter("PostgreSQL", database.described()),
        None => report.parameter("stores in", std::env::temp_dir().display().to_string()),
    }
    for naming in options.ids.namings() {
        let measured = measure(options, common, layout, *naming, database.as_ref()).await?;
        fill(&mut report, naming.as_str(), &measured, database.is_some());
    }
    Ok(report)
}

async fn measure(
    options: &SendArgs,
    common: &Common,
    layout: Layout,
    naming: Naming,
    database: Option<&Database>,
) -> Result<Measured> {
    let store_url = database.map(Database::fresh_url).transpose()?;
    let footing = Footing { store_url: store_url.clone(), meeting: None };
    let crowd = Crowd::gather(options, common, layout, naming, &footing).await?;
    let seconds = Duration::from_secs(options.seconds);
    crowd.closed_loop(options.in_flight, WARM_UP).await?;
    let batches_before = rest::batches(&crowd.subject).await;
    let closed_loop = crowd.closed_loop(options.in_flight, seconds).await?;
    let batch = crowd.batch_since(batches_before).await;
    let mut store = None;
    if store_url.is_none() {
        let plan = StorePlan {
            messages: closed_loop.acknowledged.clamp(1, STORE_MESSAGES_MAX),
            batch: batch.unwrap_or(options.senders as f64).round().max(1.0) as usize,
            options,
            naming,
        };
        store = Some(store::measure(plan).await?);
    }
    let half = (closed_loop.per_second() / 2.0).max(1.0);
    let offered = options.rate.map_or(half, f64::from);
    let batches_before = rest::batches(&crowd.subject).await;
    let open_loop = crowd.open_loop(offered, seconds).await?;
    let open_batch = crowd.batch_since(batches_before).await;
    let refusals = crowd.fleet.counters().refusals();
    let store = match (store, store_url) {
        (Some(store), _) => store,
        (None, url) => {
            let url = url.context("there is a store of some kind")?;
            let chats = crowd.chats.ids.clone();
            // Its relay would announce what others store.
            drop(crowd);
            let plan =
                PgbenchPlan { url, layout, chats, naming, content: options.content, seconds };
            postgres::pgbench(plan).await?
        }
    };
    Ok(Measured { closed_loop, batch, store, open_loop, open_batch, offered, refusals })
}

impl Crowd {
    async fn gather(
        options: &SendArgs,
        common: &Common,
        layout: Layout,
        naming: Naming,
        footing: &Footing,
    ) -> Result<Self> {
        let users = users("bench", options.senders);
        let subject = Subject::unlimited_on(footing, common, options.senders).await?;
        let chats = Chats::make(&subject, layout, &users).await?;
        let signer = subject.signer.as_ref();
        let tokens = users.iter().filter_map(|user| Some(signer?.user(user)));
        let plan = DialPlan::in_order(&subject, &tokens.collect::<Result<Vec<_>>>()?)?;
        let content = content(options.content)?;
        let mut fleet = Fleet::new(Epoch::begin(), 1);
        let mut senders = Vec::with_capacity(users.len());
        let label = format!("connect senders, {} ids", naming.as_str());
        for (user, opened) in plan.open(&label).await?.into_iter().enumerate() {
            let letters = layout
                .chats_of(user)
                .map(|chat| Letter::new(chats.ids[chat], &content, naming))
                .collect::<Result<_>>()?;
            senders.push(fleet.add_sender(opened, letters));
        }
        let senders = Senders { senders, hearers: layout.members as u64 - 1 };
        Ok(Self { subject, users, chats, fleet, senders })
    }

    /// Messages that the server stored together since an earlier moment, on average.
    async fn batch_since(&self, earlier: Option<Batches>) -> Option<f64> {
        let now = rest::batches(&self.subject).await?;
        Some(now.size_since(earlier?))
    }

    /// Each answer is followed by the next message, for a while.
    async fn closed_loop(&self, in_flight: u64, lasts: Duration) -> Result<Window> {
        self.window(async |counters| {
            counters.repeat_until(counters.epoch().nanos() + lasts.as_nanos() as u64);
            self.senders.begin(in_flight);
            sleep(lasts).await;
            Ok(())
        })
        .await
    }

    /// A message is due at fixed moments, whatever became of those before.
    async fn open_loop(&self, per_second: f64, lasts: Duration) -> Result<Window> {
        self.window(async |counters| {
            let pacing = Pacing::Rate { pushes_per_second: per_second };
            let load = Load { pacing, duration: lasts };
            drive(vec![Box::new(self.senders.clone())], load, counters.epoch(), counters).await?;
            Ok(())
        })
        .await
    }

    /// Sends, waits until everything is answered and delivered, and counts.
    async fn window(&self, send: impl AsyncFnOnce(&Arc<Counters>) -> Result<()>) -> Result<Window> {
        let counters = self.fleet.counters();
        counters.take_latency();
        counters.take_ack_latency();
        let stored_before = self.chats.stored(&self.subject, &self.users).await?;
        let before = Tallies::of(counters);
        let cpu_before = self.subject.usage()?.map(|usage| usage.cpu);
        let started = Clock::system().now();
        send(counters).await?;
        self.wait_for_answers(&before).await;
        let elapsed = Clock::system().now().duration_since(started);
        let cpu_after = self.subject.usage()?.map(|usage| usage.cpu);
        let after = Tallies::of(counters);
        let acknowledged = after.acks - before.acks;
        Ok(Window {
            sent: after.sent - before.sent,
            acknowledged,
            delivered: after.deliveries - before.deliveries,
            expected: acknowledged * self.senders.hearers,
            stored: self.chats.stored(&self.subject, &self.users).await? - stored_before,
            elapsed,
            cpu: cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before)),
            ack_latency: counters.take_ack_latency(),
            latency: counters.take_latency(),
            refusals: after.refusals - before.refusals,
            closed: counters.get(Tally::Closed),
        })
    }

    /// Gives up only when nothing came for a while: a loss is reported, not waited for.
    async fn wait_for_answers(&self, before: &Tallies) {
        let counters = self.fleet.counters();
        let mut last = (Tallies::of(counters), Clock::system().now());
        while !last.0.is_complete_since(before, self.senders.hearers)
            && Clock::system().now().duration_since(last.1) < QUIET_MAX
        {
            sleep(LOOK_EVERY).await;
            let now = Tallies::of(counters);
            if now != last.0 {
                last = (now, Clock::system().now());
            }
        }
    }
}

/// The counters of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tallies {
    sent: u64,
    acks: u64,
    refusals: u64,
    deliveries: u64,
}

impl Tallies {
    fn of(counters: &Counters) -> Self {
        Self {
            sent: counters.get(Tally::Sent),
            acks: counters.get(Tally::Acks),
            refusals: counters.get(Tally::Refusals),
            deliveries: counters.get(Tally::Deliveries),
        }
    }

    fn is_complete_since(&self, before: &Self, hearers: u64) -> bool {
        let answered = self.acks + self.refusals - before.acks - before.refusals;
        answered >= self.sent - before.sent
            && self.deliveries - before.deliveries >= (self.acks - before.acks) * hearers
    }
}

impl Window {
    fn per_second(&self) -> f64 {
        self.acknowledged as f64 / self.elapsed.as_secs_f64()
    }

    fn cpu_micros(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.acknowledged as f64)
    }

    /// What must not happen, if it did.
    fn errors(&self, name: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let Self { sent, acknowledged, delivered, expected, stored, .. } = self;
        if sent != acknowledged || acknowledged != stored || delivered != expected {
            errors.push(format!(
                "{name}: {sent} sent, {acknowledged} acknowledged, {stored} stored, {delivered} of \
                 {expected} delivered"
            ));
        }
        if self.refusals > 0 {
            errors.push(format!("{name}: {} sends were refused", self.refusals));
        }
        if self.closed > 0 {
            errors.push(format!("{name}: {} connections were closed by the server", self.closed));
        }
        errors
    }
}

fn fill(report: &mut Report, ids: &str, measured: &Measured, is_postgres: bool) {
    let Measured { closed_loop, batch, store, open_loop, .. } = measured;
    let messages = store.messages as f64;
    let nothing = new_histogram();
    report
        .figure(
            format!("{ids} ids: acknowledged sends per second"),
            "/s",
            Some(closed_loop.per_second()),
            Some(messages / store.elapsed_seconds),
        )
        .target(if is_postgres {
            Target::RatioAtLeast(POSTGRES_RATIO_MIN)
        } else {
            Target::AtLeast(PER_SECOND_MIN)
        });
    report.figure(format!("{ids} ids: messages stored together"), "", *batch, None);
    let store_cpu = store.cpu_seconds.map(|seconds| seconds * 1e6 / messages);
    let name = format!("{ids} ids: CPU per acknowledged send");
    let cost = report.figure(name, "µs", closed_loop.cpu_micros(), store_cpu);
    if store_cpu.is_some() {
        cost.target(Target::RatioAtMost(CPU_RATIO_MAX));
    }
    report.latency(&format!("{ids} ids: saturated ack"), &closed_loop.ack_latency, &nothing);
    let offered = measured.offered;
    report.figure(format!("{ids} ids: offered at half load"), "/s", Some(offered), None);
    let answered = open_loop.per_second();
    report.figure(format!("{ids} ids: acknowledged at half load"), "/s", Some(answered), None);
    let together = format!("{ids} ids: stored together at half load");
    report.figure(together, "", measured.open_batch, None);
    let cpu = open_loop.cpu_micros();
    report.figure(format!("{ids} ids: CPU per send at half load"), "µs", cpu, None);
    let half_load = format!("{ids} ids: half load ack");
    report.latency(&half_load, &open_loop.ack_latency, &nothing);
    report.aim(&format!("{half_load} p99"), Target::AtMost(HALF_LOAD_P99_MAX));
    report.latency(&format!("{ids} ids: half load delivery"), &open_loop.latency, &nothing);
    report.errors.extend(closed_loop.errors(&format!("{ids} ids, closed loop")));
    report.errors.extend(open_loop.errors(&format!("{ids} ids, open loop")));
    report.errors.extend(measured.refusals.iter().map(|refusal| format!("refused: {refusal}")));
}
