//! The effects of each edit.

use super::*;

fn seeded(numbers: &[u32]) -> Party {
    let mut party = Party::of(&["ana", "bo"]);
    for number in numbers {
        party.add("ana", *number);
    }
    party
}

fn set_current(number: u32, should_add: bool) -> Edit {
    Edit::SetCurrent { item: Some(item(number)), should_add }
}

#[test]
fn an_item_is_added_where_it_was_asked_for_or_at_the_end() {
    let mut party = seeded(&[1, 2]);
    for (number, position, expected) in [(3, Some(1), 1), (4, None, 3), (5, Some(99), 4)] {
        let applied = party.edit("bo", Edit::Add { item: item(number), position }).unwrap();
        let Some(Fact::Queue(event)) = applied.facts.first() else { panic!("no event") };
        let added = QueueChange::QueueItemAdded { item: item(number), position: expected };
        assert_eq!(event.change, added);
    }
    assert_eq!(party.uuids(), [1, 3, 2, 4, 5].map(uuid));
}

#[test]
fn adding_an_item_twice_returns_the_first_one_and_is_no_event() {
    let mut party = seeded(&[1]);
    let add = Edit::Add { item: other_item(1, "another name"), position: None };
    let applied = party.edit("bo", add).unwrap();
    assert_eq!(applied.outcome, Outcome::Item(item(1)));
    assert!(applied.facts.is_empty());
    assert_eq!(party.session.queue.sequence, 1);
}

#[test]
fn a_negative_position_is_rejected_with_the_documented_message() {
    let mut party = seeded(&[1]);
    let add = Edit::Add { item: item(2), position: Some(-1) };
    let (code, message) = refusal(party.edit("ana", add));
    assert_eq!(code, ErrorCode::InvalidMessage);
    assert_eq!(message, "Invalid position: Index cannot be negative");
    let reorder = Edit::Reorder { uuid: uuid(1), old_index: -1, new_index: 0 };
    assert_eq!(refusal(party.edit("ana", reorder)).1, "Invalid oldIndex: Index cannot be negative");
}

#[test]
fn removing_an_absent_item_is_true_and_no_event() {
    let mut party = seeded(&[1]);
    let applied = party.edit("bo", Edit::Remove { uuid: uuid(9) }).unwrap();
    assert_eq!((applied.outcome, applied.facts), (Outcome::Done, Vec::new()));
    assert_eq!(party.session.queue.sequence, 1);
}

#[test]
fn removing_the_current_item_clears_the_current_climb_in_one_event() {
    let mut party = seeded(&[1, 2]);
    party.edit("ana", set_current(1, false)).unwrap();
    let applied = party.edit("bo", Edit::Remove { uuid: uuid(1) }).unwrap();
    assert_eq!(events(&applied), ["QueueItemRemoved"]);
    assert_eq!((party.uuids(), party.current()), (vec![uuid(2).as_str()], None));
}

#[test]
fn a_reorder_moves_the_item_of_the_uuid_and_ignores_the_old_index() {
    let mut party = seeded(&[1, 2, 3]);
    let reorder = Edit::Reorder { uuid: uuid(1), old_index: 2, new_index: 2 };
    let applied = party.edit("bo", reorder).unwrap();
    let Some(Fact::Queue(event)) = applied.facts.first() else { panic!("no event") };
    let moved = QueueChange::QueueReordered { uuid: uuid(1), old_index: 0, new_index: 2 };
    assert_eq!(event.change, moved);
    assert_eq!(party.uuids(), [2, 3, 1].map(uuid));
}

#[test]
fn a_reorder_of_an_unknown_item_moves_nothing() {
    let mut party = seeded(&[1, 2]);
    let reorder = Edit::Reorder { uuid: uuid(9), old_index: 0, new_index: 1 };
    assert_eq!(refusal(party.edit("bo", reorder)).0, ErrorCode::NotFound);
    assert_eq!(party.uuids(), [1, 2].map(uuid));
}

#[test]
fn a_reorder_beyond_the_end_is_rejected_with_the_length_of_the_queue() {
    let mut party = seeded(&[1, 2]);
    let reorder = Edit::Reorder { uuid: uuid(1), old_index: 0, new_index: 2 };
    assert_eq!(refusal(party.edit("bo", reorder)).1, "Invalid index: queue has 2 items");
}

#[test]
fn a_reorder_to_the_same_place_is_true_and_no_event() {
    let mut party = seeded(&[1, 2]);
    let reorder = Edit::Reorder { uuid: uuid(2), old_index: 0, new_index: 1 };
    let applied = party.edit("bo", reorder).unwrap();
    assert_eq!((applied.outcome, applied.facts), (Outcome::Done, Vec::new()));
}

#[test]
fn setting_and_adding_is_two_events_with_two_sequences_and_the_added_one_comes_first() {
    let mut party = seeded(&[1]);
    let applied = party.edit("bo", set_current(2, true)).unwrap();
    assert_eq!(events(&applied), ["QueueItemAdded", "CurrentClimbChanged"]);
    let sequences = applied.facts.iter().filter_map(Fact::queue_event);
    assert_eq!(sequences.map(|event| event.stamp.sequence).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(party.uuids(), [1, 2].map(uuid));
    let again = party.edit("bo", set_current(2, true)).unwrap();
    assert!(again.facts.is_empty(), "nothing changes the second time");
}

#[test]
fn a_current_climb_need_not_be_in_the_queue() {
    let mut party = seeded(&[1]);
    party.edit("bo", set_current(7, false)).unwrap();
    assert_eq!((party.uuids().len(), party.current()), (1, Some(uuid(7).as_str())));
    let cleared = party.edit("bo", Edit::SetCurrent { item: None, should_add: true }).unwrap();
    assert_eq!(events(&cleared), ["CurrentClimbChanged"]);
    assert_eq!(party.current(), None);
}

#[test]
fn setting_the_current_climb_does_not_undo_concurrent_adds() {
    let mut party = seeded(&[1]);
    // Both decided on the same state; only one commit of that version can succeed.
    let stale = party.apply(Some(actor("bo")), &Operation::Edit(set_current(1, false))).unwrap();
    party.add("ana", 2);
    let entry = stale.entry("late").unwrap();
    assert!(party.session.fold_entry(&entry).is_err(), "the other commit came first");
    party.edit("bo", set_current(1, false)).unwrap();
    assert_eq!((party.uuids().len(), party.current()), (2, Some(uuid(1).as_str())));
}

#[test]
fn items_that_ten_members_add_at_once_are_all_kept_with_unique_sequences() {
    let names: Vec<String> = (0..10).map(|number| format!("member{number}")).collect();
    let mut party = Party::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut sequences = Vec::new();
    for round in 0..5 {
        // All decide on the same state; those that are not first decide again on the newer one.
        let mut waiting: Vec<u32> = (0..10).collect();
        while !waiting.is_empty() {
            let decide = |number: &u32| {
                let add = Edit::Add { item: item(round * 10 + number), position: Some(0) };
                let by = actor(&names[*number as usize]);
                (*number, party.apply(Some(by), &Operation::Edit(add)).unwrap())
            };
            let decided: Vec<_> = waiting.iter().map(decide).collect();
            for (number, applied) in decided {
                if party.session.fold_entry(&applied.entry("commit").unwrap()).is_ok() {
                    waiting.retain(|other| *other != number);
                    sequences.push(applied.after.queue.sequence);
                }
            }
        }
    }
    assert_eq!(party.uuids().len(), 50);
    assert_eq!(sequences, (1..=50).collect::<Vec<u64>>());
}

#[test]
fn mirroring_changes_the_current_climb_and_its_copy_in_the_queue() {
    let mut party = seeded(&[1, 2]);
    party.edit("ana", set_current(2, false)).unwrap();
    let applied = party.edit("bo", Edit::Mirror { mirrored: true }).unwrap();
    assert_eq!(events(&applied), ["ClimbMirrored"]);
    assert!(party.session.queue.queue[1].is_mirrored());
    assert!(party.session.queue.current.as_ref().unwrap().is_mirrored());
    assert!(party.edit("ana", Edit::Mirror { mirrored: true }).unwrap().facts.is_empty());
}

#[test]
fn mirroring_without_a_current_climb_is_null_and_no_event() {
    let mut party = seeded(&[1]);
    let applied = party.edit("bo", Edit::Mirror { mirrored: true }).unwrap();
    assert_eq!((applied.outcome, applied.facts), (Outcome::Current(None), Vec::new()));
}

#[test]
fn replacing_an_absent_item_is_not_found_and_no_event() {
    let mut party = seeded(&[1]);
    let replace = Edit::Replace { uuid: uuid(9), item: item(9) };
    assert_eq!(refusal(party.edit("bo", replace)).0, ErrorCode::NotFound);
    assert_eq!(party.session.queue.sequence, 1);
}

#[test]
fn replacing_also_replaces_the_current_climb_and_is_a_full_sync() {
    let mut party = seeded(&[1, 2]);
    party.edit("ana", set_current(2, false)).unwrap();
    let replace = Edit::Replace { uuid: uuid(2), item: item(3) };
    let applied = party.edit("bo", replace.clone()).unwrap();
    assert_eq!(events(&applied), ["FullSync"]);
    assert_eq!(applied.outcome, Outcome::Item(item(3)));
    assert_eq!(party.uuids(), [1, 3].map(uuid));
    assert_eq!(party.current(), Some(uuid(3).as_str()));
    let same = Edit::Replace { uuid: uuid(3), item: item(3) };
    assert!(party.edit("bo", same).unwrap().facts.is_empty());
}

#[test]
fn no_uuid_is_in_the_queue_twice() {
    let mut party = seeded(&[1, 2]);
    let replace = Edit::Replace { uuid: uuid(1), item: item(2) };
    assert_eq!(refusal(party.edit("bo", replace)).0, ErrorCode::InvalidMessage);
    let set = Edit::SetQueue { queue: vec![item(3), item(4), item(3)], current: None };
    let (code, message) = refusal(party.edit("bo", set));
    assert_eq!(code, ErrorCode::InvalidMessage);
    assert!(message.starts_with("Invalid queue: "), "{message}");
    assert_eq!(party.uuids(), [1, 2].map(uuid));
}

#[test]
fn setting_the_queue_is_one_full_sync_or_nothing() {
    let mut party = seeded(&[1, 2]);
    let set = Edit::SetQueue { queue: vec![item(2), item(3)], current: Some(item(3)) };
    assert_eq!(events(&party.edit("bo", set.clone()).unwrap()), ["FullSync"]);
    assert_eq!((party.session.queue.sequence, party.uuids().len()), (3, 2));
    assert!(party.edit("bo", set).unwrap().facts.is_empty());
}

#[test]
fn no_edit_exceeds_the_limit_of_the_queue() {
    let mut party = seeded(&[]);
    let items = |count: u32| (0..count).map(item).collect::<Vec<_>>();
    party.edit("ana", Edit::SetQueue { queue: items(500), current: None }).unwrap();
    let (code, message) =
        refusal(party.edit("ana", Edit::Add { item: item(500), position: Some(0) }));
    assert_eq!(code, ErrorCode::MessageTooLarge);
    assert!(message.contains("Queue too large"), "{message}");
    assert!(refusal(party.edit("bo", set_current(500, true))).1.contains("Queue too large"));
    let set = Edit::SetQueue { queue: items(501), current: None };
    assert!(refusal(party.edit("ana", set)).1.contains("Queue too large"));
    assert_eq!((party.uuids().len(), party.current()), (500, None));
    party.limits.queue_bytes_max = party.session.queue.size_bytes();
    let longer = Edit::Replace { uuid: uuid(1), item: other_item(1, "a much longer name") };
    assert!(refusal(party.edit("ana", longer)).1.contains("Queue too large"));
}

#[test]
fn every_event_has_its_hashes_its_author_and_its_correlation_id() {
    let mut party = seeded(&[1]);
    party.correlation_id = Some("bo-7".to_owned());
    for edit in [
        set_current(2, true),
        Edit::Mirror { mirrored: true },
        Edit::Reorder { uuid: uuid(1), old_index: 0, new_index: 1 },
        Edit::Remove { uuid: uuid(1) },
        Edit::SetQueue { queue: Vec::new(), current: None },
    ] {
        let applied = party.edit("bo", edit).unwrap();
        let stamp = &applied.facts.iter().rev().find_map(Fact::queue_event).unwrap().stamp;
        assert_eq!(stamp.state_hash, party.session.queue.state_hash);
        assert_eq!(stamp.order_hash, party.session.queue.order_hash);
        assert_eq!(stamp.client_id, Some(member("bo")));
        assert_eq!(stamp.correlation_id.as_deref(), Some("bo-7"));
    }
}

#[test]
fn only_the_order_hash_depends_on_order_mirroring_and_content() {
    let state = |queue: Vec<Item>, current| crate::QueueState::new(1, queue, current);
    let first = state(vec![item(1), item(2)], Some(item(1)));
    for other in [
        state(vec![item(2), item(1)], Some(item(1))),
        state(vec![item(1), item(2).mirrored(true)], Some(item(1))),
        state(vec![item(1), item(2)], Some(item(1).mirrored(true))),
        state(vec![item(1), other_item(2, "renamed")], Some(item(1))),
    ] {
        assert_eq!(first.state_hash, other.state_hash);
        assert_ne!(first.order_hash, other.order_hash);
    }
}

#[test]
fn only_a_member_edits_and_only_through_its_present_socket() {
    let mut party = seeded(&[1]);
    let remove = Operation::Edit(Edit::Remove { uuid: uuid(1) });
    let must = "Must be in a session to perform this operation";
    for stranger in [Some(actor("cy")), Some(on_node("ana", "node-2", 1)), None] {
        let (code, message) = refusal(party.perform(stranger, &remove));
        assert_eq!((code, message.as_str()), (ErrorCode::NotAMember, must));
    }
    party.leave("ana");
    assert_eq!(refusal(party.perform(Some(actor("ana")), &remove)).1, must);
    assert!(party.perform(Some(actor("bo")), &remove).is_ok(), "a member need not lead");
}
