//! A bounded queue of messages for the reader of a subscription.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::counters::RedisCounters;
use super::subscription::{Event, Message};

/// Messages that may wait.
const MESSAGES_MAX: usize = 16_384;

/// Bytes of payload that may wait.
const PAYLOAD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A queue from the connection, which must not be made to wait, to the reader. When it is full
/// the newest messages are dropped, and the reader gets `Lost` in their place.
#[derive(Debug)]
pub(super) struct MessageQueue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    counters: RedisCounters,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    messages: usize,
    payload_bytes: usize,
}

impl MessageQueue {
    pub(super) fn new(counters: RedisCounters) -> Self {
        Self { waiting: Mutex::default(), arrived: Notify::new(), counters }
    }

    /// Queues a message, or drops it and queues `Lost`.
    pub(super) fn message(&self, message: Message) {
        let mut waiting = self.lock();
        let payload_bytes = waiting.payload_bytes + message.payload.len();
        if waiting.messages == MESSAGES_MAX || payload_bytes > PAYLOAD_BYTES_MAX {
            self.counters.messages_dropped.inc();
            drop(waiting);
            return self.lost();
        }
        waiting.messages += 1;
        waiting.payload_bytes = payload_bytes;
        waiting.events.push_back(Event::Message(message));
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Queues `Lost`: messages may be missing here.
    pub(super) fn lost(&self) {
        let mut waiting = self.lock();
        // One is enough until another message follows.
        if waiting.events.back() == Some(&Event::Lost) {
            return;
        }
        self.counters.subscription_losses.inc();
        waiting.events.push_back(Event::Lost);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Removes the oldest event, or waits for one. There is one reader.
    pub(super) async fn next(&self) -> Event {
        loop {
            if let Some(event) = self.take() {
                return event;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Event> {
        let mut waiting = self.lock();
        let event = waiting.events.pop_front()?;
        if let Event::Message(message) = &event {
            waiting.messages -= 1;
            waiting.payload_bytes -= message.payload.len();
        }
        Some(event)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(number: usize, length: usize) -> Message {
        let payload = Bytes::from(vec![0; length]);
        Message { channel: number.to_string(), payload }
    }

    #[tokio::test]
    async fn a_full_queue_says_where_messages_are_missing() {
        let messages = MessageQueue::new(RedisCounters::default());
        for number in 0..MESSAGES_MAX + 2 {
            messages.message(message(number, 1));
        }
        assert_eq!(messages.next().await, Event::Message(message(0, 1)));
        messages.message(message(777_777, 1));
        for number in 1..MESSAGES_MAX {
            assert_eq!(messages.next().await, Event::Message(message(number, 1)));
        }
        assert_eq!(messages.next().await, Event::Lost);
        assert_eq!(messages.next().await, Event::Message(message(777_777, 1)));
    }

    #[tokio::test]
    async fn payloads_are_bounded_in_bytes_too() {
        let messages = MessageQueue::new(RedisCounters::default());
        messages.message(message(1, PAYLOAD_BYTES_MAX));
        messages.message(message(2, 1));
        assert!(matches!(messages.next().await, Event::Message(_)));
        assert_eq!(messages.next().await, Event::Lost);
        messages.message(message(3, 1));
        assert_eq!(messages.next().await, Event::Message(message(3, 1)), "room again");
    }
}
