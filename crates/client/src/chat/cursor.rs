//! How far the application has come in each chat.
//!
//! A cursor stands at the highest number up to which everything came, by push, page or own ack.
//! What comes above a hole waits until the hole is filled, so that the application gets every
//! message once and in ascending order.

use std::collections::{BTreeMap, HashMap};

use heartline_protocol::ChatId;
use heartline_protocol::server_frame::Message;

use crate::chat::config::Backlog;

/// Messages that may wait above holes, in all chats together. What comes beyond is dropped and
/// comes again in a page.
pub(crate) const AHEAD_MESSAGES_MAX: usize = 1000;
/// Bytes of content that may wait above holes.
const AHEAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The cursors of every chat that the client knows.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    chats: HashMap<ChatId, Cursor>,
    ahead_messages: usize,
    ahead_bytes: usize,
    /// Whether a chat begins only where [`Cursors::begin`] says, and not at its first message.
    waits_to_begin: bool,
}

#[derive(Debug, Default)]
struct Cursor {
    /// Everything up to here was handed to the application.
    reached: u64,
    /// The highest number seen anywhere: in a push, a page, an ack or a manifest.
    highest_seen: u64,
    /// What came above a hole.
    ahead: BTreeMap<u64, Message>,
    /// Whether it was said where the chat begins.
    has_begun: bool,
}

/// A page that was asked for, and what was known when it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRange {
    /// The page begins after this number.
    pub(crate) after: u64,
    /// The highest number seen when it was asked for: these messages were stored by then, so a
    /// last page without them proves that the server keeps them no longer.
    pub(crate) highest_seen: u64,
}

impl Cursors {
    /// Cursors that begin where the application already is.
    pub(crate) fn new(reached: HashMap<ChatId, u64>, backlog: Backlog) -> Self {
        let cursor = |(chat_id, reached)| {
            let ahead = BTreeMap::new();
            (chat_id, Cursor { reached, highest_seen: reached, ahead, has_begun: true })
        };
        let chats = reached.into_iter().map(cursor).collect();
        Self { chats, waits_to_begin: backlog != Backlog::All, ..Self::default() }
    }

    /// A chat begins after this number, unless it has begun before. The result is what can be
    /// handed over now: what has come already is news, whatever its number.
    pub(crate) fn begin(&mut self, chat_id: ChatId, after: u64) -> Vec<Message> {
        let mut ready = Vec::new();
        let cursor = self.chats.entry(chat_id).or_default();
        if !std::mem::replace(&mut cursor.has_begun, true) {
            self.advance(chat_id, after, &mut ready);
        }
        ready
    }

    /// Whether something of a chat was seen of which nobody has said yet where it begins.
    pub(crate) fn awaits_beginning(&self, chat_id: ChatId) -> bool {
        self.waits_to_begin && self.chats.get(&chat_id).is_some_and(|cursor| !cursor.has_begun)
    }

    /// Up to where everything was handed over.
    pub(crate) fn reached(&self, chat_id: ChatId) -> u64 {
        self.chats.get(&chat_id).map_or(0, |cursor| cursor.reached)
    }

    /// The highest number seen anywhere.
    pub(crate) fn highest_seen(&self, chat_id: ChatId) -> u64 {
        self.chats.get(&chat_id).map_or(0, |cursor| cursor.highest_seen)
    }

    /// A number exists. A chat that was not known begins.
    pub(crate) fn saw(&mut self, chat_id: ChatId, sequence: u64) {
        let cursor = self.chats.entry(chat_id).or_default();
        cursor.highest_seen = cursor.highest_seen.max(sequence);
    }

    /// The user is no longer a member.
    pub(crate) fn forget(&mut self, chat_id: ChatId) {
        let cursor = self.chats.remove(&chat_id).unwrap_or_default();
        for message in cursor.ahead.values() {
            self.ahead_messages -= 1;
            self.ahead_bytes -= message.content.len();
        }
    }

    /// Whether something is missing that only a page can bring.
    ///
    /// `unanswered_above` is given while this connection has an unanswered send in the chat. The
    /// answer will fill one number above that one, so a single missing number there is no gap yet.
    pub(crate) fn has_gap(&self, chat_id: ChatId, unanswered_above: Option<u64>) -> bool {
        let Some(cursor) = self.chats.get(&chat_id) else { return false };
        if self.awaits_beginning(chat_id) {
            // The manifest is still to come.
            return false;
        }
        let missing = cursor.highest_seen - cursor.reached - cursor.ahead.len() as u64;
        match unanswered_above {
            Some(above) => missing > 1 || (missing == 1 && cursor.reached < above),
            None => missing > 0,
        }
    }

    /// A message came. The result is what can be handed over now, in order.
    pub(crate) fn take(&mut self, message: &Message) -> Vec<Message> {
        let (chat_id, sequence) = (message.chat_id, message.sequence);
        self.saw(chat_id, sequence);
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

    /// A page came. Numbers that it leaves out are passed over: the server no longer keeps them.
    pub(crate) fn take_page(
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
            ready.append(&mut self.take(message));
        }
        if is_continuous && !has_more {
            self.advance(chat_id, range.highest_seen, &mut ready);
        }
        ready
    }

    /// Moves a cursor up to `target` and on over what waits just above, handing over what it
    /// passes. A cursor never moves down.
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
