//! Subscriptions and the requests that they cause.

use heartline_protocol::ErrorCode;
use proptest::prelude::*;

use super::*;
use crate::chat::fixtures::{back_off, error};
use crate::clock;

fn users(numbers: std::ops::Range<usize>) -> Vec<UserId> {
    numbers.map(|number| format!("user-{number:04}").parse().unwrap()).collect()
}

fn connected() -> (PresenceSubscriptions, Instant) {
    let mut subscriptions = PresenceSubscriptions::new(back_off());
    subscriptions.connected(&ClientLimits::default());
    (subscriptions, clock::now())
}

/// The next request: whether it subscribes, and its users.
fn next_request(
    subscriptions: &mut PresenceSubscriptions,
    now: Instant,
) -> Option<(RequestId, bool, Vec<UserId>)> {
    match subscriptions.next(now)? {
        ClientFrame::PresenceSubscribe(frame) => Some((frame.request_id, true, frame.user_ids)),
        ClientFrame::PresenceUnsubscribe(frame) => Some((frame.request_id, false, frame.user_ids)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_have_a_hundred_users_and_keep_within_the_rate() {
    let (mut subscriptions, start) = connected();
    assert_eq!(subscriptions.subscribe(&users(0..1000)), Ok(()));
    assert_eq!(subscriptions.subscribe(&users(999..1001)), Err(SubscribeError::TooMany));
    let (mut now, mut named, mut times) = (start, Vec::new(), Vec::new());
    while let Some(due_at) = subscriptions.due_at(now) {
        now = due_at.max(now);
        let (request_id, subscribes, user_ids) = next_request(&mut subscriptions, now).unwrap();
        assert!(subscribes && user_ids.len() == 100);
        assert_eq!(subscriptions.due_at(now), None, "one at a time");
        named.extend(user_ids);
        times.push(now);
        subscriptions.answered(&request_id);
    }
    assert_eq!(named, users(0..1000));
    for (before, time) in times.iter().enumerate() {
        let allowed = 5.0 + 5.0 * (*time - start).as_secs_f64();
        assert!((before + 1) as f64 <= allowed, "five at once and five a second: {times:?}");
    }
}

#[test]
fn the_last_change_counts_and_unsubscribes_come_first() {
    let (mut subscriptions, now) = connected();
    subscriptions.subscribe(&users(0..2)).unwrap();
    let (first, ..) = next_request(&mut subscriptions, now).unwrap();
    subscriptions.subscribe(&users(2..4)).unwrap();
    subscriptions.unsubscribe(&users(1..3));
    subscriptions.unsubscribe(&users(7..9));
    assert!(
        subscriptions.is_unsubscribing(&users(1..2)[0])
            && !subscriptions.is_unsubscribing(&users(3..4)[0])
    );
    subscriptions.answered(&first);
    let (second, subscribes, user_ids) = next_request(&mut subscriptions, now).unwrap();
    assert_eq!((subscribes, user_ids), (false, users(1..2)), "the others were never sent");
    assert!(subscriptions.is_unsubscribing(&users(1..2)[0]));
    subscriptions.answered(&second);
    assert!(!subscriptions.is_unsubscribing(&users(1..2)[0]));
    let (third, subscribes, user_ids) = next_request(&mut subscriptions, now).unwrap();
    assert_eq!((subscribes, user_ids), (true, users(3..4)));
    subscriptions.answered(&third);
    assert_eq!(subscriptions.due_at(now), None);
}

#[test]
fn changes_undone_before_they_were_sent_leave_nothing_behind() {
    let (mut subscriptions, now) = connected();
    for user_id in users(0..5000) {
        subscriptions.subscribe(std::slice::from_ref(&user_id)).unwrap();
        subscriptions.unsubscribe(&[user_id]);
    }
    assert_eq!((subscriptions.unsent.len(), subscriptions.due_at(now)), (0, None));
    // A confirmed subscription must be ended on the server.
    subscriptions.subscribe(&users(0..1)).unwrap();
    let (request_id, ..) = next_request(&mut subscriptions, now).unwrap();
    subscriptions.answered(&request_id);
    subscriptions.subscribe(&users(0..1)).unwrap();
    subscriptions.unsubscribe(&users(0..1));
    let (_, subscribes, user_ids) = next_request(&mut subscriptions, now).unwrap();
    assert_eq!((subscribes, user_ids), (false, users(0..1)));
}

#[test]
fn every_connection_subscribes_to_all_users() {
    let (mut subscriptions, now) = connected();
    subscriptions.subscribe(&users(0..3)).unwrap();
    next_request(&mut subscriptions, now).unwrap();
    subscriptions.disconnected();
    subscriptions.unsubscribe(&users(1..2));
    assert_eq!(subscriptions.subscribe(&users(5..6)), Ok(()));
    subscriptions
        .connected(&ClientLimits { presence_users_per_frame: 2, ..ClientLimits::default() });
    let expected = [users(0..1), users(2..3), users(5..6)].concat();
    let (first, _, mut named) = next_request(&mut subscriptions, now).unwrap();
    subscriptions.answered(&first);
    named.extend(next_request(&mut subscriptions, now).unwrap().2);
    assert_eq!(named, expected);
}

#[test]
fn a_temporary_rejection_is_retried_and_a_final_one_reported() {
    let (mut subscriptions, now) = connected();
    subscriptions.subscribe(&users(0..2)).unwrap();
    let (request_id, ..) = next_request(&mut subscriptions, now).unwrap();
    let other = "somebody-elses".parse().unwrap();
    assert_eq!(
        subscriptions.on_error(&error(&other, ErrorCode::Conflict), now),
        ErrorEffect::Unrelated
    );
    subscriptions.unsubscribe(&users(1..2));
    let busy = error(&request_id, ErrorCode::ServerBusy);
    assert_eq!(subscriptions.on_error(&busy, now), ErrorEffect::Retry);
    assert_eq!(next_request(&mut subscriptions, now), None, "not at once");
    let now = subscriptions.due_at(now).unwrap();
    let (request_id, subscribes, user_ids) = next_request(&mut subscriptions, now).unwrap();
    assert_eq!((subscribes, user_ids), (false, users(1..2)), "the later change counts");
    subscriptions.answered(&request_id);
    let (request_id, subscribes, user_ids) = next_request(&mut subscriptions, now).unwrap();
    assert_eq!((subscribes, user_ids), (true, users(0..1)));
    let conflict = error(&request_id, ErrorCode::Conflict);
    assert_eq!(subscriptions.on_error(&conflict, now), ErrorEffect::Rejected(users(0..1)));
    subscriptions.connected(&ClientLimits::default());
    assert_eq!(subscriptions.due_at(now), None, "it is not requested again");
}

#[test]
fn an_expired_token_delays_requests_until_there_is_a_newer_one() {
    let (mut subscriptions, now) = connected();
    subscriptions.subscribe(&users(0..1)).unwrap();
    let (request_id, ..) = next_request(&mut subscriptions, now).unwrap();
    subscriptions.on_error(&error(&request_id, ErrorCode::Unauthorized), now);
    assert_eq!(next_request(&mut subscriptions, now), None);
    subscriptions.token_refreshed();
    assert!(next_request(&mut subscriptions, now).is_some());
}

#[derive(Debug, Clone)]
enum Step {
    Subscribe(usize),
    Unsubscribe(usize),
    /// The server handles the next request, with this error if there is one.
    Serve(Option<ErrorCode>),
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    let codes = vec![ErrorCode::RateLimited, ErrorCode::ServerBusy, ErrorCode::Unauthorized];
    let failure = prop::option::weighted(0.3, prop::sample::select(codes));
    prop_oneof![
        3 => (0..6_usize).prop_map(Step::Subscribe),
        3 => (0..6_usize).prop_map(Step::Unsubscribe),
        6 => failure.prop_map(Step::Serve),
        1 => Just(Step::Reconnect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_the_end_the_server_has_the_subscriptions_of_the_application(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let (mut subs, mut now) = connected();
        let (mut wanted, mut confirmed) = (BTreeSet::new(), BTreeSet::new());
        let mut serve = |subs: &mut PresenceSubscriptions, confirmed: &mut BTreeSet<UserId>, failure| {
            now = subs.due_at(now).map_or(now, |due_at| due_at.max(now));
            let Some((request_id, subscribes, user_ids)) = next_request(subs, now) else { return false };
            match (failure, subscribes) {
                (Some(code), _) => {
                    assert_eq!(subs.on_error(&error(&request_id, code), now), ErrorEffect::Retry);
                    return true;
                }
                (None, true) => confirmed.extend(user_ids),
                (None, false) => confirmed.retain(|user_id| !user_ids.contains(user_id)),
            }
            subs.answered(&request_id);
            true
        };
        for step in steps {
            match step {
                Step::Subscribe(number) => {
                    subs.subscribe(&users(number..number + 1)).unwrap();
                    wanted.extend(users(number..number + 1));
                }
                Step::Unsubscribe(number) => {
                    subs.unsubscribe(&users(number..number + 1));
                    wanted.retain(|user_id| *user_id != users(number..number + 1)[0]);
                }
                Step::Serve(failure) => _ = serve(&mut subs, &mut confirmed, failure),
                Step::Reconnect => {
                    subs.connected(&ClientLimits::default());
                    confirmed.clear();
                }
            }
        }
        while serve(&mut subs, &mut confirmed, None) {}
        prop_assert_eq!(confirmed, wanted);
    }
}
