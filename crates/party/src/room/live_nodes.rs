//! The nodes that are alive, according to the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::NodeId;
use heartline_routing::LiveNode;
use tokio::time::Instant;

/// The time that nodes have to announce themselves again after an outage of the directory, or after
/// a pause of this node.
const RETURN_WITHIN: Duration = Duration::from_secs(3);

/// The nodes that have announced themselves, each with the expiry of its announcement.
///
/// A directory that was unavailable or wiped names only the nodes that have announced themselves
/// since. The others may be alive, and their members must not be removed.
#[derive(Debug, Default)]
pub(crate) struct LiveNodes {
    expires_at: BTreeMap<NodeId, Instant>,
    updated_at: Option<Instant>,
}

impl LiveNodes {
    /// Adds the directory's present list of nodes, if it could be read. Returns the nodes that are
    /// alive; none while that is not known.
    pub(crate) fn update(
        &mut self,
        nodes: Option<Vec<LiveNode>>,
        now: Instant,
    ) -> Option<Arc<BTreeSet<NodeId>>> {
        let has_paused =
            self.updated_at.is_some_and(|updated_at| now - updated_at >= RETURN_WITHIN);
        self.updated_at = Some(now);
        if nodes.is_none() || has_paused {
            let soonest = now + RETURN_WITHIN;
            self.expires_at
                .values_mut()
                .for_each(|expires_at| *expires_at = soonest.max(*expires_at));
        }
        for LiveNode { record, remaining } in nodes? {
            self.expires_at.insert(record.node_id, now + remaining);
        }
        self.expires_at.retain(|_, expires_at| *expires_at > now);
        Some(Arc::new(self.expires_at.keys().cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use heartline_routing::NodeRecord;
    use heartline_runtime::Clock;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(15);
    const TICK: Duration = Duration::from_secs(1);

    /// The list of a directory: nodes, each with the time until its announcement expires.
    fn listed(nodes: &[(&str, Duration)]) -> Option<Vec<LiveNode>> {
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
    fn a_node_is_dead_once_its_announcement_has_expired() {
        let (mut live_nodes, start) = (LiveNodes::default(), Clock::system().now());
        for second in 0..15 {
            let (now, remaining) = (start + TICK * second, LIFETIME - TICK * second);
            assert!(has(
                live_nodes.update(listed(&[("one", LIFETIME), ("two", remaining)]), now),
                "two"
            ));
        }
        assert!(!has(live_nodes.update(listed(&[("one", LIFETIME)]), start + LIFETIME), "two"));
    }

    #[test]
    fn a_node_missing_from_a_wiped_directory_is_alive_until_its_announcement_expires() {
        let (mut live_nodes, start) = (LiveNodes::default(), Clock::system().now());
        live_nodes.update(listed(&[("one", LIFETIME), ("two", LIFETIME)]), start);
        for second in 1..15 {
            assert!(has(
                live_nodes.update(listed(&[("one", LIFETIME)]), start + TICK * second),
                "two"
            ));
        }
        assert!(!has(live_nodes.update(listed(&[("one", LIFETIME)]), start + LIFETIME), "two"));
    }

    #[test]
    fn a_node_has_time_to_announce_itself_after_an_outage_of_the_directory() {
        let (mut live_nodes, start) = (LiveNodes::default(), Clock::system().now());
        live_nodes.update(listed(&[("one", LIFETIME), ("two", LIFETIME)]), start);
        for second in 1..30 {
            assert_eq!(live_nodes.update(None, start + TICK * second), None);
        }
        for second in 30..32 {
            let alive = live_nodes.update(listed(&[("one", LIFETIME)]), start + TICK * second);
            assert!(has(alive, "two"), "it may announce itself in a moment");
        }
        assert!(!has(live_nodes.update(listed(&[("one", LIFETIME)]), start + TICK * 32), "two"));
    }

    #[test]
    fn a_node_that_paused_with_all_others_takes_none_of_them_for_dead() {
        let (mut live_nodes, start) = (LiveNodes::default(), Clock::system().now());
        live_nodes.update(listed(&[("one", LIFETIME), ("two", LIFETIME)]), start);
        let resumed = start + LIFETIME * 2;
        assert!(has(live_nodes.update(listed(&[("one", LIFETIME)]), resumed), "two"));
        assert!(has(
            live_nodes.update(listed(&[("one", LIFETIME), ("two", LIFETIME)]), resumed + TICK),
            "two"
        ));
    }
}
