//! `bench push`: CPU and latency of a pushed event.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::load::{Load, Pacing};
use super::progress::Progress;
use super::push_setup::{PushSetup, Window, groups, users};
use super::report::{Report, Target};
use super::server_under_test::ServerUnderTest;
use super::{Common, PushArgs, machine};

/// Windows of each server, alternating, so that disturbances of the machine affect both.
const ROUNDS: u32 = 4;
/// Push connections of an open loop: enough that a slow response does not delay the next push.
const RATE_PUSH_CONNECTIONS: usize = 8;
/// Push connections of a saturated loop: the maximum number of pushes without a response.
const SATURATE_PUSH_CONNECTIONS: usize = 64;
/// Load on both servers before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// CPU per delivery at a fixed rate, relative to the bare loop.
const RATE_RATIO_MAX: f64 = 1.3;
/// CPU per delivery when saturated, in microseconds.
const SATURATED_MICROS_MAX: f64 = 1.0;

/// Measures pushes to a server and to the bare loop.
pub(super) async fn run(options: &PushArgs, common: &Common) -> Result<Report> {
    let connections = options.connections.unwrap_or(1000);
    let rate = options.rate.unwrap_or(20_000);
    ensure!(connections > 0 && rate > 0, "-n and --rate must be at least 1");
    ensure!(options.seconds > 0, "--seconds must be at least 1");
    ensure!(options.in_flight > 0, "--in-flight must be at least 1");
    machine::require_open_files(2 * connections)?;
    let users = users("bench", connections);
    let pushes_per_second = f64::from(rate) * groups(&users).len() as f64 / connections as f64;
    let (pacing, push_connections) = if options.saturate {
        (Pacing::Saturate { in_flight: options.in_flight }, SATURATE_PUSH_CONNECTIONS)
    } else {
        (Pacing::Rate { pushes_per_second }, RATE_PUSH_CONNECTIONS)
    };
    let server = ServerUnderTest::start(common, connections).await?;
    let heartline =
        PushSetup::open("connect to heartline", server, &users, options.payload, push_connections)
            .await?;
    let bare = PushSetup::open(
        "connect to the bare loop",
        ServerUnderTest::bare()?,
        &users,
        options.payload,
        push_connections,
    )
    .await?;

    let seconds = Duration::from_secs(options.seconds);
    let (heartline, bare) = alternate(&heartline, &bare, pacing, seconds).await?;

    let mut report = Report::new("push");
    report.parameter("connections", connections);
    if options.saturate {
        report.parameter("saturated with pushes in flight", options.in_flight);
    } else {
        report.parameter("deliveries per second", rate);
    }
    report.parameter("seconds", options.seconds);
    report.parameter("payload bytes", options.payload);
    fill(&mut report, &heartline, &bare, options.saturate);
    Ok(report)
}

async fn alternate(
    heartline: &PushSetup,
    bare: &PushSetup,
    pacing: Pacing,
    seconds: Duration,
) -> Result<(Window, Window)> {
    let progress = Progress::begin("push to both in turn", 2 * u64::from(ROUNDS));
    let done = AtomicU64::new(0);
    let work = async {
        for setup in [heartline, bare] {
            setup.window(Load { pacing, duration: WARM_UP }).await?;
        }
        let load = Load { pacing, duration: seconds / ROUNDS };
        let (mut first, mut second) = (Window::empty(), Window::empty());
        for _ in 0..ROUNDS {
            first.add(&heartline.window(load).await?);
            done.fetch_add(1, Ordering::Relaxed);
            second.add(&bare.window(load).await?);
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok((first, second))
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await
}

fn fill(report: &mut Report, heartline: &Window, bare: &Window, saturate: bool) {
    report.figure("deliveries", "", Some(heartline.delivered as f64), Some(bare.delivered as f64));
    report.figure(
        "deliveries per second",
        "/s",
        Some(heartline.deliveries_per_second()),
        Some(bare.deliveries_per_second()),
    );
    let cpu_share = |window: &Window| {
        window.cpu.map(|cpu| cpu.as_secs_f64() * 100.0 / window.elapsed.as_secs_f64())
    };
    report.figure("CPU of one core", "%", cpu_share(heartline), cpu_share(bare));
    let cost = report.figure(
        "CPU per delivery",
        "µs",
        heartline.cpu_micros_per_delivery(),
        bare.cpu_micros_per_delivery(),
    );
    cost.target(if saturate {
        Target::AtMost(SATURATED_MICROS_MAX)
    } else {
        Target::RatioAtMost(RATE_RATIO_MAX)
    });
    report.latency("latency", &heartline.latency, &bare.latency);
    report.errors.extend(heartline.errors("heartline"));
    report.errors.extend(bare.errors("bare loop"));
}
