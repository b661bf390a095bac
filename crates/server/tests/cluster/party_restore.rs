//! Redis loses a session, and the node that restores it is paused while it holds the lock: the
//! other nodes restore the session, with the newest state of all three.

use std::time::Duration;

use heartline_testing::party::{Join, Outcome, uuid};
use heartline_testing::{PATIENCE, eventually};
use tokio::time::sleep;

use crate::nodes::{Network, Setup, now};
use crate::party_session::{Member, SOON};

/// How long a lock is held at most.
const LOCK: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_party_is_restored_whole_though_its_restorer_stops() {
    let setup = Setup::nodes(3).network(Network::FaultyToRedis);
    let cluster = setup.set("party.archive_debounce", "1s").start().await;
    let nodes = cluster.all::<3>();
    let mut ana = Member::join(nodes[0], None, "wall", Join::default()).await;
    let mut bo = Member::join(nodes[1], None, "wall", Join::default()).await;
    let mut cy = Member::join(nodes[2], None, "wall", Join::default()).await;
    for number in 1..=5 {
        assert!(matches!(ana.try_add(number).await, Outcome::Done(_)));
    }
    cluster.agrees("wall", &[&ana, &bo, &cy]).await;

    // Only the first node has the newest state, and no node can archive it before Redis loses it.
    nodes[1].network().refuse();
    nodes[2].network().refuse();
    assert!(matches!(ana.try_add(6).await, Outcome::Done(_)));
    cluster.redis.command(&["FLUSHALL"]);
    let lock = ["EXISTS", "party:{wall}:lock"];
    let begun = now();
    while cluster.redis.command(&lock).trim() != "1" {
        assert!(now() - begun < PATIENCE, "the first node restores the session");
        sleep(Duration::from_millis(1)).await;
    }
    nodes[0].signal("STOP").await;
    assert!(cluster.head("wall").is_none(), "it was stopped before it had restored the session");
    let stopped_at = now();
    nodes[1].network().heal();
    nodes[2].network().heal();
    let is_restored = async || cluster.head("wall").is_some();
    eventually("the others restore the session", LOCK + SOON, is_restored).await;
    println!("restored {:?} after the first restorer had stopped", now() - stopped_at);
    let has_all =
        |member: &Member| member.replica().uuids() == (1..=6).map(uuid).collect::<Vec<_>>();
    let are_right = async || has_all(&bo) && has_all(&cy);
    eventually("the others have the newest state", SOON, are_right).await;
    assert!(matches!(bo.try_add(7).await, Outcome::Done(_)));

    nodes[0].signal("CONT").await;
    let replica = cluster.agrees("wall", &[&ana, &bo, &cy]).await;
    assert_eq!(replica.uuids(), (1..=7).map(uuid).collect::<Vec<_>>());
    assert_eq!(replica.at, (1, 10_007), "it was restored once");
    for (member, number) in [(&mut ana, 8), (&mut cy, 9)] {
        assert!(matches!(member.try_add(number).await, Outcome::Done(_)));
    }
    cluster.agrees("wall", &[&ana, &bo, &cy]).await;
}
