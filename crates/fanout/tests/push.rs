//! The destinations of a push of the application's back end.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use heartline_fanout::{Fanout, Metrics, Push};
use heartline_protocol::{ConnectionId, NodeId, Timestamp, UserId};
use heartline_routing::{
    Envelope, Lease, LeaseKey, LeaseKind, Leases, LinkError, LocalSockets, MemoryDirectory,
    NodeLink, NodeRecord, Nodes, Policy,
};
use heartline_runtime::Clock;
use serde_json::Value;

/// A link that accepts everything, to nodes of which one is cut off from the directory.
#[derive(Debug, Default)]
struct Network {
    sent: Mutex<Vec<(NodeId, Vec<UserId>)>>,
}

#[async_trait]
impl NodeLink for Network {
    async fn send(&self, node_id: &NodeId, envelope: Envelope) -> Result<(), LinkError> {
        let Envelope::Push { user_ids, .. } = envelope else { unreachable!("a push") };
        self.sent.lock().unwrap().push((node_id.clone(), user_ids.to_vec()));
        Ok(())
    }

    fn peers(&self) -> Vec<NodeId> {
        vec![node("heard"), node("cut-off")]
    }

    fn cut_off(&self) -> Vec<NodeId> {
        vec![node("cut-off")]
    }
}

/// A node with one socket.
#[derive(Debug)]
struct OneSocket;

#[async_trait]
impl LocalSockets for OneSocket {
    async fn push(&self, _: &[UserId], _: &Bytes) -> usize {
        1
    }
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn users(names: &[&str]) -> Vec<UserId> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Registers a connection of a user to a node.
async fn connect(directory: &MemoryDirectory, user: &str, node_id: NodeId, number: u128) {
    let record = NodeRecord {
        node_id: node_id.clone(),
        address: None,
        planes: String::new(),
        started_at: Timestamp { unix_ms: 0 },
        connections: 1,
    };
    let lease = Duration::from_secs(60);
    directory.announce(&record, lease).await.unwrap();
    let connection_id = ConnectionId { ulid: number.into(), shard: 0 };
    let key = LeaseKey { user_id: user.parse().unwrap(), node_id, connection_id };
    let (device_id, kind) = ("phone".parse().unwrap(), LeaseKind::Chat);
    let claim = Lease { key, device_id, kind, age: Duration::ZERO, again: false };
    let policy = Policy {
        single_session: false,
        connections_per_user: 20,
        lease,
        offline_linger: Duration::ZERO,
    };
    directory.register(claim, policy).await.unwrap();
}

#[tokio::test]
async fn a_push_is_also_sent_to_a_node_that_is_cut_off_from_the_directory() {
    let directory = MemoryDirectory::new(1, Clock::system());
    connect(&directory, "ana", node("heard"), 1).await;
    connect(&directory, "bo", node("cut-off"), 2).await;
    let link = Arc::new(Network::default());
    let fanout = Fanout {
        node_id: node("own"),
        routes: Arc::new(directory),
        link: Arc::clone(&link) as Arc<dyn NodeLink>,
        sockets: Arc::new(OneSocket),
        clock: Clock::system(),
        metrics: Metrics::default(),
    };
    let everybody = users(&["ana", "bo", "cy"]);
    let push = Push { user_ids: everybody.clone(), name: "news".to_owned(), data: Value::Null };
    assert_eq!(fanout.push(push).await.unwrap(), 3, "two are leased elsewhere, one is here");
    let mut sent = link.sent.lock().unwrap().clone();
    sent.sort();
    let expected = [(node("cut-off"), everybody), (node("heard"), users(&["ana"]))];
    assert_eq!(sent, expected, "connections to a node that is cut off are in no directory");
}
