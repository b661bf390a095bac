//! Presence through the whole client: from the application's wish to what it is told.

use heartline_protocol::client_frame::PresenceUsers;
use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{ClientFrame, ErrorCode, RequestId, ServerFrame, UserId};

use super::talk::{Talk, manifest};
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

impl Talk {
    fn subscribes(&mut self) -> (RequestId, Vec<UserId>) {
        match self.says() {
            Some(ClientFrame::PresenceSubscribe(PresenceUsers { request_id, user_ids })) => {
                (request_id, user_ids)
            }
            other => panic!("{other:?}"),
        }
    }

    fn snapshot(&mut self, request_id: RequestId, users: Vec<Presence>) -> Vec<ChatEvent> {
        self.hears(ServerFrame::PresenceSnapshot { request_id, users })
    }

    fn changed(&mut self, presence: Presence) -> Vec<ChatEvent> {
        self.hears(ServerFrame::PresenceChanged(presence))
    }
}

#[test]
fn the_application_is_told_of_those_whom_it_watches_and_of_what_changes() {
    let mut talk = Talk::connected(&[]);
    talk.state.watch(&[user("bo"), user("cy")]).unwrap();
    let (request_id, user_ids) = talk.subscribes();
    assert_eq!(user_ids, [user("bo"), user("cy")]);
    let told = talk.snapshot(request_id, vec![online("bo", 5), unknown("cy")]);
    let expected = [online("bo", 5), unknown("cy")].map(ChatEvent::Presence);
    assert_eq!(told, expected);
    assert_eq!(talk.changed(online("bo", 4)), [], "a late word");
    assert_eq!(talk.changed(unknown("bo")), [ChatEvent::Presence(unknown("bo"))]);
    assert_eq!(talk.changed(online("bo", 3)), [ChatEvent::Presence(online("bo", 3))]);
    assert_eq!(talk.changed(online("dee", 1)), [ChatEvent::Presence(online("dee", 1))], "unasked");
    // Asking again is answered again.
    talk.state.watch(&[user("bo")]).unwrap();
    let (request_id, _) = talk.subscribes();
    let told = talk.snapshot(request_id, vec![online("bo", 3)]);
    assert_eq!(told, [ChatEvent::Presence(online("bo", 3))]);
}

#[test]
fn a_new_connection_is_asked_for_everybody_and_only_what_differs_is_told() {
    let mut talk = Talk::connected(&[]);
    talk.state.watch(&[user("bo"), user("cy")]).unwrap();
    let (request_id, _) = talk.subscribes();
    talk.snapshot(request_id, vec![online("bo", 50), unknown("cy")]);
    talk.happens(disconnected());
    assert_eq!(talk.says(), None);
    talk.happens(connected(2));
    let request_id = talk.asks_for_the_manifest();
    talk.hears(manifest(request_id, Vec::new()));
    let (request_id, user_ids) = talk.subscribes();
    assert_eq!(user_ids, [user("bo"), user("cy")]);
    let told = talk.snapshot(request_id, vec![online("bo", 7), online("cy", 6)]);
    assert_eq!(told, [ChatEvent::Presence(online("cy", 6))]);
}

#[test]
fn who_is_left_alone_is_not_told_of_and_a_refusal_is() {
    let mut talk = Talk::connected(&[]);
    talk.state.watch(&[user("bo")]).unwrap();
    let (request_id, _) = talk.subscribes();
    talk.state.unwatch(&[user("bo")]);
    assert_eq!(talk.snapshot(request_id, vec![online("bo", 5)]), [], "it was on its way");
    let Some(ClientFrame::PresenceUnsubscribe(frame)) = talk.says() else { panic!() };
    assert_eq!(talk.changed(online("bo", 6)), []);
    talk.snapshot(frame.request_id, Vec::new());
    talk.state.watch(&[user("cy")]).unwrap();
    let (request_id, _) = talk.subscribes();
    let error = error(&request_id, ErrorCode::Conflict);
    let told = talk.hears(ServerFrame::Error(error.clone()));
    assert_eq!(told, [ChatEvent::WatchRefused { user_ids: vec![user("cy")], error }]);
}
