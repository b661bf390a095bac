//! Calls to the store, with a deadline, and the errors of calls that fail.
//!
//! The cause of a failure goes to the log. The client receives the time after which to retry and,
//! for a change, whether it may have been made.

use heartline_durability::{Chain, ChangeError, StoreError};
use heartline_gateway::Refusal;
use heartline_protocol::limits::DURABILITY_DEADLINE;
use heartline_protocol::server_frame::{ErrorDetails, ErrorFrame};
use heartline_protocol::{ErrorCode, Outcome};
use tokio::time::timeout;
use tracing::warn;

/// The default time after which to retry, in seconds.
const RETRY_AFTER_SECONDS: u64 = 2;

/// The time after which to retry if an operator must repair a chat first, in seconds.
const HALTED_RETRY_AFTER_SECONDS: u64 = 60;

/// Awaits a read, with a deadline.
pub(super) async fn read<T>(
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, Refusal> {
    match timeout(DURABILITY_DEADLINE, call).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(unavailable(&Chain(&error).to_string(), None)),
        Err(_) => Err(unavailable("the deadline has passed", None)),
    }
}

/// The error of a change that failed, or whose result is not known.
pub(super) fn change_refusal(error: &ChangeError) -> Refusal {
    match error {
        ChangeError::Busy => {
            let message = "too many changes are under way: retry";
            Refusal::later(ErrorCode::ServerBusy, message, 1)
        }
        ChangeError::Store(_) | ChangeError::Unfinished => {
            unavailable(&Chain(error).to_string(), Some(error.outcome()))
        }
    }
}

fn unavailable(error: &str, outcome: Option<Outcome>) -> Refusal {
    warn!(error, "store call of a request failed");
    let message = match outcome {
        None => "the store cannot be read at the moment",
        Some(Outcome::Rejected) => "the change was not made: the store is not available",
        Some(Outcome::Unknown) => "the change may have been made: read the object before you retry",
    };
    let details =
        outcome.map(|outcome| ErrorDetails { outcome: Some(outcome), ..Default::default() });
    let refusal = Refusal::later(ErrorCode::ServiceUnavailable, message, RETRY_AFTER_SECONDS);
    Refusal { details, ..refusal }
}

/// The error frame of a socket as an HTTP error, so that both have the same messages.
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
    use std::time::Duration;

    use heartline_durability::{AppendRefusal, ReadRefusal, SendError};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_that_fails_or_hangs_has_a_time_to_retry_and_hides_the_cause() {
        let failed = read::<()>(async { Err(StoreError::rejected("/var/lib/x: disk full")) });
        for refusal in [failed.await.unwrap_err(), read::<()>(pending()).await.unwrap_err()] {
            assert_eq!(refusal.code, ErrorCode::ServiceUnavailable);
            assert_eq!(refusal.details, None);
            assert!(refusal.retry_after_seconds.is_some());
            assert!(!refusal.message.contains("disk"), "{refusal:?}");
        }
    }

    #[test]
    fn a_failed_change_reports_whether_it_may_have_been_made() {
        let outcome = |error| change_refusal(&error).details.unwrap().outcome.unwrap();
        let rejected = ChangeError::Store(StoreError::rejected("full"));
        assert_eq!(outcome(rejected), Outcome::Rejected);
        let unknown = ChangeError::Store(StoreError::unknown("lost"));
        assert_eq!(outcome(unknown), Outcome::Unknown);
        assert_eq!(outcome(ChangeError::Unfinished), Outcome::Unknown);
        let refused = change_refusal(&ChangeError::Busy);
        assert_eq!((refused.code, refused.retry_after_seconds), (ErrorCode::ServerBusy, Some(1)));
    }

    #[test]
    fn every_error_with_status_503_has_a_time_to_retry() {
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
