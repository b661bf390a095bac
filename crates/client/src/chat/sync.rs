//! Requests pages of chats that are behind.

use std::collections::HashMap;

use heartline_protocol::client_frame::SyncRequest;
use heartline_protocol::{ChatId, ErrorCode, ErrorFrame, RequestId};
use tokio::time::Instant;

use crate::back_off::BackOff;
use crate::chat::cursor::{Cursors, PageRange};
use crate::chat::outbox::Outbox;
use crate::chat::retry_decision::{RetryDecision, decide};

/// Unanswered page requests, each for another chat. The server reads one page at a time per
/// connection; the other requests wait there, so that the server never waits for the client.
pub(crate) const IN_FLIGHT_MAX: usize = 5;

/// The page requests of one connection.
#[derive(Debug)]
pub(crate) struct Sync {
    /// The chats that seem to be behind, and when to request a page. Whether a chat still is behind
    /// is checked then.
    scheduled: HashMap<ChatId, Schedule>,
    in_flight: HashMap<RequestId, PageRequest>,
    /// No request is sent before this time, because the server asked for a delay.
    paused_until: Option<Instant>,
    /// Requests since the start.
    requests: u64,
    back_off: BackOff,
}

/// When to request a page.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    at: Instant,
    /// The end of the delay after a rejection, which no other event shortens.
    not_before: Option<Instant>,
}

/// An unanswered page request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRequest {
    pub(crate) chat_id: ChatId,
    pub(crate) range: PageRange,
}

/// The effect of an error frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorEffect {
    /// The error is not about a page request.
    Unrelated,
    /// The page is requested again.
    Retry,
    /// The user is not a member of this chat.
    NotAMember(ChatId),
    /// The page is not requested again before a new message is seen in the chat.
    Rejected,
}

impl Sync {
    /// The state before the first connection.
    pub(crate) fn new(back_off: BackOff) -> Self {
        Self {
            scheduled: HashMap::new(),
            in_flight: HashMap::new(),
            paused_until: None,
            requests: 0,
            back_off,
        }
    }

    /// The connection ended. The manifest of the next one lists the chats that are behind again.
    pub(crate) fn disconnected(&mut self) {
        self.scheduled.clear();
        self.in_flight.clear();
        self.paused_until = None;
    }

    /// The server accepted a newer token: requests that waited for it continue.
    pub(crate) fn token_refreshed(&mut self) {
        self.paused_until = None;
    }

    /// A chat seems to be behind: request a page at that time, or earlier if that is scheduled
    /// already.
    pub(crate) fn schedule(&mut self, chat_id: ChatId, at: Instant) {
        if self.in_flight.values().all(|request| request.chat_id != chat_id) {
            let schedule =
                self.scheduled.entry(chat_id).or_insert(Schedule { at, not_before: None });
            schedule.at = schedule.at.min(at);
        }
    }

    /// A page brought nothing although messages are missing: request it again after a delay.
    pub(crate) fn schedule_after_delay(&mut self, chat_id: ChatId, now: Instant) {
        let not_before = Some(now + self.back_off.next_delay());
        self.scheduled.insert(chat_id, Schedule { at: now, not_before });
    }

    /// The user is no longer a member of the chat.
    pub(crate) fn remove(&mut self, chat_id: ChatId) {
        self.scheduled.remove(&chat_id);
    }

    /// When to request the next page.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let due_at = self.scheduled.values().map(Schedule::due_at).min()?;
        Some(self.paused_until.map_or(due_at, |until| until.max(due_at)))
    }

    /// The page to request now. A chat that has caught up, or whose missing sequence may be that of
    /// an unanswered send, is skipped.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        cursors: &Cursors,
        outbox: &Outbox,
    ) -> Option<SyncRequest> {
        while self.due_at()? <= now {
            let first = self
                .scheduled
                .iter()
                .min_by_key(|(chat_id, schedule)| (schedule.due_at(), **chat_id));
            let (&chat_id, _) = first?;
            self.scheduled.remove(&chat_id);
            if cursors.has_gap(chat_id, outbox.unanswered_above(chat_id)) {
                return Some(self.request(chat_id, cursors));
            }
        }
        None
    }

    fn request(&mut self, chat_id: ChatId, cursors: &Cursors) -> SyncRequest {
        let range = PageRange {
            after: cursors.reached(chat_id),
            highest_seen: cursors.highest_seen(chat_id),
        };
        self.requests += 1;
        let request_id: RequestId = format!("heartline-client-sync-{}", self.requests)
            .parse()
            .expect("a fixed prefix and a number are a valid request id");
        self.in_flight.insert(request_id.clone(), PageRequest { chat_id, range });
        SyncRequest { request_id, chat_id, after_sequence: range.after, limit: None }
    }

    /// A page arrived. Returns its request, if it was sent here.
    pub(crate) fn answered(&mut self, request_id: &RequestId) -> Option<PageRequest> {
        self.in_flight.remove(request_id)
    }

    /// A page brought new messages.
    pub(crate) fn progressed(&mut self) {
        self.back_off.reset();
    }

    /// An error arrived.
    pub(crate) fn on_error(&mut self, error: &ErrorFrame, now: Instant) -> ErrorEffect {
        let request_id = error.request_id.as_ref();
        let Some(PageRequest { chat_id, .. }) = request_id.and_then(|id| self.in_flight.remove(id))
        else {
            return ErrorEffect::Unrelated;
        };
        match decide(error, &mut self.back_off) {
            RetryDecision::RetryAll(delay) => {
                self.paused_until = self.paused_until.max(Some(now + delay));
                self.schedule(chat_id, now);
                ErrorEffect::Retry
            }
            RetryDecision::RetryOne(delay) => {
                self.scheduled.insert(chat_id, Schedule { at: now, not_before: Some(now + delay) });
                ErrorEffect::Retry
            }
            RetryDecision::GiveUp if error.code == ErrorCode::NotAMember => {
                ErrorEffect::NotAMember(chat_id)
            }
            RetryDecision::GiveUp => {
                let code = error.code.as_str();
                tracing::warn!(%chat_id, code, "server rejected a page request");
                ErrorEffect::Rejected
            }
        }
    }
}

impl Schedule {
    fn due_at(&self) -> Instant {
        self.not_before.map_or(self.at, |not_before| not_before.max(self.at))
    }
}

#[cfg(test)]
mod tests;
