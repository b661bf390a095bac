//! A value as a layer gave it, before it is checked.

use std::fmt;

use toml::de::DeValue;

/// Characters of a value that a problem shows.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// A value as a layer gave it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Text, also for durations, addresses and choices.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// True or false.
    Boolean(bool),
    /// A list of texts.
    List(Vec<String>),
    /// Anything that no key accepts, as it was written.
    Other(String),
}

impl Value {
    /// Converts a parsed TOML value; `written` is its text in the file.
    pub(super) fn from_toml(value: &DeValue<'_>, written: &str) -> Self {
        let other = || Self::Other(written.to_owned());
        match value {
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| other(), Self::Integer),
            DeValue::Boolean(value) => Self::Boolean(*value),
            DeValue::Array(items) => {
                let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().map_or_else(other, Self::List)
            }
            _ => other(),
        }
    }

    /// Whether the value means "not set": an empty text or list.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Integer(_) | Self::Boolean(_) | Self::Other(_) => false,
        }
    }

    /// The value for the typed configuration.
    pub(super) fn to_toml(&self) -> toml::Value {
        match self {
            Self::Text(text) | Self::Other(text) => toml::Value::String(text.clone()),
            Self::Integer(number) => toml::Value::Integer(*number),
            Self::Boolean(value) => toml::Value::Boolean(*value),
            Self::List(items) => {
                toml::Value::Array(items.iter().cloned().map(toml::Value::String).collect())
            }
        }
    }
}

/// Shown on one line, truncated, and with control characters escaped.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Integer(number) => number.to_string(),
            Self::Boolean(value) => value.to_string(),
            Self::List(items) => format!("{items:?}"),
            Self::Other(written) => written.escape_debug().to_string(),
        };
        if text.chars().count() <= SHOWN_CHARACTERS_MAX {
            return formatter.write_str(&text);
        }
        let shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
        write!(formatter, "{shown}…")
    }
}

/// A value may be a secret, so only its kind is shown.
impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Text(_) => "Text(…)",
            Self::Integer(_) => "Integer(…)",
            Self::Boolean(_) => "Boolean(…)",
            Self::List(_) => "List(…)",
            Self::Other(_) => "Other(…)",
        })
    }
}
