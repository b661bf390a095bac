//! A member's copy of the queue, made of nothing but what its subscription said.
//!
//! While edits are under way an event is only put in its place; what items contain is read and
//! hashed at the end, because readers share the machine with the server that they measure.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use heartline_party::Item;
use heartline_party::value::hash::{order_hash, state_hash};
use serde::Deserialize;

/// A message of the server, as far as it is looked at.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    /// What it is.
    #[serde(rename = "type", borrow)]
    pub(super) kind: &'a str,
    /// Which operation it belongs to.
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

/// An event of any kind; what a kind does not have is absent.
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

/// An item of which only the name is read.
#[derive(Deserialize)]
struct Named<'a> {
    uuid: &'a str,
}

/// An item in its place, and the message that brought it.
#[derive(Debug, Clone)]
struct Placed {
    uuid: String,
    told_by: Arc<Vec<u8>>,
}

/// The copy.
#[derive(Debug, Clone, Default)]
pub(super) struct Replica {
    /// The number of the last event.
    pub(super) sequence: u64,
    /// Whole states that came after the first one, in place of events.
    pub(super) resyncs: u64,
    state_hash: String,
    order_hash: String,
    queue: Vec<Placed>,
    current: Option<Placed>,
    is_begun: bool,
}

/// An event that was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Its number.
    pub(super) sequence: u64,
    /// What its author called it; none for a whole state.
    pub(super) correlation_id: Option<String>,
}

impl Replica {
    /// Takes what a subscription says. What does not follow from the copy is an error.
    pub(super) fn take(&mut self, text: Vec<u8>) -> Result<Taken> {
        let text = Arc::new(text);
        let event = read::<Named<'_>>(&text)?;
        let placed = |item: &Named<'_>| {
            let (uuid, told_by) = (item.uuid.to_owned(), Arc::clone(&text));
            Placed { uuid, told_by }
        };
        if let Some(state) = &event.state {
            self.resyncs += u64::from(self.is_begun);
            self.is_begun = true;
            self.queue = state.queue.iter().map(placed).collect();
            self.current = state.current_climb_queue_item.as_ref().map(placed);
            self.stamp(event.sequence, state.state_hash, state.order_hash);
            return Ok(Taken { sequence: event.sequence, correlation_id: None });
        }
        let (sequence, last) = (event.sequence, self.sequence);
        ensure!(sequence == last + 1, "event {sequence} came after {last}");
        match event.kind {
            "QueueItemAdded" => {
                let item = event.added_item.as_ref().context("an added item is missing")?;
                ensure!(event.position <= self.queue.len(), "an item was put beyond the end");
                self.queue.insert(event.position, placed(item));
            }
            "QueueItemRemoved" => {
                let place = self.queue.iter().position(|item| item.uuid == event.uuid);
                self.queue.remove(place.context("an unknown item was removed")?);
                self.current.take_if(|item| item.uuid == event.uuid);
            }
            "QueueReordered" => {
                let is_there = |item: &Placed| item.uuid == event.uuid;
                let is_known = self.queue.get(event.old_index).is_some_and(is_there);
                ensure!(is_known, "an item was moved from where it is not");
                let item = self.queue.remove(event.old_index);
                ensure!(event.new_index <= self.queue.len(), "an item was moved beyond the end");
                self.queue.insert(event.new_index, item);
            }
            "CurrentClimbChanged" => self.current = event.current_item.as_ref().map(placed),
            other => anyhow::bail!("{other} was not asked for"),
        }
        self.stamp(sequence, event.state_hash, event.order_hash);
        let correlation_id = event.correlation_id.map(str::to_owned);
        Ok(Taken { sequence, correlation_id })
    }

    fn stamp(&mut self, sequence: u64, state_hash: &str, order_hash: &str) {
        self.sequence = sequence;
        state_hash.clone_into(&mut self.state_hash);
        order_hash.clone_into(&mut self.order_hash);
    }

    /// Whether the copy is what the server says that it is, by content, and the same as another one.
    pub(super) fn check(&self, truth: &Self) -> Result<()> {
        let names = |replica: &Self| -> Vec<String> {
            replica.queue.iter().map(|item| item.uuid.clone()).collect()
        };
        let (own, others) = (self.sequence, truth.sequence);
        ensure!(own == others, "it is at {own}, the session at {others}");
        let is_same =
            (&self.state_hash, &self.order_hash) == (&truth.state_hash, &truth.order_hash);
        ensure!(is_same && names(self) == names(truth), "it differs from the session");
        let queue = self.queue.iter().map(Placed::item).collect::<Result<Vec<Item>>>()?;
        let current = self.current.as_ref().map(Placed::item).transpose()?;
        let state_hash = state_hash(&queue, current.as_ref()).to_string();
        let order_hash = order_hash(&queue, current.as_ref()).to_string();
        ensure!(
            (&state_hash, &order_hash) == (&self.state_hash, &self.order_hash),
            "its items have the hashes {state_hash} and {order_hash}, it was told {} and {}",
            self.state_hash,
            self.order_hash
        );
        Ok(())
    }
}

impl Placed {
    /// All of the item.
    fn item(&self) -> Result<Item> {
        let event = read::<Item>(&self.told_by)?;
        let state = event.state.map(|state| (state.queue, state.current_climb_queue_item));
        let (queue, current) = state.unwrap_or_default();
        let all =
            queue.into_iter().chain(current).chain(event.added_item).chain(event.current_item);
        all.into_iter().find(|item| item.uuid() == self.uuid).context("an item was mixed up")
    }
}

fn read<'a, I: Deserialize<'a>>(text: &'a [u8]) -> Result<Event<'a, I>> {
    let update: Update<'a, I> =
        serde_json::from_slice(text).context("an event has an unknown form")?;
    Ok(update.payload.data.queue_updates)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::part::Part;
    use super::*;

    fn told(event: &Value) -> Vec<u8> {
        let payload = json!({ "data": { "queueUpdates": event } });
        json!({ "type": "next", "id": "u", "payload": payload }).to_string().into_bytes()
    }

    fn items() -> Vec<Item> {
        let part = Part::new(0, 0, 4);
        part.first_items().map(|value| serde_json::from_value(value).unwrap()).collect()
    }

    fn full_sync(sequence: u64, queue: &[Item], current: Option<&Item>) -> Vec<u8> {
        let state = json!({
            "stateHash": state_hash(queue, current), "orderHash": order_hash(queue, current),
            "queue": queue, "currentClimbQueueItem": current,
        });
        told(&json!({ "__typename": "FullSync", "sequence": sequence, "state": state }))
    }

    fn event(kind: &str, sequence: u64, after: (&[Item], Option<&Item>), more: Value) -> Vec<u8> {
        let mut event = more;
        event["__typename"] = kind.into();
        event["sequence"] = sequence.into();
        event["stateHash"] = state_hash(after.0, after.1).to_string().into();
        event["orderHash"] = order_hash(after.0, after.1).to_string().into();
        event["correlationId"] = "mine".into();
        told(&event)
    }

    #[test]
    fn a_copy_that_took_every_event_is_the_session() {
        let all = items();
        let [a, b, c, d] = all.as_slice() else { panic!("there are four") };
        let mut replica = Replica::default();
        let copy = |items: &[&Item]| -> Vec<Item> { items.iter().copied().cloned().collect() };
        replica.take(full_sync(7, &copy(&[a, b]), None)).unwrap();
        let (after, item) = (copy(&[a, c, b]), json!({ "addedItem": c, "position": 1 }));
        replica.take(event("QueueItemAdded", 8, (&after, None), item)).unwrap();
        let current = json!({ "currentItem": d });
        replica.take(event("CurrentClimbChanged", 9, (&after, Some(d)), current)).unwrap();
        let (after, moved) =
            (copy(&[b, a, c]), json!({ "uuid": b.uuid(), "oldIndex": 2, "newIndex": 0 }));
        replica.take(event("QueueReordered", 10, (&after, Some(d)), moved)).unwrap();
        let (after, gone) = (copy(&[b, c]), json!({ "uuid": a.uuid() }));
        let taken = replica.take(event("QueueItemRemoved", 11, (&after, Some(d)), gone)).unwrap();
        assert_eq!(taken, Taken { sequence: 11, correlation_id: Some("mine".to_owned()) });
        let mut truth = Replica::default();
        truth.take(full_sync(11, &after, Some(d))).unwrap();
        replica.check(&truth).unwrap();
        truth.take(full_sync(11, &copy(&[c, b]), Some(d))).unwrap();
        assert_eq!(truth.resyncs, 1);
        assert!(replica.check(&truth).unwrap_err().to_string().contains("differs"));
    }

    #[test]
    fn holes_repetitions_and_lies_are_found() {
        let all = items();
        let mut replica = Replica::default();
        replica.take(full_sync(7, &all[..2], None)).unwrap();
        let gone = |sequence| {
            let gone = json!({ "uuid": all[0].uuid() });
            event("QueueItemRemoved", sequence, (&all[1..2], None), gone)
        };
        assert!(replica.take(gone(9)).is_err() && replica.take(gone(7)).is_err());
        replica.take(gone(8)).unwrap();
        assert!(replica.take(gone(9)).is_err(), "it is not there any more");
        let mut truth = Replica::default();
        truth.take(full_sync(8, &all[1..2], None)).unwrap();
        replica.check(&truth).unwrap();
        // Hashes of something else than what was told.
        let lie = json!({ "currentItem": all[2] });
        let lie = event("CurrentClimbChanged", 9, (&all[1..2], Some(&all[3])), lie);
        replica.take(lie.clone()).unwrap();
        truth.take(lie).unwrap();
        assert!(replica.check(&truth).unwrap_err().to_string().contains("hashes"));
    }
}
