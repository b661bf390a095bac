//! The rates of a client's frames: DESIGN section 4.

use super::*;

fn is_limited(effects: &Effects) -> bool {
    effects.contains(&Effect::Count(Counted::RateLimited))
}

#[test]
fn a_hundred_frames_may_come_at_once_and_then_fifty_a_second() {
    let mut talk = Talk::established();
    assert!((0..100).all(|_| !is_limited(&talk.sends(HEARTBEAT))));
    assert!(is_limited(&talk.sends(HEARTBEAT)));
    talk.wait(millis(19));
    assert!(is_limited(&talk.sends(HEARTBEAT)));
    talk.wait(millis(1));
    assert!(!is_limited(&talk.sends(HEARTBEAT)));
    assert!(is_limited(&talk.sends(HEARTBEAT)));
    talk.wait(seconds(1));
    assert_eq!((0..60).filter(|_| !is_limited(&talk.sends(HEARTBEAT))).count(), 50);
}

#[test]
fn twenty_sends_may_come_at_once_and_then_ten_a_second() {
    let mut talk = Talk::established();
    assert!((0..20).all(|_| !is_limited(&talk.sends(&send_message("r")))));
    assert!(is_limited(&talk.sends(&send_message("r"))));
    talk.wait(millis(99));
    assert!(is_limited(&talk.sends(&send_message("r"))));
    talk.wait(millis(1));
    assert!(!is_limited(&talk.sends(&send_message("r"))));
    talk.wait(seconds(1));
    assert_eq!((0..30).filter(|_| !is_limited(&talk.sends(&send_message("r")))).count(), 10);
}

#[test]
fn five_presence_frames_may_come_at_once_and_then_five_a_second() {
    let kinds = ["presence_subscribe", "presence_unsubscribe"];
    let frame = |number: usize| {
        let kind = kinds[number % 2];
        format!(r#"{{"type":"{kind}","request_id":"r{number}","user_ids":["bo"]}}"#)
    };
    let mut talk = Talk::established();
    assert!((0..5).all(|number| is_asked(&talk.sends(&frame(number)))), "of both kinds");
    let effects = talk.sends(&frame(5));
    let refusal = error(&effects);
    assert_eq!((refusal.code, refusal.retry_after_seconds), (ErrorCode::RateLimited, Some(1)));
    assert_eq!(refusal.request_id.as_ref().unwrap().as_str(), "r5");
    assert!(!is_limited(&talk.sends(HEARTBEAT)), "other frames go on");
    talk.wait(millis(199));
    assert!(is_limited(&talk.sends(&frame(0))));
    talk.wait(millis(1));
    assert!(is_asked(&talk.sends(&frame(0))));
    talk.wait(seconds(1));
    assert_eq!((0..20).filter(|number| is_asked(&talk.sends(&frame(*number)))).count(), 5);
}

#[test]
fn presence_frames_count_as_other_frames_too() {
    let mut talk = Talk::established();
    (0..100).for_each(|_| drop(talk.sends(HEARTBEAT)));
    let subscribe = r#"{"type":"presence_subscribe","request_id":"r","user_ids":["bo"]}"#;
    assert!(is_limited(&talk.sends(subscribe)));
}

#[test]
fn sends_and_other_frames_have_rates_of_their_own() {
    let mut talk = Talk::established();
    assert!((0..20).all(|_| !is_limited(&talk.sends(&send_message("r")))));
    assert!((0..100).all(|_| !is_limited(&talk.sends(HEARTBEAT))));
    assert!(is_limited(&talk.sends(&send_message("r"))) && is_limited(&talk.sends(HEARTBEAT)));
}

#[test]
fn a_refusal_echoes_its_request_and_says_when_to_try_again() {
    let mut talk = Talk::established();
    (0..20).for_each(|_| drop(talk.sends(&send_message("r"))));
    let effects = talk.sends(&send_message("late"));
    let frame = error(&effects);
    assert_eq!(frame.code, ErrorCode::RateLimited);
    assert!(frame.retryable);
    assert_eq!(frame.request_id.as_ref().unwrap().as_str(), "late");
    let retry_after = seconds(frame.retry_after_seconds.unwrap());
    assert_eq!(retry_after, seconds(1), "a tenth of a second is rounded up to a whole one");
    talk.wait(retry_after);
    assert!(!is_limited(&talk.sends(&send_message("late"))));
}

#[test]
fn pings_count_as_frames() {
    let mut talk = Talk::established();
    let ping = || Input::Ping(Bytes::new());
    assert!((0..100).all(|_| talk.on(ping()).as_slice() == [Effect::Pong(Bytes::new())]));
    assert_eq!(code(&talk.on(ping())), ErrorCode::RateLimited);
}

#[test]
fn every_kind_of_frame_is_limited() {
    let unknown = || Input::Text(r#"{"type":"from_the_future","request_id":"r"}"#.to_owned());
    let nobodys = || Input::Text(r#"{"type":"from_the_future"}"#.to_owned());
    let wrong = || Input::Text(r#"{"type":"sync_request","request_id":"r"}"#.to_owned());
    let kinds: [&dyn Fn() -> Input; 4] = [&unknown, &nobodys, &wrong, &|| Input::Pong];
    for kind in kinds {
        let mut talk = Talk::established();
        assert!((0..100).all(|_| !is_limited(&talk.on(kind()))));
        assert_eq!(code(&talk.on(kind())), ErrorCode::RateLimited);
        let close = (0..100).find_map(|_| closing(&talk.on(kind())));
        assert_eq!(close, Some((CloseReason::RateLimited, 4429)));
    }
}

#[test]
fn the_hundredth_refusal_within_a_minute_closes() {
    let mut talk = Talk::established();
    (0..100).for_each(|_| drop(talk.sends(HEARTBEAT)));
    for _ in 0..99 {
        let effects = talk.sends(HEARTBEAT);
        assert!(is_limited(&effects) && closing(&effects).is_none());
    }
    let effects = talk.sends(HEARTBEAT);
    assert_eq!(code(&effects), ErrorCode::RateLimited, "the hundredth is answered too");
    assert_eq!(closing(&effects), Some((CloseReason::RateLimited, 4429)));
}

#[test]
fn refusals_are_forgotten_after_a_minute() {
    let mut talk = Talk::established();
    for _ in 0..3 {
        let refused = (0..199).filter(|_| is_limited(&talk.sends(HEARTBEAT))).count();
        assert_eq!(refused, 99);
        talk.stay(seconds(61));
    }
    assert!(!talk.session.is_closed());
}
