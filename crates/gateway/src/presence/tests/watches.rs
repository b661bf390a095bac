//! The record of watches alone.

use std::sync::Arc;

use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{CloseReason, ConnectionId, Timestamp, UserId};
use heartline_runtime::{Map, Set};
use proptest::prelude::*;

use super::super::watches::{TooMany, Watches};
use super::fixtures::{handle, user};
use crate::handle::Handle;

fn users(numbers: std::ops::Range<usize>) -> Vec<UserId> {
    numbers.map(|number| user(&format!("user-{number}"))).collect()
}

fn presence(name: &str, status: PresenceStatus) -> Presence {
    Presence { user_id: user(name), status, last_seen: None, stale: false, version: Some(1) }
}

fn id(handle: &Arc<Handle>) -> ConnectionId {
    handle.connection_id().unwrap()
}

#[test]
fn a_connection_watches_a_thousand_users_and_a_refusal_changes_nothing() {
    let (mut watches, ana) = (Watches::default(), handle("ana", 1));
    assert_eq!(watches.subscribe(&ana, &users(0..1000)), Ok(()));
    assert_eq!(watches.subscribe(&ana, &users(999..1001)), Err(TooMany));
    assert_eq!(watches.len(), 1000, "all or none");
    assert!(watches.observers(&user("user-1000")).is_empty());
    assert_eq!(watches.subscribe(&ana, &users(900..1000)), Ok(()), "these are watched already");
    let twice = [users(0..1), users(0..1)].concat();
    assert_eq!(watches.subscribe(&handle("bo", 2), &twice), Ok(()));
    assert_eq!(watches.len(), 1001, "whoever is named twice counts once");
    watches.unsubscribe(id(&ana), &users(0..1));
    assert_eq!(watches.subscribe(&ana, &users(1000..1001)), Ok(()), "an end makes room");
}

#[test]
fn each_state_is_pushed_once_per_connection() {
    let (mut watches, phone, tablet) = (Watches::default(), handle("ana", 1), handle("ana", 2));
    let online = presence("bo", PresenceStatus::Online);
    watches.subscribe(&phone, &[user("bo")]).unwrap();
    watches.record_snapshot(id(&phone), &online);
    assert!(!watches.record_change(id(&phone), &online), "the snapshot had this state");
    watches.subscribe(&tablet, &[user("bo")]).unwrap();
    assert!(watches.record_change(id(&tablet), &online));
    assert!(!watches.record_change(id(&tablet), &Presence { version: Some(2), ..online.clone() }));
    let offline = Presence {
        last_seen: Some(Timestamp { unix_ms: 1 }),
        ..presence("bo", PresenceStatus::Offline)
    };
    assert!(
        watches.record_change(id(&phone), &offline) && watches.record_change(id(&tablet), &offline)
    );
    let later = Presence { last_seen: Some(Timestamp { unix_ms: 2 }), ..offline.clone() };
    assert!(watches.record_change(id(&phone), &later), "they were online meanwhile");
    assert!(
        !watches.record_change(id(&handle("cy", 3)), &offline),
        "a connection without a watch gets nothing"
    );
    assert_eq!(watches.observers(&user("bo")), Set::from_iter([user("ana")]));
}

#[test]
fn unknown_is_not_pushed_as_the_first_state() {
    let (mut watches, ana) = (Watches::default(), handle("ana", 1));
    let unknown = presence("bo", PresenceStatus::Unknown);
    assert!(watches.observe(&ana, &user("bo")));
    assert!(!watches.record_change(id(&ana), &unknown));
    assert!(!watches.record_change(id(&ana), &Presence { stale: true, ..unknown.clone() }));
    assert!(watches.record_change(id(&ana), &presence("bo", PresenceStatus::Online)));
    assert!(watches.record_change(id(&ana), &unknown), "after another state it is pushed");
}

#[test]
fn the_oldest_unsubscribed_watch_is_removed_but_never_a_subscription() {
    let (mut watches, ana) = (Watches::default(), handle("ana", 1));
    for user_id in users(0..1000) {
        assert!(watches.observe(&ana, &user_id));
        assert!(!watches.observe(&ana, &user_id), "it watches them already");
    }
    watches.subscribe(&ana, &users(0..1)).unwrap();
    for user_id in users(1000..1002) {
        watches.observe(&ana, &user_id);
    }
    assert_eq!(watches.len(), 1001, "one who was asked for, and a thousand others");
    let is_watched = |name: &str| !watches.observers(&user(name)).is_empty();
    assert!(is_watched("user-0") && !is_watched("user-1") && is_watched("user-1001"));
    watches.leave(id(&ana));
    assert_eq!((watches.len(), watches.users()), (0, Vec::new()));
}

#[test]
fn closed_connections_are_found_although_their_removal_was_dropped() {
    let (mut watches, ana, bo) = (Watches::default(), handle("ana", 1), handle("bo", 2));
    watches.subscribe(&ana, &users(0..2)).unwrap();
    watches.observe(&bo, &user("cy"));
    assert!(watches.closing().is_empty());
    ana.stop(CloseReason::HeartbeatTimeout);
    assert_eq!(watches.closing(), [id(&ana)]);
}

#[derive(Debug, Clone)]
enum Step {
    Subscribe(usize, Vec<usize>),
    Unsubscribe(usize, Vec<usize>),
    Introduce(usize, usize),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (connection, watched) = (0..4_usize, prop::collection::vec(0..6_usize, 0..5));
    prop_oneof![
        3 => (connection.clone(), watched.clone()).prop_map(|(one, all)| Step::Subscribe(one, all)),
        3 => (connection.clone(), watched).prop_map(|(one, all)| Step::Unsubscribe(one, all)),
        2 => (connection.clone(), 0..6_usize).prop_map(|(one, other)| Step::Introduce(one, other)),
        1 => connection.prop_map(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn watches_are_exactly_those_that_began_and_have_not_ended(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        // Two connections of each of two users.
        let owner = |number: usize| ["ana", "bo"][number % 2];
        let handles = [0, 1, 2, 3].map(|number| handle(owner(number), number as u128));
        let mut watches = Watches::default();
        let mut model = Map::<usize, Set<UserId>>::default();
        let named = |all: &[usize]| -> Vec<UserId> {
            all.iter().flat_map(|number| users(*number..number + 1)).collect()
        };
        for step in steps {
            match step {
                Step::Subscribe(one, all) => {
                    watches.subscribe(&handles[one], &named(&all)).unwrap();
                    model.entry(one).or_default().extend(named(&all));
                }
                Step::Unsubscribe(one, all) => {
                    watches.unsubscribe(id(&handles[one]), &named(&all));
                    let gone = named(&all);
                    model.entry(one).or_default().retain(|watched| !gone.contains(watched));
                }
                Step::Introduce(one, other) => {
                    let is_new = model.entry(one).or_default().insert(named(&[other]).remove(0));
                    prop_assert_eq!(watches.observe(&handles[one], &named(&[other])[0]), is_new);
                }
                Step::Leave(one) => {
                    watches.leave(id(&handles[one]));
                    model.remove(&one);
                }
            }
            prop_assert_eq!(watches.len(), model.values().map(Set::len).sum::<usize>());
            let watched: Set<UserId> = model.values().flatten().cloned().collect();
            prop_assert_eq!(watches.users().into_iter().collect::<Set<_>>(), watched.clone());
            for user_id in watched {
                let watching = model.iter().filter(|(_, all)| all.contains(&user_id));
                let expected = watching.map(|(one, _)| user(owner(*one))).collect();
                prop_assert_eq!(watches.observers(&user_id), expected);
            }
        }
    }
}
