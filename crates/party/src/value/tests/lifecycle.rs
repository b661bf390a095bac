//! The creation, restoring and end of sessions.

use super::*;
use crate::value::limits::FORMER_LEADER_WITHIN_MS;
use crate::value::operation::NewSession;
use crate::value::session::Status;
use crate::{from_fields, to_fields};

fn with_seed(queue: &[u32], current: Option<u32>) -> Join {
    Join {
        initial_queue: queue.iter().copied().map(item).collect(),
        initial_current: current.map(item),
        session_name: Some("Evening".to_owned()),
        ..plain_join()
    }
}

fn create() -> Lifecycle {
    let board_path = "/kilter/9/9/9".to_owned();
    Lifecycle::Create(Box::new(NewSession { board_path, ..NewSession::default() }))
}

const END: Lifecycle = Lifecycle::End { expected_epoch: None };

#[test]
fn a_new_session_has_sequence_zero_and_the_hash_that_clients_expect() {
    let party = Party::of(&["ana"]);
    assert_eq!(party.session.queue.sequence, 0);
    assert_eq!(party.session.queue.state_hash.to_string(), "995eb8de");
}

#[test]
fn a_seed_is_sequence_one_without_an_event() {
    let mut party = Party::new();
    let applied = party.join_as(actor("ana"), with_seed(&[1, 2], Some(2))).unwrap();
    assert_eq!(events(&applied), ["UserJoined", "LeaderChanged"]);
    assert_eq!(party.session.queue.sequence, 1);
    assert_eq!(party.uuids(), [1, 2].map(uuid));
    assert_eq!(party.session.details.name.as_deref(), Some("Evening"));
}

#[test]
fn a_seed_of_only_a_current_climb_is_applied() {
    let mut party = Party::new();
    party.join_as(actor("ana"), with_seed(&[], Some(2))).unwrap();
    assert_eq!((party.session.queue.sequence, party.current()), (1, Some(uuid(2).as_str())));
}

#[test]
fn only_the_first_join_brings_a_queue_a_name_and_a_path() {
    let mut party = Party::of(&["ana"]);
    let join = Join { board_path: "/tension/1".to_owned(), ..with_seed(&[1], None) };
    party.join_as(actor("bo"), join.clone()).unwrap();
    party.leave("ana");
    party.leave("bo");
    party.join_as(actor("cy"), join).unwrap();
    assert_eq!((party.session.queue.sequence, party.uuids().len()), (0, 0));
    assert_eq!(party.session.details.name, None);
    assert_eq!(party.session.details.board_path.as_deref(), Some("/kilter/1/2/3"));
}

#[test]
fn a_seed_obeys_the_limits_of_every_queue() {
    let mut party = Party::new();
    let (code, message) = refusal(party.join_as(actor("ana"), with_seed(&[1, 1], None)));
    assert_eq!(code, ErrorCode::InvalidMessage);
    assert!(message.starts_with("Invalid initialQueue: "), "{message}");
    assert!(!party.session.exists(), "a refused join creates nothing");
}

#[test]
fn a_created_session_accepts_the_seed_of_the_first_join_and_keeps_its_path() {
    let mut party = Party::new();
    party.live("ANA", create()).unwrap();
    assert_eq!((party.session.status, party.session.exists()), (Status::Inactive, true));
    party.join_as(actor("bo"), with_seed(&[1], None)).unwrap();
    assert_eq!(party.session.queue.sequence, 1);
    assert_eq!(party.session.details.board_path.as_deref(), Some("/kilter/9/9/9"));
    let creator = party.session.details.creator.as_ref().map(|account| account.as_str());
    assert_eq!(creator, Some("ANA"));
    assert_eq!(refusal(party.live("ANA", create())).0, ErrorCode::Conflict);
}

#[test]
fn only_signed_in_callers_create_sessions_and_every_invalid_field_is_named() {
    let mut party = Party::new();
    let (code, message) = refusal(party.live("ana", create()));
    assert_eq!(code, ErrorCode::Unauthorized);
    assert_eq!(message, "Authentication required to perform this operation");
    let bad = NewSession {
        board_path: "//evil.example".to_owned(),
        color: Some("red".to_owned()),
        latitude: f64::NAN,
        ..NewSession::default()
    };
    let (_, message) = refusal(party.live("ANA", Lifecycle::Create(Box::new(bad))));
    assert_eq!(
        message,
        "Invalid input: Board path must start with a single /, \
         Latitude must be between -90 and 90, Color must be a valid hex color"
    );
}

#[test]
fn a_path_that_leads_elsewhere_is_refused_on_every_join() {
    let mut party = Party::of(&["ana"]);
    for path in ["", "@evil.example/x", "https://evil.example", "//evil", "/\\evil", "/a\nb"] {
        let join = Join { board_path: path.to_owned(), ..plain_join() };
        let (code, message) = refusal(party.join_as(actor("bo"), join));
        assert_eq!(code, ErrorCode::InvalidMessage, "{path:?}");
        assert!(message.starts_with("Invalid boardPath: Board path "), "{message}");
    }
}

#[test]
fn the_signed_in_user_whose_join_creates_a_session_may_end_it_from_anywhere() {
    let mut party = Party::of(&["ANA", "bo"]);
    party.leave("ANA");
    let elsewhere = Actor { member: member("http-1"), ..on_node("ANA", "node-2", 7) };
    let applied = party.perform(Some(elsewhere), &Operation::Lifecycle(END)).unwrap();
    assert_eq!(events(&applied), ["SessionEnded"]);
    assert_eq!(party.session.status, Status::Ended);
}

#[test]
fn neither_a_member_nor_the_leader_of_another_session_ends_it() {
    let mut party = Party::of(&["ANA", "BO"]);
    for name in ["BO", "CY", "dee"] {
        let (code, message) = refusal(party.live(name, END));
        assert_eq!(code, ErrorCode::Forbidden);
        assert_eq!(message, "Only the session creator or leader can end a session");
    }
}

#[test]
fn a_new_leader_may_end_the_session_at_once_and_the_old_one_no_longer() {
    let mut party = Party::of(&["ana", "bo"]);
    party.leave("ana");
    party.join("ana");
    assert_eq!(refusal(party.live("ana", END)).0, ErrorCode::Forbidden);
    let stale = Lifecycle::End { expected_epoch: Some(1) };
    assert_eq!(refusal(party.live("bo", stale)).0, ErrorCode::Conflict);
    let applied = party.live("bo", Lifecycle::End { expected_epoch: Some(2) }).unwrap();
    let Some(SessionChange::Ended { reason, .. }) =
        applied.facts.iter().find_map(Fact::session_event).map(|event| &event.change)
    else {
        panic!("it has not ended")
    };
    assert_eq!(reason, "Session ended by leader");
}

#[test]
fn an_ended_session_is_over_for_good() {
    let mut party = Party::of(&["ANA", "bo"]);
    party.add("bo", 1);
    party.live("ANA", END).unwrap();
    let ended = party.session.clone();
    assert!(ended.details.ended_at_ms.is_some() && ended.roster.members.is_empty());
    assert_eq!(ended.queue.queue.len(), 1, "the queue stays");
    for result in [
        party.join_as(actor("cy"), plain_join()),
        party.edit("bo", Edit::Remove { uuid: uuid(1) }),
        party.live("ANA", END),
    ] {
        let (code, message) = refusal(result);
        assert_eq!(code, ErrorCode::Conflict);
        assert!(message.contains("Session has ended"), "{message}");
    }
    party.depart(&actor("bo"));
    party.leave("bo");
    party.live("ANA", Lifecycle::EndIdle).unwrap();
    party.live("ANA", Lifecycle::Restore { seen: None }).unwrap();
    assert_eq!(party.session, ended);
}

#[test]
fn an_idle_session_is_ended_unless_it_has_members_or_is_permanent() {
    let mut party = Party::of(&["ana"]);
    assert!(party.live("server", Lifecycle::EndIdle).unwrap().facts.is_empty());
    party.leave("ana");
    let mut permanent = Party::new();
    let new = NewSession { board_path: "/a".to_owned(), is_permanent: true, ..Default::default() };
    permanent.live("ANA", Lifecycle::Create(Box::new(new))).unwrap();
    assert!(permanent.live("server", Lifecycle::EndIdle).unwrap().facts.is_empty());
    assert_eq!(events(&party.live("server", Lifecycle::EndIdle).unwrap()), ["SessionEnded"]);
}

#[test]
fn a_restored_session_continues_above_every_number_that_was_seen() {
    let mut party = Party::of(&["ana"]);
    party.add("ana", 1);
    let archived = party.session.clone();
    party.live("server", Lifecycle::Restore { seen: Some((0, 40)) }).unwrap();
    let restored = &party.session;
    assert_eq!((restored.incarnation, restored.queue.sequence), (1, 10_040));
    assert_eq!(restored.queue.state_hash, archived.queue.state_hash);
    assert_eq!((restored.status, restored.roster.members.len()), (Status::Inactive, 0));
    let ana = archived.roster.get(&member("ana")).unwrap().clone();
    party.member(None, Membership::Reattach { member: ana }).unwrap();
    assert_eq!(party.leader(), Some("ana"));
    assert!(party.session.roster.epoch > archived.roster.epoch);
    party.add("ana", 2);
    assert_eq!(party.session.queue.sequence, 10_041);
}

#[test]
fn the_leader_before_a_loss_leads_again_if_it_returns_in_time() {
    for (waits_ms, leader) in [(0, "ana"), (FORMER_LEADER_WITHIN_MS, "bo")] {
        let mut party = Party::of(&["ana", "bo"]);
        let before = party.session.clone();
        let reattach = |party: &mut Party, name: &str| {
            let member = before.roster.get(&member(name)).unwrap().clone();
            party.member(None, Membership::Reattach { member }).unwrap()
        };
        party.live("server", Lifecycle::Restore { seen: None }).unwrap();
        reattach(&mut party, "bo");
        assert_eq!(party.leader(), Some("bo"), "another member leads meanwhile");
        let epoch = party.session.roster.epoch;
        party.now_ms += waits_ms;
        reattach(&mut party, "ana");
        assert_eq!(party.leader(), Some(leader), "after {waits_ms} ms");
        assert_eq!(party.session.roster.epoch > epoch, leader == "ana");
        assert_eq!(from_fields(to_fields(&party.session)).unwrap(), party.session);
    }
}
