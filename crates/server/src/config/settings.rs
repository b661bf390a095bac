//! The values in force, each with its source.

use std::collections::BTreeSet;

use super::DEFAULTS;
use super::keys::{self, KEYS, Key};
use super::layer::{Layer, Origin};
use super::problem::{Problem, shown};
use super::value::Value;

/// One key's value in force.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
    /// A layer has an illegal value. The value below is used, so that other problems are found too,
    /// but contradictions with it are not reported.
    pub(super) is_doubtful: bool,
}

/// The values in force, one for each of [`KEYS`] and in the same order.
#[derive(Debug, Clone)]
pub(super) struct Settings(Vec<Setting>);

/// A key whose value differs from the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `section.name`.
    pub key: String,
    /// The value in force; a secret is not shown.
    pub value: String,
    /// The default value.
    pub default: String,
    /// The source of the value.
    pub source: String,
}

impl Settings {
    /// The default values.
    pub(super) fn defaults() -> Self {
        let manual = Layer::from_file("config.default.toml", DEFAULTS);
        let value_of = |key: &Key| {
            let is_named = |entry: &&super::layer::Entry| {
                entry.section == key.section && entry.name == key.name
            };
            let entry = manual.entries.iter().find(is_named);
            entry.expect("a test holds the manual and the table of keys together").value.clone()
        };
        let setting =
            |key| Setting { value: value_of(key), origin: Origin::Default, is_doubtful: false };
        Self(KEYS.iter().map(setting).collect())
    }

    /// Lays one layer over the values, and records its problems.
    pub(super) fn overlay(&mut self, layer: Layer, problems: &mut Vec<Problem>) {
        problems.extend(layer.problems);
        let mut unknown_sections = BTreeSet::new();
        for entry in layer.entries {
            if !keys::is_section(&entry.section) {
                if unknown_sections.insert(entry.section.clone()) {
                    problems.push(Problem::of_unknown_section(&entry.origin, &entry.section));
                }
                continue;
            }
            let Some(key) = keys::find(&entry.section, &entry.name) else {
                let (section, name) = (&entry.section, &entry.name);
                problems.push(Problem::of_unknown_key(&entry.origin, section, name));
                continue;
            };
            let setting = self.get_mut(key);
            match key.rule.check(&entry.value) {
                Ok(()) => {
                    setting.value = entry.value;
                    setting.origin = entry.origin;
                }
                Err(sentence) => {
                    setting.is_doubtful = true;
                    let (origin, value) = (&entry.origin, &entry.value);
                    problems.push(Problem::of_value(origin, key, value, sentence));
                }
            }
        }
    }

    /// The value in force of a key.
    pub(super) fn get(&self, key: &Key) -> &Setting {
        &self.0[index_of(key)]
    }

    /// Every key with its value in force.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static Key, &Setting)> {
        KEYS.iter().zip(&self.0)
    }

    /// The keys whose values are not the defaults.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let defaults = Self::defaults();
        let differs =
            |(key, setting): &(&'static Key, &Setting)| setting.value != defaults.get(key).value;
        let difference = |(key, setting): (&'static Key, &Setting)| Difference {
            key: key.path(),
            value: shown(key, &setting.value),
            default: shown(key, &defaults.get(key).value),
            source: setting.origin.to_string(),
        };
        self.iter().filter(differs).map(difference).collect()
    }

    /// The values as one table, for the typed configuration.
    pub(super) fn to_table(&self) -> toml::Table {
        let mut sections = toml::Table::new();
        for (key, setting) in self.iter() {
            let section = sections
                .entry(key.section)
                .or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let toml::Value::Table(section) = section {
                section.insert(key.name.to_owned(), key.rule.typed(&setting.value));
            }
        }
        sections
    }

    fn get_mut(&mut self, key: &Key) -> &mut Setting {
        &mut self.0[index_of(key)]
    }
}

fn index_of(key: &Key) -> usize {
    let place =
        KEYS.iter().position(|other| other.section == key.section && other.name == key.name);
    place.expect("keys are only made in the table")
}
