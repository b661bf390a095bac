//! Who belongs to a chat, remembered under the version of its membership.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use heartline_durability::{Audience, Members};
use heartline_protocol::{ChatId, UserId};
use heartline_routing::Clock;
use tokio::time::Instant;
use tracing::warn;

use crate::metrics::Metrics;

/// Reads of one audience, and how long all of them together may take.
const ATTEMPTS_MAX: u32 = 3;
const ATTEMPTS_TIME: Duration = Duration::from_millis(250);

/// After a failed read the store is not asked again for a while: what comes meanwhile must not
/// wait behind reads that fail.
const FAILURE_REST: Duration = Duration::from_secs(1);

/// How old an audience may be for what has no version of its own, or comes so late that its version
/// says little: a removed member hears nothing after a second.
const UNVERSIONED_AGE_MAX: Duration = Duration::from_secs(1);

/// Members of all remembered audiences together. Beyond, all are read again.
const REMEMBERED_MEMBERS_MAX: usize = 1_000_000;

/// Nobody could say who belongs to a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// The audiences of chats.
#[derive(Debug)]
pub(crate) struct Audiences {
    members: Arc<dyn Members>,
    clock: Clock,
    metrics: Metrics,
    remembered: HashMap<ChatId, Remembered>,
    remembered_members: usize,
    failed_at: Option<Instant>,
}

#[derive(Debug)]
struct Remembered {
    audience: Audience,
    read_at: Instant,
}

impl Audiences {
    pub(crate) fn new(members: Arc<dyn Members>, clock: Clock, metrics: Metrics) -> Self {
        let remembered = HashMap::new();
        Self { members, clock, metrics, remembered, remembered_members: 0, failed_at: None }
    }

    /// Stop 10 of the life of a message: addressed. Everybody who belonged to the chat at this
    /// version of its membership, which it had at this instant, or a later one; nobody when the
    /// chat is gone. For what is announced late the audience was read within the last second.
    pub(crate) async fn at(
        &mut self,
        chat_id: ChatId,
        members_version: u64,
        committed_at: Option<Instant>,
    ) -> Result<Arc<[UserId]>, Unreadable> {
        let now = self.clock.now();
        let is_young = |since: Instant| now - since < UNVERSIONED_AGE_MAX;
        if let Some(held) = self.remembered.get(&chat_id)
            && held.audience.members_version >= members_version
            && (committed_at.is_some_and(is_young) || is_young(held.read_at))
        {
            return Ok(Arc::clone(&held.audience.user_ids));
        }
        self.read(chat_id).await
    }

    /// The same for what has no version: read within the last second.
    pub(crate) async fn lately(&mut self, chat_id: ChatId) -> Result<Arc<[UserId]>, Unreadable> {
        self.at(chat_id, 0, None).await
    }

    /// Remembers an audience that came with an event, unless a later one is known.
    pub(crate) fn learn(&mut self, chat_id: ChatId, audience: Audience) {
        let is_older = self
            .remembered
            .get(&chat_id)
            .is_some_and(|held| held.audience.members_version > audience.members_version);
        if !is_older {
            self.remember(chat_id, audience);
        }
    }

    /// Whether reads may be tried, or have just failed.
    pub(crate) fn rests(&self) -> bool {
        let now = self.clock.now();
        self.failed_at.is_some_and(|failed_at| now - failed_at < FAILURE_REST)
    }

    async fn read(&mut self, chat_id: ChatId) -> Result<Arc<[UserId]>, Unreadable> {
        if self.rests() {
            return Err(Unreadable);
        }
        let attempts = tokio::time::timeout(ATTEMPTS_TIME, self.attempts(chat_id)).await;
        match attempts.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(audience) => {
                self.failed_at = None;
                let user_ids = Arc::clone(&audience.user_ids);
                self.remember(chat_id, audience);
                Ok(user_ids)
            }
            Err(reason) => {
                warn!(%chat_id, reason, "it cannot be read who belongs to a chat");
                self.failed_at = Some(self.clock.now());
                Err(Unreadable)
            }
        }
    }

    async fn attempts(&self, chat_id: ChatId) -> Result<Audience, String> {
        let mut attempt = 1;
        loop {
            match self.members.audience(chat_id).await {
                Ok(audience) => {
                    let nobody = || Audience { members_version: 0, user_ids: Arc::new([]) };
                    return Ok(audience.unwrap_or_else(nobody));
                }
                Err(error) if attempt == ATTEMPTS_MAX => return Err(error.reason),
                Err(_) => self.metrics.retries.inc(),
            };
            tokio::time::sleep(ATTEMPTS_TIME / 10 * attempt).await;
            attempt += 1;
        }
    }

    fn remember(&mut self, chat_id: ChatId, audience: Audience) {
        if self.remembered_members + audience.user_ids.len() > REMEMBERED_MEMBERS_MAX {
            self.remembered.clear();
            self.remembered_members = 0;
        }
        self.remembered_members += audience.user_ids.len();
        let held = Remembered { audience, read_at: self.clock.now() };
        if let Some(before) = self.remembered.insert(chat_id, held) {
            self.remembered_members -= before.audience.user_ids.len();
        }
    }
}
