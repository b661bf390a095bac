//! Every invariant of the design, with the tests that check it.

use super::evidence::Evidence;
use super::report::Finding;

/// One invariant of the design.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// The name of the invariant.
    pub name: &'static str,
    /// The promise in one sentence.
    pub meaning: &'static str,
    /// The tests that check the invariant where it cannot be observed from outside.
    pub tests: &'static [&'static str],
}

/// Every invariant: first those of routing and presence, then those of failures.
pub const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "routing_ttl_bounded",
        meaning: "a lease ends within its length, and every index key within 10 min",
        tests: &["v41_a_server_crash_causes_entries_to_expire_within_the_window"],
    },
    Invariant {
        name: "zombie_prevention",
        meaning: "the entries of a crashed node are removed within one lease and one sweep",
        tests: &["a_killed_node_is_forgotten_although_the_user_stays_on_another"],
    },
    Invariant {
        name: "conn_id_uniqueness",
        meaning: "a connection has one record, of one user on one node",
        tests: &["v43_split_brain_is_prevented_by_unique_connection_ids"],
    },
    Invariant {
        name: "routing_denormalization_consistent",
        meaning: "the routing table of a user counts exactly the user's connections",
        tests: &["nodes_write_consistent_data_on_a_server_and_on_a_cluster"],
    },
    Invariant {
        name: "presence_derives_from_connections",
        meaning: "a user is online exactly while a lease of theirs is live",
        tests: &["v42_the_first_connection_transitions_to_online"],
    },
    Invariant {
        name: "multi_device_aggregation",
        meaning: "a user is online while any device is connected",
        tests: &["v42_multi_device_keeps_the_user_online"],
    },
    Invariant {
        name: "eventual_consistency_bound",
        meaning: "every observer receives a transition within the window",
        tests: &["v42_presence_staleness_is_bounded_by_the_window"],
    },
    Invariant {
        name: "presence_staleness_bounded",
        meaning: "the presence that observers see is never older than lease, sweep and linger together",
        tests: &["a_killed_node_makes_one_departure_of_everybody_who_is_nowhere_else"],
    },
    Invariant {
        name: "presence_undefined_during_partition",
        meaning: "a node that cannot read presence reports unknown and stale",
        tests: &["one_node_is_cut_off_from_redis"],
    },
    Invariant {
        name: "presence_ceiling",
        meaning: "presence never reports a user online without a lease",
        tests: &["a_directory_that_fails_or_is_rebuilding_makes_every_user_stale"],
    },
    Invariant {
        name: "presence_consistency_ceiling",
        meaning: "presence is at most as consistent as routing",
        tests: &["a_wiped_redis_is_filled_again_and_nobody_seems_to_leave"],
    },
    Invariant {
        name: "privacy_enforced",
        meaning: "a user who is visible to nobody is unknown to everybody",
        tests: &["everybody_is_seen_by_those_whom_they_chose_and_by_nobody_else_on_any_path"],
    },
    Invariant {
        name: "multi_device_delivery",
        meaning: "a message is delivered to every device of every member",
        tests: &["v41_multi_device_routing_delivers_to_all_servers"],
    },
    Invariant {
        name: "no_silent_message_loss",
        meaning: "every send is acknowledged or rejected",
        tests: &["a_server_that_is_killed_keeps_every_promise"],
    },
    Invariant {
        name: "bounded_buffer",
        meaning: "a connection has at most 1000 queued messages and 100 pending requests",
        tests: &[
            "the_cap_stops_the_connection_and_accepts_no_more",
            "the_101st_request_that_waits_is_refused_and_the_third_refusal_closes",
        ],
    },
    Invariant {
        name: "backpressure_signaled",
        meaning: "a slow consumer is warned 5 s before its connection is closed",
        tests: &["a_trickle_reader_is_warned_ahead_of_its_queue_and_closed_after_the_grace"],
    },
    Invariant {
        name: "failfast_persistence",
        meaning: "nothing is acknowledged before it is committed",
        tests: &["a_server_whose_power_is_cut_keeps_every_promise"],
    },
    Invariant {
        name: "graceful_fanout",
        meaning: "a failed delivery is retried a few times and then replaced by a sync",
        tests: &["undeliverable_messages_end_in_a_sync_when_the_store_is_back"],
    },
    Invariant {
        name: "reconnect_heals",
        meaning: "a client that reconnects and syncs has every message",
        tests: &["two_thousand_who_come_back_at_once_get_everything_while_others_talk"],
    },
    Invariant {
        name: "isolation_holds",
        meaning: "a failure stays in its plane",
        tests: &[
            "v43_redis_unavailable_degrades_to_broadcast_routing",
            "a_store_that_takes_nothing_opens_the_breaker_and_one_probe_closes_it",
        ],
    },
];

impl Invariant {
    /// The finding from the evidence: evidence against the invariant outweighs evidence for it, and
    /// without evidence the finding names the tests.
    pub(super) fn finding(&self, evidence: &[Evidence]) -> Finding {
        let own: Vec<&Evidence> =
            evidence.iter().filter(|evidence| evidence.invariant == self.name).collect();
        let texts = |holds: bool| {
            let texts = own.iter().filter(|evidence| evidence.holds == holds);
            texts.map(|evidence| evidence.text.as_str()).collect::<Vec<_>>().join("; ")
        };
        if let Some(against) = own.iter().find(|evidence| !evidence.holds) {
            let finding = Finding::fail(self.name, texts(false));
            return match against.advice {
                Some(advice) => finding.advise(advice),
                None => finding,
            };
        }
        if own.is_empty() {
            let tests = self.tests.join(" and ");
            return Finding::held(self.name, format!("{}: checked by test {tests}", self.meaning));
        }
        Finding::pass(self.name, format!("{}: {}", self.meaning, texts(true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::report::Verdict;

    #[test]
    fn evidence_against_outweighs_and_without_evidence_tests_are_named() {
        let invariant = &INVARIANTS[0];
        assert_eq!(invariant.finding(&[]).verdict, Verdict::HeldByTest);
        let others = [Evidence::against(INVARIANTS[1].name, "seen", "do")];
        assert_eq!(invariant.finding(&others).verdict, Verdict::HeldByTest);
        let good = Evidence::holds(invariant.name, "fine");
        assert_eq!(invariant.finding(std::slice::from_ref(&good)).verdict, Verdict::Pass);
        let bad = Evidence::against(invariant.name, "a key", "mend");
        let finding = invariant.finding(&[good, bad]);
        assert_eq!((finding.verdict, finding.evidence.as_str()), (Verdict::Fail, "a key"));
    }
}
