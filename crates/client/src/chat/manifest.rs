//! Asking for the manifest: every chat of the user with its head, page by page.

use std::collections::HashSet;
use std::time::Duration;

use heartline_protocol::client_frame::SyncManifestRequest;
use heartline_protocol::server_frame::ManifestChat;
use heartline_protocol::{ChatId, ErrorFrame, RequestId};
use tokio::time::Instant;

use crate::back_off::BackOff;
use crate::chat::verdict::{Verdict, judge};
use crate::policy::SERVER_DELAY_MAX;

/// The manifest of one connection: the round under way, and the one that follows.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// The round that is due or being read.
    current: Option<Round>,
    /// A round that was asked for while the current one had begun, and may have been too early.
    following: Option<Round>,
    /// Nothing is asked before, because the server asked for a pause.
    paused_until: Option<Instant>,
    /// Requests since the start.
    requests: u64,
    back_off: BackOff,
}

/// One reading of the manifest, from its first page to its last.
#[derive(Debug)]
struct Round {
    due_at: Instant,
    /// The chats that still have to be met; none means all.
    only: Option<HashSet<ChatId>>,
    /// The page to ask for next.
    page: Option<String>,
    /// The request on its way.
    request_id: Option<RequestId>,
}

/// What a page of the manifest meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageTaken {
    /// Nobody here asked for it.
    NotMine,
    /// There is more to read.
    More,
    /// The round is complete.
    Complete,
}

impl Manifest {
    /// Nothing to ask for before a connection begins.
    pub(crate) fn new(back_off: BackOff) -> Self {
        Self { current: None, following: None, paused_until: None, requests: 0, back_off }
    }

    /// A connection begins, so everything is asked for.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.disconnected();
        self.current = Some(Round::new(now, None));
    }

    /// The connection is over, and every question with it.
    pub(crate) fn disconnected(&mut self) {
        (self.current, self.following, self.paused_until) = (None, None, None);
    }

    /// A newer token is in force: what waited for it goes on.
    pub(crate) fn token_refreshed(&mut self) {
        self.paused_until = None;
    }

    /// Something may have been missed in these chats, or in all.
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

    /// Whether no round is due or being read.
    pub(crate) fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// When the next page is to be asked for, if one is.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let round = self.current.as_ref().filter(|round| round.request_id.is_none())?;
        Some(self.paused_until.map_or(round.due_at, |until| until.max(round.due_at)))
    }

    /// The page to ask for now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<SyncManifestRequest> {
        if self.due_at()? > now {
            return None;
        }
        let round = self.current.as_mut()?;
        self.requests += 1;
        let request_id: RequestId = format!("heartline-client-manifest-{}", self.requests)
            .parse()
            .expect("a fixed prefix and a number are a legal request id");
        round.request_id = Some(request_id.clone());
        Some(SyncManifestRequest { request_id, page: round.page.clone() })
    }

    /// A page came.
    pub(crate) fn answered(
        &mut self,
        request_id: &RequestId,
        chats: &[ManifestChat],
        next_page: Option<&str>,
    ) -> PageTaken {
        let Some(round) = self.current.as_mut().filter(|round| round.asked(request_id)) else {
            return PageTaken::NotMine;
        };
        self.back_off.reset();
        round.request_id = None;
        round.page = next_page.map(str::to_owned);
        if let Some(only) = &mut round.only {
            chats.iter().for_each(|chat| _ = only.remove(&chat.chat_id));
        }
        let met_all = round.only.as_ref().is_some_and(HashSet::is_empty);
        if round.page.is_some() && !met_all {
            return PageTaken::More;
        }
        self.current = self.following.take();
        PageTaken::Complete
    }

    /// An error came. Whether it was about the manifest: then the same page is asked for again, or
    /// the first one if this page is refused for good.
    pub(crate) fn refused(&mut self, error: &ErrorFrame, now: Instant) -> bool {
        let asked =
            |round: &&mut Round| error.request_id.as_ref().is_some_and(|id| round.asked(id));
        let Some(round) = self.current.as_mut().filter(asked) else { return false };
        round.request_id = None;
        let pause = match judge(error, &mut self.back_off) {
            Verdict::PauseAll(pause) | Verdict::PauseOne(pause) => pause,
            Verdict::Final => {
                tracing::warn!(code = error.code.as_str(), "the manifest is refused");
                round.page = None;
                self.back_off.next_delay()
            }
        };
        self.paused_until = Some(now + pause);
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

    fn asked(&self, request_id: &RequestId) -> bool {
        self.request_id.as_ref() == Some(request_id)
    }

    /// One round that serves both.
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
