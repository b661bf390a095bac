//! Presence for subscribers: the events, their order, and the limits of subscriptions.

use heartline_protocol::Timestamp;
use heartline_runtime::Clock;
use heartline_testing::presence::{OPEN, SENTINEL, is_known, unknown};
use heartline_testing::{seconds_from_now, sign};
use serde_json::{Value, json};

use crate::HEARTLINE;

fn version(seen: &Value) -> u64 {
    seen["version"].as_u64().unwrap_or_else(|| panic!("{seen} has no version"))
}

/// Asserts that the last-seen time is between two readings of the clock.
fn was_here_between(seen: &Value, earlier: Timestamp, later: Timestamp) {
    let last_seen = seen["last_seen"].as_str().unwrap();
    let (earlier, later) = (earlier.to_string(), later.to_string());
    assert!((earlier.as_str()..=later.as_str()).contains(&last_seen), "{earlier} {seen} {later}");
}

#[tokio::test]
async fn the_snapshot_comes_first_and_then_every_change_in_order() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    let bo = server.connect("bo").await;
    let users = ana.subscribe(&["bo", "never-came", "bo", "ana"]).await;
    is_known(&users[0], "bo", "online");
    assert_eq!(users[1], unknown("never-came"));
    assert_eq!(users[2], users[0], "whoever is named twice is told of twice");
    is_known(&users[3], "ana", "online");
    let mut last_version = version(&users[0]);
    let mut bo = Some(bo);
    for _ in 0..3 {
        let left_at = Clock::system().wall();
        bo.take().unwrap().leaves().await;
        let offline = ana.presence("bo", "offline").await;
        is_known(&offline, "bo", "offline");
        was_here_between(&offline, left_at, Clock::system().wall());
        bo = Some(server.connect("bo").await);
        let online = ana.presence("bo", "online").await;
        is_known(&online, "bo", "online");
        for event in [offline, online] {
            let newer = version(&event);
            assert!(newer > std::mem::replace(&mut last_version, newer), "versions rise");
        }
    }
}

#[tokio::test]
async fn only_the_first_device_and_the_last_make_a_difference() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    ana.subscribe(&["bo", SENTINEL]).await;
    let phone = server.connect_device("bo", "phone").await;
    ana.presence("bo", "online").await;
    let tablet = server.connect_device("bo", "tablet").await;
    server.receives_nothing_else(&mut ana).await;
    phone.leaves().await;
    server.receives_nothing_else(&mut ana).await;
    let phone = server.connect_device("bo", "phone").await;
    let phone_again = server.connect_device("bo", "phone").await;
    server.receives_nothing_else(&mut ana).await;
    drop(phone);
    tablet.leaves().await;
    server.receives_nothing_else(&mut ana).await;
    let left_at = Clock::system().wall();
    phone_again.leaves().await;
    let offline = ana.presence("bo", "offline").await;
    was_here_between(&offline, left_at, Clock::system().wall());
}

#[tokio::test]
async fn two_devices_that_come_or_go_together_are_told_as_one() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    ana.subscribe(&["bo", SENTINEL]).await;
    for _ in 0..10 {
        let (phone, tablet) = tokio::join!(
            server.connect_device("bo", "phone"),
            server.connect_device("bo", "tablet")
        );
        ana.presence("bo", "online").await;
        tokio::join!(phone.leaves(), tablet.leaves());
        ana.presence("bo", "offline").await;
    }
    server.receives_nothing_else(&mut ana).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_is_an_end_too() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    ana.subscribe(&["bo"]).await;
    let bo = server.connect("bo").await;
    ana.presence("bo", "online").await;
    drop(bo);
    ana.presence("bo", "offline").await;
}

#[tokio::test]
async fn whoever_unsubscribes_is_told_no_more() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    let mut cy = server.connect("cy").await;
    for observer in [&mut ana, &mut cy] {
        observer.subscribe(&["bo", SENTINEL]).await;
    }
    ana.unsubscribe(&["bo", "whom-nobody-watched"]).await;
    let bo = server.connect("bo").await;
    cy.presence("bo", "online").await;
    server.receives_nothing_else(&mut ana).await;
    // Two requests in one write are processed in their order.
    let frame = |kind: &str| json!({ "type": kind, "request_id": kind, "user_ids": ["bo"] });
    for kind in ["presence_subscribe", "presence_unsubscribe"] {
        ana.send(&frame(kind)).await;
    }
    assert_eq!(ana.json().await["users"].as_array().unwrap().len(), 1);
    assert_eq!(ana.json().await["users"].as_array().unwrap().len(), 0);
    bo.leaves().await;
    cy.until_presence("bo", "offline").await;
    server.receives_nothing_else(&mut ana).await;
    is_known(&ana.subscribe(&["bo"]).await[0], "bo", "offline");
    let _bo = server.connect("bo").await;
    ana.presence("bo", "online").await;
}

#[tokio::test]
async fn a_client_that_comes_back_subscribes_anew_and_is_told_anew() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect_device("ana", "phone").await;
    let bo = server.connect("bo").await;
    let before = ana.subscribe(&["bo", SENTINEL]).await;
    ana.leaves().await;
    server.metric_becomes("presence_watches", 0.0).await;
    bo.leaves().await;
    let bo = server.connect("bo").await;
    let mut ana = server.connect_device("ana", "phone").await;
    ana.subscribe(&[SENTINEL]).await;
    bo.leaves().await;
    server.receives_nothing_else(&mut ana).await;
    let after = ana.subscribe(&["bo"]).await;
    is_known(&after[0], "bo", "offline");
    assert!(version(&after[0]) > version(&before[0]));
    let _bo = server.connect("bo").await;
    ana.presence("bo", "online").await;
}

#[tokio::test]
async fn so_many_users_may_be_named_and_watched_and_no_more() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    let names: Vec<String> = (0..1001).map(|number| format!("user-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for kind in ["presence_subscribe", "presence_unsubscribe"] {
        let error = ana.presence_request(kind, &names[..101]).await;
        assert_eq!(error["code"], "INVALID_MESSAGE", "{error}");
        assert_eq!(error["details"]["field"], "user_ids", "{error}");
    }
    for names in names[..1000].chunks(100) {
        // Five a second.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(ana.subscribe(names).await.len(), 100);
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let error = ana.presence_request("presence_subscribe", &names[999..]).await;
    assert_eq!((&error["code"], &error["retryable"]), (&json!("CONFLICT"), &json!(false)));
    assert_eq!(error["details"]["reason"], "too_many_subscriptions", "{error}");
    ana.subscribe(&names[..100]).await;
    ana.unsubscribe(&names[..1]).await;
    ana.subscribe(&names[1000..]).await;
    let _last = server.connect("user-1000").await;
    ana.presence("user-1000", "online").await;
    assert_eq!(server.metric("presence_watches").await, 1000.0);
}

#[tokio::test]
async fn five_presence_frames_a_second_are_taken() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    for number in 0..20 {
        let kind = ["presence_subscribe", "presence_unsubscribe"][number % 2];
        ana.send(&json!({ "type": kind, "request_id": format!("r{number}"), "user_ids": ["bo"] }))
            .await;
    }
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..20 {
        let answer = ana.json().await;
        match answer["type"].as_str() {
            Some("presence_snapshot") => taken += 1,
            Some("error") => {
                assert_eq!(answer["code"], "RATE_LIMITED", "{answer}");
                assert_eq!(answer["retryable"], true);
                assert_eq!(answer["retry_after_seconds"], 1, "{answer}");
                assert!(answer["request_id"].is_string(), "each has its own answer");
                refused += 1;
            }
            _ => panic!("{answer}"),
        }
    }
    assert!((5..=8).contains(&taken), "{taken} of 20 frames were taken");
    assert_eq!(taken + refused, 20);
    ana.is_open().await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ana.subscribe(&["bo"]).await;
}

#[tokio::test]
async fn who_has_not_authenticated_or_whose_token_has_ended_is_told_nothing() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut unauthenticated = server.challenged().await;
    let error = unauthenticated.presence_request("presence_subscribe", &["bo"]).await;
    assert_eq!(error["code"], "UNAUTHORIZED", "{error}");
    let short = sign(&json!({ "sub": "ana", "exp": seconds_from_now(2) }));
    let bearer = format!("Bearer {short}");
    let (mut ana, _) = server.connect_with(&[("Authorization", &bearer)]).await;
    ana.subscribe(&["bo"]).await;
    ana.json_of("token_expired").await;
    let error = ana.presence_request("presence_subscribe", &["bo", "cy"]).await;
    assert_eq!(error["code"], "UNAUTHORIZED", "{error}");
    let _bo = server.connect("bo").await;
    ana.presence("bo", "online").await;
}
