//! The benchmark measures a real server, in its short form.

use std::process::Stdio;

use serde_json::Value;

use crate::harness::heartline;

async fn bench(arguments: &[&str]) -> Value {
    let mut command = heartline();
    command.arg("bench").args(arguments).arg("--json").stdin(Stdio::null());
    let output = command.output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The value of a figure by its name and side.
fn figure(report: &Value, name: &str, side: &str) -> f64 {
    let figures = report["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["name"] == name);
    let figure = figure.unwrap_or_else(|| panic!("no {name:?} in {report}"));
    figure[side].as_f64().unwrap_or_else(|| panic!("no {side:?} in {figure}"))
}

#[tokio::test]
async fn every_push_of_the_bench_is_delivered_on_both_sides() {
    let report = bench(&["push", "-n", "20", "--rate", "400", "--seconds", "2"]).await;
    let delivered = figure(&report, "deliveries", "value");
    assert!(delivered >= 600.0, "{delivered} deliveries in two seconds");
    assert!(figure(&report, "deliveries", "baseline") >= 600.0);
    assert!(figure(&report, "latency p50", "value") > 0.0);
}

#[tokio::test]
async fn the_bench_connects_and_holds_authenticated_sockets() {
    let report = bench(&["connect", "-n", "50", "--concurrency", "8"]).await;
    assert!(figure(&report, "connections per second", "value") > 0.0);
    let report = bench(&["idle", "-n", "50", "--seconds", "2"]).await;
    assert!(figure(&report, "memory at the end", "value") > 0.0);
}

#[tokio::test]
async fn every_message_of_the_bench_is_acknowledged_stored_and_delivered() {
    let arguments = ["send", "-n", "4", "--in-flight", "2", "--rate", "100", "--seconds", "1"];
    let report = bench(&arguments).await;
    for ids in ["ulid", "random"] {
        let figure = |name: &str, side: &str| figure(&report, &format!("{ids} ids: {name}"), side);
        assert!(figure("acknowledged sends per second", "value") > 0.0);
        assert!(figure("acknowledged sends per second", "baseline") > 0.0);
        assert!(figure("messages stored together", "value") >= 1.0);
        assert!(figure("half load ack p99", "value") > 0.0);
        assert!(figure("half load delivery p99", "value") > 0.0);
    }
}

#[tokio::test]
async fn the_bench_sends_to_groups_of_the_size_asked_for() {
    let group = ["--chats", "3", "--members", "4", "--ids", "random", "--rate", "50"];
    let report = bench(&[&["send", "-n", "6", "--seconds", "1"], &group[..]].concat()).await;
    assert!(figure(&report, "random ids: half load delivery p50", "value") > 0.0);
}

#[tokio::test]
async fn a_room_of_the_bench_hears_every_message_on_both_sides() {
    let report = bench(&["fanout", "-n", "20", "--rate", "400", "--seconds", "2"]).await;
    assert!(figure(&report, "deliveries", "value") >= 600.0);
    assert!(figure(&report, "deliveries", "baseline") >= 600.0);
    assert!(figure(&report, "commit p99", "value") > 0.0);
    assert!(figure(&report, "latency p99", "value") > 0.0);
}

#[tokio::test]
async fn a_saturated_room_loses_nothing_beside_readers_that_stopped() {
    let room = ["fanout", "-n", "20", "--senders", "2", "--saturate", "--in-flight", "8"];
    let report = bench(&[&room[..], &["--seconds", "2", "--stalled", "3"]].concat()).await;
    assert!(figure(&report, "deliveries", "value") > 0.0);
    assert!(figure(&report, "resident memory beside stalled, and before", "value") > 0.0);
}
