//! The queue as a client sees it, kept by applying events: written from the schema and from the
//! rules of the two hashes, so that it shares no mistake with the server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// A copy of the queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Replica {
    /// Incarnation and sequence.
    pub(crate) at: (u64, u64),
    pub(crate) queue: Vec<Value>,
    pub(crate) current: Option<Value>,
    /// Whether the whole queue was heard once.
    pub(crate) is_begun: bool,
}

/// What two copies compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hashes {
    pub(crate) state: String,
    pub(crate) order: String,
}

impl Replica {
    /// The copy after all of these events, which must follow from each other.
    pub(crate) fn after<'a>(events: impl IntoIterator<Item = &'a Value>) -> Result<Self, String> {
        let mut replica = Self::default();
        events.into_iter().try_for_each(|event| replica.apply(event))?;
        Ok(replica)
    }

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
        self.queue = state["queue"].as_array().cloned().unwrap_or_default();
        self.current = (!current.is_null()).then(|| current.clone());
        (self.at, self.is_begun) = (at, true);
        self.is_right(state).map_err(|wrong| format!("{wrong} in a FullSync at {at:?}"))
    }

    fn change(&mut self, event: &Value) -> Result<(), String> {
        let place = |queue: &[Value], uuid: &Value| {
            let place = queue.iter().position(|item| item["uuid"] == *uuid);
            place.ok_or_else(|| format!("no such item: {event}"))
        };
        match event["__typename"].as_str().unwrap_or_default() {
            "QueueItemAdded" => {
                let item = event["addedItem"].clone();
                if place(&self.queue, &item["uuid"]).is_ok() {
                    return Err(format!("it is there already: {event}"));
                }
                self.queue.insert(index(&event["position"]).min(self.queue.len()), item);
            }
            "QueueItemRemoved" => {
                self.queue.remove(place(&self.queue, &event["uuid"])?);
                let stays = |current: &Value| current["uuid"] != event["uuid"];
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
                self.current = (!item.is_null()).then(|| item.clone());
            }
            "ClimbMirrored" => {
                let current = self.current.as_mut().ok_or("nothing is current")?;
                current["climb"]["mirrored"] = event["mirrored"].clone();
                let uuid = current["uuid"].clone();
                for item in self.queue.iter_mut().filter(|item| item["uuid"] == uuid) {
                    item["climb"]["mirrored"] = event["mirrored"].clone();
                }
            }
            _ => return Err(format!("unknown: {event}")),
        }
        Ok(())
    }

    /// Whether the hashes are those that the server says.
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
        let current = self.current.as_ref().map_or("null".to_owned(), uuid_of);
        let state = format!("{}|{current}", uuids.join(","));
        let contents: Vec<String> = self.queue.iter().map(content_hash).collect();
        let current = self.current.as_ref().map_or("null".to_owned(), content_hash);
        let order = format!("{}|{current}", contents.join(","));
        Hashes {
            state: format!("{:08x}", fnv_32(&state)),
            order: format!("{:016x}", fnv_64(&order)),
        }
    }

    /// The items in order.
    pub(crate) fn uuids(&self) -> Vec<String> {
        self.queue.iter().map(uuid_of).collect()
    }
}

fn uuid_of(item: &Value) -> String {
    item["uuid"].as_str().unwrap_or_default().to_owned()
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
    let item = |uuid: &str| serde_json::json!({ "uuid": uuid });
    let hash = |uuids: &[&str], current: Option<&str>| {
        let queue = uuids.iter().map(|uuid| item(uuid)).collect();
        Replica { queue, current: current.map(item), ..Replica::default() }.hashes().state
    };
    assert_eq!(hash(&[], None), "995eb8de");
    assert_eq!(hash(&["b", "a"], None), "5bffd8ef");
    assert_eq!(hash(&["a", "b"], Some("b")), "59186944");
    assert_eq!(Replica::default().hashes().order, "d7b63251b9f519be");
}
