//! The rule for the values of a key, and its error message.

use std::time::Duration;

use super::check::Verdict;
use super::value::Value;

/// The rule for the values of a key.
pub(super) enum Rule {
    /// Text with a unit, between two bounds.
    Duration(Duration, Duration),
    /// A whole number between two bounds.
    Integer(i64, i64),
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text that passes a check.
    Text(fn(&str) -> Verdict),
    /// A list whose every text passes a check.
    List(fn(&str) -> Verdict),
}

impl Rule {
    /// Checks a value; the error message states what is allowed.
    pub(super) fn check(&self, value: &Value) -> Verdict {
        match (self, value) {
            (Self::Duration(min, max), value) => check_duration(value, *min, *max),
            (Self::Integer(min, max), Value::Integer(number)) if (min..=max).contains(&number) => {
                Ok(())
            }
            (Self::Integer(min, max), value) => {
                let is_quoted = matches!(value, Value::Text(text) if text.parse::<i64>().is_ok());
                let hint = if is_quoted { ", without quotes" } else { "" };
                Err(format!("must be a whole number from {min} to {max}{hint}"))
            }
            (Self::Boolean, Value::Boolean(_)) => Ok(()),
            (Self::Boolean, _) => Err("must be true or false, without quotes".to_owned()),
            (Self::Choice(words), Value::Text(text)) if words.contains(&text.as_str()) => Ok(()),
            (Self::Choice(words), _) => {
                let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
                Err(format!("must be {}", words.join(" or ")))
            }
            (Self::Text(check), Value::Text(text)) => check(text),
            (Self::Text(_), _) => Err("must be a text in quotes".to_owned()),
            (Self::List(check), Value::List(items)) => check_items(items, *check),
            (Self::List(_), _) => {
                Err("must be a list of texts, such as [\"one\", \"two\"]".to_owned())
            }
        }
    }

    /// The value as the typed configuration reads it: a duration in the form that serde gives to
    /// the standard library's.
    pub(super) fn typed(&self, value: &Value) -> toml::Value {
        let duration = match (self, value) {
            (Self::Duration(..), Value::Text(text)) => humantime::parse_duration(text).ok(),
            _ => None,
        };
        let Some(duration) = duration else { return value.to_toml() };
        let secs = toml::Value::Integer(duration.as_secs() as i64);
        let nanos = toml::Value::Integer(duration.subsec_nanos().into());
        toml::Value::Table(
            [("secs".to_owned(), secs), ("nanos".to_owned(), nanos)].into_iter().collect(),
        )
    }

    /// Converts a text from the environment to the type of this key. A text that cannot be
    /// converted stays a text, which the check then rejects.
    pub(super) fn read(&self, text: &str) -> Value {
        let trimmed = text.trim();
        match self {
            Self::Integer(..) => {
                trimmed.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Integer)
            }
            Self::Boolean => {
                trimmed.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Boolean)
            }
            Self::List(_) if trimmed.starts_with('[') => {
                toml_list(trimmed).map_or_else(|| Value::Other(text.to_owned()), Value::List)
            }
            Self::List(_) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::List(items.map(str::to_owned).collect())
            }
            Self::Duration(..) | Self::Choice(_) | Self::Text(_) => Value::Text(text.to_owned()),
        }
    }
}

fn toml_list(text: &str) -> Option<Vec<String>> {
    let value = toml::de::DeValue::parse(text).ok()?;
    match Value::from_toml(value.get_ref(), text) {
        Value::List(items) => Some(items),
        Value::Text(_) | Value::Integer(_) | Value::Boolean(_) | Value::Other(_) => None,
    }
}

fn check_duration(value: &Value, min: Duration, max: Duration) -> Verdict {
    let number = match value {
        Value::Integer(number) => Some(number.to_string()),
        Value::Text(text) if text.parse::<f64>().is_ok() => Some(text.clone()),
        Value::Text(_) | Value::Boolean(_) | Value::List(_) | Value::Other(_) => None,
    };
    let (least, most) = (humantime::format_duration(min), humantime::format_duration(max));
    if let Some(number) = number {
        return Err(format!(
            "a duration needs a unit: write \"{number}s\" for seconds or \"{number}ms\" for \
             milliseconds ({least} to {most} is allowed)"
        ));
    }
    let parsed = match value {
        Value::Text(text) => humantime::parse_duration(text).ok(),
        Value::Integer(_) | Value::Boolean(_) | Value::List(_) | Value::Other(_) => None,
    };
    if parsed.is_some_and(|duration| (min..=max).contains(&duration)) {
        return Ok(());
    }
    Err(format!("must be a duration from {least} to {most}, such as \"5s\" or \"500ms\""))
}

/// Items are identified by their position and never shown, because they may be secrets.
fn check_items(items: &[String], check: fn(&str) -> Verdict) -> Verdict {
    let refused = items.iter().enumerate().find_map(|(place, item)| {
        check(item).err().map(|allowed| format!("entry {}: {allowed}", place + 1))
    });
    refused.map_or(Ok(()), Err)
}
