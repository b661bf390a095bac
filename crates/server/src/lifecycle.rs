//! The lifecycle of the process: its tasks, its soft and hard stop, its signals.
//!
//! No other file spawns. A soft stop asks every task to finish; a hard stop cancels the remaining
//! ones. A loop that ends too early stops the process with a failure; the panic of a socket's task
//! is only counted.

mod signals;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use heartline_runtime::Tasks;
use prometheus_client::metrics::counter::Counter;
use tokio_util::future::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use signals::Signals;

/// How long cancelled tasks may take to end after a hard stop.
const HARD_STOP_DEADLINE: Duration = Duration::from_secs(2);

/// How the process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The process was asked to stop, and every task finished in time.
    Finished,
    /// The process was asked to stop, and the tasks that remained after the timeout, or at a second
    /// signal, were cancelled.
    Forced,
    /// A loop ended too early.
    Failed,
}

impl Exit {
    /// The exit code of the process.
    pub const fn code(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Forced | Self::Failed => 1,
        }
    }
}

/// The owner of every task. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle {
    soft: CancellationToken,
    hard: CancellationToken,
    tasks: TaskTracker,
    /// Loops that the tasks rely on; they are cancelled when the last task has ended.
    support: TaskTracker,
    support_end: CancellationToken,
    has_failed: Arc<AtomicBool>,
    connections: Tasks,
}

impl Lifecycle {
    /// A lifecycle without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when every task is to finish.
    pub fn soft_stop(&self) -> CancellationToken {
        self.soft.clone()
    }

    /// Cancelled when the remaining tasks are cancelled.
    pub fn hard_stop(&self) -> CancellationToken {
        self.hard.clone()
    }

    /// Asks every task to finish, as a signal does.
    pub fn stop(&self) {
        self.soft.cancel();
    }

    /// How many socket tasks have panicked.
    pub fn connection_panics(&self) -> u64 {
        self.connections.panics().get()
    }

    /// The number of panicked socket tasks as a metric.
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
        run(&self.tasks, &self.hard, work, move |outcome| life.check_end(name, &outcome));
    }

    /// Runs a loop that others rely on until the end, such as the renewal of leases. The loop needs
    /// no stop: it is cancelled when all tasks have ended. Ending before that is a failure.
    pub fn spawn_support(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let life = self.clone();
        run(&self.support, &self.support_end, work, move |outcome| life.check_end(name, &outcome));
    }

    /// Runs the task of one socket. A panic ends only this task, and is counted.
    pub fn spawn_connection(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Not an async block: it would hold the connection's bytes once more.
        let work = work.with_cancellation_token_owned(self.hard.clone());
        self.connections.spawn("connection", work);
    }

    /// Waits until the process is asked to stop or fails, then until all tasks have finished, at
    /// most for `drain_timeout`. Each item of `signals` is one request to stop; the second one
    /// cancels the remaining tasks.
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
            // The listener was among those tasks, so no connection can be added.
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
        let outcome = if finished { Exit::Finished } else { Exit::Forced };
        if self.has_failed.load(Ordering::Relaxed) { Exit::Failed } else { outcome }
    }

    /// Waits for cancelled tasks, but not for one that blocks its thread.
    async fn gone(tasks: &TaskTracker) {
        if tokio::time::timeout(HARD_STOP_DEADLINE, tasks.wait()).await.is_err() {
            tracing::error!(tasks = tasks.len(), "tasks did not stop: exiting without them");
        }
    }

    /// A loop may end only after a stop was requested, and never by a panic.
    fn check_end(&self, name: &'static str, outcome: &Outcome) {
        match outcome {
            Outcome::Panicked => tracing::error!(task = name, "background task panicked"),
            Outcome::Ended if !self.soft.is_cancelled() => {
                tracing::error!(task = name, "background task ended unexpectedly");
            }
            Outcome::Ended | Outcome::Cancelled => return,
        }
        self.has_failed.store(true, Ordering::Relaxed);
        self.soft.cancel();
    }
}

/// Spawns the work and reports once how it ended; `cut` cancels it.
#[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
fn run(
    tasks: &TaskTracker,
    cut: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
    end: impl FnOnce(Outcome) + Send + 'static,
) {
    let cut = cut.clone();
    // Boxed, because each wrapper around it would hold as many bytes again.
    let work = Box::pin(work);
    tasks.spawn(async move {
        // The state after a panic is dropped with the future and never read.
        let work = AssertUnwindSafe(work).catch_unwind();
        end(match cut.run_until_cancelled(work).await {
            Some(Ok(())) => Outcome::Ended,
            Some(Err(_)) => Outcome::Panicked,
            None => Outcome::Cancelled,
        });
    });
}

/// How one task ended.
enum Outcome {
    Ended,
    Panicked,
    Cancelled,
}

#[cfg(test)]
mod tests;
