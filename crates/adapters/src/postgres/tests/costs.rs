//! The number of pages that frequent calls read in a large database.

use super::scratch::{Scratch, group, message, page, user};
use crate::append_all::AppendAll;
use crate::postgres::connection::Timeouts;
use crate::postgres::{open, pages, publish};
use heartline_durability::Chats;

/// Messages of the one long chat, and chats with one message each.
const LONG: u32 = 20_000;
const SHORT: u32 = 5_000;

/// Pages of the database that a call may touch. A lookup touches about four.
const PAGES_MAX: u64 = 120;

/// Fills a database: one long chat, many short ones, all with the same member.
async fn fill(scratch: &Scratch) -> heartline_protocol::ChatId {
    let store = scratch.open().await;
    let chat_id = group(&store, "ana", &[]).await;
    store.append_all(vec![message(chat_id, "ana", "first")]).await.unwrap();
    store.close().await;
    let short = SHORT + 1;
    scratch.sql(&format!(
        "SET search_path = heartline;
        INSERT INTO messages (chat_key, sequence, sender_key, created_at, message_id,
            client_message_id, content)
        SELECT 1, i, 1, now_ms(), gen_random_uuid(), 'long' || i, '\\x6869'
        FROM generate_series(2, {LONG}) i;
        UPDATE chats SET head_sequence = {LONG};
        INSERT INTO chats (chat_id, kind, created_at, head_sequence, members_version)
        SELECT gen_random_uuid(), 1, 0, 1, 1 FROM generate_series(2, {short});
        INSERT INTO users (user_id) SELECT 'user' || i FROM generate_series(2, {short}) i;
        INSERT INTO members (chat_key, user_key, role, join_order)
        SELECT i, i, 0, 1 FROM generate_series(2, {short}) i;
        INSERT INTO messages (chat_key, sequence, sender_key, created_at, message_id,
            client_message_id, content)
        SELECT i, 1, i, 0, gen_random_uuid(), 'short', '\\x6869' FROM generate_series(2, {short}) i;
        INSERT INTO unpublished_chats (chat_key, since)
        SELECT chat_key, 0 FROM chats ON CONFLICT DO NOTHING;"
    ));
    chat_id
}

/// The pages that a statement touches, in a database session with the settings of the store. The
/// statement runs a few times, because the first run also reads the catalogue.
fn pages_touched(scratch: &Scratch, prepare: &str, execute: &str) -> u64 {
    let config = scratch.config();
    let settings = open::settings(&config, Timeouts::of_calls(config.deadlines));
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) {execute};");
    let explained = scratch.sql(&format!("{settings} {prepare}; {explain} {explain} {explain}"));
    let plans: Vec<&str> = explained.split("QUERY PLAN").collect();
    let last = plans.last().unwrap();
    // The first line about buffers is the total; the last plan is the last third.
    let roots: Vec<&str> = last.lines().filter(|line| line.starts_with("  Buffers:")).collect();
    let root = roots.last().unwrap_or_else(|| panic!("no buffers in {explained}"));
    let number = |name: &str| {
        let rest = root.split(name).nth(1)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    number("hit=").unwrap_or(0) + number("read=").unwrap_or(0)
}

#[tokio::test]
async fn a_call_touches_a_few_pages_however_long_the_chat_and_whatever_the_statistics() {
    let scratch = Scratch::new();
    let chat_id = fill(&scratch).await;
    let id = format!("{:032x}", chat_id.0.0);
    let append = |name: &str| {
        format!(
            "SELECT * FROM append(ARRAY['{id}'::uuid], ARRAY['ana'], ARRAY['{name}'::text],
            ARRAY[gen_random_uuid()], ARRAY[NULL::bytea], ARRAY['\\x6869'::bytea])"
        )
    };
    for statistics in ["SELECT 1", "ANALYZE"] {
        scratch.sql(statistics);
        // The same name again is a retry, which reads as much.
        let fresh = format!("SELECT '{statistics}'; {}", append("x"));
        assert!(pages_touched(&scratch, &fresh, &append("y")) <= PAGES_MAX, "append");
        let record = format!(
            "SELECT * FROM record_published(
                ARRAY['{id}'::uuid], ARRAY[1::bigint], ARRAY[7::bigint])"
        );
        assert!(pages_touched(&scratch, "SELECT 1", &record) <= PAGES_MAX, "record_published");
        for (name, sql, sequence) in
            [("after", pages::PAGE_AFTER, LONG - 5), ("before", pages::PAGE_BEFORE, LONG)]
        {
            let prepare = format!("PREPARE page AS {sql}");
            let execute = format!("EXECUTE page ('{id}', 'ana', {sequence}, 10, 100000)");
            assert!(pages_touched(&scratch, &prepare, &execute) <= PAGES_MAX, "page {name}");
        }
        let prepare = format!("PREPARE manifest AS {}", pages::MANIFEST);
        let execute = "EXECUTE manifest ('ana', NULL, 100)";
        assert!(pages_touched(&scratch, &prepare, execute) <= PAGES_MAX, "manifest");
        let prepare = format!("PREPARE claim AS {}", publish::CLAIM_UNPUBLISHED);
        let touched = pages_touched(&scratch, &prepare, "EXECUTE claim (1, 0, 10000, 1, 0, 3000)");
        assert!(touched <= PAGES_MAX, "unpublished: {touched}");
    }
    let store = scratch.open().await;
    assert_eq!(page(&store, chat_id, 0).await.unwrap().head_sequence, u64::from(LONG) + 2);
    assert!(store.chat(chat_id, Some(&user("ana"))).await.unwrap().is_some());
}
