//! Redis forgets everything while thousands are connected.

use std::time::Duration;

use heartline_runtime::Clock;
use heartline_testing::eventually;
use tokio::time::{sleep, sleep_until};

use crate::crowd::{Observers, connect_all, is_transition, names};
use crate::nodes::{Cluster, LEASE, SWEEP, is_long, now};
use crate::recording_socket::RecordingSocket;

/// How soon everything must be there again.
const FILLED: Duration = Duration::from_secs(10);

/// Counts the leases and the routing tables in Redis.
const COUNT: &str = "local leases = 0 \
    for shard = 0, 99 do leases = leases + redis.call('ZCARD', 'presence:leases:' .. shard) end \
    return { leases, #redis.call('KEYS', 'user_servers:*'), #redis.call('KEYS', 'connection:*') }";

fn counts(cluster: &Cluster) -> Vec<usize> {
    let text = cluster.redis.command(&["EVAL", COUNT, "0"]);
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test]
async fn who_leaves_while_redis_is_filled_again_was_last_seen_then() {
    let cluster = Cluster::start(1).await;
    let [node] = cluster.all();
    let ana = node.connect("ana").await;
    cluster.redis.command(&["FLUSHALL"]);
    let left_at = Clock::system().wall().unix_ms;
    drop(ana);
    let last_seen = "SELECT last_seen FROM heartline.users WHERE user_id = 'ana'";
    let is_stored = async || {
        sleep(Duration::from_millis(50)).await;
        cluster.sql(last_seen).parse::<u64>().is_ok_and(|last_seen| last_seen >= left_at)
    };
    eventually("when they left is stored", FILLED, is_stored).await;
}

#[tokio::test]
async fn a_wiped_redis_is_filled_again_and_nobody_seems_to_leave() {
    let cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    let users = names("user", if is_long() { 5000 } else { 2000 });
    let (first, second) = users.split_at(users.len() / 2);
    let sockets = [connect_all(node1, first).await, connect_all(node2, second).await];
    let watched = [&first[..500], &second[..500]].concat();
    let observers =
        [Observers::watch(node1, &watched).await, Observers::watch(node3, &watched).await];
    let before = counts(&cluster);
    assert!(before[0] > users.len(), "the observers have leases as well");
    cluster.redis.command(&["FLUSHALL"]);
    let wiped_at = now();
    // Not all at once, either.
    let (mut seen, mut most, mut sampled_at) = (0, 0, wiped_at);
    while counts(&cluster) != before {
        let waited = now() - wiped_at;
        assert!(waited <= FILLED, "{:?} of {before:?} after {waited:?}", counts(&cluster));
        sleep(Duration::from_millis(100)).await;
        if now() - sampled_at >= Duration::from_millis(500) {
            let leases = counts(&cluster)[0];
            (seen, most, sampled_at) = (leases, most.max(leases - seen), now());
        }
    }
    println!("{} routes were there again after {:?}", before[0], now() - wiped_at);
    assert!(most <= before[0] / 2, "{most} were made within half a second");
    // Meanwhile the presence is unknown, and is reported as unknown.
    let seen = node3.seen("somebody", &users[0]).await;
    assert_eq!((&seen["status"], &seen["stale"]), (&"unknown".into(), &true.into()), "{seen}");
    sleep_until(wiped_at + LEASE + SWEEP * 2).await;
    for node in [node1, node2, node3] {
        node.tells_presence().await;
    }
    sleep(SWEEP * 2).await;
    for observers in &observers {
        let told = observers.told();
        let wrong = told.iter().filter(|received| is_transition(&received.frame));
        assert_eq!(wrong.count(), 0, "of {} events, such as {:?}", told.len(), told.first());
        assert!(observers.are_open());
    }
    for seen in node3.knows("somebody", &[&first[0], &second[0]]).await {
        assert_eq!(seen["status"], "online", "{seen}");
    }
    // A user who could not be found for a short time was told to sync.
    for sockets in sockets {
        let recordings: Vec<RecordingSocket> =
            sockets.into_iter().take(50).map(RecordingSocket::of).collect();
        for recording in &recordings {
            let is_it = |frame: &serde_json::Value| frame["type"] == "resync_required";
            let resync = recording.receives("resync_required", SWEEP, is_it).await;
            assert!(resync.frame["delay_ms"].as_u64().unwrap() <= 2000, "{}", resync.frame);
        }
    }
}
