//! The states that each observer gets; no frame shows which users are hidden.

use heartline_protocol::ChatId;
use heartline_protocol::rest::Visibility;
use serde_json::{Value, json};
use ulid::Ulid;

use super::super::TypingNews;
use super::fixtures::{Listener, World, user};

fn unknown(name: &str) -> Value {
    json!({ "type": "presence_changed", "user_id": name, "status": "unknown" })
}

/// The statuses of a snapshot.
async fn snapshot(listener: &Listener) -> Vec<Value> {
    let mut snapshot = listener.receive_one().await;
    assert_eq!(snapshot["type"], "presence_snapshot");
    let Value::Array(users) = snapshot["users"].take() else { panic!("{snapshot}") };
    users
}

fn types(name: &str, observers: &[&str]) -> TypingNews {
    TypingNews {
        user_ids: observers.iter().map(|name| user(name)).collect::<Vec<_>>().into(),
        chat_id: ChatId(Ulid(1)),
        user_id: user(name),
        is_typing: true,
    }
}

#[tokio::test]
async fn members_of_a_shared_active_chat_observe_without_a_subscription() {
    let mut world = World::start(Visibility::Everyone);
    let (phone, tablet, bo) = (world.listener("ana"), world.listener("ana"), world.listener("bo"));
    let key = world.comes("bo").await;
    world.news("bo", true, &["ana", "bo", "somewhere-else"]);
    for device in [&phone, &tablet] {
        let event = device.receive_one().await;
        assert_eq!((&event["user_id"], &event["status"]), (&json!("bo"), &json!("online")));
    }
    // From then on their own node pushes transitions, whichever node decides them.
    world.goes(&key).await;
    for device in [&phone, &tablet] {
        assert_eq!(device.receive_one().await["status"], "offline");
    }
    assert!(bo.received().is_empty(), "nobody observes themselves");
}

#[tokio::test]
async fn transitions_of_hidden_users_are_not_pushed_to_members_of_shared_chats() {
    let mut world = World::start(Visibility::Everyone);
    world.relations.choose("hidden", Visibility::Nobody);
    let ana = world.listener("ana");
    for round in 0..2 {
        let key = world.comes("hidden").await;
        world.news("hidden", true, &["ana"]);
        let seen = world.comes(&format!("bo-{round}")).await;
        world.news(&format!("bo-{round}"), true, &["ana"]);
        let event = ana.receive_one().await;
        assert_eq!(event["user_id"], format!("bo-{round}"), "and nothing else: {event}");
        world.goes(&key).await;
        world.news("hidden", false, &["ana"]);
        world.goes(&seen).await;
        let event = ana.receive_one().await;
        assert_eq!(event["user_id"], format!("bo-{round}"), "and nothing else: {event}");
    }
    // A user who is visible again is pushed to the observers who share a chat.
    world.comes("hidden").await;
    world.news("hidden", true, &["ana"]);
    world.relations.choose("hidden", Visibility::Everyone);
    world.plane.privacy_changed(vec![user("hidden")]);
    let event = ana.receive_one().await;
    assert_eq!((&event["user_id"], &event["status"]), (&json!("hidden"), &json!("online")));
}

#[tokio::test]
async fn each_observer_is_evaluated_separately() {
    let mut world = World::start(Visibility::ContactsOnly);
    world.relations.befriend("bo", "friend");
    world.relations.befriend("bo", "once-a-friend");
    world.relations.part("once-a-friend", "bo");
    let [friend, once, stranger, own] =
        ["friend", "once-a-friend", "stranger", "bo"].map(|name| world.listener(name));
    for listener in [&friend, &once, &stranger, &own] {
        world.subscribe(listener, &["bo", "cy"]).await;
        listener.receive_one().await;
    }
    world.relations.choose("cy", Visibility::Everyone);
    world.comes("bo").await;
    for listener in [&friend, &own] {
        let event = listener.receive_one().await;
        assert_eq!((&event["user_id"], &event["status"]), (&json!("bo"), &json!("online")));
    }
    world.comes("cy").await;
    for listener in [&friend, &once, &stranger, &own] {
        let event = listener.receive_one().await;
        assert_eq!(event["user_id"], "cy", "nothing about bo was pushed: {event}");
    }
}

#[tokio::test]
async fn hiding_looks_exactly_like_being_removed_as_a_contact() {
    let mut world = World::start(Visibility::ContactsOnly);
    world.relations.befriend("ana", "bo");
    world.relations.befriend("ana", "cy");
    let ana = world.listener("ana");
    for name in ["bo", "cy"] {
        world.comes(name).await;
    }
    world.subscribe(&ana, &["bo", "cy"]).await;
    assert!(snapshot(&ana).await.iter().all(|seen| seen["status"] == "online"));
    world.relations.choose("bo", Visibility::Nobody);
    world.plane.privacy_changed(vec![user("bo")]);
    assert_eq!(ana.receive_one().await, unknown("bo"));
    world.relations.part("cy", "ana");
    world.plane.privacy_changed(vec![user("cy"), user("ana")]);
    assert_eq!(ana.receive_one().await, unknown("cy"));
    // The change back.
    world.relations.choose("bo", Visibility::ContactsOnly);
    world.relations.befriend("ana", "cy");
    world.plane.privacy_changed(vec![user("bo"), user("cy")]);
    let events = ana.receive(2).await;
    assert!(events.iter().all(|event| event["status"] == "online"), "{events:?}");
}

#[tokio::test]
async fn hidden_absent_and_nonexistent_users_look_the_same_in_a_snapshot() {
    let mut world = World::start(Visibility::Everyone);
    for (name, visibility) in [
        ("online-hidden", Visibility::Nobody),
        ("offline-hidden", Visibility::Nobody),
        ("online-stranger", Visibility::ContactsOnly),
    ] {
        world.relations.choose(name, visibility);
    }
    world.comes("online-hidden").await;
    world.comes("online-stranger").await;
    world.relations.was_seen("offline-hidden", 1_700_000_000_000);
    let ana = world.listener("ana");
    let names = ["online-hidden", "offline-hidden", "online-stranger", "never-came", "nobody"];
    world.subscribe(&ana, &names).await;
    let users = snapshot(&ana).await;
    let expected = names.map(|name| json!({ "user_id": name, "status": "unknown" }));
    assert_eq!(users, expected);
}

#[tokio::test]
async fn typing_is_pushed_to_those_who_may_see_the_typing_user() {
    let mut world = World::start(Visibility::ContactsOnly);
    world.relations.befriend("bo", "friend");
    let [friend, stranger, own] = ["friend", "stranger", "bo"].map(|name| world.listener(name));
    let members = ["friend", "stranger", "bo", "somewhere-else"];
    world.plane.typing(types("bo", &members));
    let shown = friend.receive_one().await;
    assert_eq!((&shown["type"], &shown["user_id"]), (&json!("typing_indicator"), &json!("bo")));
    world.relations.choose("bo", Visibility::Nobody);
    world.plane.typing(types("bo", &members));
    world.relations.choose("cy", Visibility::Everyone);
    world.plane.typing(types("cy", &members));
    for listener in [&friend, &stranger, &own] {
        assert_eq!(listener.receive_one().await["user_id"], "cy", "of bo they saw nothing");
    }
}
