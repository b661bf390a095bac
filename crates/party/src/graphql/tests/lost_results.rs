//! A store that fails, or whose results are lost: no member stays behind, nothing is performed
//! twice, and an ended session is archived and stays ended.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::memory::Loss;
use super::{ADD, Client, JOIN, PATIENCE, Replies, World, item};
use crate::room::archive::PartyArchive;
use crate::room::store::{Notice, SessionRecovery};
use crate::room::task::OPERATION_DEADLINE;
use crate::value::session::Status;

const END: &str = "mutation($id: ID!, $name: ID) {
    endSession(sessionId: $id, correlationId: $name) { sessionId } }";

/// Closes a connection while the store fails, so that its departure is not stored.
async fn close_unstored(world: &World, client: &Client) {
    world.store.fail(true);
    let given_up = timeout(Duration::from_millis(500), client.close()).await;
    assert!(given_up.is_err(), "it still retries");
    world.store.fail(false);
}

/// Reads events until a member leaves, which must be this one.
async fn sees_leaving(stream: &mut Replies, member: &str) {
    let left = async {
        loop {
            let event = stream.event().await;
            if event["__typename"] == "UserLeft" {
                return event["userId"].clone();
            }
        }
    };
    assert_eq!(timeout(PATIENCE, left).await.expect("a member leaves"), member);
}

#[tokio::test]
async fn a_departure_that_could_not_be_stored_is_stored_later() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    let bo = world.connect(1, None);
    bo.join("party-1").await;
    let mut members = bo.members("party-1");
    members.names(3).await;
    let who = ana.id();
    close_unstored(&world, &ana).await;
    sees_leaving(&mut members, &who).await;
}

#[tokio::test]
async fn a_join_whose_result_was_lost_leaves_no_member_behind() {
    let world = World::of(2).await;
    let [ana, cy] = world.party("party-1").await;
    let mut members = ana.members("party-1");
    members.names(3).await;
    let eve = world.connect(0, None);
    world.store.lose(Loss::ResultAndStore);
    let (code, _) = eve.refusal(JOIN, json!({ "id": "party-1" })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    world.store.fail(false);
    let who = eve.id();
    eve.close().await;
    sees_leaving(&mut members, &who).await;

    // A caller that joins again is a member, and stays one when the room next checks its members.
    let eve = world.connect(0, None);
    world.store.lose(Loss::ResultAndStore);
    eve.refusal(JOIN, json!({ "id": "party-1" })).await;
    world.store.fail(false);
    eve.join("party-1").await;
    let who = cy.id();
    close_unstored(&world, &cy).await;
    sees_leaving(&mut members, &who).await;
    eve.add(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_gives_up_restoring_a_session_leaves_no_lock_behind() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    ana.add(1).await;
    world.store.flush();
    assert!(world.store.lock("party-1", "another").await.unwrap());
    let add = ana.refusal(ADD, json!({ "item": item(2) }));
    let release = async {
        // Shorter before the deadline of an edit than the time to wait for copies under the lock.
        sleep(OPERATION_DEADLINE - Duration::from_millis(500)).await;
        world.store.unlock("party-1", "another").await.unwrap();
    };
    let ((code, _), ()) = tokio::join!(add, release);
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    ana.add(3).await;
    let joined: Value = ana.join("party-1").await;
    assert_eq!(joined["queueState"]["queue"].as_array().unwrap().len(), 2, "{joined}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_the_result_of_a_lock_releases_it() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    world.store.flush();
    world.store.lose(Loss::LockResult);
    let (code, _) = ana.refusal(ADD, json!({ "item": item(1) })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    ana.add(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_join_whose_caller_gave_up_is_not_performed() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    world.store.flush();
    assert!(world.store.lock("party-1", "another").await.unwrap());
    // The room fails to restore the session several times before it reads the join.
    (0..3).for_each(|_| world.nodes[0].0.rooms.on_notice(Notice::Gap));
    let eve = world.connect(0, None);
    let (code, _) = eve.refusal(JOIN, json!({ "id": "party-1" })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    world.store.unlock("party-1", "another").await.unwrap();
    sleep(OPERATION_DEADLINE * 4).await;
    let joined: Value = ana.join("party-1").await;
    assert_eq!(joined["users"].as_array().unwrap().len(), 1, "{joined}");
}

#[tokio::test(start_paused = true)]
async fn the_copy_of_a_node_is_restored_also_while_the_archive_is_slow() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    ana.add(1).await;
    ana.add(2).await;
    world.store.flush();
    world.archive.delay(Duration::from_secs(3));
    world.nodes[0].0.rooms.on_notice(Notice::Gap);
    sleep(Duration::from_millis(100)).await;
    let joined: Value = world.connect(1, None).join("party-1").await;
    assert_eq!(joined["queueState"]["queue"].as_array().unwrap().len(), 2, "{joined}");
}

#[tokio::test]
async fn an_end_whose_result_was_lost_is_archived_and_known_by_its_correlation_id() {
    let world = World::of(2).await;
    let ana = world.connect(0, Some("ana"));
    ana.join("party-1").await;
    world.store.lose(Loss::Result);
    let ended = ana.ask(END, json!({ "id": "party-1", "name": "mine" })).await;
    assert_eq!(ended["endSession"]["sessionId"], "party-1");
    let again = ana.ask(END, json!({ "id": "party-1", "name": "mine" })).await;
    assert_eq!(again["endSession"]["sessionId"], "party-1", "the first result again");
    let (code, _) = ana.refusal(END, json!({ "id": "party-1", "name": "other" })).await;
    assert_eq!(code, "CONFLICT");
    let is_archived = async {
        while !matches!(world.archive.get("party-1").await, Ok(Some(it)) if it.status == Status::Ended)
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, is_archived).await.expect("it is archived as ended");
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_stays_ended_when_the_store_returns_with_older_data() {
    let world = World::of(2).await;
    let ana = world.connect(0, Some("ana"));
    ana.join("party-1").await;
    let saved = world.store.saved();
    ana.ask(END, json!({ "id": "party-1" })).await;
    world.store.restore(saved);
    // By then every node with a newer copy has compared and restored.
    sleep(Duration::from_secs(10)).await;
    let bo = world.connect(1, None);
    let (code, message) = bo.refusal(JOIN, json!({ "id": "party-1" })).await;
    assert_eq!((code.as_str(), message.contains("has ended")), ("CONFLICT", true), "{message}");
}

#[tokio::test(start_paused = true)]
async fn the_archive_is_restored_when_the_store_returns_with_older_data_and_no_node_has_a_copy() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    ana.add(1).await;
    let saved = world.store.saved();
    ana.add(2).await;
    ana.close().await;
    // By then the room has ended.
    sleep(Duration::from_secs(90)).await;
    world.store.restore(saved);
    let joined: Value = world.connect(1, None).join("party-1").await;
    assert_eq!(joined["queueState"]["queue"].as_array().unwrap().len(), 2, "{joined}");
    assert_eq!(joined["queueState"]["incarnation"], 1);
    assert_eq!(
        joined["users"].as_array().unwrap().len(),
        1,
        "the member that had left is not restored"
    );
}

#[tokio::test]
async fn an_edit_of_unknown_outcome_is_not_repeated_once_the_log_has_dropped_it() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    world.store.lose(Loss::ResultAndLog);
    let (code, _) = ana.refusal(ADD, json!({ "item": item(1) })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    let joined: Value = ana.join("party-1").await;
    assert_eq!(joined["queueState"]["sequence"], 1, "the edit was performed once");
}

#[tokio::test]
async fn a_session_that_is_created_again_with_its_correlation_id_is_the_same() {
    const CREATE: &str = "mutation($name: ID) { createSession(correlationId: $name, input: {
        boardPath: \"/kilter/1/2/3\", latitude: 1, longitude: 2, discoverable: true }) { id } }";
    let world = World::of(1).await;
    let ana = world.http(Some("ana"));
    let create = async |client: &Client, name: Option<&str>| {
        client.ask(CREATE, json!({ "name": name })).await["createSession"]["id"].take()
    };
    let first = create(&ana, Some("mine")).await;
    assert_eq!(create(&ana, Some("mine")).await, first);
    assert_ne!(create(&ana, Some("other")).await, first);
    assert_ne!(create(&world.http(Some("bo")), Some("mine")).await, first);
    assert_ne!(create(&ana, None).await, first);
}
