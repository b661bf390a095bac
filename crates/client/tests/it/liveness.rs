//! Heartbeats, Pings and servers that do not respond.

use std::time::Duration;

use futures_util::SinkExt;
use heartline_client::{Ending, Loss};
use heartline_protocol::{ClientFrame, ServerFrame, Timestamp};
use tokio_websockets::Message;

use crate::harness::{FakeServer, config_for, start};

#[tokio::test]
async fn heartbeats_are_sent_at_the_interval_of_the_server_and_keep_the_connection() {
    let server = FakeServer::start().await;
    let (_client, mut events) = start(config_for(&[&server]));
    let mut socket = server.accept().await;
    socket.send_established(40, 100).await;
    events.connected().await;
    for _ in 0..8 {
        assert!(matches!(socket.receive().await, ClientFrame::Heartbeat(_)));
        let server_time = Timestamp { unix_ms: 0 };
        socket.send(&ServerFrame::HeartbeatAck { server_time }).await;
    }
}

#[tokio::test]
async fn a_silent_server_is_disconnected_after_the_timeout() {
    let server = FakeServer::start().await;
    let (_client, mut events) = start(config_for(&[&server]));
    let mut socket = server.accept().await;
    socket.send_established(100, 200).await;
    events.connected().await;
    let (ending, retry_in) = events.disconnected().await;
    assert_eq!(ending, Ending::Lost(Loss::HeartbeatTimeout));
    assert!(retry_in.is_some());
    let _socket = server.establish().await;
    events.connected().await;
    // The first heartbeat, and those within two hundred milliseconds after it.
    let mut heartbeats = 0;
    while let Some(Ok(message)) = socket.next().await {
        assert!(message.is_text(), "{message:?} was sent to a server that does not answer");
        heartbeats += 1;
    }
    assert!((2..=3).contains(&heartbeats), "{heartbeats}");
}

#[tokio::test]
async fn any_message_of_the_server_keeps_the_connection() {
    let server = FakeServer::start().await;
    let (_client, mut events) = start(config_for(&[&server]));
    let mut socket = server.accept().await;
    socket.send_established(40, 120).await;
    events.connected().await;
    let mut heartbeats = 0;
    while heartbeats < 8 {
        let message =
            socket.next().await.expect("the client disconnected from a responding server").unwrap();
        if message.is_text() {
            heartbeats += 1;
            socket.socket.send(Message::ping("are you there?")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_ping_is_answered_with_its_payload() {
    let server = FakeServer::start().await;
    let (_client, mut events) = start(config_for(&[&server]));
    let mut socket = server.establish().await;
    events.connected().await;
    socket.socket.send(Message::ping("hello")).await.unwrap();
    let message = socket.next().await.unwrap().unwrap();
    assert!(message.is_pong());
    assert_eq!(&**message.as_payload(), b"hello");
}

#[tokio::test]
async fn a_server_that_never_establishes_is_disconnected() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    config.establish_timeout = Duration::from_millis(100);
    let (_client, mut events) = start(config);
    let _silent = server.accept().await;
    assert_eq!(events.disconnected().await.0, Ending::Lost(Loss::NotEstablished));
    let _socket = server.establish().await;
    events.connected().await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_the_upgrade_is_disconnected() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    config.connect_timeout = Duration::from_millis(100);
    let (_client, mut events) = start(config);
    let _silent = server.accept_tcp().await;
    let (ending, _) = events.disconnected().await;
    assert!(matches!(ending, Ending::Lost(Loss::Unreachable(_))), "{ending:?}");
}
