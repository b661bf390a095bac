//! Reading connections and presence. Only live leases count: an index entry without one is skipped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use heartline_protocol::{ConnectionId, DeviceId, NodeId, Timestamp, UserId};
use heartline_routing::{LeaseKey, LeaseKind, LiveConnection, PresenceState};
use redis::{Pipeline, Value};

use super::RedisDirectory;
use crate::redis::client::{time_ms, typed};
use crate::redis::failure::RedisFailure;
use crate::redis::keys::member;

/// Connections looked up with one round trip.
const BATCH: usize = 500;

/// If a shard was not swept for this time, its next script begins a new epoch.
const SWEEP_SILENCE_MS: u64 = 5000;

/// A connection as the indexes describe it.
struct Entry {
    key: LeaseKey,
    device_id: DeviceId,
    kind: LeaseKind,
    connected_at_us: u64,
}

impl RedisDirectory {
    pub(super) async fn connections_of_users(
        &self,
        user_ids: &[UserId],
    ) -> Result<Vec<Vec<LiveConnection>>, RedisFailure> {
        let mut pipeline = Pipeline::with_capacity(user_ids.len());
        for user_id in user_ids {
            pipeline.cmd("HGETALL").arg(self.keys.user_connections(user_id));
        }
        // Keyed, because a user may be asked for twice.
        let mut entries: HashMap<&UserId, Vec<Entry>> = HashMap::new();
        for (user_id, reply) in user_ids.iter().zip(self.client.pipe(&pipeline).await?) {
            let stored: Vec<(String, String)> = typed(reply)?;
            let of_user = stored.iter().filter_map(|(id, fields)| entry(user_id, id, fields));
            entries.insert(user_id, of_user.collect());
        }
        let entries = entries.into_values().flatten().collect();
        let mut live: HashMap<UserId, Vec<LiveConnection>> = HashMap::new();
        for connection in self.live_among(entries).await? {
            live.entry(connection.key.user_id.clone()).or_default().push(connection);
        }
        Ok(user_ids.iter().map(|user_id| live.get(user_id).cloned().unwrap_or_default()).collect())
    }

    pub(super) async fn connections_of_node(
        &self,
        node_id: &NodeId,
    ) -> Result<Vec<LiveConnection>, RedisFailure> {
        let key = self.keys.server_connections(node_id);
        let mut live = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            // In pieces, because a node may have very many.
            let command =
                redis::cmd("SSCAN").arg(&key).arg(&cursor).arg("COUNT").arg(BATCH).to_owned();
            let (next, ids): (String, Vec<String>) = self.client.query(&command).await?;
            let ids: Vec<ConnectionId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
            let entries = self.entries_by_id(&ids).await?;
            // An entry without any other key is left over from a failed removal.
            let known: HashSet<ConnectionId> =
                entries.iter().map(|entry| entry.key.connection_id).collect();
            let unknown = ids.iter().filter(|id| !known.contains(id));
            self.unlist(unknown.map(|id| (node_id, *id))).await;
            live.extend(self.live_among(entries).await?);
            if next == "0" {
                break;
            }
            cursor = next;
        }
        // A scan may return the same element twice.
        live.retain(|connection| connection.key.node_id == *node_id);
        live.sort_by_key(|connection| connection.key.connection_id);
        live.dedup_by_key(|connection| connection.key.connection_id);
        Ok(live)
    }

    pub(super) async fn connections_by_id(
        &self,
        ids: &[ConnectionId],
    ) -> Result<Vec<LiveConnection>, RedisFailure> {
        let entries = self.entries_by_id(ids).await?;
        self.live_among(entries).await
    }

    async fn entries_by_id(&self, ids: &[ConnectionId]) -> Result<Vec<Entry>, RedisFailure> {
        let ids: Vec<ConnectionId> =
            ids.iter().copied().filter(|id| id.shard < self.keys.shards()).collect();
        let mut entries = Vec::new();
        for batch in ids.chunks(BATCH) {
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for id in batch {
                let fields = ["user", "device", "kind", "node", "connected_at"];
                pipeline.cmd("HMGET").arg(self.keys.connection(*id)).arg(&fields);
            }
            for (id, reply) in batch.iter().zip(self.client.pipe(&pipeline).await?) {
                let fields: Vec<Option<String>> = typed(reply)?;
                entries.extend(entry_of(*id, fields));
            }
        }
        Ok(entries)
    }

    /// Those whose lease is live, by the clock of the server that holds it.
    async fn live_among(&self, entries: Vec<Entry>) -> Result<Vec<LiveConnection>, RedisFailure> {
        let mut by_shard: BTreeMap<u16, Vec<Entry>> = BTreeMap::new();
        for entry in entries {
            by_shard.entry(self.keys.shard_of(&entry.key.user_id)).or_default().push(entry);
        }
        let mut pipeline = Pipeline::with_capacity(by_shard.len() * 2);
        for (shard, entries) in &by_shard {
            let members: Vec<String> = entries.iter().map(|entry| member(&entry.key)).collect();
            pipeline.cmd("ZMSCORE").arg(self.keys.leases(*shard)).arg(members).cmd("TIME");
        }
        let replies = self.client.pipe(&pipeline).await?;
        let mut live = Vec::new();
        for (entries, replies) in by_shard.into_values().zip(replies.chunks_exact(2)) {
            let ends: Vec<Option<f64>> = typed(replies[0].clone())?;
            let now_ms = time_ms(replies[1].clone())?;
            for (entry, end) in entries.into_iter().zip(ends) {
                // Ends are whole numbers of milliseconds, far below where a float is inexact.
                let ends_at = end.unwrap_or_default() as u64;
                if ends_at > now_ms {
                    live.push(entry.connection(now_ms, ends_at));
                }
            }
        }
        Ok(live)
    }

    /// Whether users are online: the decision of the scripts, unless the shard is being rebuilt or
    /// was not swept, so that the decision may be wrong.
    pub(super) async fn presence_of(
        &self,
        user_ids: &[UserId],
    ) -> Result<Vec<PresenceState>, RedisFailure> {
        let mut shards: Vec<u16> = user_ids.iter().map(|it| self.keys.shard_of(it)).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut pipeline = Pipeline::with_capacity(user_ids.len() + shards.len() * 2);
        for shard in &shards {
            let epoch = self.keys.epoch(*shard);
            pipeline.cmd("HMGET").arg(epoch).arg(&["rebuild_until", "swept_at"]).cmd("TIME");
        }
        for user_id in user_ids {
            let fields = ["status", "version", "last_seen"];
            pipeline.cmd("HMGET").arg(self.keys.user_presence(user_id)).arg(&fields);
        }
        let mut replies = self.client.pipe(&pipeline).await?;
        let users = replies.split_off(shards.len() * 2);
        let mut certain = HashMap::new();
        for (shard, replies) in shards.into_iter().zip(replies.chunks_exact(2)) {
            certain.insert(shard, time_if_certain(&replies[0], &replies[1])?);
        }
        let states = user_ids.iter().zip(users).map(|(user_id, reply)| {
            let now_ms = certain.get(&self.keys.shard_of(user_id)).copied().flatten();
            now_ms.map_or(Ok(PresenceState::Stale), |now_ms| state(reply, now_ms))
        });
        states.collect()
    }
}

impl Entry {
    fn connection(self, now_ms: u64, ends_at: u64) -> LiveConnection {
        LiveConnection {
            key: self.key,
            device_id: self.device_id,
            kind: self.kind,
            age: Duration::from_micros((now_ms * 1000).saturating_sub(self.connected_at_us)),
            remaining: Duration::from_millis(ends_at - now_ms),
        }
    }
}

/// Reads `<kind>/<node>/<connected_at>/<device>`; none if it is malformed.
fn entry(user_id: &UserId, id: &str, fields: &str) -> Option<Entry> {
    let mut fields = fields.splitn(4, '/');
    let (kind, node_id) = (kind(fields.next()?)?, fields.next()?.parse().ok()?);
    let connected_at_us = fields.next()?.parse().ok()?;
    let device_id = fields.next()?.parse().ok()?;
    let key = LeaseKey { user_id: user_id.clone(), node_id, connection_id: id.parse().ok()? };
    Some(Entry { key, device_id, kind, connected_at_us })
}

/// Reads the fields of a connection's own key.
fn entry_of(connection_id: ConnectionId, fields: Vec<Option<String>>) -> Option<Entry> {
    let mut fields = fields.into_iter().flatten();
    let user_id = fields.next()?.parse().ok()?;
    let device_id = fields.next()?.parse().ok()?;
    let (kind, node_id) = (kind(&fields.next()?)?, fields.next()?.parse().ok()?);
    let connected_at_us = fields.next()?.parse().ok()?;
    let key = LeaseKey { user_id, node_id, connection_id };
    Some(Entry { key, device_id, kind, connected_at_us })
}

fn kind(text: &str) -> Option<LeaseKind> {
    [LeaseKind::Chat, LeaseKind::Party].into_iter().find(|kind| kind.as_str() == text)
}

/// The server's time, if the shard's state can be trusted.
fn time_if_certain(epoch: &Value, time: &Value) -> Result<Option<u64>, RedisFailure> {
    let (rebuild_until, swept_at): (Option<u64>, Option<u64>) = typed(epoch.clone())?;
    let now_ms = time_ms(time.clone())?;
    let is_certain = match (rebuild_until, swept_at) {
        (Some(rebuild_until), Some(swept_at)) => {
            rebuild_until <= now_ms && now_ms.abs_diff(swept_at) <= SWEEP_SILENCE_MS
        }
        _ => false,
    };
    Ok(is_certain.then_some(now_ms))
}

fn state(reply: Value, now_ms: u64) -> Result<PresenceState, RedisFailure> {
    let (status, version, last_seen): (Option<String>, Option<u64>, Option<u64>) = typed(reply)?;
    // Older than any transition that is still to come, newer than any forgotten one.
    let version = version.unwrap_or(now_ms.saturating_sub(1));
    Ok(match status.as_deref() {
        Some("online") => PresenceState::Online { version },
        _ => PresenceState::Offline {
            version,
            last_seen: last_seen.map(|unix_ms| Timestamp { unix_ms }),
        },
    })
}
