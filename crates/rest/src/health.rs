//! `/livez` and `/readyz`: whether the process runs, and whether it should get new connections.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;

use super::Api;

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
    /// The parts that keep the node from being ready, or that do not work.
    degraded: Vec<&'static str>,
}

/// The text at `/` for clients that are not browsers.
pub(super) fn welcome(api: &Api) -> String {
    format!(
        "Heartline {} on node {}\n\nSockets: /v1/ws   REST: /openapi.json   Health: /readyz\n",
        env!("CARGO_PKG_VERSION"),
        api.gateway.node_id()
    )
}

pub(super) async fn livez() -> Response {
    Json(Health { status: "live", degraded: Vec::new() }).into_response()
}

pub(super) async fn readyz(State(api): State<Api>) -> Response {
    let mut degraded = Vec::new();
    if api.stop.is_cancelled() || api.gateway.is_draining() {
        degraded.push("draining");
    }
    if !api.authenticator.is_ready() {
        degraded.push("signing_keys");
    }
    if api.gateway.budget().used() > api.gateway.budget().refuse_above() {
        degraded.push("outbox_memory");
    }
    let cluster = api.cluster.as_ref();
    if cluster.is_some_and(|cluster| cluster.is_worse_off()) {
        degraded.push("redis_link");
    }
    let is_ready = degraded.is_empty();
    // The outages below affect all nodes alike: they are listed, but the node accepts connections.
    if !api.chat.availability.is_available() {
        degraded.push("store");
    }
    if cluster.is_some_and(|cluster| !cluster.broker_is_healthy()) {
        degraded.push("redis");
    }
    if is_ready {
        return Json(Health { status: "ready", degraded }).into_response();
    }
    let health = Json(Health { status: "not_ready", degraded });
    (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")], health).into_response()
}
