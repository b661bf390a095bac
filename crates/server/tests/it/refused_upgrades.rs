//! Requests that must not become sockets, and what they are answered.

use std::time::Duration;

use heartline_client::raw::masked_text_frame;
use heartline_runtime::Clock;
use heartline_testing::{PATIENCE, Response, Server, Socket, bearer, token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::HEARTLINE;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

const GOOD: [(&str, &str); 5] = [
    ("Host", "test"),
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", KEY),
];

fn request(line: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("{line}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// A good upgrade request with one header removed.
fn without(name: &str) -> Vec<u8> {
    let rest: Vec<_> = GOOD.into_iter().filter(|(given, _)| *given != name).collect();
    request("GET /v1/ws HTTP/1.1", &rest)
}

/// A good upgrade request with one header more.
fn and(name: &str, value: &str) -> Vec<u8> {
    let more: Vec<_> = GOOD.into_iter().chain([(name, value)]).collect();
    request("GET /v1/ws HTTP/1.1", &more)
}

/// A good upgrade request with one header's value changed.
fn with(name: &str, value: &str) -> Vec<u8> {
    let change = |(given, old): (&'static str, &'static str)| {
        (given, if given == name { value.to_owned() } else { old.to_owned() })
    };
    let changed: Vec<_> = GOOD.into_iter().map(change).collect();
    let changed: Vec<_> = changed.iter().map(|(name, value)| (*name, value.as_str())).collect();
    request("GET /v1/ws HTTP/1.1", &changed)
}

fn is_invalid(name: &str, answer: &Response, status: u16) {
    assert_eq!(answer.status, status, "{name}: {answer:?}");
    assert_eq!(answer.json()["error"]["code"], "INVALID_MESSAGE", "{name}");
}

#[tokio::test]
async fn an_upgrade_that_breaks_the_rules_gets_the_status_that_says_how() {
    let server = HEARTLINE.start().await;
    assert_eq!(server.http_raw_open(&request("GET /v1/ws HTTP/1.1", &GOOD)).await.status, 101);
    for (name, bytes) in [
        ("no Connection", without("Connection")),
        ("another Connection", with("Connection", "keep-alive")),
        ("no Host", without("Host")),
        ("two Hosts", and("Host", "other")),
        ("no key", without("Sec-WebSocket-Key")),
        ("two keys", and("Sec-WebSocket-Key", KEY)),
        ("a short key", with("Sec-WebSocket-Key", "c2hvcnQ=")),
        ("a key that is no base64", with("Sec-WebSocket-Key", "!!!!!!!!!!!!!!!!!!!!!!==")),
        ("HTTP/1.0", request("GET /v1/ws HTTP/1.0", &GOOD)),
        ("another subprotocol", and("Sec-WebSocket-Protocol", "graphql-transport-ws")),
        ("an illegal device", and("X-Device-ID", "my phone")),
        ("an illegal device in the list", and("Sec-WebSocket-Protocol", "heartline.v1, device.*")),
    ] {
        is_invalid(name, &server.http_raw_open(&bytes).await, 400);
    }
    let no_upgrade = server.http_raw_open(&without("Upgrade")).await;
    is_invalid("no Upgrade", &no_upgrade, 426);
    assert!(no_upgrade.head.contains("\r\nupgrade: websocket"), "{no_upgrade:?}");
    for bytes in [with("Sec-WebSocket-Version", "8"), without("Sec-WebSocket-Version")] {
        let answer = server.http_raw_open(&bytes).await;
        is_invalid("version", &answer, 426);
        assert!(answer.head.contains("\r\nsec-websocket-version: 13"), "{answer:?}");
    }
    for method in ["POST", "PUT", "HEAD", "DELETE"] {
        let answer =
            server.http_raw_open(&request(&format!("{method} /v1/ws HTTP/1.1"), &GOOD)).await;
        assert_eq!(answer.status, 405, "{method}: {answer:?}");
        assert!(answer.head.contains("\r\nallow: get"), "{method}: {answer:?}");
    }
    assert_eq!(server.metric("gateway_connections_active").await, 0.0);
}

#[tokio::test]
async fn a_token_in_the_url_is_neither_accepted_nor_logged() {
    let server = HEARTLINE.start_with("[log]\nlevel = \"debug\"\n").await;
    let token = token("ana");
    for name in ["token", "access_token", "jwt"] {
        let line = format!("GET /v1/ws?a=b&{name}={token} HTTP/1.1");
        let answer = server.http_raw_open(&request(&line, &GOOD)).await;
        is_invalid(name, &answer, 400);
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains("URL"), "{message}");
    }
    assert!(server.log().iter().all(|line| !line.contains(&token)), "{:#?}", server.log());
}

#[tokio::test]
async fn compression_is_not_negotiated() {
    let server = HEARTLINE.start().await;
    let offer = and("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits");
    let answer = server.http_raw_open(&offer).await;
    assert_eq!(answer.status, 101);
    assert!(!answer.head.contains("sec-websocket-extensions"), "{answer:?}");
    assert!(!answer.head.contains("sec-websocket-protocol"), "none was asked for: {answer:?}");
}

#[tokio::test]
async fn only_the_own_host_and_the_listed_origins_may_connect() {
    let server =
        HEARTLINE.start_with("[server]\nallowed_origins = [\"https://app.example\"]\n").await;
    let own = format!("http://{}", server.address);
    let bearer = bearer("ana");
    for origin in ["https://app.example", "HTTPS://APP.EXAMPLE", &own] {
        let headers = [("Origin", origin), ("Authorization", &bearer)];
        assert_eq!(server.upgrade(&headers).await.status, 101, "{origin}");
    }
    assert_eq!(server.upgrade(&[("Authorization", &bearer)]).await.status, 101);
    for origin in [
        "https://app.example.evil.com",
        "https://app.example:8443",
        "http://app.example",
        "https://evil.example",
        "null",
        "",
        "*",
    ] {
        server.refused(&[("Origin", origin), ("Authorization", &bearer)], 403, "FORBIDDEN").await;
    }
}

#[tokio::test]
async fn without_a_list_no_other_page_may_connect() {
    let server = HEARTLINE.start().await;
    server.refused(&[("Origin", "https://app.example")], 403, "FORBIDDEN").await;
    let everybody = HEARTLINE.start_with("[server]\nallowed_origins = [\"*\"]\n").await;
    assert_eq!(everybody.upgrade(&[("Origin", "https://app.example")]).await.status, 101);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_told_so() {
    let server = HEARTLINE.start().await;
    let large = "x".repeat(70 * 1024);
    assert_eq!(server.http_raw_open(&and("X-Padding", &large)).await.status, 431);
    let line = format!("GET /{large} HTTP/1.1");
    assert!(matches!(server.http_raw_open(&request(&line, &GOOD)).await.status, 414 | 431));
    let many: Vec<_> = GOOD.into_iter().chain([("X-More", "1"); 200]).collect();
    assert_eq!(server.http_raw_open(&request("GET /v1/ws HTTP/1.1", &many)).await.status, 431);
    // A head within the bound passes, with the largest legal token in it.
    assert_eq!(server.http_raw_open(&and("X-Padding", &"x".repeat(8 * 1024))).await.status, 101);
}

#[tokio::test]
async fn what_is_not_http_is_refused_and_the_connection_ends() {
    let server = HEARTLINE.start().await;
    let client_hello = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03".repeat(20);
    for (name, bytes) in [
        ("TLS on the plain port", client_hello.as_slice()),
        ("garbage", &[0xff; 300]),
        ("a line without sense", b"hello server, how are you?\r\n\r\n"),
        ("a NUL in a header", b"GET /v1/ws HTTP/1.1\r\nHost: a\0b\r\n\r\n"),
        ("an unknown version", b"GET /v1/ws HTTP/9.9\r\nHost: a\r\n\r\n"),
    ] {
        let answer = server.http_raw(bytes).await;
        assert!(matches!(answer.status, 400 | 505), "{name}: {answer:?}");
    }
    server.connect("ana").await.is_open().await;
}

#[tokio::test]
async fn http2_without_being_asked_is_refused_cleanly() {
    let server = HEARTLINE.start().await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(20), socket.read_to_end(&mut answer)).await;
    read.expect("an end in time").expect("a clean end");
    server.connect("ana").await.is_open().await;
}

#[tokio::test]
async fn frames_that_come_together_with_the_upgrade_are_heard() {
    let server = HEARTLINE.start().await;
    let mut bytes = and("Authorization", &bearer("ana"));
    bytes.extend(masked_text_frame(r#"{"type":"heartbeat"}"#));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.expect("an answer").unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    let mut socket = Socket { stream };
    assert_eq!(socket.json().await["type"], "connection_established");
    assert_eq!(socket.json().await["type"], "heartbeat_ack");
}

/// Reads until the server closes the connection, sending a byte now and then; returns the duration.
async fn trickled(server: &Server, bytes: &[u8]) -> Duration {
    let start = Clock::system().now();
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let mut bytes = bytes.iter().cycle();
    let mut answer = Vec::new();
    loop {
        let pause = Duration::from_millis(250);
        match timeout(pause, socket.read_buf(&mut answer)).await {
            Ok(Ok(0) | Err(_)) => return Clock::system().now() - start,
            Ok(Ok(_)) => {}
            Err(_) => {
                // A socket that is closed meanwhile is noticed by the next read.
                let _ = socket.write_all(bytes.next().map_or(&[], std::slice::from_ref)).await;
            }
        }
        assert!(Clock::system().now() - start < Duration::from_secs(25), "it is still open");
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up_while_others_connect_at_once() {
    let server = HEARTLINE.start().await;
    let endless = b"GET /v1/ws HTTP/1.1\r\nHost: a\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let slow = async { tokio::join!(trickled(&server, endless), trickled(&server, b"")) };
    let others = async {
        for number in 0..20 {
            server.connect(&format!("user-{number}")).await.is_open().await;
        }
        Clock::system().now()
    };
    let start = Clock::system().now();
    let ((byte_by_byte, silent), others_done) = tokio::join!(slow, others);
    assert!(others_done - start < byte_by_byte.min(silent), "the others waited");
    for duration in [byte_by_byte, silent] {
        assert!(duration > Duration::from_secs(8), "it was closed early: {duration:?}");
        assert!(duration < Duration::from_secs(20), "it was closed late: {duration:?}");
    }
}
