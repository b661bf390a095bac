//! The fields `type` and `request_id` of a client's frame.
//!
//! They are read first and separately, so that the error for a frame with any other bad field still
//! names the request.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The type and the request id of a frame.
#[derive(Debug, PartialEq)]
pub(crate) struct Envelope<'a> {
    pub(crate) kind: Slot<'a>,
    pub(crate) request_id: Slot<'a>,
}

/// The value of a field that must be a string and occur at most once.
#[derive(Debug, PartialEq)]
pub(crate) enum Slot<'a> {
    /// The field is missing or `null`.
    Absent,
    Text(Cow<'a, str>),
    /// The value is not a string.
    Mistyped,
    /// The field occurs more than once.
    Repeated,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let (mut kind, mut request_id) = (None, None);
        while let Some(key) = map.next_key()? {
            match key {
                Key::Type => fill(&mut kind, map.next_value()?),
                Key::RequestId => fill(&mut request_id, map.next_value()?),
                Key::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let or_absent = |slot: Option<Slot<'de>>| slot.unwrap_or(Slot::Absent);
        Ok(Envelope { kind: or_absent(kind), request_id: or_absent(request_id) })
    }
}

fn fill<'a>(slot: &mut Option<Slot<'a>>, value: Slot<'a>) {
    *slot = Some(if slot.is_some() { Slot::Repeated } else { value });
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Type,
    RequestId,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Slot<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SlotVisitor)
    }
}

/// Accepts any value, so that a mistyped field does not stop the parser before the other field.
struct SlotVisitor;

impl<'de> Visitor<'de> for SlotVisitor {
    type Value = Slot<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Slot::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Slot::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Slot::Absent)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Slot::Mistyped)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Slot::Mistyped)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Slot::Mistyped)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Slot::Mistyped)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<Self::Value, S::Error> {
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Slot::Mistyped)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Slot::Mistyped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Envelope<'_> {
        serde_json::from_str(text).unwrap()
    }

    fn text(text: &str) -> Slot<'_> {
        Slot::Text(Cow::Borrowed(text))
    }

    #[test]
    fn both_fields_are_found_at_any_position() {
        let envelope = read(r#"{"a":{"type":"no"},"request_id":"r","b":[1e400],"type":"ack"}"#);
        assert_eq!(envelope, Envelope { kind: text("ack"), request_id: text("r") });
        assert!(matches!(envelope.kind, Slot::Text(Cow::Borrowed(_))), "nothing is copied");
        assert_eq!(read(r#"{"type":"\u0061ck"}"#).kind, text("ack"));
    }

    #[test]
    fn a_mistyped_field_does_not_hide_the_other() {
        for value in ["5", "-5", "0.5", "true", "[1,[2]]", r#"{"type":"x"}"#] {
            let frame = format!(r#"{{"type":{value},"request_id":"r"}}"#);
            assert_eq!(read(&frame), Envelope { kind: Slot::Mistyped, request_id: text("r") });
        }
    }

    #[test]
    fn a_repeated_field_has_no_value() {
        let envelope = read(r#"{"type":"ack","type":"ack","request_id":"r"}"#);
        assert_eq!(envelope, Envelope { kind: Slot::Repeated, request_id: text("r") });
        let envelope = read(r#"{"request_id":null,"request_id":"r","type":null}"#);
        assert_eq!(envelope, Envelope { kind: Slot::Absent, request_id: Slot::Repeated });
    }
}
