//! `bench push --stalled`: the latency of healthy readers beside readers that never read.
//!
//! Quiet windows and windows with stalled readers alternate. In a stalled window the socket and the
//! outbox of every stalled connection fill, and the server warns and closes the connection, while
//! the healthy connections receive the same pushes as in a quiet window.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use heartline_protocol::limits::OUTBOX_BYTES_MAX;
use tokio::time::sleep;

use super::client_sockets::StalledSockets;
use super::counters::Counters;
use super::dial::DialPlan;
use super::load::{Load, LoadResult, Pacing, drive};
use super::progress::Progress;
use super::push_connection::{PushConnection, PushTemplate};
use super::push_setup::{PushSetup, Window, groups, users};
use super::report::{Columns, Report, Target, millis_at};
use super::server_under_test::ServerUnderTest;
use super::{Common, PushArgs, machine};

/// Pairs of a quiet and a stalled window.
const PAIRS: u32 = 5;
/// The largest ratio of the stalled p99 to the quiet p99.
const RATIO_MAX: f64 = 2.0;
/// Connections that push to the healthy readers.
const HEALTHY_PUSH_CONNECTIONS: usize = 8;
/// Connections that push to the stalled readers.
const STALLED_PUSH_CONNECTIONS: usize = 4;
/// Number of concurrent handshakes.
const DIAL_CONCURRENCY: usize = 64;
/// The receive buffer of a stalled reader: small, so that it fills soon.
const RECEIVE_BUFFER_BYTES: u32 = 4096;
/// Bytes of each push to stalled readers: large, so that an outbox fills within a window.
const FILL_PAYLOAD_BYTES: usize = 8192;
/// Bytes that the kernel buffers for one stalled reader before the outbox begins to fill.
const KERNEL_BYTES: usize = 256 * 1024;
/// Pause after stalled readers connect or disconnect.
const PAUSE: Duration = Duration::from_millis(300);

/// A quiet window and a stalled window.
struct Pair {
    quiet: Window,
    stalled: Window,
    stalled_load: LoadResult,
}

/// Measures healthy connections with and without stalled ones beside them.
pub(super) async fn run(options: &PushArgs, stalled: usize, common: &Common) -> Result<Report> {
    let healthy = options.connections.unwrap_or(100);
    let rate = options.rate.unwrap_or(5000);
    ensure!(healthy > 0 && stalled > 0 && rate > 0, "-n, --stalled and --rate: at least 1 each");
    ensure!(options.seconds > 0, "--seconds must be at least 1");
    machine::require_open_files(healthy + stalled)?;
    let healthy_users = users("bench", healthy);
    let stalled_users = users("bench-stalled", stalled);
    let pushes_per_second = f64::from(rate) * groups(&healthy_users).len() as f64 / healthy as f64;
    let load = Load {
        pacing: Pacing::Rate { pushes_per_second },
        duration: Duration::from_secs(options.seconds) / PAIRS,
    };
    let server = ServerUnderTest::start(common, healthy + stalled).await?;
    let label = "connect healthy readers";
    let setup =
        PushSetup::open(label, server, &healthy_users, options.payload, HEALTHY_PUSH_CONNECTIONS)
            .await?;

    let done = AtomicU64::new(0);
    let work = async {
        setup.window(load).await?;
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            pairs.push(Pair::measure(&setup, &stalled_users, load).await?);
            done.fetch_add(1, Ordering::Relaxed);
        }
        anyhow::Ok(pairs)
    };
    let progress = Progress::begin("quiet and stalled in turn", PAIRS.into());
    let pairs = progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await?;

    let mut report = Report::new("push beside stalled readers");
    report.columns = Columns { value: "stalled", baseline: "quiet" };
    report.parameter("healthy connections", healthy);
    report.parameter("stalled connections", stalled);
    report.parameter("deliveries per second to the healthy", rate);
    report.parameter("seconds", options.seconds);
    report.parameter("payload bytes", options.payload);
    fill(&mut report, &pairs, stalled);
    Ok(report)
}

impl Pair {
    async fn measure(setup: &PushSetup, stalled_users: &[String], load: Load) -> Result<Self> {
        let quiet = setup.window(load).await?;
        let plan = DialPlan::new(&setup.server, stalled_users, DIAL_CONCURRENCY)?;
        let held = StalledSockets::hold(
            plan.with_receive_buffer(RECEIVE_BUFFER_BYTES).open("connect stalled readers").await?,
        );
        let groups = groups(stalled_users);
        let templates = PushTemplate::for_groups(&setup.server, &groups, FILL_PAYLOAD_BYTES)?;
        let connections =
            PushConnection::open_many(&setup.server, &templates, STALLED_PUSH_CONNECTIONS)?;
        sleep(PAUSE).await;
        // A tenth more than fits, so that every stalled reader is closed before the last pushes.
        let fill_pushes = (OUTBOX_BYTES_MAX + KERNEL_BYTES) as f64 / FILL_PAYLOAD_BYTES as f64;
        let fill_rate = 1.1 * fill_pushes * groups.len() as f64 / load.duration.as_secs_f64();
        let fill = Load { pacing: Pacing::Rate { pushes_per_second: fill_rate }, ..load };
        let unread = Counters::new(setup.epoch());
        let epoch = setup.epoch();
        let (stalled, stalled_load) =
            tokio::try_join!(setup.window(load), drive(connections, fill, epoch, &unread))?;
        drop(held);
        sleep(PAUSE).await;
        Ok(Self { quiet, stalled, stalled_load })
    }
}

fn fill(report: &mut Report, pairs: &[Pair], stalled: usize) {
    let (mut quiet, mut beside) = (Window::empty(), Window::empty());
    let (mut quiet_p99, mut beside_p99) = (Vec::new(), Vec::new());
    for (number, pair) in (1..).zip(pairs) {
        let (quiet_value, beside_value) = (p99(&pair.quiet.latency), p99(&pair.stalled.latency));
        let name = format!("latency p99 of pair {number}");
        report.figure(name, "ms", Some(beside_value), Some(quiet_value));
        quiet_p99.push(quiet_value);
        beside_p99.push(beside_value);
        quiet.add(&pair.quiet);
        beside.add(&pair.stalled);
    }
    report
        .figure("median of the p99", "ms", Some(median(beside_p99)), Some(median(quiet_p99)))
        .target(Target::RatioAtMost(RATIO_MAX));
    report.latency("latency", &beside.latency, &quiet.latency);
    report.figure(
        "deliveries per second to the healthy",
        "/s",
        Some(beside.deliveries_per_second()),
        Some(quiet.deliveries_per_second()),
    );
    let closed = pairs.iter().map(|pair| {
        stalled as u64 - pair.stalled_load.fewest_connections.unwrap_or(0).min(stalled as u64)
    });
    let fewest_closed = closed.min().unwrap_or(0);
    report.figure(
        "stalled readers closed in a window, at least",
        "",
        Some(fewest_closed as f64),
        None,
    );
    report.errors.extend(quiet.errors("healthy, in quiet windows"));
    report.errors.extend(beside.errors("healthy, beside stalled readers"));
    if fewest_closed == 0 {
        report.errors.push("no stalled reader was closed: their outboxes did not fill".to_owned());
    }
}

fn p99(latency: &Histogram<u64>) -> f64 {
    millis_at(latency, 0.99).unwrap_or(f64::NAN)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_bad_window() {
        assert!((median(vec![900.0, 1.0, 3.0, 2.0, 1.5]) - 2.0).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }
}
