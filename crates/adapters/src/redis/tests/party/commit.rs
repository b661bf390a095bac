use std::time::Duration;

use bytes::Bytes;
use heartline_engines::Redis;
use heartline_party::{
    Changes, Committed, SessionActivity, SessionRecovery, SessionStore, SessionWatch,
};
use heartline_runtime::Clock;
use redis::cmd;
use tokio::time::sleep;

use super::super::{Engines, patient_client};
use super::{advance, at, entry, heard, step, store, stored};
use crate::redis::{RedisPartyConfig, RedisPartyStore, inspect};

#[tokio::test]
async fn a_commit_succeeds_only_at_the_expected_revision() {
    let engines = Engines::start();
    for url in engines.urls() {
        let store = store(&url).await;
        assert_eq!(store.load("a").await.unwrap(), None);
        let from_somewhere = step("a", Some(at(1, 4)), at(1, 5));
        let absent = Committed::Conflict(None);
        assert_eq!(store.commit(from_somewhere.clone()).await.unwrap(), absent);
        advance(&store, "a", 4).await;
        let again = store.commit(step("a", None, at(1, 1))).await.unwrap();
        assert_eq!(again, Committed::Conflict(Some(at(1, 4))), "it is there already");
        let elsewhere = store.commit(step("a", Some(at(2, 4)), at(2, 5))).await.unwrap();
        assert_eq!(elsewhere, Committed::Conflict(Some(at(1, 4))), "another incarnation");
        assert_eq!(store.load("a").await.unwrap(), Some(stored(at(1, 4))));
        assert_eq!(store.commit(from_somewhere).await.unwrap(), Committed::Done);
        assert_eq!(store.load("a").await.unwrap(), Some(stored(at(1, 5))));
        let revisions = store.revisions(&["b".to_owned(), "a".to_owned()]).await.unwrap();
        assert_eq!(revisions, [None, Some(at(1, 5))]);
        assert!(!store.remove("a", at(1, 4)).await.unwrap());
        assert!(store.remove("a", at(1, 5)).await.unwrap());
        assert_eq!(store.load("a").await.unwrap(), None);
        assert_eq!(store.active(10).await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn of_many_concurrent_commits_one_succeeds_at_each_revision() {
    let engines = Engines::start();
    for url in engines.urls() {
        let stores = [store(&url).await, store(&url).await, store(&url).await];
        advance(&stores[0], "a", 1).await;
        let taken = stores.iter().map(async |store| {
            let (mut taken, mut version) = (0, 1);
            while version < 100 {
                let next = step("a", Some(at(1, version)), at(1, version + 1));
                match store.commit(next).await.unwrap() {
                    Committed::Done => (taken, version) = (taken + 1, version + 1),
                    Committed::Conflict(present) => version = present.unwrap().version,
                }
            }
            taken
        });
        let taken = futures_util::future::join_all(taken).await;
        assert_eq!(taken.iter().sum::<u64>(), 99, "{taken:?}");
        let entries = stores[0].entries("a", at(1, 1)).await.unwrap().unwrap();
        assert_eq!(entries, (2..=100).map(entry).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn entries_are_all_that_lead_here_or_none() {
    let engines = Engines::start();
    for url in engines.urls() {
        let store = store(&url).await;
        assert_eq!(store.entries("a", at(1, 0)).await.unwrap(), None, "it is not there");
        advance(&store, "a", 5).await;
        let after = async |incarnation, version| {
            store.entries("a", at(incarnation, version)).await.unwrap()
        };
        assert_eq!(after(1, 5).await, Some(Vec::new()));
        assert_eq!(after(1, 3).await, Some(vec![entry(4), entry(5)]));
        assert_eq!(after(1, 0).await.unwrap().len(), 5);
        assert_eq!(after(1, 6).await, None, "the future");
        assert_eq!(after(2, 3).await, None, "another incarnation");
        let mut sixth = step("a", Some(at(1, 5)), at(1, 6));
        sixth.entries_kept = 2;
        store.commit(sixth).await.unwrap();
        assert_eq!(after(1, 4).await, Some(vec![entry(5), entry(6)]));
        assert_eq!(after(1, 3).await, None, "trimmed");
    }
}

#[tokio::test]
async fn entries_expire_before_their_session() {
    let redis = Redis::start();
    let config = RedisPartyConfig {
        event_log_ttl: Duration::from_millis(300),
        ..RedisPartyConfig::default()
    };
    let client = patient_client(&redis.url());
    let store = RedisPartyStore::connect(client, config, Clock::system()).await.unwrap();
    advance(&store, "a", 3).await;
    sleep(Duration::from_millis(400)).await;
    assert_eq!(store.entries("a", at(1, 3)).await.unwrap(), Some(Vec::new()));
    assert_eq!(store.entries("a", at(1, 2)).await.unwrap(), None);
    store.commit(step("a", Some(at(1, 3)), at(1, 4))).await.unwrap();
    assert_eq!(store.entries("a", at(1, 2)).await.unwrap(), None);
    // The machine may have taken longer than the entries are kept.
    let last = store.entries("a", at(1, 3)).await.unwrap();
    assert!(last.is_none() || last == Some(vec![entry(4)]), "{last:?}");
}

#[tokio::test]
async fn a_session_that_is_created_again_has_nothing_of_the_former() {
    let engines = Engines::start();
    for url in engines.urls() {
        let (store, client) = (store(&url).await, patient_client(&url));
        let mut first = step("a", None, at(1, 1));
        first.changes.set.push(("item:1".to_owned(), b"x".to_vec()));
        store.commit(first).await.unwrap();
        // As if the state had ended and its log had not.
        client.query::<u8>(cmd("DEL").arg("test:party:{a}:state")).await.unwrap();
        store.commit(step("a", None, at(1, 2))).await.unwrap();
        assert_eq!(store.entries("a", at(1, 1)).await.unwrap(), Some(vec![entry(2)]));
        assert_eq!(store.entries("a", at(1, 0)).await.unwrap(), None);
        // As if somebody had written into a session that is not there.
        client.query::<u8>(cmd("DEL").arg("test:party:{a}:state")).await.unwrap();
        let stray = cmd("HSET").arg("test:party:{a}:state").arg("item:9").arg("x").to_owned();
        client.query::<u8>(&stray).await.unwrap();
        assert_eq!(store.load("a").await.unwrap(), None);
        store.commit(step("a", None, at(2, 10_002))).await.unwrap();
        assert_eq!(store.load("a").await.unwrap(), Some(stored(at(2, 10_002))));
        assert_eq!(store.entries("a", at(1, 2)).await.unwrap(), None);
    }
}

#[tokio::test]
async fn four_mebibytes_of_bytes_of_every_value_are_one_step() {
    let engines = Engines::start();
    for url in engines.urls() {
        let store = store(&url).await;
        store.watch("a").await.unwrap();
        let mut notices = store.notices();
        let every: Vec<u8> = (0..=255).cycle().take(1024).collect();
        let fields: Vec<(String, Vec<u8>)> =
            (0..4096).map(|number| (format!("item:{number}"), every.clone())).collect();
        let mut large = step("a", None, at(1, 1));
        large.changes = Changes { set: fields.clone(), remove: Vec::new() };
        large.entry = Bytes::from([&every[..]; 64].concat());
        store.commit(large.clone()).await.unwrap();
        let mut held = store.load("a").await.unwrap().unwrap();
        held.fields.sort();
        let mut expected = fields.clone();
        expected.sort();
        assert!(held.fields == expected, "every byte is there");
        assert!(heard(&mut notices).await.len() > 60_000, "64 KiB are published");

        let mut larger = step("a", Some(at(1, 1)), at(1, 2));
        larger.changes.remove = fields.into_iter().map(|(name, _)| name).collect();
        larger.entry = Bytes::from([&every[..]; 65].concat());
        store.commit(larger.clone()).await.unwrap();
        assert_eq!(heard(&mut notices).await, "a 1/2 -", "more must be read");
        assert_eq!(store.load("a").await.unwrap(), Some(stored(at(1, 2))));
        let entries = store.entries("a", at(1, 0)).await.unwrap().unwrap();
        assert!(entries == [large.entry, larger.entry]);
    }
}

#[tokio::test]
async fn every_key_expires_and_keep_extends_it() {
    let redis = Redis::start();
    let store = store(&redis.url()).await;
    advance(&store, "a", 2).await;
    store.lock("a", "me").await.unwrap();
    store.offer("a", stored(at(1, 2))).await.unwrap();
    let ttl = |name: &str| -> i64 {
        redis.command(&["PTTL", &format!("test:party:{{a}}:{name}")]).parse().unwrap()
    };
    for (name, seconds) in [("state", 4 * 3600), ("events", 300), ("lock", 10), ("offer", 60)] {
        let left = ttl(name);
        assert!(0 < left && left <= seconds * 1000, "{name}: {left}");
    }
    for name in ["state", "events"] {
        redis.command(&["PEXPIRE", &format!("test:party:{{a}}:{name}"), "60000"]);
    }
    let gone = store.keep(&["a".to_owned(), "b".to_owned()]).await.unwrap();
    assert_eq!(gone, ["b"]);
    assert!(ttl("state") > 60_000 && ttl("events") > 60_000);
    let inspection = inspect(&patient_client(&redis.url()), 3, Duration::from_secs(1)).await;
    let inspection = inspection.unwrap();
    assert_eq!((inspection.anomalies, inspection.examined), (Vec::new(), 0));
}

#[tokio::test]
async fn active_sessions_are_listed_by_their_last_activity() {
    let engines = Engines::start();
    for url in engines.urls() {
        let (store, client) = (store(&url).await, patient_client(&url));
        for id in ["c", "b", "a"] {
            advance(&store, id, 1).await;
        }
        assert_eq!(store.active(10).await.unwrap(), ["c", "b", "a"]);
        store.keep(&["c".to_owned(), "gone".to_owned()]).await.unwrap();
        assert_eq!(store.active(10).await.unwrap(), ["b", "a", "c"]);
        assert_eq!(store.active(1).await.unwrap(), ["b"]);
        assert_eq!(store.active(0).await.unwrap(), Vec::<String>::new());
        let mut left = step("b", Some(at(1, 1)), at(1, 2));
        left.is_active = false;
        store.commit(left).await.unwrap();
        store.inactive("a").await.unwrap();
        assert_eq!(store.active(10).await.unwrap(), ["c"]);
        let now_us = store.now_ms().await.unwrap() * 1000;
        for (id, minutes) in [("silent", 61), ("quiet", 59)] {
            let mut sign = cmd("ZADD");
            sign.arg("test:party:active").arg(now_us - minutes * 60_000_000).arg(id);
            client.query::<u8>(&sign).await.unwrap();
        }
        assert_eq!(store.active(10).await.unwrap(), ["quiet", "c"]);
    }
}

#[tokio::test]
async fn many_sessions_are_asked_for_and_kept_at_once() {
    let engines = Engines::start();
    for url in engines.urls() {
        let store = store(&url).await;
        let ids: Vec<String> = (0..600).map(|number| format!("session-{number}")).collect();
        let (present, absent) = ids.split_at(500);
        let steps = present.iter().map(|id| store.commit(step(id, None, at(1, 1))));
        for committed in futures_util::future::join_all(steps).await {
            assert_eq!(committed.unwrap(), Committed::Done);
        }
        let revisions = store.revisions(&ids).await.unwrap();
        assert_eq!(revisions[..500], vec![Some(at(1, 1)); 500]);
        assert_eq!(revisions[500..], vec![None; 100]);
        assert_eq!(store.keep(&ids).await.unwrap(), absent);
        assert_eq!(store.active(1000).await.unwrap().len(), 500);
    }
}

#[tokio::test]
async fn an_invalid_commit_is_rejected_and_nothing_is_written() {
    let redis = Redis::start();
    let store = store(&redis.url()).await;
    for id in ["", "a}:state", "a b"] {
        store.load(id).await.unwrap_err();
        store.commit(step(id, None, at(1, 1))).await.unwrap_err();
        store.watch(id).await.unwrap_err();
        store.revisions(&[id.to_owned()]).await.unwrap_err();
    }
    let mut own = step("a", None, at(1, 1));
    own.changes.set.push(("revision".to_owned(), b"9/9".to_vec()));
    store.commit(own).await.unwrap_err();
    assert_eq!(redis.command(&["DBSIZE"]), "0");
}
