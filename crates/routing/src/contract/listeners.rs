//! Subscribes to several directories, and knows when every event has arrived.

use std::time::Duration;

use heartline_protocol::UserId;
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

use super::{Contract, LONG, policy};
use crate::lease::shard_of;
use crate::presence::{Change, Transition};

/// How long an event may take to reach another node.
const PATIENCE: Duration = Duration::from_secs(10);

/// The events of all directories from some moment on.
pub(super) struct Listeners<'suite> {
    contract: &'suite Contract<'suite>,
    receivers: Vec<Receiver<Change>>,
}

impl<'suite> Listeners<'suite> {
    /// Subscribes from now on.
    pub(super) fn open(contract: &'suite Contract<'suite>) -> Self {
        let receivers = contract.directories.iter().map(|directory| directory.changes());
        Self { contract, receivers: receivers.collect() }
    }

    /// Asserts that exactly these transitions of a user were published since the last call:
    /// received by every directory, decided by exactly one, with rising versions. Returns them.
    pub(super) async fn expect(&mut self, user_id: &UserId, online: &[bool]) -> Vec<Transition> {
        let markers = self.mark(user_id).await;
        let mut decided = Vec::new();
        let mut heard_first: Option<Vec<Transition>> = None;
        for receiver in &mut self.receivers {
            let mut heard = Vec::new();
            let mut awaited = markers.clone();
            while !awaited.is_empty() {
                let change = timeout(PATIENCE, receiver.recv()).await;
                let change = change.expect("an event comes in time").expect("nothing is missed");
                let (transition, is_decided) = match change {
                    Change::Transition(transition) => (transition, false),
                    Change::Decided(transition) => (transition, true),
                    Change::Gap => continue,
                };
                if transition.user_id == *user_id {
                    decided.extend(is_decided.then_some(transition.version));
                    heard.push(transition);
                } else if !transition.is_online {
                    awaited.retain(|marker| *marker != transition.user_id);
                }
            }
            heard.sort_by_key(|transition| transition.version);
            heard.dedup();
            let said: Vec<bool> = heard.iter().map(|transition| transition.is_online).collect();
            assert_eq!(said, online, "what was heard of {user_id}: {heard:?}");
            let all_alike = heard_first.get_or_insert_with(|| heard.clone());
            assert_eq!(*all_alike, heard, "every directory hears the same");
        }
        let heard = heard_first.unwrap_or_default();
        decided.sort_unstable();
        let versions: Vec<u64> = heard.iter().map(|transition| transition.version).collect();
        assert_eq!(decided, versions, "each is decided once, and versions rise");
        assert!(versions.is_sorted_by(|one, next| one < next));
        for transition in &heard {
            let has_last_seen = transition.last_seen.is_some();
            assert_eq!(has_last_seen, !transition.is_online, "{transition:?}");
        }
        heard
    }

    /// Makes every directory decide a transition of a user of the same shard. Once that one has
    /// arrived, so have all events before it.
    async fn mark(&self, user_id: &UserId) -> Vec<UserId> {
        let contract = self.contract;
        let shard = shard_of(user_id, contract.shards);
        let mut markers = Vec::new();
        for directory in contract.directories {
            let marker = loop {
                let marker = contract.user();
                if shard_of(&marker, contract.shards) == shard {
                    break marker;
                }
            };
            let lease = contract.lease(&marker, &contract.node(), "marker");
            let key = lease.key.clone();
            directory.register(lease, policy(LONG)).await.expect("the directory answers");
            let ended = directory.unregister(&key, Duration::ZERO).await;
            ended.expect("the directory answers");
            markers.push(marker);
        }
        markers
    }
}
