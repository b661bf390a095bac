//! What an error frame means for the request that it answers.

use std::time::Duration;

use heartline_protocol::{ErrorCode, ErrorFrame, Outcome};

use crate::back_off::BackOff;

/// What to do with a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Try it again after the pause, and hold everything of its kind until then: the whole
    /// connection was meant.
    PauseAll(Duration),
    /// Try it again after the pause; others may go on.
    PauseOne(Duration),
    /// The refusal is definite.
    Final,
}

/// Judges an error. One that leaves the outcome open is never definite, whatever else it says.
pub(crate) fn judge(error: &ErrorFrame, back_off: &mut BackOff) -> Verdict {
    let outcome = error.details.as_ref().and_then(|details| details.outcome);
    if !error.retryable && outcome != Some(Outcome::Unknown) {
        return Verdict::Final;
    }
    let pause = back_off.after_refusal(error.retry_after_seconds);
    match error.code {
        ErrorCode::RateLimited | ErrorCode::ServerBusy | ErrorCode::Unauthorized => {
            Verdict::PauseAll(pause)
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
        | ErrorCode::InternalError => Verdict::PauseOne(pause),
    }
}

#[cfg(test)]
mod tests {
    use heartline_protocol::server_frame::ErrorDetails;

    use super::*;
    use crate::back_off::BackOffConfig;

    fn judged(error: &ErrorFrame) -> Verdict {
        judge(error, &mut BackOff::new(BackOffConfig::default(), 1))
    }

    #[test]
    fn every_code_is_final_or_retried_as_the_protocol_says() {
        for code in ErrorCode::ALL {
            let verdict = judged(&ErrorFrame::new(code, "no"));
            assert_eq!(verdict == Verdict::Final, !code.retryable(), "{code:?}");
        }
    }

    #[test]
    fn an_open_outcome_is_never_final() {
        let mut error = ErrorFrame::new(ErrorCode::ChatHalted, "perhaps");
        let outcome = Some(Outcome::Unknown);
        error.details = Some(ErrorDetails { outcome, ..ErrorDetails::default() });
        assert!(matches!(judged(&error), Verdict::PauseOne(_)));
    }

    #[test]
    fn the_servers_pause_is_kept_and_an_absurd_one_is_cut() {
        let mut error = ErrorFrame::new(ErrorCode::RateLimited, "slowly");
        error.retry_after_seconds = Some(7);
        let Verdict::PauseAll(pause) = judged(&error) else { panic!("one") };
        assert!((7.0..=8.4).contains(&pause.as_secs_f64()), "{pause:?}");
        error.retry_after_seconds = Some(u64::MAX);
        let Verdict::PauseAll(pause) = judged(&error) else { panic!("one") };
        assert!(pause <= Duration::from_secs(2 * 60 * 60), "{pause:?}");
        error.retry_after_seconds = Some(0);
        let Verdict::PauseAll(pause) = judged(&error) else { panic!("one") };
        assert!(pause >= Duration::from_millis(800), "{pause:?}");
    }
}
