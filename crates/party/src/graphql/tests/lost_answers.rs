//! A store that does not answer, or whose answers are lost: nobody stays behind, nothing is done
//! twice, and what is over is archived as that and stays so.

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

/// Closes a connection that gives up telling the store.
async fn close_unheard(world: &World, client: &Client) {
    world.store.fail(true);
    let given_up = timeout(Duration::from_millis(500), client.close()).await;
    assert!(given_up.is_err(), "it would try again");
    world.store.fail(false);
}

/// Hears of the members until somebody has left.
async fn hears_of_leaving(stream: &mut Replies, who: &str) {
    let hear = async {
        loop {
            let event = stream.event().await;
            if event["__typename"] == "UserLeft" {
                return event["userId"].clone();
            }
        }
    };
    assert_eq!(timeout(PATIENCE, hear).await.expect("somebody leaves"), who);
}

#[tokio::test]
async fn a_departure_that_could_not_be_stored_is_made_up_for() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    let bo = world.connect(1, None);
    bo.join("party-1").await;
    let mut members = bo.members("party-1");
    members.names(3).await;
    let who = ana.id();
    close_unheard(&world, &ana).await;
    hears_of_leaving(&mut members, &who).await;
}

#[tokio::test]
async fn a_join_whose_answer_was_lost_leaves_nobody_behind() {
    let world = World::of(2).await;
    let [ana, cy] = world.party("party-1").await;
    let mut members = ana.members("party-1");
    members.names(3).await;
    let eve = world.connect(0, None);
    world.store.lose(Loss::AnswerAndStore);
    let (code, _) = eve.refusal(JOIN, json!({ "id": "party-1" })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    world.store.fail(false);
    let who = eve.id();
    eve.close().await;
    hears_of_leaving(&mut members, &who).await;

    // Whoever asks again is a member, and stays one when the room next looks who is here.
    let eve = world.connect(0, None);
    world.store.lose(Loss::AnswerAndStore);
    eve.refusal(JOIN, json!({ "id": "party-1" })).await;
    world.store.fail(false);
    eve.join("party-1").await;
    let who = cy.id();
    close_unheard(&world, &cy).await;
    hears_of_leaving(&mut members, &who).await;
    eve.add(1).await;
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_restoring_a_session_leaves_no_lock_behind() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    ana.add(1).await;
    world.store.flush();
    assert!(world.store.lock("party-1", "another").await.unwrap());
    let add = ana.refusal(ADD, json!({ "item": item(2) }));
    let release = async {
        // Less before an edit is given up than copies are waited for under the lock.
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
async fn who_is_not_told_that_it_has_the_lock_of_a_session_leaves_it_to_others() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    world.store.flush();
    world.store.lose(Loss::LockAnswer);
    let (code, _) = ana.refusal(ADD, json!({ "item": item(1) })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    ana.add(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_join_that_came_too_late_for_its_connection_is_not_made() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    world.store.flush();
    assert!(world.store.lock("party-1", "another").await.unwrap());
    // The room looks for the session several times in vain, and only then hears of the join.
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
async fn what_a_node_knows_is_restored_also_while_the_archive_keeps_it_waiting() {
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
async fn an_end_whose_answer_was_lost_is_archived_and_known_by_its_name() {
    let world = World::of(2).await;
    let ana = world.connect(0, Some("ana"));
    ana.join("party-1").await;
    world.store.lose(Loss::Answer);
    let ended = ana.ask(END, json!({ "id": "party-1", "name": "mine" })).await;
    assert_eq!(ended["endSession"]["sessionId"], "party-1");
    let again = ana.ask(END, json!({ "id": "party-1", "name": "mine" })).await;
    assert_eq!(again["endSession"]["sessionId"], "party-1", "the same under the same name");
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
async fn what_has_ended_stays_so_when_the_store_comes_back_with_older_data() {
    let world = World::of(2).await;
    let ana = world.connect(0, Some("ana"));
    ana.join("party-1").await;
    let saved = world.store.saved();
    ana.ask(END, json!({ "id": "party-1" })).await;
    world.store.come_back_with(saved);
    // Whoever knows better has compared by then, and has asked the others for their copies.
    sleep(Duration::from_secs(10)).await;
    let bo = world.connect(1, None);
    let (code, message) = bo.refusal(JOIN, json!({ "id": "party-1" })).await;
    assert_eq!((code.as_str(), message.contains("has ended")), ("CONFLICT", true), "{message}");
}

#[tokio::test(start_paused = true)]
async fn what_is_archived_counts_where_the_store_comes_back_with_less_and_nobody_remembers() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    ana.add(1).await;
    let saved = world.store.saved();
    ana.add(2).await;
    ana.close().await;
    // By then the node has let its room go.
    sleep(Duration::from_secs(90)).await;
    world.store.come_back_with(saved);
    let joined: Value = world.connect(1, None).join("party-1").await;
    assert_eq!(joined["queueState"]["queue"].as_array().unwrap().len(), 2, "{joined}");
    assert_eq!(joined["queueState"]["incarnation"], 1);
    assert_eq!(joined["users"].as_array().unwrap().len(), 1, "who had left is not there again");
}

#[tokio::test]
async fn what_may_have_been_done_and_is_not_in_the_log_any_more_is_not_done_again() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    world.store.lose(Loss::AnswerAndLog);
    let (code, _) = ana.refusal(ADD, json!({ "item": item(1) })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    let joined: Value = ana.join("party-1").await;
    assert_eq!(joined["queueState"]["sequence"], 1, "it was done once");
}

#[tokio::test]
async fn a_session_that_is_created_again_by_name_is_the_same() {
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
