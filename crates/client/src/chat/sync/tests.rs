//! The rules of asking for pages.

use std::time::Duration;

use ulid::Ulid;

use super::*;
use crate::chat::config::ChatConfig;
use crate::chat::fixtures::{CHAT, OTHER, back_off, draft, error, message};
use crate::clock;

const A_WHILE: Duration = Duration::from_secs(60);

struct Asking {
    sync: Sync,
    cursors: Cursors,
    outbox: Outbox,
    now: Instant,
}

impl Asking {
    fn start() -> Self {
        let outbox = Outbox::new(&ChatConfig::default(), back_off());
        let cursors = Cursors::default();
        Self { sync: Sync::new(back_off()), cursors, outbox, now: clock::now() }
    }

    /// A chat turns out to have this head.
    fn sees(&mut self, chat_id: ChatId, head: u64) {
        self.cursors.saw(chat_id, head);
        self.sync.want(chat_id, self.now);
    }

    fn next(&mut self) -> Option<SyncRequest> {
        self.sync.next(self.now, &self.cursors, &self.outbox)
    }

    fn is_refused(&mut self, request: &SyncRequest, code: ErrorCode) -> Refused {
        self.sync.refused(&error(&request.request_id, code), self.now)
    }
}

#[test]
fn a_page_is_asked_for_from_the_cursor_and_once() {
    let mut asking = Asking::start();
    asking.cursors.take(&message(CHAT, 1));
    asking.sees(CHAT, 3);
    let request = asking.next().unwrap();
    assert_eq!((request.chat_id, request.after_sequence), (CHAT, 1));
    asking.sees(CHAT, 4);
    assert_eq!(asking.next(), None, "one page of a chat at a time");
    let asked = asking.sync.answered(&request.request_id).unwrap();
    assert_eq!(asked.range, PageRange { after: 1, highest_seen: 3 });
    assert_eq!(asking.sync.answered(&request.request_id), None);
}

#[test]
fn at_most_five_pages_are_on_their_way() {
    let mut asking = Asking::start();
    for chat in 0..9_u32 {
        asking.sees(ChatId(Ulid(chat.into())), 1);
    }
    let requests: Vec<_> = std::iter::from_fn(|| asking.next()).collect();
    assert_eq!(requests.len(), IN_FLIGHT_MAX);
    assert_eq!(asking.sync.due_at(), None);
    asking.sync.answered(&requests[0].request_id);
    assert!(asking.next().is_some());
}

#[test]
fn a_chat_that_caught_up_meanwhile_is_passed_over() {
    let mut asking = Asking::start();
    asking.sees(CHAT, 1);
    asking.sees(OTHER, 1);
    asking.cursors.take(&message(CHAT, 1));
    assert_eq!(asking.next().map(|request| request.chat_id), Some(OTHER));
    assert_eq!((asking.next(), asking.sync.due_at()), (None, None));
}

#[test]
fn a_number_that_an_unanswered_send_may_have_is_not_asked_for() {
    let mut asking = Asking::start();
    asking.outbox.push(draft(CHAT, "one")).unwrap();
    asking.outbox.next(asking.now, &asking.cursors).unwrap();
    asking.cursors.take(&message(CHAT, 2));
    asking.sees(CHAT, 2);
    assert_eq!(asking.next(), None);
    asking.outbox.disconnected();
    asking.sees(CHAT, 2);
    assert!(asking.next().is_some());
}

#[test]
fn a_busy_server_is_asked_again_after_its_pause_and_not_for_other_chats_either() {
    let mut asking = Asking::start();
    asking.sees(CHAT, 1);
    let request = asking.next().unwrap();
    let mut busy = error(&request.request_id, ErrorCode::ServerBusy);
    busy.retry_after_seconds = Some(3);
    assert_eq!(asking.sync.refused(&busy, asking.now), Refused::ForNow);
    asking.sees(OTHER, 1);
    assert!(asking.sync.due_at().unwrap() >= asking.now + Duration::from_secs(3));
    asking.now += A_WHILE;
    assert!(asking.next().is_some() && asking.next().is_some());
}

#[test]
fn the_pause_of_a_failing_chat_is_its_own_and_new_messages_do_not_shorten_it() {
    let mut asking = Asking::start();
    asking.sees(CHAT, 1);
    let request = asking.next().unwrap();
    assert_eq!(asking.is_refused(&request, ErrorCode::InternalError), Refused::ForNow);
    asking.sees(CHAT, 2);
    asking.sees(OTHER, 1);
    assert_eq!(asking.next().map(|request| request.chat_id), Some(OTHER));
    assert_eq!(asking.next(), None);
    asking.now += A_WHILE;
    assert_eq!(asking.next().map(|request| request.chat_id), Some(CHAT));
}

#[test]
fn a_refusal_for_good_says_whether_the_user_is_no_member() {
    let mut asking = Asking::start();
    asking.sees(CHAT, 1);
    let request = asking.next().unwrap();
    assert_eq!(asking.is_refused(&request, ErrorCode::NotAMember), Refused::NotAMember(CHAT));
    assert_eq!(asking.is_refused(&request, ErrorCode::NotAMember), Refused::NotMine);
    asking.sees(OTHER, 1);
    let request = asking.next().unwrap();
    assert_eq!(asking.is_refused(&request, ErrorCode::InvalidMessage), Refused::Definitely);
    assert_eq!(asking.next(), None);
}

#[test]
fn a_page_lost_with_its_connection_can_be_wanted_again() {
    let mut asking = Asking::start();
    asking.sees(CHAT, 1);
    let lost = asking.next().unwrap();
    asking.sync.disconnected();
    assert_eq!(asking.sync.answered(&lost.request_id), None);
    asking.sees(CHAT, 1);
    assert_ne!(asking.next().unwrap().request_id, lost.request_id);
}
