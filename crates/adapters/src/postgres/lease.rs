//! A connection for the time of one call.

use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;

use super::connection::{Connection, Parameters};
use super::counters::PostgresCounters;
use super::failure::{Effect, Failure};
use super::pool::Pool;

/// The places that a lease takes while it lasts.
pub(super) type Places<'pool> = (Option<SemaphorePermit<'pool>>, SemaphorePermit<'pool>);

/// A connection for the time of one call. When it ends between calls and outside a transaction,
/// the connection goes back to the pool; else it is closed, and the server rolls back.
#[derive(Debug)]
pub(super) struct Lease<'pool> {
    pool: &'pool Pool,
    connection: Option<Connection>,
    deadline: Instant,
    was_idle: bool,
    /// Whether a statement is under way, or was left behind.
    is_busy: bool,
    is_in_transaction: bool,
    _places: Places<'pool>,
}

impl<'pool> Lease<'pool> {
    pub(super) fn new(
        pool: &'pool Pool,
        connection: Connection,
        deadline: Instant,
        was_idle: bool,
        places: Places<'pool>,
    ) -> Self {
        Self {
            pool,
            connection: Some(connection),
            deadline,
            was_idle,
            is_busy: false,
            is_in_transaction: false,
            _places: places,
        }
    }

    /// Whether the connection lay idle before.
    pub(super) fn was_idle(&self) -> bool {
        self.was_idle
    }

    /// What is counted.
    pub(super) fn counters(&self) -> &'pool PostgresCounters {
        self.pool.counters()
    }

    /// Reads, or does a part of a transaction: if it fails, nothing was written.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        self.run(Effect::Nothing, sql, parameters).await
    }

    /// Writes; outside a transaction it commits by itself.
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

    /// Commits it.
    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        self.run(Effect::Commit, "COMMIT", &[]).await?;
        self.is_in_transaction = false;
        self.counters().commits.inc();
        Ok(())
    }

    /// Undoes it.
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
        let connection = self.connection.as_mut().expect("a lease has its connection");
        self.is_busy = true;
        let answer = async {
            connection.prepare(sql).await.map_err(|error| Failure::of(&error, Effect::Nothing))?;
            let rows = connection.query(sql, parameters).await;
            rows.map_err(|error| Failure::of(&error, effect))
        };
        let answer = timeout_at(self.deadline, answer).await.unwrap_or_else(|_| {
            self.pool.counters().timeouts.inc();
            Err(Failure::late(effect))
        });
        self.is_busy = answer.as_ref().is_err_and(|failure| failure.is_broken);
        answer
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.is_busy || self.is_in_transaction {
            self.counters().connections_lost.inc();
        } else {
            self.pool.give_back(connection);
        }
    }
}
