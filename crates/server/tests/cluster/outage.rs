//! Redis is unreachable for twenty seconds, for all nodes or for one: no connection is closed, no
//! message is lost, and all state recovers.

use std::time::Duration;

use heartline_engines::{FaultProxy, Postgres, free_port};
use heartline_testing::presence::{is_known, is_presence};
use heartline_testing::{PATIENCE, bearer, eventually};
use serde_json::{Value, json};
use tokio::join;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::HEARTLINE;
use crate::nodes::{Cluster, Network, Node, Setup, configuration, now};
use crate::recording_socket::RecordingSocket;
use crate::talk::{Reach, Said, ack_times, are_prompt, hears_in_order, talk};

/// How long the fault lasts.
const OUTAGE: Duration = Duration::from_secs(20);

/// How long after its end everything must be as before.
const RECOVERY: Duration = Duration::from_secs(15);

/// The latency bound of a message that is sent while the fault is known.
const PROMPT: Duration = Duration::from_secs(1);

/// By when nodes have noticed a link that is silent rather than broken.
const NOTICED: Duration = Duration::from_secs(5);

/// How long Redis is late for a node that starts: longer than one attempt may take.
const LATE: Duration = Duration::from_secs(2);

/// The node that is cut off, where only one is: counted from 0.
const VICTIM: usize = 1;

/// A fault.
struct Fault {
    begin: fn(&Cluster),
    end: fn(&Cluster),
    /// Whether it concerns the second node only.
    is_partial: bool,
    /// From when on words are prompt.
    noticed: Duration,
}

/// A member of the chat who comes during the outage.
async fn newcomer(node: &Node, user: &str, is_degraded: bool) -> RecordingSocket {
    let (socket, established) = node.connect_with(&[("Authorization", &bearer(user))]).await;
    assert_eq!(established["type"], "connection_established", "{established}");
    let degraded = if is_degraded { json!(["presence"]) } else { Value::Null };
    assert_eq!(established["degraded"], degraded, "{established}");
    RecordingSocket::of(socket)
}

/// Connects and disconnects users during the fault, and checks the state that the nodes report.
async fn endure(
    cluster: &Cluster,
    fault: &Fault,
    begun_at: Instant,
    leaver: RecordingSocket,
) -> Vec<RecordingSocket> {
    let nodes: [&Node; 3] = cluster.all();
    let is_concerned = |number: usize| !fault.is_partial || number == VICTIM;
    sleep_until(begun_at + NOTICED).await;
    let mut newcomers = Vec::new();
    for (number, node) in nodes.into_iter().enumerate() {
        let user = format!("newcomer-{number}");
        newcomers.push(newcomer(node, &user, is_concerned(number)).await);
    }
    drop(leaver);
    sleep_until(begun_at + Duration::from_secs(13)).await;
    for (number, node) in nodes.into_iter().enumerate() {
        let (status, degraded) = node.readiness().await;
        let expected: &[&str] = match (fault.is_partial, is_concerned(number)) {
            (true, true) => &["redis_link", "redis"],
            (false, _) => &["redis"],
            (true, false) => &[],
        };
        assert_eq!(degraded, expected, "node {number}");
        assert_eq!(status, if expected.len() == 2 { 503 } else { 200 }, "node {number}");
    }
    sleep_until(begun_at + Duration::from_secs(18)).await;
    for (number, node) in nodes.into_iter().enumerate().filter(|(number, _)| is_concerned(*number))
    {
        let seen = node.seen("somebody", "bo").await;
        let unknown = json!({ "user_id": "bo", "status": "unknown", "stale": true });
        assert_eq!(seen, unknown, "node {number}");
    }
    newcomers
}

/// Asserts that every message was acknowledged promptly, and delivered promptly or by a requested
/// sync.
async fn judge(
    fault: &Fault,
    talkers: &[RecordingSocket],
    newcomers: &[RecordingSocket],
    said: &[Said],
    begun_at: Instant,
) {
    let slowest_ack = are_prompt(&ack_times(talkers, said), PROMPT);
    let (from, to) = (begun_at + fault.noticed, begun_at + OUTAGE);
    let mut slowest = Vec::new();
    for (number, listener) in talkers.iter().enumerate() {
        hears_in_order(listener);
        let others: Vec<Said> = said.iter().filter(|it| it.talker != number).cloned().collect();
        let reach = Reach::of(listener, &others).await;
        slowest.push((are_prompt(&reach.times(from, to), PROMPT), reach.synced.len()));
    }
    for listener in newcomers {
        hears_in_order(listener);
        let from = begun_at + NOTICED + Duration::from_secs(2);
        let later: Vec<Said> = said.iter().filter(|it| it.at >= from).cloned().collect();
        let reach = Reach::of(listener, &later).await;
        slowest.push((are_prompt(&reach.times(from, to), PROMPT), reach.synced.len()));
    }
    println!("{} words, the slowest ack took {slowest_ack:?}", said.len());
    println!("the slowest word of each listener, and how many came by sync: {slowest:?}");
}

async fn survives(cluster: Cluster, fault: Fault) {
    let nodes: [&Node; 3] = cluster.all();
    let members = ["bo", "cy", "newcomer-0", "newcomer-1", "newcomer-2"];
    let chat = nodes[0].create_group("ana", &members).await;
    let mut talkers = Vec::new();
    for (node, user) in nodes.into_iter().zip(["ana", "bo", "cy"]) {
        talkers.push(RecordingSocket::of(node.connect(user).await));
    }
    let stayer = RecordingSocket::of(nodes[VICTIM].connect("stayer").await);
    let leaver = RecordingSocket::of(nodes[VICTIM].connect("leaver").await);
    let mut observers = Vec::new();
    for (number, node) in nodes.into_iter().enumerate() {
        let mut observer = node.connect(&format!("observer-{number}")).await;
        observer.subscribe(&["leaver", "stayer"]).await;
        observers.push(RecordingSocket::of(observer));
    }
    let (enough, is_enough) = watch::channel(false);
    let scenario = async {
        // Some words before, to compare with.
        sleep_until(now() + Duration::from_secs(1)).await;
        let begun_at = now();
        (fault.begin)(&cluster);
        let newcomers = endure(&cluster, &fault, begun_at, leaver).await;
        sleep_until(begun_at + OUTAGE).await;
        (fault.end)(&cluster);
        let ended_at = now();
        sleep_until(ended_at + RECOVERY).await;
        enough.send_replace(true);
        (begun_at, ended_at, newcomers)
    };
    let (said, (begun_at, ended_at, newcomers)) =
        tokio::join!(talk(&mut talkers, &chat, &is_enough), scenario);
    // The last words are still on their way.
    for Said { id, talker, .. } in &said[said.len() - talkers.len()..] {
        let is_acked = |frame: &Value| frame["request_id"] == id.as_str();
        talkers[*talker].receives("the last ack", PATIENCE, is_acked).await;
    }
    judge(&fault, &talkers, &newcomers, &said, begun_at).await;
    settles(&cluster, &observers, ended_at).await;
    for recording in talkers.iter().chain(&newcomers).chain(&observers).chain([&stayer]) {
        assert!(recording.is_open(), "no socket is cut");
    }
}

/// Waits until every presence and every route is right and all nodes are healthy.
async fn settles(cluster: &Cluster, observers: &[RecordingSocket], ended_at: Instant) {
    let nodes: [&Node; 3] = cluster.all();
    for observer in observers {
        let is_gone = |frame: &Value| is_presence(frame, "leaver", "offline");
        let left = observer.receives("the departure", OUTAGE, is_gone).await;
        assert!(left.at <= ended_at + OUTAGE, "{:?} late", left.at - ended_at);
        assert_eq!(observer.presence_of("leaver").last().unwrap()["status"], "offline");
        let is_back = async || {
            let told = observer.presence_of("stayer");
            told.last().is_none_or(|seen| seen["status"] == "online")
        };
        let left = (ended_at + OUTAGE).saturating_duration_since(now());
        eventually("who stayed is seen online", left, is_back).await;
    }
    let places = [("ana", 0), ("bo", 1), ("cy", 2), ("stayer", VICTIM)];
    let places = places.into_iter().map(|(user, number)| (user.to_owned(), number));
    for (user, number) in places.chain((0..3).map(|it| (format!("newcomer-{it}"), it))) {
        assert_eq!(cluster.routed_nodes(&user), [nodes[number].id.as_str()], "{user}");
    }
    for node in nodes {
        let is_well = async || node.readiness().await == (200, Vec::new());
        eventually("the node is well", PATIENCE, is_well).await;
        is_known(&node.knows("somebody", &["stayer"]).await[0], "stayer", "online");
    }
}

/// The network of the node that is cut off.
fn network(cluster: &Cluster) -> &FaultProxy {
    cluster.all::<3>()[VICTIM].network()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_killed_and_comes_back_empty() {
    let cluster = Cluster::start(3).await;
    let begin = |cluster: &Cluster| cluster.stop_redis();
    let end = |cluster: &Cluster| cluster.redis.restart();
    let fault = Fault { begin, end, is_partial: false, noticed: Duration::ZERO };
    survives(cluster, fault).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_stopped_where_it_stands() {
    let cluster = Cluster::start(3).await;
    let begin = |cluster: &Cluster| cluster.redis.pause();
    let end = |cluster: &Cluster| cluster.redis.resume();
    survives(cluster, Fault { begin, end, is_partial: false, noticed: NOTICED }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_full() {
    let cluster = Cluster::start(3).await;
    let begin = |cluster: &Cluster| {
        cluster.redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    };
    let end = |cluster: &Cluster| {
        cluster.redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    };
    let fault = Fault { begin, end, is_partial: false, noticed: Duration::ZERO };
    survives(cluster, fault).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_is_cut_off_from_redis() {
    let cluster = Setup::nodes(3).network(Network::FaultyToRedis).start().await;
    let begin = |cluster: &Cluster| network(cluster).cut();
    let end = |cluster: &Cluster| network(cluster).heal();
    survives(cluster, Fault { begin, end, is_partial: true, noticed: NOTICED }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_hears_redis_and_is_not_heard() {
    let cluster = Setup::nodes(3).network(Network::FaultyToRedis).start().await;
    let begin = |cluster: &Cluster| network(cluster).cut_upstream();
    let end = |cluster: &Cluster| network(cluster).heal();
    survives(cluster, Fault { begin, end, is_partial: true, noticed: NOTICED }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_is_heard_by_redis_and_does_not_hear_it() {
    let cluster = Setup::nodes(3).network(Network::FaultyToRedis).start().await;
    let begin = |cluster: &Cluster| network(cluster).cut_downstream();
    let end = |cluster: &Cluster| network(cluster).heal();
    survives(cluster, Fault { begin, end, is_partial: true, noticed: NOTICED }).await;
}

#[tokio::test]
async fn a_node_is_drained_in_order_without_redis() {
    let mut cluster = Cluster::start(2).await;
    let chat = cluster.node(0).create_group("ana", &["bo"]).await;
    let mut ana = cluster.node(0).connect("ana").await;
    let bo = RecordingSocket::of(cluster.node(1).connect("bo").await);
    cluster.stop_redis();
    ana.send_acked(&chat, "m1", "the last word").await;
    bo.receives_message("the last word", PATIENCE).await;
    cluster.node(0).signal("TERM").await;
    ana.closes("server_shutdown", 1001).await;
    assert_eq!(cluster.node(0).exit_code().await, Some(0));
    assert!(bo.is_open());
}

#[tokio::test]
async fn nodes_that_are_told_to_reject_take_nobody_without_redis_and_keep_whom_they_have() {
    let cluster = Setup::nodes(2).set("routing.redis_down", "reject").start().await;
    let nodes: [&Node; 2] = cluster.all();
    let chat = nodes[0].create_group("ana", &["bo"]).await;
    let mut ana = nodes[0].connect("ana").await;
    let bo = RecordingSocket::of(nodes[1].connect("bo").await);
    cluster.stop_redis();
    let bearer = bearer("cy");
    for node in nodes {
        let headers = [("Authorization", bearer.as_str())];
        let (refused, _) = node.refused(&headers, 503, "SERVICE_UNAVAILABLE").await;
        assert!(refused.headers.contains_key("retry-after"));
    }
    ana.send_acked(&chat, "m1", "still here").await;
    bo.receives_message("still here", PATIENCE).await;
    cluster.redis.restart();
    for node in nodes {
        let is_taken = async || node.upgrade(&[("Authorization", &bearer)]).await.status == 101;
        eventually("sockets are taken again", RECOVERY, is_taken).await;
    }
    assert!(bo.is_open());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_before_redis_does_waits_for_it() {
    let cluster = Cluster::start(1).await;
    cluster.redis.pause();
    let resumed = async {
        sleep(LATE).await;
        cluster.redis.resume();
    };
    let (node, ()) = join!(cluster.start_node(1), resumed);
    node.logged(&["Redis not reachable: retrying"]).await;
    node.metric_becomes("link_peers_connected", 1.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_redis_never_comes_says_so_and_ends() {
    let directory = HEARTLINE.scratch();
    let file = directory.join("heartline.toml");
    let redis_url = format!("redis://127.0.0.1:{}", free_port());
    let store = Postgres::shared().fresh_database();
    std::fs::write(&file, configuration(0, &redis_url, &store)).unwrap();
    let mut command = HEARTLINE.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    command.env("HEARTLINE__SERVER__DATA_DIR", directory.join("data"));
    let ended = timeout(OUTAGE, command.output()).await.expect("it gives up").unwrap();
    let complaint = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("heartline: redis.url: no connection to Redis"), "{complaint}");
    std::fs::remove_dir_all(directory).unwrap();
}
