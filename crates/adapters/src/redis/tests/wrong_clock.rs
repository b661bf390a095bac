use std::path::Path;
use std::process::Command;

use heartline_engines::Redis;
use heartline_routing::{Connections, Leases, PresenceState, PresenceStates, Registration};
use heartline_runtime::Clock;
use tokio::time::sleep;

use super::{LEASE, directory, lease, policy, settled, user};

/// Where Debian puts the library that lies about the time.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// Tells the process that it is the node whose clock is wrong, and which Redis to use.
const WRONG_NODE: &str = "HEARTLINE_TEST_WRONG_CLOCK_REDIS";

#[tokio::test]
async fn a_node_whose_clock_is_an_hour_wrong_holds_leases_like_any_other() {
    if let Ok(url) = std::env::var(WRONG_NODE) {
        return be_the_wrong_node(&url).await;
    }
    if !Path::new(FAKETIME).exists() {
        return println!("libfaketime is not installed: nothing was checked");
    }
    for (number, offset) in [(1, "+3600"), (2, "-3600")] {
        let redis = Redis::start();
        let right = directory(&redis.url(), "node-right", 4).await;
        settled(&right).await;
        let name = "redis::tests::wrong_clock::\
                    a_node_whose_clock_is_an_hour_wrong_holds_leases_like_any_other";
        let mut wrong = Command::new(std::env::current_exe().unwrap());
        wrong.args(["--exact", name]).env(WRONG_NODE, redis.url()).env("LD_PRELOAD", FAKETIME);
        wrong.env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let output = wrong.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{offset} in round {number}: {said}");

        let live = right.by_user(&[user("alice")]).await.unwrap();
        assert_eq!(live[0].len(), 1, "its lease is not over early");
        assert!(live[0][0].remaining <= LEASE * 3, "nor does it last for ever");
        assert!(live[0][0].age < LEASE * 30, "{:?}", live[0][0].age);
        sleep(LEASE * 3).await;
        right.sweep(10, policy()).await.unwrap();
        assert_eq!(right.by_user(&[user("alice")]).await.unwrap(), [vec![]]);
        let states = right.presence(&[user("alice")]).await.unwrap();
        let PresenceState::Offline { last_seen: Some(last_seen), .. } = states[0] else {
            panic!("it went offline, not {states:?}");
        };
        assert!(last_seen.until(Clock::system().wall()) < LEASE * 60, "by the time of Redis");
    }
}

/// Registers and renews with a clock that is an hour off.
async fn be_the_wrong_node(url: &str) {
    let wrong = directory(url, "node-wrong", 4).await;
    let held = lease("alice", "node-wrong", 1, 4);
    let admitted = wrong.register(held.clone(), policy()).await.unwrap();
    assert_eq!(admitted, Registration::Admitted { replaced: Vec::new() });
    for _ in 0..4 {
        sleep(LEASE / 2).await;
        // Long enough that the other process has the time to look.
        let lost = wrong.renew(std::slice::from_ref(&held.key), LEASE * 3).await.unwrap();
        assert_eq!(lost, []);
        wrong.sweep(10, policy()).await.unwrap();
    }
}
