//! Ids of users, devices, connections, chats, messages, requests and nodes.
//!
//! Ids chosen by the application or its clients are text of a small alphabet, validated when they
//! are parsed; ids created by the server are a prefix and a ULID. Text ids are `Arc<str>` because
//! the hub, the directory and the session hold the same user id at once.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

/// An id that does not have the required form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} must be {expected}")]
pub struct InvalidId {
    /// The field that was being read, for example `user_id`.
    pub kind: &'static str,
    /// A description of valid ids.
    pub expected: &'static str,
}

/// Whether a byte belongs to the alphabet of user, device and client message ids.
fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.@|:+-".contains(&byte)
}

fn check_text(
    text: &str,
    length_max: usize,
    is_valid: impl Fn(u8) -> bool,
    invalid: InvalidId,
) -> Result<Arc<str>, InvalidId> {
    let length_is_valid = (1..=length_max).contains(&text.len());
    if length_is_valid && text.bytes().all(is_valid) { Ok(Arc::from(text)) } else { Err(invalid) }
}

macro_rules! text_id {
    (
        $(#[$doc:meta])*
        $name:ident, $kind:literal, $max:literal, $is_valid:expr, $expected:literal
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The longest valid id in bytes.
            pub const LENGTH_MAX: usize = $max;

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = InvalidId { kind: $kind, expected: $expected };
                check_text(text, $max, $is_valid, invalid).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, formatter)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

text_id!(
    /// A user: the `sub` of its tokens, chosen by the application.
    UserId, "user_id", 128, is_id_byte,
    "1 to 128 characters of A-Z a-z 0-9 _ . @ | : + -"
);
text_id!(
    /// A device of a user. A new connection of a device replaces the older one.
    DeviceId, "device_id", 64, is_id_byte,
    "1 to 64 characters of A-Z a-z 0-9 _ . @ | : + -"
);
text_id!(
    /// A message's id chosen by its sender, the same in every retry.
    ClientMessageId, "client_message_id", 64, is_id_byte,
    "1 to 64 characters of A-Z a-z 0-9 _ . @ | : + -"
);
text_id!(
    /// A request's id chosen by the client; the answer carries it too.
    RequestId, "request_id", 64, |byte| (0x20..0x7f).contains(&byte),
    "1 to 64 printable ASCII characters"
);
text_id!(
    /// One run of a server: `<name>-<boot suffix>`, so a restarted node has a new id.
    NodeId, "server_id", 96, |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
    "1 to 96 characters of A-Z a-z 0-9 - _ ."
);

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Ulid);

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix($prefix)
                    .and_then(parse_ulid)
                    .map(Self)
                    .ok_or(InvalidId { kind: $kind, expected: $expected })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($prefix, "{}"), self.0)
            }
        }

        impl_text_form!($name);
    };
}

macro_rules! impl_text_form {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Parses a ULID. Only the canonical spelling is valid, so that one id has exactly one text.
fn parse_ulid(text: &str) -> Option<Ulid> {
    let ulid = Ulid::from_string(text).ok()?;
    (ulid.to_string() == text).then_some(ulid)
}

ulid_id!(
    /// A chat, created by the server.
    ChatId, "chat_id", "chat_", "chat_ and a ULID"
);
ulid_id!(
    /// A stored message, created by the server.
    MessageId, "message_id", "msg_", "msg_ and a ULID"
);

/// A connection: `conn_<ULID>_<shard>`. The id contains the shard of its user, so that the id alone
/// is enough to find the connection in a sharded directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    /// The unique part.
    pub ulid: Ulid,
    /// The shard of the connection's user.
    pub shard: u16,
}

impl FromStr for ConnectionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let parse = || {
            let (ulid, shard) = text.strip_prefix("conn_")?.split_once('_')?;
            let id = Self { ulid: parse_ulid(ulid)?, shard: shard.parse().ok()? };
            (id.to_string() == text).then_some(id)
        };
        parse().ok_or(InvalidId { kind: "connection_id", expected: "conn_, a ULID, _ and a shard" })
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "conn_{}_{}", self.ulid, self.shard)
    }
}

impl_text_form!(ConnectionId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_id_has_the_documented_alphabet_and_length() {
        for valid in ["a", "ana@example.com", "auth0|5f7", "x:y+z-1_2", &"u".repeat(128)] {
            assert_eq!(valid.parse::<UserId>().unwrap().as_str(), valid);
        }
        for invalid in ["", "a b", "é", "a/b", "a*", "a\n", "a\0", &"u".repeat(129)] {
            assert!(invalid.parse::<UserId>().is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn a_connection_id_parses_from_its_text() {
        let id = ConnectionId { ulid: Ulid(0x0123_4567_89ab_cdef), shard: 17 };
        assert_eq!(id.to_string().parse::<ConnectionId>().unwrap(), id);
        assert!(id.to_string().ends_with("_17"));
    }

    #[test]
    fn other_spellings_of_a_server_id_are_rejected() {
        let chat = ChatId(Ulid(42)).to_string();
        assert!(chat.parse::<ChatId>().is_ok());
        assert!(chat.to_lowercase().parse::<ChatId>().is_err());
        assert!(chat.replace("chat_", "msg_").parse::<ChatId>().is_err());
        assert!("conn_00000000000000000000000016_017".parse::<ConnectionId>().is_err());
    }
}
