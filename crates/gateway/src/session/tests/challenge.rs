//! Before authentication: PROTOCOL section 1.

use super::*;

#[test]
fn ten_seconds_without_an_answer_close_the_socket_and_not_one_earlier() {
    let mut talk = Talk::challenged();
    assert!(talk.stay(millis(9_999)).is_empty());
    assert!(talk.tick().is_empty());
    talk.wait(millis(1));
    assert_eq!(closing(&talk.tick()), Some((CloseReason::AuthTimeout, 4408)));
}

#[test]
fn a_good_token_leads_to_admission_and_then_to_service() {
    let mut talk = Talk::challenged();
    let frame = r#"{"type":"authenticate","token":"secret","device_id":"phone"}"#;
    assert_eq!(talk.sends(frame).as_slice(), [Effect::Verify(Token("secret".to_owned()))]);
    let claims = claims("ana", None, talk.at.wall.plus(seconds(60)));
    let admit = Effect::Admit { claims: claims.clone(), device_id: "phone".parse().ok() };
    assert_eq!(talk.on(Input::Verified(Ok(claims))).as_slice(), [admit]);
    let admitted = admitted(talk.at.wall.plus(seconds(60)));
    assert!(talk.on(Input::Admitted(Ok(admitted))).is_empty());
    assert!(matches!(
        talk.sends(HEARTBEAT).as_slice(),
        [Effect::Send(ServerFrame::HeartbeatAck { .. })]
    ));
    assert!(talk.stay(seconds(30)).is_empty(), "the challenge's deadline is cancelled");
}

#[test]
fn the_device_of_the_upgrade_overrides_that_of_the_frame() {
    let mut talk = Talk::challenged_on(Some("tablet"));
    talk.sends(r#"{"type":"authenticate","token":"t","device_id":"phone"}"#);
    let claims = claims("ana", None, talk.at.wall.plus(seconds(60)));
    let effects = talk.on(Input::Verified(Ok(claims)));
    assert!(matches!(
        effects.as_slice(),
        [Effect::Admit { device_id: Some(device_id), .. }] if device_id.as_str() == "tablet"
    ));
}

#[test]
fn a_bad_token_closes_unauthorized() {
    for error in [AuthError::Invalid("it has expired"), AuthError::UnknownKey] {
        let mut talk = Talk::challenged();
        talk.sends(AUTHENTICATE);
        let effects = talk.on(Input::Verified(Err(error)));
        assert_eq!(closing(&effects), Some((CloseReason::Unauthorized, 4401)));
    }
}

#[test]
fn a_token_that_cannot_be_verified_yet_is_not_unauthorized() {
    let mut talk = Talk::challenged();
    talk.sends(AUTHENTICATE);
    let effects = talk.on(Input::Verified(Err(AuthError::NotReady)));
    assert_eq!(closing(&effects), Some((CloseReason::Overloaded, 1013)));
}

#[test]
fn a_refused_admission_closes_for_its_reason() {
    let mut talk = Talk::challenged();
    talk.sends(AUTHENTICATE);
    talk.on(Input::Verified(Ok(claims("ana", None, talk.at.wall.plus(seconds(60))))));
    let effects = talk.on(Input::Admitted(Err(CloseReason::ConnectionLimit)));
    assert_eq!(closing(&effects), Some((CloseReason::ConnectionLimit, 4429)));
}

#[test]
fn a_second_authenticate_is_a_conflict_at_any_time() {
    let mut talk = Talk::challenged();
    talk.sends(AUTHENTICATE);
    assert_eq!(code(&talk.sends(AUTHENTICATE)), ErrorCode::Conflict);
    talk.on(Input::Verified(Ok(claims("ana", None, talk.at.wall.plus(seconds(60))))));
    assert_eq!(code(&talk.sends(AUTHENTICATE)), ErrorCode::Conflict);
    assert_eq!(code(&Talk::established().sends(AUTHENTICATE)), ErrorCode::Conflict);
}

#[test]
fn any_other_frame_is_unauthorized_and_echoes_its_request() {
    let mut talk = Talk::challenged();
    for (text, request_id) in [
        (HEARTBEAT, None),
        (MANIFEST, Some("manifest")),
        (REFRESH, Some("refresh")),
        (r#"{"type":"from_the_future"}"#, None),
        (r#"{"type":"from_the_future","request_id":"new"}"#, Some("new")),
    ] {
        let effects = talk.sends(text);
        assert_eq!(code(&effects), ErrorCode::Unauthorized, "{text}");
        let echoed = error(&effects).request_id.as_ref().map(RequestId::as_str);
        assert_eq!(echoed, request_id, "{text}");
        assert_eq!(effects[1..], [Effect::Count(Counted::BadFrame)], "{text}");
    }
}

#[test]
fn the_tenth_frame_before_authentication_closes_with_1003() {
    let mut talk = Talk::challenged();
    for _ in 0..9 {
        assert_eq!(closing(&talk.sends(HEARTBEAT)), None);
    }
    let effects = talk.sends(HEARTBEAT);
    assert_eq!(code(&effects), ErrorCode::Unauthorized, "the tenth is answered too");
    assert_eq!(closing(&effects), Some((CloseReason::ProtocolError, 1003)));
}

#[test]
fn a_field_error_names_its_field_already_before_authentication() {
    let mut talk = Talk::challenged();
    let effects = talk.sends(r#"{"type":"authenticate"}"#);
    assert_eq!(code(&effects), ErrorCode::InvalidMessage);
    assert_eq!(error(&effects).details.as_ref().unwrap().field.as_deref(), Some("token"));
    let effects = talk.sends(r#"{"type":"sync_request","request_id":"r"}"#);
    assert_eq!(error(&effects).request_id.as_ref().unwrap().as_str(), "r");
    assert_eq!(effects[1..], [Effect::Count(Counted::BadFrame)]);
}

#[test]
fn a_ping_is_answered_before_authentication() {
    let mut talk = Talk::challenged();
    let payload = Bytes::from_static(b"are you there");
    assert_eq!(talk.on(Input::Ping(payload.clone())).as_slice(), [Effect::Pong(payload)]);
}
