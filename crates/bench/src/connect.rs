//! `bench connect`: how fast connections are authenticated and admitted.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use heartline_routing::Clock;

use super::dial::DialPlan;
use super::report::{Report, Target, new_histogram};
use super::side::users;
use super::subject::Subject;
use super::{Common, ConnectArgs, machine};

/// Authenticated connects per second of server CPU.
const PER_CPU_SECOND_MIN: f64 = 6000.0;

struct Measured {
    connections: usize,
    elapsed: Duration,
    cpu: Option<Duration>,
    latency: Histogram<u64>,
}

/// Measures handshakes with a server beside bare ones: one line there, one line back.
pub(super) async fn run(options: &ConnectArgs, common: &Common) -> Result<Report> {
    machine::require_open_files(options.connections)?;
    let users = users("bench", options.connections);
    let subject = Subject::server(common, options.connections).await?;
    let heartline = measure("connect to heartline", &subject, &users, options).await?;
    drop(subject);
    let subject = Subject::bare()?;
    let bare = measure("connect to the bare loop", &subject, &users, options).await?;

    let mut report = Report::new("connect");
    report.parameter("connections", options.connections);
    report.parameter("concurrency", options.concurrency);
    report.parameter("token", "HS256 in the Authorization header");
    report.figure(
        "connections per second",
        "/s",
        Some(heartline.per_second()),
        Some(bare.per_second()),
    );
    report.figure("CPU per connection", "µs", heartline.cpu_micros(), bare.cpu_micros());
    report
        .figure("per server-CPU second", "", heartline.per_cpu_second(), bare.per_cpu_second())
        .target(Target::AtLeast(PER_CPU_SECOND_MIN));
    report.latency("handshake", &heartline.latency, &bare.latency);
    Ok(report)
}

/// Everything is held open until the end, so that no disconnect is measured with the connects.
async fn measure(
    label: &str,
    subject: &Subject,
    users: &[String],
    options: &ConnectArgs,
) -> Result<Measured> {
    let plan = DialPlan::new(subject, users, options.concurrency)?;
    let before = subject.usage()?;
    let started = Clock::system().now();
    let opened = plan.open(label).await?;
    let elapsed = Clock::system().now().duration_since(started);
    let after = subject.usage()?;
    let mut latency = new_histogram();
    for connection in &opened {
        latency.saturating_record(connection.took.as_nanos() as u64);
    }
    Ok(Measured {
        connections: opened.len(),
        elapsed,
        cpu: after.zip(before).map(|(after, before)| after.cpu.saturating_sub(before.cpu)),
        latency,
    })
}

impl Measured {
    fn per_second(&self) -> f64 {
        self.connections as f64 / self.elapsed.as_secs_f64()
    }

    fn cpu_micros(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.connections as f64)
    }

    fn per_cpu_second(&self) -> Option<f64> {
        self.cpu.map(|cpu| self.connections as f64 / cpu.as_secs_f64())
    }
}
