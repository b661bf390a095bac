//! Edits in one commit have the same effects as one after the other.

use super::*;
use crate::value::operation::{Decided, decide};

fn context(party: &Party, by: &str, name: Option<&str>) -> Context {
    let (now_ms, limits) = (party.now_ms, party.limits);
    let correlation_id = name.map(str::to_owned);
    Context { now_ms, actor: Some(actor(by)), correlation_id, limits }
}

fn decided(party: &Party, edits: &[(&str, Option<&str>, Edit)]) -> Decided {
    let operations = edits.iter().map(|(_, _, edit)| Operation::Edit(edit.clone()));
    let operations: Vec<Operation> = operations.collect();
    let contexts = edits.iter().map(|(by, name, _)| context(party, by, *name));
    decide(&party.session, &party.log, &operations.iter().zip(contexts).collect::<Vec<_>>())
}

/// Commits a decision.
fn fold(party: &mut Party, decided: &Decided) {
    let entry = decided.entry("together").unwrap();
    party.session.fold_entry(&entry).unwrap();
    party.log.append(&entry);
    assert_eq!(party.session, decided.after, "folding the commit gives the same session");
}

fn edits() -> Vec<(&'static str, Option<&'static str>, Edit)> {
    vec![
        ("ana", None, Edit::Add { item: item(1), position: None }),
        ("bo", Some("bo-1"), Edit::Add { item: item(2), position: Some(0) }),
        ("bo", None, Edit::Reorder { uuid: uuid(1), old_index: 0, new_index: 0 }),
        ("ana", Some("ana-1"), Edit::SetCurrent { item: Some(item(3)), should_add: true }),
        ("bo", None, Edit::Remove { uuid: uuid(1) }),
        ("ana", None, Edit::Mirror { mirrored: true }),
    ]
}

#[test]
fn edits_together_are_what_they_would_be_one_after_the_other() {
    let (mut together, mut alone) = (Party::of(&["ana", "bo"]), Party::of(&["ana", "bo"]));
    let version = together.session.version;
    let decided = decided(&together, &edits());
    fold(&mut together, &decided);
    let mut outcomes = Vec::new();
    for (by, name, edit) in edits() {
        alone.correlation_id = name.map(str::to_owned);
        outcomes.push(alone.edit(by, edit).unwrap().outcome);
    }
    let results: Vec<Outcome> = decided.results.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, outcomes);
    assert_eq!(together.session.version, version + 1, "it is one commit");
    assert_eq!(together.session.queue, alone.session.queue);
    let current = alone.session.queue.sequence;
    assert_eq!(together.log.replay(0, current), alone.log.replay(0, current), "event by event");
    for (by, operation, name) in
        [("bo", "addQueueItem", "bo-1"), ("ana", "setCurrentClimb", "ana-1")]
    {
        let remembered = |party: &Party| {
            party
                .log
                .remembered(&member(by), operation, name)
                .cloned()
                .expect("it has a correlation id")
        };
        assert_eq!(remembered(&together), remembered(&alone));
    }
}

#[test]
fn an_edit_that_is_rejected_or_has_no_effect_does_not_affect_the_others() {
    let mut party = Party::of(&["ana"]);
    let before = party.session.clone();
    let absent = |by| (by, None, Edit::Reorder { uuid: uuid(9), old_index: 0, new_index: 0 });
    let none = decided(&party, &[absent("ana"), ("ana", None, Edit::Remove { uuid: uuid(9) })]);
    assert!(!none.is_known, "the results may differ in a newer session");
    assert!(none.entry("none").is_none() && none.results[0].is_err() && none.results[1].is_ok());
    assert_eq!(none.after, before, "there is nothing to commit");
    let add = ("ana", None, Edit::Add { item: item(1), position: None });
    let decided = decided(&party, &[absent("ana"), absent("stranger"), add]);
    let codes = decided.results.iter().map(|result| result.as_ref().err().map(|error| error.code));
    let expected = [Some(ErrorCode::InvalidMessage), Some(ErrorCode::NotAMember), None];
    assert_eq!(codes.collect::<Vec<_>>(), expected);
    fold(&mut party, &decided);
    assert_eq!(party.uuids(), [uuid(1)]);
    assert_eq!(party.session.queue.sequence, 1);
}

#[test]
fn the_same_correlation_id_twice_in_one_commit_is_performed_once() {
    let mut party = Party::of(&["ana"]);
    let add = || ("ana", Some("ana-1"), Edit::Add { item: item(1), position: None });
    let remove = ("ana", None, Edit::Remove { uuid: uuid(1) });
    let first = decided(&party, &[add(), remove, add()]);
    assert_eq!(first.results[0], Ok(Outcome::Item(item(1))));
    assert_eq!(first.results[2], first.results[0], "the first result again");
    fold(&mut party, &first);
    assert_eq!((party.uuids().len(), party.session.queue.sequence), (0, 2));
    let again = decided(&party, &[add()]);
    assert!(again.is_known && again.entry("again").is_none());
    assert!(again.results == [Ok(Outcome::Item(item(1)))]);
}
