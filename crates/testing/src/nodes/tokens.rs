//! Tokens that test servers accept.

use heartline_runtime::Clock;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

/// The secret that test servers accept.
pub const SECRET: &str = "a secret for tests that is long enough to be taken";

/// The Unix time in seconds, plus this many seconds.
pub fn seconds_from_now(seconds: i64) -> i64 {
    let now = Clock::system().wall().unix_ms / 1000;
    now as i64 + seconds
}

/// A token with these claims, signed with [`SECRET`].
pub fn sign(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

/// A valid token of a user.
pub fn token(user: &str) -> String {
    sign(&json!({ "sub": user, "exp": seconds_from_now(3600) }))
}

/// The Authorization header of a user.
pub fn bearer(user: &str) -> String {
    format!("Bearer {}", token(user))
}

/// A token with the scope `service`.
pub fn service_token() -> String {
    sign(&json!({ "sub": "backend", "exp": seconds_from_now(3600), "scope": "service" }))
}
