//! The order of a chat's pushes at the node that delivers them.
//!
//! A chat with listeners has a cursor. The message with the next sequence is pushed, one with a
//! lower sequence is a repeat and is dropped, and one that is ahead waits briefly for its
//! predecessors; then the missing messages are read from the log, once. If that fails, the
//! listeners get `resync_required` for the chat. Clients therefore never see repeats or inversions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, UserId};
use heartline_routing::Delivery;
use heartline_runtime::{Map, Set};
use tokio::time::Instant;

/// How long a message that is ahead waits for its predecessors.
const HOLE_WAIT: Duration = Duration::from_millis(100);

/// The largest hole that is read from the log.
const HOLE_MESSAGES_MAX: u64 = 100;

/// Messages that may wait behind a hole, at most.
const AHEAD_MESSAGES_MAX: usize = 256;

/// Chats with a cursor. Beyond, the half that was unused longest is removed and begins again with
/// the next message of each chat.
const CURSORS_MAX: usize = 200_000;

/// The cursors of a node's chats.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    chats: Map<ChatId, Cursor>,
    /// Chats in which messages wait: only these are searched for holes.
    waiting: Set<ChatId>,
}

#[derive(Debug)]
struct Cursor {
    /// The first sequence that arrived.
    begins: u64,
    /// The next sequence to push.
    next: u64,
    ahead: BTreeMap<u64, Delivery>,
    /// When to read the hole before the waiting messages; `None` while it is being read.
    hole_due: Option<Instant>,
    touched_at: Instant,
    /// Whether no recipient of the last message is connected here. The cursor then begins again with
    /// the next message, but never below its last sequence, because a listener may have connected
    /// that the sender did not know of.
    is_idle: bool,
}

/// The actions that follow from an arrival, in order.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    /// Messages to push.
    pub(crate) deliveries: Vec<Delivery>,
    /// Chats whose listeners must sync.
    pub(crate) resyncs: Vec<Resync>,
}

/// Listeners of a chat that must sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resync {
    pub(crate) chat_id: ChatId,
    pub(crate) user_ids: Arc<[UserId]>,
}

/// Messages to be read from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) chat_id: ChatId,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Cursors {
    /// Handles a message that has arrived.
    pub(crate) fn arrive(&mut self, delivery: Delivery, now: Instant, actions: &mut Actions) {
        let (chat_id, sequence) = (delivery.chat_id, delivery.sequence);
        let Some(cursor) = self.chats.get_mut(&chat_id) else {
            self.make_room();
            let next = sequence + 1;
            let (ahead, hole_due) = (BTreeMap::new(), None);
            let cursor =
                Cursor { begins: sequence, next, ahead, hole_due, touched_at: now, is_idle: false };
            self.chats.insert(chat_id, cursor);
            return actions.deliveries.push(delivery);
        };
        cursor.touched_at = now;
        if std::mem::take(&mut cursor.is_idle) {
            cursor.begins = sequence.max(cursor.next);
            cursor.next = cursor.begins;
        }
        if sequence == cursor.next {
            cursor.next += 1;
            actions.deliveries.push(delivery);
            if !cursor.ahead.is_empty() {
                cursor.follow(now, actions);
                self.stop_waiting_if_empty(chat_id);
            }
        } else if sequence > cursor.next {
            if cursor.ahead.is_empty() {
                cursor.hole_due = Some(now + HOLE_WAIT);
                self.waiting.insert(chat_id);
            }
            cursor.ahead.insert(sequence, delivery);
            if cursor.ahead.len() > AHEAD_MESSAGES_MAX {
                cursor.give_up(now, actions);
                self.stop_waiting_if_empty(chat_id);
            }
        } else if sequence < cursor.begins {
            // This message may never have been pushed here. A client that syncs now also gets all
            // lower sequences, so they are repeats from now on.
            cursor.begins = 0;
            actions.resyncs.push(Resync { chat_id, user_ids: delivery.user_ids });
        }
    }

    /// When the next hole is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let due = |chat_id| self.chats.get(chat_id).and_then(|cursor| cursor.hole_due);
        self.waiting.iter().filter_map(due).min()
    }

    /// The holes that are due; each must be followed by [`filled`](Self::filled).
    pub(crate) fn due(&mut self, now: Instant, actions: &mut Actions) -> Vec<Hole> {
        let mut holes = Vec::new();
        let chats = &mut self.chats;
        self.waiting.retain(|&chat_id| {
            let Some(cursor) = chats.get_mut(&chat_id) else { return false };
            if cursor.hole_due.is_some_and(|due| due <= now) {
                let ahead = cursor.ahead.first_key_value().map_or(cursor.next, |(first, _)| *first);
                let (first, last) = (cursor.next, ahead - 1);
                if last + 1 - first > HOLE_MESSAGES_MAX {
                    cursor.give_up(now, actions);
                } else {
                    cursor.hole_due = None;
                    holes.push(Hole { chat_id, first, last });
                }
            }
            !cursor.ahead.is_empty()
        });
        holes
    }

    /// Handles the messages of a hole, or that they could not be read; `encode` makes their frames.
    pub(crate) fn filled(
        &mut self,
        chat_id: ChatId,
        messages: Option<Vec<Message>>,
        now: Instant,
        encode: impl Fn(Message) -> bytes::Bytes,
        actions: &mut Actions,
    ) {
        let Some(cursor) = self.chats.get_mut(&chat_id) else { return };
        let Some((_, waiting)) = cursor.ahead.first_key_value() else { return };
        let Some(messages) = messages else {
            cursor.give_up(now, actions);
            return self.stop_waiting_if_empty(chat_id);
        };
        let user_ids = Arc::clone(&waiting.user_ids);
        for message in messages {
            // Some may have arrived meanwhile.
            if message.sequence != cursor.next {
                continue;
            }
            cursor.next += 1;
            actions.deliveries.push(Delivery {
                chat_id,
                sequence: message.sequence,
                user_ids: Arc::clone(&user_ids),
                frame: encode(message),
                origin: None,
                committed_at: None,
            });
        }
        cursor.follow(now, actions);
        self.stop_waiting_if_empty(chat_id);
    }

    /// Marks a chat whose last message had no connected recipient here: the next listener syncs
    /// first.
    pub(crate) fn mark_idle(&mut self, chat_id: ChatId) {
        if let Some(cursor) = self.chats.get_mut(&chat_id) {
            cursor.is_idle = cursor.ahead.is_empty();
        }
    }

    /// Removes a chat in which no message waits from the search for holes.
    fn stop_waiting_if_empty(&mut self, chat_id: ChatId) {
        if self.chats.get(&chat_id).is_none_or(|cursor| cursor.ahead.is_empty()) {
            self.waiting.remove(&chat_id);
        }
    }

    fn make_room(&mut self) {
        if self.chats.len() < CURSORS_MAX {
            return;
        }
        let mut times: Vec<Instant> = self.chats.values().map(|cursor| cursor.touched_at).collect();
        times.sort_unstable();
        let median = times[times.len() / 2];
        self.chats.retain(|_, cursor| cursor.touched_at > median || !cursor.ahead.is_empty());
    }
}

impl Cursor {
    /// Pushes the waiting messages that are next now. A further hole gets a deadline of its own.
    fn follow(&mut self, now: Instant, actions: &mut Actions) {
        while let Some(delivery) = self.ahead.remove(&self.next) {
            self.next += 1;
            actions.deliveries.push(delivery);
        }
        // Messages that arrived twice, ahead of their turn and in it.
        self.ahead = self.ahead.split_off(&self.next);
        self.hole_due = (!self.ahead.is_empty()).then_some(now + HOLE_WAIT);
    }

    /// Skips every hole: pushes the waiting messages, and asks the listeners to sync.
    fn give_up(&mut self, now: Instant, actions: &mut Actions) {
        let ahead = std::mem::take(&mut self.ahead);
        if let Some((_, last)) = ahead.last_key_value() {
            self.next = last.sequence + 1;
            let (chat_id, user_ids) = (last.chat_id, Arc::clone(&last.user_ids));
            actions.resyncs.push(Resync { chat_id, user_ids });
        }
        self.hole_due = None;
        self.touched_at = now;
        actions.deliveries.extend(ahead.into_values());
    }
}

#[cfg(test)]
mod tests;
