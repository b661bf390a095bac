//! `bench send`: CPU and latency of storing and acknowledging a message.
//!
//! First the senders run a closed loop, in which each acknowledgement is followed by the next
//! message; this finds the maximum rate. Then they run an open loop at half of that rate, in which
//! messages are due at fixed times and latency counts from the due time. Between the two, the
//! embedded store alone stores the same messages in batches of the same size; the difference is
//! the cost of the server. On PostgreSQL the baseline is `pgbench`, which stores the same messages
//! one by one after the server has ended.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use heartline_runtime::Clock;
use tokio::time::sleep;

use super::chat_layout::{ChatLayout, Chats};
use super::child::Backends;
use super::client_sockets::ClientSockets;
use super::counters::{Counters, Epoch, Tally};
use super::dial::DialPlan;
use super::load::{Load, Pacing, drive};
use super::message_template::{IdKind, MessageTemplate, content};
use super::postgres::{self, Database, PgbenchPlan};
use super::push_setup::users;
use super::report::{Columns, Report, Target, new_histogram};
use super::rest::{self, Batches};
use super::sender::Senders;
use super::server_under_test::ServerUnderTest;
use super::store::{self, StoreFigures, StorePlan};
use super::{Common, SendArgs, machine};

/// Duration of the load before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Without an acknowledgement for this long, missing ones count as lost.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often the counters are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The largest number of messages for the measurement of the store alone.
const STORE_MESSAGES_MAX: u64 = 200_000;
/// The target for acknowledged sends per second.
const PER_SECOND_MIN: f64 = 15_000.0;
/// The target for CPU per acknowledged send, relative to the store alone.
const CPU_RATIO_MAX: f64 = 2.0;
/// The target for acknowledged sends per second on PostgreSQL, relative to `pgbench`.
const POSTGRES_RATIO_MIN: f64 = 1.5;
/// The target for the p99 of acknowledgements at half load, in milliseconds.
const HALF_LOAD_P99_MAX: f64 = 50.0;

/// A server with its chats and connected senders.
struct SendSetup {
    server: ServerUnderTest,
    users: Vec<String>,
    chats: Chats,
    sockets: ClientSockets,
    senders: Senders,
}

/// The measurements of one window.
struct Window {
    sent: u64,
    acknowledged: u64,
    delivered: u64,
    /// Deliveries that are due for the acknowledged messages.
    expected: u64,
    stored: u64,
    elapsed: Duration,
    cpu: Option<Duration>,
    ack_latency: Histogram<u64>,
    latency: Histogram<u64>,
    rejections: u64,
    closed: u64,
}

/// The measurements with one kind of ids.
struct Measured {
    closed_loop: Window,
    /// The average number of messages per batch in the closed loop.
    batch: Option<f64>,
    store: StoreFigures,
    open_loop: Window,
    /// The average number of messages per batch in the open loop.
    open_batch: Option<f64>,
    /// The rate of the open loop, in messages per second.
    offered: f64,
    rejections: Vec<String>,
}

/// Measures sends to a server, and the store alone.
pub(super) async fn run(options: &SendArgs, common: &Common) -> Result<Report> {
    ensure!(options.seconds > 0 && options.in_flight > 0, "--seconds, --in-flight: at least 1");
    machine::require_open_files(2 * options.senders)?;
    let layout = ChatLayout::new(options.senders, options.chats, options.members)?;
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
    for id_kind in options.ids.kinds() {
        let measured = measure(options, common, layout, *id_kind, database.as_ref()).await?;
        fill(&mut report, id_kind.as_str(), &measured, database.is_some());
    }
    Ok(report)
}

async fn measure(
    options: &SendArgs,
    common: &Common,
    layout: ChatLayout,
    id_kind: IdKind,
    database: Option<&Database>,
) -> Result<Measured> {
    let store_url = database.map(Database::fresh_url).transpose()?;
    let backends = Backends { store_url: store_url.clone(), cluster: None };
    let setup = SendSetup::open(options, common, layout, id_kind, &backends).await?;
    let seconds = Duration::from_secs(options.seconds);
    setup.closed_loop(options.in_flight, WARM_UP).await?;
    let batches_before = rest::batches(&setup.server).await;
    let closed_loop = setup.closed_loop(options.in_flight, seconds).await?;
    let batch = setup.batch_since(batches_before).await;
    let mut store = None;
    if store_url.is_none() {
        let plan = StorePlan {
            messages: closed_loop.acknowledged.clamp(1, STORE_MESSAGES_MAX),
            batch: batch.unwrap_or(options.senders as f64).round().max(1.0) as usize,
            options,
            id_kind,
        };
        store = Some(store::measure(plan).await?);
    }
    let half = (closed_loop.per_second() / 2.0).max(1.0);
    let offered = options.rate.map_or(half, f64::from);
    let batches_before = rest::batches(&setup.server).await;
    let open_loop = setup.open_loop(offered, seconds).await?;
    let open_batch = setup.batch_since(batches_before).await;
    let rejections = setup.sockets.counters().rejections();
    let store = match (store, store_url) {
        (Some(store), _) => store,
        (None, url) => {
            let url = url.context("a run without an embedded store has a store URL")?;
            let chats = setup.chats.ids.clone();
            // Ends the server first, because its relay would announce the messages of pgbench.
            drop(setup);
            let plan =
                PgbenchPlan { url, layout, chats, id_kind, content: options.content, seconds };
            postgres::pgbench(plan).await?
        }
    };
    Ok(Measured { closed_loop, batch, store, open_loop, open_batch, offered, rejections })
}

impl SendSetup {
    async fn open(
        options: &SendArgs,
        common: &Common,
        layout: ChatLayout,
        id_kind: IdKind,
        backends: &Backends,
    ) -> Result<Self> {
        let users = users("bench", options.senders);
        let server = ServerUnderTest::start_unlimited_on(backends, common, options.senders).await?;
        let chats = Chats::create(&server, layout, &users).await?;
        let signer = server.signer.as_ref();
        let tokens = users.iter().filter_map(|user| Some(signer?.user(user)));
        let plan = DialPlan::in_order(&server, &tokens.collect::<Result<Vec<_>>>()?)?;
        let content = content(options.content)?;
        let mut sockets = ClientSockets::new(Epoch::begin(), 1);
        let mut senders = Vec::with_capacity(users.len());
        let label = format!("connect senders, {} ids", id_kind.as_str());
        for (user, opened) in plan.open(&label).await?.into_iter().enumerate() {
            let templates = layout
                .chats_of(user)
                .map(|chat| MessageTemplate::new(chats.ids[chat], &content, id_kind))
                .collect::<Result<_>>()?;
            senders.push(sockets.add_sender(opened, templates));
        }
        let senders = Senders { senders, receivers_per_message: layout.members as u64 - 1 };
        Ok(Self { server, users, chats, sockets, senders })
    }

    /// The average number of messages per batch since an earlier reading.
    async fn batch_since(&self, earlier: Option<Batches>) -> Option<f64> {
        let now = rest::batches(&self.server).await?;
        Some(now.size_since(earlier?))
    }

    /// Each acknowledgement is followed by the next message.
    async fn closed_loop(&self, in_flight: u64, duration: Duration) -> Result<Window> {
        self.window(async |counters| {
            counters.repeat_until(counters.epoch().nanos() + duration.as_nanos() as u64);
            self.senders.start_closed_loop(in_flight);
            sleep(duration).await;
            Ok(())
        })
        .await
    }

    /// Messages are due at fixed times, even if earlier ones are late.
    async fn open_loop(&self, per_second: f64, duration: Duration) -> Result<Window> {
        self.window(async |counters| {
            let pacing = Pacing::Rate { pushes_per_second: per_second };
            let load = Load { pacing, duration };
            drive(vec![Box::new(self.senders.clone())], load, counters.epoch(), counters).await?;
            Ok(())
        })
        .await
    }

    /// Sends, waits until everything is acknowledged and delivered, and returns the measurements.
    async fn window(&self, send: impl AsyncFnOnce(&Arc<Counters>) -> Result<()>) -> Result<Window> {
        let counters = self.sockets.counters();
        counters.take_latency();
        counters.take_ack_latency();
        let stored_before = self.chats.stored(&self.server, &self.users).await?;
        let before = Tallies::of(counters);
        let cpu_before = self.server.usage()?.map(|usage| usage.cpu);
        let started = Clock::system().now();
        send(counters).await?;
        self.wait_for_acknowledgements(&before).await;
        let elapsed = Clock::system().now().duration_since(started);
        let cpu_after = self.server.usage()?.map(|usage| usage.cpu);
        let after = Tallies::of(counters);
        let acknowledged = after.acks - before.acks;
        Ok(Window {
            sent: after.sent - before.sent,
            acknowledged,
            delivered: after.deliveries - before.deliveries,
            expected: acknowledged * self.senders.receivers_per_message,
            stored: self.chats.stored(&self.server, &self.users).await? - stored_before,
            elapsed,
            cpu: cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before)),
            ack_latency: counters.take_ack_latency(),
            latency: counters.take_latency(),
            rejections: after.rejections - before.rejections,
            closed: counters.get(Tally::Closed),
        })
    }

    /// Returns early if nothing arrives for [`QUIET_MAX`], so that a loss is reported.
    async fn wait_for_acknowledgements(&self, before: &Tallies) {
        let counters = self.sockets.counters();
        let mut last = (Tallies::of(counters), Clock::system().now());
        while !last.0.is_complete_since(before, self.senders.receivers_per_message)
            && Clock::system().now().duration_since(last.1) < QUIET_MAX
        {
            sleep(POLL_INTERVAL).await;
            let now = Tallies::of(counters);
            if now != last.0 {
                last = (now, Clock::system().now());
            }
        }
    }
}

/// A reading of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tallies {
    sent: u64,
    acks: u64,
    rejections: u64,
    deliveries: u64,
}

impl Tallies {
    fn of(counters: &Counters) -> Self {
        Self {
            sent: counters.get(Tally::Sent),
            acks: counters.get(Tally::Acks),
            rejections: counters.get(Tally::Rejections),
            deliveries: counters.get(Tally::Deliveries),
        }
    }

    fn is_complete_since(&self, before: &Self, receivers_per_message: u64) -> bool {
        let answered = self.acks + self.rejections - before.acks - before.rejections;
        answered >= self.sent - before.sent
            && self.deliveries - before.deliveries
                >= (self.acks - before.acks) * receivers_per_message
    }
}

impl Window {
    fn per_second(&self) -> f64 {
        self.acknowledged as f64 / self.elapsed.as_secs_f64()
    }

    fn cpu_micros(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.acknowledged as f64)
    }

    /// The failures in this window, as texts for the report.
    fn errors(&self, name: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let Self { sent, acknowledged, delivered, expected, stored, .. } = self;
        if sent != acknowledged || acknowledged != stored || delivered != expected {
            errors.push(format!(
                "{name}: {sent} sent, {acknowledged} acknowledged, {stored} stored, {delivered} of \
                 {expected} delivered"
            ));
        }
        if self.rejections > 0 {
            errors.push(format!("{name}: {} sends were rejected", self.rejections));
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
    report.set_target(&format!("{half_load} p99"), Target::AtMost(HALF_LOAD_P99_MAX));
    report.latency(&format!("{ids} ids: half load delivery"), &open_loop.latency, &nothing);
    report.errors.extend(closed_loop.errors(&format!("{ids} ids, closed loop")));
    report.errors.extend(open_loop.errors(&format!("{ids} ids, open loop")));
    report
        .errors
        .extend(measured.rejections.iter().map(|rejection| format!("rejected: {rejection}")));
}
