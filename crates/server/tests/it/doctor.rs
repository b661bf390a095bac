//! `heartline doctor` on a node that is alone.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use heartline::commands::doctor::INVARIANTS;
use heartline_testing::DoctorReport;
use heartline_testing::chat::open_store;
use heartline_testing::presence::OPEN;

use crate::HEARTLINE;

/// The invariants as the design documents name them.
const NAMED: [&str; 20] = [
    "routing_ttl_bounded",
    "zombie_prevention",
    "conn_id_uniqueness",
    "routing_denormalization_consistent",
    "presence_derives_from_connections",
    "multi_device_aggregation",
    "eventual_consistency_bound",
    "presence_undefined_during_partition",
    "presence_ceiling",
    "presence_staleness_bounded",
    "presence_consistency_ceiling",
    "privacy_enforced",
    "multi_device_delivery",
    "no_silent_message_loss",
    "bounded_buffer",
    "backpressure_signaled",
    "failfast_persistence",
    "graceful_fanout",
    "reconnect_heals",
    "isolation_holds",
];

/// The functions of every test in the tree.
fn tests_under(directory: &Path, found: &mut HashSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                tests_under(&path, found);
            }
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if !line.starts_with("#[test]") && !line.starts_with("#[tokio::test") {
                    continue;
                }
                let head = lines.by_ref().find(|line| line.contains("fn ")).unwrap_or_default();
                let name = head.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
                found.insert(name.unwrap_or_default().to_owned());
            }
        }
    }
}

#[test]
fn every_invariant_has_a_test_that_exists() {
    let names: HashSet<&str> = INVARIANTS.iter().map(|invariant| invariant.name).collect();
    assert_eq!(names, NAMED.into_iter().collect());
    assert_eq!(names.len(), INVARIANTS.len());
    let mut tests = HashSet::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    tests_under(crates, &mut tests);
    for invariant in INVARIANTS {
        assert!(!invariant.tests.is_empty(), "{}", invariant.name);
        for test in invariant.tests {
            assert!(tests.contains(*test), "{}: there is no test {test}", invariant.name);
        }
    }
}

#[tokio::test]
async fn a_configuration_that_is_refused_is_exit_code_two() {
    let directory = HEARTLINE.scratch();
    let file = directory.join("heartline.toml");
    fs::write(&file, "[routing]\nshards = 0\n").unwrap();
    let output =
        HEARTLINE.command().args(["doctor", "--config"]).arg(&file).output().await.unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("FAIL     configuration: "), "{text}");
    assert!(text.contains("routing.shards = 0"), "{text}");
}

#[tokio::test]
async fn a_sound_node_passes_while_it_runs_and_when_it_is_stopped() {
    let server = HEARTLINE.start_with(&format!("{OPEN}[limits]\nsend_rate = 7\n")).await;
    let url = format!("http://{}", server.address);
    let visit = DoctorReport::of(HEARTLINE, &server, &["--url", &url]).await;
    visit.assert_clean();
    let (verdict, text) = visit.verdict("store");
    assert_eq!(verdict, "skipped");
    assert!(text.contains(&format!("in use by process {}", server.pid())), "{text}");
    let (_, text) = visit.verdict("limits");
    assert!(text.contains("limits.send_rate = 7 (default 10; "), "{text}");
    let probed = [
        "no_silent_message_loss",
        "multi_device_delivery",
        "reconnect_heals",
        "multi_device_aggregation",
        "eventual_consistency_bound",
        "privacy_enforced",
    ];
    for invariant in probed {
        let (verdict, text) = visit.verdict(invariant);
        assert!(verdict == "pass" && text.contains("the probe"), "{invariant}: {text}");
    }
    let (verdict, text) = visit.verdict("isolation_holds");
    assert!(verdict == "held_by_test" && text.contains("checked by test v43_"), "{text}");
    let left: u32 = open_store(&server.data())
        .query_row("SELECT count(*) FROM chats", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0, "the probe cleans up after itself");

    let files = server.stop_with("TERM").await;
    let visit = DoctorReport::on(HEARTLINE, files.data(), &[]).await;
    visit.assert_clean();
    assert_eq!(visit.verdict("store file").0, "pass");
    assert_eq!(visit.verdict("store durability").0, "pass");
    assert_eq!(visit.verdict("halted chats").0, "pass");
    let visit = DoctorReport::on(HEARTLINE, files.data(), &["--url", &url]).await;
    visit.assert_failed(&format!("node at {url}"), &["correct --url"]);
}

#[tokio::test]
async fn a_halted_chat_and_a_damaged_file_are_found() {
    let server = HEARTLINE.start().await;
    let chat = server.create_group("ana", &["bo"]).await;
    let files = server.stop_with("TERM").await;
    let damage = |sql: &str| {
        let path = files.data().join("heartline.db");
        rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
    };
    damage("UPDATE chats SET halted = 1");
    let visit = DoctorReport::on(HEARTLINE, files.data(), &[]).await;
    visit.assert_failed("halted chats", &[&chat, &format!("repair counter {chat} --config")]);
    damage("UPDATE chats SET halted = 0");
    DoctorReport::on(HEARTLINE, files.data(), &[]).await.assert_clean();

    damage(
        "PRAGMA writable_schema = ON;
         DELETE FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
    );
    let visit = DoctorReport::on(HEARTLINE, files.data(), &[]).await;
    visit.assert_failed("store file", &["never used"]);
}
