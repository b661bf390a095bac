//! `bench cluster`: what it costs more that the members of a room are spread over several nodes.
//!
//! Two sides take turns on one Redis and one PostgreSQL of the run's own: several nodes, and one
//! node with as many users in the same rooms. A sender is one more device of a member, so every
//! message has exactly as many hearers as its room has members; each room has a sender on every
//! node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use heartline_durability::members::GROUP_MEMBERS_MAX;
use heartline_engines::{Postgres, Redis};
use heartline_protocol::server_frame::ChatKind;
use heartline_routing::Clock;
use tokio::time::sleep;

use super::child::{Footing, Meeting, random_secret};
use super::counters::{Epoch, Tally};
use super::dial::DialPlan;
use super::fleet::Fleet;
use super::layout::{Chats, Layout};
use super::letter::{Letter, Naming, content};
use super::load::{Load, Pacing, drive};
use super::progress::Progress;
use super::report::{Columns, Report, Target, new_histogram};
use super::sender::{Sender, Senders};
use super::side::users;
use super::subject::Subject;
use super::{ClusterArgs, Common, machine};

/// Windows of each side, taken in turn, so that the machine's own moods fall on both.
const ROUNDS: u32 = 4;
/// How long both sides are sent to before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// Handshakes under way at once.
const CONCURRENCY: usize = 32;
/// How long arrivals may pause before the rest is given up as lost.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// CPU of all nodes per delivery, against that of one node.
const CPU_RATIO_MAX: f64 = 1.3;

/// Nodes and everybody who is connected to them.
struct Side {
    nodes: Vec<Subject>,
    /// Those who read, by node.
    readers: Vec<Fleet>,
    /// Those who send, on all nodes.
    sending: Fleet,
    senders: Senders,
    chats: Chats,
    users: Vec<String>,
    epoch: Epoch,
}

/// What one or several windows measured.
struct Window {
    sent: u64,
    acknowledged: u64,
    stored: u64,
    refusals: u64,
    /// Arrivals at each node's readers, and how many there should have been.
    delivered: Vec<(u64, u64)>,
    closed: u64,
    elapsed: Duration,
    cpu: Duration,
    ack_latency: Histogram<u64>,
    latency: Histogram<u64>,
}

/// Measures rooms on several nodes beside the same rooms on one.
pub(super) async fn run(options: &ClusterArgs, common: &Common) -> Result<Report> {
    ensure!(common.url.is_none(), "the nodes are the run's own: give no --url");
    let ClusterArgs { nodes, sockets, room, rate, seconds, .. } = *options;
    ensure!(nodes >= 2 && rate > 0 && seconds > 0, "--nodes: at least 2; --rate, --seconds: 1");
    let most = GROUP_MEMBERS_MAX;
    ensure!((nodes..=most).contains(&room), "--room must be {nodes} to {most}");
    ensure!(
        sockets.is_multiple_of(room) && room.is_multiple_of(nodes),
        "--sockets must be a multiple of --room, and that of --nodes"
    );
    let rooms = sockets / room;
    machine::require_open_files(2 * (sockets + rooms * nodes))?;
    let engines = tokio::task::spawn_blocking(|| (Redis::start(), Postgres::start()));
    let (redis, postgres) = engines.await.context("Redis and PostgreSQL must be installed")?;
    let many = Side::open("connect to the cluster", options, nodes, &redis, &postgres).await?;
    let one = Side::open("connect to one node", options, 1, &redis, &postgres).await?;
    let (many, one) = alternate(&many, &one, options).await?;

    let mut report = Report::new("cluster");
    report.columns = Columns { value: "cluster", baseline: "one node" };
    report.parameter("nodes", nodes);
    report.parameter("sockets", sockets);
    report.parameter("members of a room", room);
    report.parameter("senders", rooms * nodes);
    report.parameter("deliveries per second", rate);
    report.parameter("seconds", seconds);
    report.parameter("content bytes", options.content);
    fill(&mut report, &many, &one);
    Ok(report)
}

impl Side {
    async fn open(
        label: &str,
        options: &ClusterArgs,
        node_count: usize,
        redis: &Redis,
        postgres: &Postgres,
    ) -> Result<Self> {
        let ClusterArgs { sockets, room, nodes: senders_of_room, .. } = *options;
        let meeting = Meeting {
            redis_url: redis.url(),
            key_prefix: format!("side-{node_count}:"),
            secret: random_secret(),
        };
        let footing =
            Footing { store_url: Some(postgres.fresh_database()), meeting: Some(meeting) };
        let secret = random_secret();
        let mut nodes = Vec::with_capacity(node_count);
        for _ in 0..node_count {
            nodes.push(Subject::node(&footing, &secret, 2 * sockets).await?);
        }
        let users = users("bench", sockets);
        let (chats, kind) = (sockets / room, ChatKind::Group);
        let layout = Layout { users: sockets, chats, members: room, kind };
        let chats = Chats::make(&nodes[0], layout, &users).await?;
        let epoch = Epoch::begin();
        let mut readers = Vec::with_capacity(node_count);
        for (number, node) in nodes.iter().enumerate() {
            let here: Vec<String> =
                users.iter().skip(number).step_by(node_count).cloned().collect();
            let mut fleet = Fleet::new(epoch, 1);
            let plan = DialPlan::new(node, &here, CONCURRENCY)?;
            plan.open_each(label, |opened| fleet.add(opened)).await?;
            readers.push(fleet);
        }
        let mut sending = Fleet::new(epoch, 1);
        let mut senders = Vec::new();
        for number in 0..senders_of_room {
            let node = &nodes[number % node_count];
            let its = add_senders(&mut sending, node, number, layout, &chats, &users, options);
            senders.extend(its.await?);
        }
        let senders = Senders { senders, hearers: room as u64 };
        Ok(Self { nodes, readers, sending, senders, chats, users, epoch })
    }

    async fn window(&self, load: Load) -> Result<Window> {
        let counters = self.sending.counters();
        counters.take_ack_latency();
        for fleet in &self.readers {
            fleet.counters().take_latency();
        }
        let stored_before = self.chats.stored(&self.nodes[0], &self.users).await?;
        let (before, heard_before) = (self.tallies(), self.heard());
        let (cpu_before, began) = (self.cpu()?, Clock.now());
        drive(vec![Box::new(self.senders.clone())], load, self.epoch, counters).await?;
        let heard = self.wait_until_heard(before, &heard_before).await;
        let (elapsed, cpu) = (Clock.now() - began, self.cpu()?.saturating_sub(cpu_before));
        let after = self.tallies();
        let acknowledged = after[1] - before[1];
        let expected = acknowledged * self.senders.hearers / self.nodes.len() as u64;
        let mut latency = new_histogram();
        for fleet in &self.readers {
            add(&mut latency, &fleet.counters().take_latency());
        }
        let arrived = heard.iter().zip(&heard_before).map(|(after, before)| after - before);
        let closed = |fleet: &Fleet| fleet.counters().get(Tally::Closed);
        Ok(Window {
            sent: after[0] - before[0],
            acknowledged,
            stored: self.chats.stored(&self.nodes[0], &self.users).await? - stored_before,
            refusals: after[2] - before[2],
            delivered: arrived.map(|arrived| (arrived, expected)).collect(),
            closed: self.readers.iter().map(closed).sum::<u64>() + closed(&self.sending),
            elapsed,
            cpu,
            ack_latency: counters.take_ack_latency(),
            latency,
        })
    }

    /// Gives up only when nothing came for a while: a loss is reported, not waited for.
    async fn wait_until_heard(&self, before: [u64; 3], heard_before: &[u64]) -> Vec<u64> {
        let mut last = (self.tallies(), self.heard(), Clock.now());
        loop {
            let ([sent, acks, refusals], heard, since) = &last;
            let is_answered = acks + refusals - before[1] - before[2] >= sent - before[0];
            let arrived: u64 = heard.iter().zip(heard_before).map(|(now, then)| now - then).sum();
            let is_heard = arrived >= (acks - before[1]) * self.senders.hearers;
            if (is_answered && is_heard) || Clock.now() - *since >= QUIET_MAX {
                return last.1;
            }
            sleep(LOOK_EVERY).await;
            let now = (self.tallies(), self.heard());
            if (&now.0, &now.1) != (&last.0, &last.1) {
                last = (now.0, now.1, Clock.now());
            }
        }
    }

    fn tallies(&self) -> [u64; 3] {
        let counters = self.sending.counters();
        [Tally::Sent, Tally::Acks, Tally::Refusals].map(|tally| counters.get(tally))
    }

    fn heard(&self) -> Vec<u64> {
        self.readers.iter().map(|fleet| fleet.counters().deliveries()).collect()
    }

    /// What all nodes have computed up to now.
    fn cpu(&self) -> Result<Duration> {
        let mut cpu = Duration::ZERO;
        for node in &self.nodes {
            cpu += node.usage()?.context("the nodes are on this machine")?.cpu;
        }
        Ok(cpu)
    }
}

/// One sender for each room, on one node: a further device of a member.
async fn add_senders(
    sending: &mut Fleet,
    node: &Subject,
    number: usize,
    layout: Layout,
    chats: &Chats,
    users: &[String],
    options: &ClusterArgs,
) -> Result<Vec<std::sync::Arc<Sender>>> {
    let signer = node.signer.as_ref().context("a node has a signer")?;
    let device = format!("sender-{number}");
    let member = |chat: usize| layout.members_of(chat).nth(number).unwrap_or(0);
    let tokens = (0..layout.chats).map(|chat| signer.device(&users[member(chat)], &device));
    let plan = DialPlan::in_order(node, &tokens.collect::<Result<Vec<_>>>()?)?;
    let content = content(options.content)?;
    let mut senders = Vec::with_capacity(layout.chats);
    for (chat, opened) in plan.open("connect senders").await?.into_iter().enumerate() {
        let letter = Letter::new(chats.ids[chat], &content, Naming::Ulid)?;
        senders.push(sending.add_sender(opened, vec![letter]));
    }
    Ok(senders)
}

async fn alternate(many: &Side, one: &Side, options: &ClusterArgs) -> Result<(Window, Window)> {
    let pushes_per_second = f64::from(options.rate) / options.room as f64;
    let pacing = Pacing::Rate { pushes_per_second };
    let progress = Progress::begin("send to both in turn", 2 * u64::from(ROUNDS));
    let done = AtomicU64::new(0);
    let work = async {
        let warm_up = Load { pacing, duration: WARM_UP };
        many.window(warm_up).await?;
        one.window(warm_up).await?;
        let load = Load { pacing, duration: Duration::from_secs(options.seconds) / ROUNDS };
        let (mut on_many, mut on_one) = (Window::empty(), Window::empty());
        for _ in 0..ROUNDS {
            for (side, total) in [(many, &mut on_many), (one, &mut on_one)] {
                total.add(side.window(load).await?);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok((on_many, on_one))
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await
}

fn add(total: &mut Histogram<u64>, more: &Histogram<u64>) {
    total.add(more).expect("all histograms have the same bounds");
}

impl Window {
    fn empty() -> Self {
        Self {
            sent: 0,
            acknowledged: 0,
            stored: 0,
            refusals: 0,
            delivered: Vec::new(),
            closed: 0,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            ack_latency: new_histogram(),
            latency: new_histogram(),
        }
    }

    fn add(&mut self, later: Self) {
        self.sent += later.sent;
        self.acknowledged += later.acknowledged;
        self.stored += later.stored;
        self.refusals += later.refusals;
        self.delivered.resize(later.delivered.len(), (0, 0));
        for ((delivered, expected), more) in self.delivered.iter_mut().zip(later.delivered) {
            *delivered += more.0;
            *expected += more.1;
        }
        self.closed = later.closed;
        self.elapsed += later.elapsed;
        self.cpu += later.cpu;
        add(&mut self.ack_latency, &later.ack_latency);
        add(&mut self.latency, &later.latency);
    }

    fn deliveries(&self) -> f64 {
        self.delivered.iter().map(|(delivered, _)| *delivered).sum::<u64>() as f64
    }

    fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.deliveries()
    }

    /// What must not happen, if it did.
    fn errors(&self, name: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let Self { sent, acknowledged, stored, refusals, closed, .. } = self;
        if sent != acknowledged || acknowledged != stored || *refusals > 0 {
            errors.push(format!(
                "{name}: {sent} sent, {acknowledged} acknowledged, {stored} stored, {refusals} \
                 refused"
            ));
        }
        for (node, (delivered, expected)) in self.delivered.iter().enumerate() {
            if delivered != expected {
                errors.push(format!("{name}, node {node}: {delivered} of {expected} delivered"));
            }
        }
        if *closed > 0 {
            errors.push(format!("{name}: {closed} connections were closed by the server"));
        }
        errors
    }
}

fn fill(report: &mut Report, many: &Window, one: &Window) {
    let messages = |window: &Window| Some(window.acknowledged as f64);
    report.figure("messages", "", messages(many), messages(one));
    let (on_many, on_one) = (many.deliveries(), one.deliveries());
    report.figure("deliveries", "", Some(on_many), Some(on_one));
    let per_second = |window: &Window| Some(window.deliveries() / window.elapsed.as_secs_f64());
    report.figure("deliveries per second", "/s", per_second(many), per_second(one));
    let (cost, baseline) = (Some(many.cpu_micros()), Some(one.cpu_micros()));
    let cost = report.figure("CPU of all nodes per delivery", "µs", cost, baseline);
    cost.target(Target::RatioAtMost(CPU_RATIO_MAX));
    report.latency("commit", &many.ack_latency, &one.ack_latency);
    report.latency("latency", &many.latency, &one.latency);
    report.errors.extend(many.errors("cluster"));
    report.errors.extend(one.errors("one node"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_did_not_deliver_is_an_error_although_the_sum_is_right() {
        let window = |delivered: Vec<(u64, u64)>| Window {
            sent: 2,
            acknowledged: 2,
            stored: 2,
            delivered,
            cpu: Duration::from_micros(40),
            ..Window::empty()
        };
        let mut total = Window::empty();
        total.add(window(vec![(10, 10), (10, 10)]));
        assert_eq!(total.errors("cluster"), Vec::<String>::new());
        total.add(window(vec![(9, 10), (11, 10)]));
        assert!((total.cpu_micros() - 2.0).abs() < 1e-9);
        let errors = total.errors("cluster");
        assert_eq!(errors.len(), 2);
        assert_eq!(errors[0], "cluster, node 0: 19 of 20 delivered");
    }
}
