//! Plain HTTP: REST, GraphQL over POST, health, metrics and the page.
//!
//! `server` fills an [`Api`] and serves the [`router`] on its listener.

mod routes;
mod openapi;
mod cors;
mod caller;
mod path;
mod query;
mod cursor;
mod body;
mod field;
mod idempotency;
mod store;
mod privacy;
mod edit;
mod chats;
mod members;
mod messages;
mod users;
mod contacts;
mod visibility;
mod presence;
mod push;
mod admin;
mod party_query_rates;
mod graphql;
mod health;
mod page;
mod development;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRef, State};
use axum::middleware::{from_fn_with_state, map_response_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use heartline_auth::Authenticator;
use heartline_durability::{
    Availability, CatchUp, ChatChanges, Chats, Contacts, Ingest, LazyWrites, People, Privacy,
};
use heartline_fanout::Fanout;
use heartline_gateway::{Gateway, Refusal};
use heartline_party::{Party, Rooms};
use heartline_protocol::ErrorCode;
use heartline_protocol::rest::Visibility;
use heartline_routing::link::ClusterLink;
use heartline_routing::{Directory, Plane, Planes};
use heartline_runtime::Tasks;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

pub use self::development::Development;
pub use self::privacy::PrivacyChanges;

use self::caller::Service;
use self::edit::Edits;
use self::messages::SendRates;
use self::party_query_rates::PartyQueryRates;
use self::presence::PresenceQueryRates;

/// The parts that the handlers use.
#[derive(Debug, Clone)]
pub struct Api {
    /// The connection plane.
    pub gateway: Arc<Gateway>,
    /// Delivers pushes.
    pub fanout: Fanout,
    /// The leases, routes and presence of users.
    pub directory: Directory,
    /// Verifies tokens.
    pub authenticator: Authenticator,
    /// The metrics.
    pub registry: Arc<Registry>,
    /// Owns the tasks of changes, which finish although the client has disconnected.
    pub tasks: Tasks,
    /// Cancelled when the node stops and drains.
    pub stop: CancellationToken,
    /// Cancelled when the node drops all unfinished work.
    pub cut: CancellationToken,
    /// The link to other nodes; none for a node that is alone.
    pub cluster: Option<Arc<ClusterLink>>,
    /// The planes that this node runs.
    pub planes: Planes,
    /// The durability plane.
    pub chat: ChatParts,
    /// Party sessions.
    pub party: PartyApi,
    /// Signs tokens for users who sign in by name; none unless `heartline dev` runs the node.
    pub development: Option<Development>,
    /// The URL of the site of party sessions.
    pub site_url: Option<String>,
    /// The visibility of users who have not set one.
    pub default_visibility: Visibility,
    /// Notifies nodes of changes of privacy.
    pub privacy_changes: PrivacyChanges,
}

/// The parts of the durability plane that the handlers use.
#[derive(Debug, Clone)]
pub struct ChatParts {
    /// Stores messages.
    pub ingest: Ingest,
    /// Reads pages of messages.
    pub catch_up: Arc<CatchUp>,
    /// Chats and their members.
    pub chats: Arc<dyn Chats>,
    /// Profiles of users.
    pub people: Arc<dyn People>,
    /// Contacts of users.
    pub contacts: Arc<dyn Contacts>,
    /// The visibility of users' presence.
    pub privacy: Arc<dyn Privacy>,
    /// Watermarks and last-seen times that are not yet written.
    pub lazy_writes: LazyWrites,
    /// Changes chats and announces the changes.
    pub chat_changes: ChatChanges,
    /// The state of the store.
    pub availability: Availability,
}

/// Party sessions, for requests without a socket.
#[derive(Debug, Clone)]
pub struct PartyApi {
    /// Runs GraphQL requests.
    pub party: Party,
    /// The party sessions of this node.
    pub rooms: Rooms,
    /// The most requests per second of one address.
    pub query_rate: u32,
}

/// The state that the requests of a listener share. Handlers extract the parts that they need.
#[derive(Debug, Clone)]
struct Shared {
    api: Api,
    edits: Edits,
    send_rates: SendRates,
    presence_query_rates: PresenceQueryRates,
    party_query_rates: PartyQueryRates,
}

macro_rules! part_of_shared {
    ($($field:ident: $part:ty),*) => {
        $(
            impl FromRef<Shared> for $part {
                fn from_ref(shared: &Shared) -> Self {
                    shared.$field.clone()
                }
            }
        )*
    };
}

part_of_shared!(
    api: Api,
    edits: Edits,
    send_rates: SendRates,
    presence_query_rates: PresenceQueryRates
);

/// The routes of the main listener; `with_metrics` puts `/metrics` among them.
pub fn router(api: Api, with_metrics: bool) -> Router {
    let limits = &api.gateway.config().limits;
    let has_gateway = api.planes.contains(Plane::Gateway);
    let shared = Shared {
        edits: Edits::new(&api),
        send_rates: SendRates::new(limits),
        presence_query_rates: PresenceQueryRates::new(),
        party_query_rates: PartyQueryRates::new(api.party.query_rate),
        api: api.clone(),
    };
    routes::routes(with_metrics)
        .with_document()
        .merge(if has_gateway { party_routes() } else { no_gateway_routes() })
        .merge(page_routes())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(map_response_with_state(api.clone(), render_refusal))
        .layer(from_fn_with_state(api, cors::layer))
        .with_state(shared)
}

/// The routes of the gateway plane on a node without it.
fn no_gateway_routes() -> Router<Shared> {
    ["/v1/ws", "/graphql", "/health", "/join/{session_id}"]
        .iter()
        .fold(Router::new(), |router, path| router.route(path, any(no_gateway)))
}

/// The routes of party clients. They are not part of the OpenAPI document: GraphQL has its schema.
fn party_routes() -> Router<Shared> {
    let body = DefaultBodyLimit::max(graphql::BODY_BYTES_MAX);
    Router::new()
        .route("/graphql", post(graphql::run).layer(body))
        .route("/health", get(graphql::health))
        .route("/join/{session_id}", get(graphql::join))
}

/// The page and the routes that only the page uses.
fn page_routes() -> Router<Shared> {
    Router::new()
        .route("/page/node.json", get(page::facts))
        .route("/page/{name}", get(page::file))
        .route("/dev/token", post(development::sign_in))
}

/// The routes of the metrics' own listener.
pub fn metrics_router(api: Api) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(not_found)
        .layer(map_response_with_state(api.clone(), render_refusal))
        .with_state(api)
}

/// A [`Refusal`] as a response of a handler. The response carries the refusal until
/// [`render_refusal`] writes its body.
#[derive(Debug)]
struct Refused(Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.0.head().map(|()| Body::empty());
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Writes the body of a refusal, with an id for the request.
async fn render_refusal(State(api): State<Api>, mut response: Response) -> Response {
    match response.extensions_mut().remove::<Refusal>() {
        Some(refusal) => refusal.into_response(api.gateway.random()).map(Body::from),
        None => response,
    }
}

async fn no_gateway() -> Refused {
    let message = "this node does not run the gateway plane: connect to a node that does";
    Refusal::new(ErrorCode::NotFound, message).into()
}

async fn not_found() -> Refused {
    Refusal::new(ErrorCode::NotFound, "this path does not exist").into()
}

async fn method_not_allowed() -> Refused {
    let message = "this path does not support this method";
    Refusal::malformed(StatusCode::METHOD_NOT_ALLOWED, message).into()
}

async fn metrics_for_services(api: State<Api>, _: Service) -> Result<Response, Refused> {
    metrics(api).await
}

async fn metrics(State(api): State<Api>) -> Result<Response, Refused> {
    api.gateway.observe();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &api.registry)
        .map_err(|_| Refusal::new(ErrorCode::InternalError, "encoding the metrics failed"))?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, content_type)], text).into_response())
}
