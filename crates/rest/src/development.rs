//! `/dev/token`: sign in as any user, only on a node that `heartline dev` runs.

use std::net::IpAddr;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use heartline_auth::{NewToken, Secret, sign};
use heartline_gateway::Refusal;
use heartline_gateway::origin::origin_is_allowed;
use heartline_protocol::{DeviceId, ErrorCode, Timestamp, UserId};
use http::HeaderMap;
use http::header::HOST;
use serde::{Deserialize, Serialize};
use tracing::info;

use super::body::JsonBody;
use super::{Api, Refused, field};

/// The default lifetime of a token, and the longest.
const LIFETIME_SECONDS: u64 = 60 * 60;
const LIFETIME_SECONDS_MAX: u64 = 24 * 60 * 60;

/// The signing key of a node in development.
#[derive(Debug, Clone)]
pub struct Development {
    /// The node's own secret.
    pub secret: Secret,
}

/// A request to sign in.
#[derive(Debug, Deserialize)]
pub(super) struct SignIn {
    user_id: UserId,
    device_id: Option<DeviceId>,
    scope: Option<String>,
    ttl_seconds: Option<u64>,
}

/// The signed token.
#[derive(Debug, Serialize)]
pub(super) struct SignedIn {
    token: String,
    expires_at: Timestamp,
}

pub(super) async fn sign_in(
    State(api): State<Api>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<SignIn>,
) -> Result<Json<SignedIn>, Refused> {
    let Some(development) = &api.development else {
        let message = "only a node that `heartline dev` runs signs tokens";
        return Err(Refusal::new(ErrorCode::NotFound, message).into());
    };
    if !has_local_host(&headers) || !origin_is_allowed(&headers, &[]) {
        let message = "only this node's own page may sign in by name";
        return Err(Refusal::new(ErrorCode::Forbidden, message).into());
    }
    let seconds = body.ttl_seconds.unwrap_or(LIFETIME_SECONDS);
    if !(1..=LIFETIME_SECONDS_MAX).contains(&seconds) {
        let message = format!("ttl_seconds must be 1 to {LIFETIME_SECONDS_MAX}");
        return Err(field::wrong("ttl_seconds", message).into());
    }
    let now = api.gateway.clock().wall();
    let token = NewToken {
        device_id: body.device_id,
        scope: body.scope,
        ..NewToken::new(body.user_id, Duration::from_secs(seconds))
    };
    let signed = sign(&token, &development.secret, now)
        .map_err(|_| Refusal::new(ErrorCode::InternalError, "signing the token failed"))?;
    info!(user_id = %token.user_id, "signed in by name");
    Ok(Json(SignedIn { token: signed, expires_at: now.plus(token.lifetime) }))
}

/// Whether the `Host` of the request is an address or localhost. A foreign page can point its own
/// host name to this machine, but cannot use an address as its name.
fn has_local_host(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_anybody_can_point_here_is_not_here() {
        let is_here =
            |host: &str| has_local_host(&HeaderMap::from_iter([(HOST, host.parse().unwrap())]));
        for host in ["localhost", "localhost:7400", "127.0.0.1:7400", "[::1]:7400", "10.0.0.7"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:7400", "127.0.0.1.evil.example", ""] {
            assert!(!is_here(host), "{host}");
        }
        assert!(!has_local_host(&HeaderMap::new()));
    }
}
