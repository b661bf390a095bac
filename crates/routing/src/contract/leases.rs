//! Leases: found until they expire, and not afterwards.

use std::slice;

use heartline_protocol::UserId;
use tokio::time::sleep;

use super::{Contract, LEASE, LONG, policy};
use crate::lease::{Lease, LeaseKey};

impl Contract<'_> {
    pub(super) async fn prove_leases(&self) {
        self.a_registered_connection_is_found_by_user_node_and_id().await;
        self.an_ended_connection_is_not_found().await;
        self.an_unrenewed_lease_ends_although_a_sibling_is_renewed().await;
        self.a_renewal_returns_the_lost_leases().await;
        self.an_unregistration_ends_an_expired_sibling().await;
        self.many_leases_are_renewed_and_extended_in_one_call().await;
        self.an_extension_misses_nothing_of_a_party_connection().await;
        self.each_ended_lease_is_swept_exactly_once().await;
    }

    async fn a_registered_connection_is_found_by_user_node_and_id(&self) {
        let (user, stranger, node) = (self.user(), self.user(), self.node());
        let phone = self.lease(&user, &node, "phone");
        let party = self.party(&user, &node, "tv:1|x");
        self.connect(&phone, policy(LONG)).await;
        self.connect(&party, policy(LONG)).await;

        let users = [stranger, user.clone(), user.clone()];
        let by_user = self.other().by_user(&users).await.expect("the directory answers");
        assert_eq!(by_user[0], [], "an unknown user has no connections");
        assert_eq!(by_user[1].len(), 2);
        assert_eq!(by_user[2].len(), 2, "in the order asked, each as often as asked");
        let found = by_user[1].iter().find(|live| live.key == phone.key).expect("it is found");
        assert_eq!((&found.device_id, found.kind), (&phone.device_id, phone.kind));
        assert!(found.remaining <= LONG && found.remaining > LONG / 2);
        assert!(found.age < LONG / 2);

        let by_node = self.other().by_node(&node).await.expect("the directory answers");
        assert_eq!(by_node.len(), 2);
        let other = self.other().by_connection(party.key.connection_id).await;
        let other = other.expect("the directory answers").expect("it is found");
        assert_eq!((other.key, other.kind), (party.key.clone(), party.kind));
        self.disconnect(&phone).await;
        assert_eq!(self.live(&user).await, slice::from_ref(&party.key));
        self.disconnect(&party).await;
    }

    async fn an_ended_connection_is_not_found(&self) {
        let (user, node) = (self.user(), self.node());
        let closed = self.lease(&user, &node, "closed");
        let silent = self.lease(&user, &node, "silent");
        self.connect(&closed, policy(LONG)).await;
        self.connect(&silent, policy(LEASE)).await;
        self.disconnect(&closed).await;
        self.disconnect(&closed).await;
        assert_eq!(self.live(&user).await, slice::from_ref(&silent.key));
        self.outlive_lease().await;
        assert_eq!(self.live(&user).await, [], "it ended before any sweep");
        let by_node = self.other().by_node(&node).await.expect("the directory answers");
        assert_eq!(by_node, []);
        for lease in [&closed, &silent] {
            let found = self.other().by_connection(lease.key.connection_id).await;
            assert_eq!(found.expect("the directory answers"), None);
        }
        self.sweep(policy(LEASE)).await;
    }

    async fn an_unrenewed_lease_ends_although_a_sibling_is_renewed(&self) {
        let user = self.user();
        let dead = self.lease(&user, &self.node(), "phone");
        let alive = self.lease(&user, &self.node(), "laptop");
        for lease in [&dead, &alive] {
            self.connect(lease, policy(LEASE)).await;
        }
        for _ in 0..5 {
            sleep(LEASE / 4).await;
            assert_eq!(self.renew(&alive, LEASE).await, [], "renewed in time is not lost");
        }
        assert_eq!(self.live(&user).await, slice::from_ref(&alive.key));
        self.disconnect(&alive).await;
        self.sweep(policy(LEASE)).await;
    }

    async fn a_renewal_returns_the_lost_leases(&self) {
        let (user, node) = (self.user(), self.node());
        let held = self.lease(&user, &node, "phone");
        let lost = self.lease(&user, &node, "laptop");
        let ended = self.lease(&user, &node, "tablet");
        self.connect(&held, policy(LONG)).await;
        self.connect(&ended, policy(LONG)).await;
        self.disconnect(&ended).await;
        let keys = [held.key.clone(), lost.key.clone(), ended.key.clone()];
        let answer = self.first().renew(&keys, LONG).await.expect("the directory answers");
        assert_eq!(answer, [lost.key.clone(), ended.key]);
        assert_eq!(self.live(&user).await, slice::from_ref(&held.key), "renewing makes nothing");
        assert_eq!(self.renew(&held, LEASE).await, [], "a renewal at the same instant counts");
        self.disconnect(&held).await;
    }

    async fn an_unregistration_ends_an_expired_sibling(&self) {
        let (user, node) = (self.user(), self.announced_node().await);
        let silent = self.lease(&user, &node, "phone");
        let leaving = self.lease(&user, &node, "laptop");
        self.connect(&silent, policy(LEASE)).await;
        self.connect(&leaving, policy(LONG)).await;
        self.outlive_lease().await;
        self.disconnect(&leaving).await;
        assert_eq!(self.renew(&silent, LONG).await, slice::from_ref(&silent.key), "without route");
        let again = Lease { again: true, ..silent };
        self.connect(&again, policy(LONG)).await;
        let routes = self.other().routes(slice::from_ref(&user), &self.node()).await;
        assert_eq!(routes.expect("the directory answers")[0].connections, 1);
        self.disconnect(&again).await;
    }

    async fn many_leases_are_renewed_and_extended_in_one_call(&self) {
        let node = self.node();
        let mut held: Vec<Lease> = Vec::new();
        for _ in 0..130 {
            held.push(self.lease(&self.user(), &node, "phone"));
        }
        // Many in one shard, so that they do not fit into one command.
        let user: UserId = self.user();
        for number in 0..130 {
            held.push(self.lease(&user, &node, &format!("device-{number}")));
        }
        let many = super::Policy { connections_per_user: 1000, ..policy(LONG) };
        for lease in &held {
            self.connect(lease, many).await;
        }
        let mut keys: Vec<LeaseKey> = held.iter().map(|lease| lease.key.clone()).collect();
        let lost = self.lease(&self.user(), &node, "phone").key;
        keys.insert(77, lost.clone());
        let answer = self.first().renew(&keys, LONG).await.expect("the directory answers");
        assert_eq!(answer, slice::from_ref(&lost));
        keys.remove(77);
        let answer = self.first().extend(&keys).await.expect("the directory answers");
        assert_eq!(answer, []);
        let by_node = self.other().by_node(&node).await.expect("the directory answers");
        assert_eq!(by_node.len(), held.len());
        for lease in &held {
            self.disconnect(lease).await;
        }
        let by_node = self.other().by_node(&node).await.expect("the directory answers");
        assert_eq!(by_node, []);
    }

    async fn an_extension_misses_nothing_of_a_party_connection(&self) {
        let (user, node) = (self.user(), self.node());
        let held = self.party(&user, &node, "phone");
        self.connect(&held, policy(LONG)).await;
        let keys = slice::from_ref(&held.key);
        let answer = self.first().extend(keys).await.expect("the directory answers");
        assert_eq!(answer, [], "which is no target of routes");
        self.disconnect(&held).await;
    }

    async fn each_ended_lease_is_swept_exactly_once(&self) {
        let (user, node) = (self.user(), self.node());
        let devices = ["d1", "d2", "d3", "d4", "d5"];
        let ended = devices.map(|device| self.lease(&user, &node, device));
        for lease in &ended {
            self.connect(lease, policy(LEASE)).await;
        }
        self.outlive_lease().await;
        let mut swept = Vec::new();
        for _ in 0..4 {
            let (first, other) = tokio::join!(
                self.first().sweep(2, policy(LEASE)),
                self.other().sweep(2, policy(LEASE))
            );
            for batch in [first, other] {
                let batch = batch.expect("the directory answers");
                assert!(batch.len() <= 2, "a sweep keeps to its limit");
                swept.extend(batch.into_iter().filter(|key| key.user_id == user));
            }
        }
        swept.sort_by_key(|key| key.connection_id);
        assert_eq!(swept, ended.map(|lease| lease.key));
    }
}
