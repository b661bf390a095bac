//! Joining, leaving, creating and ending, with and without a connection.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{ADD, JOIN, World, item};
use crate::room::rate::PartyRates;

const END: &str = "mutation($id: ID!) { endSession(sessionId: $id) { sessionId totalSends endedAt
    participants { userId displayName } } }";
const LEAVE: &str = "mutation { leaveSession }";
const CREATE: &str = "mutation($input: CreateSessionInput!) { createSession(input: $input) {
    id name boardPath clientId isLeader isPublic isPermanent users { id }
    queueState { sequence stateHash queue { uuid } } } }";
const READ: &str = "query($id: ID!) { session(sessionId: $id) { id name boardPath clientId isLeader
    participantCount users { id username } queueState { sequence queue { uuid } } } }";

fn new_session() -> Value {
    json!({ "input": { "boardPath": "/kilter/1", "latitude": 1.5, "longitude": 2,
        "discoverable": true, "name": "Evening", "goal": null, "boardIds": [1] } })
}

#[tokio::test]
async fn a_member_that_has_left_can_neither_edit_nor_subscribe() {
    let world = World::of(1).await;
    let [client, _other] = world.party("party-1").await;
    let mut stream = client.queue("party-1");
    stream.event().await;
    assert_eq!(client.ask(LEAVE, json!(null)).await["leaveSession"], true);
    assert_eq!(stream.reply().await, None, "its stream has ended");
    assert_eq!(client.ask(LEAVE, json!(null)).await["leaveSession"], false);
    let (code, message) = client.refusal(ADD, json!({ "item": item(1) })).await;
    assert_eq!(code, "NOT_A_MEMBER");
    assert_eq!(message, "Must be in a session to perform this operation");
    let (code, message) = client.refusal(super::QUEUE, json!({ "id": "party-1" })).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("NOT_A_MEMBER", "Unauthorized: not in any session")
    );
}

#[tokio::test]
async fn the_leader_of_one_session_cannot_end_another() {
    let world = World::of(1).await;
    let leader = world.connect(0, Some("alice"));
    leader.join("party-1").await;
    world.connect(0, None).join("party-2").await;
    let (code, message) = leader.refusal(END, json!({ "id": "party-2" })).await;
    assert_eq!(code, "FORBIDDEN");
    assert_eq!(message, "Only the session creator or leader can end a session");
    let (code, message) = leader.refusal(END, json!({ "id": "party-3" })).await;
    assert_eq!((code.as_str(), message.as_str()), ("NOT_FOUND", "Session not found"));
    let (code, _) = world.http(None).refusal(END, json!({ "id": "party-2" })).await;
    assert_eq!(code, "UNAUTHORIZED");
}

#[tokio::test]
async fn the_creator_ends_a_session_also_after_leaving_and_without_a_connection() {
    let world = World::of(1).await;
    let creator = world.connect(0, Some("alice"));
    creator.join("party-1").await;
    creator.ask(JOIN, json!({ "id": "party-2", "name": "Alice" })).await;
    let other = world.connect(0, Some("bob"));
    other.join("party-1").await;
    let mine = creator.ask("{ mySessions { id createdAt createdByUserId } }", json!(null)).await;
    let mine = mine["mySessions"].as_array().unwrap().clone();
    assert_eq!(mine.len(), 2, "joining does not replace the account");
    assert_eq!(mine[0]["createdByUserId"], "alice");
    let created_at = mine[0]["createdAt"].as_str().unwrap();
    assert!(created_at.contains('T') && created_at.ends_with('Z'), "{created_at} is ISO 8601");
    let summary = creator.ask(END, json!({ "id": "party-2" })).await["endSession"].take();
    assert_eq!(summary["participants"], json!([{ "userId": "alice", "displayName": "Alice" }]));
    let summary = world.http(Some("alice")).ask(END, json!({ "id": "party-1" })).await;
    let summary = &summary["endSession"];
    assert_eq!(summary["totalSends"], 0);
    assert_ne!(summary["endedAt"], json!(null));
    let names: Vec<_> = summary["participants"].as_array().unwrap().iter().collect();
    assert!(names.iter().any(|one| one["userId"] == "bob"));
}

#[tokio::test]
async fn an_ended_session_rejects_its_members_and_new_ones() {
    let world = World::of(2).await;
    let (one, other) = (world.connect(0, Some("alice")), world.connect(1, None));
    one.join("party-1").await;
    other.join("party-1").await;
    let mut stream = other.members("party-1");
    stream.names(3).await;
    one.ask(END, json!({ "id": "party-1" })).await;
    let ended = stream.event().await;
    assert_eq!(ended["__typename"], "SessionEnded");
    assert_eq!(ended["reason"], "Session ended by leader");
    assert_eq!(stream.reply().await, None);
    for client in [&one, &other, &world.connect(1, None)] {
        let (code, message) = client.refusal(JOIN, json!({ "id": "party-1" })).await;
        assert_eq!(code, "CONFLICT");
        assert!(message.contains("Session has ended"));
    }
    let (code, _) = other.refusal(ADD, json!({ "item": item(1) })).await;
    assert_eq!(code, "CONFLICT");
    assert_eq!(one.ask(READ, json!({ "id": "party-1" })).await["session"], json!(null));
}

#[tokio::test]
async fn a_new_leader_on_another_node_may_end_the_session() {
    let world = World::of(2).await;
    let (one, other) = (world.connect(0, None), world.connect(1, None));
    assert_eq!(one.join("party-1").await["isLeader"], true);
    assert_eq!(other.join("party-1").await["isLeader"], false);
    let mut stream = other.members("party-1");
    stream.names(3).await;
    one.close().await;
    assert_eq!(stream.names(2).await, ["UserLeft", "LeaderChanged"]);
    other.ask(END, json!({ "id": "party-1" })).await;
}

#[tokio::test]
async fn joining_again_on_the_same_connection_changes_nothing() {
    let world = World::of(1).await;
    let [leader, other] = world.party("party-1").await;
    let mut stream = other.members("party-1");
    stream.names(3).await;
    let again = leader.join("party-1").await;
    assert_eq!(again["isLeader"], true);
    assert_eq!(again["clientId"], json!(leader.id()));
    assert_eq!(again["participantCount"], 2);
    leader.ask(JOIN, json!({ "id": "party-1", "name": "Renamed" })).await;
    let event = stream.event().await;
    assert_eq!(event["user"]["username"], "Renamed", "no event came before this one");
    assert_eq!(event["user"]["isLeader"], true);
}

#[tokio::test]
async fn joining_another_session_leaves_the_first_with_events() {
    let world = World::of(1).await;
    let [leader, other] = world.party("party-1").await;
    let mut stream = other.members("party-1");
    stream.names(3).await;
    let id = leader.id();
    leader.join("party-2").await;
    let left = stream.event().await;
    assert_eq!((&left["__typename"], &left["userId"]), (&json!("UserLeft"), &json!(id)));
    assert_eq!(stream.event().await["leaderId"], json!(other.id()));
    leader.add(1).await;
    assert_eq!(other.join("party-1").await["queueState"]["sequence"], 0);
}

#[tokio::test]
async fn a_name_that_was_set_before_joining_is_shown() {
    let world = World::of(1).await;
    let [watcher] = world.party("party-1").await;
    let mut stream = watcher.members("party-1");
    stream.names(2).await;
    let client = world.connect(0, None);
    let rename = "mutation($name: String!) { updateUsername(username: $name) }";
    assert_eq!(client.ask(rename, json!({ "name": "Ann" })).await["updateUsername"], true);
    client.join("party-1").await;
    assert_eq!(stream.event().await["user"]["username"], "Ann");
    client.ask(rename, json!({ "name": "Beth" })).await;
    let renamed = stream.event().await;
    assert_eq!(
        renamed["user"],
        json!({ "id": client.id(), "username": "Beth", "isLeader": false })
    );
    let (code, message) = client.refusal(rename, json!({ "name": "" })).await;
    assert_eq!(code, "INVALID_MESSAGE");
    assert!(message.contains("Username cannot be empty"));
}

#[tokio::test]
async fn callers_that_are_not_members_see_neither_members_nor_queue() {
    let world = World::of(1).await;
    let member = world.connect(0, None);
    let join = "mutation { joinSession(sessionId: \"party-1\", boardPath: \"/kilter/1\",
        sessionName: \"Evening\") { id } }";
    member.ask(join, json!(null)).await;
    member.add(1).await;
    let seen = member.ask(READ, json!({ "id": "party-1" })).await["session"].take();
    assert_eq!(seen["name"], "Evening");
    assert_eq!(seen["clientId"], json!(member.id()));
    assert_eq!(seen["users"].as_array().unwrap().len(), 1);
    for stranger in [world.connect(0, None), world.http(Some("alice"))] {
        let seen = stranger.ask(READ, json!({ "id": "party-1" })).await["session"].take();
        assert_eq!(seen["name"], "Evening");
        assert_eq!(seen["boardPath"], "/kilter/1");
        assert_eq!(seen["participantCount"], 1);
        assert_eq!((&seen["clientId"], &seen["isLeader"]), (&json!(""), &json!(false)));
        assert_eq!((&seen["users"], &seen["queueState"]["queue"]), (&json!([]), &json!([])));
    }
    let summary = "{ sessionSummary(sessionId: \"party-1\") { sessionId } }";
    let seen = world.http(Some("alice")).ask(summary, json!(null)).await;
    assert_eq!(seen["sessionSummary"], json!(null));
    assert_eq!(member.refusal(summary, json!(null)).await.0, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_board_path_stays_on_the_site_and_stays_the_same() {
    let world = World::of(1).await;
    let join = "mutation($path: String!) { joinSession(sessionId: \"party-1\", boardPath: $path) {
        boardPath } }";
    let client = world.connect(0, None);
    for path in ["@evil.example/x", "//evil.example", "https://evil.example", "/\\evil.example"] {
        let (code, message) = client.refusal(join, json!({ "path": path })).await;
        assert_eq!(code, "INVALID_MESSAGE");
        assert!(message.contains("Board path must start with a single /"), "{message}");
    }
    client.ask(join, json!({ "path": "/kilter/1" })).await;
    let joined = world.connect(0, None).ask(join, json!({ "path": "/tension/2" })).await;
    assert_eq!(joined["joinSession"]["boardPath"], "/kilter/1");
}

#[tokio::test]
async fn a_session_is_created_with_or_without_a_connection() {
    let world = World::of(1).await;
    let (code, _) = world.connect(0, None).refusal(CREATE, new_session()).await;
    assert_eq!(code, "UNAUTHORIZED");
    let over_http = world.http(Some("alice")).ask(CREATE, new_session()).await;
    let over_http = &over_http["createSession"];
    assert_eq!((&over_http["name"], &over_http["clientId"]), (&json!("Evening"), &json!("")));
    assert_eq!(
        (&over_http["users"], &over_http["queueState"]["sequence"]),
        (&json!([]), &json!(0))
    );
    let mut hidden = new_session();
    hidden["input"]["discoverable"] = json!(false);
    let hidden = world.http(Some("alice")).ask(CREATE, hidden).await["createSession"]["id"].take();
    let joined = world.connect(0, None).join(hidden.as_str().unwrap()).await;
    assert_eq!((&joined["name"], &joined["boardPath"]), (&json!("Evening"), &json!("/kilter/1")));
    let client = world.connect(0, Some("alice"));
    let created = client.ask(CREATE, new_session()).await["createSession"].take();
    assert_eq!((&created["isLeader"], &created["clientId"]), (&json!(true), &json!(client.id())));
    client.add(1).await;
    let seed = "mutation($id: ID!, $item: ClimbQueueItemInput) { joinSession(sessionId: $id,
        boardPath: \"/kilter/2\", initialCurrentClimb: $item) {
        boardPath queueState { sequence currentClimbQueueItem { uuid } } } }";
    let seeded = client.ask(seed, json!({ "id": over_http["id"], "item": item(7) })).await;
    assert_eq!(seeded["joinSession"]["queueState"]["sequence"], 1);
    assert_eq!(seeded["joinSession"]["boardPath"], "/kilter/1");
    let queue = world.http(Some("alice")).refusal(ADD, json!({ "item": item(1) })).await;
    assert_eq!(queue.1, "Must be in a session to perform this operation");
    assert_eq!(world.http(None).refusal(JOIN, json!({ "id": "a" })).await.0, "INVALID_MESSAGE");
}

#[tokio::test]
async fn joins_and_edits_are_limited_apart_from_each_other() {
    let mut rates = PartyRates::default();
    rates.edits.burst = 3;
    rates.edits.count = 1;
    rates.joins.burst = 2;
    rates.lifecycle.burst = 1;
    let world = World::with(1, rates).await;
    let client = world.connect(0, Some("alice"));
    client.join("party-1").await;
    for number in 0..3 {
        client.add(number).await;
    }
    let (code, message) = client.refusal(ADD, json!({ "item": item(9) })).await;
    assert_eq!(code, "RATE_LIMITED");
    assert_eq!(message, "Rate limit exceeded. Try again in 1 seconds.");
    client.join("party-1").await;
    assert_eq!(client.refusal(JOIN, json!({ "id": "party-1" })).await.0, "RATE_LIMITED");
    for caller in [client, world.http(Some("bob"))] {
        caller.ask(CREATE, new_session()).await;
        assert_eq!(caller.refusal(CREATE, new_session()).await.0, "RATE_LIMITED");
    }
}

#[tokio::test]
async fn a_member_resumes_on_another_node_as_itself() {
    let world = World::of(2).await;
    let client = world.connect(0, None);
    let resumable = json!({ "id": "party-1", "name": "Ann", "resumable": true });
    let joined = client.ask(JOIN, resumable).await["joinSession"].take();
    let token = joined["resumeToken"].as_str().unwrap().to_owned();
    let other = world.connect(1, None);
    assert_eq!(
        other.join("party-1").await["resumeToken"],
        json!(null),
        "only callers that ask for it get a token"
    );
    let mut stream = other.members("party-1");
    stream.names(3).await;
    client.close().await;
    let back = world.connect(1, None);
    let resumed = back.ask(JOIN, json!({ "id": "party-1", "token": token })).await;
    let resumed = &resumed["joinSession"];
    assert_eq!(resumed["clientId"], joined["clientId"]);
    assert_eq!(resumed["isLeader"], true);
    assert_ne!(resumed["resumeToken"], json!(token), "the token is renewed");
    back.add(1).await;
    let rename = "mutation { updateUsername(username: \"Ann again\") }";
    back.ask(rename, json!(null)).await;
    assert_eq!(stream.event().await["user"]["username"], "Ann again", "resuming is no event");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_replaced_may_join_again_and_stays() {
    let world = World::of(2).await;
    let [bo] = world.party("party-1").await;
    let (tab, copied) = (world.connect(0, None), world.connect(1, None));
    let joined = tab.ask(JOIN, json!({ "id": "party-1", "resumable": true })).await;
    let token = &joined["joinSession"]["resumeToken"];
    let replaced = copied.ask(JOIN, json!({ "id": "party-1", "token": token })).await;
    assert_eq!(replaced["joinSession"]["clientId"], joined["joinSession"]["clientId"]);
    assert_eq!(copied.ask(LEAVE, json!(null)).await["leaveSession"], true);
    tab.join("party-1").await;
    bo.add(1).await;
    // By then the room has checked its members.
    sleep(Duration::from_secs(3)).await;
    tab.add(2).await;
}

#[tokio::test]
async fn an_initial_queue_is_validated_like_any_other() {
    let world = World::of(1).await;
    let client = world.connect(0, None);
    let join = "mutation($queue: [ClimbQueueItemInput!]) { joinSession(sessionId: \"party-1\",
        boardPath: \"/kilter/1\", initialQueue: $queue) { queueState { sequence queue { uuid } } } }";
    let many: Vec<Value> = (0..501).map(item).collect();
    for (queue, code) in [
        (json!([item(1), item(1)]), "INVALID_MESSAGE"),
        (json!([item(1), null]), "INVALID_MESSAGE"),
        (json!(many), "MESSAGE_TOO_LARGE"),
    ] {
        assert_eq!(client.refusal(join, json!({ "queue": queue })).await.0, code);
    }
    let joined = client.ask(join, json!({ "queue": [item(1), item(2)] })).await;
    assert_eq!(joined["joinSession"]["queueState"]["sequence"], 1);
    let ignored = client.ask(join, json!({ "queue": [item(3)] })).await;
    assert_eq!(ignored["joinSession"]["queueState"]["queue"].as_array().unwrap().len(), 2);
}
