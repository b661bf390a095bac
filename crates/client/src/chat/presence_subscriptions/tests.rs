//! Wishes and what the server hears of them.

use heartline_protocol::ErrorCode;
use proptest::prelude::*;

use super::*;
use crate::chat::fixtures::{back_off, error};
use crate::clock;

fn users(numbers: std::ops::Range<usize>) -> Vec<UserId> {
    numbers.map(|number| format!("user-{number:04}").parse().unwrap()).collect()
}

fn connected() -> (Watching, Instant) {
    let mut watching = Watching::new(back_off());
    watching.connected(&ClientLimits::default());
    (watching, clock::now())
}

/// The next frame: whether it begins, and whom it names.
fn told(watching: &mut Watching, now: Instant) -> Option<(RequestId, bool, Vec<UserId>)> {
    match watching.next(now)? {
        ClientFrame::PresenceSubscribe(frame) => Some((frame.request_id, true, frame.user_ids)),
        ClientFrame::PresenceUnsubscribe(frame) => Some((frame.request_id, false, frame.user_ids)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wishes_go_out_a_hundred_at_a_time_and_slower_than_the_server_takes_them() {
    let (mut watching, start) = connected();
    assert_eq!(watching.subscribe(&users(0..1000)), Ok(()));
    assert_eq!(watching.subscribe(&users(999..1001)), Err(WatchError::TooMany));
    let (mut now, mut named, mut times) = (start, Vec::new(), Vec::new());
    while let Some(due_at) = watching.due_at(now) {
        now = due_at.max(now);
        let (request_id, begins, user_ids) = told(&mut watching, now).unwrap();
        assert!(begins && user_ids.len() == 100);
        assert_eq!(watching.due_at(now), None, "one at a time");
        named.extend(user_ids);
        times.push(now);
        watching.answered(&request_id);
    }
    assert_eq!(named, users(0..1000));
    for (before, time) in times.iter().enumerate() {
        let allowed = 5.0 + 5.0 * (*time - start).as_secs_f64();
        assert!((before + 1) as f64 <= allowed, "five at once and five a second: {times:?}");
    }
}

#[test]
fn the_last_wish_counts_and_ends_make_room_first() {
    let (mut watching, now) = connected();
    watching.subscribe(&users(0..2)).unwrap();
    let (first, ..) = told(&mut watching, now).unwrap();
    watching.subscribe(&users(2..4)).unwrap();
    watching.unsubscribe(&users(1..3));
    watching.unsubscribe(&users(7..9));
    assert!(watching.is_ending(&users(1..2)[0]) && !watching.is_ending(&users(3..4)[0]));
    watching.answered(&first);
    let (second, begins, user_ids) = told(&mut watching, now).unwrap();
    assert_eq!((begins, user_ids), (false, users(1..2)), "the others were never asked for");
    assert!(watching.is_ending(&users(1..2)[0]));
    watching.answered(&second);
    assert!(!watching.is_ending(&users(1..2)[0]));
    let (third, begins, user_ids) = told(&mut watching, now).unwrap();
    assert_eq!((begins, user_ids), (true, users(3..4)));
    watching.answered(&third);
    assert_eq!(watching.due_at(now), None);
}

#[test]
fn wishes_taken_back_before_the_server_heard_of_them_leave_nothing_behind() {
    let (mut watching, now) = connected();
    for user_id in users(0..5000) {
        watching.subscribe(std::slice::from_ref(&user_id)).unwrap();
        watching.unsubscribe(&[user_id]);
    }
    assert_eq!((watching.untold.len(), watching.due_at(now)), (0, None));
    // What the server has heard of it must hear the end of.
    watching.subscribe(&users(0..1)).unwrap();
    let (request_id, ..) = told(&mut watching, now).unwrap();
    watching.answered(&request_id);
    watching.subscribe(&users(0..1)).unwrap();
    watching.unsubscribe(&users(0..1));
    let (_, begins, user_ids) = told(&mut watching, now).unwrap();
    assert_eq!((begins, user_ids), (false, users(0..1)));
}

#[test]
fn every_connection_is_told_everything_that_is_wanted() {
    let (mut watching, now) = connected();
    watching.subscribe(&users(0..3)).unwrap();
    told(&mut watching, now).unwrap();
    watching.disconnected();
    watching.unsubscribe(&users(1..2));
    assert_eq!(watching.subscribe(&users(5..6)), Ok(()));
    watching.connected(&ClientLimits { presence_users_per_frame: 2, ..ClientLimits::default() });
    let expected = [users(0..1), users(2..3), users(5..6)].concat();
    let (first, _, mut named) = told(&mut watching, now).unwrap();
    watching.answered(&first);
    named.extend(told(&mut watching, now).unwrap().2);
    assert_eq!(named, expected);
}

#[test]
fn a_refusal_for_now_is_tried_again_and_a_definite_one_is_told() {
    let (mut watching, now) = connected();
    watching.subscribe(&users(0..2)).unwrap();
    let (request_id, ..) = told(&mut watching, now).unwrap();
    let other = "somebody-elses".parse().unwrap();
    assert_eq!(watching.refused(&error(&other, ErrorCode::Conflict), now), Refused::NotMine);
    watching.unsubscribe(&users(1..2));
    let busy = error(&request_id, ErrorCode::ServerBusy);
    assert_eq!(watching.refused(&busy, now), Refused::ForNow);
    assert_eq!(told(&mut watching, now), None, "not at once");
    let now = watching.due_at(now).unwrap();
    let (request_id, begins, user_ids) = told(&mut watching, now).unwrap();
    assert_eq!((begins, user_ids), (false, users(1..2)), "the later wish stands");
    watching.answered(&request_id);
    let (request_id, begins, user_ids) = told(&mut watching, now).unwrap();
    assert_eq!((begins, user_ids), (true, users(0..1)));
    let conflict = error(&request_id, ErrorCode::Conflict);
    assert_eq!(watching.refused(&conflict, now), Refused::Definitely(users(0..1)));
    watching.connected(&ClientLimits::default());
    assert_eq!(watching.due_at(now), None, "it is not asked for again");
}

#[test]
fn an_ended_token_holds_wishes_back_until_there_is_a_newer_one() {
    let (mut watching, now) = connected();
    watching.subscribe(&users(0..1)).unwrap();
    let (request_id, ..) = told(&mut watching, now).unwrap();
    watching.refused(&error(&request_id, ErrorCode::Unauthorized), now);
    assert_eq!(told(&mut watching, now), None);
    watching.token_refreshed();
    assert!(told(&mut watching, now).is_some());
}

#[derive(Debug, Clone)]
enum Step {
    Subscribe(usize),
    Unsubscribe(usize),
    /// The server hears the next frame and answers it, well or badly.
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
    fn in_the_end_the_server_watches_whom_the_application_wants(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let (mut watching, mut now) = connected();
        let (mut wanted, mut served) = (BTreeSet::new(), BTreeSet::new());
        let mut serve = |watching: &mut Watching, served: &mut BTreeSet<UserId>, failure| {
            now = watching.due_at(now).map_or(now, |due_at| due_at.max(now));
            let Some((request_id, begins, user_ids)) = told(watching, now) else { return false };
            match (failure, begins) {
                (Some(code), _) => {
                    assert_eq!(watching.refused(&error(&request_id, code), now), Refused::ForNow);
                    return true;
                }
                (None, true) => served.extend(user_ids),
                (None, false) => served.retain(|user_id| !user_ids.contains(user_id)),
            }
            watching.answered(&request_id);
            true
        };
        for step in steps {
            match step {
                Step::Subscribe(number) => {
                    watching.subscribe(&users(number..number + 1)).unwrap();
                    wanted.extend(users(number..number + 1));
                }
                Step::Unsubscribe(number) => {
                    watching.unsubscribe(&users(number..number + 1));
                    wanted.retain(|user_id| *user_id != users(number..number + 1)[0]);
                }
                Step::Serve(failure) => _ = serve(&mut watching, &mut served, failure),
                Step::Reconnect => {
                    watching.connected(&ClientLimits::default());
                    served.clear();
                }
            }
        }
        while serve(&mut watching, &mut served, None) {}
        prop_assert_eq!(served, wanted);
    }
}
