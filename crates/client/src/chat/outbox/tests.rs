//! Sending messages.

use std::time::Duration;

use heartline_protocol::ErrorCode;
use ulid::Ulid;

use super::*;
use crate::chat::fixtures::{CHAT, OTHER, ack, back_off, draft, error, message, outcome_unknown};
use crate::clock;

struct Sending {
    outbox: Outbox,
    cursors: Cursors,
    now: Instant,
}

impl Sending {
    fn start() -> Self {
        let outbox = Outbox::new(&ChatConfig::default(), back_off());
        Self { outbox, cursors: Cursors::default(), now: clock::now() }
    }

    fn push(&mut self, chat_id: ChatId, name: &str) {
        self.outbox.push(draft(chat_id, name)).unwrap();
    }

    fn next(&mut self) -> Option<SendMessage> {
        self.outbox.next(self.now, &self.cursors)
    }

    /// The next message must be this one; returns its request id.
    fn sends(&mut self, name: &str) -> RequestId {
        let frame = self.next().expect("no message is sent");
        assert_eq!((frame.client_message_id.as_str(), &*frame.content), (name, name));
        frame.request_id
    }

    fn is_acked(&mut self, request_id: &RequestId, name: &str) -> Option<Draft> {
        self.outbox.acked(&ack(request_id, CHAT, &name.parse().unwrap(), 1))
    }

    fn is_rejected(&mut self, request_id: &RequestId, code: ErrorCode) -> ErrorEffect {
        self.outbox.on_error(&error(request_id, code), self.now)
    }

    fn after(&mut self, delay: Duration) {
        self.now += delay;
    }
}

const LONG_ENOUGH: Duration = Duration::from_secs(2);

#[test]
fn a_chat_has_one_unanswered_message_and_chats_do_not_wait_for_each_other() {
    let mut sending = Sending::start();
    sending.push(CHAT, "one");
    sending.push(CHAT, "two");
    sending.push(OTHER, "other");
    let one = sending.sends("one");
    sending.sends("other");
    assert_eq!(sending.next(), None);
    assert_eq!(sending.outbox.due_at(sending.now), None);
    assert_eq!(sending.is_acked(&one, "one"), Some(draft(CHAT, "one")));
    sending.sends("two");
}

#[test]
fn a_retry_has_a_new_request_id_and_the_same_message_id_and_stays_first() {
    for code in ErrorCode::ALL.into_iter().filter(|code| code.retryable()) {
        let mut sending = Sending::start();
        sending.push(CHAT, "one");
        sending.push(CHAT, "two");
        let first = sending.sends("one");
        assert_eq!(sending.is_rejected(&first, code), ErrorEffect::Retry(CHAT), "{code:?}");
        assert_eq!(sending.next(), None, "{code:?} is retried without a delay");
        sending.after(LONG_ENOUGH);
        let second = sending.sends("one");
        assert_ne!(first, second);
        assert!(sending.is_acked(&second, "one").is_some());
        sending.sends("two");
    }
}

#[test]
fn a_final_rejection_removes_the_message_and_the_next_one_is_sent() {
    for code in ErrorCode::ALL.into_iter().filter(|code| !code.retryable()) {
        let mut sending = Sending::start();
        sending.push(CHAT, "one");
        sending.push(CHAT, "two");
        let request_id = sending.sends("one");
        let rejected = sending.is_rejected(&request_id, code);
        assert_eq!(rejected, ErrorEffect::Rejected(draft(CHAT, "one")), "{code:?}");
        sending.sends("two");
    }
}

#[test]
fn after_an_unknown_outcome_the_message_stays_until_its_ack() {
    let mut sending = Sending::start();
    sending.push(CHAT, "one");
    for _ in 0..5 {
        let request_id = sending.sends("one");
        let rejected = sending.outbox.on_error(&outcome_unknown(&request_id), sending.now);
        assert_eq!(rejected, ErrorEffect::Retry(CHAT));
        sending.after(Duration::from_secs(20));
    }
    let request_id = sending.sends("one");
    assert!(sending.is_acked(&request_id, "one").is_some());
    assert_eq!(sending.outbox.into_drafts(), []);
}

#[test]
fn a_limit_of_the_connection_delays_every_chat_and_a_failing_store_only_one() {
    let delays_others = |code| {
        let mut sending = Sending::start();
        sending.push(CHAT, "one");
        sending.push(OTHER, "other");
        let request_id = sending.sends("one");
        sending.is_rejected(&request_id, code);
        sending.next().is_none()
    };
    assert!(delays_others(ErrorCode::RateLimited));
    assert!(delays_others(ErrorCode::ServerBusy));
    assert!(delays_others(ErrorCode::Unauthorized));
    assert!(!delays_others(ErrorCode::ServiceUnavailable));
    assert!(!delays_others(ErrorCode::InternalError));
}

#[test]
fn a_newer_token_ends_the_delay_of_an_expired_one() {
    let mut sending = Sending::start();
    sending.push(CHAT, "one");
    let request_id = sending.sends("one");
    sending.is_rejected(&request_id, ErrorCode::Unauthorized);
    assert_eq!(sending.next(), None);
    sending.outbox.token_refreshed();
    sending.sends("one");
}

#[test]
fn delays_grow_with_every_failure_and_are_reset_by_an_ack() {
    let mut sending = Sending::start();
    sending.push(CHAT, "one");
    let mut delays = Vec::new();
    for _ in 0..4 {
        let request_id = sending.sends("one");
        sending.is_rejected(&request_id, ErrorCode::InternalError);
        let due_at = sending.outbox.due_at(sending.now).unwrap();
        delays.push((due_at - sending.now).as_secs_f64().round());
        sending.now = due_at;
    }
    assert!(delays.is_sorted() && delays[3] >= 6.0, "{delays:?}");
    let request_id = sending.sends("one");
    sending.is_acked(&request_id, "one");
    sending.push(CHAT, "two");
    let request_id = sending.sends("two");
    sending.is_rejected(&request_id, ErrorCode::InternalError);
    assert!(sending.outbox.due_at(sending.now).unwrap() < sending.now + LONG_ENOUGH);
}

#[test]
fn after_a_lost_connection_messages_are_queued_again_in_order() {
    let mut sending = Sending::start();
    for (chat_id, name) in [(OTHER, "one"), (CHAT, "two"), (CHAT, "three")] {
        sending.push(chat_id, name);
    }
    let lost = sending.sends("one");
    sending.sends("two");
    sending.outbox.connected(&ClientLimits::default());
    assert_eq!(sending.is_rejected(&lost, ErrorCode::NotAMember), ErrorEffect::Unrelated);
    sending.sends("one");
    sending.sends("two");
    assert_eq!(sending.next(), None);
}

#[test]
fn the_outbox_is_limited_in_messages_and_bytes() {
    let bytes = draft(CHAT, "one").bytes();
    for (messages_max, bytes_max) in [(1, usize::MAX / 2), (9, bytes)] {
        let mut sending = Sending::start();
        let config = ChatConfig {
            outbox_messages_max: messages_max,
            outbox_bytes_max: bytes_max,
            ..ChatConfig::default()
        };
        sending.outbox = Outbox::new(&config, back_off());
        sending.push(CHAT, "one");
        assert_eq!(sending.outbox.push(draft(OTHER, "two")), Err(SendError::Full));
        let request_id = sending.sends("one");
        assert_eq!(sending.outbox.push(draft(OTHER, "two")), Err(SendError::Full));
        sending.is_acked(&request_id, "one");
        sending.push(OTHER, "two");
    }
}

#[test]
fn the_same_id_cannot_be_queued_twice_in_one_chat() {
    let mut sending = Sending::start();
    sending.push(CHAT, "one");
    sending.push(OTHER, "one");
    assert_eq!(sending.outbox.push(draft(CHAT, "one")), Err(SendError::AlreadyQueued));
}

#[test]
fn an_ack_for_another_message_changes_nothing() {
    let mut sending = Sending::start();
    sending.push(CHAT, "one");
    let request_id = sending.sends("one");
    assert_eq!(sending.is_acked(&request_id, "foreign"), None);
    assert!(sending.is_acked(&"foreign".parse().unwrap(), "one").is_some());
    assert_eq!(sending.is_rejected(&request_id, ErrorCode::NotAMember), ErrorEffect::Unrelated);
}

#[test]
fn sends_are_limited_in_rate_and_in_unanswered_messages() {
    let mut sending = Sending::start();
    for chat in 0..100_u32 {
        sending.push(ChatId(Ulid(chat.into())), "hello");
    }
    let burst = std::iter::from_fn(|| sending.next()).count();
    assert_eq!(burst, 18, "the burst is 20, less a tenth");
    assert!(sending.outbox.due_at(sending.now).unwrap() > sending.now);
    for _ in 0..100 {
        sending.after(Duration::from_secs(1));
        sending.next();
    }
    assert_eq!(sending.outbox.in_flight.len(), IN_FLIGHT_MAX);
}

#[test]
fn an_unanswered_send_has_a_sequence_above_those_seen_before_its_first_attempt() {
    let mut sending = Sending::start();
    sending.cursors.receive(&message(CHAT, 7));
    sending.push(CHAT, "one");
    assert_eq!(sending.outbox.unanswered_above(CHAT), None);
    sending.sends("one");
    assert_eq!(sending.outbox.unanswered_above(CHAT), Some(7));
    sending.outbox.disconnected();
    assert_eq!(sending.outbox.unanswered_above(CHAT), None);
    sending.cursors.receive(&message(CHAT, 9));
    sending.sends("one");
    assert_eq!(sending.outbox.unanswered_above(CHAT), Some(7));
}

#[test]
fn unanswered_messages_are_returned_in_order() {
    let mut sending = Sending::start();
    for (chat_id, name) in [(OTHER, "one"), (CHAT, "two"), (OTHER, "three")] {
        sending.push(chat_id, name);
    }
    sending.sends("one");
    let names = sending.outbox.into_drafts().into_iter().map(|draft| draft.content);
    assert_eq!(names.collect::<Vec<_>>(), ["one", "two", "three"]);
}
