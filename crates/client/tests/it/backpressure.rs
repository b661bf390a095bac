//! A slow application stops the reading of the socket.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use heartline_client::ClientEvent;
use heartline_protocol::{ServerFrame, Timestamp, encode_server};
use tokio_websockets::Message;

use crate::harness::{FakeServer, FakeSocket, config_for, start, within_timeout};

const INTERVAL_MS: u64 = 50;
const TIMEOUT_MS: u64 = 150;

fn numbered_event(number: usize) -> Message {
    let name = format!("{number}");
    let data = serde_json::Value::String("x".repeat(60_000));
    Message::text(encode_server(&ServerFrame::Event { name, data }, Timestamp { unix_ms: 0 }))
}

/// Sends events until the client reads no more; returns how many were sent.
pub(crate) async fn fill(socket: &mut FakeSocket<tokio::net::TcpStream>) -> usize {
    for number in 0..2_000 {
        let sending = socket.socket.send(numbered_event(number));
        if tokio::time::timeout(Duration::from_millis(300), sending).await.is_err() {
            return number + 1;
        }
    }
    panic!("the client read more than a hundred megabytes that the application did not receive");
}

#[tokio::test]
async fn an_application_that_does_not_receive_stops_the_reading_and_loses_nothing() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    config.event_capacity = 4;
    let (_client, mut events) = start(config);
    let mut socket = server.accept().await;
    socket.send_established(INTERVAL_MS, TIMEOUT_MS).await;
    events.connected().await;
    let sent = fill(&mut socket).await;

    // The client does not read, so it must not treat the server as lost: it sends heartbeats far
    // beyond the timeout.
    let (mut sink, mut stream) = socket.socket.split();
    for _ in 0..10 {
        assert!(within_timeout(stream.next()).await.unwrap().unwrap().is_text());
    }

    let receive = async {
        for number in 0..sent {
            let Some(ClientEvent::Frame { frame, .. }) = events.next().await else {
                panic!("the connection ended");
            };
            let ServerFrame::Event { name, .. } = *frame else { panic!("{frame:?}") };
            assert_eq!(name, number.to_string());
        }
    };
    let (flushed, ()) = tokio::join!(within_timeout(sink.flush()), receive);
    flushed.unwrap();
}

#[tokio::test]
async fn closing_does_not_wait_for_an_application_that_does_not_receive() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    config.event_capacity = 1;
    let (client, _events) = start(config);
    let accepting = tokio::time::timeout(Duration::from_millis(500), server.accept());
    let _socket = accepting.await.ok();
    within_timeout(client.close()).await;
}
