//! Party sessions over GraphQL: sockets, plain HTTP, and what a crash leaves behind.

use std::time::Duration;

use heartline_client::raw::connect_raw;
use heartline_testing::party::{ADD, PartyClient, item, uuid};
use heartline_testing::presence::OPEN;
use heartline_testing::token;
use serde_json::{Value, json};

use crate::HEARTLINE;
use crate::leases::aging;
use crate::peers::now;

const UPDATES: &str = "subscription($s: ID!) { queueUpdates(sessionId: $s) { __typename } }";

#[tokio::test]
async fn everybody_in_a_session_sees_the_same_queue_in_the_same_order() {
    let server = HEARTLINE.start().await;
    let (mut ana, mut bo) = (
        PartyClient::connect(server.address, Some("ana")).await,
        PartyClient::connect(server.address, None).await,
    );
    // A client that reconnects subscribes before it has joined.
    let stream = bo.follows_queue("wall").await;
    assert_eq!(ana.joins("wall").await["isLeader"], true);
    let joined = bo.joins("wall").await;
    assert_eq!(
        (&joined["isLeader"], joined["users"].as_array().unwrap().len()),
        (&json!(false), 2)
    );
    let first = bo.event(&stream).await;
    assert_eq!((&first["__typename"], &first["sequence"]), (&json!("FullSync"), &json!(0)));
    for number in 1..=20 {
        let party_client = if number % 2 == 0 { &mut ana } else { &mut bo };
        party_client.adds(number).await;
    }
    let mut last = Value::Null;
    for number in 1..=20 {
        last = bo.event(&stream).await;
        assert_eq!((&last["sequence"], &last["position"]), (&json!(number), &json!(number - 1)));
    }
    let seen = ana.joins("wall").await;
    assert_eq!(seen["queueState"]["stateHash"], last["stateHash"]);
    assert_eq!(seen["isLeader"], true, "to join again changes nothing");

    bo.leaves().await;
    assert_eq!(bo.of(&stream).await["type"], "complete", "who left receives no more");
    let refused = bo.run(ADD, json!({ "item": item(99) })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_A_MEMBER", "{refused}");
}

#[tokio::test]
async fn an_edit_that_was_acknowledged_is_there_after_a_kill() {
    let server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, Some("ana")).await;
    ana.joins("wall").await;
    for number in 1..=5 {
        ana.adds(number).await;
    }
    let files = server.stop_with("KILL").await;
    let server = HEARTLINE.start_on(files, "").await;
    let mut bo = PartyClient::connect(server.address, None).await;
    let joined = bo.joins("wall").await;
    let queue = joined["queueState"]["queue"].as_array().unwrap().iter();
    let uuids: Vec<&str> = queue.map(|item| item["uuid"].as_str().unwrap()).collect();
    assert_eq!(uuids, (1..=5).map(uuid).collect::<Vec<_>>());
    bo.adds(6).await;
}

#[tokio::test]
async fn a_signed_in_member_of_a_party_is_online_and_gets_no_chat_frames() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = PartyClient::connect(server.address, Some("ana")).await;
    assert_eq!(server.seen("bo", "ana").await["status"], "online");
    assert_eq!(server.push(&["ana"], "hello", json!({})).await, 0, "it is no target");
    ana.send(&json!({ "type": "ping" })).await;
    assert_eq!(ana.other().await, Some(json!({ "type": "pong" })));
}

#[tokio::test]
async fn whoever_breaks_the_rules_of_the_transport_is_told_by_the_code() {
    let server = HEARTLINE.start().await;
    let upgrade = connect_raw(server.address, "/graphql", &[]).await.unwrap();
    assert_eq!(upgrade.status, 101);
    assert_eq!(PartyClient::on(upgrade.stream).closed_with().await, 4406);

    let init = json!({ "type": "connection_init" });
    let bad = json!({ "type": "connection_init", "payload": { "authToken": "nonsense" } });
    let subscribe = json!({ "type": "subscribe", "id": "1", "payload": { "query": "{a}" } });
    for (said, code) in [
        (vec![json!([])], 4400),
        (vec![subscribe.clone()], 4401),
        (vec![bad], 4401),
        (vec![init.clone(), init], 4429),
    ] {
        let party_client = PartyClient::open(server.address).await;
        for message in &said {
            party_client.send(message).await;
        }
        assert_eq!(party_client.closed_with().await, code, "{said:?}");
    }
    let party_client = PartyClient::connect(server.address, None).await;
    for _ in 0..2 {
        let payload = json!({ "query": UPDATES, "variables": { "s": "wall" } });
        party_client.send(&json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
    }
    assert_eq!(party_client.closed_with().await, 4409);
    assert_eq!(
        PartyClient::open(server.address).await.closed_with().await,
        4408,
        "nothing was said for 3 s"
    );
}

#[tokio::test]
async fn a_query_that_does_not_parse_or_is_too_deep_leaves_the_socket_open() {
    let server = HEARTLINE.start().await;
    let mut party_client = PartyClient::connect(server.address, None).await;
    let deep =
        format!("{{ session(sessionId: {}1{}) {{ id }} }}", "[".repeat(1600), "]".repeat(1600));
    for query in ["{nope", deep.as_str(), "{ unknown }"] {
        let id = party_client.begin(query, json!({})).await;
        let answer = party_client.of(&id).await;
        assert_eq!(answer["type"], "error", "{answer}");
        assert_eq!(answer["payload"][0]["extensions"]["code"], "INVALID_MESSAGE", "{answer}");
    }
    party_client.joins("wall").await;
}

#[tokio::test]
async fn an_id_that_is_used_again_at_once_is_another_operation() {
    let server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    let stream = ana.follows_queue("wall").await;
    assert_eq!(ana.event(&stream).await["__typename"], "FullSync");
    let query = "subscription { queueUpdates(sessionId: \"wall\") { __typename } }";
    let again = json!({ "type": "subscribe", "id": stream, "payload": { "query": query } });
    ana.send_together(&[json!({ "type": "complete", "id": stream }), again]).await;
    assert_eq!(ana.event(&stream).await["__typename"], "FullSync");
    ana.adds(1).await;
    assert_eq!(ana.event(&stream).await["__typename"], "QueueItemAdded");
}

#[tokio::test]
async fn a_drained_node_asks_party_clients_to_come_back() {
    let mut server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    ana.adds(1).await;
    server.signal("TERM").await;
    assert_eq!(ana.closed_with().await, 1012);
    assert_eq!(server.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_party_connection_that_is_old_enough_is_asked_to_come_again() {
    let server = HEARTLINE.start_with(&aging("2s")).await;
    let arrived = now();
    let mut ana = PartyClient::connect(server.address, Some("ana")).await;
    ana.joins("wall").await;
    assert_eq!(ana.closed_with().await, 1012);
    let age = now() - arrived;
    assert!(age > Duration::from_millis(1850), "{age:?}");
    PartyClient::connect(server.address, Some("ana")).await.joins("wall").await;
}

#[tokio::test]
async fn plain_http_answers_queries_and_knows_its_limits() {
    let server = HEARTLINE.start_with("[party]\nsite_url = \"https://site.example\"\n").await;
    let mut ana = PartyClient::connect(server.address, Some("ana")).await;
    ana.joins("wall").await;
    let session =
        json!({ "query": "{ session(sessionId: \"wall\") { boardPath participantCount } }" });
    let answer = server.http("POST", "/graphql", &token("bo"), Some(&session)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected =
        json!({ "data": { "session": { "boardPath": "/board/1", "participantCount": 1 } } });
    assert_eq!(answer.json(), expected);
    let edit = json!({ "query": ADD, "variables": { "item": item(1) } });
    let refused = server.http("POST", "/graphql", &token("ana"), Some(&edit)).await.json();
    assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_A_MEMBER", "{refused}");
    let join = json!({ "query": "mutation { joinSession(sessionId: \"wall\", boardPath: \"/b\") { id } }" });
    let refused = server.http("POST", "/graphql", &token("ana"), Some(&join)).await.json();
    assert_eq!(refused["errors"][0]["extensions"]["code"], "INVALID_MESSAGE", "{refused}");
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("WebSocket"), "{refused}");
    let bad = json!({ "query": "{nope" });
    assert_eq!(server.http("POST", "/graphql", &token("bo"), Some(&bad)).await.status, 400);
    let health = server.http("GET", "/health", &token("bo"), None).await;
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("healthy")));
    let way = server
        .http_raw_open(b"GET /join/wall HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(way.status, 302, "{way:?}");
    let nowhere = server.http("GET", "/join/unknown", &token("bo"), None).await;
    assert_eq!(nowhere.status, 404);
}
