//! `heartline bench`: what a connection and a delivery cost, measured on this machine.
//!
//! Every scenario drives real sockets against a server in a process of its own and, in the same
//! run, against a bare loop that writes the same bytes without any protocol. The bare loop is what
//! the kernel asks for; what lies between the two is Heartline's own cost.

mod audience;
mod bare;
mod child;
mod cluster;
mod connect;
mod counters;
mod dial;
mod fanout;
mod fleet;
mod heartbeats;
mod idle;
mod lane;
mod layout;
mod letter;
mod load;
mod machine;
mod party;
mod postgres;
mod process;
mod progress;
mod push;
mod record;
mod report;
mod rest;
mod send;
mod sender;
mod side;
mod signer;
mod stalled;
mod store;
mod subject;
mod voice;
mod walker;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use letter::Naming;
use report::Report;
use signer::Secret;
use store::StoreArgs;

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
    /// What it costs to have a message stored and acknowledged, and how long it takes.
    Send(SendArgs),
    /// What it costs that a whole room hears a message, and how long it takes.
    Fanout(FanoutArgs),
    /// What it costs Redis to keep the leases of many connections alive.
    Heartbeats(HeartbeatsArgs),
    /// What it costs more that a room is spread over several nodes.
    Cluster(ClusterArgs),
    /// The connections of one node, started by `cluster`.
    #[command(hide = true)]
    Audience,
    /// What it costs that everybody in a party session edits it and sees every edit.
    Party(PartyArgs),
    /// The baseline: a server without a protocol, started by the other scenarios.
    #[command(hide = true)]
    Bare,
    /// The embedded store by itself, started by `send`.
    #[command(hide = true)]
    Store(StoreArgs),
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

#[derive(Debug, clap::Args)]
struct SendArgs {
    /// How many users send, each on its own connection.
    #[arg(short = 'n', long, default_value_t = 64)]
    senders: usize,
    /// Messages of each that wait for their acknowledgement while the most is sought.
    #[arg(long, default_value_t = 4)]
    in_flight: u64,
    /// Messages per second of the open loop; half of the most that was found unless given.
    #[arg(long)]
    rate: Option<u32>,
    /// How long each of the two loops lasts.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Bytes of content of each message.
    #[arg(long, default_value_t = 300)]
    content: usize,
    /// How clients name their messages.
    #[arg(long, default_value = "both")]
    ids: Ids,
    /// How many chats; without it and --members the senders are in pairs, a direct chat each.
    #[arg(long)]
    chats: Option<usize>,
    /// How many senders are in each chat; each message is delivered to all but its sender.
    #[arg(long)]
    members: Option<usize>,
    /// Store in this PostgreSQL database (postgres://…), which must be empty or of an earlier run.
    #[arg(long, value_name = "URL", conflicts_with = "postgres")]
    store: Option<String>,
    /// Store in a PostgreSQL of the run's own.
    #[arg(long)]
    postgres: bool,
}

#[derive(Debug, clap::Args)]
struct FanoutArgs {
    /// How many users are in the room, each with a connection that reads.
    #[arg(short = 'n', long, default_value_t = 1000)]
    readers: usize,
    /// How many connections send; they are further devices of the first reader.
    #[arg(long, default_value_t = 1)]
    senders: usize,
    /// Deliveries per second.
    #[arg(long, default_value_t = 20_000, conflicts_with = "saturate")]
    rate: u32,
    /// Send as fast as the deliveries arrive.
    #[arg(long)]
    saturate: bool,
    /// With --saturate: messages whose deliveries may be under way at once.
    #[arg(long, default_value_t = 128)]
    in_flight: u64,
    /// How long to send, in all windows together.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Bytes of content of each message.
    #[arg(long, default_value_t = 300)]
    content: usize,
    /// Then once more, beside this many devices in the room that never read.
    #[arg(long)]
    stalled: Option<usize>,
}

#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// How many nodes there are.
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// How many users there are, each with a connection to one of the nodes.
    #[arg(short = 'n', long, default_value_t = 4000)]
    sockets: usize,
    /// How many of them the one node has that the cluster is compared with; it is sent as many
    /// deliveries for each of them. All of them unless given.
    #[arg(long, value_name = "SOCKETS")]
    one_node: Option<usize>,
    /// How many of them are in each room.
    #[arg(long, default_value_t = 1000)]
    room: usize,
    /// Deliveries per second.
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
    /// How long to send, in all windows together.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Bytes of content of each message.
    #[arg(long, default_value_t = 300)]
    content: usize,
}

#[derive(Debug, clap::Args)]
struct PartyArgs {
    /// How many sessions there are.
    #[arg(long, default_value_t = 100)]
    sessions: usize,
    /// How many members each has, all of whom edit and listen.
    #[arg(long, default_value_t = 5)]
    members: usize,
    /// How many items each queue has.
    #[arg(long, default_value_t = 100)]
    queue: usize,
    /// Edits of each member that wait for their answer while the most is sought.
    #[arg(long, default_value_t = 1)]
    in_flight: u64,
    /// Edits per second of all together, in the second loop; half of the most that was found unless
    /// given.
    #[arg(long)]
    rate: Option<u32>,
    /// How long each of the two loops lasts.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Keep sessions in a Redis of the run's own, beside a PostgreSQL, instead of in a file.
    #[arg(long)]
    redis: bool,
    /// How many nodes there are; the members of a session are spread over them.
    #[arg(long, default_value_t = 1)]
    nodes: usize,
}

#[derive(Debug, clap::Args)]
struct HeartbeatsArgs {
    /// How many connections hold leases, each of another user.
    #[arg(short = 'n', long, default_value_t = 100_000)]
    connections: usize,
    /// Measure this Redis (redis://host:port) instead of starting one.
    #[arg(long, value_name = "URL", hide_env_values = true)]
    redis: Option<String>,
    /// How long each layout renews, in all its turns together.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Then hold this many leases for as long.
    #[arg(long)]
    leases: Option<usize>,
    /// How long connections end and come back, for example 10m.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    churn: Duration,
}

/// How clients name their messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Ids {
    /// By time, then by chance.
    Ulid,
    /// By chance alone.
    Random,
    /// One after the other, each with a server of its own.
    Both,
}

impl Ids {
    const fn namings(self) -> &'static [Naming] {
        match self {
            Self::Ulid => &[Naming::Ulid],
            Self::Random => &[Naming::Random],
            Self::Both => &[Naming::Ulid, Naming::Random],
        }
    }
}

/// Runs a scenario and prints its figures. It builds its own runtime, so it must be called from
/// outside of one. The exit code is 1 when a delivery or a connection was lost.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    if let Scenario::Audience | Scenario::Bare | Scenario::Store(_) = &args.scenario {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        match &args.scenario {
            Scenario::Store(options) => runtime.block_on(store::run(options))?,
            Scenario::Audience => {
                let secret = args.common.secret.as_ref().context("started without a secret")?;
                runtime.block_on(audience::serve(secret))?;
            }
            _ => runtime.block_on(bare::serve())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut runtime = Builder::new_multi_thread();
    if matches!(args.scenario, Scenario::Send(_) | Scenario::Party(_)) {
        // The server needs the other cores: those who send are little work.
        runtime.worker_threads(1);
    }
    let runtime = runtime.enable_all().build()?;
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
        Scenario::Send(options) => send::run(options, &args.common).await,
        Scenario::Fanout(options) => fanout::run(options, &args.common).await,
        Scenario::Cluster(options) => cluster::run(options, &args.common).await,
        Scenario::Party(options) => party::run(options, &args.common).await,
        Scenario::Heartbeats(options) => heartbeats::run(options, &args.common).await,
        Scenario::Audience | Scenario::Bare | Scenario::Store(_) => {
            bail!("this is part of a run, and measures nothing")
        }
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
