//! `/v1/admin`: list nodes, list and end connections.

use std::cmp::Reverse;

use axum::Json;
use axum::extract::State;
use heartline_gateway::Refusal;
use heartline_protocol::rest::Page;
use heartline_protocol::{
    CloseReason, ConnectionId, DeviceId, ErrorCode, NodeId, Timestamp, UserId,
};
use heartline_routing::{DirectoryError, Envelope, LeaseKey, LiveConnection, LiveNode};
use serde::Serialize;
use tracing::{info, warn};

use super::caller::Service;
use super::path::PathId;
use super::query::Query;
use super::{Api, Refused};

/// A live connection as an operator sees it.
#[derive(Debug, Serialize)]
pub(super) struct ConnectionView {
    connection_id: ConnectionId,
    device_id: DeviceId,
    kind: &'static str,
    node: NodeId,
    connected_at: Timestamp,
    lease_ends_at: Timestamp,
    /// The queued frames; absent for a connection on another node.
    #[serde(skip_serializing_if = "Option::is_none")]
    outbox: Option<OutboxView>,
}

/// A connection of the node that serves the request.
#[derive(Debug, Serialize)]
pub(super) struct NodeConnectionView {
    connection_id: ConnectionId,
    user_id: UserId,
    device_id: DeviceId,
    kind: &'static str,
    connected_at: Timestamp,
    outbox: OutboxView,
}

#[derive(Debug, Serialize)]
struct OutboxView {
    messages: usize,
    bytes: usize,
}

/// A node as an operator sees it.
#[derive(Debug, Serialize)]
pub(super) struct NodeView {
    node_id: NodeId,
    name: String,
    /// The address for direct links from other nodes; absent on a single node.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    planes: Vec<String>,
    connections: usize,
    started_at: Timestamp,
    lease_ends_at: Timestamp,
}

/// The number of connections that are being closed.
#[derive(Debug, Serialize)]
pub(super) struct Ended {
    connections: usize,
}

pub(super) async fn list_connections(
    State(api): State<Api>,
    _: Service,
    PathId(user_id): PathId<UserId>,
) -> Result<Json<Page<ConnectionView>>, Refused> {
    let live = live_connections(&api, user_id).await?;
    let items = live.into_iter().map(|live| view(&api, live)).collect();
    Ok(Json(Page { items, next_cursor: None }))
}

/// The connections of this node, ordered by the bytes in their outbox, then the newest first.
pub(super) async fn list_node_connections(
    State(api): State<Api>,
    _: Service,
    query: Query,
) -> Result<Json<Page<NodeConnectionView>>, Refused> {
    let limit = query.limit()?;
    let (now, wall) = (api.gateway.clock().now(), api.gateway.clock().wall());
    let mut items: Vec<_> = api
        .gateway
        .hub()
        .all()
        .iter()
        .filter_map(|handle| {
            let identity = handle.identity()?;
            let load = handle.outbox.load();
            Some(NodeConnectionView {
                connection_id: identity.key.connection_id,
                user_id: identity.key.user_id.clone(),
                device_id: identity.device_id.clone(),
                kind: handle.kind().as_str(),
                connected_at: wall.minus(handle.age(now)),
                outbox: OutboxView { messages: load.messages, bytes: load.bytes },
            })
        })
        .collect();
    items.sort_by_key(|item| Reverse((item.outbox.bytes, item.connected_at)));
    items.truncate(limit);
    Ok(Json(Page { items, next_cursor: None }))
}

pub(super) async fn end_connections(
    State(api): State<Api>,
    _: Service,
    PathId(user_id): PathId<UserId>,
) -> Result<Json<Ended>, Refused> {
    let live = live_connections(&api, user_id).await?;
    let leases = live.into_iter().map(|live| live.key).collect();
    Ok(Json(end(&api, leases).await))
}

pub(super) async fn end_connection(
    State(api): State<Api>,
    _: Service,
    PathId(connection_id): PathId<ConnectionId>,
) -> Result<Json<Ended>, Refused> {
    let found = api.directory.connections.by_connection(connection_id).await;
    let found = found.map_err(|error| unavailable(&error))?;
    let live =
        found.ok_or_else(|| Refusal::new(ErrorCode::NotFound, "no such connection is open"))?;
    Ok(Json(end(&api, vec![live.key]).await))
}

pub(super) async fn list_nodes(
    State(api): State<Api>,
    _: Service,
) -> Result<Json<Page<NodeView>>, Refused> {
    let now = api.gateway.clock().wall();
    let mut nodes = api.directory.nodes.nodes().await.map_err(|error| unavailable(&error))?;
    nodes.sort_by(|left, right| left.record.node_id.cmp(&right.record.node_id));
    let view = |LiveNode { record, remaining }: LiveNode| {
        let id = record.node_id.as_str();
        let name = id.rsplit_once('-').map_or(id, |(name, _)| name).to_owned();
        NodeView {
            name,
            address: record.address,
            planes: record.planes.split(',').map(str::to_owned).collect(),
            connections: record.connections,
            started_at: record.started_at,
            lease_ends_at: now.plus(remaining),
            node_id: record.node_id,
        }
    };
    Ok(Json(Page { items: nodes.into_iter().map(view).collect(), next_cursor: None }))
}

async fn live_connections(api: &Api, user_id: UserId) -> Result<Vec<LiveConnection>, Refusal> {
    let live =
        api.directory.connections.by_user(&[user_id]).await.map_err(|error| unavailable(&error))?;
    Ok(live.into_iter().flatten().collect())
}

/// Asks the node of each connection to close it.
async fn end(api: &Api, leases: Vec<LeaseKey>) -> Ended {
    let mut connections = 0;
    for lease in leases {
        let (node_id, connection_id) = (lease.node_id.clone(), lease.connection_id);
        let envelope = Envelope::Close { leases: vec![lease], reason: CloseReason::SessionEnded };
        match api.fanout.link.send(&node_id, envelope).await {
            Ok(()) => {
                info!(%connection_id, node = %node_id, "connection ended by an operator");
                connections += 1;
            }
            Err(error) => warn!(%error, %connection_id, "ending a connection failed"),
        }
    }
    Ended { connections }
}

fn view(api: &Api, live: LiveConnection) -> ConnectionView {
    let now = api.gateway.clock().wall();
    let outbox = api.gateway.hub().find(&live.key).map(|handle| {
        let load = handle.outbox.load();
        OutboxView { messages: load.messages, bytes: load.bytes }
    });
    ConnectionView {
        connection_id: live.key.connection_id,
        device_id: live.device_id,
        kind: live.kind.as_str(),
        node: live.key.node_id,
        connected_at: now.minus(live.age),
        lease_ends_at: now.plus(live.remaining),
        outbox,
    }
}

fn unavailable(error: &DirectoryError) -> Refusal {
    warn!(%error, "reading the directory for an admin request failed");
    Refusal::later(ErrorCode::ServiceUnavailable, error.to_string(), 5)
}
