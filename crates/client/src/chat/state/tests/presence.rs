//! Presence from the subscription to the event.

use heartline_protocol::client_frame::PresenceUsers;
use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{ClientFrame, ErrorCode, RequestId, ServerFrame, UserId};

use super::conversation::{Conversation, manifest};
use crate::chat::event::ChatEvent;
use crate::chat::fixtures::{connected, disconnected, error};

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

fn online(name: &str, version: u64) -> Presence {
    Presence {
        user_id: user(name),
        status: PresenceStatus::Online,
        last_seen: None,
        stale: false,
        version: Some(version),
    }
}

fn unknown(name: &str) -> Presence {
    Presence { status: PresenceStatus::Unknown, version: None, ..online(name, 0) }
}

impl Conversation {
    fn subscribes(&mut self) -> (RequestId, Vec<UserId>) {
        match self.next_frame() {
            Some(ClientFrame::PresenceSubscribe(PresenceUsers { request_id, user_ids })) => {
                (request_id, user_ids)
            }
            other => panic!("{other:?}"),
        }
    }

    fn snapshot(&mut self, request_id: RequestId, users: Vec<Presence>) -> Vec<ChatEvent> {
        self.receives(ServerFrame::PresenceSnapshot { request_id, users })
    }

    fn changed(&mut self, presence: Presence) -> Vec<ChatEvent> {
        self.receives(ServerFrame::PresenceChanged(presence))
    }
}

#[test]
fn the_application_receives_the_status_of_subscribed_users_and_its_changes() {
    let mut conversation = Conversation::connected(&[]);
    conversation.state.presence_subscribe(&[user("bo"), user("cy")]).unwrap();
    let (request_id, user_ids) = conversation.subscribes();
    assert_eq!(user_ids, [user("bo"), user("cy")]);
    let events = conversation.snapshot(request_id, vec![online("bo", 5), unknown("cy")]);
    let expected = [online("bo", 5), unknown("cy")].map(ChatEvent::Presence);
    assert_eq!(events, expected);
    assert_eq!(conversation.changed(online("bo", 4)), [], "a late status");
    assert_eq!(conversation.changed(unknown("bo")), [ChatEvent::Presence(unknown("bo"))]);
    assert_eq!(conversation.changed(online("bo", 3)), [ChatEvent::Presence(online("bo", 3))]);
    assert_eq!(
        conversation.changed(online("dee", 1)),
        [ChatEvent::Presence(online("dee", 1))],
        "without a subscription"
    );
    // A repeated subscription is answered again.
    conversation.state.presence_subscribe(&[user("bo")]).unwrap();
    let (request_id, _) = conversation.subscribes();
    let events = conversation.snapshot(request_id, vec![online("bo", 3)]);
    assert_eq!(events, [ChatEvent::Presence(online("bo", 3))]);
}

#[test]
fn a_new_connection_subscribes_to_all_users_and_only_changes_are_reported() {
    let mut conversation = Conversation::connected(&[]);
    conversation.state.presence_subscribe(&[user("bo"), user("cy")]).unwrap();
    let (request_id, _) = conversation.subscribes();
    conversation.snapshot(request_id, vec![online("bo", 50), unknown("cy")]);
    conversation.on_event(disconnected());
    assert_eq!(conversation.next_frame(), None);
    conversation.on_event(connected(2));
    let request_id = conversation.requests_manifest();
    conversation.receives(manifest(request_id, Vec::new()));
    let (request_id, user_ids) = conversation.subscribes();
    assert_eq!(user_ids, [user("bo"), user("cy")]);
    let events = conversation.snapshot(request_id, vec![online("bo", 7), online("cy", 6)]);
    assert_eq!(events, [ChatEvent::Presence(online("cy", 6))]);
}

#[test]
fn an_unsubscribed_user_is_not_reported_and_a_rejection_is() {
    let mut conversation = Conversation::connected(&[]);
    conversation.state.presence_subscribe(&[user("bo")]).unwrap();
    let (request_id, _) = conversation.subscribes();
    conversation.state.presence_unsubscribe(&[user("bo")]);
    assert_eq!(
        conversation.snapshot(request_id, vec![online("bo", 5)]),
        [],
        "it was sent before the unsubscribe"
    );
    let Some(ClientFrame::PresenceUnsubscribe(frame)) = conversation.next_frame() else { panic!() };
    assert_eq!(conversation.changed(online("bo", 6)), []);
    conversation.snapshot(frame.request_id, Vec::new());
    conversation.state.presence_subscribe(&[user("cy")]).unwrap();
    let (request_id, _) = conversation.subscribes();
    let error = error(&request_id, ErrorCode::Conflict);
    let events = conversation.receives(ServerFrame::Error(error.clone()));
    assert_eq!(events, [ChatEvent::SubscriptionRejected { user_ids: vec![user("cy")], error }]);
}
