//! The connections of a node: a bounded number, made when needed, replaced when broken, and every
//! call on them with a deadline.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use heartline_durability::StoreError;
use heartline_protocol::Outcome;
use heartline_routing::Clock;
use heartline_runtime::Random;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use super::config::{Deadlines, PostgresConfig};
use super::connection::{Connection, Patience};
use super::counters::PostgresCounters;
use super::failure::{Failure, Remedy};
use super::lease::Lease;
use super::open::OpenError;
use super::tls::Tls;

/// Calls that may wait for a connection; who comes then is refused at once.
const WAITING_MAX: usize = 1024;

/// Attempts at one call.
const ATTEMPTS_MAX: usize = 5;

/// How long an attempt waits that was in another one's way, at least and at most.
const PAUSE_MS: std::ops::Range<u64> = 2..20;

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To store messages. Reads never take the last connections away from this.
    Append,
    /// To read.
    Read,
    /// To note something that may be noted twice.
    Note,
    /// To change something; only what was certainly not done is tried again.
    Change,
}

impl Purpose {
    fn deadline(self, deadlines: Deadlines) -> Duration {
        match self {
            Self::Read => deadlines.read,
            Self::Append | Self::Note | Self::Change => deadlines.write,
        }
    }

    fn is_repeatable(self) -> bool {
        match self {
            Self::Append | Self::Read | Self::Note => true,
            Self::Change => false,
        }
    }
}

/// The connections of a node.
pub(super) struct Pool {
    config: PostgresConfig,
    tls: Tls,
    clock: Clock,
    random: Random,
    counters: PostgresCounters,
    /// One permit per connection that may be in use.
    places: Semaphore,
    /// As many as calls other than appends may use.
    common_places: Semaphore,
    waiting: AtomicUsize,
    /// Those that nobody uses, the latest used last.
    idle: Mutex<Vec<Connection>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pool")
            .field("address", &self.config.address())
            .field("free", &self.places.available_permits())
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without connections yet.
    pub(super) fn new(
        config: PostgresConfig,
        tls: Tls,
        clock: Clock,
        random: Random,
        counters: PostgresCounters,
    ) -> Self {
        let size = config.pool_size.max(2);
        Self {
            config,
            tls,
            clock,
            random,
            counters,
            places: Semaphore::new(size),
            common_places: Semaphore::new(size - (size / 4).max(1)),
            waiting: AtomicUsize::new(0),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// What is counted.
    pub(super) fn counters(&self) -> &PostgresCounters {
        &self.counters
    }

    /// Does something on a connection, again where that helps, and within the deadline of its
    /// purpose.
    pub(super) async fn call<'pool, T, Answer>(
        &'pool self,
        purpose: Purpose,
        call: impl Fn(Lease<'pool>) -> Answer,
    ) -> Result<T, StoreError>
    where
        Answer: Future<Output = Result<T, Failure>>,
    {
        let deadline = self.clock.now() + purpose.deadline(self.config.deadlines);
        let mut was_uncertain = false;
        let mut attempt = 1;
        loop {
            let (failure, was_idle) = match self.lease(purpose, deadline).await {
                Ok(lease) => {
                    let was_idle = lease.was_idle();
                    match call(lease).await {
                        Ok(answer) => return Ok(answer),
                        Err(failure) => (failure, was_idle),
                    }
                }
                Err(failure) => (failure, false),
            };
            let is_worth_it = match failure.remedy {
                Remedy::None => false,
                Remedy::Again => true,
                // One that lay idle may have been dead for long; a new one was not.
                Remedy::AnotherConnection => {
                    was_idle && (purpose.is_repeatable() || failure.outcome == Outcome::Rejected)
                }
            };
            let pause = Duration::from_millis(self.random.draw_within(PAUSE_MS));
            if !is_worth_it || attempt == ATTEMPTS_MAX || self.clock.now() + pause >= deadline {
                self.counters.failures.inc();
                return Err(failure.into_store_error(was_uncertain));
            }
            was_uncertain |= failure.outcome == Outcome::Unknown;
            attempt += 1;
            self.counters.retries.inc();
            sleep(pause).await;
        }
    }

    /// A connection for one call.
    async fn lease(&self, purpose: Purpose, deadline: Instant) -> Result<Lease<'_>, Failure> {
        let common_place = match purpose {
            Purpose::Append => None,
            Purpose::Read | Purpose::Note | Purpose::Change => {
                Some(self.place(&self.common_places, deadline).await?)
            }
        };
        let place = self.place(&self.places, deadline).await?;
        let idle = self.take_idle().await;
        let was_idle = idle.is_some();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect(deadline).await?,
        };
        Ok(Lease::new(self, connection, deadline, was_idle, (common_place, place)))
    }

    async fn place<'pool>(
        &self,
        places: &'pool Semaphore,
        deadline: Instant,
    ) -> Result<SemaphorePermit<'pool>, Failure> {
        if let Ok(place) = places.try_acquire() {
            return Ok(place);
        }
        self.counters.waits.inc();
        let _waiting = Waiting::begin(&self.waiting)
            .ok_or_else(|| Failure::rejected("too many calls wait for a connection"))?;
        match timeout_at(deadline, places.acquire()).await {
            Ok(place) => place.map_err(|_| Failure::rejected("the store is closed")),
            Err(_) => {
                self.counters.timeouts.inc();
                Err(Failure::rejected("no connection to the database was free in time"))
            }
        }
    }

    async fn take_idle(&self) -> Option<Connection> {
        loop {
            let mut connection = self.lock().pop()?;
            if connection.is_open().await {
                return Some(connection);
            }
            self.counters.connections_lost.inc();
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<Connection, Failure> {
        let patience = Patience::of_calls(self.config.deadlines);
        match Connection::open(&self.config, &self.tls, patience, deadline, self.random).await {
            Ok(connection) => {
                self.counters.connections_opened.inc();
                Ok(connection.counted(self.counters.connections.clone()))
            }
            Err(error) => {
                if matches!(error, OpenError::Late { .. }) {
                    self.counters.timeouts.inc();
                }
                warn!(%error, "no connection to the database");
                Err(Failure::rejected(error.to_string()))
            }
        }
    }

    /// Takes a connection back.
    pub(super) fn give_back(&self, connection: Connection) {
        if !self.places.is_closed() {
            self.lock().push(connection);
        }
    }

    /// Refuses whatever comes, waits for what is under way, and says goodbye to the server.
    pub(super) async fn close(&self) {
        let size = u32::try_from(self.config.pool_size.max(2)).unwrap_or(u32::MAX);
        let deadline = self.clock.now() + self.config.deadlines.write;
        self.common_places.close();
        // Every call ends by its deadline, and gives its place back.
        let all = timeout_at(deadline, self.places.acquire_many(size)).await;
        self.places.close();
        drop(all);
        let idle = std::mem::take(&mut *self.lock());
        for connection in idle {
            connection.close().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the calls that wait for a connection.
struct Waiting<'pool>(&'pool AtomicUsize);

impl<'pool> Waiting<'pool> {
    fn begin(waiting: &'pool AtomicUsize) -> Option<Self> {
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        // Made first, so that it is taken off again in either case.
        let this = Self(waiting);
        (before < WAITING_MAX).then_some(this)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
