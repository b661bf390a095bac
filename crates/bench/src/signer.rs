//! Tokens for the users of the bench.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use heartline_runtime::Clock;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

/// The lifetime of a token: longer than any run.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// A server's HS256 secret. Its `Debug` output does not contain the secret.
#[derive(Clone)]
pub(super) struct Secret(pub(super) String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// Signs HS256 tokens that the server under test accepts.
pub(super) struct Signer {
    key: EncodingKey,
    header: Header,
    expires_at_seconds: u64,
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
}

impl Signer {
    /// A signer with the secret of the server's configuration.
    pub(super) fn new(secret: &Secret, clock: Clock) -> Self {
        Self {
            key: EncodingKey::from_secret(secret.0.as_bytes()),
            header: Header::new(Algorithm::HS256),
            expires_at_seconds: clock.wall().plus(LIFETIME).unix_ms / 1000,
        }
    }

    /// The token of a user with the device `bench`.
    pub(super) fn user(&self, user_id: &str) -> Result<String> {
        self.device(user_id, "bench")
    }

    /// The token of a user and device.
    pub(super) fn device(&self, user_id: &str, device_id: &str) -> Result<String> {
        self.sign(&Claims {
            sub: user_id,
            exp: self.expires_at_seconds,
            device_id: Some(device_id),
            scope: None,
        })
    }

    /// A token with the scope `service`, which allows pushes.
    pub(super) fn service(&self) -> Result<String> {
        self.sign(&Claims {
            sub: "bench-service",
            exp: self.expires_at_seconds,
            device_id: None,
            scope: Some("service"),
        })
    }

    fn sign(&self, claims: &Claims<'_>) -> Result<String> {
        Ok(jsonwebtoken::encode(&self.header, claims, &self.key)?)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signer").finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Signer {
    /// A signer for tests that do not check tokens.
    pub(super) fn unchecked() -> Self {
        Self::new(&Secret(String::new()), Clock::system())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn claims(token: &str) -> serde_json::Value {
        let body = token.split('.').nth(1).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap()
    }

    #[test]
    fn a_user_has_a_device_and_only_the_service_has_a_scope() {
        let secret = Secret("0123456789abcdef0123456789abcdef".to_owned());
        assert!(!format!("{secret:?}").contains("0123"));
        let signer = Signer::new(&secret, Clock::system());
        let user = claims(&signer.user("bench-7").unwrap());
        assert_eq!((&user["sub"], &user["device_id"]), (&"bench-7".into(), &"bench".into()));
        assert!(user.get("scope").is_none() && user["exp"].is_u64());
        assert_eq!(claims(&signer.service().unwrap())["scope"], "service");
    }
}
