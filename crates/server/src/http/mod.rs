//! Everything that is asked over plain HTTP.

mod admin;
mod body;
mod caller;
mod health;
mod path;
mod push;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use heartline_durability::{CatchUp, EventBus, Ingest, Members, Profiles};
use heartline_fanout::Fanout;
use heartline_gateway::auth::Authenticator;
use heartline_gateway::{Gateway, Refusal};
use heartline_protocol::ErrorCode;
use heartline_routing::Directory;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::registry::Registry;

use crate::lifecycle::Lifecycle;

/// What the handlers work with.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    /// The connection plane.
    pub(crate) gateway: Arc<Gateway>,
    /// Who pushes.
    pub(crate) fanout: Fanout,
    /// What is stored.
    pub(crate) chat: ChatParts,
    /// Who is where.
    pub(crate) directory: Arc<dyn Directory>,
    /// Who checks tokens.
    pub(crate) authenticator: Authenticator,
    /// What is counted.
    pub(crate) registry: Arc<Registry>,
    /// Whether the process is stopping.
    pub(crate) lifecycle: Lifecycle,
}

/// What the handlers store and read with.
#[derive(Debug, Clone)]
pub(crate) struct ChatParts {
    /// Takes sends.
    pub(crate) ingest: Ingest,
    /// Reads pages.
    pub(crate) catch_up: Arc<CatchUp>,
    /// Chats and who belongs to them.
    pub(crate) members: Arc<dyn Members>,
    /// What is known of people.
    pub(crate) profiles: Arc<dyn Profiles>,
    /// Where changes are announced.
    pub(crate) bus: Arc<dyn EventBus>,
}

/// The routes of the main listener; `with_metrics` puts `/metrics` among them.
pub(crate) fn router(api: Api, with_metrics: bool) -> Router {
    let mut router = Router::new()
        .route("/", get(health::welcome))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/v1/push", post(push::push))
        .route(
            "/v1/admin/users/{user_id}/connections",
            get(admin::list_connections).delete(admin::end_connections),
        )
        .route("/v1/admin/connections/{connection_id}", delete(admin::end_connection));
    if with_metrics {
        router = router.route("/metrics", get(metrics));
    }
    router.fallback(not_found).method_not_allowed_fallback(method_not_allowed).with_state(api)
}

/// The routes of the metrics' own listener.
pub(crate) fn metrics_router(api: Api) -> Router {
    Router::new().route("/metrics", get(metrics)).fallback(not_found).with_state(api)
}

/// A refusal as a handler answers it.
#[derive(Debug)]
struct Refused(Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.0.into_response().map(Body::from)
    }
}

async fn not_found() -> Refused {
    Refusal::new(ErrorCode::NotFound, "there is nothing at this path").into()
}

async fn method_not_allowed() -> Refused {
    let message = "this path does not take this method";
    Refusal::malformed(StatusCode::METHOD_NOT_ALLOWED, message).into()
}

async fn metrics(State(api): State<Api>) -> Result<Response, Refused> {
    api.gateway.observe();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &api.registry)
        .map_err(|_| Refusal::new(ErrorCode::InternalError, "metrics could not be written"))?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, content_type)], text).into_response())
}
