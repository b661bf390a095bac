//! Properties of the codec that hold for every frame and every text.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod client;
mod hostile;
mod server;

use heartline_protocol::{
    ChatId, ClientMessageId, ConnectionId, DeviceId, MessageId, NodeId, RequestId, Timestamp,
    UserId,
};
use proptest::prelude::*;
use ulid::Ulid;

/// The last timestamp that the wire can express.
const UNIX_MS_MAX: u64 = 253_402_300_799_999;

fn user_id() -> impl Strategy<Value = UserId> + Clone {
    "[A-Za-z0-9_.@|:+-]{1,128}".prop_map(|text| text.parse().unwrap())
}

fn device_id() -> impl Strategy<Value = DeviceId> {
    "[A-Za-z0-9_.@|:+-]{1,64}".prop_map(|text| text.parse().unwrap())
}

fn client_message_id() -> impl Strategy<Value = ClientMessageId> {
    "[A-Za-z0-9_.@|:+-]{1,64}".prop_map(|text| text.parse().unwrap())
}

fn request_id() -> impl Strategy<Value = RequestId> + Clone {
    "[ -~]{1,64}".prop_map(|text| text.parse().unwrap())
}

fn node_id() -> impl Strategy<Value = NodeId> {
    "[A-Za-z0-9_.-]{1,96}".prop_map(|text| text.parse().unwrap())
}

fn chat_id() -> impl Strategy<Value = ChatId> + Clone {
    any::<u128>().prop_map(|bits| ChatId(Ulid(bits)))
}

fn message_id() -> impl Strategy<Value = MessageId> {
    any::<u128>().prop_map(|bits| MessageId(Ulid(bits)))
}

fn connection_id() -> impl Strategy<Value = ConnectionId> {
    (any::<u128>(), any::<u16>()).prop_map(|(bits, shard)| ConnectionId { ulid: Ulid(bits), shard })
}

fn timestamp() -> impl Strategy<Value = Timestamp> + Clone {
    (0..=UNIX_MS_MAX).prop_map(|unix_ms| Timestamp { unix_ms })
}

/// Text of any script, including every character that JSON must escape.
fn text(bytes_max: usize) -> impl Strategy<Value = String> + Clone {
    proptest::collection::vec(any::<char>(), 0..=bytes_max / 4)
        .prop_map(|characters| characters.into_iter().collect())
}
