//! The runs of three nodes.

use std::time::Duration;

use rand::rngs::StdRng;

use crate::checker::{Rule, Wanted};
use crate::cluster::Cluster;
use crate::run::{CLIENTS, Finished, Plan, Shared, run};
use crate::runs::{judge, must_find, rounds, seed, turn};
use crate::strikes::{self, Lengths};

/// Deadline after the return of Redis for every client to have every message.
const RECOVERY: Duration = Duration::from_secs(15);

/// How long after its end a node is forgotten: the lease, a sweep, and what the machine may add.
const FORGOTTEN: Duration = Duration::from_secs(15 + 1 + 1);

/// How long Redis is away in the run that is about nothing else.
const OUTAGE: Duration = Duration::from_secs(20);

/// More faults than these make a run long.
const SHORT: usize = 6;

/// A store that acknowledges before its disk has it.
const UNSAFE_STORE: &str = "&synchronous_commit=off";

fn plan(name: &'static str, seed: u64, steady: usize, recovery: Duration) -> Plan {
    Plan { name, seed, pace_ms: 30..200, steady, recovery }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_whose_fellows_and_engines_fail_keep_every_promise() {
    let _turn = turn().await;
    let (faults, seed) = (rounds(SHORT), seed());
    let lengths = if faults > SHORT { Lengths::LONG } else { Lengths::SHORT };
    let mut cluster = Cluster::start_new("", "").await;
    let nemesis = async |cluster: &mut Cluster, shared: &Shared, random: &mut StdRng| {
        strikes::strike(cluster, shared, random, faults, &lengths).await;
    };
    let plan = plan("cluster", seed, CLIENTS / 2, FORGOTTEN);
    let finished = run(&plan, &mut cluster, nemesis).await;
    judge("cluster", seed, &finished, &Wanted::CLUSTER);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, and the cluster's tests have a short form: scripts/history --outages 1"]
async fn redis_away_for_twenty_seconds_loses_nothing_and_cuts_nobody() {
    let _turn = turn().await;
    let seed = seed();
    let mut cluster = Cluster::start_new("", "").await;
    let nemesis = async |cluster: &mut Cluster, shared: &Shared, _: &mut StdRng| {
        strikes::without_redis(cluster, shared, OUTAGE).await;
    };
    let plan = plan("redis-outage", seed, CLIENTS, RECOVERY);
    let finished = run(&plan, &mut cluster, nemesis).await;
    let wanted = [Wanted::ACKED_WITHOUT_REDIS, Wanted::TOLD_TO_SYNC, Wanted::NUMBERED_BY_TWO];
    judge("redis-outage", seed, &finished, &wanted);
    assert_eq!(finished.report.counts.connections, CLIENTS, "nobody came twice: nobody was cut");
}

async fn kill_unsafe_store(seed: u64) -> Finished {
    let mut cluster = Cluster::start_new(UNSAFE_STORE, "allow_unsafe = true\n").await;
    let nemesis = async |cluster: &mut Cluster, shared: &Shared, random: &mut StdRng| {
        strikes::kill_store(cluster, shared, random, 3).await;
    };
    run(&plan("unsafe-postgres", seed, 0, Duration::ZERO), &mut cluster, nemesis).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_that_does_not_wait_for_the_disk_is_caught_by_kills() {
    let _turn = turn().await;
    must_find("unsafe-postgres", Rule::AckedLost, kill_unsafe_store).await;
}
