use std::time::Duration;

use crate::append_all::AppendAll;
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{
    Appended, ChatLog, Chats, LogPage, LogRead, NewChat, NewMessage, Position, StoreError,
};
use heartline_engines::Postgres;
use heartline_protocol::server_frame::{ChatKind, Message};
use heartline_protocol::{ChatId, UserId};
use heartline_runtime::{Clock, Random};
use tokio_postgres::types::FromSqlOwned;

use crate::postgres::config::Deadlines;
use crate::postgres::pool::Purpose;
use crate::postgres::rows::get;
use crate::postgres::{PostgresConfig, PostgresStore};

/// A database for one test, on the shared server.
pub(super) struct Scratch {
    pub(super) url: String,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self { url: Postgres::shared().fresh_database() }
    }

    pub(super) fn config(&self) -> PostgresConfig {
        patient(&self.url)
    }

    pub(super) async fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.config(), Clock::system(), Random::system()).await.unwrap()
    }

    /// An operator's shell on the same database.
    pub(super) fn sql(&self, sql: &str) -> String {
        Postgres::shared().sql(&self.url, sql)
    }

    /// Deletes all rows of the store.
    pub(super) fn empty(&self) {
        self.sql(
            "SET search_path = heartline; TRUNCATE users, chats, messages, unpublished_chats,
            speakers, members, contacts, idempotency_keys, deleted_chats, erasures, repairs",
        );
    }

    /// Checks that a chat is marked exactly while it has unannounced messages.
    pub(super) fn check_marks(&self) {
        let wrong = self.sql(
            "SELECT chat_key FROM heartline.chats c
            FULL JOIN heartline.unpublished_chats u USING (chat_key)
            WHERE (u.chat_key IS NULL)
                = coalesce(c.head_sequence > c.published_sequence, false)",
        );
        assert_eq!(wrong, "", "chats with a wrong mark");
    }
}

/// The configuration of a store with deadlines for a busy disk.
pub(super) fn patient(url: &str) -> PostgresConfig {
    let deadlines = Deadlines { write: Duration::from_secs(60), read: Duration::from_secs(60) };
    PostgresConfig { deadlines, ..PostgresConfig::from_url(url).unwrap() }
}

/// The result of a query on a connection of the store.
pub(super) async fn ask<T: FromSqlOwned>(store: &PostgresStore, sql: &'static str) -> T {
    let read = |mut connection: crate::postgres::pooled_connection::PooledConnection<'static>| async move {
        let rows = connection.query(sql, &[]).await?;
        get(&rows[0], 0)
    };
    // The closure needs a static lifetime; the test process frees the store.
    let pool: &'static _ = &Box::leak(Box::new(store.clone())).0.pool;
    pool.call(Purpose::Read, read).await.unwrap()
}

pub(super) fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

pub(super) async fn group(store: &PostgresStore, owner: &str, others: &[&str]) -> ChatId {
    let new = NewChat {
        kind: ChatKind::Group,
        name: None,
        creator_id: user(owner),
        member_ids: others.iter().map(|other| user(other)).collect(),
    };
    store.create(new, None).await.unwrap().unwrap().chat.chat_id
}

pub(super) fn message(chat_id: ChatId, sender: &str, name: &str) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id: user(sender),
        client_message_id: name.parse().unwrap(),
        content: format!("content of {name}"),
        content_type: DEFAULT_CONTENT_TYPE.to_owned(),
        origin: None,
    }
}

/// Sends one message of a member.
pub(super) async fn send(
    store: &PostgresStore,
    chat_id: ChatId,
    sender: &str,
    name: &str,
) -> Result<Appended, StoreError> {
    let mut answers = store.append_all(vec![message(chat_id, sender, name)]).await?;
    Ok(answers.remove(0).expect("a member may speak"))
}

pub(super) async fn page(
    store: &PostgresStore,
    chat_id: ChatId,
    after: u64,
) -> Result<LogPage, StoreError> {
    let read = LogRead {
        chat_id,
        reader: None,
        position: Position::After(after),
        limit: 100_000,
        content_bytes_max: usize::MAX,
    };
    Ok(store.read(read).await?.expect("the chat exists"))
}

/// All messages of a chat, which must have no gaps and ascending times.
pub(super) async fn whole(store: &PostgresStore, chat_id: ChatId) -> Vec<Message> {
    let page = page(store, chat_id, 0).await.unwrap();
    assert!(!page.has_more);
    assert_eq!(page.head_sequence, page.messages.len() as u64);
    for (index, message) in page.messages.iter().enumerate() {
        assert_eq!(message.sequence, index as u64 + 1, "sequences run 1, 2, 3, …");
    }
    assert!(page.messages.is_sorted_by_key(|message| message.created_at));
    page.messages
}
