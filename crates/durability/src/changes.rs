//! Changes of the store that finish although their caller was dropped.

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::Outcome;
use heartline_protocol::limits::DURABILITY_DEADLINE;
use heartline_runtime::Tasks;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::store::StoreError;

/// Pending changes on a node, at most, including those whose caller was dropped.
const CHANGES_MAX: usize = 256;

/// Why the result of a change is not known, or is a failure.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Too many changes are pending. This one was not begun.
    #[error("{CHANGES_MAX} changes are under way")]
    Busy,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change did not finish in time, or its task ended; the change may be stored.
    #[error("the change has not finished in time")]
    Unfinished,
}

impl ChangeError {
    /// Whether the change may be stored nevertheless.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Busy => Outcome::Rejected,
            Self::Store(error) => error.outcome,
            Self::Unfinished => Outcome::Unknown,
        }
    }
}

/// Makes changes, each in a task of its own: a caller that is dropped cancels nothing, so a
/// committed change is always announced. Clones share the limit and the tasks.
#[derive(Debug, Clone)]
pub struct Changes {
    permits: Arc<Semaphore>,
    tasks: Tasks,
}

impl Changes {
    /// Changes that run as tasks of this owner.
    pub fn new(tasks: Tasks) -> Self {
        Self { permits: Arc::new(Semaphore::new(CHANGES_MAX)), tasks }
    }

    /// Makes a change and waits for its result, at most until the deadline of every call.
    ///
    /// # Errors
    /// The change failed, or its result is not known.
    pub async fn make<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, ChangeError> {
        self.make_within(DURABILITY_DEADLINE, change).await
    }

    async fn make_within<T: Send + 'static>(
        &self,
        deadline: Duration,
        change: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, ChangeError> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = permit.map_err(|_| ChangeError::Busy)?;
        let (sender, result) = oneshot::channel();
        self.tasks.spawn("change", async move {
            // The caller may have been dropped.
            let _ = sender.send(change.await);
            drop(permit);
        });
        match timeout(deadline, result).await {
            Ok(Ok(result)) => Ok(result?),
            Ok(Err(_)) | Err(_) => Err(ChangeError::Unfinished),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn changes() -> Changes {
        Changes::new(Tasks::new())
    }

    #[tokio::test]
    async fn a_failed_change_says_whether_it_may_be_stored() {
        let changes = changes();
        let rejected = changes.make::<()>(async { Err(StoreError::rejected("full")) }).await;
        assert_eq!(rejected.unwrap_err().outcome(), Outcome::Rejected);
        let unknown = changes.make::<()>(async { Err(StoreError::unknown("lost")) }).await;
        assert_eq!(unknown.unwrap_err().outcome(), Outcome::Unknown);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_goes_on_after_its_caller_has_gone() {
        let changes = changes();
        let is_made = Arc::new(AtomicBool::new(false));
        let made = Arc::clone(&is_made);
        let slow = async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            made.store(true, Ordering::Relaxed);
            Ok(())
        };
        let late = changes.make_within(Duration::from_secs(1), slow).await.unwrap_err();
        assert!(matches!(late, ChangeError::Unfinished), "{late:?}");
        changes.tasks.join().await;
        assert!(is_made.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_changes_are_under_way() {
        let changes = changes();
        let hang = || changes.make_within::<()>(Duration::ZERO, std::future::pending());
        for _ in 0..CHANGES_MAX {
            assert!(matches!(hang().await, Err(ChangeError::Unfinished)));
        }
        assert!(matches!(hang().await, Err(ChangeError::Busy)));
    }
}
