//! Ingest on a log that the test controls.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::server_frame::{ManifestChat, Message};
use heartline_protocol::{MessageId, Timestamp, UserId};
use heartline_runtime::Map;
use tokio::sync::Semaphore;
use ulid::Ulid;

use super::*;
use crate::breaker::{BreakerConfig, BreakerMetrics};
use crate::bus::{BusError, EventSource, InProcessBus, InProcessSource};
use crate::event::Event;
use crate::log::{AppendError, AppendRefusal, Appended, LogPage, LogRead};
use crate::publications::Publications;
use crate::store::StoreError;

/// Numbers messages and stores nothing; each batch waits for a permit, and may be made to fail, as
/// a whole or in one chat.
#[derive(Debug)]
struct Scripted {
    permits: Semaphore,
    failure: Mutex<Option<StoreError>>,
    failing_chat: Option<ChatId>,
    heads: Mutex<Map<ChatId, u64>>,
    batches: Mutex<Vec<usize>>,
}

#[async_trait]
impl ChatLog for Scripted {
    async fn append(&self, batch: Vec<NewMessage>) -> Vec<Result<Appended, AppendError>> {
        self.permits.acquire().await.unwrap().forget();
        self.batches.lock().unwrap().push(batch.len());
        if let Some(failure) = self.failure.lock().unwrap().clone() {
            return vec![Err(failure.into()); batch.len()];
        }
        let mut heads = self.heads.lock().unwrap();
        let number = |new: NewMessage| {
            if new.content == "refuse" {
                return Err(AppendRefusal::NotAMember.into());
            }
            if self.failing_chat == Some(new.chat_id) {
                return Err(StoreError::rejected("a bad page").into());
            }
            let head = heads.entry(new.chat_id).or_default();
            *head += 1;
            Ok(Appended {
                message: stored(new, *head),
                duplicate: false,
                published: false,
                members_version: 1,
            })
        };
        batch.into_iter().map(number).collect()
    }

    async fn read(&self, _: LogRead) -> Result<Option<LogPage>, StoreError> {
        Ok(None)
    }

    async fn manifest(
        &self,
        _: &UserId,
        _: Option<ChatId>,
        _: usize,
    ) -> Result<Vec<ManifestChat>, StoreError> {
        Ok(Vec::new())
    }
}

fn stored(new: NewMessage, sequence: u64) -> Message {
    Message {
        chat_id: new.chat_id,
        sequence,
        message_id: MessageId(Ulid(sequence.into())),
        sender_id: new.sender_id,
        client_message_id: new.client_message_id,
        content: new.content,
        content_type: new.content_type,
        created_at: Timestamp::from_unix_seconds(0),
        deleted: false,
    }
}

#[derive(Debug)]
struct BrokenBus;

#[async_trait]
impl EventBus for BrokenBus {
    async fn publish(&self, _: Vec<Event>) -> Result<(), BusError> {
        Err(BusError::Full)
    }
}

struct Bench {
    ingest: Ingest,
    log: Arc<Scripted>,
    source: InProcessSource,
    _shards: heartline_runtime::TaskSet<()>,
}

const LIMITS: IngestLimits = IngestLimits { per_chat: 4, per_node: 6 };

fn bench_with(bus: Option<Arc<dyn EventBus>>, failing_chat: Option<ChatId>) -> Bench {
    let log = Arc::new(Scripted {
        permits: Semaphore::new(0),
        failure: Mutex::default(),
        failing_chat,
        heads: Mutex::default(),
        batches: Mutex::default(),
    });
    let in_process = InProcessBus::new(Publications::default(), Clock::system());
    let source = in_process.source();
    let breaker =
        Breaker::new("write", BreakerConfig::default(), Clock::system(), BreakerMetrics::default());
    let (ingest, shards) = Ingest::new(IngestParts {
        limits: LIMITS,
        shards: 1,
        log: Arc::clone(&log) as Arc<dyn ChatLog>,
        bus: bus.unwrap_or(Arc::new(in_process)),
        breaker: Arc::new(breaker),
        clock: Clock::system(),
        metrics: Metrics::default(),
    });
    let mut tasks = heartline_runtime::TaskSet::new();
    for shard in shards {
        tasks.spawn(shard.run());
    }
    Bench { ingest, log, source, _shards: tasks }
}

fn bench() -> Bench {
    bench_with(None, None)
}

fn message(chat: u128, content: &str) -> NewMessage {
    NewMessage {
        chat_id: ChatId(Ulid(chat)),
        sender_id: "ana".parse().unwrap(),
        client_message_id: content.parse().unwrap(),
        content: content.to_owned(),
        content_type: "text/plain".to_owned(),
        origin: None,
    }
}

fn deadline() -> Instant {
    Clock::system().now() + Duration::from_secs(5)
}

const UNKNOWN: SendError = SendError::Unavailable { outcome: Outcome::Unknown };
const REJECTED: SendError = SendError::Unavailable { outcome: Outcome::Rejected };

#[tokio::test(start_paused = true)]
async fn pending_messages_are_stored_together_and_in_order() {
    let mut bench = bench();
    let submissions: Vec<Submission> = ["a", "b", "refuse", "c"]
        .map(|content| bench.ingest.submit(message(1, content), deadline()).unwrap())
        .into();
    bench.log.permits.add_permits(1);
    let mut sequences = Vec::new();
    for submission in submissions {
        sequences.push(submission.outcome().await.map(|receipt| receipt.message.sequence));
    }
    let refused = SendError::Refused(AppendRefusal::NotAMember);
    assert_eq!(sequences, [Ok(1), Ok(2), Err(refused), Ok(3)]);
    assert_eq!(*bench.log.batches.lock().unwrap(), [4]);
    let events = bench.source.receive(10).await.unwrap();
    let published = events.iter().map(|received| match &received.event {
        Event::Message(stored) => stored.message.sequence,
        other @ Event::ChatChanged { .. } => panic!("{other:?} is no message"),
    });
    assert_eq!(published.collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(bench.ingest.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_chat_and_a_node_accept_a_limited_number() {
    let bench = bench();
    let submit = |chat, name: &str| bench.ingest.submit(message(chat, name), deadline());
    let first: Vec<_> = (0..4).map(|n| submit(1, &format!("a{n}")).unwrap()).collect();
    assert_eq!(submit(1, "a4").unwrap_err(), SendError::Busy);
    let second: Vec<_> = (0..2).map(|n| submit(2, &format!("b{n}")).unwrap()).collect();
    assert_eq!(submit(3, "c").unwrap_err(), SendError::Busy);
    bench.log.permits.add_permits(2);
    for submission in first.into_iter().chain(second) {
        submission.outcome().await.unwrap();
    }
    submit(3, "c").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_send_that_expires_in_the_queue_is_rejected_and_never_stored() {
    let bench = bench();
    let at_store = bench.ingest.submit(message(1, "a"), deadline()).unwrap();
    tokio::task::yield_now().await;
    let waiting = bench.ingest.submit(message(1, "b"), deadline()).unwrap();
    assert_eq!(at_store.outcome().await.unwrap_err(), UNKNOWN);
    assert_eq!(waiting.outcome().await.unwrap_err(), REJECTED);
    bench.log.permits.add_permits(2);
    let next = bench.ingest.submit(message(1, "c"), deadline()).unwrap();
    assert_eq!(next.outcome().await.unwrap().message.sequence, 2, "b was not stored");
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_opens_the_breaker() {
    let bench = bench();
    bench.log.permits.add_permits(100);
    *bench.log.failure.lock().unwrap() = Some(StoreError::rejected("full"));
    for n in 0..5 {
        let submission = bench.ingest.submit(message(n, "a"), deadline()).unwrap();
        assert_eq!(submission.outcome().await.unwrap_err(), REJECTED);
    }
    let refused = bench.ingest.submit(message(1, "a"), deadline()).unwrap_err();
    assert!(matches!(refused, SendError::BreakerOpen { .. }), "{refused:?}");
    *bench.log.failure.lock().unwrap() = None;
    tokio::time::advance(Duration::from_secs(31)).await;
    let probe = bench.ingest.submit(message(1, "a"), deadline()).unwrap();
    probe.outcome().await.unwrap();
    bench.ingest.submit(message(1, "b"), deadline()).unwrap().outcome().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn refusals_of_the_request_never_open_the_breaker() {
    let bench = bench();
    bench.log.permits.add_permits(100);
    for _ in 0..50 {
        let submission = bench.ingest.submit(message(1, "refuse"), deadline()).unwrap();
        submission.outcome().await.unwrap_err();
    }
    bench.ingest.submit(message(1, "a"), deadline()).unwrap().outcome().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_could_not_be_announced_is_not_acknowledged() {
    let bench = bench_with(Some(Arc::new(BrokenBus)), None);
    bench.log.permits.add_permits(100);
    for _ in 0..50 {
        let submission = bench.ingest.submit(message(1, "a"), deadline()).unwrap();
        let error = submission.outcome().await.unwrap_err();
        assert_eq!(error, SendError::NotPublished, "and the store's breaker stays closed");
    }
    let frame = heartline_protocol::server_frame::ErrorFrame::from(SendError::NotPublished);
    assert_eq!(frame.details.unwrap().outcome, Some(Outcome::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_chat_that_cannot_be_stored_affects_no_other_of_its_batch() {
    let bench = bench_with(None, Some(ChatId(Ulid(2))));
    let submissions: Vec<Submission> = [(1, "a"), (2, "b"), (3, "c")]
        .map(|(chat, name)| bench.ingest.submit(message(chat, name), deadline()).unwrap())
        .into();
    bench.log.permits.add_permits(1);
    let mut outcomes = Vec::new();
    for submission in submissions {
        outcomes.push(submission.outcome().await.map(|receipt| receipt.message.sequence));
    }
    assert_eq!(outcomes, [Ok(1), Err(REJECTED), Ok(1)]);
    assert_eq!(*bench.log.batches.lock().unwrap(), [3]);
}
