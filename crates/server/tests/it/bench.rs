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
