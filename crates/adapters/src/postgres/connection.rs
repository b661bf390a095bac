//! One connection to the database: a session with the right settings, proved, and the statements
//! that it knows.
//!
//! Nothing runs beside it: whoever waits for an answer also moves the bytes. So an idle
//! connection costs nothing, and dropping one ends it.

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

use super::config::{Deadlines, PostgresConfig, SERVER_PATIENCE};
use super::open::{OpenError, prove, settings};
use super::tls::{Encrypted, Tls};

/// How long the goodbye to the server may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// How much time the statements of a session have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For one statement; a bit less than the caller waits, so that the database's own answer,
    /// which is certain, comes before the caller's guess.
    pub(super) statement: Duration,
    /// For a lock that somebody else has.
    pub(super) lock: Duration,
    /// For the next statement of a transaction, so that a node that stands still holds no lock.
    pub(super) silence: Duration,
}

impl Patience {
    /// What the sessions of a serving node have, all within the deadline of a call. Whoever is
    /// silent in a transaction is ended before those who wait for its locks give up.
    pub(super) fn of_calls(deadlines: Deadlines) -> Self {
        let part = |percent| deadlines.write * percent / 100;
        Self { statement: part(90), lock: part(80), silence: part(45) }
    }
}

/// What the session has that changes the schema, or waits for another node that does.
pub(super) const MIGRATING: Patience = Patience {
    statement: Duration::from_secs(600),
    lock: Duration::from_secs(600),
    silence: Duration::from_secs(60),
};

/// What moves the bytes of a connection.
type Wire = tokio_postgres::Connection<Socket, Encrypted>;

/// What a call is given.
pub(super) type Parameters<'call> = &'call [&'call (dyn ToSql + Sync)];

/// One connection to the database.
pub(super) struct Connection {
    client: Client,
    wire: Wire,
    statements: HashMap<&'static str, Statement>,
    open: Option<Counted>,
}

/// One in a gauge, for as long as it is there.
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
    /// Connects, sets the session up and proves what it depends on.
    pub(super) async fn open(
        config: &PostgresConfig,
        tls: &Tls,
        patience: Patience,
        deadline: Instant,
        random: Random,
    ) -> Result<Self, OpenError> {
        let opening = async {
            let unreachable = |error| OpenError::unreachable(config, &error);
            let (client, wire) = connect(config, tls, random).await.map_err(unreachable)?;
            let mut connection = Self { client, wire, statements: HashMap::new(), open: None };
            let settings = settings(config, patience);
            connection.batch(&settings).await.map_err(unreachable)?;
            prove(config, &mut connection).await?;
            Ok(connection)
        };
        let late = || OpenError::Late { address: config.address() };
        timeout_at(deadline, opening).await.unwrap_or_else(|_| Err(late()))
    }

    /// Counts it among those that are open, for as long as it is.
    pub(super) fn counted(mut self, open: Gauge) -> Self {
        open.inc();
        self.open = Some(Counted(open));
        self
    }

    /// Runs a statement; the first time on this connection it is prepared.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = &self.statements[sql];
        with_wire(&mut self.wire, self.client.query(statement, parameters)).await
    }

    /// Prepares a statement unless it is.
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

    /// Whether the server has not ended it, as far as that is known here.
    pub(super) async fn is_open(&mut self) -> bool {
        let wire = &mut self.wire;
        poll_fn(|context| Poll::Ready(Pin::new(&mut *wire).poll(context).is_pending())).await
    }

    /// Says goodbye.
    pub(super) async fn close(self) {
        let Self { client, wire, open: _open, .. } = self;
        drop(client);
        // Whether the server has heard it makes no difference.
        let _ = timeout(GOODBYE, wire).await;
    }
}

/// Connects to the first of the servers that lets us in. One that is silent is passed over: it is
/// when a machine is gone that another one has taken its place.
async fn connect(
    config: &PostgresConfig,
    tls: &Tls,
    random: Random,
) -> Result<(Client, Wire), tokio_postgres::Error> {
    let servers = config.servers(random);
    let (last, others) = servers.split_last().expect("a URL names a host");
    for server in others {
        let connecting = timeout(SERVER_PATIENCE, server.connect(tls.clone()));
        if let Ok(Ok(connected)) = connecting.await {
            return Ok(connected);
        }
    }
    last.connect(tls.clone()).await
}

/// Waits for an answer while moving the bytes that bring it.
async fn with_wire<T>(
    wire: &mut Wire,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    let mut answer = std::pin::pin!(answer);
    let ended = tokio::select! {
        biased;
        answer = &mut answer => return answer,
        ended = wire => ended,
    };
    // The connection is over; its own error says more than that of whoever waits for it.
    ended?;
    answer.await
}
