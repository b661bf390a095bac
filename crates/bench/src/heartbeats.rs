//! `bench heartbeats`: what it costs Redis to keep connections alive.
//!
//! Four layouts take turns on one Redis: Heartline's leases, with everything that a node does to
//! keep them, through the directory's own code; and three that it is compared with, as bare bytes.
//! What counts is the CPU of Redis per renewed connection, because Redis is what nodes share.

mod baseline;
mod crowd;
mod queries;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_engines::Redis;
use heartline_routing::Clock;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use self::baseline::{Baseline, Baselines};
use self::crowd::{Crowd, RENEW_INTERVAL, SHARDS, SWEEP_INTERVAL};
use self::queries::{Asker, Beside, Compared};
use self::wire::{Info, Wire};
use super::progress::Progress;
use super::report::{Columns, Report, Target, millis_at};
use super::{Common, HeartbeatsArgs};

/// How long a layout has its turn. All four take less than the five seconds after which shards
/// that nobody sweeps are rebuilt.
const TURN: Duration = Duration::from_millis(900);
/// How long the queries run before they are recorded, after each change.
const SETTLE: Duration = Duration::from_millis(300);
/// Windows of queries, beside renewals and without in turn.
const QUERY_ROUNDS: u32 = 5;
/// Users whom queries are about.
const ASKED_USERS: usize = 10_000;
/// Without a renewal for so long, two were missed and the third is about due.
const SILENCE: Duration = Duration::from_secs(14);
/// Sweeps whose cost is averaged.
const SWEEPS: u32 = 50;
/// How often in a second of churn some reconnect: all together one hundredth of the connections.
const CHURN_PER_SECOND: usize = 100;

/// The CPU of Redis against that of the documents' transaction.
const CPU_RATIO_MAX: f64 = 1.0 / 8.0;
/// Renewals each second.
const PER_SECOND_MIN: f64 = 300_000.0;
/// What renewals may add to the 99th percentile of a query, in milliseconds.
const ADDED_P99_MAX: f64 = 1.0;
/// The CPU of Redis for the sweep of a shard in which nothing ran out, in microseconds.
const SWEEP_MICROS_MAX: f64 = 1000.0;
/// Bytes of all keys of a connection.
const CONNECTION_BYTES_MAX: f64 = 1536.0;
/// Memory after churn, against before.
const CHURN_RATIO_MAX: f64 = 1.05;

/// The Redis that is measured.
struct Engine {
    url: String,
    /// What all keys of this run begin with.
    prefix: String,
    wire: Wire,
    /// Absent when the user has named one.
    private: Option<Redis>,
}

/// What some renewals cost.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    renewals: u64,
    cpu: Duration,
    elapsed: Duration,
}

/// What is measured with leases.
struct Measured {
    before: Info,
    registered: Info,
    ours: Cost,
    baselines: [Cost; 3],
    compared: Compared,
    sweep_micros: f64,
    live_after_silence: u64,
    churned: u64,
    before_churn: Info,
    after_churn: Info,
    held: Option<Held>,
    end: Info,
}

/// What was measured while very many leases were held.
struct Held {
    leases: usize,
    renewals_per_second: f64,
    cpu_share: f64,
    sweep_micros: f64,
}

/// Measures what it costs Redis to keep connections alive.
pub(super) async fn run(options: &HeartbeatsArgs, common: &Common) -> Result<Report> {
    ensure!(common.url.is_none(), "heartbeats are measured without a server: give no --url");
    let HeartbeatsArgs { connections, seconds, leases, churn, .. } = *options;
    ensure!(connections >= 100 && seconds > 0, "--connections: at least 100; --seconds: 1");
    ensure!(leases.is_none_or(|leases| leases >= connections), "--leases: at least -n");
    let mut engine = Engine::start(options.redis.as_deref()).await?;
    let mut report = Report::new("heartbeats");
    report.columns = Columns { value: "heartline", baseline: "compared" };
    report.parameter("connections", connections);
    report.parameter("seconds of each layout", seconds);
    if let Some(leases) = leases {
        report.parameter("leases held", leases);
    }
    report.parameter("churn", humantime::format_duration(churn).to_string());
    let measured = measure(options, &mut engine).await?;
    report.parameter("Redis", measured.before.version());
    let whose = if engine.private.is_some() { "private" } else { "given" };
    report.parameter("server", whose);
    fill(&mut report, connections, &measured)?;
    Ok(report)
}

async fn measure(options: &HeartbeatsArgs, engine: &mut Engine) -> Result<Measured> {
    let seconds = Duration::from_secs(options.seconds);
    let crowd = Crowd::gather(&engine.url, &engine.prefix).await?;
    let before = engine.wire.info().await?;
    let kept = crowd.keep();
    grow(&crowd, options.connections).await?;
    let registered = engine.wire.info().await?;
    let mut baselines = Baselines::new(&format!("{}baseline:", engine.prefix), options.connections);
    baselines.prepare(&mut engine.wire).await?;
    drop(kept);
    let (ours, compared_with) = take_turns(&crowd, &mut baselines, engine, seconds).await?;
    baselines.remove(&mut engine.wire).await?;
    let compared = ask_beside(&crowd, engine, seconds).await?;
    let live_after_silence = fall_silent(&crowd).await?;
    let sweep_micros = sweep_micros(&crowd, engine).await?;
    let before_churn = engine.wire.info().await?;
    let churned = reconnect_for(&crowd, options.churn).await?;
    let after_churn = engine.wire.info().await?;
    let held = match options.leases {
        Some(leases) => Some(hold(&crowd, engine, leases, seconds).await?),
        None => None,
    };
    let end = engine.wire.info().await?;
    if engine.private.is_none() {
        crowd.leave(&engine.prefix, &mut engine.wire).await?;
    }
    Ok(Measured {
        before,
        registered,
        ours,
        baselines: compared_with,
        compared,
        sweep_micros,
        live_after_silence,
        churned,
        before_churn,
        after_churn,
        held,
        end,
    })
}

impl Engine {
    async fn start(given: Option<&str>) -> Result<Self> {
        let (url, prefix, private) = match given {
            Some(url) => (url.to_owned(), format!("bench:{:08x}:", rand::random::<u32>()), None),
            None => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let is_there = |directory: PathBuf| directory.join("redis-server").exists();
                ensure!(
                    std::env::split_paths(&path).any(is_there),
                    "redis-server is not installed: install it, or give --redis URL"
                );
                let redis = tokio::task::spawn_blocking(Redis::start).await?;
                (redis.url(), String::new(), Some(redis))
            }
        };
        let wire = Wire::connect(&url).await?;
        Ok(Self { url, prefix, wire, private })
    }

    async fn cpu(&mut self) -> Result<Duration> {
        self.wire.info().await?.cpu()
    }
}

async fn grow(crowd: &Crowd, connections: usize) -> Result<()> {
    let progress = Progress::begin("register connections", connections as u64);
    progress.watch(|| crowd.len() as u64, crowd.grow_to(connections)).await
}

/// Each layout has a short turn after the other, so that the machine's own moods fall on all.
async fn take_turns(
    crowd: &Crowd,
    baselines: &mut Baselines,
    engine: &mut Engine,
    seconds: Duration,
) -> Result<(Cost, [Cost; 3])> {
    let (mut ours, mut others) = (Cost::default(), [Cost::default(); 3]);
    let rounds = seconds.as_millis().div_ceil(TURN.as_millis()) as u64;
    let progress = Progress::begin("renew in turn", rounds);
    let done = AtomicU64::new(0);
    let work = async {
        // The first round warms up.
        for round in 0..=rounds {
            let mut cost = our_turn(crowd, engine).await?;
            if round > 0 {
                ours.add(cost);
            }
            for baseline in Baseline::ALL {
                cost = their_turn(baselines, baseline, engine).await?;
                crowd.sweep().await?;
                if round > 0 {
                    others[baseline as usize].add(cost);
                }
            }
            done.store(round, Ordering::Relaxed);
        }
        anyhow::Ok(())
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await?;
    crowd.renew_all().await?;
    Ok((ours, others))
}

async fn our_turn(crowd: &Crowd, engine: &mut Engine) -> Result<Cost> {
    let (cpu_before, began) = (engine.cpu().await?, Clock::system().now());
    let mut renewals = 0;
    while Clock::system().now() - began < TURN {
        // Two slices at a time, as of two nodes: Redis has work while one of them composes.
        let (one, other) = tokio::try_join!(crowd.tick(), crowd.tick())?;
        renewals += one + other;
    }
    let elapsed = Clock::system().now() - began;
    Ok(Cost { renewals, cpu: engine.cpu().await? - cpu_before, elapsed })
}

async fn their_turn(
    baselines: &mut Baselines,
    baseline: Baseline,
    engine: &mut Engine,
) -> Result<Cost> {
    let (cpu_before, began) = (engine.cpu().await?, Clock::system().now());
    let mut renewals = 0;
    while Clock::system().now() - began < TURN {
        renewals += baselines.renew(baseline, &mut engine.wire).await?;
    }
    let elapsed = Clock::system().now() - began;
    Ok(Cost { renewals, cpu: engine.cpu().await? - cpu_before, elapsed })
}

/// Queries of another node, beside a node that renews in real time and beside nothing.
async fn ask_beside(crowd: &Arc<Crowd>, engine: &Engine, seconds: Duration) -> Result<Compared> {
    let asker = Asker::start(&engine.url, &engine.prefix, crowd.users(ASKED_USERS));
    let window = seconds / QUERY_ROUNDS;
    let progress = Progress::begin("query beside renewals", u64::from(QUERY_ROUNDS));
    let done = AtomicU64::new(0);
    let work = async {
        for _ in 0..QUERY_ROUNDS {
            crowd.renew_all().await?;
            crowd.tick().await?;
            for beside in [Beside::Nothing, Beside::Renewals] {
                let _kept = (beside == Beside::Renewals).then(|| crowd.keep());
                sleep(SETTLE).await;
                asker.set(beside);
                sleep(window).await;
                asker.set(Beside::Changing);
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        anyhow::Ok(())
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await?;
    asker.finish().await
}

/// Nothing is renewed for as long as two missed renewals take, while sweeps go on; then every
/// lease must still be there. Answers how many are.
async fn fall_silent(crowd: &Crowd) -> Result<u64> {
    crowd.tick().await?;
    // The first are renewed at once, the last when the machine has come to them: the silence counts
    // from the first, or it would be longer than a lease on a machine that is busy.
    let until: Instant = Clock::system().now() + SILENCE;
    crowd.renew_all().await?;
    let progress = Progress::begin("miss two renewals", SILENCE.as_secs());
    let remaining = || until.saturating_duration_since(Clock::system().now()).as_secs();
    let work = async {
        let mut ticks = interval(SWEEP_INTERVAL);
        while Clock::system().now() < until {
            ticks.tick().await;
            crowd.sweep().await?;
        }
        sleep_until(until).await;
        crowd.renew_all().await
    };
    let live = progress.watch(|| SILENCE.as_secs() - remaining(), Box::pin(work)).await;
    live.context("leases did not outlive two missed renewals")
}

/// What the sweep of a shard costs Redis when nothing ran out.
async fn sweep_micros(crowd: &Crowd, engine: &mut Engine) -> Result<f64> {
    crowd.sweep().await?;
    let before = engine.cpu().await?;
    for _ in 0..SWEEPS {
        crowd.sweep().await?;
    }
    let spent = engine.cpu().await? - before;
    Ok(spent.as_secs_f64() * 1e6 / f64::from(SWEEPS) / f64::from(SHARDS))
}

/// Connections end and come back for a while, all in turn, beside a node's own loops. Answers how
/// many did.
async fn reconnect_for(crowd: &Arc<Crowd>, lasts: Duration) -> Result<u64> {
    let _kept = crowd.keep();
    let until = Clock::system().now() + lasts;
    let progress = Progress::begin("reconnect", lasts.as_secs());
    let remaining = || until.saturating_duration_since(Clock::system().now()).as_secs();
    let work = async {
        let mut ticks = interval(Duration::from_secs(1) / CHURN_PER_SECOND as u32);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut churned = 0;
        while Clock::system().now() < until {
            ticks.tick().await;
            for _ in 0..(crowd.len() / CHURN_PER_SECOND / 100).max(1) {
                crowd.reconnect(churned).await?;
                churned += 1;
            }
        }
        Ok(churned as u64)
    };
    progress.watch(|| lasts.as_secs() - remaining(), Box::pin(work)).await
}

/// Holds very many leases in real time.
async fn hold(
    crowd: &Arc<Crowd>,
    engine: &mut Engine,
    leases: usize,
    seconds: Duration,
) -> Result<Held> {
    let kept = crowd.keep();
    grow(crowd, leases).await?;
    // Everybody is in the rhythm after one interval.
    sleep(RENEW_INTERVAL).await;
    let counts = || [&crowd.metrics.renewals, &crowd.metrics.leases_lost].map(|it| it.get());
    let (before, cpu_before, began) = (counts(), engine.cpu().await?, Clock::system().now());
    let progress = Progress::begin("hold leases", seconds.as_secs());
    progress.watch(|| (Clock::system().now() - began).as_secs(), sleep(seconds)).await;
    let (elapsed, cpu) = (Clock::system().now() - began, engine.cpu().await? - cpu_before);
    let after = counts();
    ensure!(after[1] == before[1], "{} of the leases held were lost", after[1] - before[1]);
    drop(kept);
    let sweep_micros = sweep_micros(crowd, engine).await?;
    let renewals_per_second = (after[0] - before[0]) as f64 / elapsed.as_secs_f64();
    let cpu_share = cpu.as_secs_f64() / elapsed.as_secs_f64() * 100.0;
    Ok(Held { leases: crowd.len(), renewals_per_second, cpu_share, sweep_micros })
}

impl Cost {
    fn add(&mut self, more: Self) {
        self.renewals += more.renewals;
        self.cpu += more.cpu;
        self.elapsed += more.elapsed;
    }

    fn micros(self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.renewals as f64
    }

    fn per_second(self) -> f64 {
        self.renewals as f64 / self.elapsed.as_secs_f64()
    }
}

fn fill(report: &mut Report, connections: usize, measured: &Measured) -> Result<()> {
    let ours = measured.ours;
    for (baseline, cost) in Baseline::ALL.iter().zip(measured.baselines) {
        let name = format!("Redis CPU per renewal, against {}", baseline.as_str());
        let figure = report.figure(name, "µs", Some(ours.micros()), Some(cost.micros()));
        if *baseline == Baseline::Transaction {
            figure.target(Target::RatioAtMost(CPU_RATIO_MAX));
        }
    }
    for (baseline, cost) in Baseline::ALL.iter().zip(measured.baselines) {
        let name = format!("renewals per second, against {}", baseline.as_str());
        let figure = report.figure(name, "/s", Some(ours.per_second()), Some(cost.per_second()));
        if *baseline == Baseline::Transaction {
            figure.target(Target::AtLeast(PER_SECOND_MIN));
        }
    }
    let beside = connections as f64 / RENEW_INTERVAL.as_secs_f64();
    report.figure("renewals per second beside queries", "/s", Some(beside), None);
    let Compared { idle, renewing } = &measured.compared;
    for (name, renewing, idle) in [
        ("presence query", &renewing.presence, &idle.presence),
        ("route lookup", &renewing.routes, &idle.routes),
    ] {
        report.latency(&format!("{name} beside renewals, and idle:"), renewing, idle);
        if let Some(idle) = millis_at(idle, 0.99) {
            let p99 = format!("{name} beside renewals, and idle: p99");
            report.aim(&p99, Target::AtMost(idle + ADDED_P99_MAX));
        }
    }
    let live = measured.live_after_silence as f64;
    let all = connections as f64;
    report.figure("live after two missed renewals, of", "", Some(live), Some(all));
    fill_footprint(report, all, measured)
}

fn fill_footprint(report: &mut Report, connections: f64, measured: &Measured) -> Result<()> {
    let sweep = Target::AtMost(SWEEP_MICROS_MAX);
    report.figure("Redis CPU per idle sweep of a shard", "µs", Some(measured.sweep_micros), None);
    report.aim("Redis CPU per idle sweep of a shard", sweep);
    let Measured { before, registered, before_churn, after_churn, .. } = measured;
    let bytes = (registered.memory_bytes()? - before.memory_bytes()?) / connections;
    let memory = report.figure("Redis memory per connection", "bytes", Some(bytes), None);
    memory.target(Target::AtMost(CONNECTION_BYTES_MAX));
    let keys = (registered.keys() - before.keys()) / connections;
    report.figure("keys per connection", "/connection", Some(keys), None);
    report.figure("reconnections", "", Some(measured.churned as f64), None);
    let mebibytes = |info: &Info| Ok::<_, anyhow::Error>(info.memory_bytes()? / f64::from(1 << 20));
    let (after, before) = (mebibytes(after_churn)?, mebibytes(before_churn)?);
    let memory =
        report.figure("Redis memory after them, and before", "MiB", Some(after), Some(before));
    memory.target(Target::RatioAtMost(CHURN_RATIO_MAX));
    let (after, before) = (after_churn.keys(), before_churn.keys());
    report.figure("keys after them, and before", "", Some(after), Some(before));
    if let Some(held) = &measured.held {
        report.figure("leases held", "", Some(held.leases as f64), None);
        let due = held.leases as f64 / RENEW_INTERVAL.as_secs_f64();
        let renewed = Some(held.renewals_per_second);
        report.figure("renewals per second of them, and due", "/s", renewed, Some(due));
        report.figure("CPU of Redis meanwhile", "%", Some(held.cpu_share), None);
        let name = "Redis CPU per idle sweep of a shard of them";
        report.figure(name, "µs", Some(held.sweep_micros), None).target(sweep);
    }
    let searches = |info: &Info| info.calls("keys") + info.calls("scan");
    let searches = searches(&measured.end) - searches(&measured.before);
    report.figure("KEYS and SCAN", "", Some(searches), None).target(Target::AtMost(0.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_several_turns_are_averaged_by_their_renewals() {
        let mut cost = Cost::default();
        let second = Duration::from_secs(1);
        cost.add(Cost { renewals: 100_000, cpu: second / 10, elapsed: second });
        cost.add(Cost { renewals: 300_000, cpu: second / 2, elapsed: second });
        assert!((cost.micros() - 1.5).abs() < 1e-9);
        assert!((cost.per_second() - 200_000.0).abs() < 1e-6);
    }
}
