//! The names of keys and channels.
//!
//! Ids need no escaping: their alphabets have neither `/`, which parts the fields of a lease, nor
//! the braces of a hash tag, nor a wildcard of a pattern; and in every key the id comes last.

use heartline_protocol::{ConnectionId, NodeId, UserId};
use heartline_routing::{LeaseKey, shard_of};

use super::config::RedisConfig;

/// The names of keys and channels. On a Cluster every key of a user has the user's shard as its
/// hash tag, so that all keys of a script are in one slot.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    is_cluster: bool,
    shards: u16,
}

impl Keys {
    pub(super) fn new(config: &RedisConfig, shards: u16) -> Self {
        let (prefix, is_cluster) = (config.key_prefix().to_owned(), config.is_cluster());
        Self { prefix, is_cluster, shards }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn shards(&self) -> u16 {
        self.shards
    }

    pub(super) fn shard_of(&self, user_id: &UserId) -> u16 {
        shard_of(user_id, self.shards)
    }

    /// The hash tag between the name and the id in keys of this shard.
    pub(super) fn tag(&self, shard: u16) -> String {
        if self.is_cluster { format!("{{{shard}}}:") } else { String::new() }
    }

    pub(super) fn leases(&self, shard: u16) -> String {
        self.of_shard("presence:leases", shard)
    }

    pub(super) fn epoch(&self, shard: u16) -> String {
        self.of_shard("presence:epoch", shard)
    }

    /// The channel of transitions.
    pub(super) fn channel(&self, shard: u16) -> String {
        self.of_shard("presence", shard)
    }

    fn of_shard(&self, name: &str, shard: u16) -> String {
        let prefix = &self.prefix;
        match self.is_cluster {
            true => format!("{prefix}{name}:{{{shard}}}"),
            false => format!("{prefix}{name}:{shard}"),
        }
    }

    pub(super) fn user_servers(&self, user_id: &UserId) -> String {
        self.of_user("user_servers", user_id)
    }

    pub(super) fn user_connections(&self, user_id: &UserId) -> String {
        self.of_user("user_connections", user_id)
    }

    pub(super) fn user_presence(&self, user_id: &UserId) -> String {
        self.of_user("user_presence", user_id)
    }

    pub(super) fn session(&self, user_id: &UserId) -> String {
        self.of_user("session", user_id)
    }

    fn of_user(&self, name: &str, user_id: &UserId) -> String {
        format!("{}{name}:{}{user_id}", self.prefix, self.tag(self.shard_of(user_id)))
    }

    pub(super) fn connection(&self, connection_id: ConnectionId) -> String {
        format!("{}connection:{}{connection_id}", self.prefix, self.tag(connection_id.shard))
    }

    pub(super) fn server_connections(&self, node_id: &NodeId) -> String {
        format!("{}server_connections:{node_id}", self.prefix)
    }

    pub(super) fn servers(&self) -> String {
        format!("{}servers", self.prefix)
    }

    pub(super) fn server(&self, node_id: &NodeId) -> String {
        format!("{}server:{node_id}", self.prefix)
    }

    /// The number of shards, on which all nodes must agree.
    pub(super) fn routing_shards(&self) -> String {
        format!("{}routing:shards", self.prefix)
    }
}

/// A lease as a member of its shard's set.
pub(super) fn member(lease: &LeaseKey) -> String {
    format!("{}/{}/{}", lease.user_id, lease.node_id, lease.connection_id)
}

/// The lease that a member names; none for the entry that merely keeps a user online, or garbage.
pub(super) fn lease_of(member: &str) -> Option<LeaseKey> {
    let mut parts = member.splitn(3, '/');
    Some(LeaseKey {
        user_id: parts.next()?.parse().ok()?,
        node_id: parts.next()?.parse().ok()?,
        connection_id: parts.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(url: &str) -> Keys {
        Keys::new(&RedisConfig::from_url(url, "test:").unwrap(), 100)
    }

    #[test]
    fn what_belongs_to_a_user_has_one_hash_tag_on_a_cluster_and_none_elsewhere() {
        let user: UserId = "alice".parse().unwrap();
        let alone = keys("redis://localhost");
        assert_eq!(alone.user_servers(&user), "test:user_servers:alice");
        assert_eq!(alone.leases(17), "test:presence:leases:17");
        let cluster = keys("redis-cluster://localhost:7000");
        let shard = cluster.shard_of(&user);
        let tagged = format!("test:user_servers:{{{shard}}}:alice");
        assert_eq!(cluster.user_servers(&user), tagged);
        assert_eq!(cluster.leases(17), "test:presence:leases:{17}");
        assert_eq!(cluster.channel(17), "test:presence:{17}");
    }

    #[test]
    fn a_lease_survives_being_a_member_whatever_its_ids_hold() {
        let alphabet = "azAZ09_.@|:+-";
        let lease = LeaseKey {
            user_id: alphabet.parse().unwrap(),
            node_id: "azAZ09-_.".parse().unwrap(),
            connection_id: ConnectionId { ulid: 77_u128.into(), shard: 99 },
        };
        assert_eq!(lease_of(&member(&lease)), Some(lease));
        assert_eq!(lease_of("alice//"), None);
        assert!(!alphabet.contains(['/', '{', '}', '*', '?', '[', '\\']));
    }
}
