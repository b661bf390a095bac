//! Reconnecting, stopping and closing.

use std::time::Duration;

use heartline_client::{ClientEvent, ClientStopped, Ending, Loss, StopReason};
use heartline_protocol::client_frame::Heartbeat;
use heartline_protocol::{ClientFrame, CloseReason, ErrorCode};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::harness::{FakeServer, config_for, start};

#[tokio::test]
async fn after_a_lost_connection_the_client_reconnects_to_the_second_url() {
    let (first, second) = (FakeServer::start().await, FakeServer::start().await);
    let (_client, mut events) = start(config_for(&[&first, &second]));
    let socket = first.establish().await;
    events.connected().await;
    drop(socket);
    let (ending, retry_in) = events.disconnected().await;
    assert!(matches!(ending, Ending::Lost(Loss::Broken(_))), "{ending:?}");
    assert!(retry_in.is_some());
    let connecting = ClientEvent::Connecting { url: second.url(), attempt: 1 };
    assert_eq!(events.next().await, Some(connecting));
    let _socket = second.establish().await;
    events.connected().await;
}

#[tokio::test]
async fn an_unreachable_url_is_skipped() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", closed.local_addr().unwrap());
    drop(closed);
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    config.urls.insert(0, url);
    let (_client, mut events) = start(config);
    let (ending, _) = events.disconnected().await;
    assert!(matches!(ending, Ending::Lost(Loss::Unreachable(_))), "{ending:?}");
    let connecting = ClientEvent::Connecting { url: server.url(), attempt: 2 };
    assert_eq!(events.next().await, Some(connecting));
    let _socket = server.establish().await;
    events.connected().await;
}

#[tokio::test]
async fn the_client_waits_for_the_delay_of_the_server() {
    let server = FakeServer::start().await;
    let (_client, mut events) = start(config_for(&[&server]));
    let mut socket = server.establish().await;
    let delay = Duration::from_millis(300);
    socket.send_closing(CloseReason::ServerShutdown, 300).await;
    let (ending, retry_in) = events.disconnected().await;
    let Ending::Closed { closing: Some(closing), code } = ending else { panic!("{ending:?}") };
    assert_eq!((closing.reason, code), (CloseReason::ServerShutdown, Some(1001)));
    assert_eq!(retry_in, Some(delay));
    #[expect(clippy::disallowed_methods, reason = "the test measures a real pause")]
    let closed_at = Instant::now();
    let _socket = server.establish().await;
    assert!(closed_at.elapsed() >= delay.mul_f64(0.9), "{:?}", closed_at.elapsed());
    events.connected().await;
}

#[tokio::test]
async fn a_replaced_session_stops_the_client() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = server.establish().await;
    socket.send_closing(CloseReason::SessionReplaced, 0).await;
    assert_eq!(events.disconnected().await.1, None);
    let reason = StopReason::ClosedByServer(CloseReason::SessionReplaced);
    assert_eq!(events.stopped().await, reason);
    assert_eq!(client.send_text("{}").await, Err(ClientStopped));
}

#[tokio::test]
async fn a_rejection_is_reported_and_its_retry_after_kept() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let body = r#"{"error":{"code":"SERVICE_UNAVAILABLE","message":"draining","request_id":"r"}}"#;
    let head = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 40\r\nContent-Length";
    server.reject(&format!("{head}: {}\r\n\r\n{body}", body.len())).await;
    let (ending, retry_in) = events.disconnected().await;
    let Ending::Rejected(rejection) = ending else { panic!("{ending:?}") };
    assert_eq!((rejection.status, rejection.code), (503, Some(ErrorCode::ServiceUnavailable)));
    assert_eq!(rejection.message.as_deref(), Some("draining"));
    assert_eq!(rejection.retry_after, Some(Duration::from_secs(40)));
    assert!(retry_in.unwrap() >= Duration::from_secs(40));
    client.close().await;
    assert_eq!(events.stopped().await, StopReason::ClosedByCaller);
}

#[tokio::test]
async fn a_server_of_another_protocol_is_rejected() {
    let server = FakeServer::start().await;
    let (_client, mut events) = start(config_for(&[&server]));
    server.reject("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n").await;
    let (ending, _) = events.disconnected().await;
    assert!(matches!(ending, Ending::Lost(Loss::Unreachable(_))), "{ending:?}");
}

#[tokio::test]
async fn a_dropped_socket_sends_no_close_frame_and_reconnects() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = server.establish().await;
    events.connected().await;
    client.drop_socket();
    match socket.next().await {
        None | Some(Err(_)) => {}
        Some(Ok(message)) => panic!("{message:?} was sent"),
    }
    assert_eq!(events.disconnected().await.0, Ending::Lost(Loss::Dropped));
    let _socket = server.establish().await;
    events.connected().await;
}

#[tokio::test]
async fn frames_wait_for_a_connection() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = server.accept().await;
    let heartbeat = ClientFrame::Heartbeat(Heartbeat {});
    client.send(&heartbeat).await.unwrap();
    socket.send_established(60_000, 60_000).await;
    assert_eq!(socket.receive().await, heartbeat);
    events.connected().await;
}

#[tokio::test]
async fn closing_sends_a_close_frame_and_ends_the_events() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = server.establish().await;
    events.connected().await;
    let (message, ()) = tokio::join!(
        async {
            let message = socket.next().await.unwrap().unwrap();
            while let Some(Ok(_)) = socket.next().await {}
            message
        },
        client.close()
    );
    assert_eq!(message.as_close().map(|(code, _)| u16::from(code)), Some(1000));
    assert_eq!(events.stopped().await, StopReason::ClosedByCaller);
}

#[tokio::test]
async fn a_close_code_without_a_closing_frame_is_obeyed() {
    let server = FakeServer::start().await;
    let (_client, mut events) = start(config_for(&[&server]));
    let mut socket = server.establish().await;
    let code = tokio_websockets::CloseCode::try_from(4403).unwrap();
    let close = tokio_websockets::Message::close(Some(code), "");
    futures_util::SinkExt::send(&mut socket.socket, close).await.unwrap();
    socket.receive_until_closed().await;
    let reason = StopReason::ClosedByServer(CloseReason::SessionEnded);
    assert_eq!(events.stopped().await, reason);
}
