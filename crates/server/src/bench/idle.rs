//! `bench idle`: memory and CPU of connections that only send heartbeats.

use std::time::Duration;

use anyhow::{Result, ensure};
use heartline_protocol::limits::HEARTBEAT_INTERVAL;
use heartline_routing::Clock;

use super::dial::DialPlan;
use super::fleet::{Epoch, Fleet};
use super::process::Usage;
use super::progress::Progress;
use super::report::{Report, Target};
use super::side::users;
use super::subject::Subject;
use super::{Common, IdleArgs, machine};

/// Resident memory of the server per connection, in KiB.
const KIBIBYTES_MAX: f64 = 6.0;
/// Handshakes under way at once.
const DIAL_CONCURRENCY: usize = 64;
/// The bare loop's memory does not change after this long.
const BARE_MAX: Duration = Duration::from_secs(15);
/// An answer to a heartbeat may still be on its way when the window ends.
const ANSWERS_UNDER_WAY: u64 = HEARTBEAT_INTERVAL.as_secs();

struct Measured {
    connections: usize,
    connect_elapsed: Duration,
    held: Duration,
    /// Before the first connection, after the last, and at the end of the window.
    usage: Option<[Usage; 3]>,
    heartbeats: u64,
    answers: u64,
    closed: u64,
}

/// Measures held connections beside those of the bare loop.
pub(super) async fn run(options: &IdleArgs, common: &Common) -> Result<Report> {
    ensure!(options.seconds > 0, "--seconds must be at least 1");
    machine::require_open_files(options.connections)?;
    let users = users("bench", options.connections);
    let hold = Duration::from_secs(options.seconds);
    let subject = Subject::server(common, options.connections).await?;
    let heartline = measure("heartline", &subject, &users, hold).await?;
    drop(subject);
    let bare = measure("the bare loop", &Subject::bare()?, &users, hold.min(BARE_MAX)).await?;

    let mut report = Report::new("idle");
    report.parameter("connections", options.connections);
    report.parameter("seconds", options.seconds);
    fill(&mut report, &heartline, &bare);
    if heartline.closed > 0 {
        report.errors.push(format!("{} connections were closed", heartline.closed));
    }
    let answers_due = heartline.heartbeats.saturating_sub(heartline.slack());
    if heartline.answers < answers_due {
        let Measured { heartbeats, answers, .. } = heartline;
        report.errors.push(format!("{heartbeats} heartbeats were sent, {answers} were answered"));
    }
    Ok(report)
}

async fn measure(
    name: &str,
    subject: &Subject,
    users: &[String],
    hold: Duration,
) -> Result<Measured> {
    let plan = DialPlan::new(subject, users, DIAL_CONCURRENCY)?;
    let before = subject.usage()?;
    let started = Clock.now();
    let opened = plan.open(&format!("connect to {name}")).await?;
    let connect_elapsed = Clock.now().duration_since(started);
    let fleet = Fleet::start(opened, Epoch::begin(), 1);
    let connected = subject.usage()?;
    let label = format!("hold at {name}, seconds");
    Progress::begin(label, hold.as_secs()).wait(hold).await;
    let end = subject.usage()?;
    let counters = fleet.counters();
    Ok(Measured {
        connections: users.len(),
        connect_elapsed,
        held: hold,
        usage: before
            .zip(connected)
            .zip(end)
            .map(|((before, connected), end)| [before, connected, end]),
        heartbeats: counters.heartbeats(),
        answers: counters.other_frames(),
        closed: counters.closed(),
    })
}

impl Measured {
    fn kibibytes_per_connection(&self, moment: usize) -> Option<f64> {
        let usage = self.usage?;
        let grown = usage[moment].rss_bytes as f64 - usage[0].rss_bytes as f64;
        Some(grown / 1024.0 / self.connections as f64)
    }

    fn mebibytes(&self, moment: usize) -> Option<f64> {
        self.usage.map(|usage| usage[moment].rss_bytes as f64 / 1024.0 / 1024.0)
    }

    /// Microseconds of CPU that one connection takes each second.
    fn cpu_micros_per_second(&self) -> Option<f64> {
        let [_, connected, end] = self.usage?;
        let cpu = end.cpu.saturating_sub(connected.cpu).as_secs_f64();
        Some(cpu * 1e6 / self.connections as f64 / self.held.as_secs_f64())
    }

    fn connections_per_second(&self) -> f64 {
        self.connections as f64 / self.connect_elapsed.as_secs_f64()
    }

    fn heartbeats_per_second(&self) -> f64 {
        self.heartbeats as f64 / self.held.as_secs_f64()
    }

    /// Heartbeats whose answers may be under way: those of the last second.
    fn slack(&self) -> u64 {
        self.connections as u64 / ANSWERS_UNDER_WAY + 1
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
