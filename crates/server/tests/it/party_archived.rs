//! The archive of a session on a single node, read from its file.

use std::path::Path;

use heartline_testing::PATIENCE;
use heartline_testing::chat::{WriteLock, open_store};
use heartline_testing::party::crowd::add_concurrently;
use heartline_testing::party::{ADD, Join, Outcome, PartyClient, item, uuid};
use rusqlite::Connection;
use serde_json::json;

use crate::HEARTLINE;

/// A session as the archive has it: status, members, and whether it holds these items.
fn archived(data: &Path, session: &str, items: &[usize]) -> Option<(i64, i64, bool)> {
    archived_in(&open_store(data), session, items)
}

fn archived_in(file: &Connection, session: &str, items: &[usize]) -> Option<(i64, i64, bool)> {
    let sql = "SELECT status, members, document FROM party_archive WHERE session_id = ?1";
    let row = file
        .query_row(sql, [session], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?)));
    let (status, members, document) = row.ok()?;
    let holds = |number: &usize| {
        let uuid = uuid(*number).into_bytes();
        document.windows(uuid.len()).any(|window| window == uuid)
    };
    Some((status, members, items.iter().all(holds)))
}

const ACTIVE: i64 = 0;
const INACTIVE: i64 = 1;
const ENDED: i64 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_edits_at_once_on_a_node_that_is_alone_are_all_there() {
    let server = HEARTLINE.start().await;
    add_concurrently(&[server.address], "wall").await;
    let files = server.stop_with("KILL").await;
    let server = HEARTLINE.start_on(files, "").await;
    let joined = PartyClient::connect(server.address, None).await.joins("wall").await;
    assert_eq!(joined["queueState"]["queue"].as_array().unwrap().len(), 500, "after a kill too");
}

#[tokio::test]
async fn a_stop_right_after_an_edit_leaves_it_in_the_archive() {
    let mut server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    ana.adds(1).await;
    ana.adds(2).await;
    server.signal("TERM").await;
    assert_eq!(ana.closed_with().await, 1012);
    assert_eq!(server.exit_code().await, Some(0));
    assert_eq!(archived(&server.data(), "wall", &[1, 2]), Some((INACTIVE, 0, true)));
}

#[tokio::test]
async fn a_member_who_may_come_back_is_away_and_not_out_after_a_stop() {
    let server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    let resumable = Join { is_resumable: true, ..Join::default() };
    let before = ana.joins_as("wall", resumable.clone()).await;
    let mut bo = PartyClient::connect(server.address, None).await;
    bo.joins("wall").await;
    ana.adds(1).await;
    let files = server.stop_with("TERM").await;
    assert_eq!(archived(&files.data(), "wall", &[1]), Some((ACTIVE, 1, true)));
    let server = HEARTLINE.start_on(files, "").await;
    let mut ana = PartyClient::connect(server.address, None).await;
    let token = before["resumeToken"].as_str().map(str::to_owned);
    let after = ana.joins_as("wall", Join { token, ..resumable }).await;
    assert_eq!(after["clientId"], before["clientId"]);
    assert_eq!((&after["isLeader"], after["users"].as_array().unwrap().len()), (&json!(true), 1));
}

#[tokio::test]
async fn the_last_leave_and_the_end_are_archived_at_once() {
    let server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, Some("ana")).await;
    ana.joins("left").await;
    ana.adds(1).await;
    ana.leaves().await;
    let is_archived = async |session: &str, expected| {
        let wait = async {
            while archived(&server.data(), session, &[1]) != Some(expected) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, wait).await.is_ok();
        assert!(in_time, "{session}: {:?}", archived(&server.data(), session, &[1]));
    };
    is_archived("left", (INACTIVE, 0, true)).await;
    ana.joins("ended").await;
    ana.adds(1).await;
    assert!(matches!(ana.try_end("ended", PATIENCE).await, Outcome::Done(_)));
    is_archived("ended", (ENDED, 0, true)).await;
    assert!(matches!(ana.try_join("ended", Join::default(), PATIENCE).await,
        Outcome::Refused(code, message) if code == "CONFLICT" && message.contains("has ended")));
}

#[tokio::test]
async fn a_node_that_is_about_to_stop_refuses_edits_then_archives_then_closes_sockets() {
    let mut server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    ana.adds(1).await;
    // While another process writes to the file, the archive accepts nothing.
    let lock = WriteLock::hold(&server);
    server.signal("TERM").await;
    server.logged(&["party sessions reject changes: shutting down"]).await;
    let refused = ana.attempt(ADD, json!({ "item": item(2) }), PATIENCE).await;
    let Outcome::Refused(code, message) = refused else { panic!("{refused:?}") };
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    assert!(message.contains("shutting down"), "{message}");
    assert!(ana.is_open(), "it is asked to go when everything is archived");
    lock.release();
    assert_eq!(ana.closed_with().await, 1012);
    assert_eq!(server.exit_code().await, Some(0));
    assert_eq!(archived(&server.data(), "wall", &[1]), Some((INACTIVE, 0, true)));
    assert_eq!(archived(&server.data(), "wall", &[2]), Some((INACTIVE, 0, false)));
}

#[tokio::test]
async fn sessions_are_archived_where_the_operator_says() {
    let more = "[party]\narchive_url = \"sqlite:elsewhere.db\"\n";
    let server = HEARTLINE.start_with(more).await;
    let mut ana = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    ana.adds(1).await;
    let files = server.stop_with("TERM").await;
    assert_eq!(archived(&files.data(), "wall", &[1]), None);
    let elsewhere = Connection::open(files.data().join("elsewhere.db")).unwrap();
    assert_eq!(archived_in(&elsewhere, "wall", &[1]), Some((INACTIVE, 0, true)));
    // The session is in the node's own file; what is deleted there is restored from the archive.
    let lost = "DELETE FROM party_entries; DELETE FROM party_fields; DELETE FROM party_sessions;";
    open_store(&files.data()).execute_batch(lost).unwrap();
    let server = HEARTLINE.start_on(files, more).await;
    let joined = PartyClient::connect(server.address, None).await.joins("wall").await;
    assert_eq!(joined["queueState"]["queue"][0]["uuid"], uuid(1));
}
