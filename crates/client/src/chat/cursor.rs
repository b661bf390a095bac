//! The position of the application in each chat.
//!
//! A cursor is the highest sequence up to which every message arrived, by push, page or own ack.
//! Messages after a gap wait until the gap is filled, so that the application receives every
//! message once and in ascending order.

use std::collections::{BTreeMap, HashMap};

use heartline_protocol::ChatId;
use heartline_protocol::server_frame::Message;

use crate::chat::config::Backlog;

/// Messages that may wait behind gaps, in all chats together. Further messages are dropped and read
/// again with a page.
pub(crate) const AHEAD_MESSAGES_MAX: usize = 1000;
/// Bytes of content that may wait behind gaps.
const AHEAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The cursors of every chat that the client knows.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    chats: HashMap<ChatId, Cursor>,
    ahead_messages: usize,
    ahead_bytes: usize,
    /// Whether a chat starts where [`Cursors::set_start`] says, and not at its first message.
    needs_start: bool,
}

#[derive(Debug, Default)]
struct Cursor {
    /// Every message up to this sequence was delivered to the application.
    reached: u64,
    /// The highest sequence seen in a push, a page, an ack or a manifest.
    highest_seen: u64,
    /// Messages behind a gap.
    ahead: BTreeMap<u64, Message>,
    /// Whether the start of the chat is known.
    has_start: bool,
}

/// The range of a requested page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRange {
    /// The page begins after this sequence.
    pub(crate) after: u64,
    /// The highest sequence seen when the page was requested. Those messages were stored by then,
    /// so a last page without them proves that the server has deleted them.
    pub(crate) highest_seen: u64,
}

impl Cursors {
    /// Cursors at the sequences that the application has already.
    pub(crate) fn new(reached: HashMap<ChatId, u64>, backlog: Backlog) -> Self {
        let cursor = |(chat_id, reached)| {
            let ahead = BTreeMap::new();
            (chat_id, Cursor { reached, highest_seen: reached, ahead, has_start: true })
        };
        let chats = reached.into_iter().map(cursor).collect();
        Self { chats, needs_start: backlog != Backlog::All, ..Self::default() }
    }

    /// Sets the sequence after which a chat starts, unless that is known already. Returns the
    /// messages that can be delivered now; messages that have arrived already are new and delivered
    /// even if they are before the start.
    pub(crate) fn set_start(&mut self, chat_id: ChatId, after: u64) -> Vec<Message> {
        let mut ready = Vec::new();
        let cursor = self.chats.entry(chat_id).or_default();
        if !std::mem::replace(&mut cursor.has_start, true) {
            self.advance(chat_id, after, &mut ready);
        }
        ready
    }

    /// Whether the start of a chat with known messages is not known yet.
    pub(crate) fn has_unknown_start(&self, chat_id: ChatId) -> bool {
        self.needs_start && self.chats.get(&chat_id).is_some_and(|cursor| !cursor.has_start)
    }

    /// The sequence up to which every message was delivered.
    pub(crate) fn reached(&self, chat_id: ChatId) -> u64 {
        self.chats.get(&chat_id).map_or(0, |cursor| cursor.reached)
    }

    /// The highest sequence seen in any frame.
    pub(crate) fn highest_seen(&self, chat_id: ChatId) -> u64 {
        self.chats.get(&chat_id).map_or(0, |cursor| cursor.highest_seen)
    }

    /// Records that a message with this sequence exists; adds a chat that was not known.
    pub(crate) fn note_sequence(&mut self, chat_id: ChatId, sequence: u64) {
        let cursor = self.chats.entry(chat_id).or_default();
        cursor.highest_seen = cursor.highest_seen.max(sequence);
    }

    /// The user is no longer a member.
    pub(crate) fn remove(&mut self, chat_id: ChatId) {
        let cursor = self.chats.remove(&chat_id).unwrap_or_default();
        for message in cursor.ahead.values() {
            self.ahead_messages -= 1;
            self.ahead_bytes -= message.content.len();
        }
    }

    /// Whether messages are missing that must be requested with a page.
    ///
    /// `unanswered_above` is present while this connection has an unanswered send in the chat. The
    /// answer will have a sequence above that value, so a single missing sequence there is not a
    /// gap yet.
    pub(crate) fn has_gap(&self, chat_id: ChatId, unanswered_above: Option<u64>) -> bool {
        let Some(cursor) = self.chats.get(&chat_id) else { return false };
        if self.has_unknown_start(chat_id) {
            // The manifest will set the start.
            return false;
        }
        let missing = cursor.highest_seen - cursor.reached - cursor.ahead.len() as u64;
        match unanswered_above {
            Some(above) => missing > 1 || (missing == 1 && cursor.reached < above),
            None => missing > 0,
        }
    }

    /// A message arrived. Returns the messages that can be delivered now, in order.
    pub(crate) fn receive(&mut self, message: &Message) -> Vec<Message> {
        let (chat_id, sequence) = (message.chat_id, message.sequence);
        self.note_sequence(chat_id, sequence);
        let reached = self.reached(chat_id);
        if sequence == reached.saturating_add(1) {
            let mut ready = vec![message.clone()];
            self.advance(chat_id, sequence, &mut ready);
            return ready;
        }
        let has_room = self.ahead_messages < AHEAD_MESSAGES_MAX
            && self.ahead_bytes + message.content.len() <= AHEAD_BYTES_MAX;
        let ahead = &mut self.chats.entry(chat_id).or_default().ahead;
        if sequence > reached && has_room && !ahead.contains_key(&sequence) {
            ahead.insert(sequence, message.clone());
            self.ahead_messages += 1;
            self.ahead_bytes += message.content.len();
        }
        Vec::new()
    }

    /// A page arrived. Sequences that are not in the page are skipped: the server has deleted those
    /// messages.
    pub(crate) fn receive_page(
        &mut self,
        chat_id: ChatId,
        range: PageRange,
        messages: &[Message],
        has_more: bool,
    ) -> Vec<Message> {
        let mut ready = Vec::new();
        let is_continuous = range.after <= self.reached(chat_id);
        for message in messages.iter().filter(|message| message.chat_id == chat_id) {
            if is_continuous {
                self.advance(chat_id, message.sequence.saturating_sub(1), &mut ready);
            }
            ready.append(&mut self.receive(message));
        }
        if is_continuous && !has_more {
            self.advance(chat_id, range.highest_seen, &mut ready);
        }
        ready
    }

    /// Moves a cursor up to `target`, and on over the messages waiting directly after it, which are
    /// added to `ready`. A cursor never moves down.
    fn advance(&mut self, chat_id: ChatId, target: u64, ready: &mut Vec<Message>) {
        let cursor = self.chats.entry(chat_id).or_default();
        cursor.reached = cursor.reached.max(target);
        cursor.highest_seen = cursor.highest_seen.max(cursor.reached);
        while let Some(first) = cursor.ahead.first_entry()
            && *first.key() <= cursor.reached.saturating_add(1)
        {
            cursor.reached = cursor.reached.max(*first.key());
            let message = first.remove();
            self.ahead_messages -= 1;
            self.ahead_bytes -= message.content.len();
            ready.push(message);
        }
    }
}

#[cfg(test)]
mod tests;
