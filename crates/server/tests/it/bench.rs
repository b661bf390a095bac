//! The benchmark measures a real server, in its short form.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::HEARTLINE;

async fn bench(arguments: &[&str]) -> Value {
    let mut command = HEARTLINE.command();
    command.arg("bench").args(arguments).arg("--json").stdin(Stdio::null());
    let output = command.output().await.unwrap();
    let (said, report) = (String::from_utf8_lossy(&output.stderr), &output.stdout);
    let code = output.status.code();
    assert_eq!(code, Some(0), "{said}{}", String::from_utf8_lossy(report));
    serde_json::from_slice(report).unwrap()
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

#[tokio::test]
async fn leases_of_the_bench_are_renewed_beside_three_other_layouts_and_none_is_lost() {
    let size = ["-n", "200", "--seconds", "1", "--leases", "300", "--churn", "1s"];
    let report = bench(&[&["heartbeats"], &size[..]].concat()).await;
    for layout in ["MULTI of 4 EXPIRE and HSET", "one SETEX", "bare batched ZADD"] {
        let name = format!("renewals per second, against {layout}");
        assert!(figure(&report, &name, "value") > 0.0);
        assert!(figure(&report, &name, "baseline") > 0.0);
    }
    let is_whole = |number: f64, whole: f64| (number - whole).abs() < 1e-9;
    assert!(is_whole(figure(&report, "live after two missed renewals, of", "value"), 200.0));
    assert!(is_whole(figure(&report, "leases held", "value"), 300.0));
    assert!(is_whole(figure(&report, "KEYS and SCAN", "value"), 0.0));
    let keys = figure(&report, "keys after them, and before", "value");
    let keys_before = figure(&report, "keys after them, and before", "baseline");
    // Keys that are no connection's come and go, such as the node's own while it was silent.
    assert!((keys - keys_before).abs() < 5.0, "{keys} keys after {keys_before}");
    assert!(figure(&report, "presence query beside renewals, and idle: p99", "value") > 0.0);
    assert!(figure(&report, "route lookup beside renewals, and idle: p99", "baseline") > 0.0);
}

#[tokio::test]
async fn a_server_on_postgresql_and_pgbench_store_the_same_messages() {
    let size = ["-n", "4", "--in-flight", "2", "--rate", "50", "--seconds", "3", "--ids", "ulid"];
    let report = bench(&[&["send", "--postgres"], &size[..]].concat()).await;
    assert_eq!(report["columns"]["baseline"], "pgbench");
    assert!(figure(&report, "ulid ids: acknowledged sends per second", "value") > 0.0);
    assert!(figure(&report, "ulid ids: acknowledged sends per second", "baseline") > 0.0);
    assert!(figure(&report, "ulid ids: half load delivery p99", "value") > 0.0);
}

#[tokio::test]
async fn a_room_on_several_nodes_hears_what_is_sent_through_each_of_them() {
    let size = ["--nodes", "2", "-n", "12", "--one-node", "6", "--room", "6"];
    let load = ["--rate", "240", "--seconds", "4"];
    let report = bench(&[&["cluster"], &size[..], &load[..]].concat()).await;
    let messages = figure(&report, "messages", "value");
    assert!(messages >= 100.0, "{messages} messages in four seconds");
    let deliveries = figure(&report, "deliveries", "value");
    assert!((deliveries - 6.0 * messages).abs() < 1e-9, "{deliveries} of {messages} messages");
    // One room of two is sent half as much.
    let alone = figure(&report, "deliveries", "baseline");
    assert!((300.0..deliveries).contains(&alone), "{alone} deliveries on one node");
    assert!(figure(&report, "latency p99", "value") > 0.0);
}

#[tokio::test]
async fn an_audience_says_why_it_cannot_do_what_it_is_asked() {
    let mut command = HEARTLINE.command();
    command.args(["bench", "audience"]).env("HEARTLINE_SECRET", "0123456789abcdef");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    input.write_all(b"{\"type\":\"hear\",\"deliveries\":1}\n").await.unwrap();
    let answer = BufReader::new(output).lines().next_line().await.unwrap().unwrap();
    assert!(answer.contains("nobody is connected"), "{answer}");
    drop(input);
    assert!(child.wait().await.unwrap().success(), "it ends with its input");
}

/// Every copy of every member was compared with its session, or the bench would have failed.
fn everybody_saw_every_edit(report: &Value) {
    for pace in ["saturated", "paced"] {
        let figure = |name: &str| figure(report, &format!("{pace}: {name}"), "value");
        let edits = figure("committed edits per second");
        assert!(edits > 0.0, "{report}");
        assert!((figure("events delivered per second") - 3.0 * edits).abs() < 1e-6, "{report}");
        assert!(figure("CPU of all nodes per edit") > 0.0, "{report}");
        assert!(figure("edit to answer p99") > 0.0, "{report}");
        assert!(figure("edit to everyone p99") > 0.0, "{report}");
    }
    assert!(figure(report, "copies that differ", "value").abs() < 1e-9);
}

#[tokio::test]
async fn everybody_in_the_sessions_of_the_bench_sees_every_edit() {
    let size = ["--sessions", "3", "--members", "3", "--queue", "12", "--seconds", "1"];
    everybody_saw_every_edit(&bench(&[&["party"], &size[..]].concat()).await);
}

#[tokio::test]
async fn sessions_of_the_bench_may_be_in_redis_and_their_members_on_several_nodes() {
    let size = ["--sessions", "3", "--members", "3", "--queue", "12", "--seconds", "1"];
    let shared = ["--redis", "--nodes", "2", "--in-flight", "2", "--rate", "10"];
    let report = bench(&[&["party"], &size[..], &shared[..]].concat()).await;
    everybody_saw_every_edit(&report);
    assert!(figure(&report, "saturated: CPU of Redis per edit", "value") > 0.0);
}
