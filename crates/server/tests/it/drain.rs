//! A server that is stopped sends `connection_closing` to every client first.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use heartline_client::ClientEvent;
use heartline_protocol::limits::DRAIN_RECONNECT_DELAY_MAX;
use heartline_runtime::TaskSet;
use heartline_testing::{PATIENCE, Server, bearer, service_token, token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::HEARTLINE;
use crate::peers::{
    Attentive, Device, Pusher, Received, connect_from, connect_narrow, now, upgrade,
};

const ACTIVE: &str = "gateway_connections_active";

/// Configuration for clients that send no heartbeats.
const PATIENT: &str = "[gateway]\nheartbeat_interval = \"60s\"\nheartbeat_timeout = \"120s\"\n";

/// Asserts that the frames are `connection_closing{server_shutdown}` and the Close. Returns the
/// reconnect delay.
fn goodbye(received: &[Received]) -> u64 {
    let [Received::Other(_), Received::Other(closing), close] = received else {
        panic!("{received:?}")
    };
    assert_eq!(closing["type"], "connection_closing");
    assert_eq!(closing["reason"], "server_shutdown");
    assert_eq!(closing["reconnect_allowed"], true);
    assert_eq!(*close, Received::Close(1001, "server_shutdown".to_owned()));
    closing["reconnect_delay_ms"].as_u64().unwrap()
}

#[tokio::test]
async fn five_thousand_connections_are_all_told_before_the_server_ends_well() {
    const USERS: usize = 250;
    const DEVICES: usize = 20;
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let mut server = HEARTLINE.start_with(PATIENT).await;
    let tokens: Vec<_> = (0..USERS).map(|user| token(&format!("user-{user}"))).collect();
    let address = server.address;
    let connecting = (0..USERS * DEVICES).map(|number| {
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 1, (number / 900) as u8 + 1));
        let token = &tokens[number % USERS];
        async move { Attentive::new(connect_from(source, address, token).await) }
    });
    let mut devices: Vec<_> = stream::iter(connecting).buffer_unordered(64).collect().await;
    for _ in 0..20 {
        let stream = TcpStream::connect(address).await.unwrap();
        devices.push(Attentive::new(upgrade(stream, "").await.unwrap()));
    }
    server.metric_becomes(ACTIVE, (USERS * DEVICES) as f64).await;
    server.metric_becomes("gateway_connections_unauthenticated", 20.0).await;

    let asked_at = now();
    server.signal("TERM").await;
    server.logged(&["draining"]).await;
    assert!(is_unready(&server).await);
    let received = join_all(devices.into_iter().map(Attentive::ended)).await;
    let told_after = now() - asked_at;
    let delays: Vec<u64> = received.iter().map(|received| goodbye(received)).collect();
    assert_eq!(delays.len(), USERS * DEVICES + 20);
    let delay_max = DRAIN_RECONNECT_DELAY_MAX.as_millis() as u64;
    assert!(delays.iter().all(|delay| *delay <= delay_max));
    let distinct: BTreeSet<_> = delays.iter().collect();
    assert!(distinct.len() > delays.len() / 4, "only {} different delays", distinct.len());
    assert_eq!(server.exit_code().await, Some(0));
    assert!(now() - asked_at < Duration::from_secs(30), "told after {told_after:?}");
}

/// Whether a load balancer sees the node as not ready: 503, or no response.
async fn is_unready(server: &Server) -> bool {
    let Ok(mut socket) = TcpStream::connect(server.address).await else { return true };
    let request = b"GET /readyz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    let asked = async {
        socket.write_all(request).await?;
        socket.read_to_string(&mut answer).await
    };
    let asked = timeout(PATIENCE, asked).await.expect("an end in time");
    asked.is_err() || answer.is_empty() || answer.starts_with("HTTP/1.1 503")
}

#[tokio::test]
async fn the_clients_of_a_draining_node_are_soon_back_on_the_other() {
    let mut leaving = HEARTLINE.start().await;
    let staying = HEARTLINE.start().await;
    let addresses = [leaving.address, staying.address];
    let mut devices: Vec<_> =
        (0..200).map(|number| Device::start(&format!("user-{number}"), &addresses)).collect();
    let first = join_all(devices.iter_mut().map(Device::connected)).await;
    leaving.metric_becomes(ACTIVE, 200.0).await;
    leaving.signal("TERM").await;
    let back = join_all(devices.iter_mut().map(async |device: &mut Device| {
        let mut closed_at = None;
        loop {
            match device.event().await {
                ClientEvent::Disconnected { ending, .. } if closed_at.is_none() => {
                    assert!(format!("{ending:?}").contains("ServerShutdown"), "{ending:?}");
                    closed_at = Some(now());
                }
                ClientEvent::Connected(established) => {
                    return (*established, now() - closed_at.expect("it was disconnected"));
                }
                _ => {}
            }
        }
    }))
    .await;
    for (established, away) in back {
        assert_ne!(established.server_id, first[0].server_id);
        assert!(away < Duration::from_secs(10), "away for {away:?}");
    }
    assert_eq!(leaving.exit_code().await, Some(0));
    assert_eq!(staying.metric(ACTIVE).await, 200.0);
}

#[tokio::test]
async fn a_second_signal_ends_the_server_at_once() {
    let mut server = HEARTLINE.start().await;
    let mut device = server.connect("ana").await;
    // A request whose body does not come is in flight, and the drain waits for it.
    let mut request = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /v1/push HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        service_token()
    );
    request.write_all(head.as_bytes()).await.unwrap();
    server.push(&["ana"], "sync", serde_json::Value::Null).await;
    server.signal("TERM").await;
    device.closes("server_shutdown", 1001).await;
    drop(device);
    let asked_at = now();
    server.signal("TERM").await;
    assert_eq!(server.exit_code().await, Some(1));
    assert!(now() - asked_at < Duration::from_secs(3));
    server.logged(&["drain timeout: remaining tasks are cancelled"]).await;
}

#[tokio::test]
async fn neither_idle_nor_silent_nor_stalled_peers_hold_up_a_drain() {
    let mut server = HEARTLINE.start().await;
    let mut idle = Vec::new();
    for _ in 0..10 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
        let mut kept_alive = TcpStream::connect(server.address).await.unwrap();
        kept_alive.write_all(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
        assert_eq!(&read_some(&mut kept_alive).await[..15], b"HTTP/1.1 200 OK");
        idle.push(kept_alive);
    }
    let mut half_a_head = TcpStream::connect(server.address).await.unwrap();
    half_a_head.write_all(b"GET /livez HTTP/1.1\r\nHost:").await.unwrap();
    let _stalled = connect_narrow(&server, "stalled", 16 * 1024).await;
    server.metric_becomes(ACTIVE, 1.0).await;
    let mut pusher = Pusher::new(&server).await;
    for number in 1..60 {
        pusher.push(&["stalled".to_owned()], number, 8 * 1024).await;
    }
    let asked_at = now();
    server.signal("TERM").await;
    assert_eq!(server.exit_code().await, Some(0));
    let took = now() - asked_at;
    assert!(took < Duration::from_secs(6), "{took:?}");
    for mut socket in idle {
        let mut rest = Vec::new();
        timeout(PATIENCE, socket.read_to_end(&mut rest)).await.expect("its end").unwrap();
    }
}

async fn read_some(socket: &mut TcpStream) -> Vec<u8> {
    let mut buffer = vec![0; 1024];
    let read = timeout(PATIENCE, socket.read(&mut buffer)).await.expect("an answer").unwrap();
    buffer.truncate(read);
    buffer
}

#[tokio::test]
async fn who_is_let_in_while_the_drain_begins_is_told_too() {
    let limits = "[limits]\nconnections_per_user = 10000\nconnections_per_address = 100000";
    let mut server = HEARTLINE.start_with(&format!("{PATIENT}{limits}")).await;
    let address = server.address;
    let mut storm = TaskSet::new();
    for number in 0..20 {
        let authorization = format!("Authorization: {}\r\n", bearer("ana"));
        let headers = if number % 2 == 0 { authorization } else { String::new() };
        storm.spawn(async move {
            let mut devices = Vec::new();
            while let Ok(stream) = TcpStream::connect(address).await {
                devices.extend(upgrade(stream, &headers).await.map(Attentive::new));
            }
            devices
        });
    }
    while server.metric(ACTIVE).await < 100.0 {}
    let asked_at = now();
    server.signal("TERM").await;
    assert_eq!(server.exit_code().await, Some(0), "{:#?}", server.log().last());
    assert!(now() - asked_at < Duration::from_secs(15), "{:?}", now() - asked_at);
    for device in storm.join_all().await.into_iter().flatten() {
        goodbye(&device.ended().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn peers_that_go_on_sending_after_their_end_hold_up_neither_files_nor_a_drain() {
    let mut server = HEARTLINE.start().await;
    let before = server.open_sockets();
    let mut flooders = TaskSet::new();
    for _ in 0..200 {
        let mut party_client = server.challenged().await;
        flooders.spawn(async move {
            // An unmasked frame ends the connection; what follows is never read as frames.
            let junk = [0x81; 64 * 1024];
            while party_client.stream.write_all(&junk).await.is_ok() {}
        });
    }
    timeout(PATIENCE / 2, flooders.join_all()).await.expect("every flooder is cut off");
    assert!(server.open_sockets() <= before, "files are given back");
    server.signal("TERM").await;
    assert_eq!(server.exit_code().await, Some(0));
}
