//! The lives in ARCHITECTURE.md: the path of a message, of a presence transition and of a party
//! edit through the code, stop by stop.

use std::fs;
use std::path::{Path, PathBuf};

/// The names of the lives in ARCHITECTURE.md and in comments, each with the field of its trace
/// events.
pub const LIVES: [(&str, &str); 3] = [
    ("message", "message_stop"),
    ("presence transition", "presence_stop"),
    ("party edit", "party_stop"),
];

/// The target of the trace events of all stops. `log.level = "info,heartline::life=trace"` shows
/// them.
pub const TARGET: &str = "heartline::life";

/// A stop of a life and its place in the source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stop {
    /// The name of the life.
    pub life: String,
    /// The number of the stop, from 1.
    pub number: usize,
    /// The file, below `crates/`.
    pub file: String,
    /// The function, with its type if it is a method: `Hub::write`.
    pub function: String,
}

/// The stops that ARCHITECTURE.md lists, in its order. A row is
/// `| 6 | stored | `durability/src/ingest/shard.rs` · `Shard::store` | … |`.
///
/// # Panics
/// ARCHITECTURE.md does not exist, or a row names no file and function.
pub fn in_map(root: &Path) -> Vec<Stop> {
    let map = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md exists");
    let mut stops = Vec::new();
    for (life, _) in LIVES {
        let (_, section) = map
            .split_once(&format!("\n## The life of a {life}\n"))
            .unwrap_or_else(|| panic!("ARCHITECTURE.md has no life of a {life}"));
        let section = section.split("\n## ").next().unwrap_or_default();
        for row in section.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let Some(number) = cells.get(1).and_then(|cell| cell.parse().ok()) else { continue };
            let place = cells.get(3).copied().unwrap_or_default();
            let mut names = place.split('`').skip(1).step_by(2).map(str::to_owned);
            let (Some(file), Some(function)) = (names.next(), names.next()) else {
                panic!("stop {number} of the life of a {life} names no file and function: {row}")
            };
            stops.push(Stop { life: life.to_owned(), number, file, function });
        }
    }
    stops
}

/// The stops that comments of functions name: `/// Stop 6 of the life of a message: stored.` A
/// function of two lives has both in one comment.
///
/// # Panics
/// A source file cannot be read, or a comment that names a stop is not at a function.
pub fn in_source(root: &Path) -> Vec<Stop> {
    let mut files = Vec::new();
    collect(&root.join("crates"), &mut files);
    let mut stops = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source file");
        let file = path.strip_prefix(root.join("crates")).expect("it is below").to_string_lossy();
        stops.extend(in_file(&file, &text));
    }
    stops
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).expect("a directory").filter_map(Result::ok);
    for path in entries.map(|entry| entry.path()) {
        // Tests and this file mention stops without being one.
        if path.ends_with("tests") || path.ends_with("testing") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn in_file(file: &str, text: &str) -> Vec<Stop> {
    let lines: Vec<&str> = text.lines().collect();
    let mut stops = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let is_comment = |line: &&&str| line.trim_start().starts_with("///");
        let comment: Vec<&str> = lines[index..].iter().take_while(is_comment).copied().collect();
        index += comment.len().max(1);
        let words = comment.iter().map(|line| line.trim_start().trim_start_matches("///").trim());
        let words = words.collect::<Vec<_>>().join(" ");
        for (life, number) in named(&words) {
            let function = function_at(&lines, index).unwrap_or_else(|| {
                panic!("{file}: the comment of stop {number} of a {life} is not at a function")
            });
            stops.push(Stop { life, number, file: file.to_owned(), function });
        }
    }
    stops
}

/// The lives and stops that a comment names.
fn named(words: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (life, _) in LIVES {
        let mark = format!(" of the life of a {life}");
        for (before, _) in words.match_indices(&mark).map(|(at, _)| words.split_at(at)) {
            let number = before.rsplit(' ').next().and_then(|number| number.parse().ok());
            if let Some(number) = number.filter(|_| before.to_lowercase().contains("stop ")) {
                found.push((life.to_owned(), number));
            }
        }
    }
    found
}

/// The function that begins at a line, after its attributes, with the type of its `impl`.
fn function_at(lines: &[&str], index: usize) -> Option<String> {
    let rest = lines[index..].iter().map(|line| line.trim_start());
    let mut rest = rest.skip_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let (_, signature) = rest.next()?.split_once("fn ")?;
    let name = signature.split(['(', '<']).next()?;
    if !lines[index].starts_with(' ') {
        return Some(name.to_owned());
    }
    let block = lines[..index].iter().rev().find(|line| line.starts_with("impl"))?;
    let subject = block.rsplit(" for ").next()?.trim_start_matches("impl");
    // The generics of the block come before its type.
    let subject = if subject.starts_with('<') { subject.split_once('>')?.1 } else { subject };
    let subject = subject.trim_start().split(['<', ' ']).next()?;
    Some(format!("{subject}::{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_may_name_stops_of_two_lives() {
        let text = "\
impl<T> Tell for Hub<T> {
    /// Stop 3 of the life of a message, stop 2 of the life of a party edit: written.
    /// And more.
    #[inline]
    pub(crate) async fn write(&self) {}
}

/// Stop 4 of the life of a message: received.
fn hear<T>() {}
";
        let found = in_file("gateway/src/hub.rs", text);
        let found: Vec<(&str, usize, &str)> = found
            .iter()
            .map(|stop| (stop.life.as_str(), stop.number, stop.function.as_str()))
            .collect();
        let expected =
            [("message", 3, "Hub::write"), ("party edit", 2, "Hub::write"), ("message", 4, "hear")];
        assert_eq!(found, expected);
    }
}
