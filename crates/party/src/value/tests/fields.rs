//! The fields that a commit writes.

use super::*;
use crate::{FieldError, changes, from_fields, to_fields};

fn names(changes: &crate::Changes) -> Vec<&str> {
    changes.set.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn an_edit_of_a_full_queue_writes_only_the_changed_fields() {
    let mut party = Party::of(&["ana"]);
    let queue: Vec<Item> = (0..499).map(item).collect();
    party.edit("ana", Edit::SetQueue { queue, current: Some(item(7)) }).unwrap();
    let before = party.session.clone();
    party.add("ana", 900);
    let added = format!("item:{}", uuid(900));
    let written = changes(&before, &party.session);
    assert_eq!(names(&written), ["head", "order", added.as_str()]);

    let before = party.session.clone();
    party.edit("ana", Edit::Mirror { mirrored: true }).unwrap();
    let mirrored = format!("item:{}", uuid(7));
    assert_eq!(names(&changes(&before, &party.session)), ["head", mirrored.as_str()]);

    let before = party.session.clone();
    party.edit("ana", Edit::Remove { uuid: uuid(7) }).unwrap();
    let written = changes(&before, &party.session);
    assert_eq!(names(&written), ["head", "order", "current"]);
    assert_eq!(written.remove, [mirrored]);
}

#[test]
fn a_change_of_members_writes_no_item() {
    let mut party = Party::of(&["ana", "bo"]);
    party.add("ana", 1);
    let before = party.session.clone();
    party.leave("ana");
    let written = changes(&before, &party.session);
    assert_eq!(names(&written), ["head"]);
    assert_eq!(written.remove, ["member:ana"]);
}

#[test]
fn a_current_climb_that_differs_from_the_queued_one_is_kept_apart() {
    let mut party = Party::of(&["ana"]);
    party.add("ana", 1);
    let current = other_item(1, "renamed");
    party.edit("ana", Edit::SetCurrent { item: Some(current), should_add: true }).unwrap();
    assert_eq!(from_fields(to_fields(&party.session)).unwrap(), party.session);
}

#[test]
fn fields_that_are_not_a_session_are_an_error_and_unknown_ones_are_ignored() {
    let mut party = Party::of(&["ana"]);
    party.add("ana", 1);
    let fields = to_fields(&party.session);
    let mut more = fields.clone();
    more.push(("colour".to_owned(), b"blue".to_vec()));
    assert_eq!(from_fields(more).unwrap(), party.session);
    for (lost, _) in fields.iter().filter(|(name, _)| !name.starts_with("member:")) {
        let rest = fields.iter().filter(|(name, _)| name != lost).cloned();
        assert!(matches!(from_fields(rest), Err(FieldError::Missing(_))), "{lost}");
    }
    let mixed = fields.iter().cloned().map(|(name, value)| match name.starts_with("item:") {
        true => (name, serde_json::to_vec(&other_item(1, "mixed up")).unwrap()),
        false => (name, value),
    });
    assert!(matches!(from_fields(mixed), Err(FieldError::HashMismatch)));
}
