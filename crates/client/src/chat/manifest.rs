//! Requests the manifest, the list of the user's chats with their heads, page by page.

use std::collections::HashSet;
use std::time::Duration;

use heartline_protocol::client_frame::SyncManifestRequest;
use heartline_protocol::server_frame::ManifestChat;
use heartline_protocol::{ChatId, ErrorFrame, RequestId};
use tokio::time::Instant;

use crate::back_off::BackOff;
use crate::chat::retry_decision::{RetryDecision, decide};
use crate::reconnect_policy::SERVER_DELAY_MAX;

/// The reads of the manifest on one connection: the current one, and the next one.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// The read that is due or under way.
    current: Option<Round>,
    /// A read that was requested after the current one had begun and may have missed the change.
    following: Option<Round>,
    /// No request is sent before this time, because the server asked for a delay.
    paused_until: Option<Instant>,
    /// Requests since the start.
    requests: u64,
    back_off: BackOff,
}

/// One read of the manifest, from its first page to its last.
#[derive(Debug)]
struct Round {
    due_at: Instant,
    /// The chats that are still to be found; none means all.
    only: Option<HashSet<ChatId>>,
    /// The page to request next.
    page: Option<String>,
    /// The request under way.
    request_id: Option<RequestId>,
}

/// The meaning of a page of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageResult {
    /// The page was not requested here.
    Unrelated,
    /// More pages follow.
    More,
    /// The read is complete.
    Complete,
}

impl Manifest {
    /// The state before the first connection.
    pub(crate) fn new(back_off: BackOff) -> Self {
        Self { current: None, following: None, paused_until: None, requests: 0, back_off }
    }

    /// A connection begins: read the whole manifest.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.disconnected();
        self.current = Some(Round::new(now, None));
    }

    /// The connection ended, and with it all requests.
    pub(crate) fn disconnected(&mut self) {
        (self.current, self.following, self.paused_until) = (None, None, None);
    }

    /// The server accepted a newer token: requests that waited for it continue.
    pub(crate) fn token_refreshed(&mut self) {
        self.paused_until = None;
    }

    /// Messages of these chats, or of all, may have been missed: read the manifest after the delay.
    pub(crate) fn resync(&mut self, chat_ids: Option<&[ChatId]>, delay: Duration, now: Instant) {
        let only = chat_ids.map(|chat_ids| chat_ids.iter().copied().collect());
        let round = Round::new(now + delay.min(SERVER_DELAY_MAX), only);
        let has_begun = self.current.as_ref().is_some_and(Round::has_begun);
        let slot = if has_begun { &mut self.following } else { &mut self.current };
        *slot = Some(match slot.take() {
            Some(waiting) => waiting.merged(round),
            None => round,
        });
    }

    /// Whether no read is due or under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// When to request the next page.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let round = self.current.as_ref().filter(|round| round.request_id.is_none())?;
        Some(self.paused_until.map_or(round.due_at, |until| until.max(round.due_at)))
    }

    /// The page to request now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<SyncManifestRequest> {
        if self.due_at()? > now {
            return None;
        }
        let round = self.current.as_mut()?;
        self.requests += 1;
        let request_id: RequestId = format!("heartline-client-manifest-{}", self.requests)
            .parse()
            .expect("a fixed prefix and a number are a valid request id");
        round.request_id = Some(request_id.clone());
        Some(SyncManifestRequest { request_id, page: round.page.clone() })
    }

    /// A page arrived.
    pub(crate) fn answered(
        &mut self,
        request_id: &RequestId,
        chats: &[ManifestChat],
        next_page: Option<&str>,
    ) -> PageResult {
        let Some(round) = self.current.as_mut().filter(|round| round.requested(request_id)) else {
            return PageResult::Unrelated;
        };
        self.back_off.reset();
        round.request_id = None;
        round.page = next_page.map(str::to_owned);
        if let Some(only) = &mut round.only {
            chats.iter().for_each(|chat| _ = only.remove(&chat.chat_id));
        }
        let found_all = round.only.as_ref().is_some_and(HashSet::is_empty);
        if round.page.is_some() && !found_all {
            return PageResult::More;
        }
        self.current = self.following.take();
        PageResult::Complete
    }

    /// An error arrived. Returns whether it answers a request for the manifest. The same page is
    /// then requested again, or the first page if the server rejected this one for good.
    pub(crate) fn on_error(&mut self, error: &ErrorFrame, now: Instant) -> bool {
        let requested =
            |round: &&mut Round| error.request_id.as_ref().is_some_and(|id| round.requested(id));
        let Some(round) = self.current.as_mut().filter(requested) else { return false };
        round.request_id = None;
        let delay = match decide(error, &mut self.back_off) {
            RetryDecision::RetryAll(delay) | RetryDecision::RetryOne(delay) => delay,
            RetryDecision::GiveUp => {
                tracing::warn!(code = error.code.as_str(), "server rejected the manifest request");
                round.page = None;
                self.back_off.next_delay()
            }
        };
        self.paused_until = Some(now + delay);
        true
    }
}

impl Round {
    fn new(due_at: Instant, only: Option<HashSet<ChatId>>) -> Self {
        Self { due_at, only, page: None, request_id: None }
    }

    fn has_begun(&self) -> bool {
        self.request_id.is_some() || self.page.is_some()
    }

    fn requested(&self, request_id: &RequestId) -> bool {
        self.request_id.as_ref() == Some(request_id)
    }

    /// One read for the chats of both.
    fn merged(self, other: Self) -> Self {
        let only = match (self.only, other.only) {
            (Some(mine), Some(theirs)) => Some(mine.union(&theirs).copied().collect()),
            (None, _) | (_, None) => None,
        };
        Self::new(self.due_at.min(other.due_at), only)
    }
}

#[cfg(test)]
mod tests;
