//! `bench party`: what it costs that everybody in a session edits one queue and sees every edit.
//!
//! All members of every session edit and listen. First each answer is followed by the next edit,
//! which finds the most; then edits are due at fixed moments, at half of that. In the end every
//! member's copy, made of events alone, must be the session.

mod member;
mod part;
mod replica;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, stream};
use hdrhistogram::Histogram;
use heartline_engines::{Postgres, Redis};
use heartline_routing::Clock;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::member::{Circle, Ear, Member};
use self::part::{OWN_ITEMS_MIN, Part};
use super::child::{Footing, Meeting, random_secret};
use super::counters::{Counters, Epoch, Tally};
use super::load::{Load, Pacing, Pusher, drive};
use super::progress::Progress;
use super::report::{Report, Target, new_histogram};
use super::subject::Subject;
use super::{Common, PartyArgs, machine};

/// How long sessions are edited before anything is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Sessions that are entered at once.
const CONCURRENCY: usize = 16;
/// How long arrivals may pause before the rest is given up as lost.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Faults that are told in words.
const FAULTS_SHOWN: usize = 5;
/// Committed edits per second, with Redis.
const PER_SECOND_MIN: f64 = 2000.0;
/// Until everyone has heard an edit, in milliseconds.
const EVERYONE_P99_MAX: f64 = 50.0;

/// Nodes, what they stand on, and everybody who is connected to them.
struct Crowd {
    sessions: Vec<Vec<Arc<Member>>>,
    editors: Editors,
    counters: Arc<Counters>,
    nodes: Vec<Subject>,
    redis: Option<Arc<Redis>>,
    _postgres: Option<Postgres>,
    /// Dropping it ends the tasks, and with them the sockets.
    _ears: JoinSet<()>,
}

/// All members, told to edit in turn: neighbours are in different sessions.
#[derive(Debug, Clone)]
struct Editors {
    members: Vec<Arc<Member>>,
    hearers: u64,
}

/// What one window measured.
struct Window {
    sent: u64,
    acknowledged: u64,
    /// By how much all sequences have grown.
    committed: u64,
    delivered: u64,
    hearers: u64,
    refusals: u64,
    closed: u64,
    elapsed: Duration,
    cpu: Duration,
    redis_cpu: Option<Duration>,
    ack_latency: Histogram<u64>,
    everyone: Histogram<u64>,
}

/// Measures edits of sessions.
pub(super) async fn run(options: &PartyArgs, common: &Common) -> Result<Report> {
    ensure!(common.url.is_none(), "the nodes are the run's own: give no --url");
    let PartyArgs { sessions, members, queue, nodes, seconds, .. } = *options;
    ensure!(sessions > 0 && members > 0 && nodes > 0, "--sessions, --members, --nodes: at least 1");
    ensure!(seconds > 0 && options.in_flight > 0, "--seconds, --in-flight: at least 1");
    ensure!(nodes == 1 || options.redis, "several nodes need --redis");
    let (fewest, most) = (members * OWN_ITEMS_MIN, 500 - members.min(500));
    ensure!((fewest..=most).contains(&queue), "--queue must be {fewest} to {most}");
    machine::require_open_files(sessions * members)?;
    let crowd = Crowd::gather(options).await?;
    let lasts = Duration::from_secs(seconds);
    crowd.closed_loop(options.in_flight, WARM_UP).await?;
    let saturated = crowd.closed_loop(options.in_flight, lasts).await?;
    let offered = options.rate.map_or((saturated.per_second() / 2.0).max(1.0), f64::from);
    let paced = crowd.open_loop(offered, lasts).await?;

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
        report.aim("saturated: committed edits per second", Target::AtLeast(PER_SECOND_MIN));
    }
    report.figure("paced: offered edits per second", "/s", Some(offered), None);
    fill(&mut report, "paced", &paced);
    report.aim("paced: edit to everyone p99", Target::AtMost(EVERYONE_P99_MAX));
    let refusals = crowd.counters.refusals();
    report.errors.extend(refusals.iter().map(|refusal| format!("refused: {refusal}")));
    let faults = crowd.check().await;
    report.figure("copies that differ", "", Some(faults.len() as f64), None);
    report.errors.extend(faults.into_iter().take(FAULTS_SHOWN));
    Ok(report)
}

impl Crowd {
    async fn gather(options: &PartyArgs) -> Result<Self> {
        let (mut footing, mut engines) = (Footing::default(), (None, None));
        if options.redis {
            let start = tokio::task::spawn_blocking(|| (Redis::start(), Postgres::start()));
            let (redis, postgres) =
                start.await.context("Redis and PostgreSQL must be installed")?;
            let (redis_url, key_prefix) = (redis.url(), "party:".to_owned());
            footing.store_url = Some(postgres.fresh_database());
            footing.meeting = Some(Meeting { redis_url, key_prefix, secret: random_secret() });
            engines = (Some(Arc::new(redis)), Some(postgres));
        }
        let PartyArgs { sessions: count, members, .. } = *options;
        let secret = random_secret();
        let mut nodes = Vec::with_capacity(options.nodes);
        for _ in 0..options.nodes {
            nodes.push(Subject::node(&footing, &secret, count * members).await?);
        }
        let counters = Counters::new(Epoch::begin());
        let (progress, entered) =
            (Progress::begin("enter the sessions", count as u64), AtomicU64::new(0));
        let mut entering = stream::iter(0..count)
            .map(|session| enter(&nodes, session, options, &counters))
            .buffered(CONCURRENCY);
        let (mut ears, mut sessions) = (JoinSet::new(), Vec::with_capacity(count));
        let work = async {
            while let Some(session) = entering.next().await {
                // Whoever is in must answer pings while the others are still on their way.
                let (members, heard): (Vec<_>, Vec<_>) = session?.into_iter().unzip();
                heard.into_iter().for_each(|ear: Ear| drop(ears.spawn(ear.run())));
                sessions.push(members);
                entered.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        };
        progress.watch(|| entered.load(Ordering::Relaxed), Box::pin(work)).await?;
        drop(entering);
        let places = (0..members).flat_map(|place| sessions.iter().map(move |all| &all[place]));
        let editors = Editors { members: places.cloned().collect(), hearers: members as u64 };
        let (redis, postgres) = engines;
        Ok(Self { sessions, editors, counters, nodes, redis, _postgres: postgres, _ears: ears })
    }

    /// Each answer is followed by the next edit, for a while.
    async fn closed_loop(&self, in_flight: u64, lasts: Duration) -> Result<Window> {
        self.window(async || {
            let epoch = self.counters.epoch();
            self.counters.repeat_until(epoch.nanos() + lasts.as_nanos() as u64);
            self.editors.members.iter().for_each(|member| member.edit(in_flight, epoch.nanos()));
            sleep(lasts).await;
            Ok(())
        })
        .await
    }

    /// An edit is due at fixed moments, whatever became of those before.
    async fn open_loop(&self, per_second: f64, lasts: Duration) -> Result<Window> {
        self.window(async || {
            let pacing = Pacing::Rate { pushes_per_second: per_second };
            let load = Load { pacing, duration: lasts };
            let lanes: Vec<Box<dyn Pusher>> = vec![Box::new(self.editors.clone())];
            drive(lanes, load, self.counters.epoch(), &self.counters).await.map(drop)
        })
        .await
    }

    /// Edits, waits until everything is answered and heard, and counts.
    async fn window(&self, edit: impl AsyncFnOnce() -> Result<()>) -> Result<Window> {
        self.counters.take_latency();
        self.counters.take_ack_latency();
        let (before, sequences_before) = (self.tallies(), self.sequences());
        let (cpu_before, redis_before) = (self.cpu()?, self.redis_cpu().await?);
        let started = Clock::system().now();
        edit().await?;
        self.wait_until_heard(before).await;
        let elapsed = Clock::system().now() - started;
        let (cpu, redis_after) = (self.cpu()?, self.redis_cpu().await?);
        let after = self.tallies();
        let [sent, acknowledged, refusals, delivered] =
            std::array::from_fn(|index| after[index] - before[index]);
        let redis_cpu = redis_after.zip(redis_before);
        Ok(Window {
            sent,
            acknowledged,
            committed: self.sequences() - sequences_before,
            delivered,
            hearers: self.editors.hearers,
            refusals,
            closed: self.counters.get(Tally::Closed),
            elapsed,
            cpu: cpu.saturating_sub(cpu_before),
            redis_cpu: redis_cpu.map(|(after, before)| after.saturating_sub(before)),
            ack_latency: self.counters.take_ack_latency(),
            everyone: self.counters.take_latency(),
        })
    }

    /// Gives up only when nothing came for a while: a loss is reported, not waited for.
    async fn wait_until_heard(&self, before: [u64; 4]) {
        let mut last = (self.tallies(), Clock::system().now());
        loop {
            let [sent, acks, refusals, heard]: [u64; 4] =
                std::array::from_fn(|index| last.0[index] - before[index]);
            let is_complete = acks + refusals >= sent && heard >= acks * self.editors.hearers;
            if is_complete || Clock::system().now() - last.1 >= QUIET_MAX {
                return;
            }
            sleep(LOOK_EVERY).await;
            let now = self.tallies();
            if now != last.0 {
                last = (now, Clock::system().now());
            }
        }
    }

    fn tallies(&self) -> [u64; 4] {
        let tallies = [Tally::Sent, Tally::Acks, Tally::Refusals, Tally::Deliveries];
        tallies.map(|tally| self.counters.get(tally))
    }

    /// The sequences of all sessions together, as their first members know them.
    fn sequences(&self) -> u64 {
        self.sessions.iter().map(|members| members[0].sequence()).sum()
    }

    /// What all nodes have computed up to now.
    fn cpu(&self) -> Result<Duration> {
        let mut cpu = Duration::ZERO;
        for node in &self.nodes {
            cpu += node.usage()?.context("the nodes are on this machine")?.cpu;
        }
        Ok(cpu)
    }

    /// What Redis has computed up to now, by its own words.
    async fn redis_cpu(&self) -> Result<Option<Duration>> {
        let Some(redis) = self.redis.clone() else { return Ok(None) };
        let info = tokio::task::spawn_blocking(move || redis.command(&["INFO", "cpu"])).await?;
        cpu_of(&info).map(Some).context("Redis does not say what it has computed")
    }

    /// Compares every copy with its session.
    async fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (session, members) in self.sessions.iter().enumerate() {
            for (place, member) in members.iter().enumerate() {
                let whose = format!("session {session}, member {place}");
                let found = member.check(&session_id(session)).await;
                if !found.is_empty() {
                    faults.push(format!("{whose}: {}", found.join("; ")));
                }
            }
        }
        faults
    }
}

fn session_id(session: usize) -> String {
    format!("bench-{session}")
}

/// Everybody of one session, one after the other and each on another node than the one before.
async fn enter(
    nodes: &[Subject],
    session: usize,
    options: &PartyArgs,
    counters: &Arc<Counters>,
) -> Result<Vec<(Arc<Member>, Ear)>> {
    let PartyArgs { members, queue, .. } = *options;
    let part = |member| Part::new(session, member, queue / members);
    let mut seed: Option<Vec<_>> = Some(
        (0..members).flat_map(|member| part(member).first_items().collect::<Vec<_>>()).collect(),
    );
    let circle = Circle::new(members);
    let mut all = Vec::with_capacity(members);
    for member in 0..members {
        let node = &nodes[(session + member) % nodes.len()];
        let (id, part) = (session_id(session), part(member));
        let entered = Member::enter(node, &id, part, seed.take(), &circle, counters);
        all.push(entered.await.with_context(|| format!("session {session}, member {member}"))?);
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
        self.hearers
    }

    /// Does not wait: answers are counted where they arrive.
    fn push(&mut self, group: usize, intended_nanos: u64) -> Result<u64> {
        self.members[group].edit(1, intended_nanos);
        Ok(self.hearers)
    }
}

impl Window {
    fn per_second(&self) -> f64 {
        self.committed as f64 / self.elapsed.as_secs_f64()
    }

    /// What must not happen, if it did.
    fn errors(&self, name: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let Self { sent, acknowledged, committed, delivered, refusals, closed, .. } = self;
        let expected = acknowledged * self.hearers;
        if sent != acknowledged || acknowledged != committed || *delivered != expected {
            errors.push(format!(
                "{name}: {sent} edits, {acknowledged} acknowledged, {committed} committed, \
                 {delivered} of {expected} events"
            ));
        }
        if *refusals > 0 {
            errors.push(format!("{name}: {refusals} edits were refused"));
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
    report.latency(&format!("{name}: edit to everyone"), &window.everyone, &nothing);
    report.errors.extend(window.errors(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_that_somebody_did_not_hear_is_an_error() {
        let window = |committed, delivered| Window {
            sent: 10,
            acknowledged: 10,
            committed,
            delivered,
            hearers: 3,
            refusals: 0,
            closed: 0,
            elapsed: Duration::from_secs(2),
            cpu: Duration::ZERO,
            redis_cpu: None,
            ack_latency: new_histogram(),
            everyone: new_histogram(),
        };
        assert_eq!(window(10, 30).errors("a"), Vec::<String>::new());
        assert!((window(10, 30).per_second() - 5.0).abs() < 1e-9);
        assert!(window(10, 29).errors("a")[0].contains("29 of 30 events"));
        assert!(window(9, 30).errors("a")[0].contains("9 committed"));
    }

    #[test]
    fn the_cpu_of_redis_is_read_from_its_own_words() {
        let info = "# CPU\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.25\r\nused_cpu_sys_children:9\r\n";
        assert_eq!(cpu_of(info), Some(Duration::from_millis(1750)));
        assert_eq!(cpu_of("# CPU\r\n"), None);
    }
}
