use heartline_durability::{LogRead, Position};
use heartline_protocol::ChatId;
use rusqlite::params;

use super::scratch::{Scratch, group};
use crate::sqlite::open::open_reader;
use crate::sqlite::pages::page;

/// Bytes that this thread has read so far, from files of any kind.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// The pages that a new connection with an empty cache reads for the last 100 messages. Files are
/// not mapped, so every page that is missing is one read of 4096 bytes.
fn pages_for_the_last_hundred(scratch: &Scratch, chat_id: ChatId, head: u64) -> u64 {
    let connection = open_reader(&scratch.database()).unwrap();
    let read = LogRead {
        chat_id,
        reader: Some("ana".parse().unwrap()),
        position: Position::After(head - 100),
        limit: 100,
        content_bytes_max: usize::MAX,
    };
    let own = bytes_read();
    let before = bytes_read();
    let page = page(&connection, &read).unwrap().unwrap();
    assert_eq!((page.messages.len(), page.head_sequence, page.has_more), (100, head, false));
    (bytes_read() - before - (before - own)) / 4096
}

#[tokio::test]
async fn catching_up_reads_as_few_pages_in_a_long_chat_as_in_a_short_one() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (long, short) = (group(&store, "ana").await, group(&store, "ana").await);
    drop(store);
    let mut shell = scratch.shell();
    let transaction = shell.transaction().unwrap();
    for (chat_id, count) in [(long, 1_000_000_i64), (short, 1_000)] {
        let insert = "INSERT INTO messages SELECT (c.chat_key << 32) + n, c.chat_key, 1, 'm' || n,
                zeroblob(16), 0, NULL, 'content of a message'
            FROM chats c, (WITH RECURSIVE numbers(n) AS
                (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2) SELECT n FROM numbers)
            WHERE c.chat_id = ?1";
        transaction.execute(insert, params![chat_id.0.to_bytes(), count]).unwrap();
        let head = "UPDATE chats SET head_sequence = ?2 WHERE chat_id = ?1";
        transaction.execute(head, params![chat_id.0.to_bytes(), count]).unwrap();
    }
    transaction.commit().unwrap();
    drop(shell);

    let began = heartline_runtime::Clock::system().now();
    let store = scratch.open();
    let opening = heartline_runtime::Clock::system().now() - began;
    assert!(opening.as_secs() < 2, "ready after {opening:?}");
    drop(store);
    let long = pages_for_the_last_hundred(&scratch, long, 1_000_000);
    let short = pages_for_the_last_hundred(&scratch, short, 1_000);
    assert!(short > 1 && long <= short + 5, "{long} pages for the long, {short} for the short");
}
