//! The nodes that are alive, as far as the directory tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::NodeId;
use heartline_routing::LiveNode;
use tokio::time::Instant;

/// The time that nodes have to announce themselves again after an outage of the directory, or after
/// a pause of this node.
const RETURN_WITHIN: Duration = Duration::from_secs(3);

/// The nodes that have announced themselves, each with the end of its lease.
///
/// A directory that was unavailable or wiped names only the nodes that have announced themselves
/// since. The others may be alive, and their members must not be removed.
#[derive(Debug, Default)]
pub(crate) struct Census {
    ends_at: BTreeMap<NodeId, Instant>,
    taken_at: Option<Instant>,
}

impl Census {
    /// Takes the directory's present list of nodes, if it could be read. Returns the nodes that are
    /// alive; none while that is not known.
    pub(crate) fn take(
        &mut self,
        nodes: Option<Vec<LiveNode>>,
        now: Instant,
    ) -> Option<Arc<BTreeSet<NodeId>>> {
        let stood_still = self.taken_at.is_some_and(|taken_at| now - taken_at >= RETURN_WITHIN);
        self.taken_at = Some(now);
        if nodes.is_none() || stood_still {
            let soonest = now + RETURN_WITHIN;
            self.ends_at.values_mut().for_each(|ends_at| *ends_at = soonest.max(*ends_at));
        }
        for LiveNode { record, remaining } in nodes? {
            self.ends_at.insert(record.node_id, now + remaining);
        }
        self.ends_at.retain(|_, ends_at| *ends_at > now);
        Some(Arc::new(self.ends_at.keys().cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use heartline_routing::{Clock, NodeRecord};

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);
    const TICK: Duration = Duration::from_secs(1);

    /// What a directory says of nodes, each with how long it still counts.
    fn said(nodes: &[(&str, Duration)]) -> Option<Vec<LiveNode>> {
        let live = |(name, remaining): &(&str, Duration)| LiveNode {
            record: NodeRecord {
                node_id: name.parse().unwrap(),
                address: None,
                planes: String::new(),
                started_at: Clock::system().wall(),
                connections: 0,
            },
            remaining: *remaining,
        };
        Some(nodes.iter().map(live).collect())
    }

    fn has(alive: Option<Arc<BTreeSet<NodeId>>>, name: &str) -> bool {
        alive.expect("it is known").contains(&name.parse().unwrap())
    }

    #[test]
    fn a_node_is_dead_once_its_lease_has_run_out() {
        let (mut census, start) = (Census::default(), Clock::system().now());
        for second in 0..15 {
            let (now, remaining) = (start + TICK * second, LEASE - TICK * second);
            assert!(has(census.take(said(&[("one", LEASE), ("two", remaining)]), now), "two"));
        }
        assert!(!has(census.take(said(&[("one", LEASE)]), start + LEASE), "two"));
    }

    #[test]
    fn whom_a_wiped_directory_does_not_name_is_alive_until_its_lease_runs_out() {
        let (mut census, start) = (Census::default(), Clock::system().now());
        census.take(said(&[("one", LEASE), ("two", LEASE)]), start);
        for second in 1..15 {
            assert!(has(census.take(said(&[("one", LEASE)]), start + TICK * second), "two"));
        }
        assert!(!has(census.take(said(&[("one", LEASE)]), start + LEASE), "two"));
    }

    #[test]
    fn whoever_comes_back_with_the_directory_was_not_dead() {
        let (mut census, start) = (Census::default(), Clock::system().now());
        census.take(said(&[("one", LEASE), ("two", LEASE)]), start);
        for second in 1..30 {
            assert_eq!(census.take(None, start + TICK * second), None);
        }
        for second in 30..32 {
            let alive = census.take(said(&[("one", LEASE)]), start + TICK * second);
            assert!(has(alive, "two"), "it may be there in a moment");
        }
        assert!(!has(census.take(said(&[("one", LEASE)]), start + TICK * 32), "two"));
    }

    #[test]
    fn who_stood_still_with_all_others_takes_none_of_them_for_dead() {
        let (mut census, start) = (Census::default(), Clock::system().now());
        census.take(said(&[("one", LEASE), ("two", LEASE)]), start);
        let woken = start + LEASE * 2;
        assert!(has(census.take(said(&[("one", LEASE)]), woken), "two"));
        assert!(has(census.take(said(&[("one", LEASE), ("two", LEASE)]), woken + TICK), "two"));
    }
}
