//! Rules about the tree that no compiler checks.

#![expect(clippy::unwrap_used, reason = "a check that cannot read the tree has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use heartline_testing::lives::{self, LIVES};

const FILE_LINES_MAX: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The tracked files, and those that are new and not ignored.
fn files() -> Vec<PathBuf> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(arguments).current_dir(root()).output().unwrap();
    assert!(listed.status.success(), "git lists the files");
    let names = String::from_utf8(listed.stdout).unwrap();
    names.lines().map(|name| root().join(name)).filter(|path| path.is_file()).collect()
}

fn sources() -> impl Iterator<Item = (PathBuf, String)> {
    let kinds = ["rs", "ts", "sh", "lua", "sql"];
    let is_source = move |path: &PathBuf| {
        path.extension().is_some_and(|extension| kinds.iter().any(|kind| extension == *kind))
    };
    files().into_iter().filter(is_source).map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    })
}

#[test]
fn no_source_file_is_too_long() {
    let long: Vec<_> = sources()
        // Generated files are not read from top to bottom.
        .filter(|(path, _)| !path.to_string_lossy().contains(".gen."))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .collect();
    assert!(long.is_empty(), "each holds more than one noun: {long:?}");
}

#[test]
fn nothing_is_left_for_later_in_the_source() {
    for (path, text) in sources().filter(|(path, _)| !path.ends_with("tidy.rs")) {
        let marked = ["TODO", "FIXME", "XXX"].into_iter().find(|mark| text.contains(mark));
        assert_eq!(marked, None, "{}", path.display());
    }
}

#[test]
fn no_comment_begins_with_a_pronoun() {
    let pronouns = ["What ", "Who ", "Whoever ", "Whom ", "Which "];
    // A migration that was applied somewhere never changes.
    let is_migration = |path: &Path| path.to_string_lossy().contains("/migrations/");
    for (path, text) in sources().filter(|(path, _)| !is_migration(path)) {
        for (line, number) in text.lines().zip(1..) {
            let comment = line.trim_start().trim_start_matches(['/', '!', '*', '#', '-']);
            let is_comment = comment.len() < line.trim_start().len();
            let begins =
                is_comment && pronouns.iter().any(|word| comment.trim_start().starts_with(word));
            assert!(!begins, "{}:{number}: name the subject first: {line}", path.display());
        }
    }
}

#[test]
fn every_module_begins_with_what_it_is() {
    let documented = |path: &Path| {
        let name = path.to_string_lossy();
        !name.contains("/tests/") && !name.ends_with("tests.rs") && !name.contains("/fuzz/")
    };
    for (path, text) in sources().filter(|(path, _)| path.extension().unwrap() == "rs") {
        if documented(&path) {
            assert!(text.starts_with("//! "), "{} has no module comment", path.display());
        }
    }
}

#[test]
fn the_map_names_every_crate_and_no_other() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(map.contains(&format!("`crates/{name}`")), "ARCHITECTURE.md misses {name}");
    }
    for named in map.split("`crates/").skip(1).map(|rest| rest.split('`').next().unwrap()) {
        let path = root().join("crates").join(named);
        assert!(path.exists(), "ARCHITECTURE.md names crates/{named}, which does not exist");
    }
}

#[test]
fn each_stop_of_each_life_is_one_function_and_one_row_of_the_map() {
    let (map, mut source) = (lives::in_map(&root()), lives::in_source(&root()));
    for (life, _) in LIVES {
        let numbers = map.iter().filter(|stop| stop.life == life).map(|stop| stop.number);
        let numbers: Vec<usize> = numbers.collect();
        let count = numbers.len();
        assert!(count >= 10, "the life of a {life} has {count} stops");
        assert_eq!(numbers, Vec::from_iter(1..=count), "the stops of the life of a {life}");
    }
    let mut map = map;
    map.sort();
    source.sort();
    for stop in &map {
        assert!(source.contains(stop), "no function says that it is {stop:?}");
    }
    for stop in &source {
        assert!(map.contains(stop), "the map does not have {stop:?}");
    }
    assert_eq!(map, source, "a stop is one function");
}

#[test]
fn no_file_is_included_by_its_path() {
    let mark = ["#[", "path"].concat();
    let crates = root().join("crates");
    // The fuzz targets are another workspace and walk the session with the steps of its own tests.
    for (path, text) in sources().filter(|(path, _)| path.starts_with(&crates)) {
        let includes = text.lines().any(|line| line.trim_start().starts_with(&mark));
        assert!(!includes, "{}: share code through crates/testing", path.display());
    }
}

#[test]
fn the_documents_name_only_files_that_exist() {
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let target = link.split('#').next().unwrap();
            assert!(root().join(target).exists(), "{document} links to {target}");
        }
    }
}

#[test]
fn the_order_of_a_plane_follows_from_its_seed() {
    let planes = ["gateway", "durability", "fanout", "routing", "party"];
    for (path, text) in sources() {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let is_plane = planes.iter().any(|plane| name.starts_with(&format!("crates/{plane}/src/")));
        if !is_plane || name.contains("/tests") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let std_map = ["HashMap", "HashSet"].into_iter().find(|map| code.contains(map));
        assert_eq!(std_map, None, "{name}: use heartline_runtime::Map or Set, or a BTreeMap");
        for branches in code.split("select! {").skip(1) {
            let mut lines = branches.lines().map(str::trim).filter(|line| !line.is_empty());
            let first = lines.find(|line| !line.starts_with("//"));
            assert_eq!(first, Some("biased;"), "{name}: a select! takes its branches in order");
        }
    }
}
