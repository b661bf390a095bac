//! One layer of values: a file, the environment, or the settings of a command.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::keys;
use super::problem::Problem;
use super::value::Value;

/// The prefix of variables. The doubled underscore avoids the variables that container platforms
/// define for a service named heartline.
const VARIABLE_PREFIX: &str = "HEARTLINE__";

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The default configuration.
    Default,
    /// The operator's file, with the line.
    File(String, usize),
    /// A variable or a command.
    Named(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(name, line) => write!(formatter, "{name}:{line}"),
            Self::Named(name) => formatter.write_str(name),
        }
    }
}

/// One value of a layer.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) section: String,
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Values that override those of the layers below.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    /// Part of the layer could not be read, so missing and contradicting values are unknown.
    pub(super) is_broken: bool,
}

impl Layer {
    /// Adds a value that a command sets; `source` is its name in error messages, such as
    /// `--listen`. The text is parsed like one from the environment.
    #[must_use]
    pub fn with(mut self, source: &str, section: &str, name: &str, text: &str) -> Self {
        self.add_text(Origin::Named(source.to_owned()), section, name, text);
        self
    }

    /// Adds a value for an optional argument.
    #[must_use]
    pub fn with_argument(self, flag: &str, section: &str, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.with(flag, section, name, text),
            None => self,
        }
    }

    /// Reads the text of a file; `name` is its name in error messages.
    pub(super) fn from_file(name: &str, text: &str) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        let lines = Lines::of(text);
        let mut layer = Self { is_broken: !errors.is_empty(), ..Self::default() };
        let mut broken_lines = BTreeSet::new();
        for error in &errors {
            let line = lines.at(error.span().map_or(0, |span| span.start));
            broken_lines.insert(line);
            // Only the message: the parser's own format shows the line, which may contain a secret.
            let sentence = format!("is not TOML here: {}", error.message());
            layer.problems.push(Problem::of_source(Origin::File(name.to_owned(), line), sentence));
        }
        // The table is sorted by name; messages follow the order of the file.
        let mut sections: Vec<_> = table.get_ref().iter().collect();
        sections.sort_by_key(|(section, _)| section.span().start);
        for (section, content) in sections {
            let origin = Origin::File(name.to_owned(), lines.at(section.span().start));
            let section = section.get_ref();
            match content.get_ref() {
                DeValue::Table(content) if keys::is_section(section) => {
                    let section = Section { file: name, text, lines: &lines, name: section };
                    layer.entries.extend(section.entries(content, &broken_lines));
                }
                DeValue::Table(_) => {
                    layer.problems.push(Problem::of_unknown_section(origin, section));
                }
                _ => layer.problems.push(Problem::of_source(origin, misplaced(section))),
            }
        }
        layer
    }

    /// Reads the variables with our prefix, sorted by name.
    pub(super) fn from_environment(variables: &[(OsString, OsString)]) -> Self {
        let mut layer = Self::default();
        let mut ours: Vec<_> = variables
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?, value)))
            .filter_map(|(name, value)| Some((name, name.strip_prefix(VARIABLE_PREFIX)?, value)))
            .collect();
        ours.sort_unstable();
        for (variable, path, value) in ours {
            let Some((section, name)) = path.split_once("__") else {
                layer.problems.push(Problem::of_source(
                    variable.escape_debug(),
                    "names no key; write HEARTLINE__SECTION__KEY, such as \
                     HEARTLINE__SERVER__LISTEN",
                ));
                continue;
            };
            let Some(text) = value.to_str() else {
                layer.problems.push(Problem::of_source(variable, "is not UTF-8 text"));
                continue;
            };
            let origin = Origin::Named(variable.to_owned());
            layer.add_text(origin, &section.to_lowercase(), &name.to_lowercase(), text);
        }
        layer
    }

    fn add_text(&mut self, origin: Origin, section: &str, name: &str, text: &str) {
        let value = match keys::find(section, name) {
            Some(key) => key.rule.read(text),
            None => Value::Text(text.to_owned()),
        };
        let (section, name) = (section.to_owned(), name.to_owned());
        self.entries.push(Entry { section, name, value, origin });
    }
}

/// The error message for a value in the place of a section.
fn misplaced(name: &str) -> String {
    if keys::is_section(name) {
        return format!("{name}: must be a section: write [{name}] once, with its keys below it");
    }
    let name = name.escape_debug();
    format!("{name}: stands outside a section; move it below its [section]")
}

/// A section of a file, with the positions of its keys.
struct Section<'a> {
    file: &'a str,
    text: &'a str,
    lines: &'a Lines,
    name: &'a str,
}

impl Section<'_> {
    /// The section's keys in order, without those that the parser guessed on a broken line.
    fn entries(&self, content: &DeTable<'_>, broken_lines: &BTreeSet<usize>) -> Vec<Entry> {
        let mut keys: Vec<_> = content
            .iter()
            .map(|(key, value)| (self.lines.at(key.span().start), key, value))
            .filter(|(line, ..)| !broken_lines.contains(line))
            .collect();
        keys.sort_by_key(|(line, ..)| *line);
        let entry = |(line, key, value): (usize, &Spanned<_>, &Spanned<DeValue<'_>>)| Entry {
            section: self.name.to_owned(),
            name: DeString::to_string(key.get_ref()),
            value: Value::from_toml(
                value.get_ref(),
                self.text.get(value.span()).unwrap_or_default(),
            ),
            origin: Origin::File(self.file.to_owned(), line),
        };
        keys.into_iter().map(entry).collect()
    }
}

/// The offsets at which the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(place, _)| place + 1);
        Self(std::iter::once(0).chain(after_breaks).collect())
    }

    /// The number of the line that holds this byte, from 1.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|&start| start <= offset)
    }
}
