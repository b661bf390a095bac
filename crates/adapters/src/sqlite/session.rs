//! What a piece of work sees of the writer: the connection, the time, and what is remembered of
//! the file so that the common path asks it nothing twice.

use std::collections::{HashMap, HashSet};

use heartline_durability::Ranges;
use heartline_protocol::{ChatId, Timestamp, UserId};
use heartline_runtime::Random;
use rusqlite::{Connection, OptionalExtension, params};

use super::counters::SqliteCounters;
use super::rows::{SEQUENCE_MAX, chat_bytes, message_row_id, sequence_of, signed, unsigned};

/// Entries of each kind that are remembered; beyond it all are forgotten and asked for again.
const REMEMBERED_MAX: usize = 100_000;

/// A chat as it stands inside the transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChatState {
    /// The file's key for it.
    pub(super) key: i64,
    /// The newest number; what the file says of it follows at the end of the piece of work.
    pub(super) head: u64,
    /// Everything up to here was announced.
    pub(super) published: u64,
    /// The version of its membership.
    pub(super) members_version: u64,
    /// Whether nothing may be numbered.
    pub(super) halted: bool,
    /// Whether `head` has moved and is not written yet.
    pub(super) is_dirty: bool,
}

/// What the writer remembers. It is exact: only this writer changes the file while it holds the
/// lock; whatever is rolled back is forgotten, and so is everything when an operator's shell has
/// changed the file by hand.
#[derive(Debug, Default)]
pub(super) struct Memory {
    chats: HashMap<ChatId, ChatState>,
    users: HashMap<UserId, i64>,
    /// Members of a chat, good under the version of its membership at which they were seen.
    members: HashMap<(i64, i64), u64>,
    /// Who is known to be noted as having spoken where.
    speakers: HashSet<(i64, i64)>,
    /// What was announced beyond a hole.
    early: HashMap<ChatId, Ranges>,
    /// Chats whose head has moved.
    dirty: Vec<ChatId>,
    data_version: i64,
}

impl Memory {
    /// Forgets everything, after a rollback.
    pub(super) fn clear(&mut self) {
        self.chats.clear();
        self.users.clear();
        self.members.clear();
        self.speakers.clear();
        self.early.clear();
        self.dirty.clear();
    }

    /// Called at the beginning of a transaction: forgets what somebody else may have changed, and
    /// what has become too much.
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

/// What a piece of work sees of the writer.
pub(super) struct Session<'writer> {
    /// The transaction under way.
    pub(super) connection: &'writer Connection,
    /// What is remembered of the file.
    pub(super) memory: &'writer mut Memory,
    /// What went wrong so far.
    pub(super) counters: &'writer SqliteCounters,
    /// The time of this piece of work.
    pub(super) now: Timestamp,
    /// The source of the random parts of ids.
    pub(super) random: Random,
}

impl Session<'_> {
    /// A chat; none when there is no such chat. One whose counter is missing or disagrees with
    /// its messages is halted on sight.
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

    /// Stops the numbering of one chat until an operator has acted.
    pub(super) fn halt(
        &mut self,
        chat_id: ChatId,
        chat_key: i64,
        reason: &str,
    ) -> rusqlite::Result<()> {
        tracing::error!(%chat_id, reason, "the chat is halted: `heartline repair counter` helps");
        if let Some(chat) = self.memory.chats.get_mut(&chat_id) {
            chat.halted = true;
        }
        let mut statement =
            self.connection.prepare_cached("UPDATE chats SET halted = 1 WHERE chat_key = ?1")?;
        statement.execute([chat_key])?;
        Ok(())
    }

    /// Forgets a chat that this piece of work has changed by other ways.
    pub(super) fn forget_chat(&mut self, chat_id: ChatId) {
        assert!(self.memory.dirty.is_empty(), "heads are written before anything else is done");
        self.memory.chats.remove(&chat_id);
    }

    /// How far a chat is announced once a range is, too. What follows a hole is kept for later.
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

    /// Forgets what a chat has announced beyond a hole.
    pub(super) fn forget_early(&mut self, chat_id: ChatId) {
        self.memory.early.remove(&chat_id);
    }

    /// Remembers how far a chat was announced.
    pub(super) fn remember_published(&mut self, chat_id: ChatId, published: u64) {
        if let Some(chat) = self.memory.chats.get_mut(&chat_id) {
            chat.published = published;
        }
    }

    /// The file's key for a user; none when nobody ever named them.
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

    /// The file's key for a user who is named now, if not before.
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

    /// Whether a user belongs to a chat.
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

    /// Notes that a user has spoken in a chat, once.
    pub(super) fn note_speaker(&mut self, chat_key: i64, user_key: i64) -> rusqlite::Result<()> {
        if self.memory.speakers.insert((chat_key, user_key)) {
            let sql = "INSERT OR IGNORE INTO speakers (user_key, chat_key) VALUES (?1, ?2)";
            self.connection.prepare_cached(sql)?.execute([user_key, chat_key])?;
        }
        Ok(())
    }

    /// Moves a chat's head by one, to be written by [`Session::write_heads`].
    pub(super) fn advance(&mut self, chat_id: ChatId) {
        let chat = self.memory.chats.get_mut(&chat_id).expect("a chat in use is remembered");
        assert!(chat.head < SEQUENCE_MAX, "a number fits its place");
        chat.head += 1;
        if !chat.is_dirty {
            chat.is_dirty = true;
            self.memory.dirty.push(chat_id);
        }
    }

    /// Writes the heads that have moved, once per chat however many messages came.
    pub(super) fn write_heads(&mut self) -> rusqlite::Result<()> {
        let sql = "UPDATE chats SET head_sequence = ?2, oldest_at = coalesce(oldest_at, ?3)
            WHERE chat_key = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        for chat_id in self.memory.dirty.drain(..) {
            let chat = self.memory.chats.get_mut(&chat_id).expect("a chat in use is remembered");
            chat.is_dirty = false;
            statement.execute(params![chat.key, signed(chat.head), signed(self.now.unix_ms)])?;
        }
        Ok(())
    }
}

/// The file's key for a user; none when nobody ever named them.
pub(super) fn user_key(connection: &Connection, user_id: &UserId) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT user_key FROM users WHERE user_id = ?1";
    connection.prepare_cached(sql)?.query_row([user_id.as_str()], |row| row.get(0)).optional()
}

/// Whether a user belongs to a chat, as the file says.
pub(super) fn is_member(
    connection: &Connection,
    chat_key: i64,
    user_key: i64,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM members WHERE chat_key = ?1 AND user_key = ?2";
    connection.prepare_cached(sql)?.exists([chat_key, user_key])
}

/// The ids that a chat's messages may have: above the first, below the second.
pub(super) fn message_range(chat_key: i64) -> (i64, i64) {
    (message_row_id(chat_key, 0), message_row_id(chat_key + 1, 0))
}
