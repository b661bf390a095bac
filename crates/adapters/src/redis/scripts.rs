//! The scripts that decide about leases, each one atomic step within one slot.

use std::time::Duration;

use heartline_protocol::NodeId;
use heartline_routing::{Lease, LeaseKey, Policy};
use redis::{Cmd, FromRedisValue, ParsingError, Value};

use super::client::{RedisClient, typed};
use super::failure::RedisFailure;
use super::keys::Keys;
use super::script::Script;

/// The time to live of index keys, which nodes extend: garbage expires even if every node has died.
pub(super) const INDEX_TTL: Duration = Duration::from_secs(600);

/// The same for the key that shows a single session.
pub(super) const SESSION_TTL: Duration = Duration::from_secs(30 * 60);

const PRELUDE: &str = include_str!("scripts/prelude.lua");

/// The scripts, and the arguments that every call has.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) register: Script,
    pub(super) unregister: Script,
    pub(super) sweep: Script,
    keys: Keys,
    publish_verb: &'static str,
    /// The node that decides by these calls.
    node_id: NodeId,
    /// The duration of a rebuild, after Redis was wiped or down.
    rebuild: Duration,
}

/// The beginning of every reply.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// The server's time.
    pub(super) now_ms: u64,
    /// The id of the shard's epoch, which changes when Redis was wiped or down.
    pub(super) epoch_id: String,
    /// Whether the shard is being rebuilt, so that presence is unknown.
    pub(super) is_rebuilding: bool,
}

impl Scripts {
    pub(super) fn new(
        client: &RedisClient,
        keys: Keys,
        node_id: NodeId,
        rebuild: Duration,
    ) -> Self {
        let script = |code: &str| Script::new(format!("{PRELUDE}\n{code}"));
        Self {
            register: script(include_str!("scripts/register.lua")),
            unregister: script(include_str!("scripts/unregister.lua")),
            sweep: script(include_str!("scripts/sweep.lua")),
            keys,
            publish_verb: client.publish_verb(),
            node_id,
            rebuild,
        }
    }

    pub(super) fn register_call(
        &self,
        lease: &Lease,
        policy: Policy,
        asked_at_ms: Option<u64>,
    ) -> Cmd {
        let mut command = self.call(&self.register, self.keys.shard_of(&lease.key.user_id));
        name_lease(&mut command, &lease.key);
        let age_us = u64::try_from(lease.age.as_micros()).unwrap_or(u64::MAX);
        command.arg(lease.device_id.as_str()).arg(lease.kind.as_str()).arg(age_us);
        command.arg(u8::from(lease.again)).arg(u8::from(policy.single_session));
        command.arg(policy.connections_per_user).arg(ms(policy.lease)).arg(SESSION_TTL.as_secs());
        command.arg(asked_at_ms.map_or_else(String::new, |asked_at| asked_at.to_string()));
        command
    }

    pub(super) fn unregister_call(&self, lease: &LeaseKey, keep: Duration) -> Cmd {
        let mut command = self.call(&self.unregister, self.keys.shard_of(&lease.user_id));
        name_lease(&mut command, lease);
        command.arg(ms(keep));
        command
    }

    pub(super) fn sweep_call(
        &self,
        shard: u16,
        limit: usize,
        policy: Policy,
        spacing: Duration,
    ) -> Cmd {
        let mut command = self.call(&self.sweep, shard);
        command.arg(limit).arg(ms(policy.lease)).arg(ms(policy.offline_linger)).arg(ms(spacing));
        command
    }

    /// The part that the prelude documents.
    fn call(&self, script: &Script, shard: u16) -> Cmd {
        let keys = [self.keys.leases(shard), self.keys.epoch(shard)];
        let mut command = script.call(&keys, ms(self.rebuild));
        command.arg(self.publish_verb).arg(self.keys.channel(shard)).arg(self.node_id.as_str());
        command.arg(self.keys.prefix()).arg(self.keys.tag(shard)).arg(INDEX_TTL.as_secs());
        command
    }
}

fn name_lease(command: &mut Cmd, lease: &LeaseKey) {
    command.arg(lease.user_id.as_str()).arg(lease.node_id.as_str());
    command.arg(lease.connection_id.to_string());
}

/// Whole milliseconds, rounded up, so that a short duration is not zero.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Splits a reply into its common beginning and the rest.
pub(super) fn standing<T: FromRedisValue>(reply: Value) -> Result<(Standing, T), RedisFailure> {
    let mut values: Vec<Value> = typed(reply)?;
    if values.len() < 3 {
        return Err(RedisFailure::unexpected("a script"));
    }
    let rest = values.split_off(3);
    let [now_ms, epoch_id, is_rebuilding] = &values[..] else {
        return Err(RedisFailure::unexpected("a script"));
    };
    let standing = Standing {
        now_ms: typed(now_ms.clone())?,
        epoch_id: typed(epoch_id.clone())?,
        is_rebuilding: typed::<u8>(is_rebuilding.clone())? == 1,
    };
    let rest = T::from_redis_value(Value::Array(rest));
    Ok((standing, rest.map_err(|error: ParsingError| RedisFailure::Rejected(error.to_string()))?))
}
