use std::time::Duration;

use heartline_runtime::Clock;
use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds { messages: 100, bytes: 10_000, grace: Duration::from_secs(5) };

fn outbox() -> Outbox {
    Outbox::new(BOUNDS, Arc::new(Budget::new(1_000_000)), Counter::default())
}

/// A writer that accepts at most this many bytes in all.
fn write_up_to(
    limit: usize,
    sink: &mut Vec<u8>,
) -> impl FnMut(&[IoSlice<'_>]) -> io::Result<usize> {
    move |slices| {
        let room = limit - sink.len();
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let before = sink.len();
        for slice in slices {
            let count = slice.len().min(limit - sink.len());
            sink.extend_from_slice(&slice[..count]);
        }
        Ok(sink.len() - before)
    }
}

#[test]
fn urgent_frames_overtake_data_but_never_cut_a_frame() {
    let (outbox, now) = (outbox(), Clock::system().now());
    for frame in ["aaaa", "bbbb", "cccc"] {
        outbox.push(&Bytes::from_static(frame.as_bytes()), now);
    }
    let mut sink = Vec::new();
    assert_eq!(outbox.flush_with(write_up_to(6, &mut sink)).unwrap(), Flushed::Blocked);
    assert_eq!(outbox.load(), Load { messages: 2, bytes: 6 });
    outbox.push_urgent(Bytes::from_static(b"URGENT"));
    assert_eq!(outbox.flush_with(write_up_to(100, &mut sink)).unwrap(), Flushed::All);
    assert_eq!(sink, b"aaaabbbbURGENTcccc");
    assert_eq!(outbox.load(), Load::default());
    assert_eq!(outbox.tally().frames_written, 4);
}

#[test]
fn a_sealed_outbox_finishes_the_half_written_frame_and_writes_only_the_last_frames() {
    let (outbox, now) = (outbox(), Clock::system().now());
    for frame in ["aaaa", "bbbb"] {
        outbox.push(&Bytes::from_static(frame.as_bytes()), now);
    }
    let mut sink = Vec::new();
    outbox.flush_with(write_up_to(2, &mut sink)).unwrap();
    outbox.seal([Bytes::from_static(b"closing"), Bytes::from_static(b"CLOSE")]);
    outbox.push_urgent(Bytes::from_static(b"too late"));
    assert_eq!(outbox.push(&Bytes::from_static(b"too late"), now), None);
    outbox.flush_with(write_up_to(100, &mut sink)).unwrap();
    assert_eq!(sink, b"aaaaclosingCLOSE");
    assert_eq!(outbox.tally().frames_dropped, 2);
}

#[test]
fn the_cap_stops_the_connection_and_accepts_no_more() {
    let (outbox, now) = (outbox(), Clock::system().now());
    let frame = Bytes::from_static(b"x");
    let verdicts: Vec<Verdict> =
        (0..100).map(|_| outbox.push(&frame, now).unwrap().verdict).collect();
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Slow).count(), 1);
    assert_eq!(verdicts[99], Verdict::Close { warned: true });
    assert_eq!(outbox.push(&frame, now), None);
    assert_eq!(outbox.load().messages, 100);
}

#[test]
fn the_budget_follows_queued_and_written_bytes() {
    let budget = Arc::new(Budget::new(1000));
    let outbox = Outbox::new(BOUNDS, Arc::clone(&budget), Counter::default());
    outbox.push(&Bytes::from_static(b"12345678"), Clock::system().now());
    outbox.flush_with(write_up_to(3, &mut Vec::new())).unwrap();
    assert_eq!(budget.used(), 5);
    drop(outbox);
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_budget_counts_pending_bytes_of_a_blocked_socket() {
    let budget = Arc::new(Budget::new(1000));
    let outbox = Outbox::new(BOUNDS, Arc::clone(&budget), Counter::default());
    outbox.push(&Bytes::from_static(b"12345678"), Clock::system().now());
    outbox.flush_with(write_up_to(3, &mut Vec::new())).unwrap();
    outbox.push(&Bytes::from_static(b"12345678"), Clock::system().now());
    assert_eq!(budget.used(), 13);
}

#[test]
fn a_frame_is_written_at_once_only_if_nothing_waits_before_it() {
    let (outbox, now) = (outbox(), Clock::system().now());
    let take = |count: usize| move |_: &[u8]| Ok(count);
    let first = outbox.write_or_push(&Bytes::from_static(b"aaaa"), now, take(4));
    assert_eq!(first, Some(Delivered::Written));
    let cut = outbox.write_or_push(&Bytes::from_static(b"bbbb"), now, take(1));
    assert!(matches!(cut, Some(Delivered::Queued(Pushed { first: true, .. }))));
    let behind = outbox.write_or_push(&Bytes::from_static(b"cccc"), now, |_| unreachable!());
    assert!(matches!(behind, Some(Delivered::Queued(_))));
    assert_eq!(outbox.load(), Load { messages: 2, bytes: 7 });
    let mut sink = Vec::new();
    outbox.flush_with(write_up_to(100, &mut sink)).unwrap();
    assert_eq!(sink, b"bbbcccc");
    let refused: io::Result<usize> = Err(io::ErrorKind::WouldBlock.into());
    outbox.write_or_push(&Bytes::from_static(b"dddd"), now, |_| refused);
    assert!(outbox.is_blocked());
    assert_eq!(outbox.tally().frames_written, 3);
}

#[test]
fn only_the_first_push_since_a_flush_asks_for_one() {
    let (outbox, now) = (outbox(), Clock::system().now());
    let frame = Bytes::from_static(b"x");
    assert!(outbox.push(&frame, now).unwrap().first);
    assert!(!outbox.push(&frame, now).unwrap().first);
    outbox.flush_with(write_up_to(10, &mut Vec::new())).unwrap();
    assert!(outbox.push(&frame, now).unwrap().first);
}

proptest! {
    /// Whatever the sizes and the places where the socket blocks, each lane arrives whole and in
    /// its order, and the counts agree with what is left.
    #[test]
    fn frames_arrive_whole_and_in_order(
        steps in prop::collection::vec((any::<bool>(), 1_usize..40, 0_usize..60), 1..60),
    ) {
        let (outbox, now) = (outbox(), Clock::system().now());
        let (mut sink, mut limit, mut sent) = (Vec::new(), 0, Vec::new());
        for (number, (urgent, size, room)) in steps.into_iter().enumerate() {
            // A frame is its lane, its number and padding of the given size.
            let mut frame = vec![u8::from(urgent), number as u8, size as u8];
            frame.resize(3 + size, b'.');
            if urgent {
                outbox.push_urgent(Bytes::from(frame));
            } else if outbox.push(&Bytes::from(frame), now).is_none() {
                break;
            }
            sent.push((urgent, number as u8));
            limit += room;
            outbox.flush_with(write_up_to(limit.max(sink.len()), &mut sink)).unwrap();
        }
        outbox.flush_with(write_up_to(usize::MAX, &mut sink)).unwrap();
        prop_assert!(outbox.is_empty());
        prop_assert_eq!(outbox.load(), Load::default());

        let (mut heard, mut rest) = (Vec::new(), &sink[..]);
        while let [lane, number, size, after @ ..] = rest {
            heard.push((*lane == 1, *number));
            rest = &after[usize::from(*size)..];
        }
        for lane in [true, false] {
            let of = |all: &[(bool, u8)]| -> Vec<u8> {
                all.iter().filter(|frame| frame.0 == lane).map(|frame| frame.1).collect()
            };
            prop_assert_eq!(of(&heard), of(&sent));
        }
    }
}
