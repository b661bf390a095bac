//! Nodes, and routes to them.

use std::slice;
use std::time::Duration;

use heartline_protocol::{NodeId, UserId};
use tokio::time::sleep;

use super::{Contract, LEASE, LONG, policy, record};
use crate::directory::Route;

/// How long other nodes may take to detect a withdrawn node.
const NOTICED: Duration = Duration::from_secs(5);

impl Contract<'_> {
    pub(super) async fn prove_nodes(&self) {
        self.a_node_is_there_while_it_announces_itself().await;
        self.routes_lead_to_other_nodes_with_chat_connections().await;
        self.a_route_counts_from_the_moment_its_node_is_announced().await;
        self.a_route_ends_with_its_connection_and_with_its_node().await;
    }

    async fn routes(&self, user_ids: &[UserId], own: &NodeId) -> Vec<Route> {
        let routes = self.other().routes(user_ids, own).await;
        let mut routes = routes.expect("the directory answers");
        routes.sort_by(|one, next| one.node_id.cmp(&next.node_id));
        routes
    }

    async fn announce(&self, node_id: &NodeId, duration: Duration) {
        let announced = self.first().announce(&record(node_id), duration).await;
        announced.expect("the directory answers");
    }

    async fn a_node_is_there_while_it_announces_itself(&self) {
        let (staying, silent, leaving) = (self.node(), self.node(), self.node());
        self.announce(&staying, LONG).await;
        self.announce(&silent, LEASE).await;
        self.announce(&leaving, LONG).await;
        let nodes = self.other().nodes().await.expect("the directory answers");
        for node_id in [&staying, &silent, &leaving] {
            let node = nodes.iter().find(|node| node.record.node_id == *node_id);
            let node = node.expect("it was announced");
            assert_eq!(node.record, record(node_id));
            assert!(node.remaining <= LONG && !node.remaining.is_zero());
        }
        self.first().withdraw(&leaving).await.expect("the directory answers");
        self.outlive_lease().await;
        let nodes = self.other().nodes().await.expect("the directory answers");
        let is_there = |node_id: &NodeId| nodes.iter().any(|node| node.record.node_id == *node_id);
        assert!(is_there(&staying) && !is_there(&silent) && !is_there(&leaving));
        self.announce(&silent, LONG).await;
        let nodes = self.other().nodes().await.expect("the directory answers");
        assert!(nodes.iter().any(|node| node.record.node_id == silent), "it may come back");
    }

    async fn routes_lead_to_other_nodes_with_chat_connections(&self) {
        let (user, also, nobody) = (self.user(), self.user(), self.user());
        let here = self.announced_node().await;
        let there = self.announced_node().await;
        let leases = [
            self.lease(&user, &here, "d1"),
            self.lease(&user, &there, "d2"),
            self.lease(&user, &there, "d3"),
            self.party(&user, &self.announced_node().await, "d4"),
            self.lease(&also, &there, "d1"),
            self.party(&also, &here, "d2"),
        ];
        for lease in &leases {
            self.connect(lease, policy(LONG)).await;
        }
        let users = [nobody, user.clone(), also.clone()];
        let users_there = vec![user.clone(), also.clone()];
        let route = Route { node_id: there.clone(), user_ids: users_there, connections: 3 };
        assert_eq!(self.routes(&users, &here).await, [route]);
        let back = Route { node_id: here.clone(), user_ids: vec![user], connections: 1 };
        assert_eq!(self.routes(&users, &there).await, [back], "party sockets are no targets");
        assert_eq!(self.routes(&[], &here).await, []);
        for lease in &leases {
            self.disconnect(lease).await;
        }
    }

    async fn a_route_counts_from_the_moment_its_node_is_announced(&self) {
        let (user, node, own) = (self.user(), self.node(), self.node());
        let lease = self.lease(&user, &node, "phone");
        self.connect(&lease, policy(LONG)).await;
        assert_eq!(self.routes(slice::from_ref(&user), &own).await, []);
        self.announce(&node, LONG).await;
        let routes = self.routes(slice::from_ref(&user), &own).await;
        assert_eq!(routes.len(), 1, "the caller reads the nodes again before it skips one");
        self.disconnect(&lease).await;
    }

    async fn a_route_ends_with_its_connection_and_with_its_node(&self) {
        let (user, own) = (self.user(), self.node());
        let (silent, leaving) = (self.node(), self.node());
        self.announce(&silent, LEASE).await;
        self.announce(&leaving, LONG).await;
        let leases = [&silent, &leaving].map(|node| self.lease(&user, node, node.as_str()));
        for lease in &leases {
            self.connect(lease, policy(LONG)).await;
        }
        let users = slice::from_ref(&user);
        assert_eq!(self.routes(users, &own).await.len(), 2);
        self.outlive_lease().await;
        let routes = self.routes(users, &own).await;
        assert_eq!(routes.len(), 1, "a node that is silent for its lease is skipped");
        assert_eq!(routes[0].node_id, leaving);
        self.first().withdraw(&leaving).await.expect("the directory answers");
        let mut waited = Duration::ZERO;
        while !self.routes(users, &own).await.is_empty() {
            assert!(waited < NOTICED, "a withdrawn node is skipped");
            sleep(LEASE / 4).await;
            waited += LEASE / 4;
        }
        self.announce(&leaving, LONG).await;
        assert_eq!(self.routes(users, &own).await.len(), 1);
        self.disconnect(&leases[1]).await;
        assert_eq!(self.routes(users, &own).await, []);
        self.disconnect(&leases[0]).await;
    }
}
