//! Requests: each is answered once, and their number is limited.

use super::*;

fn ack(request_id: &str) -> Response {
    let request_id = request_id.parse().unwrap();
    Response::Reply(ServerFrame::TokenRefreshed { request_id, expires_at: Clock::system().wall() })
}

/// A session with higher rates than the default.
fn eager() -> Talk {
    let mut config = Config::default();
    config.limits.frame_burst = 1000;
    Talk::established_with(config)
}

#[test]
fn every_kind_of_request_is_started() {
    let mut talk = Talk::established();
    let effects = talk.sends(&send_message("r"));
    let [Effect::Request(Request::Send(frame))] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!((frame.request_id.as_str(), frame.content.as_str()), ("r", "hello"));
    assert!(is_asked(&talk.sends(MANIFEST)));
}

#[test]
fn a_hundred_requests_may_be_pending_and_the_third_refusal_closes() {
    let mut talk = eager();
    for _ in 0..100 {
        assert!(is_asked(&talk.sends(MANIFEST)));
    }
    for _ in 0..2 {
        let effects = talk.sends(MANIFEST);
        assert_eq!(code(&effects), ErrorCode::ServerBusy);
        assert_eq!(error(&effects).request_id.as_ref().unwrap().as_str(), "manifest");
        assert_eq!(effects[1], Effect::Count(Counted::Busy));
    }
    assert_eq!(talk.on(Input::Answered(ack("manifest"))).len(), 1);
    assert!(is_asked(&talk.sends(MANIFEST)), "a response makes room");
    let effects = talk.sends(MANIFEST);
    assert_eq!(code(&effects), ErrorCode::ServerBusy);
    assert_eq!(closing(&effects), Some((CloseReason::Overloaded, 1013)));
}

#[test]
fn a_request_is_answered_also_while_the_connection_closes() {
    let mut talk = Talk::established();
    assert!(is_asked(&talk.sends(&send_message("r"))));
    assert!(closing(&talk.on(Input::Stop(CloseReason::ServerShutdown))).is_some());
    let effects = talk.on(Input::Answered(ack("r")));
    assert!(matches!(effects.as_slice(), [Effect::Send(_)]));
}

#[test]
fn a_page_is_sent_in_the_data_lane() {
    let mut talk = Talk::established();
    assert!(is_asked(&talk.sends(MANIFEST)));
    let request_id = "manifest".parse().unwrap();
    let page = ServerFrame::SyncManifest { request_id, chats: Vec::new(), next_page: None };
    let effects = talk.on(Input::Answered(Response::Page(page.clone())));
    assert_eq!(effects.as_slice(), [Effect::SendPage(page)]);
}

const SUBSCRIBE: &str = r#"{"type":"presence_subscribe","request_id":"s","user_ids":["bo","cy"]}"#;
const UNSUBSCRIBE: &str = r#"{"type":"presence_unsubscribe","request_id":"u","user_ids":["bo"]}"#;

#[test]
fn watching_begins_and_ends_by_request() {
    let mut talk = Talk::established();
    let effects = talk.sends(SUBSCRIBE);
    let [Effect::Request(Request::Subscribe(frame))] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    let named: Vec<_> = frame.user_ids.iter().map(|user_id| user_id.as_str()).collect();
    assert_eq!((frame.request_id.as_str(), named), ("s", vec!["bo", "cy"]));
    let effects = talk.sends(UNSUBSCRIBE);
    let [Effect::Request(Request::Unsubscribe(frame))] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(frame.request_id.as_str(), "u");
}

#[test]
fn a_queued_response_is_not_sent_again_but_makes_room() {
    let mut config = Config::default();
    config.limits.inbound_requests = 1;
    let mut talk = Talk::established_with(config);
    assert!(is_asked(&talk.sends(SUBSCRIBE)));
    assert_eq!(code(&talk.sends(UNSUBSCRIBE)), ErrorCode::ServerBusy);
    assert!(talk.on(Input::Answered(Response::AlreadyQueued)).is_empty());
    assert!(is_asked(&talk.sends(UNSUBSCRIBE)));
}

#[test]
fn a_pending_subscription_is_answered_also_while_the_connection_closes() {
    let mut talk = Talk::established();
    assert!(is_asked(&talk.sends(SUBSCRIBE)));
    assert!(closing(&talk.on(Input::Stop(CloseReason::ServerShutdown))).is_some());
    assert!(talk.sends(UNSUBSCRIBE).is_empty(), "input is ignored");
    assert!(talk.on(Input::Answered(Response::AlreadyQueued)).is_empty());
}

#[test]
fn an_expired_token_cannot_subscribe() {
    let mut talk = Talk::with_token_for(seconds(10), 0);
    talk.stay(seconds(11));
    for frame in [SUBSCRIBE, UNSUBSCRIBE] {
        assert_eq!(code(&talk.sends(frame)), ErrorCode::Unauthorized);
    }
}
