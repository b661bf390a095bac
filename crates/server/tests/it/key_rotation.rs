//! Keys of an identity provider at a URL: rotation, outage, and the time before the first fetch.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use heartline_runtime::TaskSet;
use heartline_testing::{Server, seconds_from_now};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::HEARTLINE;

const FIRST: &str = include_str!("../../../auth/src/fixtures/p256_a.private.pem");
const SECOND: &str = include_str!("../../../auth/src/fixtures/p256_b.private.pem");

/// An identity provider with configurable responses that counts its requests.
struct Provider {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _tasks: TaskSet<()>,
}

#[derive(Default)]
struct State {
    /// The key set; none while the provider is out of order.
    key_set: Option<String>,
    questions: usize,
}

impl Provider {
    async fn start(key_set: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { key_set, questions: 0 }));
        let shared = Arc::clone(&state);
        let mut tasks = TaskSet::new();
        tasks.spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = socket.read_u8().await else { break };
                    head.push(byte);
                }
                let answer = shared.lock().unwrap().answer();
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, state, _tasks: tasks }
    }

    fn publish(&self, key_set: Option<String>) {
        self.state.lock().unwrap().key_set = key_set;
    }

    fn questions(&self) -> usize {
        self.state.lock().unwrap().questions
    }

    /// A server that trusts this provider.
    async fn server(&self) -> Server {
        let url = format!("http://{}/jwks.json", self.address);
        HEARTLINE.start_with(&format!("[auth]\njwks_url = \"{url}\"\n")).await
    }
}

impl State {
    fn answer(&mut self) -> String {
        self.questions += 1;
        let (status, body) = match &self.key_set {
            Some(key_set) => ("200 OK", key_set.as_str()),
            None => ("500 Internal Server Error", ""),
        };
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }
}

fn key_set(keys: &[(&str, &str)]) -> Option<String> {
    let entry = |(name, pem): &(&str, &str)| -> Value {
        let key = EncodingKey::from_ec_pem(pem.as_bytes()).unwrap();
        let mut jwk =
            serde_json::to_value(Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap()).unwrap();
        jwk["kid"] = json!(name);
        jwk
    };
    let keys: Vec<Value> = keys.iter().map(entry).collect();
    Some(json!({ "keys": keys }).to_string())
}

/// The Authorization header of a token that was signed with a named key.
fn bearer_of(name: &str, pem: &str) -> String {
    let header = Header { kid: Some(name.to_owned()), ..Header::new(Algorithm::ES256) };
    let claims = json!({ "sub": "ana", "exp": seconds_from_now(3600) });
    let key = EncodingKey::from_ec_pem(pem.as_bytes()).unwrap();
    format!("Bearer {}", jsonwebtoken::encode(&header, &claims, &key).unwrap())
}

async fn is_ready(server: &Server) -> bool {
    server.http("GET", "/readyz", "", None).await.status == 200
}

async fn becomes_ready(server: &Server) {
    while !is_ready(server).await {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_token_first_names_it() {
    let provider = Provider::start(key_set(&[("one", FIRST)])).await;
    let server = provider.server().await;
    becomes_ready(&server).await;
    let old = bearer_of("one", FIRST);
    let mut before = server.connect_with(&[("Authorization", &old)]).await.0;
    assert_eq!(provider.questions(), 1);

    provider.publish(key_set(&[("two", SECOND)]));
    let new = bearer_of("two", SECOND);
    let (_socket, established) = server.connect_with(&[("Authorization", &new)]).await;
    assert_eq!(established["user_id"], "ana");
    assert_eq!(provider.questions(), 2);
    server.refused(&[("Authorization", &old)], 401, "UNAUTHORIZED").await;
    before.is_open().await;

    // Unknown names cannot be used to make the server ask again and again.
    for number in 0..20 {
        let made_up = bearer_of(&format!("made-up-{number}"), FIRST);
        server.refused(&[("Authorization", &made_up)], 401, "UNAUTHORIZED").await;
    }
    assert_eq!(provider.questions(), 2);
}

#[tokio::test]
async fn while_the_provider_is_out_of_order_the_last_good_keys_serve() {
    let provider = Provider::start(key_set(&[("one", FIRST)])).await;
    let server = provider.server().await;
    becomes_ready(&server).await;
    for broken in [None, Some("{\"keys\":[]}".to_owned()), Some("<html>".to_owned())] {
        provider.publish(broken);
        let unknown = bearer_of("two", SECOND);
        server.refused(&[("Authorization", &unknown)], 401, "UNAUTHORIZED").await;
        let known = bearer_of("one", FIRST);
        assert_eq!(server.upgrade(&[("Authorization", &known)]).await.status, 101);
        assert!(is_ready(&server).await);
    }
    server.logged(&["the last good one stays in use"]).await;
}

#[tokio::test]
async fn before_the_first_keys_nobody_is_called_unauthorized() {
    let provider = Provider::start(None).await;
    let server = provider.server().await;
    let bearer = bearer_of("one", FIRST);
    let headers = [("Authorization", bearer.as_str())];
    let (upgrade, _) = server.refused(&headers, 503, "SERVICE_UNAVAILABLE").await;
    assert!(upgrade.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    let token = bearer.strip_prefix("Bearer ").unwrap();
    let push = server.http("POST", "/v1/push", token, None).await;
    assert_eq!(push.status, 503);
    assert!(push.head.contains("retry-after: "), "{push:?}");
    let ready = server.http("GET", "/readyz", "", None).await;
    assert_eq!((ready.status, &ready.json()["degraded"]), (503, &json!(["signing_keys"])));
    assert_eq!(server.http("GET", "/livez", "", None).await.status, 200);

    let mut challenged = server.challenged().await;
    challenged.send(&json!({ "type": "authenticate", "token": token })).await;
    let closing = challenged.closes("overloaded", 1013).await;
    assert_eq!(closing["reconnect_allowed"], true);

    provider.publish(key_set(&[("one", FIRST)]));
    becomes_ready(&server).await;
    assert_eq!(server.upgrade(&headers).await.status, 101);
}
