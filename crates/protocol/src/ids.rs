//! Ids: who, which device, which connection, which chat.
//!
//! Ids given by the application or its clients are text of a small alphabet, checked where they
//! enter; ids made by the server are a prefix and a ULID. Text ids are `Arc<str>` because one
//! user's id is held by the hub, the directory and the session at once.

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
    /// What would have been legal.
    pub expected: &'static str,
}

/// Whether a byte belongs to the alphabet of user, device and client message ids.
fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.@|:+-".contains(&byte)
}

fn check_text(
    text: &str,
    length_max: usize,
    legal: impl Fn(u8) -> bool,
    invalid: InvalidId,
) -> Result<Arc<str>, InvalidId> {
    let length_is_legal = (1..=length_max).contains(&text.len());
    if length_is_legal && text.bytes().all(legal) { Ok(Arc::from(text)) } else { Err(invalid) }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:literal, $legal:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The longest legal id in bytes.
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
                check_text(text, $max, $legal, invalid).map(Self)
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
    /// A user: the `sub` of its tokens. The application chooses it.
    UserId, "user_id", 128, is_id_byte,
    "1 to 128 characters of A-Z a-z 0-9 _ . @ | : + -"
);
text_id!(
    /// One of a user's devices. A new connection of the same device replaces its older one.
    DeviceId, "device_id", 64, is_id_byte,
    "1 to 64 characters of A-Z a-z 0-9 _ . @ | : + -"
);
text_id!(
    /// The sender's own name for a message, the same in every retry.
    ClientMessageId, "client_message_id", 64, is_id_byte,
    "1 to 64 characters of A-Z a-z 0-9 _ . @ | : + -"
);
text_id!(
    /// The client's name for a request; its one reply carries it again.
    RequestId, "request_id", 64, |byte| (0x20..0x7f).contains(&byte),
    "1 to 64 printable ASCII characters"
);
text_id!(
    /// One incarnation of a server: `<name>-<boot suffix>`, so a restarted node is a new one.
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

/// Only the canonical spelling counts, so that one id has exactly one text.
fn parse_ulid(text: &str) -> Option<Ulid> {
    let ulid = Ulid::from_string(text).ok()?;
    (ulid.to_string() == text).then_some(ulid)
}

ulid_id!(
    /// A chat, made by the server.
    ChatId, "chat_id", "chat_", "chat_ and a ULID"
);
ulid_id!(
    /// A stored message, made by the server.
    MessageId, "message_id", "msg_", "msg_ and a ULID"
);

/// One socket's life: `conn_<ULID>_<shard>`. It carries its user's shard, so whoever holds only
/// the connection id still finds the right part of a sharded directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    /// The unique part.
    pub ulid: Ulid,
    /// The shard of the user whose connection it is.
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
        for legal in ["a", "ana@example.com", "auth0|5f7", "x:y+z-1_2", &"u".repeat(128)] {
            assert_eq!(legal.parse::<UserId>().unwrap().as_str(), legal);
        }
        for illegal in ["", "a b", "é", "a/b", "a*", "a\n", "a\0", &"u".repeat(129)] {
            assert!(illegal.parse::<UserId>().is_err(), "{illegal:?}");
        }
    }

    #[test]
    fn a_connection_id_survives_its_text_form() {
        let id = ConnectionId { ulid: Ulid(0x0123_4567_89ab_cdef), shard: 17 };
        assert_eq!(id.to_string().parse::<ConnectionId>().unwrap(), id);
        assert!(id.to_string().ends_with("_17"));
    }

    #[test]
    fn other_spellings_of_a_made_id_are_refused() {
        let chat = ChatId(Ulid(42)).to_string();
        assert!(chat.parse::<ChatId>().is_ok());
        assert!(chat.to_lowercase().parse::<ChatId>().is_err());
        assert!(chat.replace("chat_", "msg_").parse::<ChatId>().is_err());
        assert!("conn_00000000000000000000000016_017".parse::<ConnectionId>().is_err());
    }
}
