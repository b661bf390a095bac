//! Every scenario of `heartline bench` runs against a real server, with small parameters.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::HEARTLINE;

async fn bench(arguments: &[&str]) -> Value {
    let mut command = HEARTLINE.command();
    command.arg("bench").args(arguments).arg("--json").stdin(Stdio::null());
    let output = command.output().await.unwrap();
    let (errors, report) = (String::from_utf8_lossy(&output.stderr), &output.stdout);
    let code = output.status.code();
    assert_eq!(code, Some(0), "{errors}{}", String::from_utf8_lossy(report));
    serde_json::from_slice(report).unwrap()
}

/// The value of a figure, by its name and column.
fn figure(report: &Value, name: &str, column: &str) -> f64 {
    let figures = report["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["name"] == name);
    let figure = figure.unwrap_or_else(|| panic!("no {name:?} in {report}"));
    figure[column].as_f64().unwrap_or_else(|| panic!("no {column:?} in {figure}"))
}

#[tokio::test]
async fn every_push_is_delivered_by_the_server_and_by_the_bare_loop() {
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
        let figure =
            |name: &str, column: &str| figure(&report, &format!("{ids} ids: {name}"), column);
        assert!(figure("acknowledged sends per second", "value") > 0.0);
        assert!(figure("acknowledged sends per second", "baseline") > 0.0);
        assert!(figure("messages stored together", "value") >= 1.0);
        assert!(figure("half load ack p99", "value") > 0.0);
        assert!(figure("half load delivery p99", "value") > 0.0);
    }
}

#[tokio::test]
async fn the_bench_sends_to_groups_of_the_requested_size() {
    let group = ["--chats", "3", "--members", "4", "--ids", "random", "--rate", "50"];
    let report = bench(&[&["send", "-n", "6", "--seconds", "1"], &group[..]].concat()).await;
    assert!(figure(&report, "random ids: half load delivery p50", "value") > 0.0);
}

#[tokio::test]
async fn every_message_to_a_group_is_delivered_by_the_server_and_by_the_bare_loop() {
    let report = bench(&["fanout", "-n", "20", "--rate", "400", "--seconds", "2"]).await;
    assert!(figure(&report, "deliveries", "value") >= 600.0);
    assert!(figure(&report, "deliveries", "baseline") >= 600.0);
    assert!(figure(&report, "commit p99", "value") > 0.0);
    assert!(figure(&report, "latency p99", "value") > 0.0);
}

#[tokio::test]
async fn a_saturated_group_loses_nothing_beside_stalled_readers() {
    let group = ["fanout", "-n", "20", "--senders", "2", "--saturate", "--in-flight", "8"];
    let report = bench(&[&group[..], &["--seconds", "2", "--stalled", "3"]].concat()).await;
    assert!(figure(&report, "deliveries", "value") > 0.0);
    assert!(figure(&report, "resident memory beside stalled, and before", "value") > 0.0);
}

#[tokio::test]
async fn leases_are_renewed_beside_three_baselines_and_none_is_lost() {
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
    // Other keys come and go, such as the node's own key while its renewals were paused.
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
async fn a_group_on_several_nodes_receives_messages_sent_through_each_node() {
    let size = ["--nodes", "2", "-n", "12", "--one-node", "6", "--room", "6"];
    let load = ["--rate", "240", "--seconds", "4"];
    let report = bench(&[&["cluster"], &size[..], &load[..]].concat()).await;
    let messages = figure(&report, "messages", "value");
    assert!(messages >= 100.0, "{messages} messages in four seconds");
    let deliveries = figure(&report, "deliveries", "value");
    assert!((deliveries - 6.0 * messages).abs() < 1e-9, "{deliveries} of {messages} messages");
    // The single node has one of the two groups, and so half of the load.
    let single_node = figure(&report, "deliveries", "baseline");
    assert!((300.0..deliveries).contains(&single_node), "{single_node} deliveries on one node");
    assert!(figure(&report, "latency p99", "value") > 0.0);
}

#[tokio::test]
async fn a_receiver_process_replies_with_the_error_of_a_failed_request() {
    let mut command = HEARTLINE.command();
    command.args(["bench", "receivers"]).env("HEARTLINE_SECRET", "0123456789abcdef");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    input.write_all(b"{\"type\":\"wait_for_deliveries\",\"deliveries\":1}\n").await.unwrap();
    let reply = BufReader::new(output).lines().next_line().await.unwrap().unwrap();
    assert!(reply.contains("no receiver is connected"), "{reply}");
    drop(input);
    assert!(child.wait().await.unwrap().success(), "the process ends with its input");
}

/// Checks the figures of `bench party`, which fails if the copy of any member differs.
fn assert_all_members_received_all_edits(report: &Value) {
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
async fn every_member_of_a_session_receives_every_edit() {
    let size = ["--sessions", "3", "--members", "3", "--queue", "12", "--seconds", "1"];
    assert_all_members_received_all_edits(&bench(&[&["party"], &size[..]].concat()).await);
}

#[tokio::test]
async fn members_on_several_nodes_receive_every_edit_of_sessions_in_redis() {
    let size = ["--sessions", "3", "--members", "3", "--queue", "12", "--seconds", "1"];
    let shared = ["--redis", "--nodes", "2", "--in-flight", "2", "--rate", "10"];
    let report = bench(&[&["party"], &size[..], &shared[..]].concat()).await;
    assert_all_members_received_all_edits(&report);
    assert!(figure(&report, "saturated: CPU of Redis per edit", "value") > 0.0);
}
