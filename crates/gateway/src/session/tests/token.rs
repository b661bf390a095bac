//! Expiry and refresh of tokens: PROTOCOL section 1.

use super::*;

const LIFE: Duration = seconds(60);
const GRACE: Duration = seconds(30);

fn expiring() -> Talk {
    Talk::with_token_for(LIFE, 0)
}

/// Refreshes with this result of the verification; returns the effects.
fn refresh(talk: &mut Talk, answer: Result<Claims, AuthError>) -> Effects {
    let asked = talk.sends(REFRESH);
    assert_eq!(asked.as_slice(), [Effect::Verify(Token("t".to_owned()))]);
    talk.on(Input::Verified(answer))
}

fn is_unauthorized(effects: &Effects) -> bool {
    !is_asked(effects) && code(effects) == ErrorCode::Unauthorized
}

#[test]
fn expiry_is_announced_once_and_on_time() {
    let mut talk = expiring();
    assert!(talk.stay(LIFE - millis(1)).is_empty());
    assert!(!is_unauthorized(&talk.sends(MANIFEST)));
    let told = talk.stay(GRACE);
    let expired = ServerFrame::TokenExpired { grace_period_seconds: 30 };
    assert_eq!(told.as_slice(), [Effect::Send(expired)]);
}

#[test]
fn an_expired_token_serves_heartbeats_but_no_requests() {
    let mut talk = expiring();
    talk.stay(LIFE);
    for text in [MANIFEST, &send_message("r")] {
        let effects = talk.sends(text);
        assert!(is_unauthorized(&effects) && error(&effects).retryable);
        assert!(error(&effects).request_id.is_some());
        assert!(effects.contains(&Effect::Count(Counted::Unauthorized)));
    }
    let effects = talk.sends(HEARTBEAT);
    assert!(matches!(effects.as_slice(), [Effect::Send(ServerFrame::HeartbeatAck { .. })]));
}

#[test]
fn the_connection_ends_with_the_grace() {
    let mut talk = expiring();
    talk.stay(LIFE + GRACE - millis(1));
    assert!(talk.tick().is_empty());
    talk.wait(millis(1));
    assert_eq!(closing(&talk.tick()), Some((CloseReason::TokenExpired, 4401)));
}

#[test]
fn a_refresh_within_the_grace_heals() {
    let mut talk = expiring();
    talk.stay(LIFE + GRACE - millis(1));
    let expires_at = talk.at.wall.plus(LIFE);
    let effects = refresh(&mut talk, Ok(claims("ana", None, expires_at)));
    let request_id = "refresh".parse().unwrap();
    let refreshed = ServerFrame::TokenRefreshed { request_id, expires_at };
    assert_eq!(effects.as_slice(), [Effect::Send(refreshed)]);
    assert!(!is_unauthorized(&talk.sends(MANIFEST)));
    assert!(talk.stay(LIFE - millis(1)).is_empty(), "the newer token counts from now on");
    assert_eq!(talk.stay(millis(1)).len(), 1, "and expires in its turn");
}

#[test]
fn a_refresh_may_name_the_same_device_but_no_other_device_or_user() {
    for (user_id, device_id, is_own) in [
        ("ana", Some("phone"), true),
        ("ana", None, true),
        ("ana", Some("tablet"), false),
        ("bo", None, false),
        ("bo", Some("phone"), false),
    ] {
        let mut talk = expiring();
        let other = claims(user_id, device_id, talk.at.wall.plus(LIFE * 100));
        let effects = refresh(&mut talk, Ok(other));
        if is_own {
            let refreshed = effects.as_slice();
            assert!(matches!(refreshed, [Effect::Send(ServerFrame::TokenRefreshed { .. })]));
        } else {
            assert_eq!(code(&effects), ErrorCode::Forbidden);
            assert_eq!(error(&effects).request_id.as_ref().unwrap().as_str(), "refresh");
            assert!(talk.stay(LIFE - millis(1)).is_empty(), "the old token stays");
            assert_eq!(talk.stay(millis(1)).len(), 1, "and ends when it would have");
        }
    }
}

#[test]
fn a_bad_token_in_a_refresh_changes_nothing() {
    for (answer, expected) in [
        (AuthError::Invalid("its signature is wrong"), ErrorCode::Unauthorized),
        (AuthError::UnknownKey, ErrorCode::Unauthorized),
        (AuthError::NotReady, ErrorCode::ServiceUnavailable),
    ] {
        let mut talk = expiring();
        assert_eq!(code(&refresh(&mut talk, Err(answer))), expected);
        assert!(!is_unauthorized(&talk.sends(MANIFEST)));
        let expires_at = talk.at.wall.plus(LIFE);
        assert_eq!(refresh(&mut talk, Ok(claims("ana", None, expires_at))).len(), 1);
    }
}

#[test]
fn only_one_refresh_is_checked_at_a_time() {
    let mut talk = expiring();
    talk.sends(REFRESH);
    let effects = talk.sends(&REFRESH.replace(r#""refresh""#, r#""second""#));
    assert_eq!(code(&effects), ErrorCode::ServerBusy);
    assert_eq!(error(&effects).request_id.as_ref().unwrap().as_str(), "second");
    let answer = Ok(claims("ana", None, talk.at.wall.plus(LIFE)));
    let effects = talk.on(Input::Verified(answer));
    assert!(matches!(effects.as_slice(), [Effect::Send(ServerFrame::TokenRefreshed { .. })]));
    assert!(matches!(talk.sends(REFRESH).as_slice(), [Effect::Verify(_)]));
}

#[test]
fn a_pause_over_the_expiry_does_not_shorten_the_announced_grace() {
    let mut talk = expiring();
    talk.stay(LIFE - millis(1));
    talk.wait(GRACE + seconds(30));
    let effects = talk.on(Input::Tick { late: GRACE + seconds(30), is_paused: false });
    let expired = ServerFrame::TokenExpired { grace_period_seconds: 30 };
    assert_eq!(effects.first(), Some(&Effect::Send(expired)));
    talk.on(Input::Pong);
    assert!(talk.stay(GRACE - millis(1)).is_empty());
    let effects = talk.stay(millis(1));
    assert_eq!(closing(&effects), Some((CloseReason::TokenExpired, 4401)));
}

#[test]
fn a_refresh_that_is_pending_at_the_close_is_answered_too() {
    let mut ana = Talk::established();
    ana.sends(REFRESH);
    let effects = ana.on(Input::Stop(CloseReason::ServerShutdown));
    assert_eq!(code(&effects), ErrorCode::ServiceUnavailable);
    assert_eq!(error(&effects).request_id.as_ref().map(RequestId::as_str), Some("refresh"));
    assert_eq!(closing(&effects), Some((CloseReason::ServerShutdown, 1001)));
    let late = claims("ana", None, ana.at.wall.plus(seconds(60)));
    assert!(ana.on(Input::Verified(Ok(late))).is_empty());
}
