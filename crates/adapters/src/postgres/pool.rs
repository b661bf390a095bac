//! The connection pool of a node: a bounded number of connections, opened on demand, replaced when
//! broken; every call has a deadline.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use heartline_durability::StoreError;
use heartline_protocol::Outcome;
use heartline_runtime::{Clock, Random};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use super::config::{Deadlines, PostgresConfig};
use super::connection::{Connection, Timeouts};
use super::counters::PostgresCounters;
use super::failure::{Failure, Remedy};
use super::open::OpenError;
use super::pooled_connection::PooledConnection;
use super::tls::Tls;

/// Calls that may wait for a connection; further ones are rejected at once.
const WAITING_MAX: usize = 1024;

/// Attempts at one call.
const ATTEMPTS_MAX: usize = 5;

/// The pause before a retry, at least and at most.
const PAUSE_MS: std::ops::Range<u64> = 2..20;

/// The kind of a call: decides its deadline, its share of the pool and whether it may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Stores messages; a share of the pool is reserved for this.
    Append,
    /// Reads.
    Read,
    /// An idempotent write.
    Note,
    /// A write that is retried only if the first attempt certainly wrote nothing.
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

/// The connection pool of a node.
pub(super) struct Pool {
    config: PostgresConfig,
    tls: Tls,
    clock: Clock,
    random: Random,
    counters: PostgresCounters,
    /// One permit per connection that may be in use.
    permits: Semaphore,
    /// One permit per connection that calls other than appends may use.
    common_permits: Semaphore,
    waiting: AtomicUsize,
    /// Connections that are not in use, the most recently used last.
    idle: Mutex<Vec<Connection>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pool")
            .field("address", &self.config.address())
            .field("free", &self.permits.available_permits())
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
            permits: Semaphore::new(size),
            common_permits: Semaphore::new(size - (size / 4).max(1)),
            waiting: AtomicUsize::new(0),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// The counters of the store.
    pub(super) fn counters(&self) -> &PostgresCounters {
        &self.counters
    }

    /// The deadlines of calls.
    pub(super) fn deadlines(&self) -> Deadlines {
        self.config.deadlines
    }

    /// The deadline of a call that begins now.
    pub(super) fn deadline(&self, purpose: Purpose) -> Instant {
        self.clock.now() + purpose.deadline(self.config.deadlines)
    }

    /// Runs a call on a connection within the deadline of its purpose, and retries it where that
    /// helps.
    pub(super) async fn call<'pool, T, Running>(
        &'pool self,
        purpose: Purpose,
        call: impl Fn(PooledConnection<'pool>) -> Running,
    ) -> Result<T, StoreError>
    where
        Running: Future<Output = Result<T, Failure>>,
    {
        let deadline = self.deadline(purpose);
        Ok(self.call_until(deadline, purpose, false, call).await?)
    }

    /// Runs a call on a connection, and retries it where that helps. `was_uncertain` says that an
    /// earlier attempt may have written, so that no failure of this one is certain.
    pub(super) async fn call_until<'pool, T, Running>(
        &'pool self,
        deadline: Instant,
        purpose: Purpose,
        mut was_uncertain: bool,
        call: impl Fn(PooledConnection<'pool>) -> Running,
    ) -> Result<T, Failure>
    where
        Running: Future<Output = Result<T, Failure>>,
    {
        let mut attempt = 1;
        loop {
            let (failure, was_idle) = match self.acquire(purpose, deadline).await {
                Ok(connection) => {
                    let was_idle = connection.was_idle();
                    match call(connection).await {
                        Ok(result) => return Ok(result),
                        Err(failure) => (failure, was_idle),
                    }
                }
                Err(failure) => (failure, false),
            };
            let is_worth_it = match failure.remedy {
                Remedy::None => false,
                Remedy::Again => true,
                // An idle connection may have been dead for long; a new one was not.
                Remedy::AnotherConnection => {
                    was_idle && (purpose.is_repeatable() || failure.outcome == Outcome::Rejected)
                }
            };
            let pause = Duration::from_millis(self.random.draw_within(PAUSE_MS));
            if !is_worth_it || attempt == ATTEMPTS_MAX || self.clock.now() + pause >= deadline {
                self.counters.failures.inc();
                return Err(failure.after(was_uncertain));
            }
            was_uncertain |= failure.outcome == Outcome::Unknown;
            attempt += 1;
            self.counters.retries.inc();
            sleep(pause).await;
        }
    }

    /// Acquires a connection for one call.
    async fn acquire(
        &self,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<PooledConnection<'_>, Failure> {
        if self.clock.now() >= deadline {
            self.counters.timeouts.inc();
            return Err(Failure::rejected("the deadline passed before the call began"));
        }
        let common_permit = match purpose {
            Purpose::Append => None,
            Purpose::Read | Purpose::Note | Purpose::Change => {
                Some(self.permit(&self.common_permits, deadline).await?)
            }
        };
        let permit = self.permit(&self.permits, deadline).await?;
        let idle = self.take_idle().await;
        let was_idle = idle.is_some();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect(deadline).await?,
        };
        let permits = (common_permit, permit);
        Ok(PooledConnection::new(self, connection, deadline, was_idle, permits))
    }

    async fn permit<'pool>(
        &self,
        permits: &'pool Semaphore,
        deadline: Instant,
    ) -> Result<SemaphorePermit<'pool>, Failure> {
        if let Ok(permit) = permits.try_acquire() {
            return Ok(permit);
        }
        self.counters.waits.inc();
        let _waiting = Waiting::begin(&self.waiting)
            .ok_or_else(|| Failure::rejected("too many calls wait for a connection"))?;
        match timeout_at(deadline, permits.acquire()).await {
            Ok(permit) => permit.map_err(|_| Failure::rejected("the store is closed")),
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
        let timeouts = Timeouts::of_calls(self.config.deadlines);
        match Connection::open(&self.config, &self.tls, timeouts, deadline, self.random).await {
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

    /// Returns a connection to the pool.
    pub(super) fn release(&self, connection: Connection) {
        if !self.permits.is_closed() {
            self.lock().push(connection);
        }
    }

    /// Rejects new calls, waits for the running ones, and closes the connections.
    pub(super) async fn close(&self) {
        let size = u32::try_from(self.config.pool_size.max(2)).unwrap_or(u32::MAX);
        let deadline = self.clock.now() + self.config.deadlines.write;
        self.common_permits.close();
        // Every call ends by its deadline and releases its permits.
        let all = timeout_at(deadline, self.permits.acquire_many(size)).await;
        self.permits.close();
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
        // Constructed first, so that its drop subtracts in either case.
        let this = Self(waiting);
        (before < WAITING_MAX).then_some(this)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
