//! The bus of a process against the suite, and without a consumer.

use std::sync::Mutex as SyncMutex;
use std::time::Duration;

use heartline_protocol::server_frame::Message;
use heartline_protocol::{MessageId, Timestamp};
use ulid::Ulid;

use super::*;
use crate::announcements::{Announcements, Unpublished};
use crate::contract::event_bus::changed;
use crate::contract::{BusUnderTest, prove_event_bus};
use crate::event::Stored;
use crate::store::StoreError;

/// More events than any of the tests has in one batch.
const BATCH: usize = 16;

fn bus() -> InProcessBus {
    InProcessBus::new(Publications::default(), Clock::system())
}

/// Keeps the messages that were recorded as published.
#[derive(Debug, Default)]
struct Records(SyncMutex<Vec<Published>>);

#[async_trait]
impl Announcements for Records {
    async fn record_published(&self, ranges: Vec<Published>) -> Result<(), StoreError> {
        self.0.lock().unwrap().extend(ranges);
        Ok(())
    }

    async fn unpublished(&self, _: Duration, _: usize) -> Result<Vec<Unpublished>, StoreError> {
        Ok(Vec::new())
    }
}

#[derive(Debug)]
struct Relayed {
    bus: InProcessBus,
    records: Records,
}

#[async_trait]
impl BusUnderTest for Relayed {
    fn bus(&self) -> &dyn EventBus {
        &self.bus
    }

    async fn source(&mut self) -> Box<dyn EventSource> {
        Box::new(self.bus.source())
    }

    async fn relay(&mut self, stored: &[Event]) {
        self.bus.publications.record(&self.records).await;
        let is_recorded = |event: &Event| {
            let Event::Message(Stored { message, .. }) = event else { return true };
            let records = self.records.0.lock().unwrap();
            records.iter().any(|range| {
                range.chat_id == message.chat_id
                    && (range.first..=range.last).contains(&message.sequence)
            })
        };
        let missing = stored.iter().filter(|event| !is_recorded(event)).cloned().collect();
        self.bus.publish(missing).await.unwrap();
    }
}

#[tokio::test]
async fn the_bus_of_a_process_keeps_the_contract() {
    prove_event_bus(&mut Relayed { bus: bus(), records: Records::default() }).await;
}

fn message(committed_at: Option<Timestamp>) -> Event {
    let message = Message {
        chat_id: ChatId(Ulid(1)),
        sequence: 1,
        message_id: MessageId(Ulid(1)),
        sender_id: "ana".parse().unwrap(),
        client_message_id: "m".parse().unwrap(),
        content: "hello".to_owned(),
        content_type: "text/plain".to_owned(),
        created_at: Timestamp { unix_ms: 0 },
        deleted: false,
    };
    let message = Arc::new(message);
    Event::Message(Stored { message, members_version: 1, origin: None, committed_at })
}

#[tokio::test(start_paused = true)]
async fn a_full_bus_makes_publishers_wait_a_second_and_no_longer() {
    let bus = bus();
    bus.publish(vec![message(None); IN_PROCESS_EVENTS]).await.unwrap();
    let begun = bus.clock.now();
    let full = bus.publish(vec![message(None)]).await.unwrap_err();
    assert!(matches!(full, BusError::Full), "{full:?}");
    assert_eq!(bus.clock.now() - begun, PUBLISH_WAIT_MAX);
    let mut source = bus.source();
    let event = vec![message(None)];
    let (published, received) = tokio::join!(bus.publish(event), source.receive(1));
    published.unwrap();
    assert_eq!(received.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_fresh_commit_has_a_time_of_this_process() {
    let bus = bus();
    let fresh = message(Some(Timestamp { unix_ms: 5 }));
    bus.publish(vec![fresh, message(None)]).await.unwrap();
    let received = bus.source().receive(2).await.unwrap();
    let times: Vec<_> = received.iter().map(|received| received.committed_at).collect();
    assert_eq!(times, [Some(bus.clock.now()), None]);
}

#[tokio::test]
async fn an_event_at_which_every_consumer_fails_is_dropped_and_the_others_are_not() {
    let bus = bus();
    let events = [1, 2, 3].map(|number| changed(ChatId(Ulid(number))));
    bus.publish(events.to_vec()).await.unwrap();
    let mut delivered = Vec::new();
    for _ in 0..YIELDS_MAX {
        // A consumer that fails at the second event before it reports the batch.
        let mut source = bus.source();
        loop {
            let batch = source.receive(BATCH).await.unwrap();
            if batch.iter().any(|received| received.event == events[1]) {
                break;
            }
            delivered.extend(batch.iter().map(|received| received.event.clone()));
            let attempt = Attempt::Attempted;
            let report = |it: &Received| Report { position: it.position, attempt };
            source.report(batch.iter().map(report).collect()).await.unwrap();
        }
    }
    assert_eq!(bus.dropped.get(), 1);
    let received = bus.source().receive(BATCH).await.unwrap();
    delivered.extend(received.into_iter().map(|received| received.event));
    assert_eq!(delivered, [events[0].clone(), events[2].clone()]);
}
