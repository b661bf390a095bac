//! `bench fanout`: CPU and latency of delivering a message to all members of one large group.
//!
//! A sender is a further device of the first reader, so each message is delivered exactly once to
//! each reader. The bare loop writes frames of the same bytes to as many sockets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use heartline_durability::chats::GROUP_MEMBERS_MAX;
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_protocol::server_frame::{ChatKind, Message};
use heartline_protocol::{ChatId, MessageId, ServerFrame, encode_server};
use heartline_runtime::{Clock, Random};
use tokio::time::sleep;
use ulid::Ulid;

use super::chat_layout::{ChatLayout, Chats};
use super::client_sockets::{ClientSockets, StalledSockets};
use super::counters::{Counters, Epoch, Tally};
use super::dial::DialPlan;
use super::frame_scanner::CONTENT_MARKER;
use super::load::{Load, Pacing};
use super::message_template::{IdKind, MessageTemplate, content};
use super::progress::Progress;
use super::push_connection::PushTemplate;
use super::push_setup::{PushSetup, Pushers, Window, users};
use super::report::{Report, Target, millis_at, new_histogram};
use super::sender::Senders;
use super::server_under_test::ServerUnderTest;
use super::{Common, FanoutArgs, machine};

/// Windows of each server, alternating, so that disturbances of the machine affect both.
const ROUNDS: u32 = 4;
/// Load on both servers before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// Push connections to the bare loop: enough that a slow response does not delay the next push.
const BARE_PUSH_CONNECTIONS: usize = 8;
/// Deadline for the last acknowledgements after everything is delivered.
const ACKS_WITHIN: Duration = Duration::from_secs(10);
/// How often the counters are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// CPU per delivery at a fixed rate, relative to the bare loop.
const RATE_RATIO_MAX: f64 = 1.4;
/// CPU per delivery when saturated, in microseconds.
const SATURATED_MICROS_MAX: f64 = 1.0;
/// The receive buffer of a stalled reader: small, so that it fills soon.
const STALLED_BUFFER_BYTES: u32 = 4096;

/// A server with one group: readers and senders.
struct FanoutSetup {
    readers: PushSetup,
    senders: ClientSockets,
    chat: Chats,
    users: Vec<String>,
}

/// The messages of one window or the sum of several.
struct Sent {
    sent: u64,
    acknowledged: u64,
    stored: u64,
    rejections: u64,
    ack_latency: Histogram<u64>,
}

/// Measures messages to a group, and the bare loop.
pub(super) async fn run(options: &FanoutArgs, common: &Common) -> Result<Report> {
    let readers = options.readers;
    let most = GROUP_MEMBERS_MAX;
    ensure!((2..=most).contains(&readers), "-n must be 2 to {most}: the members of a group");
    ensure!(options.rate > 0 && options.seconds > 0, "--rate and --seconds must be at least 1");
    ensure!(options.in_flight > 0 && options.senders > 0, "--in-flight, --senders: at least 1");
    let stalled = options.stalled.unwrap_or(0);
    ensure!(stalled <= readers, "--stalled must be at most {readers}, one for each reader");
    machine::require_open_files(2 * readers + stalled + options.senders)?;
    let pacing = if options.saturate {
        Pacing::Saturate { in_flight: options.in_flight }
    } else {
        Pacing::Rate { pushes_per_second: f64::from(options.rate) / readers as f64 }
    };
    let setup = FanoutSetup::open(options, common).await?;
    let bare = bare_setup(options, &setup.users).await?;
    let seconds = Duration::from_secs(options.seconds);
    let (received, sent, bare) = alternate(&setup, &bare, pacing, seconds).await?;

    let mut report = Report::new("fanout");
    report.parameter("readers", readers);
    report.parameter("senders", options.senders);
    if options.saturate {
        report.parameter("saturated with messages in flight", options.in_flight);
    } else {
        report.parameter("deliveries per second", options.rate);
    }
    report.parameter("seconds", options.seconds);
    report.parameter("content bytes", options.content);
    fill(&mut report, options.saturate, &received, &sent, &bare);
    if stalled > 0 {
        let load = Load { pacing, duration: seconds };
        beside_stalled(&mut report, &setup, stalled, load, &sent).await?;
    }
    Ok(report)
}

impl FanoutSetup {
    async fn open(options: &FanoutArgs, common: &Common) -> Result<Self> {
        let FanoutArgs { readers, senders: sender_count, .. } = *options;
        let users = users("bench", readers);
        let connections = 2 * readers + sender_count;
        let server = ServerUnderTest::start_unlimited(common, connections).await?;
        let (chats, members, kind) = (1, readers, ChatKind::Group);
        let layout = ChatLayout { users: readers, chats, members, kind };
        let chat = Chats::create(&server, layout, &users).await?;
        let epoch = Epoch::begin();
        let mut senders = ClientSockets::new(epoch, 1);
        let devices: Vec<_> = (0..sender_count).map(|index| format!("sender-{index}")).collect();
        let tokens = devices.iter().map(|device| token(&server, &users[0], device));
        let plan = DialPlan::in_order(&server, &tokens.collect::<Result<Vec<_>>>()?)?;
        let content = content(options.content)?;
        let mut connected = Vec::with_capacity(sender_count);
        for opened in plan.open("connect senders").await? {
            let template = MessageTemplate::new(chat.ids[0], &content, IdKind::Ulid)?;
            connected.push(senders.add_sender(opened, vec![template]));
        }
        let pushers =
            Pushers::Senders(Senders { senders: connected, receivers_per_message: readers as u64 });
        let sockets = ClientSockets::new(epoch, if options.saturate { 10 } else { 1 });
        let readers = PushSetup::with("connect readers", server, &users, sockets, pushers).await?;
        Ok(Self { readers, senders, chat, users })
    }

    async fn window(&self, load: Load) -> Result<(Window, Sent)> {
        let counters = self.senders.counters();
        counters.take_ack_latency();
        let tallies = |counters: &Counters| {
            [Tally::Sent, Tally::Acks, Tally::Rejections].map(|tally| counters.get(tally))
        };
        let before = tallies(counters);
        let stored_before = self.stored().await?;
        let window = self.readers.window(load).await?;
        let deadline = Clock::system().now() + ACKS_WITHIN;
        let answered = |[_, acks, rejections]: [u64; 3]| acks + rejections;
        while answered(tallies(counters)) < counters.get(Tally::Sent)
            && Clock::system().now() < deadline
        {
            sleep(POLL_INTERVAL).await;
        }
        let after = tallies(counters);
        let sent = Sent {
            sent: after[0] - before[0],
            acknowledged: after[1] - before[1],
            rejections: after[2] - before[2],
            stored: self.stored().await? - stored_before,
            ack_latency: counters.take_ack_latency(),
        };
        Ok((window, sent))
    }

    async fn stored(&self) -> Result<u64> {
        self.chat.stored(&self.readers.server, &self.users).await
    }
}

fn token(server: &ServerUnderTest, user: &str, device: &str) -> Result<String> {
    server.signer.as_ref().context("the bare loop has no signer")?.device(user, device)
}

/// The bare loop with as many sockets, which writes frames of the same bytes.
async fn bare_setup(options: &FanoutArgs, users: &[String]) -> Result<PushSetup> {
    let text = message_frame(options.content)?;
    let template = PushTemplate::bare(0, users.len(), &text, CONTENT_MARKER)?;
    let count =
        if options.saturate { options.in_flight.min(64) as usize } else { BARE_PUSH_CONNECTIONS };
    let pushers = Pushers::Connections { templates: vec![template], count };
    let sockets = ClientSockets::new(Epoch::begin(), if options.saturate { 10 } else { 1 });
    PushSetup::with("connect to the bare loop", ServerUnderTest::bare()?, users, sockets, pushers)
        .await
}

/// A message as the server would push it.
fn message_frame(content_bytes: usize) -> Result<String> {
    let wall = Clock::system().wall();
    let message = Message {
        chat_id: ChatId(Ulid(Random::system().draw())),
        sequence: 1000,
        message_id: MessageId(Ulid(Random::system().draw())),
        sender_id: "bench-0".parse()?,
        client_message_id: IdKind::Ulid.new_id().parse()?,
        content: content(content_bytes)?,
        content_type: DEFAULT_CONTENT_TYPE.to_owned(),
        created_at: wall,
        deleted: false,
    };
    Ok(encode_server(&ServerFrame::Message(message), wall))
}

async fn alternate(
    setup: &FanoutSetup,
    bare: &PushSetup,
    pacing: Pacing,
    seconds: Duration,
) -> Result<(Window, Sent, Window)> {
    let progress = Progress::begin("send to both in turn", 2 * u64::from(ROUNDS));
    let done = AtomicU64::new(0);
    let work = async {
        let warm_up = Load { pacing, duration: WARM_UP };
        setup.window(warm_up).await?;
        bare.window(warm_up).await?;
        let load = Load { pacing, duration: seconds / ROUNDS };
        let (mut received, mut sent, mut bare_received) =
            (Window::empty(), Sent::none(), Window::empty());
        for _ in 0..ROUNDS {
            let (window, window_sent) = setup.window(load).await?;
            received.add(&window);
            sent.add(&window_sent);
            done.fetch_add(1, Ordering::Relaxed);
            bare_received.add(&bare.window(load).await?);
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok((received, sent, bare_received))
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await
}

impl Sent {
    fn none() -> Self {
        Self { sent: 0, acknowledged: 0, stored: 0, rejections: 0, ack_latency: new_histogram() }
    }

    fn add(&mut self, later: &Self) {
        self.sent += later.sent;
        self.acknowledged += later.acknowledged;
        self.stored += later.stored;
        self.rejections += later.rejections;
        self.ack_latency.add(&later.ack_latency).expect("all histograms have the same bounds");
    }

    fn errors(&self, name: &str) -> Option<String> {
        let Self { sent, acknowledged, stored, rejections, .. } = self;
        let is_good = sent == acknowledged && acknowledged == stored && *rejections == 0;
        (!is_good).then(|| {
            format!(
                "{name}: {sent} sent, {acknowledged} acknowledged, {stored} stored, {rejections} \
                 rejected"
            )
        })
    }
}

fn fill(report: &mut Report, saturate: bool, received: &Window, sent: &Sent, bare: &Window) {
    report.figure("messages", "", Some(sent.acknowledged as f64), None);
    report.figure("deliveries", "", Some(received.delivered as f64), Some(bare.delivered as f64));
    report.figure(
        "deliveries per second",
        "/s",
        Some(received.deliveries_per_second()),
        Some(bare.deliveries_per_second()),
    );
    let cost = report.figure(
        "CPU per delivery",
        "µs",
        received.cpu_micros_per_delivery(),
        bare.cpu_micros_per_delivery(),
    );
    cost.target(if saturate {
        Target::AtMost(SATURATED_MICROS_MAX)
    } else {
        Target::RatioAtMost(RATE_RATIO_MAX)
    });
    report.latency("commit", &sent.ack_latency, &new_histogram());
    report.latency("latency", &received.latency, &bare.latency);
    let bounds = millis_at(&sent.ack_latency, 0.99).zip(millis_at(&bare.latency, 0.99));
    if let Some((commit, bare)) = bounds.filter(|_| !saturate) {
        report.set_target("latency p99", Target::AtMost(commit + 2.0 * bare));
    }
    report.errors.extend(received.errors("heartline"));
    report.errors.extend(sent.errors("heartline"));
    report.errors.extend(bare.errors("bare loop"));
}

/// Measures once more, beside devices in the group that never read.
async fn beside_stalled(
    report: &mut Report,
    setup: &FanoutSetup,
    stalled: usize,
    load: Load,
    without: &Sent,
) -> Result<()> {
    let server = &setup.readers.server;
    let resident = || Ok::<_, anyhow::Error>(server.usage()?.map(|usage| usage.rss_bytes));
    let rss_before = resident()?;
    let tokens = setup.users.iter().take(stalled).map(|user| token(server, user, "stalled"));
    let plan = DialPlan::in_order(server, &tokens.collect::<Result<Vec<_>>>()?)?;
    let plan = plan.with_receive_buffer(STALLED_BUFFER_BYTES);
    let held = StalledSockets::hold(plan.open("connect stalled readers").await?);
    let (received, sent) = setup.window(load).await?;
    let rss_after = resident()?;
    drop(held);
    report.parameter("then with stalled readers", stalled);
    for (quantile, name) in [(0.5, "p50"), (0.99, "p99")] {
        let (with, without) =
            (millis_at(&sent.ack_latency, quantile), millis_at(&without.ack_latency, quantile));
        report.figure(format!("commit {name} beside stalled, and before"), "ms", with, without);
    }
    let mebibytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let (after, before) = (mebibytes(rss_after), mebibytes(rss_before));
    report.figure("resident memory beside stalled, and before", "MiB", after, before);
    report.errors.extend(received.errors("beside stalled readers"));
    report.errors.extend(sent.errors("beside stalled readers"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::frame_scanner::{FrameKind, frame_kind, intended_nanos};
    use super::*;

    #[test]
    fn readers_recognise_the_frame_of_the_bare_loop_as_a_message() {
        let frame = message_frame(300).unwrap();
        assert_eq!(frame_kind(frame.as_bytes()), FrameKind::Delivery);
        assert_eq!(intended_nanos(frame.as_bytes()), Some(0));
    }

    #[test]
    fn a_message_that_is_not_acknowledged_or_not_stored_is_an_error() {
        let mut all = Sent::none();
        all.add(&Sent { sent: 5, acknowledged: 5, stored: 5, ..Sent::none() });
        assert_eq!(all.errors("group"), None);
        all.add(&Sent { sent: 5, acknowledged: 4, stored: 5, rejections: 1, ..Sent::none() });
        let error = all.errors("group").unwrap();
        assert_eq!(error, "group: 10 sent, 9 acknowledged, 10 stored, 1 rejected");
    }
}
