//! `docs/logs.md` lists every warning and error that the server logs.
//!
//! With `HEARTLINE_GOLDEN=write` the page is written again: new phrases are added without a
//! meaning, and phrases that no source contains are removed.

#![expect(clippy::unwrap_used, reason = "a check that cannot read the tree has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Crates whose lines an operator never sees: tools, test support and the client library.
const NOT_SERVED: [&str; 5] = ["bench", "client", "engines", "terminal", "testing"];

/// Folders of the server that hold commands which print to a terminal instead of logging.
const COMMANDS: [&str; 4] =
    ["server/src/bench", "server/src/commands/connect", "server/src/commands/doctor", "/tests"];

/// A phrase in the source: its crate, its level and the phrase itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    in_crate: String,
    phrase: String,
    level: String,
}

/// The row of a phrase in `docs/logs.md`.
#[derive(Clone, Debug, Default)]
struct Explanation {
    meaning: String,
    action: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn page() -> PathBuf {
    root().join("docs/logs.md")
}

/// The sources of the crates that a server consists of, by their path, without their tests.
fn sources() -> Vec<(String, String)> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "crates/*.rs"];
    let listed = Command::new("git").args(arguments).current_dir(root()).output().unwrap();
    assert!(listed.status.success(), "git lists the files");
    let is_served = |name: &str| {
        let in_crate = name.split('/').nth(1).unwrap_or_default();
        name.contains("/src/")
            && !NOT_SERVED.contains(&in_crate)
            && !name.ends_with("tests.rs")
            && !COMMANDS.iter().any(|folder| name.contains(folder))
    };
    let names = String::from_utf8(listed.stdout).unwrap();
    let served = names.lines().filter(|name| is_served(name) && root().join(name).is_file());
    served
        .map(|name| {
            let text = fs::read_to_string(root().join(name)).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
            (name.to_owned(), code)
        })
        .collect()
}

/// The arguments of a macro call whose opening parenthesis ends before `rest`.
fn arguments(rest: &str) -> Vec<String> {
    let (mut found, mut argument, mut depth) = (Vec::new(), String::new(), 0_usize);
    let mut characters = rest.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                argument.push('"');
                while let Some(character) = characters.next() {
                    match character {
                        '"' => break,
                        '\\' if characters.peek() == Some(&'\n') => {
                            while characters.next_if(|it| it.is_whitespace()).is_some() {}
                        }
                        '\\' => argument.extend(characters.next()),
                        other => argument.push(other),
                    }
                }
                argument.push('"');
            }
            ')' | ']' | '}' if depth == 0 => break,
            ',' if depth == 0 => found.push(std::mem::take(&mut argument)),
            other => {
                depth += usize::from("([{".contains(other));
                depth -= usize::from(")]}".contains(other));
                argument.push(other);
            }
        }
    }
    found.push(argument);
    found.into_iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

/// Every call of a macro of this level in a source, as its arguments.
fn calls(code: &str, level: &str) -> Vec<Vec<String>> {
    let call = format!("{level}!(");
    let is_whole = |at: usize| {
        let before = code.get(..at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_name = before.ends_with(|it: char| it.is_alphanumeric() || it == '_');
        !is_name && !line.trim_start().starts_with("//")
    };
    code.match_indices(&call)
        .filter(|(at, _)| is_whole(*at))
        .map(|(at, _)| arguments(code.get(at + call.len()..).unwrap_or_default()))
        .collect()
}

/// The phrases in the source. A phrase is fixed: values are fields beside it.
fn logged() -> BTreeSet<Line> {
    let mut lines = BTreeSet::new();
    for (name, code) in sources() {
        let in_crate = name.split('/').nth(1).unwrap_or_default().to_owned();
        for level in ["warn", "error"] {
            for arguments in calls(&code, level) {
                let literal = arguments.iter().find_map(|it| it.strip_prefix('"'));
                let phrase = literal.and_then(|it| it.strip_suffix('"')).unwrap_or_default();
                assert!(!phrase.is_empty(), "{name}: {level}! without a phrase: {arguments:?}");
                assert!(!phrase.contains('{'), "{name}: values are fields, not text: {phrase}");
                let (phrase, level) = (phrase.to_owned(), level.to_uppercase());
                lines.insert(Line { in_crate: in_crate.clone(), phrase, level });
            }
        }
    }
    lines
}

/// The lines of the page with their explanations.
fn documented(text: &str) -> BTreeMap<Line, Explanation> {
    let (mut lines, mut in_crate) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut in_crate);
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        let (phrase, rest) = row.split_once("` | ").expect("a phrase and its level");
        let cells: Vec<&str> = rest.trim_end_matches('|').split(" | ").map(str::trim).collect();
        let [level, meaning, action] = cells[..] else { panic!("not four cells: {line}") };
        let (phrase, level) = (phrase.to_owned(), level.to_owned());
        let (meaning, action) = (meaning.to_owned(), action.to_owned());
        let explanation = Explanation { meaning, action };
        lines.insert(Line { in_crate: in_crate.clone(), phrase, level }, explanation);
    }
    lines
}

/// The page for these phrases: its introduction, and a table for each crate.
fn written(text: &str, lines: &BTreeSet<Line>) -> String {
    let introduction = text.split("\n## ").next().unwrap_or_default().trim_end();
    let known: BTreeMap<String, Explanation> =
        documented(text).into_iter().map(|(line, about)| (line.phrase, about)).collect();
    let (mut page, mut in_crate) = (introduction.to_owned() + "\n", "");
    for line in lines {
        if line.in_crate != in_crate {
            in_crate = &line.in_crate;
            let head = "| line | level | meaning | what to do |\n|---|---|---|---|";
            writeln!(page, "\n## {in_crate}\n\n{head}").unwrap();
        }
        let Explanation { meaning, action } = known.get(&line.phrase).cloned().unwrap_or_default();
        writeln!(page, "| `{}` | {} | {meaning} | {action} |", line.phrase, line.level).unwrap();
    }
    page
}

#[test]
fn every_warning_and_error_is_explained_and_no_other() {
    let lines = logged();
    assert!(lines.len() > 50, "only {} lines were found", lines.len());
    let text = fs::read_to_string(page()).unwrap();
    if env::var("HEARTLINE_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(page(), written(&text, &lines)).unwrap();
        return;
    }
    let documented = documented(&text);
    let names: BTreeSet<Line> = documented.keys().cloned().collect();
    let missing: Vec<_> = lines.difference(&names).collect();
    let gone: Vec<_> = names.difference(&lines).collect();
    let advice = "run this test with HEARTLINE_GOLDEN=write, then fill in docs/logs.md";
    assert!(missing.is_empty() && gone.is_empty(), "missing {missing:?}, gone {gone:?}: {advice}");
    for (line, Explanation { meaning, action }) in documented {
        assert!(!meaning.is_empty() && !action.is_empty(), "docs/logs.md explains {line:?}");
    }
}

#[test]
fn a_phrase_is_found_among_fields_and_over_several_lines() {
    let code =
        "tracing::warn!(%error, count = f(1, \"a\"),\n \"first \\\n    half\"); my_warn!(\"no\")";
    let found = calls(code, "warn");
    assert_eq!(found, [["%error", "count = f(1, \"a\")", "\"first half\""].map(str::to_owned)]);
}
