//! The rules of receiving.

use super::*;
use crate::chat::fixtures::{CHAT, OTHER, message};

const NOTHING: [u64; 0] = [];

fn sequences(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| message.sequence).collect()
}

fn receive(cursors: &mut Cursors, sequence: u64) -> Vec<u64> {
    sequences(&cursors.receive(&message(CHAT, sequence)))
}

fn receive_page(
    cursors: &mut Cursors,
    after: u64,
    page: impl IntoIterator<Item = u64>,
    has_more: bool,
) -> Vec<u64> {
    let range = PageRange { after, highest_seen: cursors.highest_seen(CHAT) };
    let messages: Vec<_> = page.into_iter().map(|sequence| message(CHAT, sequence)).collect();
    sequences(&cursors.receive_page(CHAT, range, &messages, has_more))
}

#[test]
fn messages_in_order_are_delivered_at_once_and_only_once() {
    let mut cursors = Cursors::default();
    assert_eq!(receive(&mut cursors, 1), [1]);
    assert_eq!(receive(&mut cursors, 2), [2]);
    assert_eq!(receive(&mut cursors, 2), NOTHING);
    assert_eq!(receive(&mut cursors, 1), NOTHING);
    assert_eq!(cursors.reached(CHAT), 2);
}

#[test]
fn messages_behind_a_gap_wait_until_the_gap_is_filled() {
    let mut cursors = Cursors::new(HashMap::from([(CHAT, 10)]), Backlog::All);
    assert_eq!(receive(&mut cursors, 10), NOTHING);
    assert_eq!(receive(&mut cursors, 13), NOTHING);
    assert_eq!(receive(&mut cursors, 15), NOTHING);
    assert_eq!(receive(&mut cursors, 12), NOTHING);
    assert_eq!(receive(&mut cursors, 12), NOTHING);
    assert_eq!(receive(&mut cursors, 11), [11, 12, 13]);
    assert_eq!(receive(&mut cursors, 14), [14, 15]);
    assert_eq!((cursors.ahead_messages, cursors.ahead_bytes), (0, 0));
}

#[test]
fn chats_have_separate_cursors() {
    let mut cursors = Cursors::default();
    receive(&mut cursors, 1);
    assert_eq!(sequences(&cursors.receive(&message(OTHER, 1))), [1]);
}

#[test]
fn messages_over_the_limit_are_dropped_and_counted_as_missing() {
    let mut cursors = Cursors::default();
    let last = AHEAD_MESSAGES_MAX as u64 + 100;
    for sequence in 2..=last {
        receive(&mut cursors, sequence);
    }
    assert_eq!(cursors.ahead_messages, AHEAD_MESSAGES_MAX);
    assert_eq!(receive(&mut cursors, 1).len(), AHEAD_MESSAGES_MAX + 1);
    assert!(cursors.has_gap(CHAT, None));
    let reached = cursors.reached(CHAT);
    assert_eq!(receive_page(&mut cursors, reached, reached + 1..=last, false).len(), 99);
    assert!(!cursors.has_gap(CHAT, None));
}

#[test]
fn waiting_messages_are_limited_by_their_bytes() {
    let mut cursors = Cursors::default();
    for sequence in 2..2000 {
        let content = "x".repeat(100_000);
        cursors.receive(&Message { content, ..message(CHAT, sequence) });
    }
    assert_eq!(cursors.ahead_messages, AHEAD_BYTES_MAX / 100_000);
    cursors.remove(CHAT);
    assert_eq!((cursors.ahead_messages, cursors.ahead_bytes), (0, 0));
}

#[test]
fn a_page_is_followed_by_waiting_messages() {
    let mut cursors = Cursors::default();
    receive(&mut cursors, 5);
    assert_eq!(receive_page(&mut cursors, 0, 1..=3, true), [1, 2, 3]);
    assert_eq!(receive_page(&mut cursors, 3, [4], false), [4, 5]);
}

#[test]
fn sequences_that_a_page_leaves_out_are_skipped() {
    let mut cursors = Cursors::default();
    cursors.note_sequence(CHAT, 9);
    receive(&mut cursors, 5);
    assert_eq!(receive_page(&mut cursors, 0, [4, 7], true), [4, 5, 7]);
    assert!(cursors.has_gap(CHAT, None), "the server has more pages");
    assert_eq!(receive_page(&mut cursors, 7, [], false), NOTHING);
    assert_eq!((cursors.reached(CHAT), cursors.has_gap(CHAT, None)), (9, false));
}

#[test]
fn a_last_page_skips_nothing_that_was_seen_after_its_request() {
    let mut cursors = Cursors::default();
    cursors.note_sequence(CHAT, 2);
    let range = PageRange { after: 0, highest_seen: 2 };
    cursors.note_sequence(CHAT, 3);
    let page = [message(CHAT, 1), message(CHAT, 2)];
    assert_eq!(sequences(&cursors.receive_page(CHAT, range, &page, false)), [1, 2]);
    assert!(cursors.has_gap(CHAT, None));
}

#[test]
fn a_late_page_delivers_nothing_twice() {
    let mut cursors = Cursors::default();
    for sequence in 1..=4 {
        receive(&mut cursors, sequence);
    }
    assert_eq!(receive_page(&mut cursors, 0, 1..=6, false), [5, 6]);
}

#[test]
fn a_single_sequence_above_an_unanswered_send_is_no_gap_yet() {
    let mut cursors = Cursors::new(HashMap::from([(CHAT, 4)]), Backlog::All);
    receive(&mut cursors, 6);
    assert!(cursors.has_gap(CHAT, None));
    assert!(!cursors.has_gap(CHAT, Some(4)), "five may be the answer under way");
    assert!(cursors.has_gap(CHAT, Some(6)), "the send left after six was seen");
    receive(&mut cursors, 8);
    assert!(cursors.has_gap(CHAT, Some(4)), "one answer cannot fill two numbers");
    receive(&mut cursors, 5);
    assert!(!cursors.has_gap(CHAT, Some(4)), "seven may be the answer under way");
    receive(&mut cursors, 7);
    assert!(!cursors.has_gap(CHAT, None));
}

#[test]
fn a_removed_chat_starts_again_at_its_first_message() {
    let mut cursors = Cursors::new(HashMap::from([(CHAT, 4)]), Backlog::All);
    cursors.remove(CHAT);
    assert!(!cursors.has_gap(CHAT, None));
    cursors.note_sequence(CHAT, 4);
    assert_eq!((cursors.reached(CHAT), cursors.has_gap(CHAT, None)), (0, true));
}

#[test]
fn with_unread_backlog_a_chat_waits_for_its_start() {
    let unread = Backlog::Unread { messages_max: 50 };
    let mut cursors = Cursors::new(HashMap::new(), unread);
    assert_eq!(receive(&mut cursors, 12), NOTHING);
    assert!(!cursors.has_gap(CHAT, None), "the start is not known yet");
    assert_eq!(sequences(&cursors.set_start(CHAT, 10)), NOTHING);
    assert!(cursors.has_gap(CHAT, None));
    assert_eq!(receive(&mut cursors, 11), [11, 12]);
    assert_eq!(sequences(&cursors.set_start(CHAT, 20)), NOTHING);
    assert_eq!(cursors.reached(CHAT), 12, "the start is set only once");
}

#[test]
fn messages_that_arrived_before_the_start_are_delivered_in_order() {
    let unread = Backlog::Unread { messages_max: 50 };
    let mut cursors = Cursors::new(HashMap::new(), unread);
    for sequence in [9, 7, 8] {
        assert_eq!(receive(&mut cursors, sequence), NOTHING);
    }
    assert_eq!(sequences(&cursors.set_start(CHAT, 8)), [7, 8, 9]);
    assert_eq!((cursors.reached(CHAT), cursors.ahead_messages), (9, 0));
}

#[test]
fn unread_messages_start_at_the_watermark_within_the_limit() {
    let unread = Backlog::Unread { messages_max: 50 };
    assert_eq!(unread.skips_up_to(20, 15), 15);
    assert_eq!(unread.skips_up_to(20, 0), 0);
    assert_eq!(unread.skips_up_to(1000, 3), 950);
    assert_eq!(unread.skips_up_to(5, 9), 5, "a watermark above the head counts as the head");
    assert_eq!(Backlog::All.skips_up_to(20, 15), 0);
}
