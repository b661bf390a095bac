//! Frames written and read as bytes.

use futures_util::SinkExt;
use heartline_client::raw::{
    OPCODE_CLOSE, OPCODE_PING, OPCODE_PONG, OPCODE_TEXT, connect_raw, connect_raw_from,
    masked_frame, masked_text_frame, read_server_frame,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_websockets::Message;

use crate::harness::FakeServer;

#[tokio::test]
async fn frames_are_exchanged_after_a_raw_upgrade() {
    let server = FakeServer::start().await;
    let headers = [("X-Device-ID", "phone"), ("Sec-WebSocket-Protocol", "heartline.v1")];
    let (raw, mut socket) = tokio::join!(connect_raw(server.address, "/v1/ws", &headers), async {
        let mut socket = server.accept().await;
        socket.socket.send(Message::text("at once".to_owned())).await.unwrap();
        socket
    });
    let mut raw = raw.unwrap();
    assert_eq!(raw.status, 101);
    assert_eq!(raw.headers["sec-websocket-protocol"], "heartline.v1");
    assert_eq!(socket.header("x-device-id"), Some("phone"));
    let first = read_server_frame(&mut raw.stream).await.unwrap();
    assert_eq!((first.opcode, first.fin, &*first.payload), (OPCODE_TEXT, true, &b"at once"[..]));

    raw.stream.write_all(&masked_text_frame("hello")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().as_text(), Some("hello"));
    raw.stream.write_all(&masked_frame(OPCODE_PING, true, b"p")).await.unwrap();
    raw.stream.write_all(&masked_frame(OPCODE_CLOSE, true, &1000_u16.to_be_bytes())).await.unwrap();
    socket.receive_until_closed().await;
    let pong = read_server_frame(&mut raw.stream).await.unwrap();
    assert_eq!((pong.opcode, &*pong.payload), (OPCODE_PONG, &b"p"[..]));
    assert_eq!(read_server_frame(&mut raw.stream).await.unwrap().opcode, OPCODE_CLOSE);
}

#[tokio::test]
async fn the_body_of_a_rejection_can_be_read() {
    let server = FakeServer::start().await;
    let source = "127.0.0.9".parse().unwrap();
    let (raw, request) = tokio::join!(
        connect_raw_from(source, server.address, "/v1/ws?x=1", &[("Host", "example.com")]),
        server.reject("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n\r\nslow down"),
    );
    let mut raw = raw.unwrap();
    assert_eq!(raw.stream.local_addr().unwrap().ip(), source);
    assert_eq!((raw.status, raw.headers["retry-after"].to_str().unwrap()), (429, "3"));
    let mut body = String::new();
    raw.stream.read_to_string(&mut body).await.unwrap();
    assert_eq!(body, "slow down");
    assert!(request.starts_with("GET /v1/ws?x=1 HTTP/1.1\r\n"));
    assert!(request.contains("Host: example.com\r\n"));
}
