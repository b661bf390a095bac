//! Admission, replacement and the limit: one decision.

use std::slice;
use std::time::Duration;

use super::{Contract, LEASE, LONG, admitted, policy};
use crate::directory::{Policy, Refusal, Registration};
use crate::lease::Lease;

impl Contract<'_> {
    pub(super) async fn prove_admission(&self) {
        self.the_same_device_replaces_its_older_connection().await;
        self.a_lease_that_is_held_is_renewed_by_registering_it().await;
        self.a_single_session_replaces_every_device_but_not_other_kinds().await;
        self.the_younger_socket_wins_whatever_the_order().await;
        self.the_limit_refuses_a_new_connection_but_not_a_lost_one().await;
        self.the_limit_counts_live_connections_only().await;
        self.the_loser_cannot_remove_the_winner().await;
        self.a_refused_connection_leaves_no_trace().await;
    }

    async fn the_same_device_replaces_its_older_connection(&self) {
        let user = self.user();
        let (node_a, node_b) = (self.node(), self.node());
        let old = self.lease(&user, &node_a, "phone");
        let other = self.lease(&user, &node_a, "laptop");
        let party = self.party(&user, &node_a, "phone");
        for lease in [&old, &other, &party] {
            self.connect(lease, policy(LONG)).await;
        }
        let new = self.lease(&user, &node_b, "phone");
        assert_eq!(self.register(&new, policy(LONG)).await, admitted(&[&old]));
        let live = [other.key.clone(), party.key.clone(), new.key.clone()];
        assert_eq!(self.live(&user).await, live);
        assert_eq!(self.renew(&old, LONG).await, slice::from_ref(&old.key), "its lease is gone");
        let by_node = self.other().by_node(&node_a).await.expect("the directory answers");
        assert_eq!(by_node.len(), 2);
        for lease in [&other, &party, &new] {
            self.disconnect(lease).await;
        }
    }

    async fn a_lease_that_is_held_is_renewed_by_registering_it(&self) {
        let user = self.user();
        let lease = self.lease(&user, &self.node(), "phone");
        self.connect(&lease, policy(LEASE)).await;
        let full = Policy { connections_per_user: 1, ..policy(LONG) };
        assert_eq!(self.register(&lease, full).await, admitted(&[]));
        self.outlive_lease().await;
        assert_eq!(self.live(&user).await, slice::from_ref(&lease.key));
        self.disconnect(&lease).await;
    }

    async fn a_single_session_replaces_every_device_but_not_other_kinds(&self) {
        let single = Policy { single_session: true, ..policy(LONG) };
        let (user, node_a) = (self.user(), self.node());
        let party = self.party(&user, &node_a, "phone");
        let old = self.lease(&user, &node_a, "phone");
        let new = self.lease(&user, &self.node(), "laptop");
        self.connect(&party, single).await;
        self.connect(&old, single).await;
        assert_eq!(self.register(&new, single).await, admitted(&[&old]));
        assert_eq!(self.live(&user).await, [party.key.clone(), new.key.clone()]);
        let again = Lease { age: Duration::from_secs(30), again: true, ..old };
        let answer = self.register(&again, single).await;
        assert_eq!(answer, Registration::Refused(Refusal::Replaced), "the older never returns");
        for lease in [&party, &new] {
            self.disconnect(lease).await;
        }
    }

    async fn the_younger_socket_wins_whatever_the_order(&self) {
        let user = self.user();
        let old = self.lease(&user, &self.node(), "phone");
        let old = Lease { age: Duration::from_secs(30), again: true, ..old };
        let young = self.lease(&user, &self.node(), "phone");
        self.connect(&young, policy(LONG)).await;
        let answer = self.register(&old, policy(LONG)).await;
        assert_eq!(answer, Registration::Refused(Refusal::Replaced));
        assert_eq!(self.live(&user).await, slice::from_ref(&young.key));
        let younger = self.lease(&user, &self.node(), "phone");
        assert_eq!(self.register(&younger, policy(LONG)).await, admitted(&[&young]));
        self.disconnect(&younger).await;
    }

    async fn the_limit_refuses_a_new_connection_but_not_a_lost_one(&self) {
        let two = Policy { connections_per_user: 2, ..policy(LONG) };
        let (user, node) = (self.user(), self.node());
        let first = self.lease(&user, &node, "d1");
        let second = self.party(&user, &node, "d2");
        for lease in [&first, &second] {
            self.connect(lease, two).await;
        }
        let third = self.lease(&user, &node, "d3");
        let answer = self.register(&third, two).await;
        assert_eq!(answer, Registration::Refused(Refusal::ConnectionLimit));
        let same_device = self.lease(&user, &node, "d1");
        assert_eq!(self.register(&same_device, two).await, admitted(&[&first]));
        let again = Lease { again: true, ..third };
        self.connect(&again, two).await;
        for lease in [&second, &same_device, &again] {
            self.disconnect(lease).await;
        }
    }

    async fn the_limit_counts_live_connections_only(&self) {
        let one = Policy { connections_per_user: 1, ..policy(LEASE) };
        let (user, node) = (self.user(), self.node());
        let silent = self.lease(&user, &node, "d1");
        self.connect(&silent, one).await;
        self.outlive_lease().await;
        let left = self.lease(&user, &node, "d2");
        assert_eq!(self.register(&left, one).await, admitted(&[]), "a crash locks nobody out");
        self.unregister(&left, LONG).await;
        let back = self.lease(&user, &node, "d3");
        assert_eq!(self.register(&back, one).await, admitted(&[]), "nor does lingering");
        self.disconnect(&back).await;
    }

    async fn the_loser_cannot_remove_the_winner(&self) {
        let (user, node) = (self.user(), self.announced_node().await);
        let old = self.lease(&user, &node, "phone");
        let new = self.lease(&user, &node, "phone");
        self.connect(&old, policy(LONG)).await;
        assert_eq!(self.register(&new, policy(LONG)).await, admitted(&[&old]));
        self.disconnect(&old).await;
        assert_eq!(self.live(&user).await, slice::from_ref(&new.key));
        let routes = self.other().routes(slice::from_ref(&user), &self.node()).await;
        assert_eq!(routes.expect("the directory answers")[0].connections, 1);
        self.disconnect(&new).await;
    }

    async fn a_refused_connection_leaves_no_trace(&self) {
        let full = Policy { connections_per_user: 0, ..policy(LONG) };
        let (user, node) = (self.user(), self.announced_node().await);
        let lease = self.lease(&user, &node, "phone");
        let answer = self.register(&lease, full).await;
        assert_eq!(answer, Registration::Refused(Refusal::ConnectionLimit));
        assert_eq!(self.live(&user).await, []);
        let by_node = self.other().by_node(&node).await.expect("the directory answers");
        assert_eq!(by_node, []);
        assert!(!self.is_online(&user).await);
        let routes = self.other().routes(slice::from_ref(&user), &self.node()).await;
        assert_eq!(routes.expect("the directory answers"), []);
    }
}
