use std::time::Duration;

use heartline_durability::{ChatLog, Contacts, People, Privacy, Upkeep};
use heartline_fanout::Audiences;
use heartline_protocol::rest::Visibility;
use rusqlite::params;

use super::scratch::{Scratch, message, user};
use crate::append_all::AppendAll;
use crate::sqlite::schema::{APPLICATION_ID, VERSION};
use crate::sqlite::{Thoroughness, back_up, check_store, restore};

/// Creates a store with the first schema, with a chat of two members and a message.
fn first_schema(scratch: &Scratch) {
    let shell = scratch.shell();
    shell.execute_batch(include_str!("../migrations/0001_chats_messages_people.sql")).unwrap();
    shell.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    shell.pragma_update(None, "user_version", 1).unwrap();
    shell
        .execute_batch(
            "INSERT INTO users VALUES (1, 'ana', 'Ana', 1000), (2, 'bo', NULL, NULL);
             INSERT INTO members VALUES (1, 1, 0, 1, 0), (1, 2, 2, 2, 0);
             INSERT INTO messages VALUES
                ((1 << 32) + 1, 1, 1, 'm1', zeroblob(16), 1000, NULL, 'hello');",
        )
        .unwrap();
    let chat = "INSERT INTO chats (chat_id, kind, created_at, head_sequence, members_version)
        VALUES (?1, 1, 1000, 1, 1)";
    shell.execute(chat, params![[7_u8; 16]]).unwrap();
}

#[tokio::test]
async fn a_store_of_the_first_schema_keeps_its_content() {
    let scratch = Scratch::new();
    first_schema(&scratch);
    let store = scratch.open();
    let version: usize = scratch
        .shell()
        .pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(version, VERSION);
    let ana = store.profile(&user("ana")).await.unwrap();
    assert_eq!(ana.display_name.as_deref(), Some("Ana"));
    assert_eq!(store.visibility(&user("ana")).await.unwrap(), None);
    assert_eq!(store.contacts(&user("ana"), None, 9).await.unwrap(), []);
    assert_eq!(store.halted(9).await.unwrap(), []);
    let chats = store.manifest(&user("bo"), None, 9).await.unwrap();
    assert_eq!((chats.len(), chats[0].head_sequence), (1, 1));
    let said =
        store.append_all(vec![message(chats[0].chat_id, "bo", "m2")]).await.unwrap().remove(0);
    assert_eq!(said.unwrap().message.sequence, 2);
    assert!(store.set_visibility(&user("bo"), Visibility::Everyone).await.unwrap());
    let minute = Duration::from_secs(60);
    let companions = store.companions(&[user("ana")], minute, 100).await.unwrap();
    assert_eq!(companions, [[user("bo")]]);
}

#[tokio::test]
async fn a_store_can_be_copied_and_checked_before_its_migration() {
    let scratch = Scratch::new();
    first_schema(&scratch);
    assert_eq!(check_store(&scratch.database(), Thoroughness::Full).unwrap(), [""; 0]);
    let copy = scratch.directory().join("before.db");
    back_up(&scratch.database(), &copy, false).unwrap();
    let other = Scratch::new();
    restore(&other.database(), &copy, false).unwrap();
    let profile = other.open().profile(&user("ana")).await.unwrap();
    assert_eq!(profile.display_name.as_deref(), Some("Ana"));
}
