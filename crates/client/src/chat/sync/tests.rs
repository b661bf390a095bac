//! Requesting pages.

use std::time::Duration;

use ulid::Ulid;

use super::*;
use crate::chat::config::ChatConfig;
use crate::chat::fixtures::{CHAT, OTHER, back_off, draft, error, message};
use crate::clock;

const A_WHILE: Duration = Duration::from_secs(60);

struct Syncing {
    sync: Sync,
    cursors: Cursors,
    outbox: Outbox,
    now: Instant,
}

impl Syncing {
    fn start() -> Self {
        let outbox = Outbox::new(&ChatConfig::default(), back_off());
        let cursors = Cursors::default();
        Self { sync: Sync::new(back_off()), cursors, outbox, now: clock::now() }
    }

    /// A chat is seen to have this head.
    fn sees(&mut self, chat_id: ChatId, head: u64) {
        self.cursors.note_sequence(chat_id, head);
        self.sync.schedule(chat_id, self.now);
    }

    fn next(&mut self) -> Option<SyncRequest> {
        self.sync.next(self.now, &self.cursors, &self.outbox)
    }

    fn is_rejected(&mut self, request: &SyncRequest, code: ErrorCode) -> ErrorEffect {
        self.sync.on_error(&error(&request.request_id, code), self.now)
    }
}

#[test]
fn a_page_is_requested_once_and_after_the_cursor() {
    let mut syncing = Syncing::start();
    syncing.cursors.receive(&message(CHAT, 1));
    syncing.sees(CHAT, 3);
    let request = syncing.next().unwrap();
    assert_eq!((request.chat_id, request.after_sequence), (CHAT, 1));
    syncing.sees(CHAT, 4);
    assert_eq!(syncing.next(), None, "one page of a chat at a time");
    let answered_request = syncing.sync.answered(&request.request_id).unwrap();
    assert_eq!(answered_request.range, PageRange { after: 1, highest_seen: 3 });
    assert_eq!(syncing.sync.answered(&request.request_id), None);
}

#[test]
fn at_most_five_requests_are_unanswered() {
    let mut syncing = Syncing::start();
    for chat in 0..9_u32 {
        syncing.sees(ChatId(Ulid(chat.into())), 1);
    }
    let requests: Vec<_> = std::iter::from_fn(|| syncing.next()).collect();
    assert_eq!(requests.len(), IN_FLIGHT_MAX);
    assert_eq!(syncing.sync.due_at(), None);
    syncing.sync.answered(&requests[0].request_id);
    assert!(syncing.next().is_some());
}

#[test]
fn a_chat_that_has_caught_up_is_skipped() {
    let mut syncing = Syncing::start();
    syncing.sees(CHAT, 1);
    syncing.sees(OTHER, 1);
    syncing.cursors.receive(&message(CHAT, 1));
    assert_eq!(syncing.next().map(|request| request.chat_id), Some(OTHER));
    assert_eq!((syncing.next(), syncing.sync.due_at()), (None, None));
}

#[test]
fn a_sequence_that_an_unanswered_send_may_have_is_not_requested() {
    let mut syncing = Syncing::start();
    syncing.outbox.push(draft(CHAT, "one")).unwrap();
    syncing.outbox.next(syncing.now, &syncing.cursors).unwrap();
    syncing.cursors.receive(&message(CHAT, 2));
    syncing.sees(CHAT, 2);
    assert_eq!(syncing.next(), None);
    syncing.outbox.disconnected();
    syncing.sees(CHAT, 2);
    assert!(syncing.next().is_some());
}

#[test]
fn a_busy_server_delays_the_requests_of_all_chats() {
    let mut syncing = Syncing::start();
    syncing.sees(CHAT, 1);
    let request = syncing.next().unwrap();
    let mut busy = error(&request.request_id, ErrorCode::ServerBusy);
    busy.retry_after_seconds = Some(3);
    assert_eq!(syncing.sync.on_error(&busy, syncing.now), ErrorEffect::Retry);
    syncing.sees(OTHER, 1);
    assert!(syncing.sync.due_at().unwrap() >= syncing.now + Duration::from_secs(3));
    syncing.now += A_WHILE;
    assert!(syncing.next().is_some() && syncing.next().is_some());
}

#[test]
fn the_delay_of_a_failing_chat_is_not_shortened_by_new_messages() {
    let mut syncing = Syncing::start();
    syncing.sees(CHAT, 1);
    let request = syncing.next().unwrap();
    assert_eq!(syncing.is_rejected(&request, ErrorCode::InternalError), ErrorEffect::Retry);
    syncing.sees(CHAT, 2);
    syncing.sees(OTHER, 1);
    assert_eq!(syncing.next().map(|request| request.chat_id), Some(OTHER));
    assert_eq!(syncing.next(), None);
    syncing.now += A_WHILE;
    assert_eq!(syncing.next().map(|request| request.chat_id), Some(CHAT));
}

#[test]
fn a_final_rejection_reports_whether_the_user_is_no_member() {
    let mut syncing = Syncing::start();
    syncing.sees(CHAT, 1);
    let request = syncing.next().unwrap();
    assert_eq!(syncing.is_rejected(&request, ErrorCode::NotAMember), ErrorEffect::NotAMember(CHAT));
    assert_eq!(syncing.is_rejected(&request, ErrorCode::NotAMember), ErrorEffect::Unrelated);
    syncing.sees(OTHER, 1);
    let request = syncing.next().unwrap();
    assert_eq!(syncing.is_rejected(&request, ErrorCode::InvalidMessage), ErrorEffect::Rejected);
    assert_eq!(syncing.next(), None);
}

#[test]
fn a_page_lost_with_its_connection_can_be_requested_again() {
    let mut syncing = Syncing::start();
    syncing.sees(CHAT, 1);
    let lost = syncing.next().unwrap();
    syncing.sync.disconnected();
    assert_eq!(syncing.sync.answered(&lost.request_id), None);
    syncing.sees(CHAT, 1);
    assert_ne!(syncing.next().unwrap().request_id, lost.request_id);
}
