//! What counts and what does not.

use heartline_protocol::Timestamp;
use heartline_protocol::server_frame::PresenceStatus;
use proptest::prelude::*;

use super::*;

fn state(name: &str, status: PresenceStatus, version: Option<u64>) -> Presence {
    let last_seen = version.filter(|_| status == PresenceStatus::Offline);
    let last_seen = last_seen.map(|unix_ms| Timestamp { unix_ms });
    Presence { user_id: name.parse().unwrap(), status, last_seen, stale: false, version }
}

fn online(version: u64) -> Presence {
    state("bo", PresenceStatus::Online, Some(version))
}

fn offline(version: u64) -> Presence {
    state("bo", PresenceStatus::Offline, Some(version))
}

fn unknown() -> Presence {
    state("bo", PresenceStatus::Unknown, None)
}

fn bo() -> UserId {
    "bo".parse().unwrap()
}

#[test]
fn only_what_is_newer_counts() {
    let mut view = PresenceView::default();
    assert_eq!(view.get(&bo()), None);
    assert!(view.take(&online(5)));
    assert!(!view.take(&offline(4)) && !view.take(&offline(5)) && !view.take(&online(5)));
    assert_eq!(view.get(&bo()), Some(&online(5)));
    assert!(!view.take(&online(7)), "nothing has changed, but the version counts");
    assert!(!view.take(&offline(6)));
    assert!(view.take(&offline(8)));
    assert!(view.take(&offline(9)), "they were here meanwhile");
}

#[test]
fn unknown_always_counts_and_so_does_what_follows_it() {
    let mut view = PresenceView::default();
    assert!(view.take(&unknown()), "the first word is news, whatever it is");
    assert!(!view.take(&unknown()));
    assert!(view.take(&online(5)));
    assert!(view.take(&unknown()));
    assert!(view.take(&offline(3)), "an earlier state is the newest that there is");
    assert!(view.take(&Presence { stale: true, ..unknown() }));
    assert!(view.take(&unknown()), "it is not for this client to know");
}

#[test]
fn a_new_connection_begins_anew_and_tells_only_what_differs() {
    let mut view = PresenceView::default();
    view.take(&online(5));
    view.disconnected();
    assert_eq!(view.get(&bo()), Some(&online(5)), "the last word stands");
    assert!(!view.take(&online(2)));
    assert!(view.take(&offline(3)), "the versions of another server");
    view.disconnected();
    assert!(view.take(&online(1)));
}

#[test]
fn who_is_asked_for_again_is_told_of_again() {
    let mut view = PresenceView::default();
    view.watch(&bo());
    assert!(view.take(&online(5)));
    view.watch(&bo());
    assert_eq!(view.get(&bo()), None);
    assert!(view.take(&online(5)));
    view.forget(&bo());
    assert!(view.take(&online(5)), "told of without being asked for");
}

#[test]
fn those_who_come_unasked_are_bounded_and_those_who_are_watched_stay() {
    let mut view = PresenceView::default();
    view.watch(&bo());
    view.take(&online(1));
    for number in 0..5 * UNASKED_MAX {
        view.take(&state(&format!("user-{number}"), PresenceStatus::Online, Some(1)));
    }
    assert_eq!((view.known.len(), view.unasked.len()), (UNASKED_MAX + 1, UNASKED_MAX));
    assert!(view.get(&bo()).is_some());
    assert!(view.get(&"user-0".parse().unwrap()).is_none());
    assert!(view.get(&"user-4999".parse().unwrap()).is_some());
}

proptest! {
    #[test]
    fn however_states_are_shuffled_and_repeated_the_newest_stands(
        versions in prop::collection::vec(1_u64..50, 1..60),
    ) {
        let mut view = PresenceView::default();
        let at = |version: u64| match version % 2 {
            0 => online(version),
            _ => offline(version),
        };
        for version in &versions {
            view.take(&at(*version));
        }
        let newest = at(*versions.iter().max().unwrap());
        prop_assert_eq!(view.get(&bo()), Some(&newest));
    }
}
