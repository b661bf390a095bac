use super::*;
use crate::link::metrics::ReasonLabel;
use crate::link::parcel::Parcel;
use crate::link::{Departures, PROMISE_TIME};

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

/// A node `b-1` that receives from `a-1`.
struct Receiver {
    reception: Arc<Reception>,
    inbox: mpsc::Receiver<Envelope>,
    departures: Departures,
}

impl Receiver {
    fn new() -> Self {
        let (reception, inbox) =
            Reception::new(node("b-1"), Clock::system(), LinkMetrics::default());
        Self { reception, inbox, departures: Departures::default() }
    }

    /// The next parcel of `a-1`.
    fn parcel(&mut self) -> Bytes {
        let envelope = Envelope::PrivacyChanged { user_ids: Vec::new() };
        self.numbered(Parcel::envelope(&node("a-1"), &envelope))
    }

    fn numbered(&mut self, mut parcel: Parcel) -> Bytes {
        self.departures.stamp(&node("b-1"), &mut parcel);
        parcel.into()
    }

    async fn receive(&self, parcel: Bytes) {
        self.reception.receive(Transport::Broker, parcel).await.unwrap();
    }

    fn drops(&self, reason: &'static str) -> u64 {
        self.reception.metrics.drops.get_or_create(&ReasonLabel { reason }).get()
    }

    fn gaps(&self, reason: &'static str) -> u64 {
        self.reception.metrics.gaps.get_or_create(&ReasonLabel { reason }).get()
    }

    fn check(&self) {
        self.reception.check(Clock::system().now());
    }

    /// The number of envelopes from others in the inbox, and the number of resyncs.
    fn drain(&mut self) -> (usize, usize) {
        let (mut envelopes, mut resyncs) = (0, 0);
        while let Ok(envelope) = self.inbox.try_recv() {
            match envelope {
                Envelope::Resync { user_ids: None, chat_ids: None, reason } => {
                    assert_eq!(reason, ResyncReason::LinkGap);
                    resyncs += 1;
                }
                _ => envelopes += 1,
            }
        }
        (envelopes, resyncs)
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_inbox_blocks_the_broker_for_a_moment_only() {
    let mut receiver = Receiver::new();
    for _ in 0..INBOX_ENVELOPES {
        let parcel = receiver.parcel();
        receiver.receive(parcel).await;
    }
    let begun_at = Clock::system().now();
    for _ in 0..10 {
        let parcel = receiver.parcel();
        receiver.receive(parcel).await;
    }
    assert_eq!(Clock::system().now() - begun_at, INBOX_TIME, "only the first one waits");
    assert_eq!((receiver.drops("inbox_full"), receiver.gaps("inbox_full")), (10, 10));
    // The loss is reported as soon as there is room in the inbox.
    receiver.check();
    assert_eq!(receiver.drain(), (INBOX_ENVELOPES, 0));
    receiver.check();
    assert_eq!(receiver.drain(), (0, 1));
    let parcel = receiver.parcel();
    receiver.receive(parcel).await;
    assert_eq!(receiver.drain(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_inbox_makes_a_direct_link_wait_and_loses_nothing() {
    let mut receiver = Receiver::new();
    let parcels: Vec<Bytes> = (0..=INBOX_ENVELOPES).map(|_| receiver.parcel()).collect();
    let reception = Arc::clone(&receiver.reception);
    let receive = async {
        for parcel in parcels {
            reception.receive(Transport::Direct, parcel).await.unwrap();
        }
    };
    let read_late = async {
        tokio::time::sleep(INBOX_TIME * 10).await;
        receiver.inbox.recv().await
    };
    let (_, first) = tokio::join!(receive, read_late);
    assert!(first.is_some());
    assert_eq!(receiver.drain(), (INBOX_ENVELOPES, 0));
    assert_eq!(receiver.drops("inbox_full"), 0);
}

#[tokio::test(start_paused = true)]
async fn losses_at_the_same_time_cause_one_resync() {
    let mut receiver = Receiver::new();
    let mut gaps = receiver.reception.gaps();
    for _ in 0..20 {
        receiver.parcel();
        let parcel = receiver.parcel();
        receiver.receive(parcel).await;
        receiver.check();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    receiver.check();
    assert_eq!(receiver.drain(), (20, 3), "at once, after one second, and after two");
    assert_eq!(receiver.gaps("numbers_jumped"), 20);
    assert_eq!(*gaps.borrow_and_update(), 20);
    receiver.check();
    assert_eq!(receiver.drain(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn unknown_parcels_are_counted_and_make_nobody_sync() {
    let mut receiver = Receiver::new();
    let parcel = receiver.parcel();
    let mut later_version = parcel.to_vec();
    later_version[0] = 77;
    receiver.receive(later_version.into()).await;
    let mut later_kind = parcel.to_vec();
    later_kind[1] = 99;
    receiver.receive(later_kind.into()).await;
    receiver.receive(Bytes::from_static(b"\x02")).await;
    assert_eq!(receiver.drops("unknown_version"), 1);
    assert_eq!(receiver.drops("unknown_kind"), 1);
    assert_eq!(receiver.drops("malformed"), 1);
    receiver.check();
    assert_eq!(receiver.drain(), (0, 0));
    let parcel = receiver.parcel();
    receiver.receive(parcel).await;
    receiver.check();
    assert_eq!(receiver.drain(), (1, 0), "an unknown kind has its number like any other");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_envelope_is_a_gap() {
    let mut receiver = Receiver::new();
    let parcel = receiver.parcel();
    receiver.receive(parcel.slice(..parcel.len() - 1)).await;
    assert_eq!((receiver.drops("malformed"), receiver.gaps("malformed")), (1, 1));
    receiver.check();
    assert_eq!(receiver.drain(), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_dropped_on_either_transport() {
    let mut receiver = Receiver::new();
    let parcel = receiver.parcel();
    receiver.receive(parcel.clone()).await;
    receiver.receive(parcel.clone()).await;
    // The broker published the parcel and returned it nevertheless, so it is sent directly too.
    let envelope = Envelope::PrivacyChanged { user_ids: Vec::new() };
    let mut again = Parcel::envelope(&node("a-1"), &envelope);
    again.stamp(1);
    again.stamp(1);
    let direct = Transport::Direct;
    receiver.reception.receive(direct, again.into()).await.unwrap();
    assert_eq!(receiver.drops("repeated"), 2);
    receiver.check();
    assert_eq!(receiver.drain(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_new_subscription_is_one_gap_for_all_senders() {
    let mut receiver = Receiver::new();
    let parcel = receiver.parcel();
    receiver.receive(parcel).await;
    receiver.parcel();
    receiver.reception.resubscribed();
    receiver.check();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let parcel = receiver.parcel();
    receiver.receive(parcel).await;
    receiver.check();
    assert_eq!(receiver.drain(), (2, 1), "the jump over what was lost is no second one");
    assert_eq!((receiver.gaps("resubscribed"), receiver.gaps("numbers_jumped")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_status_shows_a_loss_on_the_broker() {
    let mut receiver = Receiver::new();
    let parcel = receiver.parcel();
    receiver.receive(parcel).await;
    receiver.parcel();
    let broker_number = receiver.departures.last(&node("b-1"));
    let status = Status { broker_is_healthy: true, broker_number, address: None };
    let said = Parcel::status(&node("a-1"), &status);
    receiver.reception.receive(Transport::Direct, said.into()).await.unwrap();
    receiver.check();
    assert_eq!(receiver.drain(), (1, 0), "it may still arrive");
    tokio::time::sleep(PROMISE_TIME).await;
    receiver.check();
    assert_eq!(receiver.drain(), (0, 1));
    assert_eq!(receiver.gaps("overdue"), 1);
}

#[tokio::test(start_paused = true)]
async fn receiving_ends_with_the_inbox() {
    let mut receiver = Receiver::new();
    let parcel = receiver.parcel();
    receiver.inbox.close();
    let received = receiver.reception.receive(Transport::Broker, parcel).await;
    assert_eq!(received, Err(InboxEnded));
}

#[tokio::test(start_paused = true)]
async fn the_record_of_senders_is_bounded() {
    let receiver = Receiver::new();
    for number in 0..SENDERS_MAX + 10 {
        let probe = Parcel::probe(&node(&format!("node-{number}")));
        receiver.receive(probe.into()).await;
    }
    assert_eq!(receiver.reception.lock().senders.len(), SENDERS_MAX);
    tokio::time::sleep(SENDER_MEMORY).await;
    receiver.reception.forget_silent(Clock::system().now());
    assert!(receiver.reception.lock().senders.is_empty());
}

#[tokio::test]
async fn an_unknown_kind_is_counted_and_makes_nobody_sync() {
    let mut receiver = Receiver::new();
    let mut later = Parcel::envelope(&node("a-1"), &Envelope::Presence(Vec::new()));
    later.set_kind(200);
    let parcels = [receiver.parcel(), receiver.numbered(later), receiver.parcel()];
    for parcel in parcels {
        receiver.receive(parcel).await;
    }
    receiver.check();
    assert_eq!(receiver.drain(), (2, 0));
    assert_eq!((receiver.drops("unknown_kind"), receiver.gaps("numbers_jumped")), (1, 0));
}

#[tokio::test]
async fn another_link_version_is_counted_and_logged_once_per_peer() {
    let mut receiver = Receiver::new();
    for _ in 0..3 {
        let mut bytes = receiver.parcel().to_vec();
        bytes[0] = 77;
        receiver.receive(bytes.into()).await;
    }
    receiver.check();
    assert_eq!(receiver.drain(), (0, 0));
    assert_eq!((receiver.drops("unknown_version"), receiver.drops("malformed")), (3, 0));
    assert_eq!(receiver.reception.lock().logged.len(), 1);
}
