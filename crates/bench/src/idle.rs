//! `bench idle`: memory and CPU of connections that only send heartbeats.

use std::time::Duration;

use anyhow::{Result, ensure};
use heartline_protocol::limits::HEARTBEAT_INTERVAL;
use heartline_runtime::Clock;
use tokio::time::sleep;

use super::client_sockets::ClientSockets;
use super::counters::{Counters, Epoch, Tally};
use super::dial::DialPlan;
use super::process::Usage;
use super::progress::Progress;
use super::push_setup::users;
use super::report::{Report, Target};
use super::server_under_test::ServerUnderTest;
use super::{Common, IdleArgs, machine};

/// The target for resident memory per connection, in KiB.
const KIBIBYTES_MAX: f64 = 6.0;
/// Number of concurrent handshakes.
const DIAL_CONCURRENCY: usize = 64;
/// The bare loop is held no longer than this, because its memory no longer changes.
const BARE_MAX: Duration = Duration::from_secs(15);
/// How often the number of open connections is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

struct Measured {
    connections: usize,
    connect_elapsed: Duration,
    held: Duration,
    /// Usage before the first connection, after the last, and at the end of the window.
    usage: Option<[Usage; 3]>,
    /// Heartbeats of the window alone.
    heartbeats_held: u64,
    /// All heartbeats, including those before the window.
    heartbeats: u64,
    heartbeat_acks: u64,
    closed: u64,
}

/// Measures idle connections to a server and to the bare loop.
pub(super) async fn run(options: &IdleArgs, common: &Common) -> Result<Report> {
    ensure!(options.seconds > 0, "--seconds must be at least 1");
    machine::require_open_files(options.connections)?;
    let users = users("bench", options.connections);
    let hold = Duration::from_secs(options.seconds);
    let server = ServerUnderTest::start(common, options.connections).await?;
    let heartline = measure("heartline", &server, &users, hold).await?;
    drop(server);
    let bare =
        measure("the bare loop", &ServerUnderTest::bare()?, &users, hold.min(BARE_MAX)).await?;

    let mut report = Report::new("idle");
    report.parameter("connections", options.connections);
    report.parameter("seconds", options.seconds);
    fill(&mut report, &heartline, &bare);
    if heartline.closed > 0 {
        report.errors.push(format!("{} connections were closed", heartline.closed));
    }
    let acks_due = heartline.heartbeats.saturating_sub(heartline.unanswered_max());
    if heartline.heartbeat_acks < acks_due {
        let Measured { heartbeats, heartbeat_acks, .. } = heartline;
        let error = format!("{heartbeats} heartbeats were sent, {heartbeat_acks} were answered");
        report.errors.push(error);
    }
    Ok(report)
}

async fn measure(
    name: &str,
    server: &ServerUnderTest,
    users: &[String],
    hold: Duration,
) -> Result<Measured> {
    let plan = DialPlan::new(server, users, DIAL_CONCURRENCY)?;
    let before = server.usage()?;
    let started = Clock::system().now();
    let mut sockets = ClientSockets::new(Epoch::begin(), 1);
    plan.open_each(&format!("connect to {name}"), |opened| sockets.add(opened)).await?;
    let connect_elapsed = Clock::system().now().duration_since(started);
    let connected = server.usage()?;
    let counters = sockets.counters();
    let heartbeats_before = counters.get(Tally::Heartbeats);
    hold_open(name, counters, users.len(), hold).await?;
    let end = server.usage()?;
    Ok(Measured {
        connections: users.len(),
        connect_elapsed,
        held: hold,
        usage: before
            .zip(connected)
            .zip(end)
            .map(|((before, connected), end)| [before, connected, end]),
        heartbeats_held: counters.get(Tally::Heartbeats) - heartbeats_before,
        heartbeats: counters.get(Tally::Heartbeats),
        heartbeat_acks: counters.get(Tally::OtherFrames),
        closed: counters.get(Tally::Closed),
    })
}

/// Waits, and fails if the server closes every connection.
async fn hold_open(
    name: &str,
    counters: &Counters,
    connections: usize,
    duration: Duration,
) -> Result<()> {
    let started = Clock::system().now();
    let passed = || Clock::system().now().duration_since(started);
    let work = async {
        while passed() < duration {
            sleep(POLL_INTERVAL.min(duration.saturating_sub(passed()))).await;
            ensure!(
                counters.get(Tally::Closed) < connections as u64,
                "the server closed every connection"
            );
        }
        Ok(())
    };
    let progress = Progress::begin(format!("hold at {name}, seconds"), duration.as_secs());
    progress.watch(|| passed().as_secs(), work).await
}

impl Measured {
    fn kibibytes_per_connection(&self, reading: usize) -> Option<f64> {
        let usage = self.usage?;
        let grown = usage[reading].rss_bytes as f64 - usage[0].rss_bytes as f64;
        Some(grown / 1024.0 / self.connections as f64)
    }

    fn mebibytes(&self, reading: usize) -> Option<f64> {
        self.usage.map(|usage| usage[reading].rss_bytes as f64 / 1024.0 / 1024.0)
    }

    /// CPU time of one connection per second, in microseconds.
    fn cpu_micros_per_second(&self) -> Option<f64> {
        let [_, connected, end] = self.usage?;
        let cpu = end.cpu.saturating_sub(connected.cpu).as_secs_f64();
        Some(cpu * 1e6 / self.connections as f64 / self.held.as_secs_f64())
    }

    fn connections_per_second(&self) -> f64 {
        self.connections as f64 / self.connect_elapsed.as_secs_f64()
    }

    fn heartbeats_per_second(&self) -> f64 {
        self.heartbeats_held as f64 / self.held.as_secs_f64()
    }

    /// The number of heartbeats that may have no ack yet: those of the last second.
    fn unanswered_max(&self) -> u64 {
        self.connections as u64 / HEARTBEAT_INTERVAL.as_secs() + 1
    }
}

fn fill(report: &mut Report, heartline: &Measured, bare: &Measured) {
    report
        .figure(
            "memory per connection at the end",
            "KiB",
            heartline.kibibytes_per_connection(2),
            bare.kibibytes_per_connection(2),
        )
        .target(Target::AtMost(KIBIBYTES_MAX));
    report.figure(
        "memory per connection once connected",
        "KiB",
        heartline.kibibytes_per_connection(1),
        bare.kibibytes_per_connection(1),
    );
    report.figure("memory before", "MiB", heartline.mebibytes(0), bare.mebibytes(0));
    report.figure("memory at the end", "MiB", heartline.mebibytes(2), bare.mebibytes(2));
    report.figure(
        "CPU per connection and second",
        "µs",
        heartline.cpu_micros_per_second(),
        bare.cpu_micros_per_second(),
    );
    report.figure(
        "heartbeats per second",
        "/s",
        Some(heartline.heartbeats_per_second()),
        Some(bare.heartbeats_per_second()),
    );
    report.figure(
        "connections per second",
        "/s",
        Some(heartline.connections_per_second()),
        Some(bare.connections_per_second()),
    );
}
