//! `heartline bench`: what a connection and a delivery cost, measured on this machine.
//!
//! Every scenario drives real sockets against a server in a process of its own and, in the same
//! run, against a bare loop that writes the same bytes without any protocol. The bare loop is what
//! the kernel asks for; what lies between the two is Heartline's own cost.

mod bare;
mod child;
mod connect;
mod dial;
mod fleet;
mod idle;
mod lane;
mod load;
mod machine;
mod process;
mod progress;
mod push;
mod report;
mod side;
mod signer;
mod stalled;
mod subject;
mod walker;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use report::Report;
use signer::Secret;

/// Measures a server beside a bare loop.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    scenario: Scenario,
    /// What all scenarios share.
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Subcommand)]
enum Scenario {
    /// Memory and CPU of connections that only send heartbeats.
    Idle(IdleArgs),
    /// How fast connections are authenticated and admitted.
    Connect(ConnectArgs),
    /// What a delivery costs and how long it takes.
    Push(PushArgs),
    /// The baseline: a server without a protocol, started by the other scenarios.
    #[command(hide = true)]
    Bare,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Measure this running server (http://host:port) instead of starting one.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// The HS256 secret that the server at --url accepts.
    #[arg(long, global = true, env = "HEARTLINE_SECRET", hide_env_values = true)]
    secret: Option<Secret>,
    /// The process id of the server at --url, when it runs on this machine: for CPU and memory.
    #[arg(long, global = true)]
    pid: Option<u32>,
    /// Print one JSON document instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct IdleArgs {
    /// How many connections to hold.
    #[arg(short = 'n', long, default_value_t = 10_000)]
    connections: usize,
    /// How long to hold them.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

#[derive(Debug, clap::Args)]
struct ConnectArgs {
    /// How many connections to open.
    #[arg(short = 'n', long, default_value_t = 5000)]
    connections: usize,
    /// How many handshakes may be under way at once.
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
}

#[derive(Debug, clap::Args)]
struct PushArgs {
    /// How many connections receive; 1000, or 100 beside stalled readers.
    #[arg(short = 'n', long)]
    connections: Option<usize>,
    /// Deliveries per second; 20,000, or 5,000 beside stalled readers.
    #[arg(long, conflicts_with = "saturate")]
    rate: Option<u32>,
    /// Push as fast as the deliveries arrive.
    #[arg(long, conflicts_with = "stalled")]
    saturate: bool,
    /// With --saturate: pushes whose deliveries may be under way at once.
    #[arg(long, default_value_t = 128)]
    in_flight: u64,
    /// How long to push, in all windows together.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Bytes of the JSON data of each push.
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// Compare with and without this many connections that never read.
    #[arg(long)]
    stalled: Option<usize>,
}

/// Runs a scenario and prints its figures. It builds its own runtime, so it must be called from
/// outside of one. The exit code is 1 when a delivery or a connection was lost.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    if matches!(args.scenario, Scenario::Bare) {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(bare::serve())?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            report = Box::pin(measure(args)) => report,
            interruption = interrupted() => Err(interruption),
        }
    });
    // A lane may still wait for an answer that will not come; the process does not wait for it.
    runtime.shutdown_background();
    let report = outcome?;
    print(&report, args.common.json)?;
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(args: &BenchArgs) -> Result<Report> {
    if cfg!(debug_assertions) {
        let warning = "warning: this is a debug build; use a release build for real figures";
        writeln!(io::stderr(), "{warning}").ok();
    }
    match &args.scenario {
        Scenario::Idle(options) => idle::run(options, &args.common).await,
        Scenario::Connect(options) => connect::run(options, &args.common).await,
        Scenario::Push(options) => match options.stalled {
            Some(stalled) => stalled::run(options, stalled, &args.common).await,
            None => push::run(options, &args.common).await,
        },
        Scenario::Bare => bail!("the bare loop is a server, not a measurement"),
    }
}

/// Ends when the user or a supervisor asks; what is dropped then stops the children.
async fn interrupted() -> anyhow::Error {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => terminate.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => anyhow::anyhow!("interrupted"),
        _ = terminated => anyhow::anyhow!("terminated"),
    }
}

fn print(report: &Report, json: bool) -> Result<()> {
    let text = if json { report.to_json()? } else { report.to_table() };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("the figures could not be printed"),
    }
}
