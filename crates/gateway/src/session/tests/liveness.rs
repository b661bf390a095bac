//! Detection of silent clients and of pauses of the server: PROTOCOL section 1, "Alive".

use super::*;

#[test]
fn silence_causes_a_ping_after_one_interval_and_a_close_after_the_timeout() {
    let mut talk = Talk::established();
    assert_eq!(talk.until_deadline(), seconds(5));
    talk.wait(millis(4_999));
    assert!(talk.tick().is_empty());
    talk.wait(millis(1));
    assert_eq!(talk.tick().as_slice(), [Effect::Ping]);
    assert_eq!(talk.until_deadline(), seconds(5));
    talk.wait(millis(4_999));
    assert!(talk.tick().is_empty(), "one Ping is enough");
    talk.wait(millis(1));
    assert_eq!(closing(&talk.tick()), Some((CloseReason::HeartbeatTimeout, 4410)));
}

#[test]
fn every_kind_of_frame_ends_the_silence() {
    let mut talk = Talk::established();
    for input in [
        Input::Text(HEARTBEAT.to_owned()),
        Input::Text("not an object".to_owned()),
        Input::Text(r#"{"type":"from_the_future"}"#.to_owned()),
        Input::Binary,
        Input::Ping(Bytes::new()),
        Input::Pong,
    ] {
        talk.wait(seconds(5));
        assert_eq!(talk.tick().as_slice(), [Effect::Ping]);
        talk.wait(millis(4_999));
        talk.on(input);
        assert_eq!(talk.until_deadline(), seconds(5));
    }
}

#[test]
fn a_hidden_tab_that_only_answers_pings_stays() {
    let mut talk = Talk::established();
    assert!(talk.stay(seconds(3600)).is_empty());
    assert!(!talk.session.is_closed());
}

#[test]
fn a_client_that_sends_in_time_gets_no_ping() {
    let mut talk = Talk::established();
    for _ in 0..100 {
        talk.wait(millis(4_999));
        assert!(talk.tick().is_empty());
        talk.sends(HEARTBEAT);
    }
}

#[test]
fn a_pause_of_the_server_closes_no_connection() {
    for pause in [4, 8, 60].map(seconds) {
        let mut talk = Talk::established();
        talk.wait(seconds(5));
        assert_eq!(talk.tick().as_slice(), [Effect::Ping]);
        talk.wait(seconds(5) + pause);
        let effects = talk.on(Input::Tick { late: pause, is_paused: false });
        assert_eq!(effects.as_slice(), [Effect::Ping], "asked again after {pause:?}");
        talk.wait(millis(4_999));
        assert!(talk.tick().is_empty());
        talk.on(Input::Pong);
        assert!(talk.stay(seconds(600)).is_empty());
    }
}

#[test]
fn a_pause_before_the_first_ping_only_delays_it() {
    for pause in [4, 8, 60].map(seconds) {
        let mut talk = Talk::established();
        talk.wait(seconds(5) + pause);
        assert_eq!(
            talk.on(Input::Tick { late: pause, is_paused: false }).as_slice(),
            [Effect::Ping]
        );
        assert_eq!(talk.until_deadline(), seconds(5), "the whole time to answer");
    }
}

#[test]
fn consecutive_pauses_close_no_connection_either() {
    let mut talk = Talk::established();
    for _ in 0..20 {
        talk.wait(talk.until_deadline() + seconds(8));
        assert_eq!(
            talk.on(Input::Tick { late: seconds(8), is_paused: false }).as_slice(),
            [Effect::Ping]
        );
    }
}

#[test]
fn a_client_that_stays_silent_after_a_pause_is_closed_after_the_rest_of_the_timeout() {
    let mut talk = Talk::established();
    talk.wait(seconds(5));
    talk.tick();
    talk.wait(seconds(5 + 60));
    talk.on(Input::Tick { late: seconds(60), is_paused: false });
    talk.wait(seconds(5));
    assert_eq!(closing(&talk.tick()), Some((CloseReason::HeartbeatTimeout, 4410)));
}

#[test]
fn a_client_that_does_not_read_is_slow_and_not_silent() {
    let mut ana = Talk::established();
    ana.wait(seconds(5));
    assert_eq!(ana.tick().as_slice(), [Effect::Ping]);
    ana.wait(seconds(5));
    let effects = ana.on(Input::Tick { late: Duration::ZERO, is_paused: true });
    assert_eq!(closing(&effects), Some((CloseReason::SlowConsumer, 1008)));
}
