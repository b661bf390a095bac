use std::slice;
use std::time::Duration;

use heartline_engines::Redis;
use heartline_routing::{
    Change, Connections, Lease, Leases, PresenceState, PresenceStates, Registration,
};
use redis::{Pipeline, Value, cmd};
use tokio::sync::broadcast::Receiver;
use tokio::time::{sleep, timeout};

use super::{LEASE, client, directory, lease, policy, settled, user};
use crate::redis::RedisDirectory;

const PATIENCE: Duration = Duration::from_secs(20);

/// Does for a while what a node does all the time: renews what it holds, registers what was lost,
/// and sweeps.
async fn live_on(directory: &RedisDirectory, held: &[Lease], duration: Duration) {
    let keys: Vec<_> = held.iter().map(|lease| lease.key.clone()).collect();
    let ticking = async {
        loop {
            let lost = directory.renew(&keys, LEASE).await.unwrap_or_default();
            for lease in held.iter().filter(|lease| lost.contains(&lease.key)) {
                let again = Lease { again: true, ..lease.clone() };
                let admitted = directory.register(again, policy()).await.unwrap();
                assert!(matches!(admitted, Registration::Admitted { .. }));
            }
            // Redis may be away.
            let _ = directory.sweep(1000, policy()).await;
            sleep(LEASE / 5).await;
        }
    };
    let _ = timeout(duration, ticking).await;
}

/// The next change that is not about strangers.
async fn next(changes: &mut Receiver<Change>) -> Change {
    timeout(PATIENCE, changes.recv()).await.expect("a change comes in time").unwrap()
}

#[tokio::test]
async fn a_wiped_redis_recovers_without_a_false_transition() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    let two = directory(&redis.url(), "node-two", 4).await;
    settled(&one).await;
    settled(&two).await;
    let held = [lease("alice", "node-one", 1, 4), lease("bob", "node-one", 2, 4)];
    let gone = lease("carol", "node-one", 3, 4);
    for lease in held.iter().chain([&gone]) {
        one.register(lease.clone(), policy()).await.unwrap();
    }
    let known = two.presence(&[user("carol")]).await.unwrap()[0].version().unwrap();
    let (mut heard_by_one, mut heard_by_two) = (one.changes(), two.changes());

    redis.command(&["FLUSHALL"]);
    let states = two.presence(&[user("alice"), user("carol")]).await.unwrap();
    assert_eq!(states, [PresenceState::Stale; 2], "a wiped shard knows nothing");
    tokio::join!(live_on(&one, &held, LEASE * 2), live_on(&two, &[], LEASE * 2));

    for heard in [&mut heard_by_one, &mut heard_by_two] {
        assert_eq!(next(heard).await, Change::Gap);
        // One for all shards, or few: their rebuilds end within milliseconds of each other.
        while let Ok(change) = heard.try_recv() {
            assert_eq!(change, Change::Gap, "no transition is seen");
        }
    }
    let states = two.presence(&[user("alice"), user("bob"), user("carol")]).await.unwrap();
    assert!(matches!(states[0], PresenceState::Online { .. }));
    assert!(matches!(states[1], PresenceState::Online { .. }));
    assert!(matches!(states[2], PresenceState::Offline { version, .. } if version > known));
    let live = two.by_user(&[user("alice")]).await.unwrap();
    assert_eq!(live[0].len(), 1);
    for lease in &held {
        one.unregister(&lease.key, Duration::ZERO).await.unwrap();
    }
    assert!(matches!(next(&mut heard_by_one).await, Change::Decided(_)), "all is as before");
}

#[tokio::test]
async fn a_user_who_leaves_during_a_rebuild_has_a_last_seen_time_without_a_transition() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 1).await;
    settled(&one).await;
    let [alice, bob] = [lease("alice", "node-one", 1, 1), lease("bob", "node-one", 2, 1)];
    for lease in [&alice, &bob] {
        one.register(lease.clone(), policy()).await.unwrap();
    }
    let mut heard = one.changes();
    redis.command(&["FLUSHALL"]);
    one.register(Lease { again: true, ..bob.clone() }, policy()).await.unwrap();
    for lease in [&alice, &bob] {
        let now_ms = client(&redis.url()).time("").await.unwrap().unix_ms;
        let left_at = one.unregister(&lease.key, Duration::ZERO).await.unwrap().unwrap();
        assert!((now_ms..now_ms + 1000).contains(&left_at.unix_ms), "{left_at:?}");
    }
    assert!(heard.try_recv().is_err(), "no transition is published");
    settled(&one).await;
    one.register(alice.clone(), policy()).await.unwrap();
    assert_eq!(one.unregister(&alice.key, Duration::ZERO).await.unwrap(), None);
}

#[tokio::test]
async fn a_redis_outage_of_six_seconds_takes_no_connected_user_offline() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    settled(&one).await;
    let held = [lease("alice", "node-one", 1, 4)];
    let crashed = lease("carol", "node-one", 2, 4);
    one.register(held[0].clone(), policy()).await.unwrap();
    one.register(crashed.clone(), policy()).await.unwrap();
    let mut heard = one.changes();

    redis.pause();
    live_on(&one, &held, Duration::from_secs(6)).await;
    redis.resume();
    live_on(&one, &held, LEASE * 3).await;

    let mut changes = Vec::new();
    while changes.last().is_none_or(|change| !matches!(change, Change::Decided(_))) {
        changes.push(next(&mut heard).await);
    }
    let Some(Change::Decided(transition)) = changes.pop() else { unreachable!() };
    assert_eq!(transition.user_id, crashed.key.user_id, "only who really is gone");
    assert!(!transition.is_online);
    assert!(changes.contains(&Change::Gap));
    assert!(changes.iter().all(|change| *change == Change::Gap), "{changes:?}");
    let states = one.presence(&[user("alice")]).await.unwrap();
    assert!(matches!(states[0], PresenceState::Online { .. }));
}

#[tokio::test]
async fn a_subscription_that_was_cut_is_a_gap() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    settled(&one).await;
    let mut heard = one.changes();
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(next(&mut heard).await, Change::Gap);
    let two = directory(&redis.url(), "node-two", 4).await;
    two.register(lease("alice", "node-two", 1, 4), policy()).await.unwrap();
    assert!(matches!(next(&mut heard).await, Change::Transition(_)), "it hears again");
}

#[tokio::test]
async fn a_single_session_shows_who_holds_it_until_that_one_ends() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    settled(&one).await;
    let single = heartline_routing::Policy { single_session: true, ..policy() };
    let (old, new) = (lease("alice", "node-one", 1, 4), lease("alice", "node-one", 2, 4));
    one.register(old.clone(), single).await.unwrap();
    one.register(new.clone(), single).await.unwrap();
    one.unregister(&old.key, Duration::ZERO).await.unwrap();
    let session = redis.command(&["GET", "test:session:alice"]);
    assert!(session.contains(&new.key.connection_id.to_string()), "{session}");
    one.extend(slice::from_ref(&new.key)).await.unwrap();
    let ttl: i64 = redis.command(&["TTL", "test:session:alice"]).parse().unwrap();
    assert!((1700..=1800).contains(&ttl), "{ttl}");
    one.unregister(&new.key, Duration::ZERO).await.unwrap();
    assert_eq!(redis.command(&["EXISTS", "test:session:alice"]), "0");
}

#[tokio::test]
async fn a_dead_node_is_forgotten_although_a_sibling_is_renewed() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    settled(&one).await;
    let dead = lease("alice", "node-dead", 1, 4);
    let live = lease("alice", "node-live", 2, 4);
    one.register(dead.clone(), policy()).await.unwrap();
    one.register(live.clone(), policy()).await.unwrap();
    live_on(&one, slice::from_ref(&live), LEASE * 2).await;
    let client = client(&redis.url());
    let servers: Vec<(String, u32)> =
        client.query(cmd("HGETALL").arg("test:user_servers:alice")).await.unwrap();
    assert_eq!(servers, [("node-live".to_owned(), 1)]);
    let connections: Vec<String> =
        client.query(cmd("HKEYS").arg("test:user_connections:alice")).await.unwrap();
    assert_eq!(connections, [live.key.connection_id.to_string()]);
    let listed: u32 =
        client.query(cmd("EXISTS").arg("test:server_connections:node-dead")).await.unwrap();
    assert_eq!(listed, 0);
}

#[tokio::test]
async fn a_lease_that_is_renewed_between_its_end_and_its_claim_keeps_its_route() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 1).await;
    settled(&one).await;
    let held = [lease("alice", "node-one", 1, 1), lease("alice", "node-one", 2, 1)];
    for lease in &held {
        one.register(lease.clone(), policy()).await.unwrap();
    }
    sleep(LEASE + LEASE / 4).await;
    let claimed = one.sweep(1, policy()).await.unwrap();
    let staying = held.iter().find(|lease| !claimed.contains(&lease.key)).unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(one.renew(slice::from_ref(&staying.key), LEASE).await.unwrap(), []);
    let connections = redis.command(&["HGET", "test:user_servers:alice", "node-one"]);
    assert_eq!(connections, "1");
}

#[tokio::test]
async fn a_lost_index_is_found_when_it_is_extended_and_written_again() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 4).await;
    settled(&one).await;
    let held = lease("alice", "node-one", 1, 4);
    let long = heartline_routing::Policy { lease: Duration::from_secs(60), ..policy() };
    one.register(held.clone(), long).await.unwrap();
    let keys = slice::from_ref(&held.key);
    assert_eq!(one.extend(keys).await.unwrap(), []);
    let client = client(&redis.url());
    let connection = format!("test:connection:{}", held.key.connection_id);
    let indexes = [
        "test:user_servers:alice",
        "test:user_connections:alice",
        "test:user_presence:alice",
        &connection,
    ];
    for index in indexes {
        client.query::<Value>(cmd("DEL").arg(index)).await.unwrap();
        assert_eq!(one.extend(keys).await.unwrap(), keys, "{index} is missing");
        let again = Lease { again: true, ..held.clone() };
        let admitted = one.register(again, long).await.unwrap();
        assert_eq!(admitted, Registration::Admitted { replaced: Vec::new() });
        assert_eq!(one.extend(keys).await.unwrap(), [], "{index} is there again");
        let ttl: i64 = client.query(cmd("TTL").arg(index)).await.unwrap();
        assert!((1..=600).contains(&ttl), "{index} ends by itself");
    }
    client.query::<Value>(cmd("DEL").arg("test:server_connections:node-one")).await.unwrap();
    assert_eq!(one.by_node(&held.key.node_id).await.unwrap(), []);
    assert_eq!(one.extend(keys).await.unwrap(), []);
    let listed = one.by_node(&held.key.node_id).await.unwrap();
    assert_eq!(listed.len(), 1, "an extension mends the list of the node itself");
}

#[tokio::test]
async fn a_server_whose_clock_went_back_neither_keeps_leases_for_ever_nor_refuses_new_ones() {
    let redis = Redis::start();
    let one = directory(&redis.url(), "node-one", 1).await;
    settled(&one).await;
    let (crashed, older) = (lease("carol", "node-one", 1, 1), lease("alice", "node-one", 2, 1));
    one.register(crashed.clone(), policy()).await.unwrap();
    one.register(older.clone(), policy()).await.unwrap();
    // As if all of it had been written by a clock an hour ahead.
    let client = client(&redis.url());
    let ahead = client.time("test:presence:leases:0").await.unwrap().unix_ms + 3_600_000;
    let mut pipeline = Pipeline::new();
    let member = format!("carol/node-one/{}", crashed.key.connection_id);
    pipeline.cmd("ZADD").arg("test:presence:leases:0").arg(ahead).arg(member);
    pipeline.cmd("HSET").arg("test:presence:epoch:0").arg("swept_at").arg(ahead);
    let id = older.key.connection_id.to_string();
    let connection = format!("chat/node-one/{ahead}000/device-2");
    pipeline.cmd("HSET").arg("test:user_connections:alice").arg(id).arg(connection);
    client.pipe(&pipeline).await.unwrap();

    let mut newer = lease("alice", "node-one", 3, 1);
    (newer.device_id, newer.age) = (older.device_id.clone(), Duration::from_millis(20));
    let admitted = one.register(newer, policy()).await.unwrap();
    let replaced = vec![older.key];
    assert_eq!(admitted, Registration::Admitted { replaced }, "a new socket is younger");
    live_on(&one, &[], LEASE * 3).await;
    assert_eq!(one.by_user(&[user("carol")]).await.unwrap(), [vec![]]);
    let states = one.presence(&[user("carol")]).await.unwrap();
    assert!(matches!(states[0], PresenceState::Offline { .. }), "{states:?}");
}
