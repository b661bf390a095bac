//! Documents that are partly written by hand and partly from the code.
//!
//! Generated text stands between two marker lines, which are comments and not shown.

use std::path::{Path, PathBuf};

const END: &str = "<!-- end -->";

/// The top of the tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A file of the tree.
pub(crate) fn read(path: &str) -> String {
    let text = std::fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A document on one line, so that sentences can be looked for.
pub(crate) fn unwrapped(path: &str) -> String {
    let text = read(path);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Fails unless each section of a document is what the code writes; `HEARTLINE_GOLDEN=write` puts
/// it there.
pub(crate) fn assert_current(path: &str, sections: &[(&str, String)]) {
    let written = filled(&read(path), sections);
    if std::env::var_os("HEARTLINE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(root().join(path), &written).unwrap();
    }
    let committed = read(path);
    for (number, (committed, written)) in committed.lines().zip(written.lines()).enumerate() {
        assert_eq!(committed, written, "line {} of {path} is old", number + 1);
    }
    assert!(
        committed == written,
        "{path} is old: HEARTLINE_GOLDEN=write cargo test -p heartline --test reference writes it"
    );
}

/// A document with these sections and no others between its markers.
fn filled(document: &str, sections: &[(&str, String)]) -> String {
    let mut rest = document;
    let mut filled = String::new();
    for (name, section) in sections {
        let begin = format!("<!-- from the code: {name} -->\n");
        let (before, after) = rest.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
        assert!(!before.contains(END), "a section that nobody writes stands before {begin}");
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("{begin} has no end"));
        filled.push_str(&format!("{before}{begin}\n{}\n\n{END}", section.trim()));
        rest = after;
    }
    assert!(!rest.contains(END), "a section that nobody writes stands at the end");
    filled + rest
}

/// A table; what has no rows is nothing.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    let rows: String = rows.iter().map(|cells| row(cells)).collect();
    format!("{}{rule}{rows}\n", row(&head))
}

/// A name as code.
pub(crate) fn code(name: impl std::fmt::Display) -> String {
    format!("`{name}`")
}

/// The anchors of the headings of a document.
fn anchors(path: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for heading in read(path).lines().filter(|line| line.starts_with('#')) {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let anchor: String = title.chars().filter(kept).collect();
        anchors.push(anchor.replace(' ', "-"));
    }
    anchors
}

#[test]
fn every_link_of_a_reference_leads_somewhere() {
    for name in ["protocol.md", "graphql.md", "rest.md", "party.md"] {
        let text = read(&format!("docs/{name}"));
        let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { name } else { file };
            let path = format!("docs/{file}");
            assert!(root().join(&path).exists(), "{name} links to {link}");
            let is_there = anchor.is_empty() || anchors(&path).iter().any(|of| of == anchor);
            assert!(is_there, "{name} links to {link}, which is no heading");
        }
    }
}
