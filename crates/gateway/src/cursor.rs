//! The order of a chat's pushes at the node that delivers them.
//!
//! A chat with listeners has a cursor. The next number is pushed, a lower one was pushed before
//! and is dropped, and one that is ahead waits a moment for its predecessors; then the hole is
//! read from the log, once. So repeats, inversions and lost envelopes never reach a client as
//! disorder. What cannot be mended is told: `resync_required` for the chat.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, UserId};
use heartline_routing::Delivery;
use tokio::time::Instant;

/// How long a message that is ahead waits for its predecessors.
const PATIENCE: Duration = Duration::from_millis(100);

/// The largest hole that is read from the log.
const HOLE_MESSAGES_MAX: u64 = 100;

/// Messages that may wait behind a hole.
const AHEAD_MESSAGES_MAX: usize = 256;

/// Chats that have a cursor. Beyond, the longest unused half begin anew with their next message.
const CURSORS_MAX: usize = 200_000;

/// The cursors of a node's chats.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    chats: HashMap<ChatId, Cursor>,
    /// Chats in which something waits, so that looking for holes costs nothing elsewhere.
    waiting: HashSet<ChatId>,
}

#[derive(Debug)]
struct Cursor {
    /// The first number that arrived.
    begins: u64,
    /// The number to be pushed next.
    next: u64,
    ahead: BTreeMap<u64, Delivery>,
    /// When the hole before those ahead is read; none while it is being read.
    hole_due: Option<Instant>,
    touched_at: Instant,
    /// Whether nobody who was named last is here. The next message begins anew, but never below
    /// where it ended: somebody may listen whom the sender did not know of.
    is_resting: bool,
}

/// What to do with messages, in order.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    /// To be pushed.
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
    /// Takes a message that has arrived.
    pub(crate) fn arrive(&mut self, delivery: Delivery, now: Instant, actions: &mut Actions) {
        let (chat_id, sequence) = (delivery.chat_id, delivery.sequence);
        let Some(cursor) = self.chats.get_mut(&chat_id) else {
            self.make_room();
            let next = sequence + 1;
            let (ahead, hole_due) = (BTreeMap::new(), None);
            let cursor = Cursor {
                begins: sequence,
                next,
                ahead,
                hole_due,
                touched_at: now,
                is_resting: false,
            };
            self.chats.insert(chat_id, cursor);
            return actions.deliveries.push(delivery);
        };
        cursor.touched_at = now;
        if std::mem::take(&mut cursor.is_resting) {
            cursor.begins = sequence.max(cursor.next);
            cursor.next = cursor.begins;
        }
        if sequence == cursor.next {
            cursor.next += 1;
            actions.deliveries.push(delivery);
            if !cursor.ahead.is_empty() {
                cursor.follow(now, actions);
                self.settle(chat_id);
            }
        } else if sequence > cursor.next {
            if cursor.ahead.is_empty() {
                cursor.hole_due = Some(now + PATIENCE);
                self.waiting.insert(chat_id);
            }
            cursor.ahead.insert(sequence, delivery);
            if cursor.ahead.len() > AHEAD_MESSAGES_MAX {
                cursor.give_up(now, actions);
                self.settle(chat_id);
            }
        } else if sequence < cursor.begins {
            // It may be one that nobody here was given. Whoever syncs now gets everything that is
            // lower too, so the next one of those is a repeat.
            cursor.begins = 0;
            actions.resyncs.push(Resync { chat_id, user_ids: delivery.user_ids });
        }
    }

    /// When holes must be looked at again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let due = |chat_id| self.chats.get(chat_id).and_then(|cursor| cursor.hole_due);
        self.waiting.iter().filter_map(due).min()
    }

    /// The holes whose time has come; each must be answered by [`filled`](Self::filled).
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

    /// The messages of a hole were read, or could not be; `encode` makes their frames.
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
            return self.settle(chat_id);
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
        self.settle(chat_id);
    }

    /// Nobody here listens to a chat any more, as far as its sender knew: whoever comes next
    /// syncs first.
    pub(crate) fn rest(&mut self, chat_id: ChatId) {
        if let Some(cursor) = self.chats.get_mut(&chat_id) {
            cursor.is_resting = cursor.ahead.is_empty();
        }
    }

    /// A chat in which nothing waits any more is not looked at for holes.
    fn settle(&mut self, chat_id: ChatId) {
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
    /// Pushes those ahead that are next now. A further hole has its own time.
    fn follow(&mut self, now: Instant, actions: &mut Actions) {
        while let Some(delivery) = self.ahead.remove(&self.next) {
            self.next += 1;
            actions.deliveries.push(delivery);
        }
        // What arrived twice, ahead and in its place.
        self.ahead = self.ahead.split_off(&self.next);
        self.hole_due = (!self.ahead.is_empty()).then_some(now + PATIENCE);
    }

    /// Passes over every hole: what waits is pushed, and the listeners are told to sync.
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
