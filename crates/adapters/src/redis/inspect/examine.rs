//! The rules of the stored data, one kind of item at a time.

use std::collections::HashMap;
use std::time::Duration;

use heartline_protocol::{ConnectionId, NodeId, UserId};
use redis::{Pipeline, Value, cmd};

use super::{Anomaly, Rule};
use crate::redis::client::{RedisClient, time_ms, typed};
use crate::redis::failure::RedisFailure;
use crate::redis::keys::{Keys, lease_of};
use crate::redis::scripts::{INDEX_TTL, SESSION_TTL, ms};

/// How much later than planned a sweep may come.
const SWEEP_LATE_MS: u64 = 5000;

/// An item that can be examined by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Item {
    /// An index key, which must end by itself.
    Key(String),
    /// A user's routes, connections and presence.
    User(UserId),
    /// A connection's own key.
    Connection(ConnectionId),
    /// A lease set and a member of it.
    Lease(String, String),
    /// A connection in the list of a node.
    Listed(NodeId, ConnectionId),
}

/// Examines items.
#[derive(Debug)]
pub(super) struct Examiner {
    client: RedisClient,
    keys: Keys,
    lease: Duration,
}

/// A connection of a user: its id, kind and node, and the end of its lease if it has one.
type Connection = (String, String, String, Option<u64>);

/// The stored data of a user.
struct User {
    now_ms: u64,
    servers: HashMap<String, u64>,
    connections: Vec<Connection>,
    status: Option<String>,
    kept_until: Option<u64>,
}

/// The id, kind and node of connections as the index has them.
fn connections(stored: Vec<(String, String)>) -> Vec<(String, String, String)> {
    let fields = stored.into_iter().map(|(connection, fields)| {
        let mut fields = fields.splitn(4, '/').map(str::to_owned);
        let kind = fields.next().unwrap_or_default();
        (connection, kind, fields.next().unwrap_or_default())
    });
    fields.collect()
}

impl User {
    fn faults_of_connections(&self) -> Vec<String> {
        let fault = |(connection, _, _, ends_at): &Connection| match ends_at {
            None => Some(format!("{connection} has no lease")),
            Some(ends_at) if ends_at + SWEEP_LATE_MS < self.now_ms => {
                Some(format!("{connection} ran out and was not swept"))
            }
            Some(_) => None,
        };
        self.connections.iter().filter_map(fault).collect()
    }

    /// A route has at least as many connections as are live, and at most as many as are listed:
    /// between the two are those that ran out and are not swept yet.
    fn faults_of_routes(&self) -> Vec<String> {
        let mut listed: HashMap<&str, u64> = HashMap::new();
        let mut live: HashMap<&str, u64> = HashMap::new();
        for (_, kind, node, ends_at) in &self.connections {
            if kind == "chat" {
                *listed.entry(node).or_default() += 1;
                *live.entry(node).or_default() += u64::from(*ends_at > Some(self.now_ms));
            }
        }
        let mut faults = Vec::new();
        for (node, count) in &self.servers {
            if *count > listed.get(node.as_str()).copied().unwrap_or_default() {
                faults.push(format!("{node} is said to hold {count} connections"));
            }
        }
        for (node, count) in live {
            if self.servers.get(node).copied().unwrap_or_default() < count {
                faults.push(format!("{node} holds {count} connections that have no route"));
            }
        }
        faults
    }

    fn fault_of_presence(&self) -> Option<String> {
        let is_online = self.status.as_deref() == Some("online");
        let is_live = self.connections.iter().any(|(.., ends_at)| *ends_at > Some(self.now_ms));
        let is_kept = self.kept_until.is_some_and(|end| end + SWEEP_LATE_MS > self.now_ms);
        if is_online && self.connections.is_empty() && !is_kept {
            return Some("online without a lease".to_owned());
        }
        (is_live && !is_online).then(|| "not online with a live lease".to_owned())
    }
}

impl Examiner {
    pub(super) fn new(client: RedisClient, keys: Keys, lease: Duration) -> Self {
        Self { client, keys, lease }
    }

    /// The inconsistency of an item at this moment, if any.
    pub(super) async fn examine(&self, item: &Item) -> Result<Vec<Anomaly>, RedisFailure> {
        match item {
            Item::Key(name) => self.examine_key(name).await,
            Item::User(user_id) => self.examine_user(user_id).await,
            Item::Connection(connection_id) => self.examine_connection(*connection_id).await,
            Item::Lease(key, member) => self.examine_lease(key, member).await,
            Item::Listed(node_id, connection_id) => {
                self.examine_listed(node_id, *connection_id).await
            }
        }
    }

    async fn examine_key(&self, name: &str) -> Result<Vec<Anomaly>, RedisFailure> {
        let ttl_ms: i64 = self.client.query(cmd("PTTL").arg(name)).await?;
        let is_session = name.starts_with(&format!("{}session:", self.keys.prefix()));
        let is_presence = name.starts_with(&format!("{}user_presence:", self.keys.prefix()));
        let longest = match (is_session, is_presence) {
            (true, _) => SESSION_TTL,
            // A user who is kept online is remembered beyond that time.
            (_, true) => INDEX_TTL * 2,
            _ => INDEX_TTL,
        };
        let what = match u64::try_from(ttl_ms) {
            Ok(ttl_ms) if ttl_ms <= ms(longest) => return Ok(Vec::new()),
            Ok(ttl_ms) => format!("it lives for {ttl_ms} ms, which is too long"),
            // The connection has ended meanwhile.
            Err(_) if ttl_ms == -2 => return Ok(Vec::new()),
            Err(_) => "it never ends".to_owned(),
        };
        Ok(vec![Anomaly { key: name.to_owned(), rule: Rule::KeysEnd, what }])
    }

    async fn examine_user(&self, user_id: &UserId) -> Result<Vec<Anomaly>, RedisFailure> {
        if self.is_uncertain(self.keys.shard_of(user_id)).await? {
            return Ok(Vec::new());
        }
        let user = self.read_user(user_id).await?;
        let mut anomalies = Vec::new();
        let mut find = |key: &str, rule: Rule, what: String| {
            anomalies.push(Anomaly { key: key.to_owned(), rule, what });
        };
        let user_connections = self.keys.user_connections(user_id);
        for what in user.faults_of_connections() {
            find(&user_connections, Rule::NoZombies, what);
        }
        let user_servers = self.keys.user_servers(user_id);
        for what in user.faults_of_routes() {
            find(&user_servers, Rule::RoutesAgree, what);
        }
        for node in user.servers.keys() {
            if !self.is_known(node).await? {
                let what = format!("it leads to {node}, which does not announce itself");
                find(&user_servers, Rule::NoZombies, what);
            }
        }
        let user_presence = self.keys.user_presence(user_id);
        if let Some(what) = user.fault_of_presence() {
            find(&user_presence, Rule::PresenceIsDerived, what);
        }
        Ok(anomalies)
    }

    /// Reads the leases first and then everything else, so that a connection which ends meanwhile
    /// does not count as one without a lease.
    async fn read_user(&self, user_id: &UserId) -> Result<User, RedisFailure> {
        let user_connections = self.keys.user_connections(user_id);
        let listed = self.client.query(cmd("HGETALL").arg(&user_connections)).await?;
        let listed = connections(listed).into_iter();
        let members = listed.map(|(id, _, node)| (id.clone(), format!("{user_id}/{node}/{id}")));
        let (ids, mut members): (Vec<String>, Vec<String>) = members.unzip();
        members.push(format!("{user_id}//"));
        let leases = self.keys.leases(self.keys.shard_of(user_id));
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZMSCORE").arg(leases).arg(members).cmd("TIME");
        pipeline.cmd("HGETALL").arg(self.keys.user_servers(user_id));
        pipeline.cmd("HGETALL").arg(user_connections);
        pipeline.cmd("HGET").arg(self.keys.user_presence(user_id)).arg("status");
        let mut replies = self.client.pipe(&pipeline).await?.into_iter();
        let mut next = || replies.next().unwrap_or(Value::Nil);
        let mut ends: Vec<Option<f64>> = typed(next())?;
        let now_ms = time_ms(next())?;
        let kept_until = ends.pop().flatten().map(|end| end as u64);
        let ends = ends.into_iter().map(|end| end.map(|end| end as u64));
        let ends: HashMap<String, Option<u64>> = ids.into_iter().zip(ends).collect();
        let servers = typed(next())?;
        let connections = connections(typed(next())?).into_iter().map(|(id, kind, node)| {
            // One that has just come counts neither as live nor as run out.
            let ends_at = ends.get(&id).copied().unwrap_or(Some(now_ms));
            (id, kind, node, ends_at)
        });
        let connections = connections.collect();
        Ok(User { now_ms, servers, connections, status: typed(next())?, kept_until })
    }

    async fn examine_connection(&self, id: ConnectionId) -> Result<Vec<Anomaly>, RedisFailure> {
        let key = self.keys.connection(id);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HMGET").arg(&key).arg(&["user", "node"]).cmd("EXISTS").arg(&key);
        let mut replies = self.client.pipe(&pipeline).await?;
        let is_there: bool = typed(replies.pop().unwrap_or(Value::Nil))?;
        let fields: (Option<String>, Option<String>) = typed(replies.pop().unwrap_or(Value::Nil))?;
        // The connection has ended meanwhile.
        if !is_there {
            return Ok(Vec::new());
        }
        let (user, node) = (fields.0.unwrap_or_default(), fields.1.unwrap_or_default());
        let (Ok(user_id), Ok(node_id)) = (user.parse::<UserId>(), node.parse::<NodeId>()) else {
            let what = "it names no user or node".to_owned();
            return Ok(vec![Anomaly { key, rule: Rule::OneRecord, what }]);
        };
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HEXISTS").arg(self.keys.user_connections(&user_id)).arg(id.to_string());
        pipeline.cmd("SISMEMBER").arg(self.keys.server_connections(&node_id)).arg(id.to_string());
        let replies = self.client.pipe(&pipeline).await?;
        let missing = ["it is missing in user_connections", "it is missing in server_connections"];
        let mut anomalies = Vec::new();
        for (reply, what) in replies.into_iter().zip(missing) {
            if !typed::<bool>(reply)? {
                let (key, rule) = (key.clone(), Rule::OneRecord);
                anomalies.push(Anomaly { key, rule, what: what.to_owned() });
            }
        }
        Ok(anomalies)
    }

    async fn examine_lease(&self, key: &str, member: &str) -> Result<Vec<Anomaly>, RedisFailure> {
        let Some(user_id) = member.split('/').next().and_then(|user| user.parse::<UserId>().ok())
        else {
            let what = format!("{member} names no user");
            return Ok(vec![Anomaly { key: key.to_owned(), rule: Rule::OneRecord, what }]);
        };
        let shard = self.keys.shard_of(&user_id);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZSCORE").arg(key).arg(member).cmd("TIME");
        if let Some(lease) = lease_of(member) {
            let id = lease.connection_id.to_string();
            pipeline.cmd("HEXISTS").arg(self.keys.user_connections(&user_id)).arg(id);
            let connection = self.keys.connection(lease.connection_id);
            pipeline.cmd("HMGET").arg(connection).arg(&["user", "node"]);
        }
        let replies = self.client.pipe(&pipeline).await?;
        let Some(ends_at) = typed::<Option<f64>>(replies[0].clone())?.map(|end| end as u64) else {
            return Ok(Vec::new());
        };
        let now_ms = time_ms(replies[1].clone())?;
        let mut anomalies = Vec::new();
        let mut find =
            |rule: Rule, what: String| anomalies.push(Anomaly { key: key.to_owned(), rule, what });
        if key != self.keys.leases(shard) {
            find(Rule::OneRecord, format!("{member} is in a shard that is not the user's"));
        }
        let is_kept = lease_of(member).is_none();
        if !is_kept && ends_at > now_ms + ms(self.lease) + 1000 {
            let what = format!("{member} lasts {} ms, longer than a lease", ends_at - now_ms);
            find(Rule::KeysEnd, what);
        }
        if ends_at + SWEEP_LATE_MS < now_ms && !self.is_uncertain(shard).await? {
            let what = format!("{member} ran out {} ms ago and was not swept", now_ms - ends_at);
            find(Rule::NoZombies, what);
        }
        let Some(lease) = lease_of(member) else { return Ok(anomalies) };
        if !typed::<bool>(replies[2].clone())? {
            find(Rule::OneRecord, format!("{member} is missing in user_connections"));
        }
        let record: (Option<String>, Option<String>) = typed(replies[3].clone())?;
        match record {
            (Some(user), Some(node)) => {
                if user != lease.user_id.as_str() || node != lease.node_id.as_str() {
                    let what = format!("{member} is recorded as a connection of {user} on {node}");
                    find(Rule::OneRecord, what);
                }
            }
            _ => find(Rule::OneRecord, format!("{member} is missing in connection")),
        }
        Ok(anomalies)
    }

    async fn examine_listed(
        &self,
        node_id: &NodeId,
        id: ConnectionId,
    ) -> Result<Vec<Anomaly>, RedisFailure> {
        let key = self.keys.server_connections(node_id);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SISMEMBER").arg(&key).arg(id.to_string());
        pipeline.cmd("HGET").arg(self.keys.connection(id)).arg("node");
        let replies = self.client.pipe(&pipeline).await?;
        let node: Option<String> = typed(replies[1].clone())?;
        let is_listed: bool = typed(replies[0].clone())?;
        if !is_listed || node.as_deref() == Some(node_id.as_str()) {
            return Ok(Vec::new());
        }
        let what = format!("{id} is no connection of this node");
        Ok(vec![Anomaly { key, rule: Rule::OneRecord, what }])
    }

    /// Whether a shard is being rebuilt, so that nothing in it means anything.
    async fn is_uncertain(&self, shard: u16) -> Result<bool, RedisFailure> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HGET").arg(self.keys.epoch(shard)).arg("rebuild_until").cmd("TIME");
        let mut replies = self.client.pipe(&pipeline).await?;
        let now_ms = time_ms(replies.pop().unwrap_or(Value::Nil))?;
        let rebuild_until: Option<u64> = typed(replies.pop().unwrap_or(Value::Nil))?;
        Ok(rebuild_until.is_none_or(|rebuild_until| rebuild_until > now_ms))
    }

    /// Whether a node announces itself, or did until a moment ago.
    async fn is_known(&self, node: &str) -> Result<bool, RedisFailure> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZSCORE").arg(self.keys.servers()).arg(node).cmd("TIME");
        let mut replies = self.client.pipe(&pipeline).await?;
        let now_ms = time_ms(replies.pop().unwrap_or(Value::Nil))?;
        let ends_at: Option<f64> = typed(replies.pop().unwrap_or(Value::Nil))?;
        Ok(ends_at.is_some_and(|end| end as u64 + SWEEP_LATE_MS > now_ms))
    }
}
