//! The store of live party sessions that several nodes share, on Redis.
//!
//! | key | type | content | ends |
//! |---|---|---|---|
//! | `party:{<session>}:state` | HASH | the fields, and `revision` | 4 h after its last use |
//! | `party:{<session>}:events` | LIST | an entry for each of the last commits | 5 min after that |
//! | `party:{<session>}:lock` | STRING | who restores the session | after 10 s |
//! | `party:{<session>}:offer` | HASH | the newest copy that was put forward | after 60 s |
//! | `party:active` | ZSET | session → last activity | each member after 1 h |
//!
//! A session is one hash on purpose: half of it can never end before the other half. Commits are
//! published on the channel `party:{<session>}`, and `party:wanted` asks every node for its copy.

mod keys;
mod revision;
mod scripts;
mod state;
mod sessions;
mod restore;
mod notices;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use heartline_party::{
    Commit, Committed, Notice, PartyStoreError, Revision, SessionActivity, SessionRecovery,
    SessionStore, SessionWatch, Stored,
};
use heartline_runtime::{Clock, Tasks};
use redis::{Cmd, Value};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::keys::PartyKeys;
use self::notices::Notices;
use self::scripts::PartyScripts;
use super::client::RedisClient;
use super::failure::RedisFailure;
use super::script::Script;
use super::subscription::Channels;

/// The deadline of the first subscription.
const SUBSCRIBE_PATIENCE: Duration = Duration::from_secs(5);

/// The configuration of a party store.
#[derive(Debug, Clone, Copy)]
pub struct RedisPartyConfig {
    /// The lifetime of an unused session.
    pub session_ttl: Duration,
    /// The lifetime of its log after the last entry.
    pub event_log_ttl: Duration,
}

impl Default for RedisPartyConfig {
    fn default() -> Self {
        let (session_ttl, event_log_ttl) =
            (Duration::from_secs(4 * 60 * 60), Duration::from_secs(5 * 60));
        Self { session_ttl, event_log_ttl }
    }
}

/// The store of live party sessions on Redis.
#[derive(Debug)]
pub struct RedisPartyStore {
    client: RedisClient,
    config: RedisPartyConfig,
    keys: PartyKeys,
    scripts: PartyScripts,
    channels: Arc<Channels>,
    notices: Arc<Notices>,
    /// The task that listens, which is aborted with the store.
    listening: JoinHandle<()>,
}

impl RedisPartyStore {
    /// Opens the store, and listens from then on for nodes that want copies of sessions. Must be
    /// called within a runtime, because a task listens.
    pub async fn connect(
        client: RedisClient,
        config: RedisPartyConfig,
        clock: Clock,
    ) -> Result<Self, RedisFailure> {
        let keys = PartyKeys::new(client.config());
        let mut subscription = client.subscribe(vec![keys.wanted()]);
        let established = timeout(SUBSCRIBE_PATIENCE, subscription.established()).await;
        established.map_err(|_| RedisFailure::Timeout)?;
        let channels = subscription.channels();
        let notices = Arc::new(Notices::new(keys.clone(), Arc::clone(&channels)));
        let listener = Arc::clone(&notices).run(client.clone(), clock, subscription);
        let listening = Tasks::new().spawn("party listener", listener);
        let scripts = PartyScripts::new(&client, &keys, config);
        Ok(Self { client, config, keys, scripts, channels, notices, listening })
    }

    /// Runs one call of a script.
    async fn run(&self, script: &Script, call: Cmd) -> Result<Value, RedisFailure> {
        let mut replies = self.client.scripts(script, vec![call]).await;
        replies.pop().unwrap_or(Err(RedisFailure::unexpected("none")))
    }
}

impl Drop for RedisPartyStore {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl From<RedisFailure> for PartyStoreError {
    fn from(failure: RedisFailure) -> Self {
        Self::new(failure)
    }
}

// === impl of the ports ===

#[async_trait]
impl SessionStore for RedisPartyStore {
    async fn load(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError> {
        self.load_session(session_id).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, PartyStoreError> {
        self.commit_step(commit).await
    }

    async fn entries(
        &self,
        session_id: &str,
        after: Revision,
    ) -> Result<Option<Vec<Bytes>>, PartyStoreError> {
        self.entries_after(session_id, after).await
    }

    async fn log(&self, session_id: &str, incarnation: u64) -> Result<Vec<Bytes>, PartyStoreError> {
        self.log_of(session_id, incarnation).await
    }

    async fn revisions(
        &self,
        session_ids: &[String],
    ) -> Result<Vec<Option<Revision>>, PartyStoreError> {
        self.revisions_of(session_ids).await
    }

    async fn remove(&self, session_id: &str, revision: Revision) -> Result<bool, PartyStoreError> {
        self.remove_session(session_id, revision).await
    }
}

#[async_trait]
impl SessionWatch for RedisPartyStore {
    async fn watch(&self, session_id: &str) -> Result<(), PartyStoreError> {
        let channel = self.keys.session(session_id)?.channel;
        Ok(self.channels.add(&channel, self.client.config().deadline).await?)
    }

    async fn unwatch(&self, session_id: &str) {
        if let Ok(keys) = self.keys.session(session_id) {
            self.channels.remove(&keys.channel);
        }
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}

#[async_trait]
impl SessionActivity for RedisPartyStore {
    async fn keep(&self, session_ids: &[String]) -> Result<Vec<String>, PartyStoreError> {
        self.keep_sessions(session_ids).await
    }

    async fn active(&self, limit: usize) -> Result<Vec<String>, PartyStoreError> {
        self.active_sessions(limit).await
    }

    async fn inactive(&self, session_id: &str) -> Result<(), PartyStoreError> {
        Ok(self.unlist(session_id).await?)
    }

    async fn now_ms(&self) -> Result<u64, PartyStoreError> {
        // On a Cluster each master has a clock: all nodes read that of the master of the active
        // list.
        let time = self.client.time(&self.keys.active()).await?;
        Ok(time.unix_ms)
    }
}

#[async_trait]
impl SessionRecovery for RedisPartyStore {
    async fn lock(&self, session_id: &str, owner: &str) -> Result<bool, PartyStoreError> {
        self.take_lock(session_id, owner).await
    }

    async fn unlock(&self, session_id: &str, owner: &str) -> Result<(), PartyStoreError> {
        self.release_lock(session_id, owner).await
    }

    async fn ask(&self, session_id: &str) -> Result<(), PartyStoreError> {
        self.ask_for_copies(session_id).await
    }

    async fn offer(&self, session_id: &str, copy: Stored) -> Result<(), PartyStoreError> {
        self.offer_copy(session_id, &copy).await
    }

    async fn offered(&self, session_id: &str) -> Result<Option<Stored>, PartyStoreError> {
        self.offered_copy(session_id).await
    }
}
