//! The owner of a part's tasks.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use prometheus_client::metrics::counter::Counter;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::error;

/// Owns tasks: counts and logs one that panics, and can be awaited until the last has ended.
/// Clones share the tasks.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    panics: Counter,
}

impl Tasks {
    /// An owner without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// An owner without tasks that counts panics here.
    pub fn counting(panics: Counter) -> Self {
        Self { panics, ..Self::default() }
    }

    /// Runs a task. Its panic is counted and logged under `name`, and reaches whoever awaits the
    /// handle; dropping the handle leaves the task running.
    #[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let panics = self.panics.clone();
        // An async block would hold `work` twice: where it was captured, and where it is awaited.
        // The state that a panic leaves behind is dropped with the future.
        self.tracker.spawn(AssertUnwindSafe(work).catch_unwind().map(move |ended| {
            ended.unwrap_or_else(|panic| {
                let count = panics.inc() + 1;
                error!(task = name, count, "task panicked");
                resume_unwind(panic)
            })
        }))
    }

    /// Waits until every task has ended. More may be spawned meanwhile, and are awaited too.
    pub async fn join(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// How many tasks run.
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether none runs.
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// How many tasks have panicked, for the registry of the part that owns them.
    pub fn panics(&self) -> Counter {
        self.panics.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_counted_and_reaches_who_awaits_the_task() {
        let tasks = Tasks::new();
        let panicked = tasks.spawn("test", async { panic!("on purpose") });
        let finished = tasks.spawn("test", async { 7 });
        tasks.join().await;
        assert!(panicked.await.unwrap_err().is_panic());
        assert_eq!(finished.await.unwrap(), 7);
        assert_eq!(tasks.panics().get(), 1);
        assert!(tasks.is_empty());
    }
}
