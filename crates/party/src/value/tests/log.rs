//! Replays and remembered results.

use super::*;
use crate::value::log::{LogLimits, Replay};

fn sequences(replay: Replay) -> Vec<u64> {
    let Replay::Events(events) = replay else { panic!("a full sync") };
    events.into_iter().map(|event| event.stamp.sequence).collect()
}

fn with_items(count: u32) -> Party {
    let mut party = Party::of(&["ana"]);
    for number in 0..count {
        party.add("ana", number);
    }
    party
}

#[test]
fn a_replay_has_all_later_events() {
    let party = with_items(5);
    assert_eq!(sequences(party.log.replay(2, 5)), [3, 4, 5]);
    assert_eq!(sequences(party.log.replay(5, 5)), [0; 0]);
    assert_eq!(sequences(party.log.replay(0, 5)), [1, 2, 3, 4, 5]);
}

#[test]
fn a_replay_from_the_future_is_a_full_sync() {
    let party = with_items(5);
    assert_eq!(party.log.replay(6, 5), Replay::FullSync);
    assert_eq!(party.log.replay(u64::MAX, 5), Replay::FullSync);
}

#[test]
fn a_replay_from_before_a_seed_is_a_full_sync() {
    let mut party = Party::new();
    let join = Join { initial_queue: vec![item(1)], ..plain_join() };
    party.join_as(actor("ana"), join).unwrap();
    party.add("ana", 2);
    assert_eq!(party.log.replay(0, 2), Replay::FullSync);
    assert_eq!(sequences(party.log.replay(1, 2)), [2]);
}

#[test]
fn a_replay_of_events_that_the_log_has_dropped_is_a_full_sync() {
    let party = with_items(105);
    assert_eq!(party.log.replay(4, 105), Replay::FullSync);
    assert_eq!(sequences(party.log.replay(5, 105)).len(), 100);
    assert_eq!(EventLog::default().replay(104, 105), Replay::FullSync, "an expired log");
}

#[test]
fn a_replay_over_a_replaced_queue_is_a_full_sync_and_the_log_holds_no_copy_of_it() {
    let mut party = with_items(3);
    let queue: Vec<Item> = (0..400).map(item).collect();
    party.edit("ana", Edit::SetQueue { queue, current: None }).unwrap();
    party.add("ana", 400);
    assert_eq!(party.log.replay(3, 5), Replay::FullSync);
    assert_eq!(sequences(party.log.replay(4, 5)), [5]);
    assert!(party.log.size_bytes() < 10_000, "{}", party.log.size_bytes());
    let json = party.log.entries().next_back().unwrap().to_log_json();
    assert!(crate::Entry::from_json(&json).is_ok());
}

#[test]
fn the_window_is_bounded_in_bytes_and_commits_too() {
    let limits = LogLimits { events_max: 100, entries_max: 4, bytes_max: 2_000 };
    let mut party = Party::new();
    party.log = EventLog::new(limits);
    party.join("ana");
    for number in 0..20 {
        party.add("ana", number);
        assert!(party.log.size_bytes() <= 2_000);
        assert!(party.log.entries().count() <= 4);
    }
    assert!(party.log.entries().count() > 1);
}

#[test]
fn nothing_before_a_loss_is_replayed() {
    let mut party = with_items(2);
    party.live("server", Lifecycle::Restore { seen: None }).unwrap();
    let current = party.session.queue.sequence;
    assert_eq!(party.log.replay(2, current), Replay::FullSync);
    assert_eq!(party.log.replay(1, current), Replay::FullSync);
}

#[test]
fn an_edit_with_a_correlation_id_is_remembered_even_without_an_effect() {
    let mut party = with_items(1);
    party.correlation_id = Some("ana-1".to_owned());
    let version = party.session.version;
    party.edit("ana", Edit::Remove { uuid: uuid(9) }).unwrap();
    assert_eq!(party.session.version, version + 1);
    let (ana, bo) = (member("ana"), member("bo"));
    let remembered = |operation, name| party.log.remembered(&ana, operation, name);
    assert_eq!(remembered("removeQueueItem", "ana-1"), Some(&Outcome::Done));
    assert_eq!(remembered("addQueueItem", "ana-1"), None);
    assert_eq!(remembered("removeQueueItem", "ana-2"), None);
    assert_eq!(party.log.remembered(&bo, "removeQueueItem", "ana-1"), None);
}

#[test]
fn an_author_that_lost_the_result_finds_its_commit() {
    let mut party = with_items(1);
    party.add("ana", 7);
    let commit_id = format!("commit-{}", party.now_ms);
    assert_eq!(party.log.commit(&commit_id).unwrap().version, party.session.version);
    assert!(party.log.commit("commit-0").is_none());
}
