//! The page at `/`, embedded in the binary: chats, presence, party sessions and a console.
//!
//! Its files are built from `web/` and committed, so that building the server does not need Node.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use heartline_gateway::Refusal;
use heartline_protocol::ErrorCode;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::{Api, Refused, health};

/// One file of the page.
#[derive(Debug, Clone, Copy)]
struct File {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! file {
    ($name:literal, $content_type:literal) => {
        File {
            name: $name,
            content_type: $content_type,
            bytes: include_bytes!(concat!("../../../web/dist/", $name)),
        }
    };
}

const INDEX: File = file!("index.html", "text/html; charset=utf-8");
const FILES: [File; 3] = [
    file!("app.js", "text/javascript; charset=utf-8"),
    file!("app.css", "text/css; charset=utf-8"),
    file!("icon.svg", "image/svg+xml"),
];

/// The page loads only its own files and runs only its own script; it may open sockets to other
/// nodes.
const POLICY: &str = "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The facts about its node that the page needs before sign-in.
#[derive(Debug, Serialize)]
pub(super) struct NodeFacts {
    version: &'static str,
    node_id: String,
    /// `name` if a name is enough to sign in, as in development, else `token`.
    sign_in: &'static str,
}

/// The page for browsers, a short text for other clients.
pub(super) async fn index(State(api): State<Api>, headers: HeaderMap) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if accepts.is_some_and(|accepts| accepts.contains("text/html")) {
        respond(INDEX, &headers)
    } else {
        health::welcome(&api).into_response()
    }
}

pub(super) async fn file(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    match FILES.into_iter().find(|file| file.name == name) {
        Some(file) => Ok(respond(file, &headers)),
        None => Err(Refusal::new(ErrorCode::NotFound, "the page has no such file").into()),
    }
}

pub(super) async fn facts(State(api): State<Api>) -> Json<NodeFacts> {
    Json(NodeFacts {
        version: env!("CARGO_PKG_VERSION"),
        node_id: api.gateway.node_id().to_string(),
        sign_in: if api.development.is_some() { "name" } else { "token" },
    })
}

fn respond(file: File, headers: &HeaderMap) -> Response {
    let tag = tag(file);
    let common = [
        (ETAG, tag.as_str()),
        // Browsers revalidate each time, mostly with a 304, and so find a new version at once.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known == Some(tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(CONTENT_TYPE, file.content_type)], file.bytes).into_response()
}

fn tag(file: File) -> String {
    let mut hasher = DefaultHasher::new();
    file.bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
