//! How the client sends the token, and how it reacts to a rejection.

use std::sync::Arc;

use heartline_client::{Authentication, Ending, StopReason, TokenNeed};
use heartline_protocol::{ClientFrame, CloseReason, ServerFrame};

use crate::harness::{FakeServer, Tokens, config_for, start, token_for};

const UNAUTHORIZED: &str =
    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn a_header_carries_the_token_and_the_device() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    let token = token_for(3600, "header");
    config.token = Arc::new(token.clone());
    let (_client, _events) = start(config);
    let socket = server.accept().await;
    assert_eq!(socket.request.uri(), "/v1/ws");
    assert_eq!(socket.header("authorization"), Some(&*format!("Bearer {}", token.0)));
    assert_eq!(socket.header("x-device-id"), Some("phone"));
    assert_eq!(socket.header("sec-websocket-protocol"), Some("heartline.v1"));
}

#[tokio::test]
async fn the_subprotocols_carry_the_token_and_the_device() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    let token = token_for(3600, "subprotocol");
    config.token = Arc::new(token.clone());
    config.authentication = Authentication::Subprotocol;
    let (_client, _events) = start(config);
    let socket = server.accept().await;
    let expected = format!("heartline.v1, bearer.{}, device.phone", token.0);
    assert_eq!(socket.header("sec-websocket-protocol"), Some(&*expected));
    assert_eq!(socket.header("authorization"), None);
}

#[tokio::test]
async fn a_challenge_is_answered_with_the_token_and_the_device() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    let token = token_for(3600, "message");
    config.token = Arc::new(token.clone());
    config.authentication = Authentication::Message;
    let (_client, mut events) = start(config);
    let mut socket = server.accept().await;
    assert_eq!(socket.header("authorization"), None);
    assert_eq!(socket.header("sec-websocket-protocol"), Some("heartline.v1"));
    socket.send(&ServerFrame::AuthChallenge { code: 401, timeout_ms: 10_000 }).await;
    let ClientFrame::Authenticate(frame) = socket.receive().await else { panic!("no answer") };
    assert_eq!(frame.token, token);
    assert_eq!(frame.device_id, Some("phone".parse().unwrap()));
    socket.send_established(5_000, 10_000).await;
    events.connected().await;
}

#[tokio::test]
async fn a_rejected_token_is_replaced_by_a_different_one() {
    let server = FakeServer::start().await;
    let (old, new) = (token_for(3600, "old"), token_for(3600, "new"));
    let (tokens, mut needs) = Tokens::new(&[&old, &new]);
    let mut config = config_for(&[&server]);
    config.token = Arc::new(tokens);
    let (_client, mut events) = start(config);
    server.reject(UNAUTHORIZED).await;
    let (ending, _) = events.disconnected().await;
    assert!(matches!(ending, Ending::Rejected(rejection) if rejection.status == 401));
    let mut socket = server.accept().await;
    assert_eq!(socket.header("authorization"), Some(&*format!("Bearer {}", new.0)));
    socket.send_established(5_000, 10_000).await;
    events.connected().await;
    assert_eq!(needs.recv().await, Some(TokenNeed::Connect));
    assert_eq!(needs.recv().await, Some(TokenNeed::Rejected));
}

#[tokio::test]
async fn a_rejected_token_without_a_different_one_stops_the_client() {
    let server = FakeServer::start().await;
    let (_client, mut events) = start(config_for(&[&server]));
    server.reject(UNAUTHORIZED).await;
    assert_eq!(events.stopped().await, StopReason::TokenRejected);
}

#[tokio::test]
async fn a_second_rejected_token_stops_the_client() {
    let server = FakeServer::start().await;
    let all = [token_for(3600, "a"), token_for(3600, "b"), token_for(3600, "c")];
    let (tokens, _needs) = Tokens::new(&all.each_ref());
    let mut config = config_for(&[&server]);
    config.token = Arc::new(tokens);
    let (_client, mut events) = start(config);
    server.reject(UNAUTHORIZED).await;
    server.reject(UNAUTHORIZED).await;
    assert_eq!(events.stopped().await, StopReason::TokenRejected);
}

#[tokio::test]
async fn after_an_expired_token_the_client_reconnects_with_a_different_one() {
    let server = FakeServer::start().await;
    let (old, new) = (token_for(3600, "old"), token_for(3600, "new"));
    let (tokens, _needs) = Tokens::new(&[&old, &new]);
    let mut config = config_for(&[&server]);
    config.token = Arc::new(tokens);
    let (_client, mut events) = start(config);
    let mut socket = server.establish().await;
    socket.send_closing(CloseReason::TokenExpired, 5).await;
    let socket = server.establish().await;
    assert_eq!(socket.header("authorization"), Some(&*format!("Bearer {}", new.0)));
    events.connected().await;
}

#[tokio::test]
async fn a_token_that_no_header_can_carry_is_never_sent() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    config.token = Arc::new(heartline_protocol::Token("a\r\nX-Admin: yes".to_owned()));
    let (_client, mut events) = start(config);
    assert!(matches!(events.stopped().await, StopReason::NoToken(_)));
}
