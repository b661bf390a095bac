//! Every way to end a session, and the inputs after it: PROTOCOL section 3.

use super::*;

/// The closing reasons with their codes in the reference.
const CODES: [(CloseReason, u16); 14] = [
    (CloseReason::AuthTimeout, 4408),
    (CloseReason::Unauthorized, 4401),
    (CloseReason::TokenExpired, 4401),
    (CloseReason::SessionReplaced, 4409),
    (CloseReason::SessionEnded, 4403),
    (CloseReason::ConnectionLimit, 4429),
    (CloseReason::HeartbeatTimeout, 4410),
    (CloseReason::SlowConsumer, 1008),
    (CloseReason::RateLimited, 4429),
    (CloseReason::ProtocolError, 1003),
    (CloseReason::ServerShutdown, 1001),
    (CloseReason::MaxAge, 1001),
    (CloseReason::Overloaded, 1013),
    (CloseReason::InternalError, 1011),
];

const SEEDS: [u64; 5] = [0, 1, u64::MAX / 3, u64::MAX / 2, u64::MAX];

fn stopped(reason: CloseReason, seed: u64) -> Closing {
    let mut talk = Talk::with_token_for(seconds(60), seed);
    match talk.on(Input::Stop(reason)).as_slice() {
        [Effect::Close(closing)] => *closing,
        other => panic!("a Close was expected, not {other:?}"),
    }
}

#[test]
fn every_reason_to_stop_has_its_close_code() {
    for (reason, code) in CODES {
        let closing = stopped(reason, 7);
        assert_eq!((closing.reason, closing.code), (reason, code));
    }
}

#[test]
fn clients_of_a_closing_node_reconnect_within_eight_seconds() {
    let together = [CloseReason::ServerShutdown, CloseReason::MaxAge, CloseReason::Overloaded];
    for reason in together {
        let delays = SEEDS.map(|seed| stopped(reason, seed).reconnect_delay);
        assert!(delays.iter().all(|delay| *delay <= seconds(8)), "{delays:?}");
        assert!(delays.is_sorted() && delays[0] < delays[4], "spread by the socket's own number");
    }
}

#[test]
fn a_single_closed_client_reconnects_after_a_second_within_a_fifth() {
    let together = [CloseReason::ServerShutdown, CloseReason::MaxAge, CloseReason::Overloaded];
    for (reason, _) in CODES.into_iter().filter(|(reason, _)| !together.contains(reason)) {
        for seed in SEEDS {
            let delay = stopped(reason, seed).reconnect_delay;
            assert!((millis(800)..=millis(1200)).contains(&delay), "{reason:?}: {delay:?}");
        }
    }
}

#[test]
fn a_connection_ends_at_its_age_within_a_jitter_of_a_tenth() {
    let day = seconds(24 * 60 * 60);
    let ages = SEEDS.map(|seed| {
        let mut talk = Talk::with_token_for(day * 2, seed);
        let opened_at = talk.at.now;
        // The Pings of a silent connection must not coincide with its end.
        talk.wait(seconds(3));
        talk.on(Input::Pong);
        loop {
            talk.wait(talk.until_deadline());
            let effects = talk.tick();
            if let Some(ending) = closing(&effects) {
                assert_eq!(ending, (CloseReason::MaxAge, 1001));
                return talk.at.now - opened_at;
            }
            talk.on(Input::Pong);
        }
    });
    assert!(ages.is_sorted());
    // Exactly on time, because the age is a deadline of its own.
    for (age, percent) in [(ages[0], 95), (ages[3], 100), (ages[4], 105)] {
        assert!(age.abs_diff(day * percent / 100) < millis(1), "{age:?} is not {percent} percent");
    }
}

#[test]
fn a_socket_that_has_not_authenticated_can_be_stopped_too() {
    let effects = Talk::challenged().on(Input::Stop(CloseReason::ServerShutdown));
    assert_eq!(closing(&effects), Some((CloseReason::ServerShutdown, 1001)));
}

#[test]
fn after_a_close_nothing_is_answered() {
    for mut talk in [Talk::challenged(), Talk::established()] {
        talk.on(Input::Stop(CloseReason::SessionEnded));
        assert!(talk.session.is_closed());
        let expires_at = talk.at.wall.plus(seconds(60));
        for input in [
            Input::Text(HEARTBEAT.to_owned()),
            Input::Text(AUTHENTICATE.to_owned()),
            Input::Binary,
            Input::Ping(Bytes::new()),
            Input::Pong,
            Input::Violation(FrameError::Utf8),
            Input::Verified(Ok(claims("ana", None, expires_at))),
            Input::Admitted(Ok(admitted(expires_at))),
            Input::Tick { late: Duration::ZERO, is_paused: false },
            Input::Stop(CloseReason::ServerShutdown),
        ] {
            talk.wait(seconds(100_000));
            assert!(talk.on(input).is_empty());
        }
        assert!(talk.session.is_closed());
    }
}
