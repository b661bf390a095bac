//! Refreshing the token before it expires.

use std::sync::Arc;

use heartline_client::{Ending, Loss, TokenNeed};
use heartline_protocol::{
    ClientFrame, CloseReason, ErrorCode, ErrorFrame, ServerFrame, Timestamp, Token,
};
use tokio::sync::mpsc;

use crate::harness::{Events, FakeServer, FakeSocket, Tokens, config_for, start, token_for};

struct Scene {
    server: FakeServer,
    socket: FakeSocket<tokio::net::TcpStream>,
    client: heartline_client::Client,
    events: Events,
    needs: mpsc::Receiver<TokenNeed>,
}

async fn connected_with(tokens: &[&Token]) -> Scene {
    let server = FakeServer::start().await;
    let (tokens, needs) = Tokens::new(tokens);
    let mut config = config_for(&[&server]);
    config.token = Arc::new(tokens);
    let (client, mut events) = start(config);
    let mut socket = server.accept().await;
    socket.send_established(60_000, 60_000).await;
    events.connected().await;
    Scene { server, socket, client, events, needs }
}

/// The next token that the client offers, which the server accepts for an hour.
async fn accept_offer(socket: &mut FakeSocket<tokio::net::TcpStream>) -> Token {
    let ClientFrame::RefreshToken(offer) = socket.receive().await else { panic!("no offer") };
    let expires_at = Timestamp { unix_ms: 4_000_000_000_000 };
    let request_id = offer.request_id;
    socket.send(&ServerFrame::TokenRefreshed { request_id, expires_at }).await;
    offer.token
}

#[tokio::test]
async fn a_token_is_refreshed_before_it_expires() {
    let (short, long) = (token_for(3, "short"), token_for(3600, "long"));
    let mut scene = connected_with(&[&short, &long]).await;
    assert_eq!(accept_offer(&mut scene.socket).await, long);
    assert_eq!(scene.needs.recv().await, Some(TokenNeed::Connect));
    assert_eq!(scene.needs.recv().await, Some(TokenNeed::Refresh));
}

#[tokio::test]
async fn an_expired_token_is_refreshed_at_once() {
    let (old, new) = (token_for(3600, "old"), token_for(3600, "new"));
    let mut scene = connected_with(&[&old, &new]).await;
    scene.socket.send(&ServerFrame::TokenExpired { grace_period_seconds: 30 }).await;
    assert_eq!(accept_offer(&mut scene.socket).await, new);
}

#[tokio::test]
async fn a_provider_without_a_newer_token_is_asked_again_and_the_connection_stays() {
    let (old, new) = (token_for(3600, "old"), token_for(3600, "new"));
    let mut scene = connected_with(&[&old, &old, &new]).await;
    scene.socket.send(&ServerFrame::TokenExpired { grace_period_seconds: 30 }).await;
    assert_eq!(scene.needs.recv().await, Some(TokenNeed::Connect));
    assert_eq!(scene.needs.recv().await, Some(TokenNeed::Refresh));
    assert_eq!(accept_offer(&mut scene.socket).await, new);
}

#[tokio::test]
async fn after_a_rejected_offer_a_different_token_is_offered() {
    let (old, bad) = (token_for(3600, "old"), token_for(3600, "bad"));
    let good = token_for(3600, "good");
    let mut scene = connected_with(&[&old, &bad, &good]).await;
    scene.socket.send(&ServerFrame::TokenExpired { grace_period_seconds: 30 }).await;
    let ClientFrame::RefreshToken(offer) = scene.socket.receive().await else { panic!("no offer") };
    assert_eq!(offer.token, bad);
    let mut error = ErrorFrame::new(ErrorCode::Forbidden, "another user's token");
    error.request_id = Some(offer.request_id);
    scene.socket.send(&ServerFrame::Error(error)).await;
    assert_eq!(accept_offer(&mut scene.socket).await, good);
    assert_eq!(scene.needs.recv().await, Some(TokenNeed::Connect));
    assert_eq!(scene.needs.recv().await, Some(TokenNeed::Refresh));
    assert_eq!(scene.needs.recv().await, Some(TokenNeed::Rejected));
}

#[tokio::test]
async fn the_refreshed_token_is_the_one_that_counts_as_rejected_later() {
    let (old, new) = (token_for(3600, "old"), token_for(3600, "new"));
    let mut scene = connected_with(&[&old, &new]).await;
    scene.socket.send(&ServerFrame::TokenExpired { grace_period_seconds: 30 }).await;
    accept_offer(&mut scene.socket).await;
    scene.socket.send_closing(CloseReason::TokenExpired, 1).await;
    let reason = scene.events.stopped().await;
    assert_eq!(reason, heartline_client::StopReason::TokenRejected);
}

#[tokio::test]
async fn a_connection_lost_during_a_refresh_reconnects_with_the_newer_token() {
    let (old, new) = (token_for(3600, "old"), token_for(3600, "new"));
    let mut scene = connected_with(&[&old, &new]).await;
    scene.socket.send(&ServerFrame::TokenExpired { grace_period_seconds: 30 }).await;
    assert!(matches!(scene.socket.receive().await, ClientFrame::RefreshToken(_)));
    scene.client.drop_socket();
    assert_eq!(scene.events.disconnected().await.0, Ending::Lost(Loss::Dropped));
    let socket = scene.server.establish().await;
    assert_eq!(socket.header("authorization"), Some(&*format!("Bearer {}", new.0)));
    scene.events.connected().await;
}
