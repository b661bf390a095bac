//! One connection to the database: a database session with verified settings, and its prepared
//! statements.
//!
//! No task runs beside the connection: the caller that waits for a result also moves the bytes. An
//! idle connection therefore costs nothing, and dropping a connection ends it.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use heartline_runtime::Random;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Socket, Statement};

use super::config::{Deadlines, PostgresConfig, SERVER_TIMEOUT};
use super::open::{OpenError, settings, verify};
use super::tls::{Encrypted, Tls};

/// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeouts that a database session enforces itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// `statement_timeout`; below the deadline of a call, because the error of the server says for
    /// certain that nothing was written, and a missed deadline does not.
    pub(super) statement: Duration,
    /// `lock_timeout`. Appends set their own: see [`LockTimeouts`].
    pub(super) lock: Duration,
    /// `idle_in_transaction_session_timeout`, which releases the locks of a stalled node.
    pub(super) idle_in_transaction: Duration,
}

impl Timeouts {
    /// The timeouts of a serving node, all within the deadline of a call. A stalled transaction is
    /// ended before the calls that wait for its locks fail.
    pub(super) fn of_calls(deadlines: Deadlines) -> Self {
        let part = |percent| deadlines.write * percent / 100;
        Self { statement: part(90), lock: part(80), idle_in_transaction: part(25) }
    }
}

/// How long an append waits for locks.
///
/// A shard of ingest appends one batch after the other. `total` is less than half of the deadline,
/// so that a message is stored within its deadline even if its batch and the batch before it both
/// contain a locked chat. `total` without `several_chats` is more than
/// [`Timeouts::idle_in_transaction`], so that a stalled node makes no append fail.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockTimeouts {
    /// For one lock, in a transaction for several chats.
    pub(super) several_chats: Duration,
    /// For all locks that the append waits for, one after the other.
    pub(super) total: Duration,
}

impl LockTimeouts {
    pub(super) fn of_appends(deadlines: Deadlines) -> Self {
        let part = |percent| deadlines.write * percent / 100;
        Self { several_chats: part(10), total: part(45) }
    }
}

/// The timeouts of the database session that migrates the schema, or waits for another node to.
pub(super) const MIGRATING: Timeouts = Timeouts {
    statement: Duration::from_secs(600),
    lock: Duration::from_secs(600),
    idle_in_transaction: Duration::from_secs(60),
};

/// The future that reads and writes the socket of a connection.
type Wire = tokio_postgres::Connection<Socket, Encrypted>;

/// The parameters of a statement.
pub(super) type Parameters<'call> = &'call [&'call (dyn ToSql + Sync)];

/// One connection to the database.
pub(super) struct Connection {
    client: Client,
    wire: Wire,
    statements: HashMap<&'static str, Statement>,
    open: Option<Counted>,
}

/// Adds one to a gauge until it is dropped.
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statements = self.statements.len();
        formatter
            .debug_struct("Connection")
            .field("statements", &statements)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, configures the database session and verifies its settings.
    pub(super) async fn open(
        config: &PostgresConfig,
        tls: &Tls,
        timeouts: Timeouts,
        deadline: Instant,
        random: Random,
    ) -> Result<Self, OpenError> {
        let opening = async {
            let unreachable = |error| OpenError::unreachable(config, &error);
            let (client, wire) = connect(config, tls, random).await.map_err(unreachable)?;
            let mut connection = Self { client, wire, statements: HashMap::new(), open: None };
            let settings = settings(config, timeouts);
            connection.batch(&settings).await.map_err(unreachable)?;
            verify(config, &mut connection).await?;
            Ok(connection)
        };
        let late = || OpenError::Late { address: config.address() };
        timeout_at(deadline, opening).await.unwrap_or_else(|_| Err(late()))
    }

    /// Counts the connection in the gauge of open connections until it is dropped.
    pub(super) fn counted(mut self, open: Gauge) -> Self {
        open.inc();
        self.open = Some(Counted(open));
        self
    }

    /// Runs a prepared statement.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = &self.statements[sql];
        with_wire(&mut self.wire, self.client.query(statement, parameters)).await
    }

    /// Prepares a statement, once per connection.
    pub(super) async fn prepare(&mut self, sql: &'static str) -> Result<(), tokio_postgres::Error> {
        if !self.statements.contains_key(sql) {
            let statement = with_wire(&mut self.wire, self.client.prepare(sql)).await?;
            self.statements.insert(sql, statement);
        }
        Ok(())
    }

    /// Runs a script.
    pub(super) async fn batch(&mut self, script: &str) -> Result<(), tokio_postgres::Error> {
        with_wire(&mut self.wire, self.client.batch_execute(script)).await
    }

    /// Whether the connection is open, as far as this end knows.
    pub(super) async fn is_open(&mut self) -> bool {
        let wire = &mut self.wire;
        poll_fn(|context| Poll::Ready(Pin::new(&mut *wire).poll(context).is_pending())).await
    }

    /// Closes the connection.
    pub(super) async fn close(self) {
        let Self { client, wire, open: _open, .. } = self;
        drop(client);
        // The server notices a closed socket in any case.
        let _ = timeout(CLOSE_TIMEOUT, wire).await;
    }
}

/// Connects to the first server that accepts. A server that does not answer in time is skipped,
/// because after a failover the machine of the old primary may be gone.
async fn connect(
    config: &PostgresConfig,
    tls: &Tls,
    random: Random,
) -> Result<(Client, Wire), tokio_postgres::Error> {
    let servers = config.servers(random);
    let (last, others) = servers.split_last().expect("a URL names a host");
    for server in others {
        let connecting = timeout(SERVER_TIMEOUT, server.connect(tls.clone()));
        if let Ok(Ok(connected)) = connecting.await {
            return Ok(connected);
        }
    }
    last.connect(tls.clone()).await
}

/// Waits for a result while reading and writing the socket.
async fn with_wire<T>(
    wire: &mut Wire,
    result: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    let mut result = std::pin::pin!(result);
    let ended = tokio::select! {
        biased;
        result = &mut result => return result,
        ended = wire => ended,
    };
    // The connection has ended; its own error is more precise than that of the call.
    ended?;
    result.await
}
