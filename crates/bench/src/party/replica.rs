//! A member's copy of the queue, built only from the events of its subscription.
//!
//! During the measurement only the ids and positions of items are parsed; their content is parsed
//! and hashed at the end, because readers share the machine with the server under test.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use heartline_party::Item;
use heartline_party::value::hash::{order_hash, state_hash};
use serde::Deserialize;

/// The type and operation id of a server message.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    /// The type.
    #[serde(rename = "type", borrow)]
    pub(super) kind: &'a str,
    /// The id of the operation.
    #[serde(default, borrow)]
    pub(super) id: &'a str,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "I: Deserialize<'de>, 'de: 'a"))]
struct Update<'a, I> {
    payload: Payload<'a, I>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "I: Deserialize<'de>, 'de: 'a"))]
struct Payload<'a, I> {
    data: Data<'a, I>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "I: Deserialize<'de>, 'de: 'a"))]
struct Data<'a, I> {
    queue_updates: Event<'a, I>,
}

/// An event of any kind; fields that a kind does not have are empty.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "I: Deserialize<'de>, 'de: 'a"))]
struct Event<'a, I> {
    #[serde(rename = "__typename")]
    kind: &'a str,
    sequence: u64,
    #[serde(default)]
    state_hash: &'a str,
    #[serde(default)]
    order_hash: &'a str,
    #[serde(default)]
    correlation_id: Option<&'a str>,
    #[serde(default)]
    position: usize,
    #[serde(default)]
    uuid: &'a str,
    #[serde(default)]
    old_index: usize,
    #[serde(default)]
    new_index: usize,
    added_item: Option<I>,
    current_item: Option<I>,
    state: Option<State<'a, I>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "I: Deserialize<'de>, 'de: 'a"))]
struct State<'a, I> {
    state_hash: &'a str,
    order_hash: &'a str,
    queue: Vec<I>,
    current_climb_queue_item: Option<I>,
}

/// An item of which only the id is parsed.
#[derive(Deserialize)]
struct ItemId<'a> {
    uuid: &'a str,
}

/// An item of the queue and the message that contains it.
#[derive(Debug, Clone)]
struct QueuedItem {
    uuid: String,
    source: Arc<Vec<u8>>,
}

/// A copy of the queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Replica {
    /// The sequence of the last event.
    pub(super) sequence: u64,
    /// Full states that were received after the first one, in place of events.
    pub(super) resyncs: u64,
    state_hash: String,
    order_hash: String,
    queue: Vec<QueuedItem>,
    current: Option<QueuedItem>,
    has_state: bool,
}

/// An event that was applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    /// The sequence.
    pub(super) sequence: u64,
    /// The correlation id of its author; none for a full state.
    pub(super) correlation_id: Option<String>,
}

impl Replica {
    /// Applies an event of the subscription. An event that does not fit the copy is an error.
    pub(super) fn apply(&mut self, text: Vec<u8>) -> Result<Applied> {
        let text = Arc::new(text);
        let event = parse::<ItemId<'_>>(&text)?;
        let queued = |item: &ItemId<'_>| {
            let (uuid, source) = (item.uuid.to_owned(), Arc::clone(&text));
            QueuedItem { uuid, source }
        };
        if let Some(state) = &event.state {
            self.resyncs += u64::from(self.has_state);
            self.has_state = true;
            self.queue = state.queue.iter().map(queued).collect();
            self.current = state.current_climb_queue_item.as_ref().map(queued);
            self.set_version(event.sequence, state.state_hash, state.order_hash);
            return Ok(Applied { sequence: event.sequence, correlation_id: None });
        }
        let (sequence, last) = (event.sequence, self.sequence);
        ensure!(sequence == last + 1, "event {sequence} came after {last}");
        match event.kind {
            "QueueItemAdded" => {
                let item = event.added_item.as_ref().context("QueueItemAdded has no item")?;
                ensure!(
                    event.position <= self.queue.len(),
                    "an item was added beyond the end of the queue"
                );
                self.queue.insert(event.position, queued(item));
            }
            "QueueItemRemoved" => {
                let place = self.queue.iter().position(|item| item.uuid == event.uuid);
                self.queue.remove(place.context("an item was removed that is not in the queue")?);
                self.current.take_if(|item| item.uuid == event.uuid);
            }
            "QueueReordered" => {
                let is_there = |item: &QueuedItem| item.uuid == event.uuid;
                let is_known = self.queue.get(event.old_index).is_some_and(is_there);
                ensure!(is_known, "a moved item is not at its old index");
                let item = self.queue.remove(event.old_index);
                ensure!(
                    event.new_index <= self.queue.len(),
                    "an item was moved beyond the end of the queue"
                );
                self.queue.insert(event.new_index, item);
            }
            "CurrentClimbChanged" => self.current = event.current_item.as_ref().map(queued),
            other => anyhow::bail!("unexpected event {other}"),
        }
        self.set_version(sequence, event.state_hash, event.order_hash);
        let correlation_id = event.correlation_id.map(str::to_owned);
        Ok(Applied { sequence, correlation_id })
    }

    fn set_version(&mut self, sequence: u64, state_hash: &str, order_hash: &str) {
        self.sequence = sequence;
        state_hash.clone_into(&mut self.state_hash);
        order_hash.clone_into(&mut self.order_hash);
    }

    /// Checks that the copy is equal to the session, and that its content has the hashes that the
    /// server sent.
    pub(super) fn check(&self, session: &Self) -> Result<()> {
        let ids = |replica: &Self| -> Vec<String> {
            replica.queue.iter().map(|item| item.uuid.clone()).collect()
        };
        let (own, others) = (self.sequence, session.sequence);
        ensure!(own == others, "the copy is at sequence {own}, the session at {others}");
        let is_same =
            (&self.state_hash, &self.order_hash) == (&session.state_hash, &session.order_hash);
        ensure!(is_same && ids(self) == ids(session), "the copy differs from the session");
        let mut messages = ParsedMessages::default();
        let queue =
            self.queue.iter().map(|item| messages.item(item)).collect::<Result<Vec<Item>>>()?;
        let current = self.current.as_ref().map(|item| messages.item(item)).transpose()?;
        let state_hash = state_hash(&queue, current.as_ref()).to_string();
        let order_hash = order_hash(&queue, current.as_ref()).to_string();
        ensure!(
            (&state_hash, &order_hash) == (&self.state_hash, &self.order_hash),
            "the items have the hashes {state_hash} and {order_hash}, the server sent {} and {}",
            self.state_hash,
            self.order_hash
        );
        Ok(())
    }
}

/// The items of messages, each parsed once: a full state contains many items of the queue.
#[derive(Default)]
struct ParsedMessages(HashMap<*const Vec<u8>, Vec<Item>>);

impl ParsedMessages {
    /// Finds an item in its message.
    fn item(&mut self, queued: &QueuedItem) -> Result<Item> {
        let items = match self.0.entry(Arc::as_ptr(&queued.source)) {
            Entry::Occupied(parsed) => parsed.into_mut(),
            Entry::Vacant(unparsed) => unparsed.insert(items(&queued.source)?),
        };
        let item = items.iter().find(|item| item.uuid() == queued.uuid);
        item.cloned().context("the item is not in its message")
    }
}

/// All items that a message contains.
fn items(message: &[u8]) -> Result<Vec<Item>> {
    let event = parse::<Item>(message)?;
    let state = event.state.map(|state| (state.queue, state.current_climb_queue_item));
    let (queue, current) = state.unwrap_or_default();
    Ok(queue.into_iter().chain(current).chain(event.added_item).chain(event.current_item).collect())
}

fn parse<'a, I: Deserialize<'a>>(text: &'a [u8]) -> Result<Event<'a, I>> {
    let update: Update<'a, I> =
        serde_json::from_slice(text).context("an event has an unknown format")?;
    Ok(update.payload.data.queue_updates)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::edits::EditScript;
    use super::*;

    fn message(event: &Value) -> Vec<u8> {
        let payload = json!({ "data": { "queueUpdates": event } });
        json!({ "type": "next", "id": "u", "payload": payload }).to_string().into_bytes()
    }

    fn items() -> Vec<Item> {
        let script = EditScript::new(0, 0, 4);
        script.first_items().map(|value| serde_json::from_value(value).unwrap()).collect()
    }

    fn full_sync(sequence: u64, queue: &[Item], current: Option<&Item>) -> Vec<u8> {
        let state = json!({
            "stateHash": state_hash(queue, current), "orderHash": order_hash(queue, current),
            "queue": queue, "currentClimbQueueItem": current,
        });
        message(&json!({ "__typename": "FullSync", "sequence": sequence, "state": state }))
    }

    fn event(kind: &str, sequence: u64, after: (&[Item], Option<&Item>), more: Value) -> Vec<u8> {
        let mut event = more;
        event["__typename"] = kind.into();
        event["sequence"] = sequence.into();
        event["stateHash"] = state_hash(after.0, after.1).to_string().into();
        event["orderHash"] = order_hash(after.0, after.1).to_string().into();
        event["correlationId"] = "mine".into();
        message(&event)
    }

    #[test]
    fn a_copy_that_applied_every_event_is_equal_to_the_session() {
        let all = items();
        let [a, b, c, d] = all.as_slice() else { panic!("there are four") };
        let mut replica = Replica::default();
        let copy = |items: &[&Item]| -> Vec<Item> { items.iter().copied().cloned().collect() };
        replica.apply(full_sync(7, &copy(&[a, b]), None)).unwrap();
        let (after, item) = (copy(&[a, c, b]), json!({ "addedItem": c, "position": 1 }));
        replica.apply(event("QueueItemAdded", 8, (&after, None), item)).unwrap();
        let current = json!({ "currentItem": d });
        replica.apply(event("CurrentClimbChanged", 9, (&after, Some(d)), current)).unwrap();
        let (after, moved) =
            (copy(&[b, a, c]), json!({ "uuid": b.uuid(), "oldIndex": 2, "newIndex": 0 }));
        replica.apply(event("QueueReordered", 10, (&after, Some(d)), moved)).unwrap();
        let (after, gone) = (copy(&[b, c]), json!({ "uuid": a.uuid() }));
        let applied =
            replica.apply(event("QueueItemRemoved", 11, (&after, Some(d)), gone)).unwrap();
        assert_eq!(applied, Applied { sequence: 11, correlation_id: Some("mine".to_owned()) });
        let mut session = Replica::default();
        session.apply(full_sync(11, &after, Some(d))).unwrap();
        replica.check(&session).unwrap();
        session.apply(full_sync(11, &copy(&[c, b]), Some(d))).unwrap();
        assert_eq!(session.resyncs, 1);
        assert!(replica.check(&session).unwrap_err().to_string().contains("differs"));
    }

    #[test]
    fn gaps_repeats_and_wrong_hashes_are_detected() {
        let all = items();
        let mut replica = Replica::default();
        replica.apply(full_sync(7, &all[..2], None)).unwrap();
        let gone = |sequence| {
            let gone = json!({ "uuid": all[0].uuid() });
            event("QueueItemRemoved", sequence, (&all[1..2], None), gone)
        };
        assert!(replica.apply(gone(9)).is_err() && replica.apply(gone(7)).is_err());
        replica.apply(gone(8)).unwrap();
        assert!(replica.apply(gone(9)).is_err(), "the item is already removed");
        let mut session = Replica::default();
        session.apply(full_sync(8, &all[1..2], None)).unwrap();
        replica.check(&session).unwrap();
        // The hashes are those of another item.
        let wrong = json!({ "currentItem": all[2] });
        let wrong = event("CurrentClimbChanged", 9, (&all[1..2], Some(&all[3])), wrong);
        replica.apply(wrong.clone()).unwrap();
        session.apply(wrong).unwrap();
        assert!(replica.check(&session).unwrap_err().to_string().contains("hashes"));
    }
}
