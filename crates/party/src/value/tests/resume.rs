//! Resuming on another socket as the same member.

use super::*;
use crate::value::limits::ABANDONED_SOCKETS_MAX;
use crate::{from_fields, to_fields};

/// A session whose leader Ana may resume with the token `one`, with Bo as another member.
fn party() -> Party {
    let mut party = Party::new();
    let join = Join { resume_token: token("one"), ..plain_join() };
    party.join_as(actor("ana"), join).unwrap();
    party.join("bo");
    party
}

fn resume(party: &mut Party, socket: &str, with: &str, new: &str) -> Applied {
    let join = Join { resume_token: token(new), resumed_token: token(with), ..plain_join() };
    party.join_as(actor(socket), join).unwrap()
}

/// The newer socket acts as the member as which it resumed.
fn ana_on(socket: &str) -> Actor {
    Actor { member: member("ana"), ..actor(socket) }
}

fn edit_by(party: &mut Party, by: Actor) -> Result<Applied, PartyError> {
    party.perform(Some(by), &Operation::Edit(Edit::Add { item: item(1), position: None }))
}

const RESUMED: fn() -> Outcome = || Outcome::Joined { member: member("ana"), resumed: true };

#[test]
fn a_member_with_a_token_resumes_as_itself_without_an_event() {
    let mut party = party();
    assert_eq!(events(&party.depart(&actor("ana"))), [""; 0]);
    assert_eq!(party.leader(), Some("ana"), "it leads while it may resume");
    let back = resume(&mut party, "ana2", "one", "two");
    assert_eq!((back.outcome.clone(), events(&back)), (RESUMED(), vec![]));
    let ana = party.session.roster.get(&member("ana")).unwrap();
    assert_eq!((ana.away, &ana.attachment), (None, &actor("ana2").attachment));
    assert!(edit_by(&mut party, ana_on("ana2")).is_ok());
}

#[test]
fn a_member_that_does_not_resume_in_time_is_removed() {
    let mut party = party();
    party.depart(&actor("ana"));
    let deadline = party.session.roster.next_deadline_ms().unwrap();
    assert_eq!(deadline, party.now_ms + 30_000);
    party.now_ms = deadline - 2;
    assert!(party.member(None, Membership::Expire).unwrap().facts.is_empty());
    let over = party.member(None, Membership::Expire).unwrap();
    assert_eq!(events(&over), ["UserLeft", "LeaderChanged"]);
    let late = resume(&mut party, "ana2", "one", "two");
    assert_eq!(late.outcome, Outcome::Joined { member: member("ana2"), resumed: false });
}

#[test]
fn a_departure_of_an_older_socket_does_nothing() {
    let mut party = party();
    resume(&mut party, "ana2", "one", "two");
    assert!(party.depart(&actor("ana")).facts.is_empty());
    let lost = Membership::NodeLost { node: "node-9".parse().unwrap() };
    assert!(party.member(None, lost).unwrap().facts.is_empty());
    assert!(party.session.roster.get(&member("ana")).unwrap().away.is_none());
}

#[test]
fn an_older_socket_neither_edits_nor_joins_nor_leaves_any_more() {
    let mut party = party();
    resume(&mut party, "ana2", "one", "two");
    assert_eq!(refusal(edit_by(&mut party, actor("ana"))).0, ErrorCode::NotAMember);
    assert_eq!(refusal(party.join_as(actor("ana"), plain_join())).0, ErrorCode::Conflict);
    assert_eq!(party.leave("ana").outcome, Outcome::Left { was_member: false });
}

#[test]
fn the_former_token_is_valid_until_the_new_one_is_used() {
    let mut party = party();
    resume(&mut party, "ana2", "one", "two");
    // The reply with `two` was lost.
    assert_eq!(resume(&mut party, "ana3", "one", "three").outcome, RESUMED());
    assert_eq!(resume(&mut party, "ana4", "three", "four").outcome, RESUMED());
    let stolen = resume(&mut party, "eve", "one", "five");
    assert_eq!(stolen.outcome, Outcome::Joined { member: member("eve"), resumed: false });
}

#[test]
fn the_former_token_is_valid_until_the_new_socket_edits() {
    let mut party = party();
    resume(&mut party, "ana2", "one", "two");
    edit_by(&mut party, ana_on("ana2")).unwrap();
    let stolen = resume(&mut party, "eve", "one", "three");
    assert_eq!(stolen.outcome, Outcome::Joined { member: member("eve"), resumed: false });
    assert_eq!(resume(&mut party, "ana3", "two", "four").outcome, RESUMED());
}

#[test]
fn a_socket_is_one_member_under_any_id() {
    let mut party = party();
    resume(&mut party, "ana2", "one", "two");
    let again = party.join("ana2");
    assert_eq!(again.outcome, Outcome::Joined { member: member("ana"), resumed: false });
    assert!(again.facts.is_empty());
    assert_eq!(party.session.roster.members.len(), 2);
}

#[test]
fn another_account_cannot_resume_with_the_token() {
    let mut party = party();
    let join = Join { resumed_token: token("one"), ..plain_join() };
    let other = party.join_as(actor("EVE"), join).unwrap();
    assert_eq!(other.outcome, Outcome::Joined { member: member("EVE"), resumed: false });
}

#[test]
fn leaving_has_no_grace() {
    let mut party = party();
    assert_eq!(events(&party.leave("ana")), ["UserLeft", "LeaderChanged"]);
    let late = resume(&mut party, "ana2", "one", "two");
    assert_eq!(late.outcome, Outcome::Joined { member: member("ana2"), resumed: false });
}

#[test]
fn the_members_of_a_dead_node_that_have_a_token_are_only_away() {
    let mut party = party();
    let lost = Membership::NodeLost { node: "node-1".parse().unwrap() };
    let applied = party.member(None, lost).unwrap();
    assert_eq!(events(&applied), ["UserLeft"], "only Bo, who has no token");
    assert_eq!(party.leader(), Some("ana"));
    let ana = party.session.roster.get(&member("ana")).unwrap().clone();
    assert!(ana.away.is_some());
    party.member(None, Membership::Reattach { member: ana }).unwrap();
    assert!(party.session.roster.get(&member("ana")).unwrap().away.is_none());
}

#[test]
fn a_node_cannot_register_a_socket_again_that_was_replaced() {
    let mut party = party();
    let ana = party.session.roster.get(&member("ana")).unwrap().clone();
    resume(&mut party, "ana2", "one", "two");
    let reattach = Membership::Reattach { member: ana };
    assert_eq!(refusal(party.member(None, reattach.clone())).0, ErrorCode::NotAMember);
    party.member(Some(ana_on("ana2")), Membership::Leave).unwrap();
    assert_eq!(refusal(party.member(None, reattach)).0, ErrorCode::NotAMember, "nor after it left");
    let stored = from_fields(to_fields(&party.session)).unwrap();
    assert_eq!(stored, party.session, "the abandoned sockets are stored");
}

#[test]
fn an_abandoned_socket_may_join_again() {
    let mut party = party();
    resume(&mut party, "ana2", "one", "two");
    party.member(Some(ana_on("ana2")), Membership::Leave).unwrap();
    party.join("ana");
    let ana = party.session.roster.get(&member("ana")).unwrap().clone();
    party.member(None, Membership::NodeLost { node: "node-1".parse().unwrap() }).unwrap();
    party.member(None, Membership::Reattach { member: ana }).unwrap();

    // Two clients with the same tokens replace each other.
    let mut party = self::party();
    resume(&mut party, "ana2", "one", "two");
    resume(&mut party, "ana3", "one", "three");
    resume(&mut party, "ana2", "one", "four");
    assert_eq!(
        party.session.roster.abandoned,
        [actor("ana"), actor("ana3")].map(|it| it.attachment)
    );
}

#[test]
fn the_list_of_abandoned_sockets_is_bounded() {
    let mut party = party();
    for number in 0..100 {
        let (with, new) = (format!("token{number}"), format!("token{}", number + 1));
        let with = if number == 0 { "one" } else { &with };
        resume(&mut party, &format!("socket{number}"), with, &new);
    }
    let abandoned = &party.session.roster.abandoned;
    assert_eq!(abandoned.len(), ABANDONED_SOCKETS_MAX);
    assert_eq!(abandoned.back(), Some(&actor("socket98").attachment));
}

#[test]
fn joining_again_on_the_same_socket_renews_the_token() {
    let mut party = party();
    let join = Join { resume_token: token("two"), ..plain_join() };
    party.join_as(actor("ana"), join).unwrap();
    assert_eq!(resume(&mut party, "ana2", "two", "three").outcome, RESUMED());
    let plain = party.join_as(ana_on("ana2"), plain_join()).unwrap();
    assert!(plain.facts.is_empty(), "a join without a new token keeps the present one");
}

#[test]
fn a_client_that_lost_several_replies_still_has_a_valid_token() {
    let mut party = party();
    resume(&mut party, "ana2", "one", "two");
    let renew = |party: &mut Party, socket: &str, number: u32| {
        let join = Join { resume_token: token(&format!("new{number}")), ..plain_join() };
        party.join_as(ana_on(socket), join).unwrap();
    };
    (0..3).for_each(|number| renew(&mut party, "ana2", number));
    assert_eq!(resume(&mut party, "ana3", "one", "three").outcome, RESUMED());
    (3..20).for_each(|number| renew(&mut party, "ana3", number));
    let resume = party.session.roster.get(&member("ana")).unwrap().resume.clone().unwrap();
    assert_eq!(resume.previous.len(), 4, "their number is bounded");
}
