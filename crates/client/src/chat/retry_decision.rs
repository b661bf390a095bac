//! Decides from an error frame whether its request is retried.

use std::time::Duration;

use heartline_protocol::{ErrorCode, ErrorFrame, Outcome};

use crate::back_off::BackOff;

/// Whether and when a rejected request is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Retry after the delay, and send no other request of its kind until then: the error concerns
    /// the whole connection.
    RetryAll(Duration),
    /// Retry after the delay; other requests continue.
    RetryOne(Duration),
    /// Do not retry: the rejection is final.
    GiveUp,
}

/// Decides about an error. An error with an unknown outcome is always retried, whatever its code.
pub(crate) fn decide(error: &ErrorFrame, back_off: &mut BackOff) -> RetryDecision {
    let outcome = error.details.as_ref().and_then(|details| details.outcome);
    if !error.retryable && outcome != Some(Outcome::Unknown) {
        return RetryDecision::GiveUp;
    }
    let delay = back_off.after_rejection(error.retry_after_seconds);
    match error.code {
        ErrorCode::RateLimited | ErrorCode::ServerBusy | ErrorCode::Unauthorized => {
            RetryDecision::RetryAll(delay)
        }
        ErrorCode::InvalidMessage
        | ErrorCode::Forbidden
        | ErrorCode::NotAMember
        | ErrorCode::NotFound
        | ErrorCode::Conflict
        | ErrorCode::MessageTooLarge
        | ErrorCode::SlowConsumer
        | ErrorCode::ServiceUnavailable
        | ErrorCode::ChatHalted
        | ErrorCode::InternalError => RetryDecision::RetryOne(delay),
    }
}

#[cfg(test)]
mod tests {
    use heartline_protocol::server_frame::ErrorDetails;

    use super::*;
    use crate::back_off::BackOffConfig;

    fn decided(error: &ErrorFrame) -> RetryDecision {
        decide(error, &mut BackOff::new(BackOffConfig::default(), 1))
    }

    #[test]
    fn every_code_is_final_or_retried_as_the_protocol_says() {
        for code in ErrorCode::ALL {
            let decision = decided(&ErrorFrame::new(code, "no"));
            assert_eq!(decision == RetryDecision::GiveUp, !code.retryable(), "{code:?}");
        }
    }

    #[test]
    fn an_unknown_outcome_is_always_retried() {
        let mut error = ErrorFrame::new(ErrorCode::ChatHalted, "perhaps");
        let outcome = Some(Outcome::Unknown);
        error.details = Some(ErrorDetails { outcome, ..ErrorDetails::default() });
        assert!(matches!(decided(&error), RetryDecision::RetryOne(_)));
    }

    #[test]
    fn the_servers_delay_is_kept_and_a_too_long_one_limited() {
        let mut error = ErrorFrame::new(ErrorCode::RateLimited, "slowly");
        error.retry_after_seconds = Some(7);
        let RetryDecision::RetryAll(delay) = decided(&error) else { panic!("one") };
        assert!((7.0..=8.4).contains(&delay.as_secs_f64()), "{delay:?}");
        error.retry_after_seconds = Some(u64::MAX);
        let RetryDecision::RetryAll(delay) = decided(&error) else { panic!("one") };
        assert!(delay <= Duration::from_secs(2 * 60 * 60), "{delay:?}");
        error.retry_after_seconds = Some(0);
        let RetryDecision::RetryAll(delay) = decided(&error) else { panic!("one") };
        assert!(delay >= Duration::from_millis(800), "{delay:?}");
    }
}
