//! The store of a cluster: a PostgreSQL database that any number of nodes share.
//!
//! Every number is given under the lock of its chat's row, in the transaction that stores the
//! message, so commit order is the order of numbers on whatever node they are sent. Nothing is
//! answered before its commit, and every session makes its commits wait for the disk.
//!
//! Settings, statements and locks belong to sessions, so a pooler on the way must keep sessions
//! apart; one that hands out a connection per transaction does not.

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
mod lease;
mod open;
mod pages;
mod party_archive;
mod people;
mod pool;
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
use heartline_routing::Clock;
use heartline_runtime::Random;

pub use config::{Encryption, POOL_SIZE, PostgresConfig, SynchronousCommit, UrlError};
pub use counters::PostgresCounters;
pub use open::OpenError;

use pool::{Pool, Purpose};
use tls::Tls;

/// How long the opening may take; another node may be changing the schema.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// The store of a cluster. Clones share its connections.
#[derive(Debug, Clone)]
pub struct PostgresStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    clock: Clock,
    random: Random,
    /// Who claims what was not announced: this store and no other.
    claimant: i64,
}

impl PostgresStore {
    /// Connects, proves that the database is durable and brings its schema up to date.
    ///
    /// # Errors
    /// Something is in the way; the sentence says what, and what to do.
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

    /// Finishes what is under way and closes its connections. Later calls are refused.
    pub async fn close(&self) {
        self.0.pool.close().await;
    }

    /// What is counted; clones share the numbers.
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
