//! Removing leases that ran out, and noticing that a rebuild is over.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use heartline_routing::{LeaseKey, Policy};
use redis::Value;

use super::RedisDirectory;
use super::register::listed;
use crate::redis::failure::RedisFailure;
use crate::redis::keys::lease_of;
use crate::redis::scripts::{Standing, standing};

/// Shards swept with one round trip: together they keep Redis busy for about a millisecond.
const SHARDS_TOGETHER: usize = 25;

/// Leases claimed by one script, so that others are served in between.
const CLAIMS_MAX: usize = 50;

/// The epochs that this node knows.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    known: Mutex<HashMap<u16, String>>,
}

impl Epochs {
    /// Records the epoch of a shard. Returns true if a rebuild has ended since the last call, so
    /// that this node's view of the shard's users may be wrong.
    fn record(&self, shard: u16, standing: &Standing) -> bool {
        if standing.is_rebuilding {
            return false;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(shard, standing.epoch_id.clone());
        before.as_ref() != Some(&standing.epoch_id)
    }
}

impl RedisDirectory {
    /// Reads the epochs at the start, when this node has no view yet that could be wrong.
    pub(super) async fn learn_epochs(&self) -> Result<(), RedisFailure> {
        let policy = Policy {
            single_session: false,
            connections_per_user: 0,
            lease: self.config.lease,
            offline_linger: Duration::ZERO,
        };
        let shards: Vec<u16> = (0..self.keys.shards()).collect();
        for (shard, swept) in self.sweep_some(&shards, 0, policy, Duration::ZERO).await {
            self.epochs.record(shard, &swept?.standing);
        }
        Ok(())
    }

    pub(super) async fn sweep_shards(
        &self,
        limit: usize,
        policy: Policy,
    ) -> Result<Vec<LeaseKey>, RedisFailure> {
        let mut tally = Tally::default();
        let mut waiting = self.shards_in_own_order();
        let mut spacing = self.config.sweep_spacing;
        while !waiting.is_empty() {
            let mut unfinished = Vec::new();
            for shards in waiting.chunks(SHARDS_TOGETHER) {
                let room = limit - tally.claimed.len();
                // With less room than shards, some are only marked as swept.
                let (swept, marked) = shards.split_at(room.min(shards.len()));
                if !swept.is_empty() {
                    let each = (room / swept.len()).min(CLAIMS_MAX);
                    let results = self.sweep_some(swept, each, policy, spacing).await;
                    unfinished.extend(self.count(results, &mut tally));
                }
                if !marked.is_empty() {
                    let results = self.sweep_some(marked, 0, policy, spacing).await;
                    self.count(results, &mut tally);
                    unfinished.extend_from_slice(marked);
                }
            }
            waiting = if tally.claimed.len() < limit { unfinished } else { Vec::new() };
            // The shards that are left were swept by this sweep itself, so no spacing applies.
            spacing = Duration::ZERO;
        }
        if tally.has_gap {
            self.client.counters().rebuilds.inc();
            self.changes.gap();
        }
        self.unlist(tally.claimed.iter().map(listed)).await;
        // Claimed leases must be returned although another shard failed: no other node will claim
        // them.
        match tally.failure {
            Some(failure) if tally.claimed.is_empty() => Err(failure),
            _ => Ok(tally.claimed),
        }
    }

    /// Records swept leases, and returns the shards that have more.
    fn count(&self, results: Vec<SweptShard>, tally: &mut Tally) -> Vec<u16> {
        let mut unfinished = Vec::new();
        for (shard, swept) in results {
            match swept {
                Ok(swept) => {
                    tally.has_gap |= self.epochs.record(shard, &swept.standing);
                    tally.claimed.extend(swept.claimed);
                    unfinished.extend(swept.has_more.then_some(shard));
                }
                Err(failure) => tally.failure = Some(failure),
            }
        }
        unfinished
    }

    /// Sweeps some shards, each up to a limit, with one round trip.
    async fn sweep_some(
        &self,
        shards: &[u16],
        limit: usize,
        policy: Policy,
        spacing: Duration,
    ) -> Vec<SweptShard> {
        let call = |shard: &u16| self.scripts.sweep_call(*shard, limit, policy, spacing);
        let calls = shards.iter().map(call).collect();
        let replies = self.client.scripts(&self.scripts.sweep, calls).await;
        let swept = shards.iter().zip(replies).map(|(shard, reply)| {
            let swept = reply.and_then(swept);
            if let Ok(swept) = &swept {
                self.server_clock.note(*shard, swept.standing.now_ms);
                for transition in &swept.transitions {
                    self.changes.report(transition);
                }
            }
            (*shard, swept)
        });
        swept.collect()
    }

    /// All shards, beginning elsewhere than other nodes do, so that they do not meet all the time.
    fn shards_in_own_order(&self) -> Vec<u16> {
        let shards = self.keys.shards();
        let sum = self
            .config
            .node_id
            .as_str()
            .bytes()
            .fold(0_u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(u16::from(byte)));
        let first = sum % shards;
        (first..shards).chain(0..first).collect()
    }
}

/// The progress of a sweep over all shards.
#[derive(Default)]
struct Tally {
    claimed: Vec<LeaseKey>,
    has_gap: bool,
    failure: Option<RedisFailure>,
}

/// A shard, and the result of its sweep.
type SweptShard = (u16, Result<Swept, RedisFailure>);

/// The result of a sweep of one shard.
struct Swept {
    standing: Standing,
    has_more: bool,
    claimed: Vec<LeaseKey>,
    transitions: Vec<String>,
}

fn swept(reply: Value) -> Result<Swept, RedisFailure> {
    type Reply = (u8, Vec<String>, Vec<String>);
    let (standing, (has_more, claimed, transitions)) = standing::<Reply>(reply)?;
    let claimed = claimed.iter().filter_map(|member| lease_of(member)).collect();
    Ok(Swept { standing, has_more: has_more == 1, claimed, transitions })
}
