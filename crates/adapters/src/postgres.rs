//! The store of a cluster: a PostgreSQL database that any number of nodes share.
//!
//! A sequence is assigned under the lock of its chat's row, in the transaction that stores the
//! message, so on every node commit order is sequence order. No call returns before its commit, and
//! every database session makes its commits wait for the disk.
//!
//! Settings, prepared statements and locks belong to database sessions, so a connection pooler in
//! between must work in session mode, not in transaction mode.

mod append;
mod chats;
mod config;
mod connection;
mod contacts;
mod counters;
mod create;
mod edit;
mod failure;
mod forget;
mod keys;
mod open;
mod pages;
mod party_archive;
mod people;
mod pool;
mod pooled_connection;
mod ports;
mod publish;
mod repair;
mod rows;
mod schema;
mod tls;
mod users;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use heartline_durability::StoreError;
use heartline_protocol::Timestamp;
use heartline_runtime::{Clock, Random};

pub use config::{Encryption, POOL_SIZE, PostgresConfig, SynchronousCommit, UrlError};
pub use counters::PostgresCounters;
pub use open::OpenError;

use pool::{Pool, Purpose};
use tls::Tls;

/// How long opening may take; another node may be migrating the schema.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// The store of a cluster. Clones share its connections.
#[derive(Debug, Clone)]
pub struct PostgresStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    clock: Clock,
    random: Random,
    /// The id under which this store claims unannounced chats.
    claimant: i64,
}

impl PostgresStore {
    /// Connects, verifies that the database is durable and migrates its schema.
    ///
    /// # Errors The store cannot be opened; the error says why, and what to do.
    pub async fn open(
        config: &PostgresConfig,
        clock: Clock,
        random: Random,
    ) -> Result<Self, OpenError> {
        let tls = match &config.encryption {
            Encryption::Disable | Encryption::Require => Tls::unverified(),
            Encryption::VerifyFull { roots_file } => {
                Tls::verified(roots_file.as_deref()).map_err(|reason| {
                    let path = roots_file.as_deref().unwrap_or("".as_ref());
                    OpenError::Roots { path: path.display().to_string(), reason }
                })?
            }
        };
        let deadline = clock.now() + OPEN_DEADLINE;
        schema::migrate(config, &tls, deadline, random).await?;
        let pool = Pool::new(config.clone(), tls, clock, random, PostgresCounters::default());
        let claimant = random.draw();
        Ok(Self(Arc::new(Inner { pool, clock, random, claimant })))
    }

    /// Waits for the running calls and closes the connections. Later calls are rejected.
    pub async fn close(&self) {
        self.0.pool.close().await;
    }

    /// The counters of the store; clones share them.
    pub fn counters(&self) -> PostgresCounters {
        self.0.pool.counters().clone()
    }

    /// The time by the server's own clock.
    ///
    /// # Errors
    /// The store failed.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        self.0.pool.call(Purpose::Read, schema::now).await
    }
}
