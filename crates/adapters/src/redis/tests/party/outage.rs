use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use heartline_engines::{Redis, RedisCluster};
use heartline_party::{
    Committed, Revision, SessionActivity, SessionRecovery, SessionStore, SessionWatch,
};
use heartline_runtime::Clock;
use tokio::time::{sleep, timeout};

use super::{PATIENCE, advance, at, gap, hasty_store, heard, step, store, stored};
use crate::redis::RedisPartyStore;

/// The deadline, and what a loaded machine may take on top.
const ANSWERED: Duration = Duration::from_millis(900);

/// Whether every method fails, and each in time.
async fn every_call_fails_in_time(store: &RedisPartyStore) {
    for round in 0..3 {
        let started_at = Clock::system().now();
        let ids = ["a".to_owned()];
        let calls: [BoxFuture<'_, bool>; 14] = [
            Box::pin(async { store.load("a").await.is_err() }),
            Box::pin(async { store.entries("a", at(1, 1)).await.is_err() }),
            Box::pin(async { store.commit(step("a", Some(at(1, 1)), at(1, 2))).await.is_err() }),
            Box::pin(async { store.revisions(&ids).await.is_err() }),
            Box::pin(async { store.keep(&ids).await.is_err() }),
            Box::pin(async { store.remove("a", at(9, 9)).await.is_err() }),
            Box::pin(async { store.active(10).await.is_err() }),
            Box::pin(async { store.inactive("b").await.is_err() }),
            Box::pin(async { store.watch("b").await.is_err() }),
            Box::pin(async { store.lock("b", "me").await.is_err() }),
            Box::pin(async { store.unlock("b", "me").await.is_err() }),
            Box::pin(async { store.ask("b").await.is_err() }),
            Box::pin(async { store.offer("b", stored(at(1, 1))).await.is_err() }),
            Box::pin(async { store.now_ms().await.is_err() }),
        ];
        let answers = join_all(calls).await;
        assert_eq!(answers, [true; 14], "in round {round}");
        assert!(Clock::system().now() - started_at < ANSWERED, "in round {round}");
        store.unwatch("b").await;
    }
}

/// The version of a session, as soon as Redis answers again.
async fn revision(store: &RedisPartyStore) -> Option<Revision> {
    let asked = async {
        loop {
            if let Ok(revisions) = store.revisions(&["a".to_owned()]).await {
                return revisions[0];
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, asked).await.expect("Redis answers again")
}

#[tokio::test]
async fn a_redis_that_was_killed_causes_a_gap_and_serves_again() {
    let redis = Redis::start();
    let (one, two) = (hasty_store(&redis.url()).await, hasty_store(&redis.url()).await);
    advance(&one, "a", 3).await;
    one.watch("a").await.unwrap();
    let mut notices = one.notices();
    redis.stop();
    every_call_fails_in_time(&one).await;
    redis.restart();
    gap(&mut notices).await;
    assert_eq!(revision(&one).await, None, "everything is gone");
    assert_eq!(one.keep(&["a".to_owned()]).await.unwrap(), ["a"]);
    let late = one.commit(step("a", Some(at(1, 3)), at(1, 4))).await.unwrap();
    assert_eq!(late, Committed::Conflict(None));
    assert_eq!(revision(&two).await, None);
    two.commit(step("a", None, at(2, 10_003))).await.unwrap();
    assert_eq!(heard(&mut notices).await, "a 2/10003 entry 10003", "it is still watched");
}

#[tokio::test]
async fn a_master_that_was_killed_is_a_gap_on_a_cluster() {
    let cluster = RedisCluster::start();
    let (one, two) = (store(&cluster.url()).await, store(&cluster.url()).await);
    // Enough that every master has some.
    let ids: Vec<String> = (0..20).map(|number| format!("s-{number}")).collect();
    for id in &ids {
        one.watch(id).await.unwrap();
        advance(&two, id, 1).await;
    }
    let mut notices = one.notices();
    cluster.masters[1].restart();
    gap(&mut notices).await;
    let notified = async {
        for id in &ids {
            loop {
                let revisions = two.revisions(std::slice::from_ref(id)).await;
                let Ok(&[present]) = revisions.as_deref() else {
                    sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let revision = present.map_or(at(2, 7), |present| at(1, present.version + 1));
                if two.commit(step(id, present, revision)).await.is_ok() {
                    break;
                }
            }
        }
    };
    timeout(PATIENCE * 2, notified).await.expect("the Cluster serves again");
    let mut awaited: std::collections::HashSet<&str> = ids.iter().map(String::as_str).collect();
    while !awaited.is_empty() {
        let said = heard(&mut notices).await;
        awaited.remove(said.split(' ').next().unwrap_or_default());
    }
}

#[tokio::test]
async fn a_commit_that_waited_in_a_stopped_redis_is_applied_late_or_not_at_all() {
    let redis = Redis::start();
    let (one, two) = (hasty_store(&redis.url()).await, store(&redis.url()).await);
    advance(&one, "a", 1).await;
    two.watch("a").await.unwrap();
    let mut notices = two.notices();
    redis.pause();
    let stopped_at = Clock::system().now();
    every_call_fails_in_time(&one).await;
    sleep(Duration::from_secs(3).saturating_sub(Clock::system().now() - stopped_at)).await;
    redis.resume();
    // A commit that was sent before the connection was closed is applied once.
    let present = revision(&one).await.unwrap();
    assert!(present == at(1, 1) || present == at(1, 2), "{present:?}");
    let mut version = present.version;
    while version < 4 {
        match one.commit(step("a", Some(at(1, version)), at(1, version + 1))).await {
            Ok(Committed::Done) => version += 1,
            Ok(Committed::Conflict(Some(revision))) => version = revision.version,
            Ok(Committed::Conflict(None)) => panic!("it is there"),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    assert_eq!(two.load("a").await.unwrap(), Some(stored(at(1, version))));
    let entries = two.entries("a", at(1, 1)).await.unwrap().unwrap();
    assert_eq!(entries.len() as u64, version - 1, "each step once");
    loop {
        let said = heard(&mut notices).await;
        if said == "gap" || said == format!("a 1/{version} entry {version}") {
            break;
        }
    }
}

#[tokio::test]
async fn a_wiped_redis_has_no_sessions_and_no_commit_creates_half_of_one() {
    let redis = Redis::start();
    let store = store(&redis.url()).await;
    advance(&store, "a", 3).await;
    redis.command(&["FLUSHALL"]);
    assert_eq!(store.revisions(&["a".to_owned()]).await.unwrap(), [None]);
    let late = store.commit(step("a", Some(at(1, 3)), at(1, 4))).await.unwrap();
    assert_eq!(late, Committed::Conflict(None));
    assert_eq!(store.keep(&["a".to_owned()]).await.unwrap(), ["a"]);
    assert_eq!(store.active(10).await.unwrap(), Vec::<String>::new());
    assert_eq!(redis.command(&["DBSIZE"]), "0", "nothing was written");
    redis.command(&["SCRIPT", "FLUSH"]);
    store.commit(step("a", None, at(2, 10_003))).await.unwrap();
    assert_eq!(store.entries("a", at(1, 3)).await.unwrap(), None);
    assert_eq!(store.load("a").await.unwrap(), Some(stored(at(2, 10_003))));
}

#[tokio::test]
async fn a_full_redis_rejects_a_whole_commit() {
    let redis = Redis::start();
    let store = store(&redis.url()).await;
    advance(&store, "a", 2).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut large = step("a", Some(at(1, 2)), at(1, 3));
    let fields = (0..2000).map(|number| (format!("item:{number}"), vec![b'x'; 100]));
    large.changes.set.extend(fields);
    large.changes.remove.push("head".to_owned());
    let refused = store.commit(large.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("cannot serve"), "{refused}");
    store.commit(step("b", None, at(1, 1))).await.unwrap_err();
    store.offer("b", stored(at(1, 1))).await.unwrap_err();
    assert_eq!(store.load("a").await.unwrap(), Some(stored(at(1, 2))), "nothing of it is there");
    assert_eq!(store.entries("a", at(1, 0)).await.unwrap().unwrap().len(), 2);
    assert_eq!(store.load("b").await.unwrap(), None);
    assert_eq!(redis.command(&["EXISTS", "test:party:{b}:events", "test:party:{b}:state"]), "0");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    store.commit(large).await.expect("there is room again");
}
