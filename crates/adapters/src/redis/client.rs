//! The Redis client that every module here uses.
//!
//! Every call has a deadline that also covers the wait for a connection, and goes through a
//! breaker, so that a call returns within half a second whatever Redis does, and callers do not
//! pile up. A caller that finds no connection opens one.

use std::sync::{Arc, PoisonError, RwLock};

use heartline_runtime::{Clock, Random};
use redis::{Cmd, FromRedisValue, Pipeline, ToRedisArgs, Value, cmd};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::breaker::Breaker;
use super::config::RedisConfig;
use super::connection::Connection;
use super::counters::RedisCounters;
use super::failure::RedisFailure;
use super::script::Script;
use super::subscription::Subscription;

/// A client of one Redis or Redis Cluster. Cloning shares its connection and breaker.
#[derive(Clone)]
pub struct RedisClient {
    shared: Arc<Shared>,
}

struct Shared {
    config: RedisConfig,
    clock: Clock,
    random: Random,
    counters: RedisCounters,
    breaker: Breaker,
    live: RwLock<Live>,
    /// Held by the one caller who connects; the others wait for the outcome.
    connecting: Mutex<()>,
}

/// The connection in use. The generation distinguishes a failed connection from its successor.
#[derive(Default)]
struct Live {
    generation: u64,
    connection: Option<Connection>,
}

/// The time of Redis, and when this process read it.
#[derive(Debug, Clone, Copy)]
pub struct RedisTime {
    /// Milliseconds since 1970 by the clock of the server.
    pub unix_ms: u64,
    /// When the answer came, by the monotonic clock of this process.
    pub read_at: Instant,
}

impl RedisTime {
    /// The server's time at a later moment. The value lags by at most one round trip, and is never
    /// ahead.
    pub fn at(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.read_at);
        self.unix_ms + u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}

impl RedisClient {
    /// A client that connects with its first call.
    pub fn new(config: RedisConfig, clock: Clock, random: Random, counters: RedisCounters) -> Self {
        let breaker = Breaker::new(counters.clone());
        let (live, connecting) = (RwLock::default(), Mutex::default());
        let shared = Shared { config, clock, random, counters, breaker, live, connecting };
        Self { shared: Arc::new(shared) }
    }

    /// The configuration.
    pub fn config(&self) -> &RedisConfig {
        &self.shared.config
    }

    /// The metrics.
    pub fn counters(&self) -> &RedisCounters {
        &self.shared.counters
    }

    /// The clocks that it was given.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    pub(super) fn random(&self) -> Random {
        self.shared.random
    }

    /// Sends one command.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RedisFailure> {
        let call = async |mut connection: Connection, _| vec![connection.command(command).await];
        let mut results = self.call(1, call).await;
        typed(results.pop().unwrap_or(Err(RedisFailure::unexpected("none")))?)
    }

    /// Sends commands together. The answer has a value for each, or is the first failure, in which
    /// case others may have been carried out. They are not a transaction.
    pub async fn pipe(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisFailure> {
        self.pipe_each(pipeline).await.into_iter().collect()
    }

    /// Sends commands together and returns a result for each, because on a Cluster some may fail
    /// alone. There a command without a key goes where the one before it goes.
    pub async fn pipe_each(&self, pipeline: &Pipeline) -> Vec<Result<Value, RedisFailure>> {
        if pipeline.is_empty() {
            return Vec::new();
        }
        let run = async |mut connection: Connection, parts_end| {
            connection.pipeline(pipeline, parts_end).await
        };
        self.call(pipeline.len(), run).await
    }

    /// Runs a script.
    pub async fn script<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: impl ToRedisArgs,
        arguments: impl ToRedisArgs,
    ) -> Result<T, RedisFailure> {
        let mut results = self.scripts(script, vec![script.call(keys, arguments)]).await;
        typed(results.pop().unwrap_or(Err(RedisFailure::unexpected("none")))?)
    }

    /// Runs a script several times, each made by [`Script::call`], with one round trip.
    pub async fn scripts(
        &self,
        script: &Script,
        calls: Vec<Cmd>,
    ) -> Vec<Result<Value, RedisFailure>> {
        if calls.is_empty() {
            return Vec::new();
        }
        let mut pipeline = Pipeline::with_capacity(calls.len());
        for call in &calls {
            pipeline.add_command(call.clone());
        }
        let run = async |mut connection: Connection, parts_end: Instant| {
            let mut results = connection.pipeline(&pipeline, parts_end).await;
            let unknown: Vec<usize> = (0..results.len())
                .filter(|index| results[*index] == Err(RedisFailure::UnknownScript))
                .collect();
            if unknown.is_empty() {
                return results;
            }
            let mut in_full = Pipeline::with_capacity(unknown.len());
            for index in &unknown {
                in_full.add_command(script.call_in_full(&calls[*index]));
            }
            // The time of the first attempt may have gone by for a master that hangs.
            let parts_end = parts_end + self.config().deadline / 10;
            let again = connection.pipeline(&in_full, parts_end).await;
            for (index, result) in unknown.into_iter().zip(again) {
                results[index] = result;
            }
            results
        };
        self.call(calls.len(), run).await
    }

    /// Publishes to the present subscribers. The reply does not name them.
    pub async fn publish(&self, channel: &str, payload: &[u8]) -> Result<(), RedisFailure> {
        self.query::<Value>(&self.publish_command(channel, payload)).await.map(drop)
    }

    /// The command that publishes, for a pipeline.
    pub fn publish_command(&self, channel: &str, payload: &[u8]) -> Cmd {
        let mut command = cmd(self.publish_verb());
        command.arg(channel).arg(payload);
        command
    }

    /// How this server publishes; a Cluster only within the shard of the channel.
    pub(super) fn publish_verb(&self) -> &'static str {
        if self.config().is_cluster() { "SPUBLISH" } else { "PUBLISH" }
    }

    /// Subscribes to channels for as long as the subscription is held and read.
    pub fn subscribe(&self, channels: Vec<String>) -> Subscription {
        Subscription::new(self, channels)
    }

    /// The time of the server; of a Cluster's master that holds `key`, since each has its own.
    pub async fn time(&self, key: &str) -> Result<RedisTime, RedisFailure> {
        let mut pipeline = Pipeline::new();
        if self.config().is_cluster() {
            // A keyless command goes where its neighbour goes.
            pipeline.cmd("EXISTS").arg(key);
        }
        pipeline.cmd("TIME");
        let reply = self.pipe(&pipeline).await?.pop();
        let read_at = self.shared.clock.now();
        let unix_ms = time_ms(reply.unwrap_or(Value::Nil))?;
        Ok(RedisTime { unix_ms, read_at })
    }

    /// One call: admitted by the breaker, within the deadline, counted.
    async fn call(
        &self,
        count: usize,
        run: impl AsyncFnOnce(Connection, Instant) -> Vec<Result<Value, RedisFailure>>,
    ) -> Vec<Result<Value, RedisFailure>> {
        let shared = &self.shared;
        let started_at = shared.clock.now();
        shared.counters.calls.inc();
        if !shared.breaker.admits(started_at) {
            shared.counters.failed(RedisFailure::Refused.kind());
            return vec![Err(RedisFailure::Refused); count];
        }
        let mut generation = None;
        let attempt = async {
            let (connection, number) = self.connection().await?;
            generation = Some(number);
            Ok(run(connection, started_at + shared.config.deadline * 4 / 5).await)
        };
        let results = match timeout(shared.config.deadline, attempt).await {
            Ok(Ok(results)) => results,
            Ok(Err(failure)) => vec![Err(failure); count],
            Err(_) => vec![Err(RedisFailure::Timeout); count],
        };
        let duration = shared.clock.now() - started_at;
        shared.counters.call_seconds.observe(duration.as_secs_f64());
        self.judge(&results, generation);
        results
    }

    /// Reports a call's result to the breaker, and closes a connection that failed.
    fn judge(&self, results: &[Result<Value, RedisFailure>], generation: Option<u64>) {
        let shared = &self.shared;
        let failures = || results.iter().filter_map(|result| result.as_ref().err());
        let fault = failures().find(|failure| failure.is_infrastructure());
        let Some(failure) = fault.or_else(|| failures().next()) else {
            return shared.breaker.succeeded();
        };
        shared.counters.failed(failure.kind());
        // A Cluster of which a part answers is not down, and replaces its own connections.
        let is_partial = shared.config.is_cluster() && results.iter().any(Result::is_ok);
        if !failure.is_infrastructure() || is_partial {
            return shared.breaker.succeeded();
        }
        let is_open = shared.breaker.failed(shared.clock.now());
        // A single slow answer says nothing about the connection, but several in a row may come
        // from one that is dead without knowing it. A replica must be left for the new master.
        let is_over = match failure {
            RedisFailure::Connection(_) => true,
            RedisFailure::Unable(text) => is_open || text.contains("READONLY"),
            _ => is_open,
        };
        if let Some(generation) = generation.filter(|_| is_over) {
            self.discard(generation);
        }
    }

    async fn connection(&self) -> Result<(Connection, u64), RedisFailure> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let _turn = self.shared.connecting.lock().await;
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let connection = Connection::open(&self.shared.config).await?;
        let mut live = self.shared.live.write().unwrap_or_else(PoisonError::into_inner);
        if live.generation > 0 {
            self.shared.counters.reconnects.inc();
        }
        live.generation += 1;
        live.connection = Some(connection.clone());
        Ok((connection, live.generation))
    }

    fn live(&self) -> Option<(Connection, u64)> {
        let live = self.shared.live.read().unwrap_or_else(PoisonError::into_inner);
        live.connection.clone().map(|connection| (connection, live.generation))
    }

    fn discard(&self, generation: u64) {
        let mut live = self.shared.live.write().unwrap_or_else(PoisonError::into_inner);
        if live.generation == generation {
            live.connection = None;
        }
    }
}

impl std::fmt::Debug for RedisClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("RedisClient").field(&self.shared.config).finish()
    }
}

/// Converts a value to the type that the caller expects.
pub(super) fn typed<T: FromRedisValue>(value: Value) -> Result<T, RedisFailure> {
    redis::from_redis_value(value).map_err(|error| RedisFailure::Rejected(error.to_string()))
}

/// The answer to `TIME` in milliseconds.
pub(super) fn time_ms(value: Value) -> Result<u64, RedisFailure> {
    let (seconds, microseconds): (u64, u64) = typed(value)?;
    Ok(seconds * 1000 + microseconds / 1000)
}
