//! Messages to send, each until it is stored or rejected.
//!
//! Guarantees: a message has the same `client_message_id` in every attempt, so that it is stored at
//! most once; a message leaves the outbox only with an ack or a final rejection; messages of one
//! chat are stored in the order in which they were queued, because only the first of a chat is sent
//! at a time. Messages of different chats do not wait for each other.

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
use crate::chat::rate_limit::RateLimit;
use crate::chat::retry_decision::{RetryDecision, decide};

/// Unanswered messages, each of another chat; well below the server's limit of pending requests.
const IN_FLIGHT_MAX: usize = 32;

/// The messages that are neither stored nor rejected.
#[derive(Debug)]
pub(crate) struct Outbox {
    messages_max: usize,
    bytes_max: usize,
    /// The messages of each chat in order; no queue is empty.
    chats: BTreeMap<ChatId, VecDeque<Entry>>,
    /// The chats whose first message is sent and unanswered on this connection.
    in_flight: HashMap<RequestId, ChatId>,
    messages: usize,
    bytes: usize,
    /// Messages queued since the start.
    arrivals: u64,
    /// Attempts since the start.
    attempts: u64,
    /// No message is sent before this time, because the server asked for a delay.
    paused_until: Option<Instant>,
    rate_limit: RateLimit,
    back_off: BackOff,
}

#[derive(Debug)]
struct Entry {
    draft: Draft,
    /// The position among the messages of all chats.
    arrival: u64,
    state: State,
    /// The chat's highest known sequence when the message was first sent. The message's own
    /// sequence is above this.
    first_sent_above: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Waiting { not_before: Option<Instant> },
    InFlight(RequestId),
}

/// The effect of an error frame.
#[derive(Debug, PartialEq)]
pub(crate) enum ErrorEffect {
    /// The error is not about a message of this outbox.
    Unrelated,
    /// A message of this chat is retried.
    Retry(ChatId),
    /// This message is rejected and removed.
    Rejected(Draft),
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
            rate_limit: rate_limit(&ClientLimits::default()),
            back_off,
        }
    }

    /// Queues a message.
    pub(crate) fn push(&mut self, draft: Draft) -> Result<(), SendError> {
        draft.check()?;
        if self.messages >= self.messages_max || self.bytes + draft.bytes() > self.bytes_max {
            return Err(SendError::Full);
        }
        let queue = self.chats.get(&draft.chat_id);
        if queue.is_some_and(|queue| queue.iter().any(|entry| is_same(&entry.draft, &draft))) {
            return Err(SendError::AlreadyQueued);
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

    /// A connection begins with these limits.
    pub(crate) fn connected(&mut self, limits: &ClientLimits) {
        self.disconnected();
        self.rate_limit = rate_limit(limits);
    }

    /// The connection ended: unanswered messages are queued again, because their answers are lost.
    pub(crate) fn disconnected(&mut self) {
        for (_, chat_id) in std::mem::take(&mut self.in_flight) {
            if let Some(entry) = self.first_of(chat_id) {
                entry.state = State::Waiting { not_before: None };
            }
        }
        self.paused_until = None;
    }

    /// The server accepted a newer token: messages that waited for it are sent.
    pub(crate) fn token_refreshed(&mut self) {
        self.paused_until = None;
    }

    /// When to send the next message.
    pub(crate) fn due_at(&self, now: Instant) -> Option<Instant> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let due_at = self.waiting().map(|(_, not_before)| not_before.unwrap_or(now)).min()?;
        Some(due_at.max(self.rate_limit.ready_at(now)).max(self.paused_until.unwrap_or(now)))
    }

    /// The message to send now: the oldest that may be sent.
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
            .expect("a fixed prefix and a number are a valid request id");
        self.rate_limit.spend(now);
        self.in_flight.insert(request_id.clone(), chat_id);
        let entry = self.first_of(chat_id)?;
        entry.state = State::InFlight(request_id.clone());
        entry.first_sent_above.get_or_insert(cursors.highest_seen(chat_id));
        let Draft { chat_id, client_message_id, content, content_type } = entry.draft.clone();
        Some(SendMessage { request_id, chat_id, client_message_id, content, content_type })
    }

    /// An ack arrived. Returns the message if it is one of this outbox.
    pub(crate) fn acked(&mut self, ack: &MessageAck) -> Option<Draft> {
        let entry = self.first_of(ack.chat_id)?;
        if entry.draft.client_message_id != ack.client_message_id {
            return None;
        }
        self.back_off.reset();
        self.remove_first(ack.chat_id)
    }

    /// An error arrived.
    pub(crate) fn on_error(&mut self, error: &ErrorFrame, now: Instant) -> ErrorEffect {
        let request_id = error.request_id.as_ref();
        let Some(chat_id) = request_id.and_then(|id| self.in_flight.remove(id)) else {
            return ErrorEffect::Unrelated;
        };
        let not_before = match decide(error, &mut self.back_off) {
            RetryDecision::GiveUp => {
                return self
                    .remove_first(chat_id)
                    .map_or(ErrorEffect::Unrelated, ErrorEffect::Rejected);
            }
            RetryDecision::RetryOne(delay) => Some(now + delay),
            RetryDecision::RetryAll(delay) => {
                self.paused_until = self.paused_until.max(Some(now + delay));
                None
            }
        };
        if let Some(entry) = self.first_of(chat_id) {
            entry.state = State::Waiting { not_before };
        }
        ErrorEffect::Retry(chat_id)
    }

    /// The sequence above which the unanswered message of this chat will be stored, if there is one
    /// on this connection.
    pub(crate) fn unanswered_above(&self, chat_id: ChatId) -> Option<u64> {
        let first = self.chats.get(&chat_id)?.front()?;
        first.first_sent_above.filter(|_| matches!(first.state, State::InFlight(_)))
    }

    /// All messages that are neither stored nor rejected, in the order of queueing.
    pub(crate) fn into_drafts(self) -> Vec<Draft> {
        let mut entries: Vec<Entry> = self.chats.into_values().flatten().collect();
        entries.sort_by_key(|entry| entry.arrival);
        entries.into_iter().map(|entry| entry.draft).collect()
    }

    /// The first message of each chat that has none unanswered, and when it may be sent.
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

fn rate_limit(limits: &ClientLimits) -> RateLimit {
    RateLimit::new(limits.send_rate, limits.send_burst)
}

#[cfg(test)]
mod tests;
