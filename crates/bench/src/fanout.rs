//! `bench fanout`: one room, many readers: what it costs that everybody hears a message.
//!
//! A sender is one more device of the first reader, so every message has exactly as many hearers
//! as there are readers. The bare loop writes frames of the same bytes to as many sockets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use heartline_durability::chats::GROUP_MEMBERS_MAX;
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_protocol::server_frame::{ChatKind, Message};
use heartline_protocol::{ChatId, MessageId, ServerFrame, encode_server};
use heartline_routing::Clock;
use tokio::time::sleep;
use ulid::Ulid;

use super::counters::{Counters, Epoch, Tally};
use super::dial::DialPlan;
use super::fleet::{Fleet, Stalled};
use super::lane::Template;
use super::layout::{Chats, Layout};
use super::letter::{Letter, Naming, content};
use super::load::{Load, Pacing};
use super::progress::Progress;
use super::report::{Report, Target, millis_at, new_histogram};
use super::sender::Senders;
use super::side::{Pushers, Side, Window, users};
use super::subject::Subject;
use super::walker::CONTENT_MARKER;
use super::{Common, FanoutArgs, machine};

/// Windows of each side, taken in turn, so that the machine's own moods fall on both.
const ROUNDS: u32 = 4;
/// How long both sides are pushed to before anything is measured.
const WARM_UP: Duration = Duration::from_millis(500);
/// Lanes to the bare loop: enough that a slow answer does not hold up the next push.
const BARE_LANES: usize = 8;
/// How long the last acknowledgements may take once everything is delivered.
const ACKS_WITHIN: Duration = Duration::from_secs(10);
/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// CPU per delivery at a fixed rate, against the bare loop's.
const RATE_RATIO_MAX: f64 = 1.4;
/// CPU per delivery when saturated, in microseconds.
const SATURATED_MICROS_MAX: f64 = 1.0;
/// The receive buffer of a stalled reader: small, so that the server feels it soon.
const STALLED_BUFFER_BYTES: u32 = 4096;

/// A server with one room: everybody reads, a few also send.
struct Room {
    readers: Side,
    senders: Fleet,
    chat: Chats,
    users: Vec<String>,
}

/// What the senders of a room saw in one or several windows.
struct Sent {
    sent: u64,
    acknowledged: u64,
    stored: u64,
    refusals: u64,
    ack_latency: Histogram<u64>,
}

/// Measures messages to a room beside the bare loop.
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
    let room = Room::open(options, common).await?;
    let bare = bare_side(options, &room.users).await?;
    let seconds = Duration::from_secs(options.seconds);
    let (heard, sent, bare) = alternate(&room, &bare, pacing, seconds).await?;

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
    fill(&mut report, options.saturate, &heard, &sent, &bare);
    if stalled > 0 {
        let load = Load { pacing, duration: seconds };
        beside_stalled(&mut report, &room, stalled, load, &sent).await?;
    }
    Ok(report)
}

impl Room {
    async fn open(options: &FanoutArgs, common: &Common) -> Result<Self> {
        let FanoutArgs { readers, senders: sender_count, .. } = *options;
        let users = users("bench", readers);
        let connections = 2 * readers + sender_count;
        let subject = Subject::unlimited(common, connections).await?;
        let (chats, members, kind) = (1, readers, ChatKind::Group);
        let layout = Layout { users: readers, chats, members, kind };
        let chat = Chats::make(&subject, layout, &users).await?;
        let epoch = Epoch::begin();
        let mut senders = Fleet::new(epoch, 1);
        let devices: Vec<_> = (0..sender_count).map(|index| format!("sender-{index}")).collect();
        let tokens = devices.iter().map(|device| token(&subject, &users[0], device));
        let plan = DialPlan::in_order(&subject, &tokens.collect::<Result<Vec<_>>>()?)?;
        let content = content(options.content)?;
        let mut voices = Vec::with_capacity(sender_count);
        for opened in plan.open("connect senders").await? {
            let letter = Letter::new(chat.ids[0], &content, Naming::Ulid)?;
            voices.push(senders.add_sender(opened, vec![letter]));
        }
        let pushers = Pushers::Senders(Senders { senders: voices, hearers: readers as u64 });
        let fleet = Fleet::new(epoch, if options.saturate { 10 } else { 1 });
        let readers = Side::with("connect readers", subject, &users, fleet, pushers).await?;
        Ok(Self { readers, senders, chat, users })
    }

    async fn window(&self, load: Load) -> Result<(Window, Sent)> {
        let counters = self.senders.counters();
        counters.take_ack_latency();
        let tallies = |counters: &Counters| {
            [Tally::Sent, Tally::Acks, Tally::Refusals].map(|tally| counters.get(tally))
        };
        let before = tallies(counters);
        let stored_before = self.stored().await?;
        let window = self.readers.window(load).await?;
        let deadline = Clock::system().now() + ACKS_WITHIN;
        let answered = |[_, acks, refusals]: [u64; 3]| acks + refusals;
        while answered(tallies(counters)) < counters.get(Tally::Sent)
            && Clock::system().now() < deadline
        {
            sleep(LOOK_EVERY).await;
        }
        let after = tallies(counters);
        let sent = Sent {
            sent: after[0] - before[0],
            acknowledged: after[1] - before[1],
            refusals: after[2] - before[2],
            stored: self.stored().await? - stored_before,
            ack_latency: counters.take_ack_latency(),
        };
        Ok((window, sent))
    }

    async fn stored(&self) -> Result<u64> {
        self.chat.stored(&self.readers.subject, &self.users).await
    }
}

fn token(subject: &Subject, user: &str, device: &str) -> Result<String> {
    subject.signer.as_ref().context("only a server has devices")?.device(user, device)
}

/// As many sockets of the bare loop, which are written frames of the same bytes.
async fn bare_side(options: &FanoutArgs, users: &[String]) -> Result<Side> {
    let text = message_frame(options.content)?;
    let template = Template::bare(0, users.len(), &text, CONTENT_MARKER)?;
    let count = if options.saturate { options.in_flight.min(64) as usize } else { BARE_LANES };
    let pushers = Pushers::Lanes { templates: vec![template], count };
    let fleet = Fleet::new(Epoch::begin(), if options.saturate { 10 } else { 1 });
    Side::with("connect to the bare loop", Subject::bare()?, users, fleet, pushers).await
}

/// A message as the server would push it.
fn message_frame(content_bytes: usize) -> Result<String> {
    let wall = Clock::system().wall();
    let message = Message {
        chat_id: ChatId(Ulid(rand::random())),
        sequence: 1000,
        message_id: MessageId(Ulid(rand::random())),
        sender_id: "bench-0".parse()?,
        client_message_id: Naming::Ulid.name().parse()?,
        content: content(content_bytes)?,
        content_type: DEFAULT_CONTENT_TYPE.to_owned(),
        created_at: wall,
        deleted: false,
    };
    Ok(encode_server(&ServerFrame::Message(message), wall))
}

async fn alternate(
    room: &Room,
    bare: &Side,
    pacing: Pacing,
    seconds: Duration,
) -> Result<(Window, Sent, Window)> {
    let progress = Progress::begin("send to both in turn", 2 * u64::from(ROUNDS));
    let done = AtomicU64::new(0);
    let work = async {
        let warm_up = Load { pacing, duration: WARM_UP };
        room.window(warm_up).await?;
        bare.window(warm_up).await?;
        let load = Load { pacing, duration: seconds / ROUNDS };
        let (mut heard, mut sent, mut bare_heard) =
            (Window::empty(), Sent::none(), Window::empty());
        for _ in 0..ROUNDS {
            let (window, its_sent) = room.window(load).await?;
            heard.add(&window);
            sent.add(&its_sent);
            done.fetch_add(1, Ordering::Relaxed);
            bare_heard.add(&bare.window(load).await?);
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok((heard, sent, bare_heard))
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await
}

impl Sent {
    fn none() -> Self {
        Self { sent: 0, acknowledged: 0, stored: 0, refusals: 0, ack_latency: new_histogram() }
    }

    fn add(&mut self, later: &Self) {
        self.sent += later.sent;
        self.acknowledged += later.acknowledged;
        self.stored += later.stored;
        self.refusals += later.refusals;
        self.ack_latency.add(&later.ack_latency).expect("all histograms have the same bounds");
    }

    fn errors(&self, name: &str) -> Option<String> {
        let Self { sent, acknowledged, stored, refusals, .. } = self;
        let is_good = sent == acknowledged && acknowledged == stored && *refusals == 0;
        (!is_good).then(|| {
            format!(
                "{name}: {sent} sent, {acknowledged} acknowledged, {stored} stored, {refusals} \
                 refused"
            )
        })
    }
}

fn fill(report: &mut Report, saturate: bool, heard: &Window, sent: &Sent, bare: &Window) {
    report.figure("messages", "", Some(sent.acknowledged as f64), None);
    report.figure("deliveries", "", Some(heard.delivered as f64), Some(bare.delivered as f64));
    report.figure(
        "deliveries per second",
        "/s",
        Some(heard.deliveries_per_second()),
        Some(bare.deliveries_per_second()),
    );
    let cost = report.figure(
        "CPU per delivery",
        "µs",
        heard.cpu_micros_per_delivery(),
        bare.cpu_micros_per_delivery(),
    );
    cost.target(if saturate {
        Target::AtMost(SATURATED_MICROS_MAX)
    } else {
        Target::RatioAtMost(RATE_RATIO_MAX)
    });
    report.latency("commit", &sent.ack_latency, &new_histogram());
    report.latency("latency", &heard.latency, &bare.latency);
    let bounds = millis_at(&sent.ack_latency, 0.99).zip(millis_at(&bare.latency, 0.99));
    if let Some((commit, bare)) = bounds.filter(|_| !saturate) {
        report.aim("latency p99", Target::AtMost(commit + 2.0 * bare));
    }
    report.errors.extend(heard.errors("heartline"));
    report.errors.extend(sent.errors("heartline"));
    report.errors.extend(bare.errors("bare loop"));
}

/// The same once more, with devices in the room that never read.
async fn beside_stalled(
    report: &mut Report,
    room: &Room,
    stalled: usize,
    load: Load,
    without: &Sent,
) -> Result<()> {
    let subject = &room.readers.subject;
    let resident = || Ok::<_, anyhow::Error>(subject.usage()?.map(|usage| usage.rss_bytes));
    let rss_before = resident()?;
    let tokens = room.users.iter().take(stalled).map(|user| token(subject, user, "stalled"));
    let plan = DialPlan::in_order(subject, &tokens.collect::<Result<Vec<_>>>()?)?;
    let plan = plan.with_receive_buffer(STALLED_BUFFER_BYTES);
    let held = Stalled::hold(plan.open("connect stalled readers").await?);
    let (heard, sent) = room.window(load).await?;
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
    report.errors.extend(heard.errors("beside stalled readers"));
    report.errors.extend(sent.errors("beside stalled readers"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::walker::{Word, intended_nanos, word};
    use super::*;

    #[test]
    fn the_bare_loop_writes_what_a_reader_takes_for_a_message() {
        let frame = message_frame(300).unwrap();
        assert_eq!(word(frame.as_bytes()), Word::Delivery);
        assert_eq!(intended_nanos(frame.as_bytes()), Some(0));
    }

    #[test]
    fn what_is_not_acknowledged_or_not_stored_is_an_error() {
        let mut all = Sent::none();
        all.add(&Sent { sent: 5, acknowledged: 5, stored: 5, ..Sent::none() });
        assert_eq!(all.errors("room"), None);
        all.add(&Sent { sent: 5, acknowledged: 4, stored: 5, refusals: 1, ..Sent::none() });
        let error = all.errors("room").unwrap();
        assert_eq!(error, "room: 10 sent, 9 acknowledged, 10 stored, 1 refused");
    }
}
