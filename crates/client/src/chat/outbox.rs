//! Messages that the application wants sent, until each has its definite answer.
//!
//! What is promised: a message keeps its `client_message_id` in every attempt, so that it is stored
//! at most once; it leaves the outbox only with an ack or a definite refusal; and messages of one
//! chat are stored in the order in which they were given, because only the first of a chat is ever
//! on its way. Messages of different chats do not wait for each other.

use std::collections::{BTreeMap, HashMap, VecDeque};

use heartline_protocol::client_frame::SendMessage;
use heartline_protocol::limits::ClientLimits;
use heartline_protocol::server_frame::MessageAck;
use heartline_protocol::{ChatId, ErrorFrame, RequestId};
use tokio::time::Instant;

use crate::back_off::BackOff;
use crate::chat::config::ChatConfig;
use crate::chat::cursor::Cursors;
use crate::chat::draft::{Draft, SendError};
use crate::chat::pace::Pace;
use crate::chat::verdict::{Verdict, judge};

/// Messages on their way at once, each of another chat; well below the requests that a server lets
/// wait.
const IN_FLIGHT_MAX: usize = 32;

/// The messages without a definite answer.
#[derive(Debug)]
pub(crate) struct Outbox {
    messages_max: usize,
    bytes_max: usize,
    /// The messages of each chat in order; no queue is empty.
    chats: BTreeMap<ChatId, VecDeque<Entry>>,
    /// The chats whose first message is on its way on this connection.
    in_flight: HashMap<RequestId, ChatId>,
    messages: usize,
    bytes: usize,
    /// Messages taken since the start.
    arrivals: u64,
    /// Attempts since the start.
    attempts: u64,
    /// Nothing is sent before, because the server asked for a pause.
    paused_until: Option<Instant>,
    pace: Pace,
    back_off: BackOff,
}

#[derive(Debug)]
struct Entry {
    draft: Draft,
    /// Its place among the messages of all chats.
    arrival: u64,
    state: State,
    /// The chat's highest number known when it was first sent. Its own number is above this.
    first_sent_above: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Waiting { not_before: Option<Instant> },
    InFlight(RequestId),
}

/// What an error frame was about.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    /// No message of this outbox.
    NotMine,
    /// A message of this chat, which stays.
    ForNow(ChatId),
    /// This message, definitely.
    Definitely(Draft),
}

impl Outbox {
    /// An empty outbox.
    pub(crate) fn new(config: &ChatConfig, back_off: BackOff) -> Self {
        Self {
            messages_max: config.outbox_messages_max,
            bytes_max: config.outbox_bytes_max,
            chats: BTreeMap::new(),
            in_flight: HashMap::new(),
            messages: 0,
            bytes: 0,
            arrivals: 0,
            attempts: 0,
            paused_until: None,
            pace: pace(&ClientLimits::default()),
            back_off,
        }
    }

    /// Takes a message, or says why not.
    pub(crate) fn push(&mut self, draft: Draft) -> Result<(), SendError> {
        draft.check()?;
        if self.messages >= self.messages_max || self.bytes + draft.bytes() > self.bytes_max {
            return Err(SendError::Full);
        }
        let queue = self.chats.get(&draft.chat_id);
        if queue.is_some_and(|queue| queue.iter().any(|entry| is_same(&entry.draft, &draft))) {
            return Err(SendError::AlreadyWaiting);
        }
        self.messages += 1;
        self.bytes += draft.bytes();
        self.arrivals += 1;
        self.chats.entry(draft.chat_id).or_default().push_back(Entry {
            draft,
            arrival: self.arrivals,
            state: State::Waiting { not_before: None },
            first_sent_above: None,
        });
        Ok(())
    }

    /// A connection begins, with these limits.
    pub(crate) fn connected(&mut self, limits: &ClientLimits) {
        self.disconnected();
        self.pace = pace(limits);
    }

    /// The connection is over: whatever was on its way waits again, because its answer is lost.
    pub(crate) fn disconnected(&mut self) {
        for (_, chat_id) in std::mem::take(&mut self.in_flight) {
            if let Some(entry) = self.first_of(chat_id) {
                entry.state = State::Waiting { not_before: None };
            }
        }
        self.paused_until = None;
    }

    /// A newer token is in force: what waited for it goes on.
    pub(crate) fn token_refreshed(&mut self) {
        self.paused_until = None;
    }

    /// When the next message is to be sent, if one is waiting.
    pub(crate) fn due_at(&self, now: Instant) -> Option<Instant> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let due_at = self.waiting().map(|(_, not_before)| not_before.unwrap_or(now)).min()?;
        Some(due_at.max(self.pace.ready_at(now)).max(self.paused_until.unwrap_or(now)))
    }

    /// The message to send now: of all that may go, the one that came first.
    pub(crate) fn next(&mut self, now: Instant, cursors: &Cursors) -> Option<SendMessage> {
        if self.due_at(now)? > now {
            return None;
        }
        let (first, _) = self
            .waiting()
            .filter(|(_, not_before)| not_before.is_none_or(|not_before| not_before <= now))
            .min_by_key(|(entry, _)| entry.arrival)?;
        let chat_id = first.draft.chat_id;
        self.attempts += 1;
        let request_id: RequestId = format!("heartline-client-send-{}", self.attempts)
            .parse()
            .expect("a fixed prefix and a number are a legal request id");
        self.pace.spend(now);
        self.in_flight.insert(request_id.clone(), chat_id);
        let entry = self.first_of(chat_id)?;
        entry.state = State::InFlight(request_id.clone());
        entry.first_sent_above.get_or_insert(cursors.highest_seen(chat_id));
        let Draft { chat_id, client_message_id, content, content_type } = entry.draft.clone();
        Some(SendMessage { request_id, chat_id, client_message_id, content, content_type })
    }

    /// An ack came. Gives back the message if it is one of this outbox.
    pub(crate) fn acked(&mut self, ack: &MessageAck) -> Option<Draft> {
        let entry = self.first_of(ack.chat_id)?;
        if entry.draft.client_message_id != ack.client_message_id {
            return None;
        }
        self.back_off.reset();
        self.remove_first(ack.chat_id)
    }

    /// An error came.
    pub(crate) fn refused(&mut self, error: &ErrorFrame, now: Instant) -> Refused {
        let request_id = error.request_id.as_ref();
        let Some(chat_id) = request_id.and_then(|id| self.in_flight.remove(id)) else {
            return Refused::NotMine;
        };
        let not_before = match judge(error, &mut self.back_off) {
            Verdict::Final => {
                return self.remove_first(chat_id).map_or(Refused::NotMine, Refused::Definitely);
            }
            Verdict::PauseOne(pause) => Some(now + pause),
            Verdict::PauseAll(pause) => {
                self.paused_until = self.paused_until.max(Some(now + pause));
                None
            }
        };
        if let Some(entry) = self.first_of(chat_id) {
            entry.state = State::Waiting { not_before };
        }
        Refused::ForNow(chat_id)
    }

    /// If a message of this chat is on its way on this connection: its number will be above this.
    pub(crate) fn unanswered_above(&self, chat_id: ChatId) -> Option<u64> {
        let first = self.chats.get(&chat_id)?.front()?;
        first.first_sent_above.filter(|_| matches!(first.state, State::InFlight(_)))
    }

    /// Everything without a definite answer, in the order in which it came.
    pub(crate) fn into_drafts(self) -> Vec<Draft> {
        let mut entries: Vec<Entry> = self.chats.into_values().flatten().collect();
        entries.sort_by_key(|entry| entry.arrival);
        entries.into_iter().map(|entry| entry.draft).collect()
    }

    /// The first message of each chat that has none on its way, and when it may go.
    fn waiting(&self) -> impl Iterator<Item = (&Entry, Option<Instant>)> {
        self.chats.values().filter_map(VecDeque::front).filter_map(|entry| match entry.state {
            State::Waiting { not_before } => Some((entry, not_before)),
            State::InFlight(_) => None,
        })
    }

    fn first_of(&mut self, chat_id: ChatId) -> Option<&mut Entry> {
        self.chats.get_mut(&chat_id)?.front_mut()
    }

    fn remove_first(&mut self, chat_id: ChatId) -> Option<Draft> {
        let queue = self.chats.get_mut(&chat_id)?;
        let Entry { draft, state, .. } = queue.pop_front()?;
        if let State::InFlight(request_id) = state {
            self.in_flight.remove(&request_id);
        }
        if queue.is_empty() {
            self.chats.remove(&chat_id);
        }
        self.messages -= 1;
        self.bytes -= draft.bytes();
        Some(draft)
    }
}

fn is_same(one: &Draft, other: &Draft) -> bool {
    one.client_message_id == other.client_message_id
}

fn pace(limits: &ClientLimits) -> Pace {
    Pace::within(limits.send_rate, limits.send_burst)
}

#[cfg(test)]
mod tests;
