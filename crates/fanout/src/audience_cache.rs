//! The members of chats, cached under the version of the membership.

use std::sync::Arc;
use std::time::Duration;

use heartline_durability::Chain;
use heartline_protocol::{ChatId, UserId};
use heartline_runtime::{Clock, Map};
use tokio::time::Instant;
use tracing::warn;

use crate::audiences::{Audience, Audiences};
use crate::metrics::Metrics;

/// Attempts to read one audience, and the time for all of them.
const ATTEMPTS_MAX: u32 = 3;
const ATTEMPTS_TIME: Duration = Duration::from_millis(250);

/// How long the store is not read after a failed read: the next messages must not wait behind
/// reads that fail.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// The age of a cached audience that may serve an event without a version, or a late event whose
/// version is outdated: a removed member receives nothing after a second.
const UNVERSIONED_AGE_MAX: Duration = Duration::from_secs(1);

/// Members of all cached audiences together, at most. Beyond, the cache is emptied.
const CACHED_MEMBERS_MAX: usize = 1_000_000;

/// The members of a chat could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// The audiences of chats.
#[derive(Debug)]
pub(crate) struct AudienceCache {
    audiences: Arc<dyn Audiences>,
    clock: Clock,
    metrics: Metrics,
    cached: Map<ChatId, Cached>,
    cached_members: usize,
    failed_at: Option<Instant>,
}

#[derive(Debug)]
struct Cached {
    audience: Audience,
    read_at: Instant,
}

impl AudienceCache {
    pub(crate) fn new(audiences: Arc<dyn Audiences>, clock: Clock, metrics: Metrics) -> Self {
        let cached = Map::default();
        Self { audiences, clock, metrics, cached, cached_members: 0, failed_at: None }
    }

    /// Stop 10 of the life of a message: addressed. The members of a chat at this version of its
    /// membership, which it had at `committed_at`, or a later one; nobody if the chat was deleted.
    /// For a late event the audience was read within the last second.
    pub(crate) async fn at(
        &mut self,
        chat_id: ChatId,
        members_version: u64,
        committed_at: Option<Instant>,
    ) -> Result<Arc<[UserId]>, Unreadable> {
        tracing::trace!(target: "heartline::life", message_stop = 10, "addressed");
        let now = self.clock.now();
        let is_young = |since: Instant| now - since < UNVERSIONED_AGE_MAX;
        if let Some(held) = self.cached.get(&chat_id)
            && held.audience.members_version >= members_version
            && (committed_at.is_some_and(is_young) || is_young(held.read_at))
        {
            return Ok(Arc::clone(&held.audience.user_ids));
        }
        self.read(chat_id).await
    }

    /// The members of a chat, read within the last second.
    pub(crate) async fn recent(&mut self, chat_id: ChatId) -> Result<Arc<[UserId]>, Unreadable> {
        self.at(chat_id, 0, None).await
    }

    /// Caches an audience that came with an event, unless a later one is cached.
    pub(crate) fn learn(&mut self, chat_id: ChatId, audience: Audience) {
        let is_older = self
            .cached
            .get(&chat_id)
            .is_some_and(|held| held.audience.members_version > audience.members_version);
        if !is_older {
            self.insert(chat_id, audience);
        }
    }

    /// Whether reads are paused, because one has just failed.
    fn is_paused(&self) -> bool {
        let now = self.clock.now();
        self.failed_at.is_some_and(|failed_at| now - failed_at < READ_PAUSE)
    }

    async fn read(&mut self, chat_id: ChatId) -> Result<Arc<[UserId]>, Unreadable> {
        if self.is_paused() {
            return Err(Unreadable);
        }
        let attempts = tokio::time::timeout(ATTEMPTS_TIME, self.attempts(chat_id)).await;
        match attempts.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(audience) => {
                self.failed_at = None;
                let user_ids = Arc::clone(&audience.user_ids);
                self.insert(chat_id, audience);
                Ok(user_ids)
            }
            Err(error) => {
                warn!(%chat_id, error, "reading chat members failed");
                self.failed_at = Some(self.clock.now());
                Err(Unreadable)
            }
        }
    }

    async fn attempts(&self, chat_id: ChatId) -> Result<Audience, String> {
        let mut attempt = 1;
        loop {
            match self.audiences.audience(chat_id).await {
                Ok(audience) => {
                    let nobody = || Audience { members_version: 0, user_ids: Arc::new([]) };
                    return Ok(audience.unwrap_or_else(nobody));
                }
                Err(error) if attempt == ATTEMPTS_MAX => return Err(Chain(&error).to_string()),
                Err(_) => self.metrics.retries.inc(),
            };
            tokio::time::sleep(ATTEMPTS_TIME / 10 * attempt).await;
            attempt += 1;
        }
    }

    fn insert(&mut self, chat_id: ChatId, audience: Audience) {
        if self.cached_members + audience.user_ids.len() > CACHED_MEMBERS_MAX {
            self.cached.clear();
            self.cached_members = 0;
        }
        self.cached_members += audience.user_ids.len();
        let held = Cached { audience, read_at: self.clock.now() };
        if let Some(before) = self.cached.insert(chat_id, held) {
            self.cached_members -= before.audience.user_ids.len();
        }
    }
}
