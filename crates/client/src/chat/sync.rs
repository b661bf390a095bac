//! Asking for the pages of chats that are behind.

use std::collections::HashMap;

use heartline_protocol::client_frame::SyncRequest;
use heartline_protocol::{ChatId, ErrorCode, ErrorFrame, RequestId};
use tokio::time::Instant;

use crate::back_off::BackOff;
use crate::chat::cursor::{Cursors, PageRange};
use crate::chat::outbox::Outbox;
use crate::chat::verdict::{Verdict, judge};

/// Pages on their way at once, each of another chat. The server reads one at a time for a
/// connection; the others wait there, so that it never has to wait for the client.
pub(crate) const IN_FLIGHT_MAX: usize = 5;

/// The pages that one connection wants and waits for.
#[derive(Debug)]
pub(crate) struct Sync {
    /// The chats that seem to be behind, and when to ask. Whether they still are is looked at then.
    wanted: HashMap<ChatId, Want>,
    in_flight: HashMap<RequestId, Asked>,
    /// Nothing is asked before, because the server asked for a pause.
    paused_until: Option<Instant>,
    /// Requests since the start.
    requests: u64,
    back_off: BackOff,
}

/// When to ask for a page.
#[derive(Debug, Clone, Copy)]
struct Want {
    at: Instant,
    /// The end of the pause after a refusal, which nothing shortens.
    not_before: Option<Instant>,
}

/// A page on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) chat_id: ChatId,
    pub(crate) range: PageRange,
}

/// What an error frame was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No page of these.
    NotMine,
    /// A page that is asked for again.
    ForNow,
    /// The user does not belong to this chat.
    NotAMember(ChatId),
    /// A page that nobody asks for again before something new is seen in the chat.
    Definitely,
}

impl Sync {
    /// Nothing is wanted before a connection begins.
    pub(crate) fn new(back_off: BackOff) -> Self {
        Self {
            wanted: HashMap::new(),
            in_flight: HashMap::new(),
            paused_until: None,
            requests: 0,
            back_off,
        }
    }

    /// The connection is over. The manifest of the next one tells again which chats are behind.
    pub(crate) fn disconnected(&mut self) {
        self.wanted.clear();
        self.in_flight.clear();
        self.paused_until = None;
    }

    /// A newer token is in force: what waited for it goes on.
    pub(crate) fn token_refreshed(&mut self) {
        self.paused_until = None;
    }

    /// A chat seems to be behind: ask at that time, unless it is asked for earlier anyway.
    pub(crate) fn want(&mut self, chat_id: ChatId, at: Instant) {
        if self.in_flight.values().all(|asked| asked.chat_id != chat_id) {
            let want = self.wanted.entry(chat_id).or_insert(Want { at, not_before: None });
            want.at = want.at.min(at);
        }
    }

    /// A page brought nothing though something is missing: ask again, but not in a loop.
    pub(crate) fn want_after_pause(&mut self, chat_id: ChatId, now: Instant) {
        let not_before = Some(now + self.back_off.next_delay());
        self.wanted.insert(chat_id, Want { at: now, not_before });
    }

    /// The chat is no concern any more.
    pub(crate) fn forget(&mut self, chat_id: ChatId) {
        self.wanted.remove(&chat_id);
    }

    /// When the next page is to be asked for, if one is.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let due_at = self.wanted.values().map(Want::due_at).min()?;
        Some(self.paused_until.map_or(due_at, |until| until.max(due_at)))
    }

    /// The page to ask for now. A chat that has caught up meanwhile, or whose missing number is
    /// that of a send under way, is passed over.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        cursors: &Cursors,
        outbox: &Outbox,
    ) -> Option<SyncRequest> {
        while self.due_at()? <= now {
            let first = self.wanted.iter().min_by_key(|(chat_id, want)| (want.due_at(), **chat_id));
            let (&chat_id, _) = first?;
            self.wanted.remove(&chat_id);
            if cursors.has_gap(chat_id, outbox.unanswered_above(chat_id)) {
                return Some(self.ask(chat_id, cursors));
            }
        }
        None
    }

    fn ask(&mut self, chat_id: ChatId, cursors: &Cursors) -> SyncRequest {
        let range = PageRange {
            after: cursors.reached(chat_id),
            highest_seen: cursors.highest_seen(chat_id),
        };
        self.requests += 1;
        let request_id: RequestId = format!("heartline-client-sync-{}", self.requests)
            .parse()
            .expect("a fixed prefix and a number are a legal request id");
        self.in_flight.insert(request_id.clone(), Asked { chat_id, range });
        SyncRequest { request_id, chat_id, after_sequence: range.after, limit: None }
    }

    /// A page came. Gives back what was asked, if it was asked here.
    pub(crate) fn answered(&mut self, request_id: &RequestId) -> Option<Asked> {
        self.in_flight.remove(request_id)
    }

    /// A page brought something new.
    pub(crate) fn progressed(&mut self) {
        self.back_off.reset();
    }

    /// An error came.
    pub(crate) fn refused(&mut self, error: &ErrorFrame, now: Instant) -> Refused {
        let request_id = error.request_id.as_ref();
        let Some(Asked { chat_id, .. }) = request_id.and_then(|id| self.in_flight.remove(id))
        else {
            return Refused::NotMine;
        };
        match judge(error, &mut self.back_off) {
            Verdict::PauseAll(pause) => {
                self.paused_until = self.paused_until.max(Some(now + pause));
                self.want(chat_id, now);
                Refused::ForNow
            }
            Verdict::PauseOne(pause) => {
                self.wanted.insert(chat_id, Want { at: now, not_before: Some(now + pause) });
                Refused::ForNow
            }
            Verdict::Final if error.code == ErrorCode::NotAMember => Refused::NotAMember(chat_id),
            Verdict::Final => {
                tracing::warn!(%chat_id, code = error.code.as_str(), "a page is refused");
                Refused::Definitely
            }
        }
    }
}

impl Want {
    fn due_at(&self) -> Instant {
        self.not_before.map_or(self.at, |not_before| not_before.max(self.at))
    }
}

#[cfg(test)]
mod tests;
