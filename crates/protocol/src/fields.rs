//! Reads the fields of a frame, and names the field that is invalid.
//!
//! For a wrong value that is its path. A missing or repeated field has no path: its name is taken
//! from the call with which serde reports it, before serde turns the report into text.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_path_to_error::Track;

/// A field that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The name of the field, or its path such as `user_ids[2]`.
    pub(crate) field: String,
    /// The error message.
    pub(crate) message: String,
}

/// Reads the fields of an object.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, FieldError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let (mut track, mut named) = (Track::new(), None);
    let path = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    T::deserialize(Root { deserializer: path, named: &mut named }).map_err(|error| {
        let path = track.path();
        let field = match named {
            Some(field) => field.to_owned(),
            // The frame as a whole is invalid for its type.
            None if path.iter().len() == 0 => "type".to_owned(),
            None => path.to_string(),
        };
        FieldError { field, message: without_position(&error) }
    })
}

/// The text of an error without the line and column that are appended to it.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).map(str::to_owned).unwrap_or(text)
}

/// The object whose fields are read. Passes every call on to `deserializer`, and records the name
/// of a missing or repeated field in `named`.
struct Root<'a, D> {
    deserializer: D,
    named: &'a mut Option<&'static str>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Root<'_, D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = RootVisitor { visitor, named: self.named };
        self.deserializer.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.deserializer.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct RootVisitor<'a, V> {
    visitor: V,
    named: &'a mut Option<&'static str>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for RootVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(RootMap { map, marker: PhantomData }).map_err(|fault| match fault {
            Fault::Missing(field) => {
                *self.named = Some(field);
                de::Error::missing_field(field)
            }
            Fault::Repeated(field) => {
                *self.named = Some(field);
                de::Error::duplicate_field(field)
            }
            Fault::Value(error) => error,
            Fault::Other(message) => de::Error::custom(message),
        })
    }
}

struct RootMap<'de, A> {
    map: A,
    marker: PhantomData<&'de ()>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for RootMap<'de, A> {
    type Error = Fault<A::Error>;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        self.map.next_key_seed(seed).map_err(Fault::Value)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        self.map.next_value_seed(seed).map_err(Fault::Value)
    }
}

/// An error in an object, with the name of a missing or repeated field still separate.
#[derive(Debug)]
enum Fault<E> {
    Missing(&'static str),
    Repeated(&'static str),
    /// A key or a value is wrong.
    Value(E),
    Other(String),
}

impl<E: Display> Display for Fault<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(field) => write!(formatter, "missing field `{field}`"),
            Self::Repeated(field) => write!(formatter, "duplicate field `{field}`"),
            Self::Value(error) => error.fmt(formatter),
            Self::Other(message) => formatter.write_str(message),
        }
    }
}

impl<E: fmt::Debug + Display> std::error::Error for Fault<E> {}

impl<E: fmt::Debug + Display> de::Error for Fault<E> {
    fn custom<T: Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Repeated(field)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::client_frame::{Ack, Heartbeat, PresenceUsers, SendMessage};

    fn wrong<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> (String, String) {
        let FieldError { field, message } = read::<T>(text).unwrap_err();
        (field, message)
    }

    fn pair(field: &str, message: &str) -> (String, String) {
        (field.to_owned(), message.to_owned())
    }

    #[test]
    fn a_missing_or_repeated_field_is_named() {
        let missing = pair("request_id", "missing field `request_id`");
        assert_eq!(wrong::<SendMessage>("{}"), missing);
        let twice = r#"{"last_acked_sequence":1,"last_acked_sequence":2}"#;
        let repeated = pair("last_acked_sequence", "duplicate field `last_acked_sequence`");
        assert_eq!(wrong::<Ack>(twice), repeated);
    }

    #[test]
    fn a_wrong_value_is_named_by_its_path_whatever_it_quotes() {
        let quoting = r#"{"request_id":"r","user_ids":["ana","`type` at line 7"]}"#;
        let (field, message) = wrong::<PresenceUsers>(quoting);
        assert_eq!(field, "user_ids[1]");
        assert!(!message.contains("column"), "{message}");
        let (field, message) = wrong::<Ack>(r#"{"last_acked_sequence":"`x` at line 1"}"#);
        assert_eq!(field, "last_acked_sequence");
        assert!(message.contains("`x` at line 1"), "{message}");
    }

    #[test]
    fn an_object_that_is_wrong_as_a_whole_is_named_by_its_type() {
        #[derive(Debug, Deserialize)]
        #[serde(try_from = "Heartbeat")]
        struct Never;
        impl TryFrom<Heartbeat> for Never {
            type Error = &'static str;
            fn try_from(_: Heartbeat) -> Result<Self, Self::Error> {
                Err("never")
            }
        }
        assert_eq!(wrong::<Never>("{}"), pair("type", "never"));
    }
}
