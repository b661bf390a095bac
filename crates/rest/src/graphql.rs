//! GraphQL over plain HTTP, and the routes that its clients use: `/health` and `/join`.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use heartline_gateway::Refusal;
use heartline_gateway::websocket::bearer;
use heartline_party::Caller;
use heartline_protocol::ErrorCode;
use heartline_protocol::graphql::{GraphQlRequest, Reply};
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::party_query_rates::WithinRate;
use super::{Api, Refused, health};

/// The bytes that are percent-encoded in a segment of a path: all but the unreserved ones of RFC
/// 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The most bytes of one request: a full queue (`QUEUE_BYTES_MAX` of party sessions) with room to
/// spare.
pub(super) const BODY_BYTES_MAX: usize = 6 * 1024 * 1024;

/// Runs a query or a mutation. Subscriptions need a socket.
pub(super) async fn run(
    State(api): State<Api>,
    within_rate: Result<WithinRate, Refused>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, NotRun> {
    within_rate?;
    let body = body.map_err(|error| Refusal::malformed(error.status(), error.body_text()))?;
    let account = match bearer(&headers)? {
        Some(token) => Some(api.gateway.verify(&token).await.map_err(Refusal::from)?.user_id),
        None if api.gateway.config().graphql.require_auth => {
            return Err(Refusal::unauthorized().into());
        }
        None => None,
    };
    let request: GraphQlRequest = serde_json::from_slice(&body).map_err(|_| {
        let message = "the body must be a JSON object with a query";
        Refusal::malformed(StatusCode::BAD_REQUEST, message)
    })?;
    let replies = api.party.party.run(Caller::Http { account }, request);
    let (status, payload) = match replies.into_future().await.0 {
        Some(Reply::Next(payload)) => (StatusCode::OK, payload),
        Some(Reply::Error(errors)) => {
            let payload = [&b"{\"errors\":"[..], &errors, b"}"].concat();
            (StatusCode::BAD_REQUEST, payload.into())
        }
        None => {
            let message = "the request has no reply";
            return Err(Refusal::new(ErrorCode::InternalError, message).into());
        }
    };
    Ok((status, [(CONTENT_TYPE, "application/json")], Body::from(payload)).into_response())
}

/// The error of a request that is not run, in the form of GraphQL.
#[derive(Debug)]
pub(super) struct NotRun(Refusal);

impl From<Refusal> for NotRun {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl From<Refused> for NotRun {
    fn from(Refused(refusal): Refused) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for NotRun {
    fn into_response(self) -> Response {
        let Self(refusal) = self;
        let mut extensions = json!({ "code": refusal.code });
        if let Some(seconds) = refusal.retry_after_seconds {
            extensions["retry_after_seconds"] = seconds.into();
        }
        let error = json!({ "message": refusal.message, "extensions": extensions });
        let body = json!({ "errors": [error] }).to_string();
        refusal.head().map(|()| Body::from(body))
    }
}

/// Health in the form that existing party clients read, with the status of `/readyz`.
pub(super) async fn health(State(api): State<Api>) -> Response {
    let required = api.cluster.is_some();
    let connected = api.cluster.as_ref().is_some_and(|cluster| cluster.broker_is_healthy());
    let timestamp = api.gateway.clock().wall();
    let status = health::readyz(State(api)).await.status();
    let word = if status == StatusCode::OK { "healthy" } else { "unhealthy" };
    let redis = json!({ "required": required, "connected": connected });
    (status, Json(json!({ "status": word, "timestamp": timestamp, "redis": redis })))
        .into_response()
}

/// Redirects to the page of a session on the site.
pub(super) async fn join(
    State(api): State<Api>,
    _: WithinRate,
    Path(session_id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let unknown = || Refusal::new(ErrorCode::NotFound, "Session not found");
    let site = api.site_url.as_deref().ok_or_else(unknown)?;
    heartline_party::value::validate::session_id(&session_id)
        .map_err(|error| Refusal::malformed(StatusCode::BAD_REQUEST, &error.message))?;
    let session = api.party.rooms.read(&session_id).await;
    let session = session.map_err(|error| Refusal::new(error.code, &error.message))?;
    let board_path = session.details.board_path.as_deref().filter(|_| session.exists());
    let board_path = board_path.ok_or_else(unknown)?;
    let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let location = location(site, board_path, host, &session_id).ok_or_else(unknown)?;
    Ok((StatusCode::FOUND, [(LOCATION, location)]).into_response())
}

/// The URL of a session's page. The URL begins with the site for every board path, because all
/// characters that could end a path early are encoded.
fn location(site: &str, board_path: &str, host: &str, session_id: &str) -> Option<String> {
    let encoded = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
    let segments: Vec<String> = board_path.split('/').map(encoded).collect();
    let (path, socket) = (segments.join("/"), encoded(&format!("wss://{host}/graphql")));
    let location =
        format!("{}{path}?backendUrl={socket}&sessionId={session_id}", site.trim_end_matches('/'));
    let uri: Uri = location.parse().ok()?;
    let expected: Uri = site.parse().ok()?;
    (uri.authority() == expected.authority() && uri.scheme() == expected.scheme())
        .then_some(location)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_redirect_to_a_session_never_leaves_the_site() {
        let to = |path: &str| location("https://example.com", path, "node.example:7400", "a-1");
        let usual = to("/kilter/1/2/3/40").unwrap_or_default();
        assert_eq!(
            usual,
            "https://example.com/kilter/1/2/3/40?backendUrl=wss%3A%2F%2Fnode.example%3A7400%2Fgraphql&sessionId=a-1"
        );
        for path in
            ["@evil.example/x", "//evil.example", "/\\evil.example", ".evil.example/x", "/a?b#c"]
        {
            if let Some(location) = to(path) {
                let uri: Uri = location.parse().unwrap_or_default();
                assert_eq!(uri.host(), Some("example.com"), "{path}: {location}");
                assert!(location.ends_with("&sessionId=a-1"), "{location}");
            }
        }
    }
}
