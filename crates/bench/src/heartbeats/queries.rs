//! A thread that sends presence queries and route lookups one after the other. Their latencies are
//! recorded separately for a Redis that renews leases and for an idle one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use heartline_protocol::{NodeId, UserId};
use heartline_routing::{PresenceStates, Routes};
use heartline_runtime::{Clock, TaskSet, blocking};
use tokio::runtime::Builder;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};

use super::simulated_node::open_directory;
use crate::report::new_histogram;

/// The pause between two queries.
const PAUSE: Duration = Duration::from_millis(1);

/// The work of Redis besides the queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Background {
    /// Between two kinds of work; latencies are not recorded.
    Transition,
    /// No other work.
    Idle,
    /// Renewals of leases.
    Renewals,
    /// The thread ends.
    Stopped,
}

impl Background {
    const ALL: [Self; 4] = [Self::Transition, Self::Idle, Self::Renewals, Self::Stopped];
}

/// The latencies of both kinds of queries.
#[derive(Debug)]
pub(super) struct Latencies {
    /// Presence queries.
    pub(super) presence: Histogram<u64>,
    /// Route lookups.
    pub(super) routes: Histogram<u64>,
}

/// The latencies on an idle Redis and on one that renews leases.
#[derive(Debug)]
pub(super) struct QueryLatencies {
    /// On an idle Redis.
    pub(super) idle: Latencies,
    /// On a Redis that renews leases.
    pub(super) renewing: Latencies,
}

/// The thread that sends the queries.
#[derive(Debug)]
pub(super) struct QueryThread {
    background: Arc<AtomicUsize>,
    thread: TaskSet<Result<Result<QueryLatencies>, JoinError>>,
}

impl QueryThread {
    /// Starts queries about these users, as from another node. Latencies are not recorded yet.
    pub(super) fn start(url: &str, prefix: &str, users: Vec<UserId>) -> Self {
        let background = Arc::new(AtomicUsize::new(Background::Transition as usize));
        let (url, prefix, shared) = (url.to_owned(), prefix.to_owned(), background.clone());
        let mut thread = TaskSet::new();
        thread.spawn(blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(query(&url, &prefix, &users, &shared))
        }));
        Self { background, thread }
    }

    /// Sets the work of Redis besides the queries.
    pub(super) fn set(&self, background: Background) {
        self.background.store(background as usize, Ordering::Relaxed);
    }

    /// Ends the thread and returns the latencies.
    pub(super) async fn finish(mut self) -> Result<QueryLatencies> {
        self.set(Background::Stopped);
        self.thread.join_next().await.context("the thread was joined before")???
    }
}

async fn query(
    url: &str,
    prefix: &str,
    users: &[UserId],
    background: &AtomicUsize,
) -> Result<QueryLatencies> {
    ensure!(!users.is_empty(), "there are no users to query");
    let node_id: NodeId = "bench-queries-00000000".parse()?;
    let (directory, _) = open_directory(url, prefix, node_id.clone()).await?;
    let empty = || Latencies { presence: new_histogram(), routes: new_histogram() };
    let mut all = QueryLatencies { idle: empty(), renewing: empty() };
    let now = || Background::ALL[background.load(Ordering::Relaxed)];
    for user in users.iter().cycle() {
        sleep(PAUSE).await;
        let before = now();
        let user = std::slice::from_ref(user);
        let (presence, took) = timed(directory.presence(user)).await;
        presence?;
        let (found, routes_took) = timed(directory.routes(user, &node_id)).await;
        ensure!(found?.len() == 1, "a user with a live lease was not found");
        let latencies = match (before, now()) {
            (_, Background::Stopped) => break,
            (Background::Idle, Background::Idle) => &mut all.idle,
            (Background::Renewals, Background::Renewals) => &mut all.renewing,
            _ => continue,
        };
        latencies.presence.saturating_record(took);
        latencies.routes.saturating_record(routes_took);
    }
    Ok(all)
}

/// The output of a call and its duration in nanoseconds.
async fn timed<T>(call: impl Future<Output = T>) -> (T, u64) {
    let began: Instant = Clock::system().now();
    let output = call.await;
    (output, Clock::system().now().duration_since(began).as_nanos() as u64)
}
