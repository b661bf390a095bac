//! Joining, leaving and leading.

use super::*;
use crate::value::session::Status;

#[test]
fn the_first_member_leads_and_the_longest_present_succeeds_it() {
    let mut party = Party::of(&["cy", "bo", "ana"]);
    assert_eq!((party.leader(), party.session.roster.epoch), (Some("cy"), 1));
    let applied = party.leave("cy");
    assert_eq!(events(&applied), ["UserLeft", "LeaderChanged"]);
    assert_eq!((party.leader(), party.session.roster.epoch), (Some("bo"), 2));
}

#[test]
fn the_first_member_leads_also_if_the_clock_stands_still_or_goes_back() {
    let mut party = Party::of(&["first"]);
    for (name, now_ms) in [("cy", 5_000), ("bo", 5_000), ("ana", 4_000)] {
        party.now_ms = now_ms;
        party.join(name);
    }
    for next in ["cy", "bo", "ana"] {
        let leader = party.leader().unwrap().to_owned();
        party.leave(&leader);
        assert_eq!(party.leader(), Some(next));
    }
}

#[test]
fn the_leader_stays_when_another_member_leaves() {
    let mut party = Party::of(&["ana", "bo"]);
    assert_eq!(events(&party.leave("bo")), ["UserLeft"]);
    assert_eq!((party.leader(), party.session.roster.epoch), (Some("ana"), 1));
}

#[test]
fn joining_again_on_the_same_socket_changes_nothing_and_keeps_the_lead() {
    let mut party = Party::of(&["ana", "bo"]);
    let again = party.join("ana");
    assert_eq!(again.outcome, Outcome::Joined { member: member("ana"), resumed: false });
    assert!(again.facts.is_empty());
    assert_eq!(party.leader(), Some("ana"));
}

#[test]
fn joining_again_with_another_name_is_an_update() {
    let mut party = Party::of(&["ana", "bo"]);
    let join = Join { username: Some("Ana".to_owned()), ..plain_join() };
    assert_eq!(events(&party.join_as(actor("ana"), join).unwrap()), ["UserJoined"]);
    let empty = Join { username: Some(String::new()), ..plain_join() };
    assert!(party.join_as(actor("ana"), empty).unwrap().facts.is_empty());
    assert_eq!(party.session.roster.get(&member("ana")).unwrap().username, "Ana");
}

#[test]
fn a_member_is_shown_by_its_name_or_by_the_random_end_of_its_id() {
    let mut party = Party::new();
    let id = "conn_01JD0000000000000000ABCDEF_17";
    party.join(id);
    assert_eq!(party.session.roster.get(&member(id)).unwrap().username, "User-ABCDEF");
    let uuid = "5f0c1a52-9f3e-4a57-8a6b-0123456789ab";
    assert_eq!(member(uuid).default_username(), "User-6789ab");
    let join = Join { username: Some("Bo".to_owned()), ..plain_join() };
    let applied = party.join_as(actor("bo"), join).unwrap();
    let Some(SessionChange::MemberJoined { member }) =
        applied.facts.iter().find_map(Fact::session_event).map(|event| &event.change)
    else {
        panic!("nobody joined")
    };
    assert_eq!(member.username, "Bo");
}

#[test]
fn the_same_account_in_two_tabs_is_two_members() {
    let mut party = Party::new();
    for tab in ["tab1", "tab2"] {
        let by = Actor { account: Some("ANA".parse().unwrap()), ..actor(tab) };
        party.join_as(by, plain_join()).unwrap();
    }
    assert_eq!(party.session.roster.members.len(), 2);
    assert_eq!(party.leader(), Some("tab1"));
}

#[test]
fn leaving_returns_whether_the_caller_was_a_member() {
    let mut party = Party::of(&["ana"]);
    assert_eq!(party.leave("bo").outcome, Outcome::Left { was_member: false });
    assert_eq!(party.leave("ana").outcome, Outcome::Left { was_member: true });
    assert_eq!(party.leave("ana").outcome, Outcome::Left { was_member: false });
}

#[test]
fn a_session_is_inactive_only_when_its_last_member_on_any_node_left() {
    let mut party = Party::new();
    party.join_as(on_node("ana", "node-1", 1), plain_join()).unwrap();
    party.join_as(on_node("bo", "node-2", 1), plain_join()).unwrap();
    party.depart(&on_node("ana", "node-1", 1));
    assert_eq!(party.session.status, Status::Active);
    party.depart(&on_node("bo", "node-2", 1));
    assert_eq!((party.session.status, party.leader()), (Status::Inactive, None));
    party.join("cy");
    assert_eq!((party.session.status, party.leader()), (Status::Active, Some("cy")));
    assert_eq!(party.session.roster.epoch, 3);
}

#[test]
fn the_members_of_a_dead_node_are_removed_and_another_leads() {
    let mut party = Party::new();
    for (name, node, socket) in [("ana", "node-1", 1), ("bo", "node-1", 2), ("cy", "node-2", 1)] {
        party.join_as(on_node(name, node, socket), plain_join()).unwrap();
    }
    let lost = Membership::NodeLost { node: "node-1".parse().unwrap() };
    let applied = party.member(None, lost.clone()).unwrap();
    assert_eq!(events(&applied), ["UserLeft", "UserLeft", "LeaderChanged"]);
    assert_eq!(party.leader(), Some("cy"));
    assert!(party.member(None, lost).unwrap().facts.is_empty(), "only once");
}

#[test]
fn a_node_that_was_taken_for_dead_registers_its_sockets_again() {
    let mut party = Party::new();
    party.join_as(on_node("ana", "node-1", 1), plain_join()).unwrap();
    party.join_as(on_node("bo", "node-2", 1), plain_join()).unwrap();
    let ana = party.session.roster.get(&member("ana")).unwrap().clone();
    party.member(None, Membership::NodeLost { node: "node-1".parse().unwrap() }).unwrap();
    let applied = party.member(None, Membership::Reattach { member: ana.clone() }).unwrap();
    assert_eq!(events(&applied), ["UserJoined"]);
    assert_eq!(party.leader(), Some("bo"), "there is one leader");
    assert_eq!(party.session.roster.get(&ana.id), Some(&ana));
    let again = party.member(None, Membership::Reattach { member: ana }).unwrap();
    assert!(again.facts.is_empty());
}

#[test]
fn a_change_of_the_name_is_one_event() {
    let mut party = Party::of(&["ana"]);
    let change = |name: &str| Membership::UpdateUsername {
        username: name.to_owned(),
        avatar_url: Some("/ana.png".to_owned()),
    };
    let applied = party.member(Some(actor("ana")), change("Ana")).unwrap();
    assert_eq!(events(&applied), ["UserJoined"]);
    assert!(party.member(Some(actor("ana")), change("Ana")).unwrap().facts.is_empty());
    assert!(party.member(Some(actor("bo")), change("Bo")).unwrap().facts.is_empty());
    let (_, message) = refusal(party.member(Some(actor("ana")), change("")));
    assert_eq!(message, "Invalid username: Username cannot be empty");
    let bad = Membership::UpdateUsername {
        username: "Ana".to_owned(),
        avatar_url: Some("javascript:alert(1)".to_owned()),
    };
    let (_, message) = refusal(party.member(Some(actor("ana")), bad));
    assert!(message.contains("Avatar URL must use http(s) or be a relative path"), "{message}");
}

#[test]
fn session_events_are_numbered_without_a_gap() {
    let mut party = Party::of(&["ana", "bo"]);
    assert_eq!(party.session.roster_sequence, 3, "joined, elected, joined");
    let applied = party.leave("ana");
    let numbers = applied.facts.iter().filter_map(Fact::session_event);
    assert_eq!(numbers.map(|event| event.sequence).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn a_full_session_rejects_new_members() {
    let mut party = Party::of(&["ana"]);
    party.limits.members_max = 1;
    let (code, _) = refusal(party.join_as(actor("bo"), plain_join()));
    assert_eq!(code, ErrorCode::ServerBusy);
    assert!(party.join("ana").facts.is_empty());
}
