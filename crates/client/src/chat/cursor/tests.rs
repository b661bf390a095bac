//! The rules of receiving.

use super::*;
use crate::chat::fixtures::{CHAT, OTHER, message};

const NOTHING: [u64; 0] = [];

fn sequences(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| message.sequence).collect()
}

fn take(cursors: &mut Cursors, sequence: u64) -> Vec<u64> {
    sequences(&cursors.take(&message(CHAT, sequence)))
}

fn take_page(
    cursors: &mut Cursors,
    after: u64,
    page: impl IntoIterator<Item = u64>,
    has_more: bool,
) -> Vec<u64> {
    let range = PageRange { after, highest_seen: cursors.highest_seen(CHAT) };
    let messages: Vec<_> = page.into_iter().map(|sequence| message(CHAT, sequence)).collect();
    sequences(&cursors.take_page(CHAT, range, &messages, has_more))
}

#[test]
fn what_comes_in_order_is_handed_over_at_once_and_only_once() {
    let mut cursors = Cursors::default();
    assert_eq!(take(&mut cursors, 1), [1]);
    assert_eq!(take(&mut cursors, 2), [2]);
    assert_eq!(take(&mut cursors, 2), NOTHING);
    assert_eq!(take(&mut cursors, 1), NOTHING);
    assert_eq!(cursors.reached(CHAT), 2);
}

#[test]
fn what_comes_above_a_hole_waits_until_the_hole_is_filled() {
    let mut cursors = Cursors::new(HashMap::from([(CHAT, 10)]), Backlog::All);
    assert_eq!(take(&mut cursors, 10), NOTHING);
    assert_eq!(take(&mut cursors, 13), NOTHING);
    assert_eq!(take(&mut cursors, 15), NOTHING);
    assert_eq!(take(&mut cursors, 12), NOTHING);
    assert_eq!(take(&mut cursors, 12), NOTHING);
    assert_eq!(take(&mut cursors, 11), [11, 12, 13]);
    assert_eq!(take(&mut cursors, 14), [14, 15]);
    assert_eq!((cursors.ahead_messages, cursors.ahead_bytes), (0, 0));
}

#[test]
fn chats_are_counted_apart() {
    let mut cursors = Cursors::default();
    take(&mut cursors, 1);
    assert_eq!(sequences(&cursors.take(&message(OTHER, 1))), [1]);
}

#[test]
fn what_does_not_fit_above_a_hole_is_dropped_but_remembered_as_missing() {
    let mut cursors = Cursors::default();
    let last = AHEAD_MESSAGES_MAX as u64 + 100;
    for sequence in 2..=last {
        take(&mut cursors, sequence);
    }
    assert_eq!(cursors.ahead_messages, AHEAD_MESSAGES_MAX);
    assert_eq!(take(&mut cursors, 1).len(), AHEAD_MESSAGES_MAX + 1);
    assert!(cursors.has_gap(CHAT, None));
    let reached = cursors.reached(CHAT);
    assert_eq!(take_page(&mut cursors, reached, reached + 1..=last, false).len(), 99);
    assert!(!cursors.has_gap(CHAT, None));
}

#[test]
fn large_messages_fill_the_room_by_their_bytes() {
    let mut cursors = Cursors::default();
    for sequence in 2..2000 {
        let content = "x".repeat(100_000);
        cursors.take(&Message { content, ..message(CHAT, sequence) });
    }
    assert_eq!(cursors.ahead_messages, AHEAD_BYTES_MAX / 100_000);
    cursors.forget(CHAT);
    assert_eq!((cursors.ahead_messages, cursors.ahead_bytes), (0, 0));
}

#[test]
fn a_page_joins_what_waited_above_it() {
    let mut cursors = Cursors::default();
    take(&mut cursors, 5);
    assert_eq!(take_page(&mut cursors, 0, 1..=3, true), [1, 2, 3]);
    assert_eq!(take_page(&mut cursors, 3, [4], false), [4, 5]);
}

#[test]
fn numbers_that_a_page_leaves_out_are_passed_over() {
    let mut cursors = Cursors::default();
    cursors.saw(CHAT, 9);
    take(&mut cursors, 5);
    assert_eq!(take_page(&mut cursors, 0, [4, 7], true), [4, 5, 7]);
    assert!(cursors.has_gap(CHAT, None), "there was more to read");
    assert_eq!(take_page(&mut cursors, 7, [], false), NOTHING);
    assert_eq!((cursors.reached(CHAT), cursors.has_gap(CHAT, None)), (9, false));
}

#[test]
fn a_last_page_proves_nothing_about_what_was_seen_after_it_was_asked_for() {
    let mut cursors = Cursors::default();
    cursors.saw(CHAT, 2);
    let range = PageRange { after: 0, highest_seen: 2 };
    cursors.saw(CHAT, 3);
    let page = [message(CHAT, 1), message(CHAT, 2)];
    assert_eq!(sequences(&cursors.take_page(CHAT, range, &page, false)), [1, 2]);
    assert!(cursors.has_gap(CHAT, None));
}

#[test]
fn a_late_page_brings_nothing_twice() {
    let mut cursors = Cursors::default();
    for sequence in 1..=4 {
        take(&mut cursors, sequence);
    }
    assert_eq!(take_page(&mut cursors, 0, 1..=6, false), [5, 6]);
}

#[test]
fn a_single_number_above_an_unanswered_send_is_no_gap_yet() {
    let mut cursors = Cursors::new(HashMap::from([(CHAT, 4)]), Backlog::All);
    take(&mut cursors, 6);
    assert!(cursors.has_gap(CHAT, None));
    assert!(!cursors.has_gap(CHAT, Some(4)), "five may be the answer under way");
    assert!(cursors.has_gap(CHAT, Some(6)), "the send left after six was seen");
    take(&mut cursors, 8);
    assert!(cursors.has_gap(CHAT, Some(4)), "one answer cannot fill two numbers");
    take(&mut cursors, 5);
    assert!(!cursors.has_gap(CHAT, Some(4)), "seven may be the answer under way");
    take(&mut cursors, 7);
    assert!(!cursors.has_gap(CHAT, None));
}

#[test]
fn a_forgotten_chat_begins_again_at_its_first_message() {
    let mut cursors = Cursors::new(HashMap::from([(CHAT, 4)]), Backlog::All);
    cursors.forget(CHAT);
    assert!(!cursors.has_gap(CHAT, None));
    cursors.saw(CHAT, 4);
    assert_eq!((cursors.reached(CHAT), cursors.has_gap(CHAT, None)), (0, true));
}

#[test]
fn where_only_the_unread_is_wanted_a_chat_waits_to_hear_where_it_begins() {
    let unread = Backlog::Unread { messages_max: 50 };
    let mut cursors = Cursors::new(HashMap::new(), unread);
    assert_eq!(take(&mut cursors, 12), NOTHING);
    assert!(!cursors.has_gap(CHAT, None), "nobody knows yet what is missing");
    assert_eq!(sequences(&cursors.begin(CHAT, 10)), NOTHING);
    assert!(cursors.has_gap(CHAT, None));
    assert_eq!(take(&mut cursors, 11), [11, 12]);
    assert_eq!(sequences(&cursors.begin(CHAT, 20)), NOTHING);
    assert_eq!(cursors.reached(CHAT), 12, "it begins only once");
}

#[test]
fn what_came_before_a_chat_began_is_handed_over_in_order() {
    let unread = Backlog::Unread { messages_max: 50 };
    let mut cursors = Cursors::new(HashMap::new(), unread);
    for sequence in [9, 7, 8] {
        assert_eq!(take(&mut cursors, sequence), NOTHING);
    }
    assert_eq!(sequences(&cursors.begin(CHAT, 8)), [7, 8, 9]);
    assert_eq!((cursors.reached(CHAT), cursors.ahead_messages), (9, 0));
}

#[test]
fn the_unread_begins_at_the_watermark_but_not_too_far_before_the_head() {
    let unread = Backlog::Unread { messages_max: 50 };
    assert_eq!(unread.passes_over(20, 15), 15);
    assert_eq!(unread.passes_over(20, 0), 0);
    assert_eq!(unread.passes_over(1000, 3), 950);
    assert_eq!(unread.passes_over(5, 9), 5, "a watermark above the head is none");
    assert_eq!(Backlog::All.passes_over(20, 15), 0);
}
