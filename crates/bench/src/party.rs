//! `bench party`: CPU and latency of edits in party sessions.
//!
//! All members of every session edit and subscribe. A closed loop, in which each response is
//! followed by the next edit, finds the maximum rate; then an open loop runs at half of that rate.
//! At the end the copy that each member built from its events must be equal to the session.

mod member;
mod edits;
mod replica;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, stream};
use hdrhistogram::Histogram;
use heartline_engines::{Postgres, Redis};
use heartline_runtime::{Clock, TaskSet};
use tokio::time::sleep;

use self::edits::{EditScript, OWN_ITEMS_MIN};
use self::member::{EventTracker, Member, MemberReader};
use super::child::{Backends, ClusterConfig, random_secret};
use super::counters::{Counters, Epoch, Tally};
use super::load::{Load, Pacing, Pusher, drive};
use super::progress::Progress;
use super::report::{Report, Target, new_histogram};
use super::server_under_test::ServerUnderTest;
use super::{Common, PartyArgs, machine};

/// Duration of the load before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Number of sessions that are joined concurrently.
const CONCURRENCY: usize = 16;
/// Without an arrival for this long, missing deliveries count as lost.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often the counters are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Faults that are described in the report; the others are only counted.
const FAULTS_SHOWN: usize = 5;
/// The target for committed edits per second with Redis.
const PER_SECOND_MIN: f64 = 2000.0;
/// The target for the p99 until all members have received an edit, in milliseconds.
const ALL_MEMBERS_P99_MAX: f64 = 50.0;

/// Nodes, their engines and the connected members.
struct PartySetup {
    sessions: Vec<Vec<Arc<Member>>>,
    editors: Editors,
    counters: Arc<Counters>,
    nodes: Vec<ServerUnderTest>,
    redis: Option<Arc<Redis>>,
    _postgres: Option<Postgres>,
    /// Dropping the tasks closes the sockets.
    _readers: TaskSet<()>,
}

/// All members, which edit in turn; consecutive members are in different sessions.
#[derive(Debug, Clone)]
struct Editors {
    members: Vec<Arc<Member>>,
    members_per_session: u64,
}

/// The measurements of one window.
struct Window {
    sent: u64,
    acknowledged: u64,
    /// The growth of the sequences of all sessions.
    committed: u64,
    delivered: u64,
    members_per_session: u64,
    rejections: u64,
    closed: u64,
    elapsed: Duration,
    cpu: Duration,
    redis_cpu: Option<Duration>,
    ack_latency: Histogram<u64>,
    all_members_latency: Histogram<u64>,
}

/// Measures edits of sessions.
pub(super) async fn run(options: &PartyArgs, common: &Common) -> Result<Report> {
    ensure!(common.url.is_none(), "the scenario starts its own nodes: give no --url");
    let PartyArgs { sessions, members, queue, nodes, seconds, .. } = *options;
    ensure!(sessions > 0 && members > 0 && nodes > 0, "--sessions, --members, --nodes: at least 1");
    ensure!(seconds > 0 && options.in_flight > 0, "--seconds, --in-flight: at least 1");
    ensure!(nodes == 1 || options.redis, "several nodes need --redis");
    let (fewest, most) = (members * OWN_ITEMS_MIN, 500 - members.min(500));
    ensure!((fewest..=most).contains(&queue), "--queue must be {fewest} to {most}");
    machine::require_open_files(sessions * members)?;
    let setup = PartySetup::open(options).await?;
    let duration = Duration::from_secs(seconds);
    setup.closed_loop(options.in_flight, WARM_UP).await?;
    let saturated = setup.closed_loop(options.in_flight, duration).await?;
    let offered = options.rate.map_or((saturated.per_second() / 2.0).max(1.0), f64::from);
    let paced = setup.open_loop(offered, duration).await?;

    let mut report = Report::new("party");
    report.columns.baseline = "";
    report.parameter("sessions", sessions);
    report.parameter("members of each", members);
    report.parameter("items of each", queue);
    report.parameter("nodes", nodes);
    report.parameter("sessions in", if options.redis { "Redis" } else { "SQLite" });
    report.parameter("edits in flight of each member", options.in_flight);
    report.parameter("seconds of each loop", seconds);
    fill(&mut report, "saturated", &saturated);
    if options.redis && !cfg!(debug_assertions) {
        report.set_target("saturated: committed edits per second", Target::AtLeast(PER_SECOND_MIN));
    }
    report.figure("paced: offered edits per second", "/s", Some(offered), None);
    fill(&mut report, "paced", &paced);
    report.set_target("paced: edit to everyone p99", Target::AtMost(ALL_MEMBERS_P99_MAX));
    let rejections = setup.counters.rejections();
    report.errors.extend(rejections.iter().map(|rejection| format!("rejected: {rejection}")));
    let faults = setup.check().await;
    report.figure("copies that differ", "", Some(faults.len() as f64), None);
    report.errors.extend(faults.into_iter().take(FAULTS_SHOWN));
    Ok(report)
}

impl PartySetup {
    async fn open(options: &PartyArgs) -> Result<Self> {
        let (mut backends, mut engines) = (Backends::default(), (None, None));
        if options.redis {
            let start = heartline_runtime::blocking(|| (Redis::start(), Postgres::start()));
            let (redis, postgres) =
                start.await.context("starting Redis and PostgreSQL failed: are both installed?")?;
            let (redis_url, key_prefix) = (redis.url(), "party:".to_owned());
            backends.store_url = Some(postgres.fresh_database());
            backends.cluster =
                Some(ClusterConfig { redis_url, key_prefix, secret: random_secret() });
            engines = (Some(Arc::new(redis)), Some(postgres));
        }
        let PartyArgs { sessions: count, members, .. } = *options;
        let secret = random_secret();
        let mut nodes = Vec::with_capacity(options.nodes);
        for _ in 0..options.nodes {
            nodes.push(ServerUnderTest::start_node(&backends, &secret, count * members).await?);
        }
        let counters = Counters::new(Epoch::begin());
        let (progress, joined) =
            (Progress::begin("join the sessions", count as u64), AtomicU64::new(0));
        let mut joining = stream::iter(0..count)
            .map(|session| join_all(&nodes, session, options, &counters))
            .buffered(CONCURRENCY);
        let (mut readers, mut sessions) = (TaskSet::new(), Vec::with_capacity(count));
        let work = async {
            while let Some(session) = joining.next().await {
                // The readers of joined members answer pings while other members still join.
                let (members, member_readers): (Vec<_>, Vec<_>) = session?.into_iter().unzip();
                member_readers
                    .into_iter()
                    .for_each(|reader: MemberReader| drop(readers.spawn(reader.run())));
                sessions.push(members);
                joined.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        };
        progress.watch(|| joined.load(Ordering::Relaxed), Box::pin(work)).await?;
        drop(joining);
        let in_turn = (0..members).flat_map(|member| sessions.iter().map(move |all| &all[member]));
        let editors =
            Editors { members: in_turn.cloned().collect(), members_per_session: members as u64 };
        let (redis, postgres) = engines;
        Ok(Self {
            sessions,
            editors,
            counters,
            nodes,
            redis,
            _postgres: postgres,
            _readers: readers,
        })
    }

    /// Each response is followed by the next edit.
    async fn closed_loop(&self, in_flight: u64, duration: Duration) -> Result<Window> {
        self.window(async || {
            let epoch = self.counters.epoch();
            self.counters.repeat_until(epoch.nanos() + duration.as_nanos() as u64);
            self.editors.members.iter().for_each(|member| member.edit(in_flight, epoch.nanos()));
            sleep(duration).await;
            Ok(())
        })
        .await
    }

    /// Edits are due at fixed times, even if earlier ones are late.
    async fn open_loop(&self, per_second: f64, duration: Duration) -> Result<Window> {
        self.window(async || {
            let pacing = Pacing::Rate { pushes_per_second: per_second };
            let load = Load { pacing, duration };
            let pushers: Vec<Box<dyn Pusher>> = vec![Box::new(self.editors.clone())];
            drive(pushers, load, self.counters.epoch(), &self.counters).await.map(drop)
        })
        .await
    }

    /// Edits, waits until every edit has its response and events, and returns the measurements.
    async fn window(&self, edit: impl AsyncFnOnce() -> Result<()>) -> Result<Window> {
        self.counters.take_latency();
        self.counters.take_ack_latency();
        let (before, sequences_before) = (self.tallies(), self.sequences());
        let (cpu_before, redis_before) = (self.cpu()?, self.redis_cpu().await?);
        let started = Clock::system().now();
        edit().await?;
        self.wait_for_events(before).await;
        let elapsed = Clock::system().now() - started;
        let (cpu, redis_after) = (self.cpu()?, self.redis_cpu().await?);
        let after = self.tallies();
        let [sent, acknowledged, rejections, delivered] =
            std::array::from_fn(|index| after[index] - before[index]);
        let redis_cpu = redis_after.zip(redis_before);
        Ok(Window {
            sent,
            acknowledged,
            committed: self.sequences() - sequences_before,
            delivered,
            members_per_session: self.editors.members_per_session,
            rejections,
            closed: self.counters.get(Tally::Closed),
            elapsed,
            cpu: cpu.saturating_sub(cpu_before),
            redis_cpu: redis_cpu.map(|(after, before)| after.saturating_sub(before)),
            ack_latency: self.counters.take_ack_latency(),
            all_members_latency: self.counters.take_latency(),
        })
    }

    /// Returns early if nothing arrives for [`QUIET_MAX`], so that a loss is reported.
    async fn wait_for_events(&self, before: [u64; 4]) {
        let mut last = (self.tallies(), Clock::system().now());
        loop {
            let [sent, acks, rejections, events]: [u64; 4] =
                std::array::from_fn(|index| last.0[index] - before[index]);
            let is_complete =
                acks + rejections >= sent && events >= acks * self.editors.members_per_session;
            if is_complete || Clock::system().now() - last.1 >= QUIET_MAX {
                return;
            }
            sleep(POLL_INTERVAL).await;
            let now = self.tallies();
            if now != last.0 {
                last = (now, Clock::system().now());
            }
        }
    }

    fn tallies(&self) -> [u64; 4] {
        let tallies = [Tally::Sent, Tally::Acks, Tally::Rejections, Tally::Deliveries];
        tallies.map(|tally| self.counters.get(tally))
    }

    /// The sum of the sequences of all sessions, from the copies of their first members.
    fn sequences(&self) -> u64 {
        self.sessions.iter().map(|members| members[0].sequence()).sum()
    }

    /// The CPU time of all nodes so far.
    fn cpu(&self) -> Result<Duration> {
        let mut cpu = Duration::ZERO;
        for node in &self.nodes {
            cpu += node.usage()?.context("the process id of a node is not known")?.cpu;
        }
        Ok(cpu)
    }

    /// The CPU time of Redis so far, from `INFO`.
    async fn redis_cpu(&self) -> Result<Option<Duration>> {
        let Some(redis) = self.redis.clone() else { return Ok(None) };
        let info = heartline_runtime::blocking(move || redis.command(&["INFO", "cpu"])).await?;
        cpu_of(&info).map(Some).context("`INFO cpu` of Redis has no used_cpu_user or used_cpu_sys")
    }

    /// Compares every member's copy with its session.
    async fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (session, members) in self.sessions.iter().enumerate() {
            for (number, member) in members.iter().enumerate() {
                let name = format!("session {session}, member {number}");
                let found = member.check(&session_id(session)).await;
                if !found.is_empty() {
                    faults.push(format!("{name}: {}", found.join("; ")));
                }
            }
        }
        faults
    }
}

fn session_id(session: usize) -> String {
    format!("bench-{session}")
}

/// Connects all members of one session, one after the other, each to the next node.
async fn join_all(
    nodes: &[ServerUnderTest],
    session: usize,
    options: &PartyArgs,
    counters: &Arc<Counters>,
) -> Result<Vec<(Arc<Member>, MemberReader)>> {
    let PartyArgs { members, queue, .. } = *options;
    let script = |member| EditScript::new(session, member, queue / members);
    let mut seed: Option<Vec<_>> = Some(
        (0..members).flat_map(|member| script(member).first_items().collect::<Vec<_>>()).collect(),
    );
    let tracker = EventTracker::new(members);
    let mut all = Vec::with_capacity(members);
    for member in 0..members {
        let node = &nodes[(session + member) % nodes.len()];
        let (id, script) = (session_id(session), script(member));
        let joined = Member::join(node, &id, script, seed.take(), &tracker, counters);
        all.push(joined.await.with_context(|| format!("session {session}, member {member}"))?);
    }
    Ok(all)
}

/// `used_cpu_user` and `used_cpu_sys` of `INFO cpu` together.
fn cpu_of(info: &str) -> Option<Duration> {
    let value = |name: &str| {
        let line = info.lines().find_map(|line| line.trim().strip_prefix(name))?;
        line.strip_prefix(':')?.parse::<f64>().ok()
    };
    Some(Duration::from_secs_f64(value("used_cpu_user")? + value("used_cpu_sys")?))
}

impl Pusher for Editors {
    fn groups(&self) -> usize {
        self.members.len()
    }

    fn connections(&self, _: usize) -> u64 {
        self.members_per_session
    }

    /// Does not wait: the readers count the responses.
    fn push(&mut self, group: usize, intended_nanos: u64) -> Result<u64> {
        self.members[group].edit(1, intended_nanos);
        Ok(self.members_per_session)
    }
}

impl Window {
    fn per_second(&self) -> f64 {
        self.committed as f64 / self.elapsed.as_secs_f64()
    }

    /// The failures in this window, as texts for the report.
    fn errors(&self, name: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let Self { sent, acknowledged, committed, delivered, rejections, closed, .. } = self;
        let expected = acknowledged * self.members_per_session;
        if sent != acknowledged || acknowledged != committed || *delivered != expected {
            errors.push(format!(
                "{name}: {sent} edits, {acknowledged} acknowledged, {committed} committed, \
                 {delivered} of {expected} events"
            ));
        }
        if *rejections > 0 {
            errors.push(format!("{name}: {rejections} edits were rejected"));
        }
        if *closed > 0 {
            errors.push(format!("{name}: {closed} connections were closed by the server"));
        }
        errors
    }
}

fn fill(report: &mut Report, name: &str, window: &Window) {
    let per_second = |count: u64| Some(count as f64 / window.elapsed.as_secs_f64());
    let micros = |cpu: Duration, count: u64| cpu.as_secs_f64() * 1e6 / count as f64;
    let committed = window.committed;
    report.figure(
        format!("{name}: committed edits per second"),
        "/s",
        Some(window.per_second()),
        None,
    );
    let delivered = per_second(window.delivered);
    report.figure(format!("{name}: events delivered per second"), "/s", delivered, None);
    let cpu = Some(micros(window.cpu, committed));
    report.figure(format!("{name}: CPU of all nodes per edit"), "µs", cpu, None);
    let cpu = Some(micros(window.cpu, window.delivered));
    report.figure(format!("{name}: CPU of all nodes per event"), "µs", cpu, None);
    if let Some(redis_cpu) = window.redis_cpu {
        let cpu = Some(micros(redis_cpu, committed));
        report.figure(format!("{name}: CPU of Redis per edit"), "µs", cpu, None);
    }
    let nothing = new_histogram();
    report.latency(&format!("{name}: edit to answer"), &window.ack_latency, &nothing);
    report.latency(&format!("{name}: edit to everyone"), &window.all_members_latency, &nothing);
    report.errors.extend(window.errors(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_that_a_member_did_not_receive_is_an_error() {
        let window = |committed, delivered| Window {
            sent: 10,
            acknowledged: 10,
            committed,
            delivered,
            members_per_session: 3,
            rejections: 0,
            closed: 0,
            elapsed: Duration::from_secs(2),
            cpu: Duration::ZERO,
            redis_cpu: None,
            ack_latency: new_histogram(),
            all_members_latency: new_histogram(),
        };
        assert_eq!(window(10, 30).errors("a"), Vec::<String>::new());
        assert!((window(10, 30).per_second() - 5.0).abs() < 1e-9);
        assert!(window(10, 29).errors("a")[0].contains("29 of 30 events"));
        assert!(window(9, 30).errors("a")[0].contains("9 committed"));
    }

    #[test]
    fn the_cpu_time_of_redis_is_read_from_info() {
        let info = "# CPU\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.25\r\nused_cpu_sys_children:9\r\n";
        assert_eq!(cpu_of(info), Some(Duration::from_millis(1750)));
        assert_eq!(cpu_of("# CPU\r\n"), None);
    }
}
