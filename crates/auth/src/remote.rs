//! Keys that an identity provider publishes at a URL and may change at any time.
//!
//! At most one fetch is pending, and all waiting callers share it. The fetch belongs to no single
//! caller: each remaining one polls it, so a client that disconnects neither cancels it for the
//! others nor makes them start another one. The last good set stays in use until a better one has
//! been read completely.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::jwks::{self, KeySetFault};
use super::keys::KeySet;

/// The shortest time between two fetches that tokens with an unknown `kid` cause.
const TOKEN_REFRESH_SPACING: Duration = Duration::from_secs(30);

/// The shortest time between two such fetches before the first key set, when no client can connect.
const FIRST_REFRESH_SPACING: Duration = Duration::from_secs(5);

/// The interval of the server's own fetches.
const PERIODIC_REFRESH: Duration = Duration::from_secs(5 * 60);

/// The key set could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("the key set could not be fetched")]
pub struct JwksError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The port to the place where a JWKS is published.
#[async_trait]
pub trait JwksSource: Send + Sync + std::fmt::Debug {
    /// The text of the key set, at most [`JWKS_BYTES_MAX`](super::JWKS_BYTES_MAX) bytes of it.
    ///
    /// Returns within seconds, with success or failure, because connecting clients wait for it. The
    /// future may be dropped before it ends.
    async fn fetch(&self) -> Result<String, JwksError>;
}

/// The published keys as last fetched.
pub(crate) struct RemoteKeys {
    source: Arc<dyn JwksSource>,
    current: Arc<CurrentKeys>,
    refreshes: Mutex<Refreshes>,
}

type CurrentKeys = RwLock<Option<Arc<KeySet>>>;
type Fetch = Shared<BoxFuture<'static, ()>>;

#[derive(Default)]
struct Refreshes {
    /// The latest fetch, pending or finished, and when it began.
    latest: Option<(Fetch, Instant)>,
    /// When a token last caused a fetch.
    for_token_at: Option<Instant>,
}

#[derive(Debug, thiserror::Error)]
enum RefreshError {
    #[error(transparent)]
    Fetch(#[from] JwksError),
    #[error("the published key set cannot be used")]
    Unusable(#[from] KeySetFault),
}

impl RemoteKeys {
    pub(crate) fn new(source: Arc<dyn JwksSource>) -> Self {
        Self { source, current: Arc::default(), refreshes: Mutex::default() }
    }

    /// The last good set, if any.
    pub(crate) fn current(&self) -> Option<Arc<KeySet>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The time until the next fetch that no token causes.
    pub(crate) fn refresh_interval(&self) -> Duration {
        if self.current().is_some() { PERIODIC_REFRESH } else { FIRST_REFRESH_SPACING }
    }

    /// Fetches the set, or waits for the pending fetch.
    pub(crate) async fn refresh(&self, now: Instant) {
        let fetch = {
            let mut refreshes = self.lock_refreshes();
            refreshes.pending(now).unwrap_or_else(|| self.begin(&mut refreshes, now))
        };
        fetch.await;
    }

    /// Fetches the set because of a token. Anybody can send tokens, so this returns at once if
    /// another token caused a fetch a short time ago.
    pub(crate) async fn refresh_for_token(&self, now: Instant) {
        let spacing = match self.current() {
            Some(_) => TOKEN_REFRESH_SPACING,
            None => FIRST_REFRESH_SPACING,
        };
        let fetch = {
            let mut refreshes = self.lock_refreshes();
            let is_too_soon = refreshes.for_token_at.is_some_and(|at| now < at + spacing);
            match refreshes.pending(now) {
                Some(fetch) => fetch,
                None if is_too_soon => return,
                None => {
                    refreshes.for_token_at = Some(now);
                    self.begin(&mut refreshes, now)
                }
            }
        };
        fetch.await;
    }

    fn begin(&self, refreshes: &mut Refreshes, now: Instant) -> Fetch {
        let fetch = replace_keys(Arc::clone(&self.source), Arc::clone(&self.current));
        let fetch = fetch.boxed().shared();
        refreshes.latest = Some((fetch.clone(), now));
        fetch
    }

    fn lock_refreshes(&self) -> MutexGuard<'_, Refreshes> {
        self.refreshes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Refreshes {
    /// The pending fetch, if any. A fetch that is still pending after so long has been given up by
    /// all of its callers.
    fn pending(&self, now: Instant) -> Option<Fetch> {
        let (fetch, began_at) = self.latest.as_ref()?;
        let is_live = fetch.peek().is_none() && now < *began_at + TOKEN_REFRESH_SPACING;
        is_live.then(|| fetch.clone())
    }
}

/// Fetches the set once and replaces the current one.
async fn replace_keys(source: Arc<dyn JwksSource>, current: Arc<CurrentKeys>) {
    match load(&*source).await {
        Ok(keys) => {
            *current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
            tracing::debug!(?source, "key set loaded");
        }
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            if current.read().unwrap_or_else(PoisonError::into_inner).is_some() {
                tracing::warn!(
                    ?source,
                    error,
                    "loading the key set failed; the last good one stays in use"
                );
            } else {
                tracing::warn!(?source, error, "no key set loaded yet: no client can authenticate");
            }
        }
    }
}

async fn load(source: &dyn JwksSource) -> Result<KeySet, RefreshError> {
    let text = source.fetch().await?;
    Ok(jwks::parse(&text)?)
}
