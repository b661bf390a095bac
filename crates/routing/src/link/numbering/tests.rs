use super::*;

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn start() -> Instant {
    heartline_runtime::Clock::system().now()
}

/// The arrivals of these numbers, one after the other.
fn arrivals(numbers: &[u64]) -> Vec<Arrival> {
    let now = start();
    let mut received = Received::new(now);
    numbers.iter().map(|&number| received.arrive(number, now)).collect()
}

#[test]
fn numbers_show_losses_and_repeats() {
    use Arrival::{AfterGap, Next, Repeat};
    let run_7 = first_of_run(7);
    for (numbers, expected) in [
        (vec![1, 2, 3], vec![Next, Next, Next]),
        // Counting begins at one for every receiver, so the first number shows what is missing.
        (vec![2], vec![AfterGap]),
        (vec![1, 3], vec![Next, AfterGap]),
        (vec![1, 3, 4], vec![Next, AfterGap, Next]),
        (vec![1, 4, 2, 3, 5], vec![Next, AfterGap, Next, Next, Next]),
        (vec![1, 1], vec![Next, Repeat]),
        (vec![1, 2, 3, 2, 4], vec![Next, Next, Next, Repeat, Next]),
        // A sender that knows several receivers gives each a run.
        (vec![run_7, run_7 + 1], vec![Next, Next]),
        (vec![run_7 + 1], vec![AfterGap]),
        // A sender that had removed the receiver may have lost anything.
        (vec![1, 2, run_7, run_7 + 1], vec![Next, Next, AfterGap, Next]),
    ] {
        assert_eq!(arrivals(&numbers), expected, "{numbers:?}");
    }
}

#[test]
fn a_parcel_of_another_transport_is_neither_missing_nor_delivered_twice() {
    let now = start();
    let mut received = Received::new(now);
    assert_eq!(received.arrive(1, now), Arrival::Next);
    assert!(received.arrive_otherwise(2));
    assert!(received.arrive_otherwise(3));
    assert!(!received.arrive_otherwise(3));
    // The parcel was published nevertheless, and arrives late.
    assert_eq!(received.arrive(2, now), Arrival::Repeat);
    assert_eq!(received.arrive(4, now), Arrival::Next);
    assert!(!received.arrive_otherwise(4));
    assert!(received.arrive_otherwise(6));
    assert_eq!(received.arrive(7, now), Arrival::AfterGap);
}

#[test]
fn numbers_before_the_first_one_may_have_arrived_on_another_transport() {
    let now = start();
    let mut received = Received::new(now);
    assert!(received.arrive_otherwise(1));
    assert_eq!(received.arrive(2, now), Arrival::Next);
}

#[test]
fn after_an_interruption_one_jump_is_no_new_gap() {
    let now = start();
    let mut received = Received::new(now);
    assert_eq!(received.arrive(1, now), Arrival::Next);
    received.ignore_next_gap();
    assert_eq!(received.arrive(9, now), Arrival::Next);
    assert_eq!(received.arrive(11, now), Arrival::AfterGap);
}

#[test]
fn a_promised_number_that_does_not_arrive_in_time_is_lost_once() {
    let now = start();
    let mut received = Received::new(now);
    assert_eq!(received.arrive(1, now), Arrival::Next);
    received.promise(3, now);
    assert!(!received.is_overdue(now + PROMISE_TIME / 2));
    assert!(received.is_overdue(now + PROMISE_TIME));
    received.promise(3, now + PROMISE_TIME);
    assert!(!received.is_overdue(now + PROMISE_TIME * 3));
    // The next one is no second gap, and the late parcel is still delivered.
    assert_eq!(received.arrive(4, now), Arrival::Next);
    assert_eq!(received.arrive(3, now), Arrival::Next);
}

#[test]
fn a_promised_number_that_arrives_in_time_on_any_transport_is_not_lost() {
    let now = start();
    let mut received = Received::new(now);
    received.promise(2, now);
    assert_eq!(received.arrive(1, now), Arrival::Next);
    assert!(received.arrive_otherwise(2));
    assert!(!received.is_overdue(now + PROMISE_TIME));
    received.promise(3, now);
    assert_eq!(received.arrive(3, now), Arrival::Next);
    assert!(!received.is_overdue(now + PROMISE_TIME));
}

#[test]
fn the_record_of_losses_is_bounded() {
    let now = start();
    let mut received = Received::new(now);
    for number in (1..10_000).step_by(2) {
        received.arrive(number, now);
    }
    assert!(received.parts.len() <= PARTS_MAX);
    assert_eq!(received.arrive(9999, now), Arrival::Repeat);
    assert!(received.arrive_otherwise(9998));
}

#[test]
fn each_receiver_is_counted_for_itself_and_a_forgotten_one_gets_a_new_run() {
    let mut departures = Departures::default();
    let (a, b) = (node("a-1"), node("b-1"));
    assert_eq!(departures.last(&a), 0);
    let first = departures.next(&a);
    assert_eq!(departures.next(&b), first + (1 << COUNT_BITS));
    assert_eq!(departures.next(&a), first + 1);
    assert_eq!(departures.last(&a), first + 1);
    departures.forget(&a);
    let again = departures.next(&a);
    assert!(again > first + 1);
    let now = start();
    let mut received = Received::new(now);
    assert_eq!(received.arrive(first, now), Arrival::Next);
    assert_eq!(received.arrive(first + 1, now), Arrival::Next);
    assert_eq!(received.arrive(again, now), Arrival::AfterGap);
}

#[test]
fn a_probe_shows_what_is_missing_before_it_and_takes_no_number() {
    let now = start();
    let mut received = Received::new(now);
    assert!(!received.is_short_of(0, now), "nothing was sent yet");
    assert_eq!(received.arrive(1, now), Arrival::Next);
    assert!(!received.is_short_of(1, now));
    assert!(received.is_short_of(3, now));
    assert!(!received.is_short_of(3, now), "it is reported once");
    assert_eq!(received.arrive(4, now), Arrival::Next);
    assert!(received.arrive_otherwise(5));
    assert!(!received.is_short_of(5, now), "it arrived on another transport");
    received.ignore_next_gap();
    assert!(!received.is_short_of(9, now));
    assert!(received.is_short_of(10, now));
    assert!(Received::new(now).is_short_of(1, now), "the very first may be missing");
}

#[test]
fn only_envelopes_are_counted() {
    let mut departures = Departures::default();
    let (a, b) = (node("a-1"), node("b-1"));
    let number = |departures: &mut Departures, mut parcel: Parcel| {
        departures.stamp(&a, &mut parcel);
        crate::link::Arrived::open(parcel.into()).unwrap().number
    };
    let envelope = crate::link::Envelope::PrivacyChanged { user_ids: Vec::new() };
    assert_eq!(number(&mut departures, Parcel::probe(&b)), 0);
    let first = number(&mut departures, Parcel::envelope(&b, &envelope));
    assert_eq!(number(&mut departures, Parcel::probe(&b)), first);
    assert_eq!(number(&mut departures, Parcel::envelope(&b, &envelope)), first + 1);
}
