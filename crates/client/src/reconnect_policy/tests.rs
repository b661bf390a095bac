use super::*;
use crate::back_off::BackOffConfig;
use crate::event::Loss;

fn policy() -> ReconnectPolicy {
    ReconnectPolicy::new(BackOff::new(BackOffConfig::default(), 11), 2)
}

fn closed(reason: CloseReason, reconnect_delay_ms: u64) -> Ending {
    let reconnect_allowed = reason.reconnect_allowed();
    let closing =
        ConnectionClosing { reason, reconnect_allowed, reconnect_delay_ms, sync_hints: None };
    Ending::Closed { closing: Some(closing), code: Some(reason.code()) }
}

fn closed_by_code(code: u16) -> Ending {
    Ending::Closed { closing: None, code: Some(code) }
}

fn rejected(status: u16, retry_after: Option<u64>) -> Ending {
    let retry_after = retry_after.map(Duration::from_secs);
    Ending::Rejected(Rejection { status, code: None, message: None, retry_after })
}

fn lost() -> Ending {
    Ending::Lost(Loss::HeartbeatTimeout)
}

fn delay(next: NextStep) -> Duration {
    match next {
        NextStep::Retry { after } => after,
        other => panic!("{other:?} is not a plain retry"),
    }
}

fn assert_about(delay: Duration, seconds: f64) {
    let middle = Duration::from_secs_f64(seconds);
    assert!(delay >= middle.mul_f64(0.8) && delay <= middle.mul_f64(1.2), "{delay:?}");
}

#[test]
fn every_closing_reason_has_the_rule_of_the_protocols_table() {
    for reason in CloseReason::ALL {
        let next = policy().ended(&closed(reason, 0));
        match reason {
            CloseReason::SessionReplaced | CloseReason::SessionEnded => {
                assert_eq!(next, NextStep::Stop(StopReason::ClosedByServer(reason)));
            }
            CloseReason::Unauthorized | CloseReason::TokenExpired => {
                assert!(matches!(next, NextStep::RetryWithNewToken { .. }), "{reason:?}: {next:?}");
            }
            CloseReason::AuthTimeout
            | CloseReason::ConnectionLimit
            | CloseReason::HeartbeatTimeout
            | CloseReason::SlowConsumer
            | CloseReason::RateLimited
            | CloseReason::ProtocolError
            | CloseReason::ServerShutdown
            | CloseReason::MaxAge
            | CloseReason::Overloaded
            | CloseReason::InternalError => assert_about(delay(next), 1.0),
        }
    }
}

#[test]
fn the_servers_delay_takes_precedence() {
    let mut policy = policy();
    for _ in 0..4 {
        policy.ended(&lost());
    }
    let after = Duration::from_millis(2345);
    for reason in [CloseReason::ServerShutdown, CloseReason::Overloaded] {
        assert_eq!(policy.ended(&closed(reason, 2345)), NextStep::Retry { after });
    }
    let next = policy.ended(&closed(CloseReason::TokenExpired, 2345));
    assert_eq!(next, NextStep::RetryWithNewToken { after });
}

#[test]
fn a_too_long_delay_is_limited() {
    let next = policy().ended(&closed(CloseReason::MaxAge, u64::MAX));
    assert_eq!(next, NextStep::Retry { after: SERVER_DELAY_MAX });
    let after = delay(policy().ended(&rejected(503, Some(u64::MAX))));
    assert!(after <= SERVER_DELAY_MAX * 2);
}

#[test]
fn a_client_stops_if_reconnecting_is_not_allowed() {
    let reason = CloseReason::Overloaded;
    let closing = ConnectionClosing {
        reason,
        reconnect_allowed: false,
        reconnect_delay_ms: 100,
        sync_hints: None,
    };
    let ending = Ending::Closed { closing: Some(closing), code: None };
    assert_eq!(policy().ended(&ending), NextStep::Stop(StopReason::ClosedByServer(reason)));
}

#[test]
fn a_close_code_alone_has_the_same_rule() {
    let replaced = StopReason::ClosedByServer(CloseReason::SessionReplaced);
    assert_eq!(policy().ended(&closed_by_code(4409)), NextStep::Stop(replaced));
    assert!(matches!(policy().ended(&closed_by_code(4401)), NextStep::RetryWithNewToken { .. }));
    for code in [1000, 1001, 1006, 1013, 4429, 4999] {
        assert_about(delay(policy().ended(&closed_by_code(code))), 1.0);
    }
}

#[test]
fn retry_after_is_honoured_and_never_shortened() {
    for status in [429, 503] {
        let after = delay(policy().ended(&rejected(status, Some(30))));
        assert!(after >= Duration::from_secs(30) && after <= Duration::from_secs(36));
        assert_about(delay(policy().ended(&rejected(status, None))), 1.0);
    }
}

#[test]
fn a_rejected_token_is_replaced_once() {
    let mut policy = policy();
    let first = policy.ended(&rejected(401, None));
    assert_eq!(first, NextStep::RetryWithNewToken { after: Duration::ZERO });
    assert_eq!(policy.ended(&rejected(401, None)), NextStep::Stop(StopReason::TokenRejected));
}

#[test]
fn after_an_established_connection_the_token_may_be_replaced_again() {
    let mut policy = policy();
    for _ in 0..3 {
        let next = policy.ended(&closed(CloseReason::TokenExpired, 1));
        assert_eq!(next, NextStep::RetryWithNewToken { after: Duration::from_millis(1) });
        policy.established();
    }
}

#[test]
fn a_forbidden_origin_is_final_and_other_statuses_are_retried() {
    let next = policy().ended(&rejected(403, None));
    assert_eq!(next, NextStep::Stop(StopReason::Rejected { status: 403 }));
    for status in [400, 404, 500, 502, 504] {
        assert_about(delay(policy().ended(&rejected(status, None))), 1.0);
    }
}

#[test]
fn delays_grow_until_a_connection_is_established() {
    let mut policy = policy();
    for seconds in [1.0, 2.0, 4.0, 8.0, 16.0, 16.0] {
        assert_about(delay(policy.ended(&lost())), seconds);
    }
    policy.established();
    assert_about(delay(policy.ended(&lost())), 1.0);
}

#[test]
fn urls_take_turns_and_attempts_are_counted() {
    let mut policy = policy();
    assert_eq!((policy.url_index(), policy.attempt()), (0, 1));
    policy.ended(&lost());
    assert_eq!((policy.url_index(), policy.attempt()), (1, 2));
    policy.established();
    policy.ended(&lost());
    assert_eq!((policy.url_index(), policy.attempt()), (0, 1));
}

#[test]
fn a_missing_token_is_retried_unless_there_will_be_none() {
    let unavailable = Ending::NoToken(TokenError::Unavailable("offline".to_owned()));
    assert_about(delay(policy().ended(&unavailable)), 1.0);
    let ended = Ending::NoToken(TokenError::Ended("signed out".to_owned()));
    let stop = NextStep::Stop(StopReason::NoToken("signed out".to_owned()));
    assert_eq!(policy().ended(&ended), stop);
}
