//! Subscribers who read slowly, or not at all.

use std::time::Duration;

use heartline_testing::party::large::large_item;
use heartline_testing::party::{ADD, Join, PartyClient};
use heartline_testing::{PATIENCE, Server, Socket};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

use crate::HEARTLINE;
use crate::peers::now;

/// Edits that are missed: far more than the buffers between both ends hold.
const EDITS: usize = 40;
const ITEM_BYTES: usize = 20_000;

/// A GraphQL socket for which this side's kernel keeps little that was not read.
async fn connect_narrow(server: &Server) -> Socket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let request = "GET /graphql HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\
        \r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    // Byte by byte, so that nothing of the first frame is taken away.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.expect("a head in time").unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"));
    Socket { stream }
}

async fn begin(socket: &mut Socket, id: &str, query: &str) {
    let payload = json!({ "query": query });
    socket.send(&json!({ "type": "subscribe", "id": id, "payload": payload })).await;
}

/// A narrow socket that has joined the session.
async fn arrive_narrow(server: &Server) -> Socket {
    let mut slow = connect_narrow(server).await;
    slow.send(&json!({ "type": "connection_init" })).await;
    assert_eq!(slow.json().await["type"], "connection_ack");
    let join = "mutation { joinSession(sessionId: \"wall\", boardPath: \"/b\") { id } }";
    begin(&mut slow, "join", join).await;
    assert_eq!(slow.json().await["type"], "next");
    assert_eq!(slow.json().await["type"], "complete");
    slow
}

/// Longer than a socket may be silent: a ping goes out after 12 s, and must be answered in 12 more.
const LONG: Duration = Duration::from_secs(26);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_who_reads_slowly_but_steadily_is_not_cut() {
    let server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    let queue = (0..100).map(|number| large_item(number, 30_000)).collect();
    ana.joins_as("wall", Join { queue: Some(queue), ..Join::default() }).await;
    let mut slow = arrive_narrow(&server).await;
    // Far more than the buffers between both ends hold.
    for number in 0..4 {
        let updates = "subscription { queueUpdates(sessionId: \"wall\") { __typename
            ... on FullSync { state { queue { uuid climb { litUpHoldsMap } } } } } }";
        begin(&mut slow, &format!("updates-{number}"), updates).await;
    }
    let (until, mut buffer) = (now() + LONG, [0; 8 * 1024]);
    while now() < until {
        let read = timeout(PATIENCE, slow.stream.read(&mut buffer)).await.expect("more").unwrap();
        assert!(read > 0, "it was cut");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.metric("party_members").await, 2.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_who_reads_nothing_gets_the_whole_state_instead() {
    let server = HEARTLINE.start_with("[party]\nsubscription_queue = 10\n").await;
    let mut slow = arrive_narrow(&server).await;
    let updates = "subscription { queueUpdates(sessionId: \"wall\") { __typename
        ... on FullSync { sequence state { orderHash queue { uuid climb { litUpHoldsMap } } } }
        ... on QueueItemAdded { sequence orderHash item { climb { litUpHoldsMap } } } } }";
    begin(&mut slow, "updates", updates).await;
    assert_eq!(event_of(&slow.json().await)["sequence"], 0);
    let mut ana = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    // All at once: who takes nothing for ten seconds is cut.
    let mut asked = Vec::new();
    for number in 1..=EDITS {
        let variables = json!({ "item": large_item(number, ITEM_BYTES) });
        asked.push(ana.begin(ADD, variables).await);
    }
    for id in asked {
        let added = ana.of(&id).await;
        assert!(added["payload"]["errors"].is_null(), "{added}");
    }
    let state = ana.joins("wall").await["queueState"].clone();
    let (mut last, mut whole, mut hash) = (0, 0, Value::Null);
    while last < EDITS as u64 {
        let event = event_of(&slow.json().await);
        let sequence = event["sequence"].as_u64().unwrap();
        if event["__typename"] == "FullSync" {
            assert!(sequence > last, "{sequence} after {last}");
            hash = event["state"]["orderHash"].clone();
            whole += 1;
        } else {
            assert_eq!(sequence, last + 1, "a hole");
            hash = event["orderHash"].clone();
        }
        last = sequence;
    }
    assert_eq!((last, hash), (EDITS as u64, state["orderHash"].clone()));
    assert!(whole >= 1, "it was too far behind for events");
    let slow_ones = server.metric("party_full_syncs_total{reason=\"slow\"}").await;
    assert!(slow_ones >= 1.0, "{slow_ones}");
    assert_eq!(server.metric("party_members").await, 2.0);
    drop(slow);
    ana.leaves().await;
    server.metric_becomes("party_members", 0.0).await;
}

fn event_of(message: &Value) -> Value {
    assert_eq!(message["type"], "next", "{message}");
    message["payload"]["data"]["queueUpdates"].clone()
}
