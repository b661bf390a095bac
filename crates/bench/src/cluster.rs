//! `bench cluster`: what it costs more that the members of a room are spread over several nodes.
//!
//! Two sides take turns on one Redis and one PostgreSQL of the run's own: several nodes, and one
//! node with rooms of the same size. It has as many users as all nodes together, or as many as are
//! asked for, and then deliveries for each of them as often. A sender is one more device of a
//! member, so every message has exactly as many hearers as its room has members; each room has a
//! sender on every node. Those who listen are in a process of their own for each node.

mod side;
mod window;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_durability::chats::GROUP_MEMBERS_MAX;
use heartline_engines::{Postgres, Redis};

use self::side::{Side, Size};
use self::window::Window;
use super::progress::Progress;
use super::report::{Columns, Report, Target};
use super::{ClusterArgs, Common, machine};

/// Windows of each side, taken in turn, so that the machine's own moods fall on both.
const ROUNDS: u32 = 4;
/// How long both sides are sent to before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// CPU of all nodes per delivery, against that of one node.
const CPU_RATIO_MAX: f64 = 1.3;

/// Measures rooms on several nodes beside the same rooms on one.
pub(super) async fn run(options: &ClusterArgs, common: &Common) -> Result<Report> {
    ensure!(common.url.is_none(), "the nodes are the run's own: give no --url");
    let ClusterArgs { nodes, sockets, room, rate, seconds, .. } = *options;
    let one_node = options.one_node.unwrap_or(sockets);
    ensure!(nodes >= 2 && rate > 0 && seconds > 0, "--nodes: at least 2; --rate, --seconds: 1");
    let most = GROUP_MEMBERS_MAX;
    ensure!((nodes..=most).contains(&room), "--room must be {nodes} to {most}");
    let is_whole = |number: usize| number > 0 && number.is_multiple_of(room);
    ensure!(
        is_whole(sockets) && is_whole(one_node) && room.is_multiple_of(nodes),
        "--sockets and --one-node must be multiples of --room, and that of --nodes"
    );
    let rate = f64::from(rate);
    let on_many = Size { nodes, sockets, rate };
    let on_one =
        Size { nodes: 1, sockets: one_node, rate: rate / sockets as f64 * one_node as f64 };
    require_open_files(on_many, on_one, options)?;
    let engines = tokio::task::spawn_blocking(|| (Redis::start(), Postgres::start()));
    let (redis, postgres) = engines.await.context("Redis and PostgreSQL must be installed")?;
    let mut many = Side::open(on_many, options, &redis, &postgres).await?;
    let mut one = Side::open(on_one, options, &redis, &postgres).await?;
    let (many, one) = alternate(&mut many, &mut one, options).await?;

    let mut report = Report::new("cluster");
    report.columns = Columns { value: "cluster", baseline: "one node" };
    report.parameter("nodes", nodes);
    report.parameter("sockets", sockets);
    report.parameter("sockets of the one node", one_node);
    report.parameter("members of a room", room);
    report.parameter("senders", sockets / room * nodes);
    report.parameter("deliveries per second", on_many.rate);
    report.parameter("deliveries per second of the one node", on_one.rate);
    report.parameter("seconds", seconds);
    report.parameter("content bytes", options.content);
    fill(&mut report, &many, &one);
    Ok(report)
}

/// No process of a run may need more files than it may open: neither a node with its listeners and
/// senders, nor this one, which holds the senders of both sides.
fn require_open_files(many: Size, one: Size, options: &ClusterArgs) -> Result<()> {
    let rooms = |side: Size| side.sockets / options.room;
    let on_one = one.sockets + rooms(one) * options.nodes;
    let too_many = "the one node has too many sockets: give it fewer by --one-node";
    machine::require_open_files(on_one).context(too_many)?;
    let on_each = many.sockets / many.nodes + rooms(many);
    let here = (rooms(many) + rooms(one)) * options.nodes + many.nodes;
    machine::require_open_files(on_each.max(here))
}

async fn alternate(
    many: &mut Side,
    one: &mut Side,
    options: &ClusterArgs,
) -> Result<(Window, Window)> {
    let progress = Progress::begin("send to both in turn", 2 * u64::from(ROUNDS));
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
    fn a_run_needs_no_more_files_than_its_largest_process() {
        let options = ClusterArgs {
            nodes: 5,
            sockets: 20_000,
            one_node: Some(4000),
            room: 1000,
            rate: 1,
            seconds: 1,
            content: 300,
        };
        let side = |nodes: usize, sockets: usize| Size { nodes, sockets, rate: 1.0 };
        let too_many = require_open_files(side(5, 1 << 40), side(1, 4000), &options).unwrap_err();
        assert!(format!("{too_many:#}").contains("ulimit -n"), "{too_many:#}");
        let too_many = require_open_files(side(5, 20), side(1, 1 << 40), &options).unwrap_err();
        assert!(format!("{too_many:#}").contains("--one-node"), "{too_many:#}");
    }
}
