use std::time::Duration;

use futures_util::future::join_all;
use heartline_engines::RedisCluster;
use heartline_protocol::UserId;
use heartline_routing::{Connections, Lease, LeaseKey, Leases, Policy};
use heartline_runtime::Clock;
use tokio::time::sleep;

use super::{directory, lease, policy, settled};

/// Enough that every master has some.
const SHARDS: u16 = 24;

/// Long enough to bear a renewal that waits for the master that hangs.
const LEASE: Duration = Duration::from_secs(4);

/// Longer than a lease and a rebuild.
const HANGING: Duration = Duration::from_secs(9);

#[tokio::test]
async fn a_master_that_hangs_costs_no_lease_on_the_others() {
    let cluster = RedisCluster::start();
    for master in &cluster.masters {
        // Else the others refuse everything as soon as they miss it.
        master.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let one = directory(&cluster.url(), "node-one", SHARDS).await;
    settled(&one).await;
    let policy = Policy { lease: LEASE, ..policy() };
    let held: Vec<Lease> = (0..60)
        .map(|number| lease(&format!("user-{number}"), "node-one", number, SHARDS))
        .collect();
    for lease in &held {
        one.register(lease.clone(), policy).await.unwrap();
    }
    let hanging = &cluster.masters[0];
    let hanging_keys = hanging.command(&["KEYS", "test:presence:leases:*"]);
    let is_elsewhere =
        |lease: &&Lease| !hanging_keys.contains(&format!("{{{}}}", lease.key.connection_id.shard));
    let elsewhere: Vec<&Lease> = held.iter().filter(is_elsewhere).collect();
    assert!((1..held.len()).contains(&elsewhere.len()), "{} of {}", elsewhere.len(), held.len());

    hanging.pause();
    // Enough failures in a row that the connection itself is suspect and made anew.
    let there = held.iter().filter(|lease| !is_elsewhere(lease));
    let failed = join_all(there.map(|lease| one.register(lease.clone(), policy))).await;
    assert!(failed.iter().all(Result::is_err));
    let keys: Vec<LeaseKey> = held.iter().map(|lease| lease.key.clone()).collect();
    let (begun_at, mut swept) = (Clock::system().now(), Vec::new());
    while Clock::system().now() - begun_at < HANGING {
        let (renewed, claimed) = tokio::join!(one.renew(&keys, LEASE), one.sweep(1000, policy));
        assert!(renewed.is_err(), "some are not renewed");
        swept.extend(claimed.unwrap_or_default());
        sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(swept, []);
    let user_ids: Vec<UserId> = elsewhere.iter().map(|lease| lease.key.user_id.clone()).collect();
    let live = one.by_user(&user_ids).await.unwrap();
    assert!(live.iter().all(|connections| connections.len() == 1), "{live:?}");

    hanging.resume();
    while one.renew(&keys, LEASE).await.is_err() {
        sleep(Duration::from_millis(100)).await;
    }
}
