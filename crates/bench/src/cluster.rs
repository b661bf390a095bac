//! `bench cluster`: CPU and latency of groups that are spread over several nodes.
//!
//! Several nodes and one single node, with groups of the same size, are measured in alternation on
//! one private Redis and PostgreSQL. The single node has as many users as all nodes together, or
//! `--one-node`, at the same rate of deliveries per user. A sender is a further device of a member,
//! so each message is delivered exactly once to each member; each group has a sender on every node.
//! The receivers of each node run in their own process.

mod setup;
mod window;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_durability::chats::GROUP_MEMBERS_MAX;
use heartline_engines::{Postgres, Redis};

use self::setup::{ClusterSetup, Size};
use self::window::Window;
use super::progress::Progress;
use super::report::{Columns, Report, Target};
use super::{ClusterArgs, Common, machine};

/// Windows of each server, alternating, so that disturbances of the machine affect both.
const ROUNDS: u32 = 4;
/// Load on both servers before the measurement.
const WARM_UP: Duration = Duration::from_secs(2);
/// The target for the CPU of all nodes per delivery, relative to one node.
const CPU_RATIO_MAX: f64 = 1.3;

/// Measures groups on several nodes and on one node.
pub(super) async fn run(options: &ClusterArgs, common: &Common) -> Result<Report> {
    ensure!(common.url.is_none(), "the scenario starts its own nodes: give no --url");
    let ClusterArgs { nodes, sockets, room, rate, seconds, .. } = *options;
    let one_node = options.one_node.unwrap_or(sockets);
    ensure!(nodes >= 2 && rate > 0 && seconds > 0, "--nodes: at least 2; --rate, --seconds: 1");
    let most = GROUP_MEMBERS_MAX;
    ensure!((nodes..=most).contains(&room), "--room must be {nodes} to {most}");
    let is_whole = |number: usize| number > 0 && number.is_multiple_of(room);
    ensure!(
        is_whole(sockets) && is_whole(one_node) && room.is_multiple_of(nodes),
        "--sockets and --one-node must be multiples of --room, and --room a multiple of --nodes"
    );
    let rate = f64::from(rate);
    let on_many = Size { nodes, sockets, rate };
    let on_one =
        Size { nodes: 1, sockets: one_node, rate: rate / sockets as f64 * one_node as f64 };
    require_open_files(on_many, on_one, options)?;
    let engines = heartline_runtime::blocking(|| (Redis::start(), Postgres::start()));
    let (redis, postgres) =
        engines.await.context("starting Redis and PostgreSQL failed: are both installed?")?;
    let mut many = ClusterSetup::open(on_many, options, &redis, &postgres).await?;
    let mut one = ClusterSetup::open(on_one, options, &redis, &postgres).await?;
    let (many, one) = alternate(&mut many, &mut one, options).await?;

    let mut report = Report::new("cluster");
    report.columns = Columns { value: "cluster", baseline: "one node" };
    report.parameter("nodes", nodes);
    report.parameter("sockets", sockets);
    report.parameter("sockets of the one node", one_node);
    report.parameter("members of a group", room);
    report.parameter("senders", sockets / room * nodes);
    report.parameter("deliveries per second", on_many.rate);
    report.parameter("deliveries per second of the one node", on_one.rate);
    report.parameter("seconds", seconds);
    report.parameter("content bytes", options.content);
    fill(&mut report, &many, &one);
    Ok(report)
}

/// Checks that no process of the run needs more files than it may open: neither a node with its
/// receivers and senders, nor this process, which holds all senders.
fn require_open_files(many: Size, one: Size, options: &ClusterArgs) -> Result<()> {
    let groups = |size: Size| size.sockets / options.room;
    let on_one = one.sockets + groups(one) * options.nodes;
    let too_many = "the single node has too many sockets: give fewer with --one-node";
    machine::require_open_files(on_one).context(too_many)?;
    let on_each = many.sockets / many.nodes + groups(many);
    let here = (groups(many) + groups(one)) * options.nodes + many.nodes;
    machine::require_open_files(on_each.max(here))
}

async fn alternate(
    many: &mut ClusterSetup,
    one: &mut ClusterSetup,
    options: &ClusterArgs,
) -> Result<(Window, Window)> {
    let progress = Progress::begin("send to both in alternation", 2 * u64::from(ROUNDS));
    let done = AtomicU64::new(0);
    let work = async {
        many.window(WARM_UP).await?;
        one.window(WARM_UP).await?;
        let duration = Duration::from_secs(options.seconds) / ROUNDS;
        let (mut on_many, mut on_one) = (Window::empty(), Window::empty());
        for _ in 0..ROUNDS {
            on_many.add(many.window(duration).await?);
            done.fetch_add(1, Ordering::Relaxed);
            on_one.add(one.window(duration).await?);
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok((on_many, on_one))
    };
    progress.watch(|| done.load(Ordering::Relaxed), Box::pin(work)).await
}

fn fill(report: &mut Report, many: &Window, one: &Window) {
    let messages = |window: &Window| Some(window.acknowledged as f64);
    report.figure("messages", "", messages(many), messages(one));
    let (on_many, on_one) = (many.deliveries(), one.deliveries());
    report.figure("deliveries", "", Some(on_many), Some(on_one));
    let per_second = |window: &Window| Some(window.deliveries() / window.elapsed.as_secs_f64());
    report.figure("deliveries per second", "/s", per_second(many), per_second(one));
    let (cost, baseline) = (Some(many.cpu_micros()), Some(one.cpu_micros()));
    let cost = report.figure("CPU of all nodes per delivery", "µs", cost, baseline);
    cost.target(Target::RatioAtMost(CPU_RATIO_MAX));
    report.latency("commit", &many.ack_latency, &one.ack_latency);
    report.latency("latency", &many.latency, &one.latency);
    report.errors.extend(many.errors("cluster"));
    report.errors.extend(one.errors("one node"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_needs_too_many_open_files_is_rejected() {
        let options = ClusterArgs {
            nodes: 5,
            sockets: 20_000,
            one_node: Some(4000),
            room: 1000,
            rate: 1,
            seconds: 1,
            content: 300,
        };
        let size = |nodes: usize, sockets: usize| Size { nodes, sockets, rate: 1.0 };
        let too_many = require_open_files(size(5, 1 << 40), size(1, 4000), &options).unwrap_err();
        assert!(format!("{too_many:#}").contains("ulimit -n"), "{too_many:#}");
        let too_many = require_open_files(size(5, 20), size(1, 1 << 40), &options).unwrap_err();
        assert!(format!("{too_many:#}").contains("--one-node"), "{too_many:#}");
    }
}
