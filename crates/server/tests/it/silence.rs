//! Connections on which nothing is received any more.

use std::time::Duration;

use heartline_client::{ClientEvent, Ending, Loss};
use heartline_testing::{PATIENCE, Proxy, bearer};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::HEARTLINE;
use crate::peers::{Attentive, Device, Pusher, Received, now, upgrade};

const ACTIVE: &str = "gateway_connections_active";
const TIMEOUTS: &str = "gateway_connection_timeouts_total";

/// The allowance for a busy machine.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn both_sides_notice_a_network_that_swallows_everything() {
    let heartbeat_timeout = Duration::from_secs(3);
    let configuration = "[gateway]\nheartbeat_interval = \"1s\"\nheartbeat_timeout = \"3s\"\n";
    let server = HEARTLINE.start_with(configuration).await;
    let proxy = Proxy::to(server.address).await;
    let mut device = Device::start("ana", &[proxy.address]);
    let first = device.connected().await;
    // The connection is in its steady state: a heartbeat has been answered.
    while !matches!(device.event().await, ClientEvent::Frame { .. }) {}
    proxy.black_hole();
    let dark_at = now();
    let client_is_back = async {
        loop {
            match device.event().await {
                ClientEvent::Disconnected { ending, .. } => {
                    assert_eq!(ending, Ending::Lost(Loss::HeartbeatTimeout));
                }
                ClientEvent::Connected(second) => return (second, now() - dark_at),
                _ => {}
            }
        }
    };
    let server_has_closed = async {
        server.metric_becomes(TIMEOUTS, 1.0).await;
        now() - dark_at
    };
    let ((second, back_after), closed_after) = tokio::join!(client_is_back, server_has_closed);
    assert_ne!(first.connection_id, second.connection_id);
    assert!(back_after < 2 * heartbeat_timeout, "{back_after:?}");
    assert!(closed_after < 2 * heartbeat_timeout, "{closed_after:?}");
    server.metric_becomes(ACTIVE, 1.0).await;
    assert_eq!(server.metric(TIMEOUTS).await, 1.0);
}

#[tokio::test]
async fn a_hidden_tab_that_only_answers_pings_stays_connected() {
    let server = HEARTLINE
        .start_with("[gateway]\nheartbeat_interval = \"500ms\"\nheartbeat_timeout = \"1s\"\n")
        .await;
    let mut tab = Attentive::new(server.connect("tab").await);
    // Four timeouts.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(tab.is_open());
    Pusher::new(&server).await.push(&["tab".to_owned()], 1, 200).await;
    tab.has(1).await;
    assert_eq!(server.metric(TIMEOUTS).await, 0.0);
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_is_told_and_closed_after_the_timeout() {
    let server = HEARTLINE
        .start_with("[gateway]\nheartbeat_interval = \"1s\"\nheartbeat_timeout = \"2s\"\n")
        .await;
    let mut socket = server.connect("mute").await;
    let connected_at = now();
    socket.closes("heartbeat_timeout", 4410).await;
    let closed_after = now() - connected_at;
    assert!(closed_after > Duration::from_millis(1500), "{closed_after:?}");
    assert!(closed_after < Duration::from_secs(2) + SLACK, "{closed_after:?}");
    drop(socket);
    server.metric_becomes(ACTIVE, 0.0).await;
    assert_eq!(server.metric(TIMEOUTS).await, 1.0);
}

#[tokio::test]
async fn any_frame_is_a_sign_of_life() {
    let server = HEARTLINE
        .start_with("[gateway]\nheartbeat_interval = \"1s\"\nheartbeat_timeout = \"2s\"\n")
        .await;
    let mut socket = server.connect("talker").await;
    // The client never answers a Ping, but sends a frame every half second.
    for _ in 0..7 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        socket.send_text("{\"type\":\"of_the_future\"}").await;
    }
    assert_eq!(server.push(&["talker"], "hello", serde_json::Value::Null).await, 1);
    socket.json_of("event").await;
}

#[tokio::test]
async fn who_never_authenticates_is_told_and_closed_after_its_time() {
    let server = HEARTLINE.start_with("[gateway]\nauth_timeout = \"1s\"\n").await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let opened_at = now();
    let guest = Attentive::new(upgrade(stream, "").await.unwrap());
    let received = guest.ended().await;
    let [challenge, closing, close] = &received[..] else { panic!("{received:?}") };
    assert!(challenge.is_of_type("auth_challenge"));
    assert!(closing.is_of_type("connection_closing"));
    assert_eq!(*close, Received::Close(4408, "auth_timeout".to_owned()));
    let closed_after = now() - opened_at;
    assert!(closed_after < Duration::from_secs(1) + SLACK, "{closed_after:?}");
    server.metric_becomes("gateway_connections_unauthenticated", 0.0).await;
}

#[tokio::test]
async fn a_socket_that_opens_and_never_speaks_is_closed() {
    let server = HEARTLINE.start().await;
    let idle = server.open_sockets();
    let opened_at = now();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut rest = Vec::new();
    timeout(PATIENCE, silent.read_to_end(&mut rest)).await.expect("an end").unwrap();
    let ended_after = now() - opened_at;
    assert!(ended_after < Duration::from_secs(10) + SLACK, "{ended_after:?}");
    drop(silent);
    let freed = async {
        while server.open_sockets() > idle {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, freed).await.expect("the socket is freed");
}

#[tokio::test]
async fn a_reset_ends_a_connection_at_once() {
    let server = HEARTLINE.start().await;
    let socket = server.connect("killed").await;
    server.metric_becomes(ACTIVE, 1.0).await;
    // The kernel of a client that is killed with unread data sends a reset.
    socket.stream.set_zero_linger().unwrap();
    let reset_at = now();
    drop(socket);
    server.metric_becomes(ACTIVE, 0.0).await;
    assert!(now() - reset_at < SLACK);
    let lost = "gateway_disconnects_total{reason=\"connection_lost\"}";
    assert_eq!(server.metric(lost).await, 1.0);
    server.logged(&["disconnected", "user_id=\"killed\"", "connection_lost"]).await;
}

#[tokio::test]
async fn a_half_open_connection_and_its_lease_are_gone_after_the_timeout() {
    let server = HEARTLINE
        .start_with("[gateway]\nheartbeat_interval = \"1s\"\nheartbeat_timeout = \"2s\"\n")
        .await;
    let proxy = Proxy::to(server.address).await;
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let headers = format!("Authorization: {}\r\n", bearer("vanished"));
    let device = Attentive::new(upgrade(stream, &headers).await.unwrap());
    server.metric_becomes(ACTIVE, 1.0).await;
    assert_eq!(server.leases("vanished").await.len(), 1);
    proxy.black_hole();
    let dark_at = now();
    drop(device);
    server.metric_becomes(ACTIVE, 0.0).await;
    let gone_after = now() - dark_at;
    assert!(gone_after < Duration::from_secs(2 + 2) + SLACK, "{gone_after:?}");
    assert_eq!(server.metric(TIMEOUTS).await, 1.0);
    server.leases_become("vanished", 0).await;
}
