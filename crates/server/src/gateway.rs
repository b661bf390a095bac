//! The gateway plane of a node: connections, and the party sessions of their users.

use std::sync::Arc;
use std::time::Duration;

use heartline_gateway::{Gateway, GraphQl, drain};
use heartline_routing::Nodes;

use crate::lifecycle::Lifecycle;
use crate::party::PartyPlane;

/// The sockets that a listener hands over after an upgrade.
#[derive(Debug, Clone)]
pub(crate) struct Sockets {
    /// Serves connections.
    pub(crate) gateway: Arc<Gateway>,
    /// Answers the operations of GraphQL connections.
    pub(crate) graphql: Arc<dyn GraphQl>,
}

impl Sockets {
    /// Starts every task of the plane. When the node stops, party members leave and connections
    /// close before the drain ends.
    pub(crate) fn start(
        gateway: Arc<Gateway>,
        party: &PartyPlane,
        nodes: Arc<dyn Nodes>,
        lifecycle: &Lifecycle,
        drain_timeout: Duration,
    ) -> Self {
        lifecycle.spawn_support("party", party.rooms.clone().run(nodes));
        lifecycle.spawn_support("shed", drain::shed(Arc::clone(&gateway)));
        let (leaving, rooms) = (Arc::clone(&gateway), party.rooms.clone());
        let stop = lifecycle.soft_stop();
        lifecycle.spawn("drain", async move {
            stop.cancelled().await;
            leaving.stop_accepting();
            rooms.leave(drain_timeout / 4).await;
            drain::drain(&leaving).await;
        });
        Self { gateway, graphql: party.graphql() }
    }
}
