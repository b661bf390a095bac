//! The write transaction that jobs run in: the connection, the time, and a cache of the file, so
//! that the common path reads nothing twice.

use std::collections::{HashMap, HashSet};

use heartline_durability::Ranges;
use heartline_protocol::{ChatId, Timestamp, UserId};
use heartline_runtime::Random;
use rusqlite::{Connection, OptionalExtension, params};

use super::counters::SqliteCounters;
use super::rows::{SEQUENCE_MAX, chat_bytes, message_row_id, sequence_of, signed, unsigned};

/// Entries of each kind in the cache; beyond the limit the cache is cleared.
const REMEMBERED_MAX: usize = 100_000;

/// The state of a chat inside the transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChatState {
    /// The key of the chat in the file.
    pub(super) key: i64,
    /// The newest sequence; the file is updated by [`WriteTransaction::write_heads`].
    pub(super) head: u64,
    /// Every message up to this sequence was announced.
    pub(super) published: u64,
    /// The version of the membership.
    pub(super) members_version: u64,
    /// Whether the chat accepts no messages.
    pub(super) halted: bool,
    /// Whether `head` has changed and is not written yet.
    pub(super) is_dirty: bool,
}

/// The writer's cache of the file. The cache is exact: only this writer changes the file while it
/// holds the lock. A rollback clears the cache, and so does a change of the file by an operator's
/// shell.
#[derive(Debug, Default)]
pub(super) struct Memory {
    chats: HashMap<ChatId, ChatState>,
    users: HashMap<UserId, i64>,
    /// Members of chats, each with the membership version at which it was read.
    members: HashMap<(i64, i64), u64>,
    /// Users who are recorded as senders, each with the chat.
    speakers: HashSet<(i64, i64)>,
    /// Announced ranges after a gap.
    early: HashMap<ChatId, Ranges>,
    /// Chats whose head has changed.
    dirty: Vec<ChatId>,
    data_version: i64,
}

impl Memory {
    /// Clears the cache, after a rollback.
    pub(super) fn clear(&mut self) {
        self.chats.clear();
        self.users.clear();
        self.members.clear();
        self.speakers.clear();
        self.early.clear();
        self.dirty.clear();
    }

    /// Called at the beginning of a transaction: clears the cache if another process has changed
    /// the file, or if the cache is too large.
    pub(super) fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached("PRAGMA data_version")?;
        let data_version = statement.query_row([], |row| row.get(0))?;
        let entries = self.chats.len().max(self.users.len());
        let entries = entries.max(self.members.len()).max(self.speakers.len());
        let entries = entries.max(self.early.len());
        if data_version != self.data_version || entries > REMEMBERED_MAX {
            self.data_version = data_version;
            self.clear();
        }
        Ok(())
    }
}

/// The write transaction that jobs run in.
pub(super) struct WriteTransaction<'writer> {
    /// The connection, inside the transaction.
    pub(super) connection: &'writer Connection,
    /// The cache of the file.
    pub(super) memory: &'writer mut Memory,
    /// The counters of the store.
    pub(super) counters: &'writer SqliteCounters,
    /// The time of the transaction.
    pub(super) now: Timestamp,
    /// The source of the random parts of ids.
    pub(super) random: Random,
}

impl WriteTransaction<'_> {
    /// A chat; none if there is no such chat. A chat whose counter is missing or disagrees with its
    /// messages is halted here.
    pub(super) fn chat(&mut self, chat_id: ChatId) -> rusqlite::Result<Option<ChatState>> {
        if let Some(chat) = self.memory.chats.get(&chat_id) {
            return Ok(Some(*chat));
        }
        let sql = "SELECT chat_key, head_sequence, published_sequence, members_version, halted,
                (SELECT max(id) FROM messages
                 WHERE id > c.chat_key << 32 AND id < (c.chat_key + 1) << 32)
            FROM chats c WHERE chat_id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_row([chat_bytes(chat_id)], |row| {
            let (head, newest): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(5)?);
            let newest = newest.map(sequence_of);
            let head = head.map(unsigned);
            let is_right = head.is_some() && newest.is_none_or(|newest| Some(newest) == head);
            let chat = ChatState {
                key: row.get(0)?,
                head: head.or(newest).unwrap_or(0),
                published: unsigned(row.get(2)?),
                members_version: unsigned(row.get(3)?),
                halted: row.get(4)?,
                is_dirty: false,
            };
            Ok((chat, is_right))
        });
        drop(statement);
        let Some((mut chat, is_right)) = found.optional()? else { return Ok(None) };
        if !is_right && !chat.halted {
            self.counters.counter_corruptions.inc();
            self.halt(chat_id, chat.key, "its counter is missing or disagrees with its messages")?;
            chat.halted = true;
        }
        self.memory.chats.insert(chat_id, chat);
        Ok(Some(chat))
    }

    /// Halts a chat until an operator repairs it.
    pub(super) fn halt(
        &mut self,
        chat_id: ChatId,
        chat_key: i64,
        reason: &str,
    ) -> rusqlite::Result<()> {
        tracing::error!(%chat_id, reason, "chat halted: run `heartline repair counter`");
        if let Some(chat) = self.memory.chats.get_mut(&chat_id) {
            chat.halted = true;
        }
        let mut statement =
            self.connection.prepare_cached("UPDATE chats SET halted = 1 WHERE chat_key = ?1")?;
        statement.execute([chat_key])?;
        Ok(())
    }

    /// Removes a chat from the cache, after a change of its row.
    pub(super) fn forget_chat(&mut self, chat_id: ChatId) {
        assert!(self.memory.dirty.is_empty(), "heads are written before other jobs run");
        self.memory.chats.remove(&chat_id);
    }

    /// The `published_sequence` of a chat after a range was announced. A range after a gap is kept
    /// for later.
    pub(super) fn announced(
        &mut self,
        chat_id: ChatId,
        published: u64,
        (first, last): (u64, u64),
    ) -> u64 {
        let early = self.memory.early.entry(chat_id).or_default();
        early.insert(first, last);
        let published = early.advance(published);
        if early.is_empty() {
            self.forget_early(chat_id);
        }
        published
    }

    /// Drops the announced ranges after a gap.
    pub(super) fn forget_early(&mut self, chat_id: ChatId) {
        self.memory.early.remove(&chat_id);
    }

    /// Caches the `published_sequence` of a chat.
    pub(super) fn remember_published(&mut self, chat_id: ChatId, published: u64) {
        if let Some(chat) = self.memory.chats.get_mut(&chat_id) {
            chat.published = published;
        }
    }

    /// The key of a user in the file; none if the user has no row.
    pub(super) fn user(&mut self, user_id: &UserId) -> rusqlite::Result<Option<i64>> {
        if let Some(key) = self.memory.users.get(user_id) {
            return Ok(Some(*key));
        }
        let key = user_key(self.connection, user_id)?;
        if let Some(key) = key {
            self.memory.users.insert(user_id.clone(), key);
        }
        Ok(key)
    }

    /// The key of a user, whose row is inserted if it is missing.
    pub(super) fn named_user(&mut self, user_id: &UserId) -> rusqlite::Result<i64> {
        if let Some(key) = self.user(user_id)? {
            return Ok(key);
        }
        let sql = "INSERT INTO users (user_id) VALUES (?1)";
        self.connection.prepare_cached(sql)?.execute([user_id.as_str()])?;
        let key = self.connection.last_insert_rowid();
        self.memory.users.insert(user_id.clone(), key);
        Ok(key)
    }

    /// Whether a user is a member of a chat.
    pub(super) fn is_member(&mut self, chat: &ChatState, user: i64) -> rusqlite::Result<bool> {
        let remembered = self.memory.members.get(&(chat.key, user));
        if remembered == Some(&chat.members_version) {
            return Ok(true);
        }
        let is_member = is_member(self.connection, chat.key, user)?;
        if is_member {
            self.memory.members.insert((chat.key, user), chat.members_version);
        }
        Ok(is_member)
    }

    /// Records once that a user has sent a message to a chat.
    pub(super) fn note_speaker(&mut self, chat_key: i64, user_key: i64) -> rusqlite::Result<()> {
        if self.memory.speakers.insert((chat_key, user_key)) {
            let sql = "INSERT OR IGNORE INTO speakers (user_key, chat_key) VALUES (?1, ?2)";
            self.connection.prepare_cached(sql)?.execute([user_key, chat_key])?;
        }
        Ok(())
    }

    /// Raises the head of a chat by one, to be written by [`WriteTransaction::write_heads`].
    pub(super) fn advance(&mut self, chat_id: ChatId) {
        let chat = self.memory.chats.get_mut(&chat_id).expect("a chat in use is cached");
        assert!(chat.head < SEQUENCE_MAX, "a number fits its place");
        chat.head += 1;
        if !chat.is_dirty {
            chat.is_dirty = true;
            self.memory.dirty.push(chat_id);
        }
    }

    /// Writes the changed heads, once per chat.
    pub(super) fn write_heads(&mut self) -> rusqlite::Result<()> {
        let sql = "UPDATE chats SET head_sequence = ?2, oldest_at = coalesce(oldest_at, ?3)
            WHERE chat_key = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        for chat_id in self.memory.dirty.drain(..) {
            let chat = self.memory.chats.get_mut(&chat_id).expect("a chat in use is cached");
            chat.is_dirty = false;
            statement.execute(params![chat.key, signed(chat.head), signed(self.now.unix_ms)])?;
        }
        Ok(())
    }
}

/// The key of a user in the file; none if the user has no row.
pub(super) fn user_key(connection: &Connection, user_id: &UserId) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT user_key FROM users WHERE user_id = ?1";
    connection.prepare_cached(sql)?.query_row([user_id.as_str()], |row| row.get(0)).optional()
}

/// Whether a user is a member of a chat, read from the file.
pub(super) fn is_member(
    connection: &Connection,
    chat_key: i64,
    user_key: i64,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM members WHERE chat_key = ?1 AND user_key = ?2";
    connection.prepare_cached(sql)?.exists([chat_key, user_key])
}

/// The range of row ids of a chat's messages, both ends exclusive.
pub(super) fn message_range(chat_key: i64) -> (i64, i64) {
    (message_row_id(chat_key, 0), message_row_id(chat_key + 1, 0))
}
