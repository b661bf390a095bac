//! A lease: the registration of one connection of one user on one node.

use std::time::Duration;

use heartline_protocol::{ConnectionId, DeviceId, NodeId, UserId};

/// The kind of a connection. Kinds count together for presence and limits, but a connection only
/// ever replaces one of its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseKind {
    /// A `/v1/ws` socket.
    Chat,
    /// A party socket: never a target for chat frames.
    Party,
}

impl LeaseKind {
    /// The kind as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Party => "party",
        }
    }
}

/// The identity of a lease: enough to find it in any shard of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseKey {
    /// The user of the connection.
    pub user_id: UserId,
    /// The node that has the socket.
    pub node_id: NodeId,
    /// The connection.
    pub connection_id: ConnectionId,
}

/// The registration of a connection, as its node sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its identity.
    pub key: LeaseKey,
    /// The user's device.
    pub device_id: DeviceId,
    /// The kind of connection.
    pub kind: LeaseKind,
    /// How long the socket has been open. The directory computes `connected_at` with its own
    /// clock, so the younger of two sockets is known although nodes' clocks differ.
    pub age: Duration,
    /// True when the connection held a lease before and lost it: it is never refused for a limit.
    pub again: bool,
}

/// A live lease, as the directory returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveConnection {
    /// Its identity.
    pub key: LeaseKey,
    /// The user's device.
    pub device_id: DeviceId,
    /// The kind of connection.
    pub kind: LeaseKind,
    /// How long the socket has been open.
    pub age: Duration,
    /// How long until the lease expires unless it is renewed.
    pub remaining: Duration,
}

/// The shard of a user: CRC-16 (XMODEM, the one that Redis Cluster uses) modulo the shard count.
pub fn shard_of(user_id: &UserId, shards: u16) -> u16 {
    assert!(shards > 0, "a directory has at least one shard");
    crc16(user_id.as_str().as_bytes()) % shards
}

fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    bytes.iter().fold(0, |crc, &byte| (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_that_redis_cluster_uses() {
        // The check value of CRC-16/XMODEM, also given in the Redis Cluster specification.
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }
}
