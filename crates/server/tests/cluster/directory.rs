//! The keys of connections in Redis, read with `redis-cli`, and the state that nodes report.

use std::collections::BTreeMap;

use crate::nodes::{Cluster, Node};

/// A connection as `connection_established` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) user: String,
    pub(crate) node: String,
    pub(crate) id: String,
}

impl Connection {
    pub(crate) fn of(established: &serde_json::Value) -> Self {
        let text = |field: &str| established[field].as_str().unwrap().to_owned();
        Self { user: text("user_id"), node: text("server_id"), id: text("connection_id") }
    }

    /// The part of the directory that holds its lease: the end of its id.
    fn shard(&self) -> &str {
        self.id.rsplit('_').next().unwrap()
    }
}

impl Cluster {
    /// The routing table of a user: how many connections are on which node.
    pub(crate) fn routes(&self, user: &str) -> BTreeMap<String, String> {
        self.hash(&format!("user_servers:{user}"))
    }

    /// The nodes that the routing table of a user names.
    pub(crate) fn routed_nodes(&self, user: &str) -> Vec<String> {
        self.routes(user).into_keys().collect()
    }

    /// The connections of a user by the index.
    pub(crate) fn connections(&self, user: &str) -> Vec<String> {
        self.hash(&format!("user_connections:{user}")).into_keys().collect()
    }

    /// A hash, with its fields.
    pub(crate) fn hash(&self, key: &str) -> BTreeMap<String, String> {
        let text = self.redis.command(&["HGETALL", key]);
        let lines: Vec<&str> = text.lines().collect();
        lines.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
    }

    /// The end of a connection's lease in milliseconds; none without a lease.
    pub(crate) fn lease_end(&self, connection: &Connection) -> Option<u64> {
        let Connection { user, node, id } = connection;
        let key = format!("presence:leases:{}", connection.shard());
        self.redis.command(&["ZSCORE", &key, &format!("{user}/{node}/{id}")]).parse().ok()
    }

    /// The time of Redis in milliseconds.
    pub(crate) fn redis_ms(&self) -> u64 {
        let text = self.redis.command(&["TIME"]);
        let parts: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        parts[0] * 1000 + parts[1] / 1000
    }
}

impl Node {
    /// The nodes on which an operator, asking here, sees connections of a user; once for each.
    pub(crate) async fn listed_nodes(&self, user: &str) -> Vec<String> {
        let page = self.admin("GET", &format!("/v1/admin/users/{user}/connections")).await;
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["node"].as_str().unwrap().to_owned()).collect()
    }
}
