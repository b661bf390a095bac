//! A pooled connection for the time of one call.

use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;

use super::connection::{Connection, Parameters};
use super::counters::PostgresCounters;
use super::failure::{Effect, Failure};
use super::pool::Pool;

/// The permits that a call holds while it uses a connection.
pub(super) type Permits<'pool> = (Option<SemaphorePermit<'pool>>, SemaphorePermit<'pool>);

/// A pooled connection for the time of one call. If it is dropped between statements and outside a
/// transaction, the connection goes back to the pool; otherwise the connection is closed, and the
/// server rolls back.
#[derive(Debug)]
pub(super) struct PooledConnection<'pool> {
    pool: &'pool Pool,
    connection: Option<Connection>,
    deadline: Instant,
    was_idle: bool,
    /// Whether a statement is running, or was abandoned.
    is_busy: bool,
    is_in_transaction: bool,
    _permits: Permits<'pool>,
}

impl<'pool> PooledConnection<'pool> {
    pub(super) fn new(
        pool: &'pool Pool,
        connection: Connection,
        deadline: Instant,
        was_idle: bool,
        permits: Permits<'pool>,
    ) -> Self {
        Self {
            pool,
            connection: Some(connection),
            deadline,
            was_idle,
            is_busy: false,
            is_in_transaction: false,
            _permits: permits,
        }
    }

    /// Whether the connection was idle in the pool before this call.
    pub(super) fn was_idle(&self) -> bool {
        self.was_idle
    }

    /// The counters of the store.
    pub(super) fn counters(&self) -> &'pool PostgresCounters {
        self.pool.counters()
    }

    /// Runs a statement that reads, or that is part of a transaction: if it fails, nothing was
    /// written.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        self.run(Effect::Nothing, sql, parameters).await
    }

    /// Runs a statement that writes; outside a transaction it commits by itself.
    pub(super) async fn write(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        if self.is_in_transaction {
            return self.run(Effect::Nothing, sql, parameters).await;
        }
        let rows = self.run(Effect::Commit, sql, parameters).await?;
        self.counters().commits.inc();
        Ok(rows)
    }

    /// Begins a transaction.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        self.is_in_transaction = true;
        self.run(Effect::Nothing, "BEGIN", &[]).await.map(drop)
    }

    /// Commits the transaction.
    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        self.run(Effect::Commit, "COMMIT", &[]).await?;
        self.is_in_transaction = false;
        self.counters().commits.inc();
        Ok(())
    }

    /// Rolls the transaction back.
    pub(super) async fn roll_back(&mut self) -> Result<(), Failure> {
        self.run(Effect::Nothing, "ROLLBACK", &[]).await?;
        self.is_in_transaction = false;
        Ok(())
    }

    async fn run(
        &mut self,
        effect: Effect,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let connection = self.connection.as_mut().expect("the connection is there until the drop");
        self.is_busy = true;
        let result = async {
            connection.prepare(sql).await.map_err(|error| Failure::of(&error, Effect::Nothing))?;
            let rows = connection.query(sql, parameters).await;
            rows.map_err(|error| Failure::of(&error, effect))
        };
        let result = timeout_at(self.deadline, result).await.unwrap_or_else(|_| {
            self.pool.counters().timeouts.inc();
            Err(Failure::late(effect))
        });
        self.is_busy = result.as_ref().is_err_and(|failure| failure.is_broken);
        result
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.is_busy || self.is_in_transaction {
            self.counters().connections_lost.inc();
        } else {
            self.pool.release(connection);
        }
    }
}
