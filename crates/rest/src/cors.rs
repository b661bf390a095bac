//! CORS: pages of the server's own host and of `server.allowed_origins` may read responses, the
//! same that may open a socket.
//!
//! A request of another page is served, but its page cannot read the response. That is safe because
//! users are identified by tokens and not by cookies.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use heartline_gateway::Refusal;
use heartline_gateway::origin::origin_is_allowed;
use heartline_protocol::ErrorCode;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use http::{HeaderValue, Method, StatusCode};

use super::Api;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
const REQUEST_HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, idempotency-key");
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static("retry-after, www-authenticate");

/// The time for which a browser may cache a preflight, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Responds to preflights, and adds the allowed origin to every other response.
pub(super) async fn layer(State(api): State<Api>, request: Request, next: Next) -> Response {
    let allowed = &api.gateway.config().allowed_origins;
    let origin = request.headers().get(ORIGIN).cloned();
    let origin = origin.filter(|_| origin_is_allowed(request.headers(), allowed));
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(ORIGIN)
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (&origin, is_preflight) {
        (_, false) => next.run(request).await,
        (Some(_), true) => permit(),
        (None, true) => refuse(&api),
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
    }
    response
}

fn permit() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

fn refuse(api: &Api) -> Response {
    let message = "the origin of this page is not allowed: add it to server.allowed_origins";
    let refusal = Refusal::new(ErrorCode::Forbidden, message);
    refusal.into_response(api.gateway.random()).map(Body::from)
}
