//! The members that a subscriber knows of after it has missed events.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};

use crate::room::listener::{Listener, ListenerEvent, SessionUpdateKind, Topic, subscription};
use crate::value::roster::MemberId;
use crate::value::tests::{Party, actor, member};

/// Reads all buffered events, and applies them as clients do.
fn receive_all(listener: &mut Listener, users: &mut BTreeSet<MemberId>) {
    while let Some(Some(event)) = listener.next().now_or_never() {
        let ListenerEvent::Session(update) = event else { panic!("{event:?}") };
        match update.change {
            SessionUpdateKind::UserJoined { user } => drop(users.insert(user.id)),
            SessionUpdateKind::UserLeft { user_id } => drop(users.remove(&user_id)),
            SessionUpdateKind::LeaderChanged { .. } | SessionUpdateKind::SessionEnded { .. } => {}
        }
    }
}

#[test]
fn a_snapshot_of_the_members_removes_those_who_have_left_meanwhile() {
    let mut party = Party::of(&["ana", "bo", "cy"]);
    let attachment = actor("ana").attachment;
    let (publisher, mut listener) = subscription(Topic::Session, member("ana"), attachment, 100);
    let mut users = BTreeSet::new();
    publisher.publish_snapshot(&Arc::new(party.session.clone()));
    receive_all(&mut listener, &mut users);
    assert_eq!(users, ["ana", "bo", "cy"].map(member).into());
    party.leave("bo");
    party.join("dee");
    publisher.publish_snapshot(&Arc::new(party.session.clone()));
    receive_all(&mut listener, &mut users);
    assert_eq!(users, ["ana", "cy", "dee"].map(member).into());
}
