//! Presence queries and route lookups, one after the other on a thread of its own, whose latency
//! is recorded apart for a Redis that renews leases and for one that has nothing else to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use heartline_protocol::{NodeId, UserId};
use heartline_routing::{Clock, PresenceStates, Routes};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::crowd::open_directory;
use crate::report::new_histogram;

/// How long it pauses between two queries.
const PAUSE: Duration = Duration::from_millis(1);

/// What Redis does beside the queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Something that is not to be recorded.
    Changing,
    /// Nothing.
    Nothing,
    /// Renewals.
    Renewals,
    /// The queries are over.
    End,
}

impl Beside {
    const ALL: [Self; 4] = [Self::Changing, Self::Nothing, Self::Renewals, Self::End];
}

/// Latencies of both kinds of question.
#[derive(Debug)]
pub(super) struct Latencies {
    /// Whether a user is online.
    pub(super) presence: Histogram<u64>,
    /// Where a user is.
    pub(super) routes: Histogram<u64>,
}

/// The latencies beside nothing, and beside renewals.
#[derive(Debug)]
pub(super) struct Compared {
    /// On an idle Redis.
    pub(super) idle: Latencies,
    /// While it renews.
    pub(super) renewing: Latencies,
}

/// The thread that asks.
#[derive(Debug)]
pub(super) struct Asker {
    beside: Arc<AtomicUsize>,
    thread: JoinHandle<Result<Compared>>,
}

impl Asker {
    /// Begins to ask about these users, as another node would. Nothing is recorded as yet.
    pub(super) fn start(url: &str, prefix: &str, users: Vec<UserId>) -> Self {
        let beside = Arc::new(AtomicUsize::new(Beside::Changing as usize));
        let (url, prefix, shared) = (url.to_owned(), prefix.to_owned(), beside.clone());
        let thread = tokio::task::spawn_blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(ask(&url, &prefix, &users, &shared))
        });
        Self { beside, thread }
    }

    /// Says what is beside the queries from now on.
    pub(super) fn set(&self, beside: Beside) {
        self.beside.store(beside as usize, Ordering::Relaxed);
    }

    /// Ends it.
    pub(super) async fn finish(self) -> Result<Compared> {
        self.set(Beside::End);
        self.thread.await?
    }
}

async fn ask(url: &str, prefix: &str, users: &[UserId], beside: &AtomicUsize) -> Result<Compared> {
    ensure!(!users.is_empty(), "there is nobody to ask for");
    let node_id: NodeId = "bench-asker-00000000".parse()?;
    let (directory, _) = open_directory(url, prefix, node_id.clone()).await?;
    let nothing = || Latencies { presence: new_histogram(), routes: new_histogram() };
    let mut compared = Compared { idle: nothing(), renewing: nothing() };
    let now = || Beside::ALL[beside.load(Ordering::Relaxed)];
    for user in users.iter().cycle() {
        sleep(PAUSE).await;
        let before = now();
        let user = std::slice::from_ref(user);
        let (asked, took) = timed(directory.presence(user)).await;
        asked?;
        let (found, routes_took) = timed(directory.routes(user, &node_id)).await;
        ensure!(found?.len() == 1, "a user with a live lease was not found");
        let latencies = match (before, now()) {
            (_, Beside::End) => break,
            (Beside::Nothing, Beside::Nothing) => &mut compared.idle,
            (Beside::Renewals, Beside::Renewals) => &mut compared.renewing,
            _ => continue,
        };
        latencies.presence.saturating_record(took);
        latencies.routes.saturating_record(routes_took);
    }
    Ok(compared)
}

/// What a call answered and how many nanoseconds it took.
async fn timed<T>(call: impl Future<Output = T>) -> (T, u64) {
    let began: Instant = Clock::system().now();
    let answer = call.await;
    (answer, Clock::system().now().duration_since(began).as_nanos() as u64)
}
