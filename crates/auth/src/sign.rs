//! Signs tokens with a shared secret, for development servers, load and probes.

use std::time::Duration;

use heartline_protocol::{DeviceId, Timestamp, UserId};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

use crate::Secret;

/// The content of a token to sign.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The user whom the token authenticates.
    pub user_id: UserId,
    /// The only device that may use the token, if it is bound to one.
    pub device_id: Option<DeviceId>,
    /// The scopes, separated by spaces.
    pub scope: Option<String>,
    /// How long the token is valid.
    pub lifetime: Duration,
    /// The `iss` that the server requires.
    pub issuer: Option<String>,
    /// The `aud` that the server requires.
    pub audience: Option<String>,
}

impl NewToken {
    /// A token of a user on any device, without scopes.
    pub fn new(user_id: UserId, lifetime: Duration) -> Self {
        Self { user_id, device_id: None, scope: None, lifetime, issuer: None, audience: None }
    }
}

/// The signature failed.
#[derive(Debug, thiserror::Error)]
#[error("the token could not be signed: {0}")]
pub struct SignError(#[from] jsonwebtoken::errors::Error);

#[derive(Serialize)]
struct SignedClaims<'a> {
    sub: &'a UserId,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_id: Option<&'a DeviceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

/// Signs a token (HS256) that is valid from `now` on.
///
/// # Errors
/// The signature failed.
pub fn sign(token: &NewToken, secret: &Secret, now: Timestamp) -> Result<String, SignError> {
    let claims = SignedClaims {
        sub: &token.user_id,
        iat: now.unix_ms / 1000,
        exp: now.plus(token.lifetime).unix_ms / 1000,
        device_id: token.device_id.as_ref(),
        scope: token.scope.as_deref(),
        iss: token.issuer.as_deref(),
        aud: token.audience.as_deref(),
    };
    let key = EncodingKey::from_secret(secret.expose().as_bytes());
    Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?)
}
