//! `heartline bench`: measures what connections, deliveries and stored messages cost.
//!
//! Every scenario drives real sockets against a server in its own process and, in the same
//! run, against a bare loop that writes the same bytes without any protocol. The bare loop shows
//! the cost of the kernel; the difference between the two is Heartline's own cost.

mod bare;
mod chat_layout;
mod child;
mod client_sockets;
mod cluster;
mod connect;
mod counters;
mod dial;
mod fanout;
mod frame_scanner;
mod frame_writer;
mod heartbeats;
mod idle;
mod load;
mod machine;
mod message_template;
mod order_check;
mod party;
mod postgres;
mod process;
mod progress;
mod push;
mod push_connection;
mod push_setup;
mod push_stalled;
mod receiver_process;
mod report;
mod rest;
mod send;
mod sender;
mod server_under_test;
mod signer;
mod store;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use message_template::IdKind;
use report::Report;
use signer::Secret;
use store::StoreArgs;

/// Measures a server beside a bare loop.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    scenario: Scenario,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Subcommand)]
enum Scenario {
    /// Memory and CPU of connections that only send heartbeats.
    Idle(IdleArgs),
    /// Rate and CPU of opening authenticated connections.
    Connect(ConnectArgs),
    /// CPU and latency of a pushed event.
    Push(PushArgs),
    /// CPU and latency of storing and acknowledging a message.
    Send(SendArgs),
    /// CPU and latency of delivering a message to all members of a group.
    Fanout(FanoutArgs),
    /// CPU and memory of Redis for renewing the leases of many connections.
    Heartbeats(HeartbeatsArgs),
    /// CPU and latency of groups that are spread over several nodes, compared with one node.
    Cluster(ClusterArgs),
    /// The receiving connections of one node, started by `cluster`.
    #[command(hide = true)]
    Receivers,
    /// CPU and latency of edits in party sessions in which every member edits.
    Party(PartyArgs),
    /// The baseline: a server without a protocol, started by the other scenarios.
    #[command(hide = true)]
    Bare,
    /// The embedded store without a server, started by `send`.
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
    /// Number of connections to hold.
    #[arg(short = 'n', long, default_value_t = 10_000)]
    connections: usize,
    /// How long to hold them.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

#[derive(Debug, clap::Args)]
struct ConnectArgs {
    /// Number of connections to open.
    #[arg(short = 'n', long, default_value_t = 5000)]
    connections: usize,
    /// Number of concurrent handshakes.
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
}

#[derive(Debug, clap::Args)]
struct PushArgs {
    /// Number of connections that receive [default: 1000, or 100 with --stalled].
    #[arg(short = 'n', long)]
    connections: Option<usize>,
    /// Deliveries per second [default: 20000, or 5000 with --stalled].
    #[arg(long, conflicts_with = "saturate")]
    rate: Option<u32>,
    /// Push as fast as the deliveries arrive.
    #[arg(long, conflicts_with = "stalled")]
    saturate: bool,
    /// With --saturate: pushes whose deliveries may be in flight at once.
    #[arg(long, default_value_t = 128)]
    in_flight: u64,
    /// How long to push, summed over all windows.
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
    /// Number of users that send, each on its own connection.
    #[arg(short = 'n', long, default_value_t = 64)]
    senders: usize,
    /// Unacknowledged messages of each sender in the closed loop.
    #[arg(long, default_value_t = 4)]
    in_flight: u64,
    /// Messages per second of the open loop [default: half of the rate of the closed loop].
    #[arg(long)]
    rate: Option<u32>,
    /// Duration of each of the two loops.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Bytes of content of each message.
    #[arg(long, default_value_t = 300)]
    content: usize,
    /// Kind of message ids that clients make.
    #[arg(long, default_value = "both")]
    ids: Ids,
    /// Number of chats. Without --chats and --members each pair of senders has a direct chat.
    #[arg(long)]
    chats: Option<usize>,
    /// Number of senders in each chat; each message is delivered to all but its sender.
    #[arg(long)]
    members: Option<usize>,
    /// Store in this PostgreSQL database (postgres://…); it must be empty or from an earlier run.
    #[arg(long, value_name = "URL", conflicts_with = "postgres")]
    store: Option<String>,
    /// Start a private PostgreSQL and store in it.
    #[arg(long)]
    postgres: bool,
}

#[derive(Debug, clap::Args)]
struct FanoutArgs {
    /// Number of users in the group, each with a connection that reads.
    #[arg(short = 'n', long, default_value_t = 1000)]
    readers: usize,
    /// Number of connections that send; they are further devices of the first reader.
    #[arg(long, default_value_t = 1)]
    senders: usize,
    /// Deliveries per second.
    #[arg(long, default_value_t = 20_000, conflicts_with = "saturate")]
    rate: u32,
    /// Send as fast as the deliveries arrive.
    #[arg(long)]
    saturate: bool,
    /// With --saturate: messages whose deliveries may be in flight at once.
    #[arg(long, default_value_t = 128)]
    in_flight: u64,
    /// How long to send, summed over all windows.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Bytes of content of each message.
    #[arg(long, default_value_t = 300)]
    content: usize,
    /// Measure once more, beside this many devices in the group that never read.
    #[arg(long)]
    stalled: Option<usize>,
}

#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// Number of nodes.
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// Number of users, each with a connection to one of the nodes.
    #[arg(short = 'n', long, default_value_t = 4000)]
    sockets: usize,
    /// Users of the single node that the cluster is compared with [default: all]. The rate of
    /// deliveries per user is the same.
    #[arg(long, value_name = "SOCKETS")]
    one_node: Option<usize>,
    /// Number of users in each group.
    #[arg(long, default_value_t = 1000)]
    room: usize,
    /// Deliveries per second.
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
    /// How long to send, summed over all windows.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Bytes of content of each message.
    #[arg(long, default_value_t = 300)]
    content: usize,
}

#[derive(Debug, clap::Args)]
struct PartyArgs {
    /// Number of party sessions.
    #[arg(long, default_value_t = 100)]
    sessions: usize,
    /// Number of members of each session; every member edits and subscribes.
    #[arg(long, default_value_t = 5)]
    members: usize,
    /// Number of items in each queue.
    #[arg(long, default_value_t = 100)]
    queue: usize,
    /// Unanswered edits of each member in the closed loop.
    #[arg(long, default_value_t = 1)]
    in_flight: u64,
    /// Edits per second of all members together in the open loop [default: half of the rate of the
    /// closed loop].
    #[arg(long)]
    rate: Option<u32>,
    /// Duration of each of the two loops.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Start a private Redis and PostgreSQL and keep sessions there instead of in a file.
    #[arg(long)]
    redis: bool,
    /// Number of nodes; the members of a session are spread over them.
    #[arg(long, default_value_t = 1)]
    nodes: usize,
}

#[derive(Debug, clap::Args)]
struct HeartbeatsArgs {
    /// Number of connections with a lease, each of another user.
    #[arg(short = 'n', long, default_value_t = 100_000)]
    connections: usize,
    /// Measure this Redis (redis://host:port) instead of starting one.
    #[arg(long, value_name = "URL", hide_env_values = true)]
    redis: Option<String>,
    /// How long each layout renews, summed over its windows.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Afterwards hold this many leases for the same time.
    #[arg(long)]
    leases: Option<usize>,
    /// How long connections disconnect and reconnect, for example 10m.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    churn: Duration,
}

/// Kind of message ids that clients make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Ids {
    /// ULIDs: ordered by time, then random.
    Ulid,
    /// Random ids.
    Random,
    /// Both kinds in turn, each with a new server.
    Both,
}

impl Ids {
    const fn kinds(self) -> &'static [IdKind] {
        match self {
            Self::Ulid => &[IdKind::Ulid],
            Self::Random => &[IdKind::Random],
            Self::Both => &[IdKind::Ulid, IdKind::Random],
        }
    }
}

/// Runs a scenario and prints its figures. Must be called outside of a tokio runtime, because the
/// function builds its own. The exit code is 1 if the report has errors, such as a lost delivery.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    if let Scenario::Receivers | Scenario::Bare | Scenario::Store(_) = &args.scenario {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        match &args.scenario {
            Scenario::Store(options) => runtime.block_on(store::run(options))?,
            Scenario::Receivers => {
                let secret = args.common.secret.as_ref().context("HEARTLINE_SECRET is not set")?;
                runtime.block_on(receiver_process::serve(secret))?;
            }
            _ => runtime.block_on(bare::serve())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut runtime = Builder::new_multi_thread();
    if matches!(args.scenario, Scenario::Send(_) | Scenario::Party(_)) {
        // The senders need little CPU, and the server needs the other cores.
        runtime.worker_threads(1);
    }
    let runtime = runtime.enable_all().build()?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            report = Box::pin(measure(args)) => report,
            interruption = interrupted() => Err(interruption),
        }
    });
    // A push connection may still wait for a response; the process does not wait for it.
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
            Some(stalled) => push_stalled::run(options, stalled, &args.common).await,
            None => push::run(options, &args.common).await,
        },
        Scenario::Send(options) => send::run(options, &args.common).await,
        Scenario::Fanout(options) => fanout::run(options, &args.common).await,
        Scenario::Cluster(options) => cluster::run(options, &args.common).await,
        Scenario::Party(options) => party::run(options, &args.common).await,
        Scenario::Heartbeats(options) => heartbeats::run(options, &args.common).await,
        Scenario::Receivers | Scenario::Bare | Scenario::Store(_) => {
            bail!("this scenario is started by another scenario and measures nothing")
        }
    }
}

/// Waits for SIGINT or SIGTERM. The caller then drops the scenario, which stops its children.
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
        written => written.context("printing the figures failed"),
    }
}
