use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use heartline_runtime::{Clock, Random};

use super::scratch::Scratch;
use crate::sqlite::{SqliteConfig, SqliteStore};

fn refusal(config: &SqliteConfig) -> String {
    SqliteStore::open(config, Clock::system(), Random::system()).unwrap_err().to_string()
}

#[test]
fn the_error_of_a_second_server_names_the_first() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let sentence = refusal(&scratch.config());
    assert!(sentence.contains("in use by another Heartline"), "{sentence}");
    assert!(sentence.contains(&format!("process {}", std::process::id())), "{sentence}");
    drop(store);
    scratch.open();
}

#[test]
fn a_missing_directory_is_named() {
    let scratch = Scratch::new();
    let path = scratch.directory().join("nowhere/heartline.db");
    let sentence = refusal(&SqliteConfig::new(&path));
    assert!(sentence.contains("nowhere/heartline.db: No such file or directory"), "{sentence}");
    assert!(sentence.contains("check that its directory exists"), "{sentence}");
}

#[test]
fn a_directory_that_may_not_be_written_to_is_named() {
    let scratch = Scratch::new();
    let is_root = fs::metadata(scratch.directory()).is_ok_and(|directory| {
        fs::set_permissions(scratch.directory(), fs::Permissions::from_mode(0o500)).unwrap();
        let probe = fs::write(scratch.directory().join("probe"), "").is_ok();
        directory.is_dir() && probe
    });
    // Root may write everywhere, so the test uses a directory where nobody may.
    let path = if is_root { Path::new("/proc/heartline.db") } else { &scratch.database() };
    let sentence = refusal(&SqliteConfig::new(path));
    fs::set_permissions(scratch.directory(), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(sentence.starts_with("cannot write beside the store"), "{sentence}");
}

#[test]
fn another_file_is_rejected_and_left_as_it_is() {
    let scratch = Scratch::new();
    let text = "not a database, although it is long enough to be one ".repeat(100);
    fs::write(scratch.database(), &text).unwrap();
    let sentence = refusal(&scratch.config());
    assert!(sentence.ends_with("is not a Heartline store; name another file"), "{sentence}");
    assert_eq!(fs::read_to_string(scratch.database()).unwrap(), text);

    fs::remove_file(scratch.database()).unwrap();
    scratch.shell().execute_batch("CREATE TABLE cookies (x)").unwrap();
    let sentence = refusal(&scratch.config());
    assert!(sentence.ends_with("is not a Heartline store; name another file"), "{sentence}");
}

#[test]
fn a_newer_schema_is_rejected() {
    let scratch = Scratch::new();
    drop(scratch.open());
    scratch.shell().pragma_update(None, "user_version", 99).unwrap();
    let sentence = refusal(&scratch.config());
    assert!(sentence.contains("has schema 99"), "{sentence}");
    assert!(sentence.contains("run the newer version"), "{sentence}");
}

#[test]
fn synchronous_normal_needs_allow_unsafe() {
    let scratch = Scratch::new();
    let careless = SqliteConfig { synchronous_full: false, ..scratch.config() };
    let sentence = refusal(&careless);
    assert!(sentence.contains("store.allow_unsafe = true"), "{sentence}");
    SqliteStore::open(
        &SqliteConfig { allow_unsafe: true, ..careless },
        Clock::system(),
        Random::system(),
    )
    .unwrap();
}

#[test]
fn the_settings_that_durability_depends_on_are_in_force() {
    let scratch = Scratch::new();
    let (_lock, connection) = crate::sqlite::open::open_writer(&scratch.config()).unwrap();
    let read = |name| -> String {
        connection
            .pragma_query_value(None, name, |row| {
                row.get::<_, rusqlite::types::Value>(0).map(|value| format!("{value:?}"))
            })
            .unwrap()
    };
    assert_eq!(read("journal_mode"), "Text(\"wal\")");
    assert_eq!(read("synchronous"), "Integer(2)");
    assert_eq!(read("mmap_size"), "Integer(0)");
}
