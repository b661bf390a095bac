//! `bench connect`: rate and CPU of opening authenticated connections.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use heartline_runtime::Clock;

use super::dial::DialPlan;
use super::push_setup::users;
use super::report::{Report, Target, new_histogram};
use super::server_under_test::ServerUnderTest;
use super::{Common, ConnectArgs, machine};

/// The target for authenticated connects per second of server CPU.
const PER_CPU_SECOND_MIN: f64 = 6000.0;

struct Measured {
    connections: usize,
    elapsed: Duration,
    cpu: Option<Duration>,
    latency: Histogram<u64>,
}

/// Measures handshakes with a server and with the bare loop, which exchanges one line each way.
pub(super) async fn run(options: &ConnectArgs, common: &Common) -> Result<Report> {
    machine::require_open_files(options.connections)?;
    let users = users("bench", options.connections);
    let server = ServerUnderTest::start(common, options.connections).await?;
    let heartline = measure("connect to heartline", &server, &users, options).await?;
    drop(server);
    let server = ServerUnderTest::bare()?;
    let bare = measure("connect to the bare loop", &server, &users, options).await?;

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

/// Holds all connections open until the end, so that no disconnect is measured.
async fn measure(
    label: &str,
    server: &ServerUnderTest,
    users: &[String],
    options: &ConnectArgs,
) -> Result<Measured> {
    let plan = DialPlan::new(server, users, options.concurrency)?;
    let before = server.usage()?;
    let started = Clock::system().now();
    let opened = plan.open(label).await?;
    let elapsed = Clock::system().now().duration_since(started);
    let after = server.usage()?;
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
