//! Statuses that are applied, and older ones that are not.

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
fn only_a_higher_version_is_applied() {
    let mut view = PresenceView::default();
    assert_eq!(view.get(&bo()), None);
    assert!(view.apply(&online(5)));
    assert!(!view.apply(&offline(4)) && !view.apply(&offline(5)) && !view.apply(&online(5)));
    assert_eq!(view.get(&bo()), Some(&online(5)));
    assert!(!view.apply(&online(7)), "nothing has changed, but the version counts");
    assert!(!view.apply(&offline(6)));
    assert!(view.apply(&offline(8)));
    assert!(view.apply(&offline(9)), "the user was online in between");
}

#[test]
fn unknown_and_the_status_after_it_are_always_applied() {
    let mut view = PresenceView::default();
    assert!(view.apply(&unknown()), "the first status is a change");
    assert!(!view.apply(&unknown()));
    assert!(view.apply(&online(5)));
    assert!(view.apply(&unknown()));
    assert!(view.apply(&offline(3)), "after unknown any version is applied");
    assert!(view.apply(&Presence { stale: true, ..unknown() }));
    assert!(view.apply(&unknown()), "no longer stale");
}

#[test]
fn a_new_connection_ignores_versions_and_reports_only_changes() {
    let mut view = PresenceView::default();
    view.apply(&online(5));
    view.disconnected();
    assert_eq!(view.get(&bo()), Some(&online(5)), "the known presence stays");
    assert!(!view.apply(&online(2)));
    assert!(view.apply(&offline(3)), "versions of another server may be lower");
    view.disconnected();
    assert!(view.apply(&online(1)));
}

#[test]
fn a_repeated_subscription_reports_the_status_again() {
    let mut view = PresenceView::default();
    view.subscribe(&bo());
    assert!(view.apply(&online(5)));
    view.subscribe(&bo());
    assert_eq!(view.get(&bo()), None);
    assert!(view.apply(&online(5)));
    view.remove(&bo());
    assert!(view.apply(&online(5)), "reported without a subscription");
}

#[test]
fn users_without_a_subscription_are_evicted() {
    let mut view = PresenceView::default();
    view.subscribe(&bo());
    view.apply(&online(1));
    for number in 0..5 * UNSUBSCRIBED_MAX {
        view.apply(&state(&format!("user-{number}"), PresenceStatus::Online, Some(1)));
    }
    assert_eq!(
        (view.known.len(), view.unsubscribed.len()),
        (UNSUBSCRIBED_MAX + 1, UNSUBSCRIBED_MAX)
    );
    assert!(view.get(&bo()).is_some());
    assert!(view.get(&"user-0".parse().unwrap()).is_none());
    assert!(view.get(&"user-4999".parse().unwrap()).is_some());
}

proptest! {
    #[test]
    fn the_highest_version_wins_in_any_order(
        versions in prop::collection::vec(1_u64..50, 1..60),
    ) {
        let mut view = PresenceView::default();
        let at = |version: u64| match version % 2 {
            0 => online(version),
            _ => offline(version),
        };
        for version in &versions {
            view.apply(&at(*version));
        }
        let newest = at(*versions.iter().max().unwrap());
        prop_assert_eq!(view.get(&bo()), Some(&newest));
    }
}
