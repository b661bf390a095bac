//! The life of the process: its tasks, its soft and its hard stop, its signals.
//!
//! This is the only place that spawns. A soft stop asks every task to finish; a hard stop drops
//! what is left. Loops are what the process is for, so one that ends too early stops it with a
//! failure; a socket's task is one of many, so its panic is only counted.

mod signals;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use heartline_runtime::Tasks;
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use signals::Signals;

/// How long dropped tasks may take to be gone after a hard stop.
const HARD_STOP_DEADLINE: Duration = Duration::from_secs(2);

/// How the process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was asked to stop, and everything finished in time.
    Finished,
    /// It was asked to stop, and what was left after the time, or at a second signal, was cut.
    Cut,
    /// A loop ended that should not have.
    Failed,
}

impl Exit {
    /// The exit code of the process.
    pub const fn code(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Cut | Self::Failed => 1,
        }
    }
}

/// The owner of every task. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle {
    soft: CancellationToken,
    hard: CancellationToken,
    tasks: TaskTracker,
    /// Loops that the tasks rely on; they are dropped when the last task is gone.
    support: TaskTracker,
    support_end: CancellationToken,
    has_failed: Arc<AtomicBool>,
    connections: Tasks,
}

impl Lifecycle {
    /// Begins a life.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when everything is to finish.
    pub fn soft_stop(&self) -> CancellationToken {
        self.soft.clone()
    }

    /// Cancelled when what is left is cut.
    pub fn hard_stop(&self) -> CancellationToken {
        self.hard.clone()
    }

    /// Asks everything to finish, as a signal does.
    pub fn stop(&self) {
        self.soft.cancel();
    }

    /// How many socket tasks have panicked.
    pub fn connection_panics(&self) -> u64 {
        self.connections.panics().get()
    }

    /// The same as a metric.
    pub fn connection_panics_metric(&self) -> Counter {
        self.connections.panics()
    }

    /// The owner of the tasks of connections, for parts that must finish a request although its
    /// connection has closed.
    pub fn connections(&self) -> Tasks {
        self.connections.clone()
    }

    /// Runs a loop that ends by itself after the soft stop. If it ends before, or panics at any
    /// time, the process stops with a failure.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let life = self.clone();
        run(&self.tasks, &self.hard, work, move |outcome| life.judge(name, &outcome));
    }

    /// Runs a loop that others rely on to the very end, such as the renewal of leases. It needs no
    /// stop of its own: it is dropped when all tasks are gone. Ending before that is a failure.
    pub fn spawn_support(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let life = self.clone();
        run(&self.support, &self.support_end, work, move |outcome| life.judge(name, &outcome));
    }

    /// Runs the task of one socket. Its panic is counted, and ends nothing but itself.
    pub fn spawn_connection(&self, work: impl Future<Output = ()> + Send + 'static) {
        let cut = self.hard.clone();
        // Boxed, because each of the wrappers around it would hold a copy's worth of room.
        let work = Box::pin(work);
        self.connections.spawn("connection", async move {
            cut.run_until_cancelled(work).await;
        });
    }

    /// Waits until the process is asked to stop or fails, then until all tasks have finished, but
    /// no longer than `drain_timeout`. Each item of `signals` is one request to stop; the second
    /// one cuts what is left.
    pub async fn wait(
        &self,
        mut signals: impl Stream<Item = ()> + Unpin,
        drain_timeout: Duration,
    ) -> Exit {
        tokio::select! {
            biased;
            () = self.soft.cancelled() => {}
            Some(()) = signals.next() => {
                tracing::info!("stopping; a second signal stops at once");
                self.soft.cancel();
            }
        }
        self.tasks.close();
        let all = async {
            self.tasks.wait().await;
            // The listener was among those tasks, so no connection follows.
            self.connections.join().await;
        };
        let finished = tokio::select! {
            () = all => true,
            () = tokio::time::sleep(drain_timeout) => false,
            Some(()) = signals.next() => false,
        };
        if !finished {
            let tasks = self.tasks.len() + self.connections.len();
            tracing::warn!(tasks, "drain timeout: remaining tasks are cancelled");
            self.hard.cancel();
            Self::gone(&self.tasks).await;
            if tokio::time::timeout(HARD_STOP_DEADLINE, self.connections.join()).await.is_err() {
                tracing::error!(
                    tasks = self.connections.len(),
                    "tasks did not stop: exiting without them"
                );
            }
        }
        self.support.close();
        self.support_end.cancel();
        Self::gone(&self.support).await;
        let outcome = if finished { Exit::Finished } else { Exit::Cut };
        if self.has_failed.load(Ordering::Relaxed) { Exit::Failed } else { outcome }
    }

    /// Waits for tasks that are being dropped, but not for one that blocks its thread.
    async fn gone(tasks: &TaskTracker) {
        if tokio::time::timeout(HARD_STOP_DEADLINE, tasks.wait()).await.is_err() {
            tracing::error!(tasks = tasks.len(), "tasks did not stop: exiting without them");
        }
    }

    /// A loop may end once a stop was asked for, and never by a panic.
    fn judge(&self, name: &'static str, outcome: &Outcome) {
        match outcome {
            Outcome::Panicked => tracing::error!(task = name, "background task panicked"),
            Outcome::Ended if !self.soft.is_cancelled() => {
                tracing::error!(task = name, "background task ended unexpectedly");
            }
            Outcome::Ended | Outcome::Cut => return,
        }
        self.has_failed.store(true, Ordering::Relaxed);
        self.soft.cancel();
    }
}

/// Spawns, and says once how the work came to its end; `cut` drops it.
fn run(
    tasks: &TaskTracker,
    cut: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
    end: impl FnOnce(Outcome) + Send + 'static,
) {
    let cut = cut.clone();
    // Boxed, because each of the wrappers around it would hold a copy's worth of room.
    let work = Box::pin(work);
    tasks.spawn(async move {
        // What a panic leaves behind is dropped with the future and seen by nobody.
        let work = AssertUnwindSafe(work).catch_unwind();
        end(match cut.run_until_cancelled(work).await {
            Some(Ok(())) => Outcome::Ended,
            Some(Err(_)) => Outcome::Panicked,
            None => Outcome::Cut,
        });
    });
}

/// How one task came to its end.
enum Outcome {
    Ended,
    Panicked,
    Cut,
}

#[cfg(test)]
mod tests;
