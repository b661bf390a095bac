//! The relay on a log that only knows how far a chat was published.

use std::sync::Mutex;

use async_trait::async_trait;
use heartline_protocol::server_frame::{ManifestChat, Message};
use heartline_protocol::{MessageId, Timestamp, UserId};
use heartline_runtime::{Clock, TaskSet};
use ulid::Ulid;

use super::*;
use crate::bus::{EventSource, InProcessBus, InProcessSource};
use crate::log::{AppendError, Appended, LogPage};
use crate::message::NewMessage;
use crate::store::StoreError;

const CHAT: ChatId = ChatId(Ulid(7));

/// One chat with so many messages, published up to a sequence that the test sets.
#[derive(Debug)]
struct OneChat {
    head_sequence: u64,
    /// Messages that are stored after the unpublished chats were read and before the chat itself is
    /// read.
    stored_since: u64,
    published_sequence: Mutex<u64>,
}

#[async_trait]
impl ChatLog for OneChat {
    async fn append(&self, _: Vec<NewMessage>) -> Vec<Result<Appended, AppendError>> {
        Vec::new()
    }

    async fn read(&self, read: LogRead) -> Result<Option<LogPage>, StoreError> {
        let Position::After(after) = read.position else { unreachable!("it reads onwards") };
        let newest = self.head_sequence + self.stored_since;
        let messages = (after + 1..=newest).take(read.limit).map(message).collect();
        Ok(Some(LogPage { messages, ..LogPage::default() }))
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

#[async_trait]
impl Announcements for OneChat {
    async fn record_published(&self, _: Vec<Published>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn unpublished(&self, _: Duration, _: usize) -> Result<Vec<Unpublished>, StoreError> {
        let (published_sequence, head_sequence) =
            (*self.published_sequence.lock().unwrap(), self.head_sequence);
        Ok(vec![Unpublished {
            chat_id: CHAT,
            published_sequence,
            head_sequence,
            members_version: 1,
        }])
    }
}

fn message(sequence: u64) -> Message {
    Message {
        chat_id: CHAT,
        sequence,
        message_id: MessageId(Ulid(sequence.into())),
        sender_id: "ana".parse().unwrap(),
        client_message_id: "m".parse().unwrap(),
        content: "hello".to_owned(),
        content_type: "text/plain".to_owned(),
        created_at: Timestamp::from_unix_seconds(0),
        deleted: false,
    }
}

/// The sequences that the next run of the relay announces.
async fn next_run(source: &mut InProcessSource) -> Vec<u64> {
    let mut sequences = Vec::new();
    // Time stands still while a task can run, so a pause is the end of the run.
    while let Ok(batch) = tokio::time::timeout(RELAY_INTERVAL / 2, source.receive(64)).await {
        for received in batch.unwrap() {
            let Event::Message(stored) = received.event else { panic!("no message") };
            sequences.push(stored.message.sequence);
        }
    }
    tokio::time::sleep(RELAY_INTERVAL / 2).await;
    sequences
}

/// A relay of a chat, and the source of its events.
fn relay(log: &Arc<OneChat>) -> (TaskSet<()>, InProcessSource) {
    let publications = Publications::default();
    let bus = InProcessBus::new(publications.clone(), Clock::system());
    let source = bus.source();
    let relay = Relay {
        log: Arc::clone(log) as Arc<dyn ChatLog>,
        announcements: Arc::clone(log) as Arc<dyn Announcements>,
        bus: Arc::new(bus),
        publications,
        metrics: Metrics::default(),
    };
    (TaskSet::from_iter([relay.run()]), source)
}

#[tokio::test(start_paused = true)]
async fn messages_stored_during_a_run_are_left_to_the_next() {
    let published_sequence = Mutex::new(0);
    let log = Arc::new(OneChat { head_sequence: 110, stored_since: 5, published_sequence });
    let (_tasks, mut events) = relay(&log);
    assert_eq!(next_run(&mut events).await, (1..=110).collect::<Vec<_>>());
    *log.published_sequence.lock().unwrap() = 109;
    assert_eq!(next_run(&mut events).await, [110], "its membership may have changed since");
}

#[tokio::test(start_paused = true)]
async fn only_the_first_undelivered_message_is_repeated() {
    let published_sequence = Mutex::new(0);
    let log = Arc::new(OneChat { head_sequence: 250, stored_since: 0, published_sequence });
    let (_tasks, mut events) = relay(&log);
    assert_eq!(next_run(&mut events).await, (1..=250).collect::<Vec<_>>());
    for _ in 0..3 {
        assert_eq!(next_run(&mut events).await, [1], "it has not advanced");
    }
    *log.published_sequence.lock().unwrap() = 1;
    assert_eq!(next_run(&mut events).await, (2..=250).collect::<Vec<_>>());
}
