//! The queue as a client sees it, kept by applying events: written from the schema and from the
//! rules of the two hashes, so that it shares no mistake with the server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

/// A copy of the queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Replica {
    /// Incarnation and sequence.
    pub(crate) at: (u64, u64),
    queue: Vec<Item>,
    current: Option<Item>,
    /// Whether the whole queue was received once.
    is_begun: bool,
}

/// An item, and its content hash.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    value: Value,
    content: String,
}

impl Item {
    fn of(value: &Value) -> Self {
        Self { value: value.clone(), content: content_hash(value) }
    }

    fn uuid(&self) -> &str {
        self.value["uuid"].as_str().unwrap_or_default()
    }

    fn mirror(&mut self, mirrored: &Value) {
        self.value["climb"]["mirrored"] = mirrored.clone();
        self.content = content_hash(&self.value);
    }
}

/// The values in which two copies are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hashes {
    pub(crate) state: String,
    pub(crate) order: String,
}

impl Replica {
    /// Takes the next event: its number must follow, and both hashes must be right after it.
    pub(crate) fn apply(&mut self, event: &Value) -> Result<(), String> {
        let at = (number(&event["incarnation"]), number(&event["sequence"]));
        if event["__typename"] == "FullSync" {
            return self.replace(at, &event["state"]);
        }
        if !self.is_begun || at != (self.at.0, self.at.1 + 1) {
            return Err(format!("{at:?} after {:?}: {event}", self.at));
        }
        self.change(event)?;
        self.at = at;
        self.is_right(event).map_err(|wrong| format!("{wrong} after {event}"))
    }

    fn replace(&mut self, at: (u64, u64), state: &Value) -> Result<(), String> {
        if self.is_begun && at < self.at {
            return Err(format!("a FullSync goes back from {:?} to {at:?}", self.at));
        }
        let current = &state["currentClimbQueueItem"];
        self.queue = state["queue"].as_array().into_iter().flatten().map(Item::of).collect();
        self.current = (!current.is_null()).then(|| Item::of(current));
        (self.at, self.is_begun) = (at, true);
        self.is_right(state).map_err(|wrong| format!("{wrong} in a FullSync at {at:?}"))
    }

    fn change(&mut self, event: &Value) -> Result<(), String> {
        let place = |queue: &[Item], uuid: &Value| {
            let place = queue.iter().position(|item| *uuid == *item.uuid());
            place.ok_or_else(|| format!("no such item: {event}"))
        };
        match event["__typename"].as_str().unwrap_or_default() {
            "QueueItemAdded" => {
                let item = Item::of(&event["addedItem"]);
                if place(&self.queue, &event["addedItem"]["uuid"]).is_ok() {
                    return Err(format!("it is there already: {event}"));
                }
                self.queue.insert(index(&event["position"]).min(self.queue.len()), item);
            }
            "QueueItemRemoved" => {
                self.queue.remove(place(&self.queue, &event["uuid"])?);
                let stays = |current: &Item| event["uuid"] != *current.uuid();
                self.current = self.current.take().filter(stays);
            }
            "QueueReordered" => {
                let from = place(&self.queue, &event["uuid"])?;
                if from != index(&event["oldIndex"]) {
                    return Err(format!("it is at {from}: {event}"));
                }
                let item = self.queue.remove(from);
                self.queue.insert(index(&event["newIndex"]), item);
            }
            "CurrentClimbChanged" => {
                let item = &event["currentItem"];
                self.current = (!item.is_null()).then(|| Item::of(item));
            }
            "ClimbMirrored" => {
                let current = self.current.as_mut().ok_or("nothing is current")?;
                current.mirror(&event["mirrored"]);
                let same = self.queue.iter_mut().filter(|item| item.uuid() == current.uuid());
                same.for_each(|item| item.mirror(&event["mirrored"]));
            }
            _ => return Err(format!("unknown: {event}")),
        }
        Ok(())
    }

    /// Compares the hashes with those of the server.
    fn is_right(&self, said: &Value) -> Result<(), String> {
        let Hashes { state, order } = self.hashes();
        if said["stateHash"] != *state || said["orderHash"] != *order {
            return Err(format!("the hashes are {state} {order}"));
        }
        Ok(())
    }

    pub(crate) fn hashes(&self) -> Hashes {
        let mut uuids = self.uuids();
        uuids.sort();
        let current = self.current.as_ref().map_or("null", Item::uuid);
        let state = format!("{}|{current}", uuids.join(","));
        let contents: Vec<&str> = self.queue.iter().map(|item| item.content.as_str()).collect();
        let current = self.current.as_ref().map_or("null", |item| &item.content);
        let order = format!("{}|{current}", contents.join(","));
        Hashes {
            state: format!("{:08x}", fnv_32(&state)),
            order: format!("{:016x}", fnv_64(&order)),
        }
    }

    /// The items in order.
    pub(crate) fn uuids(&self) -> Vec<String> {
        self.queue.iter().map(|item| item.uuid().to_owned()).collect()
    }

    /// The items and the current one as the schema writes them.
    pub(crate) fn state(&self) -> Value {
        let items: Vec<&Value> = self.queue.iter().map(|item| &item.value).collect();
        let current = self.current.as_ref().map(|item| &item.value);
        json!({ "queue": items, "currentClimbQueueItem": current })
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn index(value: &Value) -> usize {
    number(value) as usize
}

fn content_hash(item: &Value) -> String {
    let mut text = String::new();
    write_canonical(item, &mut text);
    format!("{:016x}", fnv_64(&text))
}

/// JSON with sorted names and without nulls, as a browser writes it. The items of these tests are
/// ASCII, and their numbers are small.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let sorted: BTreeMap<_, _> = members.collect();
            text.push('{');
            for (place, (name, value)) in sorted.into_iter().enumerate() {
                text.push_str(if place > 0 { "," } else { "" });
                write!(text, "\"{name}\":").unwrap();
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for (place, value) in values.iter().enumerate() {
                text.push_str(if place > 0 { "," } else { "" });
                write_canonical(value, text);
            }
            text.push(']');
        }
        // The shortest digits, without a point behind whole numbers.
        Value::Number(number) => write!(text, "{}", number.as_f64().unwrap()).unwrap(),
        other => text.push_str(&other.to_string()),
    }
}

fn fnv_32(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0x811c_9dc5, |hash, unit| (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193))
}

fn fnv_64(text: &str) -> u64 {
    let step = |hash: u64, unit| (hash ^ u64::from(unit)).wrapping_mul(0x0000_0100_0000_01b3);
    text.encode_utf16().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn the_party_replica_computes_the_known_hashes() {
    let item = |uuid: &str| Item::of(&json!({ "uuid": uuid }));
    let hash = |uuids: &[&str], current: Option<&str>| {
        let queue = uuids.iter().map(|uuid| item(uuid)).collect();
        Replica { queue, current: current.map(item), ..Replica::default() }.hashes().state
    };
    assert_eq!(hash(&[], None), "995eb8de");
    assert_eq!(hash(&["b", "a"], None), "5bffd8ef");
    assert_eq!(hash(&["a", "b"], Some("b")), "59186944");
    assert_eq!(Replica::default().hashes().order, "d7b63251b9f519be");
}
