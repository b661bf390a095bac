//! The claims of a token, and whether they are valid at this time for this server.

use std::time::Duration;

use heartline_protocol::{DeviceId, Timestamp, UserId};
use serde::Deserialize;

use super::AuthError;

/// The scope of tokens for the application's own back end.
const SERVICE_SCOPE: &str = "service";

/// The verified identity of a connecting user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The user: the token's `sub`.
    pub user_id: UserId,
    /// The device that the token is bound to, if any.
    pub device_id: Option<DeviceId>,
    /// Whether the token belongs to the application's back end, which may act for every user.
    pub service: bool,
    /// When the token expires: its `exp`, without any leeway.
    pub expires_at: Timestamp,
}

/// The rules that every token must satisfy besides its signature.
pub(crate) struct Rules {
    /// The required `iss`.
    pub(crate) issuer: Option<String>,
    /// The required member of `aud`.
    pub(crate) audience: Option<String>,
    /// How far the clocks of issuer and server may differ.
    pub(crate) leeway: Duration,
}

/// The claims as the token has them. A missing or wrongly typed `sub` or `exp` fails here: a time
/// must be a whole, non-negative number of seconds.
#[derive(Deserialize)]
pub(crate) struct TokenClaims {
    sub: String,
    exp: u64,
    nbf: Option<u64>,
    iss: Option<String>,
    aud: Option<OneOrMany>,
    scope: Option<OneOrMany>,
    device_id: Option<String>,
}

/// One text or a list of them, as issuers write audiences and scopes.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

/// The latest `exp`: the year 5138. A time in milliseconds is beyond it, and would make a token
/// that never expires.
const EXPIRY_MAX_SECONDS: u64 = 99_999_999_999;

/// Checks signed claims against the rules at a point in time.
pub(crate) fn check(
    claims: TokenClaims,
    rules: &Rules,
    now: Timestamp,
) -> Result<Claims, AuthError> {
    if claims.exp > EXPIRY_MAX_SECONDS {
        return Err(AuthError::Invalid("exp is not in seconds"));
    }
    let expires_at = Timestamp::from_unix_seconds(claims.exp);
    if now >= expires_at.plus(rules.leeway) {
        return Err(AuthError::Invalid("it has expired"));
    }
    if claims.nbf.is_some_and(|nbf| now.plus(rules.leeway) < Timestamp::from_unix_seconds(nbf)) {
        return Err(AuthError::Invalid("it is not valid yet (nbf)"));
    }
    if rules.issuer.is_some() && rules.issuer != claims.iss {
        return Err(AuthError::Invalid("iss is not the configured one"));
    }
    if let Some(audience) = &rules.audience
        && !claims.aud.is_some_and(|given| given.texts().contains(audience))
    {
        return Err(AuthError::Invalid("aud does not name the configured audience"));
    }
    let user_id = claims.sub.parse().map_err(|_| AuthError::Invalid("sub is not a user id"))?;
    let device_id = claims
        .device_id
        .map(|text| text.parse())
        .transpose()
        .map_err(|_| AuthError::Invalid("device_id is not a device id"))?;
    let service = claims.scope.is_some_and(|scope| is_service(&scope));
    Ok(Claims { user_id, device_id, service, expires_at })
}

/// Scopes are written as a list, or as one text with spaces between them.
fn is_service(scope: &OneOrMany) -> bool {
    scope.texts().iter().any(|text| text.split(' ').any(|scope| scope == SERVICE_SCOPE))
}
