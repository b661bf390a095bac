use bytes::Bytes;
use heartline_protocol::{MessageId, Timestamp};
use heartline_runtime::Clock;
use proptest::prelude::*;
use ulid::Ulid;

use super::*;

const CHAT: ChatId = ChatId(Ulid(7));

fn delivery(sequence: u64) -> Delivery {
    Delivery {
        chat_id: CHAT,
        sequence,
        user_ids: Arc::from(["ana".parse().unwrap()]),
        frame: Bytes::from(sequence.to_string()),
        origin: None,
        committed_at: None,
    }
}

fn message(sequence: u64) -> Message {
    Message {
        chat_id: CHAT,
        sequence,
        message_id: MessageId(Ulid(1)),
        sender_id: "ben".parse().unwrap(),
        client_message_id: "m".parse().unwrap(),
        content: String::new(),
        content_type: String::new(),
        created_at: Timestamp::from_unix_seconds(0),
        deleted: false,
    }
}

/// Lets these arrive at once; returns the pushed sequences and the number of resyncs.
fn arrive(cursors: &mut Cursors, sequences: &[u64], now: Instant) -> (Vec<u64>, usize) {
    let mut actions = Actions::default();
    for &sequence in sequences {
        cursors.arrive(delivery(sequence), now, &mut actions);
    }
    outcome(&actions)
}

fn outcome(actions: &Actions) -> (Vec<u64>, usize) {
    (actions.deliveries.iter().map(|d| d.sequence).collect(), actions.resyncs.len())
}

fn fill(cursors: &mut Cursors, messages: Option<Vec<Message>>, now: Instant) -> (Vec<u64>, usize) {
    let mut actions = Actions::default();
    let encode = |message: Message| Bytes::from(message.sequence.to_string());
    cursors.filled(CHAT, messages, now, encode, &mut actions);
    outcome(&actions)
}

#[test]
fn messages_in_order_pass_and_repeats_are_dropped() {
    let (mut cursors, now) = (Cursors::default(), Clock::system().now());
    assert_eq!(arrive(&mut cursors, &[5, 6, 6, 5, 7], now), (vec![5, 6, 7], 0));
    assert_eq!(cursors.deadline(), None);
}

#[test]
fn a_sequence_below_the_first_makes_its_listeners_sync() {
    let (mut cursors, now) = (Cursors::default(), Clock::system().now());
    assert_eq!(arrive(&mut cursors, &[5, 4, 6], now), (vec![5, 6], 1));
    assert_eq!(arrive(&mut cursors, &[1, 2, 3, 4, 7], now), (vec![7], 0), "one sync is enough");
}

#[test]
fn an_inversion_is_corrected() {
    let (mut cursors, now) = (Cursors::default(), Clock::system().now());
    assert_eq!(arrive(&mut cursors, &[5, 8, 7, 6, 9], now), (vec![5, 6, 7, 8, 9], 0));
    assert!(cursors.waiting.is_empty(), "the search for holes has ended");
    assert!(cursors.due(now + HOLE_WAIT, &mut Actions::default()).is_empty());
}

#[test]
fn a_hole_is_read_once_after_a_moment() {
    let (mut cursors, now) = (Cursors::default(), Clock::system().now());
    assert_eq!(arrive(&mut cursors, &[5, 8, 9], now), (vec![5], 0));
    assert_eq!(cursors.deadline(), Some(now + HOLE_WAIT));
    let mut actions = Actions::default();
    assert!(cursors.due(now, &mut actions).is_empty(), "not yet");
    let hole = Hole { chat_id: CHAT, first: 6, last: 7 };
    assert_eq!(cursors.due(now + HOLE_WAIT, &mut actions), [hole]);
    assert!(cursors.due(now + HOLE_WAIT * 9, &mut actions).is_empty(), "it is being read");
    assert_eq!(arrive(&mut cursors, &[6], now), (vec![6], 0), "one of them arrives meanwhile");
    let read = Some(vec![message(6), message(7)]);
    assert_eq!(fill(&mut cursors, read, now), (vec![7, 8, 9], 0));
    assert!(cursors.waiting.is_empty());
}

#[test]
fn a_hole_that_cannot_be_read_is_skipped_with_a_resync() {
    let (mut cursors, now) = (Cursors::default(), Clock::system().now());
    arrive(&mut cursors, &[5, 8, 10], now);
    cursors.due(now + HOLE_WAIT, &mut Actions::default());
    assert_eq!(fill(&mut cursors, None, now), (vec![8, 10], 1));
    assert!(cursors.waiting.is_empty());
    assert_eq!(arrive(&mut cursors, &[9, 11], now), (vec![11], 0));
}

#[test]
fn a_large_hole_is_not_read() {
    let (mut cursors, now) = (Cursors::default(), Clock::system().now());
    arrive(&mut cursors, &[1, 102 + HOLE_MESSAGES_MAX], now);
    let mut actions = Actions::default();
    assert!(cursors.due(now + HOLE_WAIT, &mut actions).is_empty());
    assert_eq!(outcome(&actions), (vec![102 + HOLE_MESSAGES_MAX], 1));
}

#[test]
fn the_number_of_waiting_messages_is_limited() {
    let (mut cursors, now) = (Cursors::default(), Clock::system().now());
    let ahead: Vec<u64> = (3..=3 + AHEAD_MESSAGES_MAX as u64).collect();
    assert_eq!(arrive(&mut cursors, &[1], now), (vec![1], 0));
    assert_eq!(arrive(&mut cursors, &ahead, now), (ahead, 1));
}

#[test]
fn an_idle_cursor_begins_again_unless_messages_wait_and_never_goes_back() {
    let (mut cursors, now) = (Cursors::default(), Clock::system().now());
    arrive(&mut cursors, &[5, 7], now);
    cursors.mark_idle(CHAT);
    assert_eq!(arrive(&mut cursors, &[6], now), (vec![6, 7], 0));
    cursors.mark_idle(CHAT);
    assert_eq!(arrive(&mut cursors, &[20, 21], now), (vec![20, 21], 0));
    cursors.mark_idle(CHAT);
    assert_eq!(arrive(&mut cursors, &[3, 4, 21, 22], now), (vec![22], 1));
}

proptest! {
    /// The promise holds whether or not the senders know the listeners.
    #[test]
    fn pushes_only_ascend_over_idle_times(
        arrivals in prop::collection::vec((1..40u64, any::<bool>()), 1..200),
    ) {
        let (mut cursors, now) = (Cursors::default(), Clock::system().now());
        let mut pushed = Vec::new();
        for (sequence, rests) in arrivals {
            pushed.extend(arrive(&mut cursors, &[sequence], now).0);
            if rests {
                cursors.mark_idle(CHAT);
            }
        }
        prop_assert!(pushed.is_sorted_by(|a, b| a < b), "{pushed:?}");
    }

    /// Whatever is repeated, swapped or lost: pushes ascend, and a missing one causes a resync.
    #[test]
    fn pushes_only_ascend(
        arrivals in prop::collection::vec((1..40u64, any::<bool>()), 1..200),
        log_answers in any::<bool>(),
    ) {
        let (mut cursors, mut now) = (Cursors::default(), Clock::system().now());
        let (mut pushed, mut resyncs) = (Vec::new(), 0);
        let mut note = |(sequences, count): (Vec<u64>, usize)| {
            pushed.extend(sequences);
            resyncs += count;
        };
        for &(sequence, waits) in &arrivals {
            note(arrive(&mut cursors, &[sequence], now));
            if waits {
                now += HOLE_WAIT;
                let mut actions = Actions::default();
                let holes = cursors.due(now, &mut actions);
                note(outcome(&actions));
                for hole in holes {
                    let read = (hole.first..=hole.last).map(message).collect();
                    note(fill(&mut cursors, log_answers.then_some(read), now));
                }
            }
        }
        prop_assert!(pushed.is_sorted_by(|a, b| a < b), "{pushed:?}");
        let waits = cursors.chats[&CHAT].ahead.len();
        let missed = arrivals.iter().any(|(sequence, _)| !pushed.contains(sequence));
        prop_assert!(!missed || resyncs > 0 || waits > 0);
    }
}
