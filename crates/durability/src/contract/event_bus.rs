//! What the docs of [`EventBus`] promise.

use std::sync::Arc;

use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, MessageId, Timestamp};
use ulid::Ulid;

use crate::bus::{Event, EventBus, Stored};

/// Chats whose messages are published in turns.
const CHATS: u128 = 3;

/// Messages of each.
const MESSAGES: u64 = 50;

/// Proves that a bus keeps the order of every chat and loses nothing. `next` takes the next event
/// up at the other end.
pub async fn prove_event_bus(bus: &dyn EventBus, mut next: impl AsyncFnMut() -> Event) {
    let run: u64 = rand::random();
    let chat = |number: u128| ChatId(Ulid(u128::from(run) << 16 | number));
    for sequence in 1..=MESSAGES {
        let events = (0..CHATS).map(|number| Event::Message(stored(chat(number), sequence)));
        bus.publish(events.collect()).await.expect("the bus takes events");
    }
    let mut heads = [0; CHATS as usize];
    while heads != [MESSAGES; CHATS as usize] {
        let Event::Message(stored) = next().await else { panic!("nothing else was published") };
        let chat_id = stored.message.chat_id;
        let Some(number) = (0..CHATS).find(|&number| chat(number) == chat_id) else { continue };
        let head = &mut heads[number as usize];
        // At least once: a repeat is allowed, a hole or an inversion is not.
        assert!(stored.message.sequence <= *head + 1, "those of one chat come in order");
        *head = stored.message.sequence.max(*head);
    }
    let typing = Event::Typing {
        chat_id: chat(0),
        user_id: "ana".parse().expect("a legal user id"),
        is_typing: true,
    };
    assert!(bus.whisper(typing), "an empty bus has room for what may be lost");
    assert!(matches!(next().await, Event::Typing { is_typing: true, .. }));
}

fn stored(chat_id: ChatId, sequence: u64) -> Stored {
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
    Stored { message: Arc::new(message), members_version: 1, origin: None, committed_at: None }
}
