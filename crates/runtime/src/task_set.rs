//! Tasks that belong to one value and end with it.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tracing::error;

/// Tasks that belong to one value: dropping the set cancels them. The panic of a task is logged, also
/// if no code joins the task.
#[derive(Debug)]
pub struct TaskSet<T>(JoinSet<T>);

impl<T: Send + 'static> TaskSet<T> {
    /// A set without tasks.
    pub fn new() -> Self {
        Self(JoinSet::new())
    }

    /// Runs a task.
    #[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
    pub fn spawn(&mut self, work: impl Future<Output = T> + Send + 'static) -> AbortHandle {
        // An async block would hold `work` twice: where it was captured, and where it is awaited.
        // The state that a panic leaves behind is dropped with the future.
        self.0.spawn(AssertUnwindSafe(work).catch_unwind().map(|ended| {
            ended.unwrap_or_else(|panic| {
                error!("task panicked");
                resume_unwind(panic)
            })
        }))
    }

    /// Waits for the next task that ends. `None` if there are no tasks.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.0.join_next().await
    }

    /// A task that has ended already.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.0.try_join_next()
    }

    /// Waits for every task, and returns their outputs in the order in which they ended.
    ///
    /// # Panics
    /// A task has panicked.
    pub async fn join_all(self) -> Vec<T> {
        self.0.join_all().await
    }

    /// Cancels every task and waits until they are gone.
    pub async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }

    /// How many tasks have not been joined.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether every task has been joined.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Send + 'static> Default for TaskSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> FromIterator<F> for TaskSet<T> {
    fn from_iter<I: IntoIterator<Item = F>>(works: I) -> Self {
        let mut tasks = Self::new();
        for work in works {
            tasks.spawn(work);
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_panic_reaches_the_code_that_joins_the_task() {
        let mut tasks: TaskSet<()> = TaskSet::new();
        tasks.spawn(async { panic!("on purpose") });
        assert!(tasks.join_next().await.unwrap().unwrap_err().is_panic());
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn tasks_end_with_their_set() {
        let mut tasks = TaskSet::new();
        let (held, dropped) = oneshot::channel::<()>();
        tasks.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(tasks);
        assert!(dropped.await.is_err(), "the task is dropped");
    }
}
