//! Tokens that prove nothing, by each of the three ways in which a token can come.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use heartline_testing::{SECRET, Server, seconds_from_now, sign, token};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::HEARTLINE;

const PRIVATE_KEY: &str = include_str!("../../../auth/src/fixtures/rsa_a.private.pem");
const PUBLIC_KEY: &str = include_str!("../../../auth/src/fixtures/rsa_a.public.pem");
const OTHER_PRIVATE_KEY: &str = include_str!("../../../auth/src/fixtures/rsa_b.private.pem");

/// Good claims for a server that demands an issuer and an audience, with some put in their place;
/// `null` removes one.
fn claims(changes: &Value) -> Value {
    let mut claims = json!({
        "sub": "ana", "exp": seconds_from_now(3600), "iss": "https://id.example", "aud": "chat",
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn signed_with(secret: &[u8], claims: &Value) -> String {
    let key = EncodingKey::from_secret(secret);
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

/// A token whose header declares that it has no signature.
fn unsigned(algorithm: &str, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", encode(&json!({ "typ": "JWT", "alg": algorithm })), encode(claims))
}

fn with_another_signature(token: &str) -> String {
    let (message, _) = token.rsplit_once('.').unwrap();
    let other = sign(&json!({ "sub": "bo", "exp": seconds_from_now(60) }));
    format!("{message}.{}", other.rsplit_once('.').unwrap().1)
}

/// Every token that a server with the tests' secret, an issuer and an audience must refuse.
fn bad_tokens() -> Vec<(&'static str, String)> {
    let good = sign(&claims(&json!({})));
    let changed = |changes: Value| sign(&claims(&changes));
    vec![
        ("not a token", "certainly-no-token".to_owned()),
        ("two parts", "only.twoparts".to_owned()),
        ("four parts", format!("{good}.more")),
        ("parts that are no JSON", "YQ.YQ.YQ".to_owned()),
        ("padding", format!("{good}=")),
        ("another secret", signed_with(b"another secret of thirty-two bytes", &claims(&json!({})))),
        ("the signature of another token", with_another_signature(&good)),
        ("alg none", unsigned("none", &claims(&json!({})))),
        ("alg nOnE", unsigned("nOnE", &claims(&json!({})))),
        ("expired", changed(json!({ "exp": seconds_from_now(-60) }))),
        ("without exp", changed(json!({ "exp": null }))),
        ("exp as text", changed(json!({ "exp": "tomorrow" }))),
        ("not yet valid", changed(json!({ "nbf": seconds_from_now(60) }))),
        ("another issuer", changed(json!({ "iss": "https://evil.example" }))),
        ("without issuer", changed(json!({ "iss": null }))),
        ("another audience", changed(json!({ "aud": "shop" }))),
        ("without audience", changed(json!({ "aud": null }))),
        ("without sub", changed(json!({ "sub": null }))),
        ("an empty sub", changed(json!({ "sub": "" }))),
        ("a sub that is a number", changed(json!({ "sub": 7 }))),
        ("a sub outside of the alphabet", changed(json!({ "sub": "ana*" }))),
        ("a sub with a line end", changed(json!({ "sub": "ana\n" }))),
        ("a sub that is too long", changed(json!({ "sub": "a".repeat(129) }))),
        ("an illegal device", changed(json!({ "device_id": "my phone" }))),
        ("an oversized token", changed(json!({ "padding": "x".repeat(8 * 1024) }))),
    ]
}

async fn strict_server() -> Server {
    HEARTLINE
        .start_with(&format!(
            "[auth]\nhmac_secret = \"{SECRET}\"\nissuer = \"https://id.example\"\n\
         audience = \"chat\"\n[log]\nlevel = \"debug\"\n"
        ))
        .await
}

/// 401, the header that it demands, and a sentence that does not say what was wrong.
async fn is_refused_at_the_upgrade(server: &Server, name: &str, headers: &[(&str, &str)]) {
    let (upgrade, body) = server.refused(headers, 401, "UNAUTHORIZED").await;
    assert_eq!(upgrade.headers["www-authenticate"], "Bearer error=\"invalid_token\"", "{name}");
    assert_eq!(body["error"]["message"], "a valid token is required", "{name}");
}

async fn is_refused_after_a_challenge(server: &Server, name: &str, token: &str) {
    let mut socket = server.challenged().await;
    socket.send(&json!({ "type": "authenticate", "token": token })).await;
    let closing = socket.closes("unauthorized", 4401).await;
    assert_eq!(closing["reconnect_allowed"], false, "{name}");
}

#[tokio::test]
async fn a_bad_token_is_refused_in_a_header_in_the_subprotocols_and_after_a_challenge() {
    let server = strict_server().await;
    let good = sign(&claims(&json!({})));
    let (_socket, established) =
        server.connect_with(&[("Authorization", &format!("Bearer {good}"))]).await;
    assert_eq!(established["user_id"], "ana");
    for (name, token) in bad_tokens() {
        let bearer = format!("Bearer {token}");
        is_refused_at_the_upgrade(&server, name, &[("Authorization", &bearer)]).await;
        let offer = format!("heartline.v1, bearer.{token}");
        is_refused_at_the_upgrade(&server, name, &[("Sec-WebSocket-Protocol", &offer)]).await;
        is_refused_after_a_challenge(&server, name, &token).await;
        let leaked = server.log().into_iter().find(|line| line.contains(&token));
        assert_eq!(leaked, None, "the log holds {name}");
    }
    assert_eq!(server.metric("gateway_connections_active").await, 1.0);
}

#[tokio::test]
async fn an_authorization_header_without_a_bearer_token_is_refused() {
    let server = HEARTLINE.start().await;
    for value in ["Bearer", "Bearer ", "Basic YTpi", "Token abc", "", "Bearer a b"] {
        is_refused_at_the_upgrade(&server, value, &[("Authorization", value)]).await;
    }
    let offer = "heartline.v1, bearer.";
    is_refused_at_the_upgrade(&server, offer, &[("Sec-WebSocket-Protocol", offer)]).await;
}

#[tokio::test]
async fn a_good_token_in_the_subprotocols_is_not_repeated_in_the_answer() {
    let server = HEARTLINE.start().await;
    let offer = format!("heartline.v1, bearer.{}, device.phone", token("ana"));
    let upgrade = server.upgrade(&[("Sec-WebSocket-Protocol", &offer)]).await;
    assert_eq!(upgrade.status, 101);
    assert_eq!(upgrade.headers["sec-websocket-protocol"], "heartline.v1");
}

#[tokio::test]
async fn a_public_key_is_no_shared_secret() {
    let directory = HEARTLINE.scratch();
    let path = directory.join("rsa.pem");
    std::fs::write(&path, PUBLIC_KEY).unwrap();
    let server = HEARTLINE
        .start_with(&format!("[auth]\npublic_key_files = [\"{}\"]\n", path.display()))
        .await;
    let claims = claims(&json!({}));
    let with_rsa = |pem: &str| {
        let key = EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap();
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &key).unwrap()
    };
    let good = format!("Bearer {}", with_rsa(PRIVATE_KEY));
    let (_socket, established) = server.connect_with(&[("Authorization", &good)]).await;
    assert_eq!(established["user_id"], "ana");
    for (name, token) in [
        ("HS256 with the PEM file", signed_with(PUBLIC_KEY.as_bytes(), &claims)),
        ("HS256 with the PEM text", signed_with(PUBLIC_KEY.trim().as_bytes(), &claims)),
        ("another private key", with_rsa(OTHER_PRIVATE_KEY)),
        ("alg none", unsigned("none", &claims)),
        ("alg RS256 without a signature", unsigned("RS256", &claims)),
    ] {
        let bearer = format!("Bearer {token}");
        is_refused_at_the_upgrade(&server, name, &[("Authorization", &bearer)]).await;
        let offer = format!("heartline.v1, bearer.{token}");
        is_refused_at_the_upgrade(&server, name, &[("Sec-WebSocket-Protocol", &offer)]).await;
        is_refused_after_a_challenge(&server, name, &token).await;
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_second_authenticate_is_a_conflict_and_the_connection_goes_on() {
    let server = HEARTLINE.start().await;
    let mut challenged = server.challenged().await;
    let authenticate = json!({ "type": "authenticate", "token": token("ana") });
    challenged.send(&authenticate).await;
    assert_eq!(challenged.json().await["user_id"], "ana");
    let mut admitted = server.connect("bo").await;
    for socket in [&mut challenged, &mut admitted] {
        socket.send(&authenticate).await;
        let error = socket.error("CONFLICT").await;
        assert_eq!(error["retryable"], false);
        socket.is_open().await;
    }
    assert_eq!(server.push(&["bo"], "still", json!({})).await, 1);
}

#[tokio::test]
async fn before_authentication_every_other_frame_is_unauthorized_and_ten_end_it() {
    let server = HEARTLINE.start().await;
    let mut socket = server.challenged().await;
    for (frame, request_id) in [
        (json!({ "type": "heartbeat" }), Value::Null),
        (json!({ "type": "sync_manifest", "request_id": "r1" }), json!("r1")),
        (json!({ "type": "something_new", "request_id": "r2" }), json!("r2")),
        (json!({ "type": "something_new" }), Value::Null),
        (
            json!({ "type": "refresh_token", "request_id": "r3", "token": token("ana") }),
            json!("r3"),
        ),
    ] {
        socket.send(&frame).await;
        let error = socket.error("UNAUTHORIZED").await;
        assert_eq!(error["request_id"], request_id, "{error}");
        assert_eq!(error["retryable"], true);
    }
    socket.send(&json!({ "type": "authenticate" })).await;
    assert_eq!(socket.error("INVALID_MESSAGE").await["details"]["field"], "token");
    for _ in 6..10 {
        socket.send(&json!({ "type": "heartbeat" })).await;
    }
    for _ in 6..10 {
        socket.error("UNAUTHORIZED").await;
    }
    socket.closes("protocol_error", 1003).await;
    assert_eq!(server.metric("gateway_bad_frames_total").await, 10.0);
}

#[tokio::test]
async fn who_never_authenticates_is_closed_at_the_timeout() {
    let server = HEARTLINE.start_with("[gateway]\nauth_timeout = \"500ms\"\n").await;
    let (mut socket, challenge) = server.connect_with(&[]).await;
    assert_eq!(challenge["timeout_ms"], 500);
    let closing = socket.closes("auth_timeout", 4408).await;
    assert_eq!(closing["reconnect_allowed"], true);
    server.metric_becomes("gateway_connections_unauthenticated", 0.0).await;
}
