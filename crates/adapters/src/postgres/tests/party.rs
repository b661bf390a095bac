use heartline_party::contract::ArchiveContract;
use heartline_party::{Archived, PartyArchive, PartySession};
use heartline_runtime::TaskSet;

use super::scratch::Scratch;

/// Sessions that several nodes archive at the same time, and how often.
const SESSIONS: usize = 20;
const ROUNDS: u64 = 15;

fn archived(session: usize, version: u64) -> Archived {
    let mut state = PartySession::new(format!("session-{session}"));
    state.version = version;
    Archived::of(&state, version)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_archive_keeps_every_promise_of_its_port() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    ArchiveContract::new(&store).run().await;
    // Existing sessions do not disturb.
    ArchiveContract::new(&store).run().await;
    assert_eq!(store.counters().connections_lost.get(), 0);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_archive_the_same_sessions_end_at_the_newest() {
    let scratch = Scratch::new();
    let mut nodes = TaskSet::new();
    for node in 0..3_u64 {
        let store = scratch.open().await;
        nodes.spawn(async move {
            for round in 0..ROUNDS {
                // Every node has its own order of sessions and its own newest revision.
                let mut batch: Vec<_> =
                    (0..SESSIONS).map(|session| archived(session, round * 3 + node)).collect();
                batch.rotate_left((round * 7 + node * 5) as usize % SESSIONS);
                for session in &mut batch {
                    session.participants = vec![format!("account-{node}").parse().unwrap()];
                }
                store.put(batch).await.unwrap();
            }
            store
        });
    }
    let stores = nodes.join_all().await;
    for session in 0..SESSIONS {
        let found = stores[0].get(&format!("session-{session}")).await.unwrap().unwrap();
        assert_eq!(found.stored.revision.version, (ROUNDS - 1) * 3 + 2);
        assert_eq!(found.participants.len(), 3);
    }
    for store in stores {
        store.close().await;
    }
}

#[tokio::test]
async fn searches_use_an_index() {
    let scratch = Scratch::new();
    scratch.open().await.close().await;
    scratch.sql(
        "SET search_path = heartline;
        INSERT INTO party_archive (session_id, incarnation, version, status, members, active_at,
            creator, discoverable, latitude, longitude, is_permanent, details, document)
        SELECT 'session-' || i, 0, 1, 1, i % 2, i, 'account-' || i % 5000, true,
            -80 + i % 160, i % 360 - 180, false, '\\x7b7d', '\\x01'
        FROM generate_series(1, 20000) i;
        INSERT INTO party_participants SELECT 'account-' || i % 5000, 'session-' || i
        FROM generate_series(1, 20000) i;
        ANALYZE;",
    );
    use crate::postgres::party_archive::{IDLE, NEARBY, OF_ACCOUNT};
    for (sql, types, values) in [
        (
            NEARBY,
            "float8, float8, float8, float8, float8, float8, float8, bigint",
            "10, 10, 9.99, 10.01, 9.99, 10.01, 500, 20",
        ),
        (OF_ACCOUNT, "text, bigint", "'account-7', 20"),
        (IDLE, "bigint, bigint", "15000, 20"),
    ] {
        let plan = scratch.sql(&format!(
            "SET search_path = heartline; PREPARE q ({types}) AS {sql};
            EXPLAIN EXECUTE q ({values});"
        ));
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
}
