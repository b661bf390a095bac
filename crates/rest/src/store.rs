//! The store, as requests meet it: how long they wait, and what a failure is answered.
//!
//! The reason of a failure is for the operator's log. What a client learns is when to try again
//! and, of a change, whether it may have been made.

use heartline_durability::{Chain, ChangeError, StoreError};
use heartline_gateway::Refusal;
use heartline_protocol::limits::DURABILITY_DEADLINE;
use heartline_protocol::server_frame::{ErrorDetails, ErrorFrame};
use heartline_protocol::{ErrorCode, Outcome};
use tokio::time::timeout;
use tracing::warn;

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

/// The answer to a change that failed, or whose result is not known.
pub(super) fn change_refusal(error: &ChangeError) -> Refusal {
    match error {
        ChangeError::Busy => {
            let message = "too many changes are under way: ask again";
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
    use std::time::Duration;

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

    #[test]
    fn a_change_says_whether_it_may_have_been_made() {
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
