//! The GraphQL documents and the sequence of edits of a measured member.
//!
//! A member edits only its own items, so that every edit has an effect regardless of concurrent
//! edits. Each round adds an item, moves the previous one to the front, makes it current and
//! removes the member's oldest item, so the length of the queue does not change.

use serde_json::{Value, json};

use super::super::frame_scanner::TIME_DIGITS;

/// All fields of an item that its hash covers.
macro_rules! item_fields {
    () => {
        "{ uuid addedBy addedByUser { id username avatarUrl } tickedBy suggested climb { uuid \
         layoutId setter_username name description frames angle ascensionist_count difficulty \
         quality_average stars difficulty_error litUpHoldsMap mirrored benchmark_difficulty \
         userAscents userAttempts boardType } }"
    };
}

/// Joins a session; a new session gets the queue.
pub(super) const JOIN: &str = "mutation Join($sessionId: ID!, $initialQueue: \
    [ClimbQueueItemInput!]) { joinSession(sessionId: $sessionId, boardPath: \"/bench\", \
    initialQueue: $initialQueue) { id clientId } }";

/// Subscribes to the queue. The two items have aliases because only one of them may be null.
pub(super) const UPDATES: &str = concat!(
    "subscription Updates($sessionId: ID!) { queueUpdates(sessionId: $sessionId) { __typename \
     ... on FullSync { sequence state { stateHash orderHash queue ",
    item_fields!(),
    " currentClimbQueueItem ",
    item_fields!(),
    " } } ... on QueueItemAdded { sequence stateHash orderHash correlationId position addedItem: item ",
    item_fields!(),
    " } ... on QueueItemRemoved { sequence stateHash orderHash correlationId uuid } \
     ... on QueueReordered { sequence stateHash orderHash correlationId uuid oldIndex newIndex } \
     ... on CurrentClimbChanged { sequence stateHash orderHash correlationId currentItem: item ",
    item_fields!(),
    " } } }"
);

const ADD: &str = concat!(
    "mutation Add($item: ClimbQueueItemInput!, $correlationId: ID) { addQueueItem(item: $item, \
     correlationId: $correlationId) ",
    item_fields!(),
    " }"
);
const REORDER: &str = "mutation Reorder($uuid: ID!, $oldIndex: Int!, $newIndex: Int!, \
    $correlationId: ID) { reorderQueueItem(uuid: $uuid, oldIndex: $oldIndex, newIndex: $newIndex, \
    correlationId: $correlationId) }";
const CURRENT: &str = concat!(
    "mutation Current($item: ClimbQueueItemInput, $correlationId: ID) { setCurrentClimb(item: \
     $item, correlationId: $correlationId) ",
    item_fields!(),
    " }"
);
const REMOVE: &str = "mutation Remove($uuid: ID!, $correlationId: ID) { \
    removeQueueItem(uuid: $uuid, correlationId: $correlationId) }";

/// Number of holds of a climb.
const HOLDS: usize = 12;

/// The smallest number of items of a member, so that each edit uses items that were added at least
/// one round earlier.
pub(super) const OWN_ITEMS_MIN: usize = 4;

/// The sequence of edits of one member.
#[derive(Debug)]
pub(super) struct EditScript {
    session: usize,
    member: usize,
    own_items: usize,
    edits: usize,
}

impl EditScript {
    /// The edits of a member that has this many items in the queue.
    pub(super) fn new(session: usize, member: usize, own_items: usize) -> Self {
        Self { session, member, own_items, edits: 0 }
    }

    /// The member's items in the initial queue.
    pub(super) fn first_items(&self) -> impl Iterator<Item = Value> {
        (0..self.own_items).map(|number| self.item(number))
    }

    /// The message of the next edit, which was due at this time.
    pub(super) fn next_edit(&mut self, intended_nanos: u64) -> String {
        let id = format!("{intended_nanos:0TIME_DIGITS$}-{}", self.edits);
        let newest = self.own_items + self.edits / 4;
        let (query, mut variables) = match self.edits % 4 {
            0 => (ADD, json!({ "item": self.item(newest) })),
            1 => {
                let uuid = self.uuid(newest - 1);
                (REORDER, json!({ "uuid": uuid, "oldIndex": 1, "newIndex": 0 }))
            }
            2 => (CURRENT, json!({ "item": self.item(newest - 1) })),
            _ => (REMOVE, json!({ "uuid": self.uuid(newest - self.own_items) })),
        };
        self.edits += 1;
        variables["correlationId"] = id.as_str().into();
        subscribe(&id, query, &variables)
    }

    fn uuid(&self, number: usize) -> String {
        format!("{:08x}-{:04x}-4000-8000-{number:012x}", self.session, self.member)
    }

    /// An item of about 1 KiB, the usual size.
    fn item(&self, number: usize) -> Value {
        let hold = |index: usize| 1000 + (number * 31 + index * 17) % 500;
        let frames: String = (0..HOLDS).map(|index| format!("p{}r42", hold(index))).collect();
        let lit = |index| {
            let lit = json!({ "state": "HAND", "color": "#00FFFF", "displayColor": "#4444FF" });
            (hold(index).to_string(), lit)
        };
        let holds: serde_json::Map<String, Value> = (0..HOLDS).map(lit).collect();
        json!({
            "uuid": self.uuid(number),
            "climb": {
                "uuid": format!("climb-{number}"), "setter_username": "a setter",
                "name": format!("Climb {number}"), "description": "No matching.",
                "frames": frames, "angle": 40, "ascensionist_count": number % 1000,
                "difficulty": "6a/V3", "quality_average": "2.75", "stars": 2.75,
                "difficulty_error": "0.12", "litUpHoldsMap": holds, "mirrored": false,
                "benchmark_difficulty": null,
            },
            "addedBy": format!("member-{}", self.member),
            "suggested": false,
        })
    }
}

/// The time at which the edit with this id was due.
pub(super) fn intended_nanos(id: &str) -> Option<u64> {
    id.get(..TIME_DIGITS)?.parse().ok()
}

/// The message that starts an operation.
pub(super) fn subscribe(id: &str, query: &str, variables: &Value) -> String {
    let payload = json!({ "query": query, "variables": variables });
    json!({ "type": "subscribe", "id": id, "payload": payload }).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_member_uses_only_items_of_earlier_rounds_and_keeps_their_number() {
        let mut script = EditScript::new(1, 2, OWN_ITEMS_MIN);
        let uuid = |item: &Value| item["uuid"].as_str().unwrap().to_owned();
        let mut queue: Vec<String> = script.first_items().map(|item| uuid(&item)).collect();
        let mut currents = HashSet::new();
        for edit in 0..40 {
            let message: Value = serde_json::from_str(&script.next_edit(1234)).unwrap();
            let variables = &message["payload"]["variables"];
            assert_eq!(intended_nanos(message["id"].as_str().unwrap()), Some(1234));
            assert_eq!(variables["correlationId"], message["id"]);
            match edit % 4 {
                0 => queue.push(uuid(&variables["item"])),
                1 => assert!(queue[1..].contains(&uuid(variables)), "the item must move"),
                2 => assert!(
                    currents.insert(uuid(&variables["item"])),
                    "the current item must change"
                ),
                _ => {
                    let place = queue.iter().position(|own| *own == uuid(variables)).unwrap();
                    queue.remove(place);
                    assert_eq!(queue.len(), OWN_ITEMS_MIN);
                }
            }
        }
    }
}
