//! Keys that somebody else publishes at a URL and may change at any time.
//!
//! One fetch is under way at a time and everybody shares it. It belongs to no single waiter:
//! whoever still waits drives it on, so a client that hangs up in the middle neither cancels it
//! for the others nor makes them start another one. The last good set stays until a better one
//! has been read completely.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::jwks::{self, KeySetFault};
use super::keys::KeySet;

/// How far apart two fetches are that tokens with an unknown `kid` ask for.
const TOKEN_REFRESH_SPACING: Duration = Duration::from_secs(30);

/// The same before the first key set, when nobody can connect until one arrives.
const FIRST_REFRESH_SPACING: Duration = Duration::from_secs(5);

/// How far apart the server's own fetches are.
const PERIODIC_REFRESH: Duration = Duration::from_secs(5 * 60);

/// The key set could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("the key set could not be fetched")]
pub struct JwksError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The port to where a JWKS is published.
#[async_trait]
pub trait JwksSource: Send + Sync + std::fmt::Debug {
    /// The text of the key set, at most [`JWKS_BYTES_MAX`](super::JWKS_BYTES_MAX) bytes of it.
    ///
    /// Ends within seconds, in success or failure: connecting clients wait for it. It may be
    /// dropped half-way.
    async fn fetch(&self) -> Result<String, JwksError>;
}

/// The published keys as far as this node knows them.
pub(crate) struct RemoteKeys {
    source: Arc<dyn JwksSource>,
    current: Arc<CurrentKeys>,
    refreshes: Mutex<Refreshes>,
}

type CurrentKeys = RwLock<Option<Arc<KeySet>>>;
type Fetch = Shared<BoxFuture<'static, ()>>;

#[derive(Default)]
struct Refreshes {
    /// The latest fetch, under way or over, and when it began.
    latest: Option<(Fetch, Instant)>,
    /// When a token last made a fetch begin.
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

    /// The last good set, if there ever was one.
    pub(crate) fn current(&self) -> Option<Arc<KeySet>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long to wait before the next fetch that no token asks for.
    pub(crate) fn refresh_interval(&self) -> Duration {
        if self.current().is_some() { PERIODIC_REFRESH } else { FIRST_REFRESH_SPACING }
    }

    /// Fetches the set, or waits for the fetch under way.
    pub(crate) async fn refresh(&self, now: Instant) {
        let fetch = {
            let mut refreshes = self.lock_refreshes();
            refreshes.under_way(now).unwrap_or_else(|| self.begin(&mut refreshes, now))
        };
        fetch.await;
    }

    /// The same because of a token, which anybody can write: returns at once if another token
    /// had its fetch a short while ago.
    pub(crate) async fn refresh_for_token(&self, now: Instant) {
        let spacing = match self.current() {
            Some(_) => TOKEN_REFRESH_SPACING,
            None => FIRST_REFRESH_SPACING,
        };
        let fetch = {
            let mut refreshes = self.lock_refreshes();
            let is_too_soon = refreshes.for_token_at.is_some_and(|at| now < at + spacing);
            match refreshes.under_way(now) {
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
    /// The fetch to join. One that is still not over after so long has been given up by everybody
    /// who waited for it.
    fn under_way(&self, now: Instant) -> Option<Fetch> {
        let (fetch, began_at) = self.latest.as_ref()?;
        let is_live = fetch.peek().is_none() && now < *began_at + TOKEN_REFRESH_SPACING;
        is_live.then(|| fetch.clone())
    }
}

/// One fetch from beginning to end.
async fn replace_keys(source: Arc<dyn JwksSource>, current: Arc<CurrentKeys>) {
    match load(&*source).await {
        Ok(keys) => {
            *current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
            tracing::debug!(?source, "the key set was read");
        }
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            if current.read().unwrap_or_else(PoisonError::into_inner).is_some() {
                tracing::warn!(
                    ?source,
                    error,
                    "the key set was not read; the last good one serves"
                );
            } else {
                tracing::warn!(?source, error, "no key set was read yet: nobody can connect");
            }
        }
    }
}

async fn load(source: &dyn JwksSource) -> Result<KeySet, RefreshError> {
    let text = source.fetch().await?;
    Ok(jwks::parse(&text)?)
}
