//! A node that goes away under many users: at once, or in order.

use std::time::Duration;

use futures_util::future::join_all;
use heartline_testing::PATIENCE;
use tokio::time::{sleep, sleep_until, timeout};

use crate::crowd::{Observers, connect_all, names};
use crate::nodes::{Cluster, LEASE, SLACK, SWEEP, is_long, now};
use crate::recording_socket::RecordingSocket;

#[tokio::test]
async fn a_killed_node_makes_one_departure_of_everybody_who_is_nowhere_else() {
    let mut cluster = Cluster::start(3).await;
    let users = names("user", if is_long() { 5000 } else { 2000 });
    let (elsewhere, gone) = users.split_at(500);
    let doomed = connect_all(cluster.node(0), &users).await;
    let kept = connect_all(cluster.node(1), elsewhere).await;
    let mut observers = Vec::new();
    for number in [1, 2] {
        observers.push(Observers::watch(cluster.node(number), &users).await);
    }
    cluster.lose(0).await;
    let killed_at = now();
    // Longer than any departure may take, so that a second one of the same user would show.
    sleep_until(killed_at + LEASE + SWEEP * 5).await;
    for observers in &observers {
        let departures = observers.departures();
        let lost: Vec<&String> =
            gone.iter().filter(|user| !departures.contains_key(*user)).collect();
        assert!(lost.is_empty(), "{} of {} departures were not told", lost.len(), gone.len());
        let twice = departures.iter().filter(|(_, (count, _))| *count > 1).count();
        assert_eq!(twice, 0, "departures that were told twice");
        let wrong = elsewhere.iter().filter(|user| departures.contains_key(*user)).count();
        assert_eq!(wrong, 0, "departures of users who are still here");
        assert_eq!(departures.len(), gone.len());
        let last = departures.values().map(|(_, at)| *at - killed_at).max().unwrap();
        println!("the last of {} departures was told after {last:?}", gone.len());
        assert!(last <= LEASE + SWEEP + SLACK, "the last departure was told after {last:?}");
        assert!(observers.are_open());
    }
    assert_eq!(cluster.routed_nodes(&elsewhere[0]), [cluster.node(0).id.clone()]);
    drop((doomed, kept));
}

#[tokio::test]
async fn a_drained_node_whose_users_come_back_elsewhere_is_told_to_nobody() {
    let mut cluster = Cluster::start(3).await;
    let users = names("user", if is_long() { 2000 } else { 200 });
    let sockets = connect_all(cluster.node(0), &users).await;
    let observers = Observers::watch(cluster.node(2), &users).await;
    let recordings: Vec<RecordingSocket> = sockets.into_iter().map(RecordingSocket::of).collect();
    let drained_at = now();
    cluster.node(0).signal("TERM").await;
    let [_, node2, _] = cluster.all();
    let come_back = recordings.iter().zip(&users).map(async |(recording, user)| {
        let is_closing = |frame: &serde_json::Value| frame["type"] == "connection_closing";
        let closing = recording.receives("goodbye", PATIENCE, is_closing).await;
        assert_eq!(closing.frame["reason"], "server_shutdown");
        let delay_ms = closing.frame["reconnect_delay_ms"].as_u64().unwrap();
        assert!(delay_ms <= 8000, "{}", closing.frame);
        sleep_until(closing.at + Duration::from_millis(delay_ms)).await;
        node2.device(user, "back").await.0
    });
    let back = timeout(PATIENCE, join_all(come_back)).await.expect("everybody is told");
    assert_eq!(cluster.node(0).exit_code().await, Some(0));
    println!("drained within {:?}", now() - drained_at);
    // As long as the drained node's leases were kept, and a sweep.
    sleep(LEASE + SWEEP * 2).await;
    let told = observers.told();
    assert!(told.is_empty(), "{} events, such as {:?}", told.len(), told.first());
    drop(back);
}
