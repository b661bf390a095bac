//! Error messages about a configuration, one line per problem.

use std::fmt;

use super::keys::{KEYS, Key};
use super::value::Value;

/// Problems that are printed; a file that is no configuration at all would have thousands.
const SHOWN_MAX: usize = 50;
/// Letters that may differ between an unknown key and the suggested one.
const TYPING_ERRORS_MAX: usize = 3;

/// One problem: its source, the key, its value, and the allowed values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(String);

impl Problem {
    /// A problem of a whole source.
    pub(super) fn of_source(source: impl fmt::Display, sentence: impl fmt::Display) -> Self {
        Self(format!("{source}: {sentence}"))
    }

    /// A problem of one value. A secret is not shown.
    pub(super) fn of_value(
        source: impl fmt::Display,
        key: &Key,
        value: &Value,
        sentence: impl fmt::Display,
    ) -> Self {
        let value = shown(key, value);
        Self(format!("{source}: {} = {value}: {sentence}", key.path()))
    }

    /// An unknown key, with the most similar known one.
    pub(super) fn of_unknown_key(source: impl fmt::Display, section: &str, name: &str) -> Self {
        let path = printable(&format!("{section}.{name}"));
        let elsewhere = KEYS.iter().find(|key| key.name == name).map(Key::path);
        let meant = elsewhere.or_else(|| {
            let here = KEYS.iter().filter(|key| key.section == section);
            nearest(name, here.map(|key| key.name)).map(|name| format!("{section}.{name}"))
        });
        Self(match meant {
            Some(meant) => format!("{source}: {path}: unknown key; did you mean {meant}?"),
            None => format!("{source}: {path}: unknown key; `heartline config` lists all"),
        })
    }

    /// An unknown section, with the most similar known one.
    pub(super) fn of_unknown_section(source: impl fmt::Display, section: &str) -> Self {
        let meant = nearest(section, KEYS.iter().map(|key| key.section));
        let section = printable(section);
        Self(match meant {
            Some(meant) => {
                format!("{source}: [{section}]: unknown section; did you mean [{meant}]?")
            }
            None => format!("{source}: [{section}]: unknown section; `heartline config` lists all"),
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A value without secrets.
pub(super) fn shown(key: &Key, value: &Value) -> String {
    if key.hides(value) { "(hidden)".to_owned() } else { value.to_string() }
}

/// All problems, so that one run shows them all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
        formatter.write_str(&lines.join("\n"))?;
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(formatter, "\nand {more} more problems"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// Escapes control characters: keys come from files and may contain anything.
fn printable(text: &str) -> String {
    text.escape_debug().take(100).collect()
}

/// The most similar candidate, if it is similar enough for a typing error.
fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if text.len() > 100 {
        return None;
    }
    candidates
        .map(|candidate| (strsim::levenshtein(text, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= TYPING_ERRORS_MAX && *distance * 2 <= candidate.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_problems_is_cut_and_counted() {
        let problems = (0..60).map(|_| Problem::of_source("a.toml", "bad")).collect();
        let text = ConfigErrors(problems).to_string();
        assert_eq!(text.lines().count(), SHOWN_MAX + 1);
        assert!(text.ends_with("and 10 more problems"));
    }
}
