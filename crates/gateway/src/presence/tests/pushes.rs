//! The frames that observers get, and their order.

use std::sync::atomic::Ordering;

use heartline_protocol::rest::Visibility;
use serde_json::{Value, json};

use super::fixtures::World;
use crate::session::Response;

fn is_about(frame: &Value, name: &str, status: &str) -> bool {
    frame["type"] == "presence_changed" && frame["user_id"] == name && frame["status"] == status
}

#[tokio::test]
async fn the_snapshot_comes_first_and_then_every_state_once() {
    let mut world = World::start(Visibility::Everyone);
    world.relations.was_seen("cy", 1_700_000_000_000);
    let ana = world.listener("ana");
    let phone = world.comes("bo").await;
    world.subscribe(&ana, &["bo", "cy", "dee", "bo"]).await;
    let snapshot = ana.receive_one().await;
    assert_eq!(
        (&snapshot["type"], &snapshot["request_id"]),
        (&json!("presence_snapshot"), &json!("request"))
    );
    let users = snapshot["users"].as_array().unwrap();
    let statuses: Vec<_> = users.iter().map(|seen| (&seen["user_id"], &seen["status"])).collect();
    let [bo, cy, dee] = ["bo", "cy", "dee"].map(|name| json!(name));
    let [online, offline, unknown] = ["online", "offline", "unknown"].map(|status| json!(status));
    assert_eq!(statuses, [(&bo, &online), (&cy, &offline), (&dee, &unknown), (&bo, &online)]);
    assert_eq!(users[1]["last_seen"], "2023-11-14T22:13:20.000Z", "the store remembers");

    let mut version = users[0]["version"].as_u64().unwrap();
    world.goes(&phone).await;
    for round in 0..3 {
        let offline = ana.receive_one().await;
        assert!(is_about(&offline, "bo", "offline"), "{round}: {offline}");
        assert!(offline["last_seen"].is_string(), "{offline}");
        let phone = world.comes("bo").await;
        let online = ana.receive_one().await;
        assert!(is_about(&online, "bo", "online"), "{round}: {online}");
        assert_eq!(online.get("last_seen"), None);
        for event in [offline, online] {
            let newer = event["version"].as_u64().unwrap();
            assert!(newer > std::mem::replace(&mut version, newer), "{event}");
        }
        world.goes(&phone).await;
    }
}

#[tokio::test]
async fn every_connection_has_its_own_watches() {
    let mut world = World::start(Visibility::Everyone);
    let (phone, tablet, cy) = (world.listener("ana"), world.listener("ana"), world.listener("cy"));
    world.subscribe(&phone, &["bo", "dee"]).await;
    world.subscribe(&tablet, &["dee"]).await;
    world.subscribe(&cy, &["bo"]).await;
    for listener in [&phone, &tablet, &cy] {
        assert_eq!(listener.receive_one().await["type"], "presence_snapshot");
    }
    world.comes("bo").await;
    assert!(is_about(&phone.receive_one().await, "bo", "online"));
    assert!(is_about(&cy.receive_one().await, "bo", "online"));
    world.comes("dee").await;
    assert!(is_about(&phone.receive_one().await, "dee", "online"));
    assert!(is_about(&tablet.receive_one().await, "dee", "online"), "and not of bo");
    assert!(cy.received().is_empty());
}

#[tokio::test]
async fn the_commands_of_a_connection_are_performed_in_order() {
    let mut world = World::resting(Visibility::Everyone);
    let ana = world.listener("ana");
    // All commands are queued for the task, which performs them together.
    let answers = [
        world.ask(&ana, &["bo", "cy"], true),
        world.ask(&ana, &["bo"], false),
        world.ask(&ana, &["dee"], true),
        world.ask(&ana, &["dee"], false),
        world.ask(&ana, &["dee"], true),
    ];
    world.wake();
    for answer in answers {
        assert_eq!(answer.await, Ok(Response::AlreadyQueued));
    }
    let users = ana.receive(5).await;
    let users = users.iter().map(|snapshot| snapshot["users"].as_array().unwrap().len());
    assert_eq!(users.collect::<Vec<_>>(), [2, 0, 1, 0, 1], "answered in their order");
    world.comes("bo").await;
    world.comes("cy").await;
    assert!(is_about(&ana.receive_one().await, "cy", "online"), "bo is watched no longer");
    world.comes("dee").await;
    assert!(is_about(&ana.receive_one().await, "dee", "online"));
}

#[tokio::test]
async fn a_connection_that_subscribes_and_closes_at_once_leaves_no_watch() {
    let mut world = World::resting(Visibility::Everyone);
    let (ana, cy) = (world.listener("ana"), world.listener("cy"));
    let answers = [world.ask(&ana, &["bo"], true), world.ask(&cy, &["bo"], true)];
    world.plane.leave(ana.connection_id());
    world.wake();
    for answer in answers {
        assert_eq!(answer.await, Ok(Response::AlreadyQueued));
    }
    world.watches_become(1).await;
}

#[tokio::test]
async fn too_many_subscriptions_are_refused_and_the_others_stay() {
    let mut world = World::start(Visibility::Everyone);
    let ana = world.listener("ana");
    let names: Vec<String> = (0..1000).map(|number| format!("user-{number}")).collect();
    for names in names.chunks(100) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.subscribe(&ana, &names).await;
    }
    let answer = world.ask(&ana, &["one-too-many"], true).await;
    let Ok(Response::Reply(refusal)) = answer else { panic!("{answer:?}") };
    let refusal = serde_json::to_value(refusal).unwrap();
    assert_eq!((&refusal["code"], &refusal["retryable"]), (&json!("CONFLICT"), &json!(false)));
    assert_eq!(refusal["details"]["reason"], "too_many_subscriptions");
    assert_eq!(refusal["request_id"], "request");
    ana.received();
    world.comes("one-too-many").await;
    world.comes("user-999").await;
    assert!(is_about(&ana.receive_one().await, "user-999", "online"));
}

#[tokio::test]
async fn flapping_within_a_moment_is_pushed_as_its_result() {
    let mut world = World::start(Visibility::Everyone);
    let ana = world.listener("ana");
    world.subscribe(&ana, &["bo", "cy"]).await;
    ana.receive_one().await;
    for _ in 0..20 {
        let key = world.comes("bo").await;
        world.goes(&key).await;
    }
    world.comes("bo").await;
    assert!(is_about(&ana.receive_one().await, "bo", "online"), "once");
    world.comes("cy").await;
    assert!(is_about(&ana.receive_one().await, "cy", "online"), "and nothing more");
}

#[tokio::test]
async fn a_connection_too_short_to_be_pushed_shows_in_the_last_seen_time() {
    let mut world = World::start(Visibility::Everyone);
    world.relations.was_seen("bo", 1_700_000_000_000);
    let ana = world.listener("ana");
    world.subscribe(&ana, &["bo"]).await;
    ana.receive_one().await;
    let key = world.comes("bo").await;
    world.goes(&key).await;
    let event = ana.receive_one().await;
    assert!(is_about(&event, "bo", "offline"), "{event}");
    assert!(event["last_seen"].as_str().unwrap() > "2023-11-14T22:13:20.000Z", "{event}");
}

#[tokio::test]
async fn a_wave_of_transitions_is_read_together() {
    let mut world = World::start(Visibility::Everyone);
    let ana = world.listener("ana");
    let names: Vec<String> = (0..500).map(|number| format!("user-{number}")).collect();
    for names in names.chunks(100) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.subscribe(&ana, &names).await;
    }
    ana.received();
    let asked_before = world.relations.calls.load(Ordering::Relaxed);
    for name in &names {
        world.comes(name).await;
    }
    let events = ana.receive(500).await;
    assert_eq!(events.len(), 500);
    let asked = world.relations.calls.load(Ordering::Relaxed) - asked_before;
    // One read, unless the machine is so slow that the wave takes several intervals.
    assert!(asked < 50, "the store was asked {asked} times");
}
