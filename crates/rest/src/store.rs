//! The store, as requests meet it: how long they wait, and what a failure is answered.
//!
//! The reason of a failure is for the operator's log. What a client learns is when to try again
//! and, of a change, whether it may have been made.

use std::sync::Arc;
use std::time::Duration;

use heartline_durability::{Chain, StoreError};
use heartline_gateway::Refusal;
use heartline_protocol::limits::DURABILITY_DEADLINE;
use heartline_protocol::server_frame::{ErrorDetails, ErrorFrame};
use heartline_protocol::{ErrorCode, Outcome};
use heartline_runtime::Tasks;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Changes that may be under way on this node, also those whose requester has gone.
const CHANGES_MAX: usize = 256;

/// When to try again after a failure that says nothing about its end, in seconds.
const RETRY_AFTER_SECONDS: u64 = 2;

/// When to look again at what an operator must repair first, in seconds.
const HALTED_RETRY_AFTER_SECONDS: u64 = 60;

/// Something that was read.
pub(super) async fn read<T>(
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, Refusal> {
    match timeout(DURABILITY_DEADLINE, call).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(unavailable(&Chain(&error).to_string(), None)),
        Err(_) => Err(unavailable("no answer in time", None)),
    }
}

/// Makes changes. Clones share their bound.
///
/// A change runs in a task of its own: whoever asked for it may hang up, and what was committed is
/// announced all the same.
#[derive(Debug, Clone)]
pub(super) struct Changes {
    places: Arc<Semaphore>,
    tasks: Tasks,
    cut: CancellationToken,
}

impl Changes {
    /// Changes that run in these tasks; `cut` drops them.
    pub(super) fn new(tasks: Tasks, cut: CancellationToken) -> Self {
        Self { places: Arc::new(Semaphore::new(CHANGES_MAX)), tasks, cut }
    }

    /// Makes a change and waits for its result.
    pub(super) async fn make<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.make_within(DURABILITY_DEADLINE, change).await
    }

    async fn make_within<T: Send + 'static>(
        &self,
        patience: Duration,
        change: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, Refusal> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let message = "too many changes are under way: ask again";
            return Err(Refusal::later(ErrorCode::ServerBusy, message, 1));
        };
        let (answer, answered) = oneshot::channel();
        let cut = self.cut.clone();
        self.tasks.spawn("change", async move {
            if let Some(result) = cut.run_until_cancelled(change).await {
                // Nobody may be waiting any more.
                let _ = answer.send(result);
            }
            drop(place);
        });
        match timeout(patience, answered).await {
            Ok(Ok(Ok(made))) => Ok(made),
            Ok(Ok(Err(error))) => Err(unavailable(&Chain(&error).to_string(), Some(error.outcome))),
            Ok(Err(_)) => Err(unavailable("its task ended", Some(Outcome::Unknown))),
            Err(_) => Err(unavailable("no answer in time", Some(Outcome::Unknown))),
        }
    }
}

fn unavailable(error: &str, outcome: Option<Outcome>) -> Refusal {
    warn!(error, "store call of a request failed");
    let message = match outcome {
        None => "this cannot be read at the moment",
        Some(Outcome::Rejected) => "this cannot be changed at the moment",
        Some(Outcome::Unknown) => "this may have been changed: look before you ask again",
    };
    let details =
        outcome.map(|outcome| ErrorDetails { outcome: Some(outcome), ..Default::default() });
    let refusal = Refusal::later(ErrorCode::ServiceUnavailable, message, RETRY_AFTER_SECONDS);
    Refusal { details, ..refusal }
}

/// What a socket would be answered, as an HTTP answer: one table of sentences for both.
pub(super) fn as_refusal(frame: impl Into<ErrorFrame>) -> Refusal {
    let ErrorFrame { code, message, retry_after_seconds, details, .. } = frame.into();
    let default = match code {
        ErrorCode::ChatHalted => Some(HALTED_RETRY_AFTER_SECONDS),
        ErrorCode::ServerBusy | ErrorCode::ServiceUnavailable => Some(RETRY_AFTER_SECONDS),
        _ => None,
    };
    let retry_after_seconds = retry_after_seconds.or(default);
    Refusal { retry_after_seconds, details, ..Refusal::new(code, message) }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use heartline_durability::{AppendRefusal, ReadRefusal, SendError};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_that_fails_or_hangs_is_answered_with_a_pause_and_no_reason() {
        let failed = read::<()>(async { Err(StoreError::rejected("/var/lib/x: disk full")) });
        for refusal in [failed.await.unwrap_err(), read::<()>(pending()).await.unwrap_err()] {
            assert_eq!(refusal.code, ErrorCode::ServiceUnavailable);
            assert_eq!(refusal.details, None);
            assert!(refusal.retry_after_seconds.is_some());
            assert!(!refusal.message.contains("disk"), "{refusal:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_says_whether_it_may_have_been_made() {
        let changes = Changes::new(Tasks::new(), CancellationToken::new());
        let outcome = |refusal: Refusal| refusal.details.unwrap().outcome.unwrap();
        let rejected = changes.make::<()>(async { Err(StoreError::rejected("full")) }).await;
        assert_eq!(outcome(rejected.unwrap_err()), Outcome::Rejected);
        let unknown = changes.make::<()>(async { Err(StoreError::unknown("lost")) }).await;
        assert_eq!(outcome(unknown.unwrap_err()), Outcome::Unknown);
        let hung = changes.make::<()>(pending()).await;
        assert_eq!(outcome(hung.unwrap_err()), Outcome::Unknown);
    }

    #[tokio::test]
    async fn a_change_goes_on_when_nobody_waits_for_it() {
        let changes = Changes::new(Tasks::new(), CancellationToken::new());
        let (done, is_done) = oneshot::channel();
        let (go, goes) = oneshot::channel::<()>();
        let change = changes.make(async move {
            goes.await.unwrap();
            done.send(()).unwrap();
            Ok(())
        });
        // Asked for, and given up before it could be made.
        assert!(timeout(Duration::ZERO, change).await.is_err());
        go.send(()).unwrap();
        is_done.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_hang_are_bounded() {
        let changes = Changes::new(Tasks::new(), CancellationToken::new());
        for _ in 0..CHANGES_MAX {
            let hung = changes.make_within::<()>(Duration::ZERO, pending()).await;
            assert_eq!(hung.unwrap_err().code, ErrorCode::ServiceUnavailable);
        }
        let refused = changes.make(async { Ok(()) }).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_seconds), (ErrorCode::ServerBusy, Some(1)));
    }

    #[test]
    fn every_refusal_with_status_503_says_when_to_come_back() {
        let unavailable = SendError::Unavailable { outcome: Outcome::Unknown };
        for refusal in [
            as_refusal(SendError::Busy),
            as_refusal(SendError::Refused(AppendRefusal::Halted)),
            as_refusal(unavailable),
            as_refusal(ReadRefusal::Busy),
            as_refusal(ReadRefusal::Unavailable { retry_after: Duration::ZERO }),
        ] {
            assert_eq!(refusal.status(), 503, "{refusal:?}");
            assert!(refusal.retry_after_seconds.is_some_and(|seconds| seconds > 0), "{refusal:?}");
        }
    }
}
