//! A drain that begins during an upgrade.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod scripted_store;

use std::sync::Arc;
use std::time::Duration;

use heartline_gateway::{Config, Gateway, Transport, drain};
use heartline_runtime::{Clock, TaskSet};
use http::Request;
use jsonwebtoken::{EncodingKey, Header};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Less than any timeout that would end the connection without the drain.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_socket_whose_upgrade_was_granted_before_the_drain_is_closed_by_it() {
    for token in [Some(token()), None] {
        let gateway = gateway();
        let peer = "127.0.0.1:9".parse().unwrap();
        let request = upgrade_request(token.as_deref());
        let (_, accepted) = gateway.upgrade(&request, peer).await.unwrap();
        drain::drain(&gateway).await;
        let (server, mut client) = connected().await;
        let mut tasks = TaskSet::new();
        tasks.spawn(gateway.serve(accepted, Transport::Plain(Arc::new(server)), &[]));
        let mut received = Vec::new();
        let read = timeout(PATIENCE, client.read_to_end(&mut received)).await;
        read.expect("the server ends the connection").unwrap();
        let text = String::from_utf8_lossy(&received);
        assert!(text.contains("connection_closing"), "{text}");
        assert!(text.ends_with("server_shutdown"), "{text}");
    }
}

fn gateway() -> Arc<Gateway> {
    let config = Config {
        heartbeat_interval: Duration::from_secs(60),
        heartbeat_timeout: Duration::from_secs(120),
        auth_timeout: Duration::from_secs(120),
        ..Config::default()
    };
    scripted_store::gateway(config, Vec::new()).0
}

fn token() -> String {
    let expires_at = Clock::system().wall().unix_ms / 1000 + 3600;
    let claims = serde_json::json!({ "sub": "ana", "exp": expires_at });
    let key = EncodingKey::from_secret(scripted_store::SECRET.as_bytes());
    jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap()
}

fn upgrade_request(token: Option<&str>) -> http::request::Parts {
    let mut request = Request::get("/v1/ws")
        .header("host", "localhost")
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(()).unwrap().into_parts().0
}

/// Both ends of a connection.
async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (accepted.unwrap().0, client.unwrap())
}
