//! `bench heartbeats`: CPU and memory of Redis for renewing leases.
//!
//! Four layouts alternate on one Redis: Heartline's leases, with all work of a node for its leases,
//! through the directory's own code; and three baselines, as bare bytes. The main figure is the CPU
//! of Redis per renewal, because all nodes share Redis.

mod baselines;
mod simulated_node;
mod queries;
mod redis_connection;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_engines::Redis;
use heartline_runtime::{Clock, Random};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use self::baselines::{Baseline, Baselines};
use self::queries::{Background, QueryLatencies, QueryThread};
use self::redis_connection::{Info, RedisConnection};
use self::simulated_node::{RENEW_INTERVAL, SHARDS, SWEEP_INTERVAL, SimulatedNode};
use super::progress::Progress;
use super::report::{Columns, Report, Target, millis_at};
use super::{Common, HeartbeatsArgs};

/// The window of a layout. All four windows together take less than the five seconds after which
/// shards that no node sweeps are rebuilt.
const WINDOW: Duration = Duration::from_millis(900);
/// Pause before queries are recorded, after each change of the other work of Redis.
const QUERY_WARM_UP: Duration = Duration::from_millis(300);
/// Pairs of query windows, without and with renewals.
const QUERY_ROUNDS: u32 = 5;
/// Number of users that are queried.
const QUERIED_USERS: usize = 10_000;
/// Time without renewals: two are missed and the third is almost due.
const RENEWAL_PAUSE: Duration = Duration::from_secs(14);
/// Number of sweeps whose cost is averaged.
const SWEEPS: u32 = 50;
/// Batches of reconnections per second of churn; together they are 1% of the connections.
const CHURN_PER_SECOND: usize = 100;

/// The target for the CPU of Redis per renewal, relative to the transaction.
const CPU_RATIO_MAX: f64 = 1.0 / 8.0;
/// The target for renewals per second.
const PER_SECOND_MIN: f64 = 300_000.0;
/// The target for the increase of a query's p99 by renewals, in milliseconds.
const ADDED_P99_MAX: f64 = 1.0;
/// The target for the CPU of Redis per sweep of a shard without expired leases, in microseconds.
const SWEEP_MICROS_MAX: f64 = 1000.0;
/// The target for the memory of all keys of a connection.
const CONNECTION_BYTES_MAX: f64 = 1536.0;
/// The target for memory after churn, relative to before.
const CHURN_RATIO_MAX: f64 = 1.05;

/// The Redis under test.
struct BenchRedis {
    url: String,
    /// The prefix of all keys of this run.
    prefix: String,
    connection: RedisConnection,
    /// None if the user has given a URL.
    private: Option<Redis>,
}

/// The cost of a number of renewals.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    renewals: u64,
    cpu: Duration,
    elapsed: Duration,
}

/// All measurements of a run.
struct Measured {
    before: Info,
    registered: Info,
    leases: Cost,
    baselines: [Cost; 3],
    queries: QueryLatencies,
    sweep_micros: f64,
    live_after_pause: u64,
    churned: u64,
    before_churn: Info,
    after_churn: Info,
    held: Option<Held>,
    end: Info,
}

/// The measurements while `--leases` leases were held.
struct Held {
    leases: usize,
    renewals_per_second: f64,
    cpu_share: f64,
    sweep_micros: f64,
}

/// Measures the renewal of leases in Redis.
pub(super) async fn run(options: &HeartbeatsArgs, common: &Common) -> Result<Report> {
    ensure!(common.url.is_none(), "heartbeats are measured without a server: give no --url");
    let HeartbeatsArgs { connections, seconds, leases, churn, .. } = *options;
    ensure!(connections >= 100 && seconds > 0, "--connections: at least 100; --seconds: 1");
    ensure!(leases.is_none_or(|leases| leases >= connections), "--leases: at least -n");
    let mut redis = BenchRedis::start(options.redis.as_deref()).await?;
    let mut report = Report::new("heartbeats");
    report.columns = Columns { value: "heartline", baseline: "compared" };
    report.parameter("connections", connections);
    report.parameter("seconds of each layout", seconds);
    if let Some(leases) = leases {
        report.parameter("leases held", leases);
    }
    report.parameter("churn", humantime::format_duration(churn).to_string());
    let measured = measure(options, &mut redis).await?;
    report.parameter("Redis", measured.before.version());
    let kind = if redis.private.is_some() { "private" } else { "given" };
    report.parameter("server", kind);
    fill(&mut report, connections, &measured)?;
    Ok(report)
}

async fn measure(options: &HeartbeatsArgs, redis: &mut BenchRedis) -> Result<Measured> {
    let seconds = Duration::from_secs(options.seconds);
    let node = SimulatedNode::open(&redis.url, &redis.prefix).await?;
    let before = redis.connection.info().await?;
    let loops = node.start_loops();
    grow(&node, options.connections).await?;
    let registered = redis.connection.info().await?;
    let mut baselines = Baselines::new(&format!("{}baseline:", redis.prefix), options.connections);
    baselines.prepare(&mut redis.connection).await?;
    drop(loops);
    let (leases, baseline_costs) = measure_renewals(&node, &mut baselines, redis, seconds).await?;
    baselines.remove(&mut redis.connection).await?;
    let queries = measure_queries(&node, redis, seconds).await?;
    let live_after_pause = pause_renewals(&node).await?;
    let sweep_micros = sweep_micros(&node, redis).await?;
    let before_churn = redis.connection.info().await?;
    let churned = reconnect_for(&node, options.churn).await?;
    let after_churn = redis.connection.info().await?;
    let held = match options.leases {
        Some(leases) => Some(hold(&node, redis, leases, seconds).await?),
        None => None,
    };
    let end = redis.connection.info().await?;
    if redis.private.is_none() {
        node.unregister_all(&redis.prefix, &mut redis.connection).await?;
    }
    Ok(Measured {
        before,
        registered,
        leases,
        baselines: baseline_costs,
        queries,
        sweep_micros,
        live_after_pause,
        churned,
        before_churn,
        after_churn,
        held,
        end,
    })
}

impl BenchRedis {
    async fn start(given: Option<&str>) -> Result<Self> {
        let (url, prefix, private) = match given {
            Some(url) => {
                (url.to_owned(), format!("bench:{:08x}:", Random::system().draw::<u32>()), None)
            }
            None => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let is_there = |directory: PathBuf| directory.join("redis-server").exists();
                ensure!(
                    std::env::split_paths(&path).any(is_there),
                    "redis-server is not installed: install it, or give --redis URL"
                );
                let redis = heartline_runtime::blocking(Redis::start).await?;
                (redis.url(), String::new(), Some(redis))
            }
        };
        let connection = RedisConnection::connect(&url).await?;
        Ok(Self { url, prefix, connection, private })
    }

    async fn cpu(&mut self) -> Result<Duration> {
        self.connection.info().await?.cpu()
    }
}

async fn grow(node: &SimulatedNode, connections: usize) -> Result<()> {
    let progress = Progress::begin("register connections", connections as u64);
    progress.watch(|| node.len() as u64, node.register_up_to(connections)).await
}

/// The layouts alternate in short windows, so that disturbances of the machine affect all.
async fn measure_renewals(
    node: &SimulatedNode,
    baselines: &mut Baselines,
    redis: &mut BenchRedis,
    seconds: Duration,
) -> Result<(Cost, [Cost; 3])> {
    let (mut leases, mut others) = (Cost::default(), [Cost::default(); 3]);
    let rounds = seconds.as_millis().div_ceil(WINDOW.as_millis()) as u64;
    let progress = Progress::begin("renew in alternation", rounds);
    let done = AtomicU64::new(0);
    let work = async {
        // The first round is a warm-up and is not counted.
        for round in 0..=rounds {
            let mut cost = measure_leases(node, redis).await?;
            if round > 0 {
                leases.add(cost);
            }
            for baseline in Baseline::ALL {
                cost = measure_baseline(baselines, baseline, redis).await?;
                node.sweep().await?;
                if round > 0 {
                    others[baseline as usize].add(cost);
                }
            }
            done.store(round, Ordering::Relaxed);
        }
        anyhow::Ok(())
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await?;
    node.renew_all().await?;
    Ok((leases, others))
}

async fn measure_leases(node: &SimulatedNode, redis: &mut BenchRedis) -> Result<Cost> {
    let (cpu_before, began) = (redis.cpu().await?, Clock::system().now());
    let mut renewals = 0;
    while Clock::system().now() - began < WINDOW {
        // Two ticks at a time, as of two nodes: Redis has work while one of them prepares commands.
        let (one, other) = tokio::try_join!(node.tick(), node.tick())?;
        renewals += one + other;
    }
    let elapsed = Clock::system().now() - began;
    Ok(Cost { renewals, cpu: redis.cpu().await? - cpu_before, elapsed })
}

async fn measure_baseline(
    baselines: &mut Baselines,
    baseline: Baseline,
    redis: &mut BenchRedis,
) -> Result<Cost> {
    let (cpu_before, began) = (redis.cpu().await?, Clock::system().now());
    let mut renewals = 0;
    while Clock::system().now() - began < WINDOW {
        renewals += baselines.renew(baseline, &mut redis.connection).await?;
    }
    let elapsed = Clock::system().now() - began;
    Ok(Cost { renewals, cpu: redis.cpu().await? - cpu_before, elapsed })
}

/// Queries of another node, on an idle Redis and beside a node that renews in real time.
async fn measure_queries(
    node: &Arc<SimulatedNode>,
    redis: &BenchRedis,
    seconds: Duration,
) -> Result<QueryLatencies> {
    let queries = QueryThread::start(&redis.url, &redis.prefix, node.users(QUERIED_USERS));
    let window = seconds / QUERY_ROUNDS;
    let progress = Progress::begin("query beside renewals", u64::from(QUERY_ROUNDS));
    let done = AtomicU64::new(0);
    let work = async {
        for _ in 0..QUERY_ROUNDS {
            node.renew_all().await?;
            node.tick().await?;
            for background in [Background::Idle, Background::Renewals] {
                let _loops = (background == Background::Renewals).then(|| node.start_loops());
                sleep(QUERY_WARM_UP).await;
                queries.set(background);
                sleep(window).await;
                queries.set(Background::Transition);
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        anyhow::Ok(())
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await?;
    queries.finish().await
}

/// Pauses renewals for as long as two missed renewals take, while sweeps continue. Every lease must
/// survive. Returns the number of live leases.
async fn pause_renewals(node: &SimulatedNode) -> Result<u64> {
    node.tick().await?;
    // On a busy machine the last leases are renewed much later than the first. The pause counts
    // from the first, or it could be longer than a lease.
    let until: Instant = Clock::system().now() + RENEWAL_PAUSE;
    node.renew_all().await?;
    let progress = Progress::begin("miss two renewals", RENEWAL_PAUSE.as_secs());
    let remaining = || until.saturating_duration_since(Clock::system().now()).as_secs();
    let work = async {
        let mut ticks = interval(SWEEP_INTERVAL);
        while Clock::system().now() < until {
            ticks.tick().await;
            node.sweep().await?;
        }
        sleep_until(until).await;
        node.renew_all().await
    };
    let live = progress.watch(|| RENEWAL_PAUSE.as_secs() - remaining(), Box::pin(work)).await;
    live.context("leases did not survive two missed renewals")
}

/// The CPU of Redis for the sweep of a shard without expired leases.
async fn sweep_micros(node: &SimulatedNode, redis: &mut BenchRedis) -> Result<f64> {
    node.sweep().await?;
    let before = redis.cpu().await?;
    for _ in 0..SWEEPS {
        node.sweep().await?;
    }
    let spent = redis.cpu().await? - before;
    Ok(spent.as_secs_f64() * 1e6 / f64::from(SWEEPS) / f64::from(SHARDS))
}

/// Ends and re-registers connections in turn, beside the node's loops. Returns how many.
async fn reconnect_for(node: &Arc<SimulatedNode>, duration: Duration) -> Result<u64> {
    let _loops = node.start_loops();
    let until = Clock::system().now() + duration;
    let progress = Progress::begin("reconnect", duration.as_secs());
    let remaining = || until.saturating_duration_since(Clock::system().now()).as_secs();
    let work = async {
        let mut ticks = interval(Duration::from_secs(1) / CHURN_PER_SECOND as u32);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut churned = 0;
        while Clock::system().now() < until {
            ticks.tick().await;
            for _ in 0..(node.len() / CHURN_PER_SECOND / 100).max(1) {
                node.reconnect(churned).await?;
                churned += 1;
            }
        }
        Ok(churned as u64)
    };
    progress.watch(|| duration.as_secs() - remaining(), Box::pin(work)).await
}

/// Holds `--leases` leases in real time.
async fn hold(
    node: &Arc<SimulatedNode>,
    redis: &mut BenchRedis,
    leases: usize,
    seconds: Duration,
) -> Result<Held> {
    let loops = node.start_loops();
    grow(node, leases).await?;
    // After one interval every lease has been renewed in its slice.
    sleep(RENEW_INTERVAL).await;
    let counts = || [&node.metrics.renewals, &node.metrics.leases_lost].map(|it| it.get());
    let (before, cpu_before, began) = (counts(), redis.cpu().await?, Clock::system().now());
    let progress = Progress::begin("hold leases", seconds.as_secs());
    progress.watch(|| (Clock::system().now() - began).as_secs(), sleep(seconds)).await;
    let (elapsed, cpu) = (Clock::system().now() - began, redis.cpu().await? - cpu_before);
    let after = counts();
    ensure!(after[1] == before[1], "{} of the leases held were lost", after[1] - before[1]);
    drop(loops);
    let sweep_micros = sweep_micros(node, redis).await?;
    let renewals_per_second = (after[0] - before[0]) as f64 / elapsed.as_secs_f64();
    let cpu_share = cpu.as_secs_f64() / elapsed.as_secs_f64() * 100.0;
    Ok(Held { leases: node.len(), renewals_per_second, cpu_share, sweep_micros })
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
    let leases = measured.leases;
    for (baseline, cost) in Baseline::ALL.iter().zip(measured.baselines) {
        let name = format!("Redis CPU per renewal, against {}", baseline.as_str());
        let figure = report.figure(name, "µs", Some(leases.micros()), Some(cost.micros()));
        if *baseline == Baseline::Transaction {
            figure.target(Target::RatioAtMost(CPU_RATIO_MAX));
        }
    }
    for (baseline, cost) in Baseline::ALL.iter().zip(measured.baselines) {
        let name = format!("renewals per second, against {}", baseline.as_str());
        let figure = report.figure(name, "/s", Some(leases.per_second()), Some(cost.per_second()));
        if *baseline == Baseline::Transaction {
            figure.target(Target::AtLeast(PER_SECOND_MIN));
        }
    }
    let beside = connections as f64 / RENEW_INTERVAL.as_secs_f64();
    report.figure("renewals per second beside queries", "/s", Some(beside), None);
    let QueryLatencies { idle, renewing } = &measured.queries;
    for (name, renewing, idle) in [
        ("presence query", &renewing.presence, &idle.presence),
        ("route lookup", &renewing.routes, &idle.routes),
    ] {
        report.latency(&format!("{name} beside renewals, and idle:"), renewing, idle);
        if let Some(idle) = millis_at(idle, 0.99) {
            let p99 = format!("{name} beside renewals, and idle: p99");
            report.set_target(&p99, Target::AtMost(idle + ADDED_P99_MAX));
        }
    }
    let live = measured.live_after_pause as f64;
    let all = connections as f64;
    report.figure("live after two missed renewals, of", "", Some(live), Some(all));
    fill_footprint(report, all, measured)
}

fn fill_footprint(report: &mut Report, connections: f64, measured: &Measured) -> Result<()> {
    let sweep = Target::AtMost(SWEEP_MICROS_MAX);
    report.figure("Redis CPU per idle sweep of a shard", "µs", Some(measured.sweep_micros), None);
    report.set_target("Redis CPU per idle sweep of a shard", sweep);
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
    fn costs_of_several_windows_are_averaged_by_their_renewals() {
        let mut cost = Cost::default();
        let second = Duration::from_secs(1);
        cost.add(Cost { renewals: 100_000, cpu: second / 10, elapsed: second });
        cost.add(Cost { renewals: 300_000, cpu: second / 2, elapsed: second });
        assert!((cost.micros() - 1.5).abs() < 1e-9);
        assert!((cost.per_second() - 200_000.0).abs() < 1e-6);
    }
}
