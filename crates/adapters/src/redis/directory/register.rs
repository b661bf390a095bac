//! Registering and ending leases.

use std::time::Duration;

use heartline_protocol::{ConnectionId, NodeId, Timestamp};
use heartline_routing::{Lease, LeaseKey, Policy, Refusal, Registration};
use redis::Pipeline;
use tracing::debug;

use super::RedisDirectory;
use crate::redis::failure::RedisFailure;
use crate::redis::keys::lease_of;
use crate::redis::scripts::{INDEX_TTL, standing};

impl RedisDirectory {
    pub(super) async fn register_lease(
        &self,
        lease: &Lease,
        policy: Policy,
    ) -> Result<Registration, RedisFailure> {
        let asked_at = self.server_clock.guess_ms(self.keys.shard_of(&lease.key.user_id));
        let call = self.scripts.register_call(lease, policy, asked_at);
        let mut listing = Pipeline::with_capacity(2);
        self.list(&mut listing, std::slice::from_ref(&lease.key));
        // The node's own list is in another slot, so it is written beside the script.
        let (mut replies, is_listed) = tokio::join!(
            self.client.scripts(&self.scripts.register, vec![call]),
            self.client.pipe(&listing)
        );
        let reply = replies.pop().unwrap_or(Err(RedisFailure::unexpected("none")))?;
        if let Err(failure) = is_listed {
            debug!(%failure, "a connection is missing in its node's list until that is extended");
        }
        type Reply = (String, String, Vec<String>, Vec<String>);
        let (standing, (outcome, transition, replaced, ended)) = standing::<Reply>(reply)?;
        self.server_clock.note(self.keys.shard_of(&lease.key.user_id), standing.now_ms);
        if !transition.is_empty() {
            self.changes.report(&transition);
        }
        let refusal = match outcome.as_str() {
            "admitted" => None,
            "replaced" => Some(Refusal::Replaced),
            "limit" => Some(Refusal::ConnectionLimit),
            "late" => return Err(RedisFailure::Timeout),
            _ => return Err(RedisFailure::unexpected("a registration")),
        };
        if let Some(refusal) = refusal {
            self.unlist([listed(&lease.key)].into_iter()).await;
            return Ok(Registration::Refused(refusal));
        }
        let replaced: Vec<LeaseKey> = replaced.iter().filter_map(|it| lease_of(it)).collect();
        let ended = ended.iter().filter_map(|member| lease_of(member));
        let ended = ended.filter(|ended| *ended != lease.key);
        let removed: Vec<LeaseKey> = replaced.iter().cloned().chain(ended).collect();
        self.unlist(removed.iter().map(listed)).await;
        Ok(Registration::Admitted { replaced })
    }

    pub(super) async fn unregister_lease(
        &self,
        lease: &LeaseKey,
        keep: Duration,
    ) -> Result<Option<Timestamp>, RedisFailure> {
        let call = self.scripts.unregister_call(lease, keep);
        let (mut replies, ()) = tokio::join!(
            self.client.scripts(&self.scripts.unregister, vec![call]),
            self.unlist([listed(lease)].into_iter())
        );
        let reply = replies.pop().unwrap_or(Err(RedisFailure::unexpected("none")))?;
        let (standing, (transition, ended)) = standing::<(String, Vec<String>)>(reply)?;
        if !transition.is_empty() {
            self.changes.report(&transition);
        }
        let ended: Vec<LeaseKey> = ended.iter().filter_map(|member| lease_of(member)).collect();
        self.unlist(ended.iter().map(listed)).await;
        Ok(standing.is_rebuilding.then_some(Timestamp { unix_ms: standing.now_ms }))
    }

    /// Adds connections to the lists of their nodes.
    pub(super) fn list(&self, pipeline: &mut Pipeline, leases: &[LeaseKey]) {
        for (node_id, connections) in by_node(leases.iter().map(listed)) {
            let key = self.keys.server_connections(node_id);
            pipeline.cmd("SADD").arg(&key).arg(connections);
            pipeline.cmd("EXPIRE").arg(&key).arg(INDEX_TTL.as_secs());
        }
    }

    /// Removes connections from the lists of their nodes. If that fails, they are passed over when
    /// the list is read, and the list of a dead node ends by itself.
    pub(super) async fn unlist<'a>(&self, listed: impl Iterator<Item = Listed<'a>>) {
        let mut pipeline = Pipeline::new();
        for (node_id, connections) in by_node(listed) {
            pipeline.cmd("SREM").arg(self.keys.server_connections(node_id)).arg(connections);
        }
        if let Err(failure) = self.client.pipe(&pipeline).await {
            debug!(%failure, "connections that ended stay in their node's list for a while");
        }
    }
}

/// A connection in the list of its node.
pub(super) type Listed<'a> = (&'a NodeId, ConnectionId);

pub(super) fn listed(lease: &LeaseKey) -> Listed<'_> {
    (&lease.node_id, lease.connection_id)
}

fn by_node<'a>(listed: impl Iterator<Item = Listed<'a>>) -> Vec<(&'a NodeId, Vec<String>)> {
    let mut nodes: Vec<(&NodeId, Vec<String>)> = Vec::new();
    for (node_id, connection_id) in listed {
        let id = connection_id.to_string();
        match nodes.iter_mut().find(|(known, _)| *known == node_id) {
            Some((_, connections)) => connections.push(id),
            None => nodes.push((node_id, vec![id])),
        }
    }
    nodes
}
