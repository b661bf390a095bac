//! Disconnections that do not end presence, late transitions, and presence after a restart.

use std::time::Duration;

use heartline_runtime::{Clock, TaskSet};
use heartline_testing::chat::open_store;
use heartline_testing::presence::{OPEN, SENTINEL, is_known, unknown};
use heartline_testing::{Files, PATIENCE, Socket};
use serde_json::Value;
use tokio::time::timeout;

use crate::HEARTLINE;
use crate::peers::{Attentive, Received, now};

/// Configuration with visibility for everyone and short leases.
fn short_leases(more: &str) -> String {
    format!(
        "[routing]\nlease = \"3s\"\nrenew_interval = \"500ms\"\nsweep_interval = \"100ms\"\n\
         [presence]\ndefault_visibility = \"everyone\"\n{more}\n"
    )
}

const PATIENT: &str = "[gateway]\nheartbeat_interval = \"60s\"\nheartbeat_timeout = \"120s\"\n";

/// The last-seen time of a user, from the store of a server that has ended.
fn stored(files: &Files, user: &str) -> Option<i64> {
    let sql = "SELECT last_seen FROM users WHERE user_id = ?1";
    open_store(&files.data()).query_row(sql, [user], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn whoever_stays_stays_online_for_many_leases() {
    let server = HEARTLINE.start_with(&format!("{PATIENT}{}", short_leases(""))).await;
    let mut ana = server.connect("ana").await;
    let _bo = server.connect("bo").await;
    let first = ana.subscribe(&["bo", SENTINEL]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    server.receives_nothing_else(&mut ana).await;
    assert_eq!(server.seen("ana", "bo").await, first[0]);
}

#[tokio::test]
async fn a_pause_of_the_server_that_leases_outlive_shows_nobody_as_gone() {
    let config = short_leases("").replace("lease = \"3s\"", "lease = \"8s\"");
    let server = HEARTLINE.start_with(&format!("{PATIENT}{config}")).await;
    let mut ana = server.connect("ana").await;
    let _bo = server.connect("bo").await;
    ana.subscribe(&["bo", SENTINEL]).await;
    for _ in 0..2 {
        server.signal("STOP").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.signal("CONT").await;
        server.receives_nothing_else(&mut ana).await;
    }
}

#[tokio::test]
async fn a_silent_device_is_gone_after_the_heartbeat_timeout() {
    let more = "[gateway]\nheartbeat_interval = \"300ms\"\nheartbeat_timeout = \"900ms\"\n";
    let server = HEARTLINE.start_with(&short_leases(more)).await;
    let silent_since = Clock::system().wall();
    let started = now();
    let mut bo = server.connect("bo").await;
    server.seen_as("ana", "bo", "online").await;
    let offline = server.seen_as("ana", "bo", "offline").await;
    let took = now() - started;
    assert!(took < Duration::from_secs(10), "{took:?}");
    is_known(&offline, "bo", "offline");
    assert!(offline["last_seen"].as_str().unwrap() > silent_since.to_string().as_str());
    bo.closes("heartbeat_timeout", 4410).await;
}

#[tokio::test]
async fn a_return_within_the_linger_causes_no_event() {
    let server = HEARTLINE
        .start_with(&format!("{PATIENT}{}", short_leases("offline_linger = \"3s\"")))
        .await;
    let mut ana = server.connect("ana").await;
    let first = ana.subscribe(&["bo", "cy", "dee"]).await;
    assert_eq!(first[0], unknown("bo"));
    let mut bo = server.connect("bo").await;
    ana.presence("bo", "online").await;
    for _ in 0..3 {
        bo.leaves().await;
        is_known(&server.seen("ana", "bo").await, "bo", "online");
        bo = server.connect("bo").await;
    }
    drop(bo);
    let bo = server.connect("bo").await;
    // Longer than any of those lingers.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let _cy = server.connect("cy").await;
    ana.presence("cy", "online").await;
    let (left_at, left) = (now(), Clock::system().wall());
    bo.leaves().await;
    let gone = Clock::system().wall();
    let offline = ana.presence("bo", "offline").await;
    let took = now() - left_at;
    assert!(took >= Duration::from_millis(2900), "{took:?}");
    let last_seen = offline["last_seen"].as_str().unwrap();
    let range = left.to_string()..=gone.to_string();
    assert!(range.contains(&last_seen.to_owned()), "the leave itself, not its end: {last_seen}");
    let _dee = server.connect("dee").await;
    ana.presence("dee", "online").await;
}

#[tokio::test]
async fn whoever_is_asked_to_come_again_and_does_is_not_seen_to_leave() {
    let more = "[gateway]\nheartbeat_interval = \"2s\"\nheartbeat_timeout = \"5s\"\n\
                max_connection_age = \"6s\"\n";
    let server = HEARTLINE.start_with(&short_leases(more)).await;
    let mut bo = server.connect("bo").await;
    let mut cy = server.connect("cy").await;
    // Younger than the two, so that it outlives both by a moment.
    tokio::time::sleep(Duration::from_secs(2)).await;
    bo.is_open().await;
    cy.is_open().await;
    let mut ana = server.connect("ana").await;
    let users = ana.subscribe(&["bo", "cy", "dee"]).await;
    assert!(users[..2].iter().all(|seen| seen["status"] == "online"), "{users:?}");
    let left_at = Clock::system().wall();
    for device in [&mut bo, &mut cy] {
        device.closes("max_age", 1001).await;
    }
    let closed_at = Clock::system().wall();
    let bo = server.connect("bo").await;
    let _dee = server.connect("dee").await;
    ana.presence("dee", "online").await;
    is_known(&server.seen("ana", "bo").await, "bo", "online");
    is_known(&server.seen("ana", "cy").await, "cy", "online");
    // A user who does not reconnect is offline one lease after the Close.
    let offline = server.seen_as("dee", "cy", "offline").await;
    let last_seen = offline["last_seen"].as_str().unwrap().to_owned();
    assert!((left_at.to_string()..=closed_at.to_string()).contains(&last_seen), "{offline}");
    is_known(&server.seen("ana", "bo").await, "bo", "online");
    drop(bo);
}

/// Reads to the end and returns the presence events.
async fn presence_events(socket: Socket) -> Vec<Value> {
    let received = Attentive::new(socket).ended().await;
    let presence = received.into_iter().filter_map(|received| match received {
        Received::Other(frame) if frame["type"] == "presence_changed" => Some(frame),
        _ => None,
    });
    presence.collect()
}

#[tokio::test]
async fn a_drain_shows_nobody_as_gone() {
    // So many users that closing their connections takes longer than the interval in which
    // transitions are collected.
    let mut server = HEARTLINE.start_with(OPEN).await;
    let names: Vec<String> = (0..400).map(|number| format!("user-{number}")).collect();
    let watched: Vec<&str> = names[..50].iter().map(String::as_str).collect();
    let mut sockets = Vec::new();
    for name in &names {
        sockets.push(server.connect(name).await);
    }
    for socket in &mut sockets {
        let users = socket.subscribe(&watched).await;
        assert!(users.iter().all(|seen| seen["status"] == "online"), "{users:?}");
    }
    server.signal("TERM").await;
    let listening: TaskSet<_> = sockets.into_iter().map(presence_events).collect();
    let events = listening.join_all().await.concat();
    assert!(events.is_empty(), "{} events, such as {:?}", events.len(), events[0]);
    assert_eq!(server.exit_code().await, Some(0));
}

#[tokio::test]
async fn when_users_were_last_here_outlives_an_orderly_end() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    ana.subscribe(&["early"]).await;
    let early = server.connect("early").await;
    ana.presence("early", "online").await;
    early.leaves().await;
    let early = ana.presence("early", "offline").await;
    let _late = server.connect("late").await;
    let ended_after = Clock::system().wall();
    let files = server.stop_with("TERM").await;
    let ended_before = Clock::system().wall();
    let server = HEARTLINE.start_on(files, OPEN).await;
    let seen = server.all_seen("ana", &["early", "late", "never"]).await;
    is_known(&seen[0], "early", "offline");
    assert_eq!(seen[0]["last_seen"], early["last_seen"]);
    assert!(seen[0]["version"].as_u64() > early["version"].as_u64(), "versions rise");
    is_known(&seen[1], "late", "offline");
    let last_seen = seen[1]["last_seen"].as_str().unwrap().to_owned();
    assert!((ended_after.to_string()..=ended_before.to_string()).contains(&last_seen));
    assert_eq!(seen[2], unknown("never"));
    let mut ana = server.connect("ana").await;
    assert_eq!(ana.subscribe(&["early"]).await[0]["last_seen"], early["last_seen"]);
    let _early = server.connect("early").await;
    let online = ana.presence("early", "online").await;
    assert!(online["version"].as_u64() > early["version"].as_u64(), "versions rise");
}

/// A single node forgets its leases with its process: what is shown after a crash is when each
/// user's last connection ended before it, as far as that was written.
#[tokio::test]
async fn after_a_crash_users_were_last_here_when_their_last_connection_ended() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    ana.subscribe(&["bo", "cy"]).await;
    let bo = server.connect("bo").await;
    ana.presence("bo", "online").await;
    bo.leaves().await;
    let first = ana.presence("bo", "offline").await;
    let _bo = server.connect("bo").await;
    let _cy = server.connect("cy").await;
    // Written a moment after the leave.
    let store = open_store(&server.data());
    let sql = "SELECT count(*) FROM users WHERE user_id = 'bo' AND last_seen IS NOT NULL";
    let written = async {
        while store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, written).await.expect("the leave is written, although bo is back");
    drop(store);
    let files = server.stop_with("KILL").await;
    assert!(stored(&files, "bo").is_some());
    let server = HEARTLINE.start_on(files, OPEN).await;
    let seen = server.all_seen("ana", &["bo", "cy"]).await;
    is_known(&seen[0], "bo", "offline");
    assert_eq!(seen[0]["last_seen"], first["last_seen"], "the last leave before the crash");
    assert_eq!(seen[1], unknown("cy"), "who never left is not known to have been here");
    let _cy = server.connect("cy").await;
    is_known(&server.seen("ana", "cy").await, "cy", "online");
}
