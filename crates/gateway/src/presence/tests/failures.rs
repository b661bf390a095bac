//! The frames during failures of the directory and the store, and the recovery afterwards.

use std::sync::atomic::Ordering;
use std::time::Duration;

use heartline_protocol::rest::Visibility;
use heartline_runtime::Clock;
use serde_json::{Value, json};

use super::fixtures::{World, user};

/// The presence of a user that cannot be read.
fn stale(name: &str) -> Value {
    json!({ "user_id": name, "status": "unknown", "stale": true })
}

fn stale_event(name: &str) -> Value {
    json!({ "type": "presence_changed", "user_id": name, "status": "unknown", "stale": true })
}

#[tokio::test]
async fn without_the_store_every_user_is_unknown_and_later_changes_are_pushed() {
    let mut world = World::start(Visibility::Everyone);
    world.relations.choose("hidden", Visibility::Nobody);
    let ana = world.listener("ana");
    world.subscribe(&ana, &["bo"]).await;
    ana.receive_one().await;
    world.relations.is_down.store(true, Ordering::Relaxed);
    for name in ["bo", "hidden"] {
        world.comes(name).await;
    }
    world.subscribe(&ana, &["hidden", "nobody"]).await;
    let heard = ana.receive_one().await;
    assert_eq!(heard["users"], json!([stale("hidden"), stale("nobody")]), "all alike");
    world.relations.is_down.store(false, Ordering::Relaxed);
    let mut events = ana.receive(3).await;
    events.sort_by_key(|event| event["user_id"].to_string());
    let is_of = |event: &Value, name: &str, status: &str| {
        event["user_id"] == name && event["status"] == status && event.get("stale").is_none()
    };
    assert!(is_of(&events[0], "bo", "online"), "{events:?}");
    assert!(is_of(&events[1], "hidden", "unknown"), "{events:?}");
    assert!(is_of(&events[2], "nobody", "unknown"), "{events:?}");
    assert_eq!(events.len(), 3);
}

#[tokio::test]
async fn a_store_that_hangs_does_not_delay_the_snapshot() {
    let mut world = World::start(Visibility::Everyone);
    let ana = world.listener("ana");
    world.comes("bo").await;
    world.relations.hangs.store(true, Ordering::Relaxed);
    let asked_at = Clock::system().now();
    world.subscribe(&ana, &["bo"]).await;
    assert!(
        Clock::system().now() - asked_at < Duration::from_secs(5),
        "{:?}",
        Clock::system().now() - asked_at
    );
    assert_eq!(ana.receive_one().await["users"], json!([stale("bo")]));
    world.relations.hangs.store(false, Ordering::Relaxed);
    assert_eq!(ana.receive_one().await["status"], "online");
}

#[tokio::test]
async fn a_directory_that_fails_or_is_rebuilding_makes_every_user_stale() {
    let mut world = World::start(Visibility::Everyone);
    world.relations.choose("hidden", Visibility::Nobody);
    let ana = world.listener("ana");
    for name in ["bo", "hidden"] {
        world.comes(name).await;
    }
    let names = ["bo", "hidden", "nobody"];
    for trouble in [&world.directory.is_down, &world.directory.is_rebuilding] {
        trouble.store(true, Ordering::Relaxed);
        world.subscribe(&ana, &names).await;
        assert_eq!(ana.receive_one().await["users"], json!(names.map(stale)));
        trouble.store(false, Ordering::Relaxed);
        let events = ana.receive(3).await;
        let online = events.iter().filter(|event| event["status"] == "online");
        assert_eq!(online.map(|event| &event["user_id"]).collect::<Vec<_>>(), ["bo"]);
        assert!(events.iter().all(|event| event.get("stale").is_none()), "{events:?}");
    }
}

#[tokio::test]
async fn a_silent_directory_is_pushed_once_and_later_the_changes() {
    let mut world = World::start(Visibility::Everyone);
    world.relations.choose("hidden", Visibility::Nobody);
    world.relations.choose("also-hidden", Visibility::Nobody);
    let ana = world.listener("ana");
    let bo = world.comes("bo").await;
    for name in ["cy", "hidden", "also-hidden"] {
        world.comes(name).await;
    }
    world.subscribe(&ana, &["bo", "cy", "hidden"]).await;
    ana.receive_one().await;
    world.news("also-hidden", true, &["ana"]);
    world.directory.is_silent_for(16);
    let mut events = ana.receive(3).await;
    events.sort_by_key(|event| event["user_id"].to_string());
    let expected = ["bo", "cy", "hidden"].map(stale_event);
    assert_eq!(events, expected, "nothing is pushed about a hidden user without a subscription");
    world.goes(&bo).await;
    world.directory.is_silent_for(0);
    let mut events = ana.receive(3).await;
    events.sort_by_key(|event| event["user_id"].to_string());
    let told: Vec<_> = events.iter().map(|event| event["status"].as_str().unwrap()).collect();
    assert_eq!(told, ["offline", "online", "unknown"], "{events:?}");
}

#[tokio::test]
async fn too_many_commands_are_refused_and_dropped_ones_cause_a_new_evaluation() {
    let mut world = World::start(Visibility::Nobody);
    let ana = world.listener("ana");
    world.comes("bo").await;
    world.subscribe(&ana, &["bo"]).await;
    assert_eq!(ana.receive_one().await["users"][0]["status"], "unknown");
    // The task cannot run before this one waits.
    world.relations.choose("bo", Visibility::Everyone);
    let missed = &world.metrics.presence.orders_missed;
    while missed.get() == 0 {
        world.plane.privacy_changed(Vec::new());
    }
    assert!(world.try_ask(&ana, &["cy"], true).is_none(), "the queue is full");
    world.plane.privacy_changed(vec![user("bo")]);
    assert_eq!(missed.get(), 2);
    assert_eq!(ana.receive_one().await["status"], "online");
}

#[tokio::test]
async fn a_lagging_receiver_evaluates_every_user_again() {
    let mut world = World::resting(Visibility::Everyone);
    let ana = world.listener("ana");
    let answer = world.ask(&ana, &["bo"], true);
    world.wake();
    answer.await.unwrap();
    ana.receive_one().await;
    // More changes than the channel holds, at once: the task cannot run meanwhile.
    world.comes("bo").await;
    for _ in 0..5000 {
        let key = world.comes("somebody-else").await;
        world.goes(&key).await;
    }
    assert_eq!(ana.receive_one().await["status"], "online");
}
