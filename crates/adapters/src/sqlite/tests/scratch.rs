use std::fs;
use std::path::PathBuf;

use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{Chats, NewChat, NewMessage};
use heartline_protocol::server_frame::ChatKind;
use heartline_protocol::{ChatId, UserId};
use heartline_runtime::{Clock, Random};
use rusqlite::Connection;

use crate::sqlite::{SqliteConfig, SqliteStore};

/// An empty directory for one test, removed on drop.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        let name = format!("heartline-sqlite-{:032x}", Random::system().draw::<u128>());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn directory(&self) -> &std::path::Path {
        &self.0
    }

    pub(super) fn database(&self) -> PathBuf {
        self.0.join("heartline.db")
    }

    pub(super) fn config(&self) -> SqliteConfig {
        SqliteConfig { disk_reserve_bytes: 0, ..SqliteConfig::new(self.database()) }
    }

    pub(super) fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.config(), Clock::system(), Random::system()).unwrap()
    }

    /// An operator's shell on the same file.
    pub(super) fn shell(&self) -> Connection {
        Connection::open(self.database()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

pub(super) async fn group(store: &SqliteStore, owner: &str) -> ChatId {
    let new = NewChat {
        kind: ChatKind::Group,
        name: None,
        creator_id: user(owner),
        member_ids: Vec::new(),
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
