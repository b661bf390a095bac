use std::time::Duration;

use heartline_engines::{FaultProxy, Redis, RedisCluster};
use heartline_party::{SessionRecovery, SessionStore, SessionWatch};
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::{sleep, timeout};

use super::super::Engines;
use super::{PATIENCE, advance, at, entry, gap, hasty_store, heard, step, store};

/// Waits until Redis says that so many subscribe to a session's channel.
async fn subscribers(redis: &[Redis], session_id: &str, count: usize) {
    let channel = format!("test:party:{{{session_id}}}");
    let counted = async {
        loop {
            let verbs = ["NUMSUB", "SHARDNUMSUB"].into_iter();
            let each = verbs.flat_map(|verb| {
                redis.iter().map(|redis| {
                    let said = redis.command(&["PUBSUB", verb, &channel]);
                    said.lines().last().unwrap_or_default().parse::<usize>().unwrap_or_default()
                })
            });
            if each.sum::<usize>() == count {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, counted).await.expect("the number of subscribers is right in time");
}

#[tokio::test]
async fn every_commit_after_watch_returns_is_notified_in_order() {
    let engines = Engines::start();
    for url in engines.urls() {
        let (one, two) = (store(&url).await, store(&url).await);
        let mut notices = one.notices();
        advance(&two, "a", 1).await;
        for version in 1..60 {
            // Watched before the first, and again and again.
            one.watch("a").await.unwrap();
            two.commit(step("a", Some(at(1, version)), at(1, version + 1))).await.unwrap();
            let expected = format!("a 1/{0} entry {0}", version + 1);
            assert_eq!(heard(&mut notices).await, expected);
        }
        let (own, others) = (step("b", None, at(1, 1)), step("c", None, at(1, 1)));
        let (first, second) = tokio::join!(one.watch("b"), one.watch("b"));
        first.unwrap();
        second.unwrap();
        two.commit(others).await.unwrap();
        one.commit(own).await.unwrap();
        assert_eq!(heard(&mut notices).await, "b 1/1 entry 1", "its own, and nothing unwatched");
    }
}

#[tokio::test]
async fn many_sessions_are_watched_and_unwatched_at_once_and_unsubscribed() {
    async fn proven(url: &str, servers: &[Redis]) {
        let (one, two) = (store(url).await, store(url).await);
        let ids: Vec<String> = (0..200).map(|number| format!("s-{number}")).collect();
        let watching = ids.iter().flat_map(|id| [one.watch(id), one.watch(id)]);
        for watched in futures_util::future::join_all(watching).await {
            watched.unwrap();
        }
        let mut notices = one.notices();
        for id in &ids {
            two.commit(step(id, None, at(1, 1))).await.unwrap();
            assert_eq!(heard(&mut notices).await, format!("{id} 1/1 entry 1"));
        }
        subscribers(servers, "s-7", 1).await;
        for id in &ids[1..] {
            one.unwatch(id).await;
        }
        subscribers(servers, "s-7", 0).await;
        subscribers(servers, "s-199", 0).await;
        for id in &ids {
            two.commit(step(id, Some(at(1, 1)), at(1, 2))).await.unwrap();
        }
        two.ask("end").await.unwrap();
        assert_eq!(heard(&mut notices).await, "s-0 1/2 entry 2");
        assert_eq!(heard(&mut notices).await, "wanted end", "nothing else, and no gap");
        // Left and watched again at once: whatever comes first, it is heard.
        for version in 2..40 {
            one.unwatch("s-0").await;
            one.watch("s-0").await.unwrap();
            two.commit(step("s-0", Some(at(1, version)), at(1, version + 1))).await.unwrap();
            let expected = format!("s-0 1/{0} entry {0}", version + 1);
            assert_eq!(heard(&mut notices).await, expected);
        }
        drop(one);
        subscribers(servers, "s-0", 0).await;
    }
    let redis = Redis::start();
    proven(&redis.url(), std::slice::from_ref(&redis)).await;
    let cluster = RedisCluster::start();
    proven(&cluster.url(), &cluster.masters).await;
}

#[tokio::test]
async fn a_node_that_is_cut_off_has_a_gap_and_others_do_not() {
    let redis = Redis::start();
    let proxy =
        FaultProxy::start(format!("127.0.0.1:{}", redis.port()).parse().unwrap()).await.unwrap();
    let whole = store(&redis.url()).await;
    let cut = hasty_store(&format!("redis://{}", proxy.address())).await;
    for store in [&whole, &cut] {
        store.watch("a").await.unwrap();
    }
    let (mut heard_whole, mut heard_cut) = (whole.notices(), cut.notices());
    advance(&whole, "a", 1).await;
    for notices in [&mut heard_whole, &mut heard_cut] {
        assert_eq!(heard(notices).await, "a 1/1 entry 1");
    }
    proxy.refuse();
    cut.watch("b").await.unwrap_err();
    for version in 1..5 {
        whole.commit(step("a", Some(at(1, version)), at(1, version + 1))).await.unwrap();
        let expected = format!("a 1/{0} entry {0}", version + 1);
        assert_eq!(heard(&mut heard_whole).await, expected);
    }
    let left = cut.unwatch("never watched");
    timeout(Duration::from_secs(1), left).await.expect("leaving never waits");
    assert_eq!(heard_cut.try_recv().unwrap_err(), TryRecvError::Empty);
    proxy.heal();
    gap(&mut heard_cut).await;
    let missed = async {
        loop {
            // The breaker may still be open.
            if let Ok(missed) = cut.entries("a", at(1, 1)).await {
                return missed.unwrap();
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let missed = timeout(PATIENCE, missed).await.unwrap();
    assert_eq!(missed, (2..=5).map(entry).collect::<Vec<_>>());
    whole.commit(step("a", Some(at(1, 5)), at(1, 6))).await.unwrap();
    assert_eq!(heard(&mut heard_cut).await, "a 1/6 entry 6", "after the gap all is heard");
    assert_eq!(heard(&mut heard_whole).await, "a 1/6 entry 6", "and here without one");
    subscribers(std::slice::from_ref(&redis), "b", 0).await;
}

#[tokio::test]
async fn a_node_whose_connection_is_silently_dropped_has_a_gap() {
    let redis = Redis::start();
    let proxy =
        FaultProxy::start(format!("127.0.0.1:{}", redis.port()).parse().unwrap()).await.unwrap();
    let cut = hasty_store(&format!("redis://{}", proxy.address())).await;
    let whole = store(&redis.url()).await;
    cut.watch("a").await.unwrap();
    let mut notices = cut.notices();
    proxy.cut_downstream();
    cut.load("a").await.unwrap_err();
    advance(&whole, "a", 3).await;
    // One check every two seconds, which may take two.
    sleep(Duration::from_secs(5)).await;
    proxy.heal();
    gap(&mut notices).await;
    whole.commit(step("a", Some(at(1, 3)), at(1, 4))).await.unwrap();
    while heard(&mut notices).await != "a 1/4 entry 4" {}
}
