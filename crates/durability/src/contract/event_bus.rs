//! The suite that every event bus must pass: the promises of [`EventBus`] and [`EventSource`].

use std::sync::Arc;

use async_trait::async_trait;
use heartline_protocol::server_frame::{Chat, ChatChange, ChatKind, Message};
use heartline_protocol::{ChatId, MessageId, Timestamp};
use heartline_runtime::Random;
use ulid::Ulid;

use crate::bus::{Attempt, EventBus, EventSource, Received, Report};
use crate::event::{Event, Stored};

/// Chats whose messages are published in turns.
const CHATS: u128 = 3;

/// Messages of each chat.
const MESSAGES: u64 = 50;

/// Events of one batch.
const BATCH_EVENTS: usize = 16;

/// A bus under test, with access to both of its ends.
#[async_trait]
pub trait BusUnderTest: Send {
    /// The publishing end.
    fn bus(&self) -> &dyn EventBus;

    /// Opens the consuming end, after an earlier one was dropped.
    async fn source(&mut self) -> Box<dyn EventSource>;

    /// Publishes again the stored events that are not recorded as published, as the relay of a node
    /// does.
    async fn relay(&mut self, stored: &[Event]);
}

/// Checks both ends of a bus.
pub async fn prove_event_bus(under_test: &mut dyn BusUnderTest) {
    let run: u64 = Random::system().draw();
    let chat = |number: u128| ChatId(Ulid(u128::from(run) << 16 | number));
    prove_order(under_test, &chat).await;
    let alone = |number| (1..=3).map(|it| stored(chat(number), it)).collect::<Vec<_>>();
    let markers = |number| stored(chat(number), 1);
    let attempted = repeats(under_test, &alone(100), Some(Attempt::Attempted), markers(101)).await;
    assert_eq!(attempted, [0; 0], "attempted events do not come again");
    let again = repeats(under_test, &alone(102), Some(Attempt::Again), markers(103)).await;
    assert_eq!(again, [1, 2, 3], "events that must come again do, in order");
    let dropped = repeats(under_test, &alone(104), None, markers(105)).await;
    assert_eq!(dropped, [1, 2, 3], "unreported events come again, in order");
    prove_changes_are_repeated(under_test, &chat).await;
}

/// Events of one chat arrive in order, and each at least once.
async fn prove_order(under_test: &mut dyn BusUnderTest, chat: &impl Fn(u128) -> ChatId) {
    let mut source = under_test.source().await;
    for sequence in 1..=MESSAGES {
        let events = (0..CHATS).map(|number| stored(chat(number), sequence));
        under_test.bus().publish(events.collect()).await.expect("the bus has room");
    }
    let mut heads = [0; CHATS as usize];
    while heads != [MESSAGES; CHATS as usize] {
        let batch = receive(&mut *source).await;
        for (chat_id, sequence) in batch.iter().filter_map(|received| key(&received.event)) {
            let Some(number) = (0..CHATS).find(|&number| chat(number) == chat_id) else { continue };
            let head = &mut heads[number as usize];
            // A repeat is allowed, a gap or an inversion is not.
            assert!(sequence <= *head + 1, "events of one chat come in order");
            *head = sequence.max(*head);
        }
        report(&mut *source, &batch, Attempt::Attempted).await;
    }
}

/// Publishes the events of one chat, reports them, and drops the source. Returns those that the
/// next source yields before a marker that is published after the relay has run.
async fn repeats(
    under_test: &mut dyn BusUnderTest,
    events: &[Event],
    attempt: Option<Attempt>,
    marker: Event,
) -> Vec<u64> {
    let mut source = under_test.source().await;
    under_test.bus().publish(events.to_vec()).await.expect("the bus has room");
    let mut missing: Vec<_> = events.iter().filter_map(key).collect();
    while !missing.is_empty() {
        let batch = receive(&mut *source).await;
        missing.retain(|key| !batch.iter().any(|it| self::key(&it.event) == Some(*key)));
        if let Some(attempt) = attempt {
            report(&mut *source, &batch, attempt).await;
        }
    }
    drop(source);
    under_test.relay(events).await;
    under_test.bus().publish(vec![marker.clone()]).await.expect("the bus has room");
    let mut source = under_test.source().await;
    let mut repeated = Vec::new();
    loop {
        let batch = receive(&mut *source).await;
        report(&mut *source, &batch, Attempt::Attempted).await;
        for received in batch {
            if received.event == marker {
                return repeated;
            }
            let is_ours = received.event.chat_id() == events[0].chat_id();
            repeated.extend(key(&received.event).filter(|_| is_ours).map(|(_, it)| it));
        }
    }
}

/// A change of a chat that a dropped source has yielded and not reported comes again. No relay
/// repeats it: a store does not record which changes were announced.
async fn prove_changes_are_repeated(
    under_test: &mut dyn BusUnderTest,
    chat: &impl Fn(u128) -> ChatId,
) {
    let events: Vec<_> = (200..203).map(|number| changed(chat(number))).collect();
    under_test.bus().publish(events.clone()).await.expect("the bus has room");
    let mut missing = events.clone();
    let mut source = under_test.source().await;
    while !missing.is_empty() {
        let batch = receive(&mut *source).await;
        missing.retain(|event| !batch.iter().any(|it| it.event == *event));
    }
    drop(source);
    let mut missing = events;
    let mut source = under_test.source().await;
    while !missing.is_empty() {
        let batch = receive(&mut *source).await;
        report(&mut *source, &batch, Attempt::Attempted).await;
        missing.retain(|event| !batch.iter().any(|it| it.event == *event));
    }
}

async fn receive(source: &mut dyn EventSource) -> Vec<Received> {
    let batch = source.receive(BATCH_EVENTS).await.expect("the bus works");
    assert!((1..=BATCH_EVENTS).contains(&batch.len()));
    batch
}

async fn report(source: &mut dyn EventSource, batch: &[Received], attempt: Attempt) {
    let of = |received: &Received| Report { position: received.position, attempt };
    source.report(batch.iter().map(of).collect()).await.expect("the bus works");
}

fn key(event: &Event) -> Option<(ChatId, u64)> {
    match event {
        Event::Message(stored) => Some((stored.message.chat_id, stored.message.sequence)),
        Event::ChatChanged { .. } => None,
    }
}

fn stored(chat_id: ChatId, sequence: u64) -> Event {
    let message = Message {
        chat_id,
        sequence,
        message_id: MessageId(Ulid(sequence.into())),
        sender_id: "ana".parse().expect("a legal user id"),
        client_message_id: sequence.to_string().parse().expect("a legal id"),
        content: "hello".to_owned(),
        content_type: "text/plain".to_owned(),
        created_at: Timestamp { unix_ms: 0 },
        deleted: false,
    };
    let message = Arc::new(message);
    Event::Message(Stored { message, members_version: 1, origin: None, committed_at: None })
}

pub(crate) fn changed(chat_id: ChatId) -> Event {
    let chat = Chat {
        chat_id,
        kind: ChatKind::Group,
        name: Some("Team".to_owned()),
        members: Vec::new(),
        head_sequence: 0,
        created_at: Timestamp { unix_ms: 0 },
    };
    let (change, chat, removed) = (ChatChange::Renamed, Arc::new(chat), Vec::new());
    Event::ChatChanged { change, chat, removed, members_version: 1 }
}
