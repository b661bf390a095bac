//! The suite that every [`Directory`] must pass. Each function takes a directory in which the
//! users that it names are unknown, so one engine can serve them all in turn.

use std::time::Duration;

use heartline_protocol::{ConnectionId, DeviceId, NodeId, UserId};

use crate::directory::{Directory, Policy, Refusal, Registration, Route};
use crate::lease::{Lease, LeaseKey, LeaseKind, shard_of};

/// Long enough for an engine on the same machine to answer within, short enough to wait for.
const LEASE: Duration = Duration::from_millis(400);

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60);

/// What a test needs to make leases: the shard count must be the directory's.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    /// Into how many shards the directory divides users.
    pub shards: u16,
}

fn policy(lease: Duration) -> Policy {
    Policy { single_session: false, connections_per_user: 20, lease, offline_linger: Duration::ZERO }
}

fn admitted(replaced: &[&Lease]) -> Registration {
    Registration::Admitted { replaced: replaced.iter().map(|lease| lease.key.clone()).collect() }
}

impl Contract {
    /// Runs the whole suite.
    pub async fn run(self, directory: &dyn Directory) {
        self.a_registered_connection_is_found_by_user_node_and_id(directory).await;
        self.an_unrenewed_lease_ends_although_a_sibling_is_renewed(directory).await;
        self.a_renewal_says_which_leases_were_lost(directory).await;
        self.the_same_device_replaces_its_older_connection(directory).await;
        self.a_single_session_replaces_every_device_but_not_other_kinds(directory).await;
        self.the_younger_socket_wins_whatever_the_order(directory).await;
        self.the_limit_refuses_a_new_connection_but_not_a_lost_one(directory).await;
        self.the_loser_cannot_remove_the_winner(directory).await;
        self.each_ended_lease_is_swept_exactly_once(directory).await;
        self.routes_lead_to_other_nodes_with_chat_connections(directory).await;
    }

    fn lease(self, user: &str, node: &str, device: &str, number: u128) -> Lease {
        let user_id: UserId = user.parse().expect("a legal user id");
        let shard = shard_of(&user_id, self.shards);
        Lease {
            key: LeaseKey {
                connection_id: ConnectionId { ulid: number.into(), shard },
                user_id,
                node_id: node.parse::<NodeId>().expect("a legal node id"),
            },
            device_id: device.parse::<DeviceId>().expect("a legal device id"),
            kind: LeaseKind::Chat,
            age: Duration::ZERO,
            again: false,
        }
    }

    async fn register(
        self,
        directory: &dyn Directory,
        lease: &Lease,
        policy: Policy,
    ) -> Registration {
        directory.register(lease.clone(), policy).await.expect("the directory answers")
    }

    async fn live(self, directory: &dyn Directory, lease: &Lease) -> Vec<LeaseKey> {
        let users = [lease.key.user_id.clone()];
        let live = directory.by_user(&users).await.expect("the directory answers");
        live.into_iter().flatten().map(|live| live.key).collect()
    }

    async fn a_registered_connection_is_found_by_user_node_and_id(self, directory: &dyn Directory) {
        let phone = self.lease("contract-find", "node-find", "phone", 101);
        assert_eq!(self.register(directory, &phone, policy(LONG)).await, admitted(&[]));

        let users = ["nobody", "contract-find"].map(|user| user.parse().expect("a legal id"));
        let by_user = directory.by_user(&users).await.expect("the directory answers");
        assert_eq!(by_user[0], [], "who was never here has no connections");
        assert_eq!(by_user[1].len(), 1);
        assert_eq!(by_user[1][0].key, phone.key);
        assert_eq!(by_user[1][0].device_id, phone.device_id);
        assert!(by_user[1][0].remaining <= LONG);

        let by_node = directory.by_node(&phone.key.node_id).await.expect("the directory answers");
        assert_eq!(by_node.len(), 1);
        let id = phone.key.connection_id;
        let found = directory.by_connection(id).await.expect("the directory answers");
        assert_eq!(found.map(|live| live.key), Some(phone.key.clone()));

        directory.unregister(&phone.key, Duration::ZERO).await.expect("the directory answers");
        assert_eq!(self.live(directory, &phone).await, []);
        assert_eq!(directory.by_connection(id).await.expect("the directory answers"), None);
        directory.unregister(&phone.key, Duration::ZERO).await.expect("a second end changes nothing");
    }

    async fn an_unrenewed_lease_ends_although_a_sibling_is_renewed(
        self,
        directory: &dyn Directory,
    ) {
        let dead = self.lease("contract-expiry", "node-dead", "phone", 111);
        let alive = self.lease("contract-expiry", "node-alive", "laptop", 112);
        for lease in [&dead, &alive] {
            assert_eq!(self.register(directory, lease, policy(LEASE)).await, admitted(&[]));
        }
        for _ in 0..4 {
            tokio::time::sleep(LEASE / 3).await;
            let keys = [alive.key.clone()];
            let lost = directory.renew(&keys, LEASE).await.expect("the directory answers");
            assert_eq!(lost, [], "a lease renewed in time is not lost");
        }
        assert_eq!(self.live(directory, &alive).await, std::slice::from_ref(&alive.key));
        directory.unregister(&alive.key, Duration::ZERO).await.expect("the directory answers");
    }

    async fn a_renewal_says_which_leases_were_lost(self, directory: &dyn Directory) {
        let held = self.lease("contract-lost", "node-a", "phone", 121);
        let lost = self.lease("contract-lost", "node-a", "laptop", 122);
        self.register(directory, &held, policy(LONG)).await;
        let keys = [held.key.clone(), lost.key.clone()];
        let answer = directory.renew(&keys, LONG).await.expect("the directory answers");
        assert_eq!(answer, std::slice::from_ref(&lost.key));
        assert_eq!(
            self.live(directory, &held).await,
            std::slice::from_ref(&held.key),
            "renewing makes nothing"
        );
        directory.unregister(&held.key, Duration::ZERO).await.expect("the directory answers");
    }

    async fn the_same_device_replaces_its_older_connection(self, directory: &dyn Directory) {
        let old = self.lease("contract-device", "node-a", "phone", 131);
        let other = self.lease("contract-device", "node-a", "laptop", 132);
        let new = self.lease("contract-device", "node-b", "phone", 133);
        assert_eq!(self.register(directory, &old, policy(LONG)).await, admitted(&[]));
        assert_eq!(self.register(directory, &other, policy(LONG)).await, admitted(&[]));
        assert_eq!(self.register(directory, &new, policy(LONG)).await, admitted(&[&old]));
        let mut live = self.live(directory, &new).await;
        live.sort_by_key(|key| key.connection_id);
        assert_eq!(live, [other.key.clone(), new.key.clone()]);
        let again = self.register(directory, &new, policy(LONG)).await;
        assert_eq!(again, admitted(&[]), "registering twice is a renewal");
    }

    async fn a_single_session_replaces_every_device_but_not_other_kinds(
        self,
        directory: &dyn Directory,
    ) {
        let single = Policy { single_session: true, ..policy(LONG) };
        let party = Lease {
            kind: LeaseKind::Party,
            ..self.lease("contract-single", "node-a", "phone", 141)
        };
        let old = self.lease("contract-single", "node-a", "phone", 142);
        let new = self.lease("contract-single", "node-b", "laptop", 143);
        assert_eq!(self.register(directory, &party, single).await, admitted(&[]));
        assert_eq!(self.register(directory, &old, single).await, admitted(&[]));
        assert_eq!(self.register(directory, &new, single).await, admitted(&[&old]));
        assert_eq!(self.live(directory, &new).await.len(), 2, "the party socket stays");
    }

    async fn the_younger_socket_wins_whatever_the_order(self, directory: &dyn Directory) {
        let young = self.lease("contract-age", "node-b", "phone", 151);
        let mut old = self.lease("contract-age", "node-a", "phone", 152);
        old.age = Duration::from_secs(30);
        old.again = true;
        self.register(directory, &young, policy(LONG)).await;
        let answer = self.register(directory, &old, policy(LONG)).await;
        assert_eq!(answer, Registration::Refused(Refusal::Replaced));
        assert_eq!(self.live(directory, &young).await, std::slice::from_ref(&young.key));
    }

    async fn the_limit_refuses_a_new_connection_but_not_a_lost_one(
        self,
        directory: &dyn Directory,
    ) {
        let two = Policy { connections_per_user: 2, ..policy(LONG) };
        for number in [161, 162] {
            let lease = self.lease("contract-limit", "node-a", &format!("d{number}"), number);
            assert_eq!(self.register(directory, &lease, two).await, admitted(&[]));
        }
        let third = self.lease("contract-limit", "node-a", "d163", 163);
        let answer = self.register(directory, &third, two).await;
        assert_eq!(answer, Registration::Refused(Refusal::ConnectionLimit));
        let same_device = self.lease("contract-limit", "node-a", "d162", 164);
        let answer = self.register(directory, &same_device, two).await;
        assert!(matches!(answer, Registration::Admitted { replaced } if replaced.len() == 1));
        let again = Lease { again: true, ..third };
        assert_eq!(self.register(directory, &again, two).await, admitted(&[]));
    }

    async fn the_loser_cannot_remove_the_winner(self, directory: &dyn Directory) {
        let old = self.lease("contract-loser", "node-a", "phone", 171);
        let new = self.lease("contract-loser", "node-b", "phone", 172);
        self.register(directory, &old, policy(LONG)).await;
        assert_eq!(self.register(directory, &new, policy(LONG)).await, admitted(&[&old]));
        directory.unregister(&old.key, Duration::ZERO).await.expect("the directory answers");
        assert_eq!(self.live(directory, &new).await, std::slice::from_ref(&new.key));
    }

    async fn each_ended_lease_is_swept_exactly_once(self, directory: &dyn Directory) {
        let ended = [181, 182, 183]
            .map(|number| self.lease("contract-sweep", "node-a", &format!("d{number}"), number));
        for lease in &ended {
            self.register(directory, lease, policy(LEASE)).await;
        }
        tokio::time::sleep(LEASE + LEASE / 4).await;
        assert_eq!(self.live(directory, &ended[0]).await, [], "ended before any sweep");
        let mut swept = Vec::new();
        for _ in 0..4 {
            let batch = directory.sweep(2, policy(LEASE)).await.expect("the directory answers");
            assert!(batch.len() <= 2, "a sweep keeps to its limit");
            swept.extend(batch.into_iter().filter(|key| key.user_id == ended[0].key.user_id));
        }
        swept.sort_by_key(|key| key.connection_id);
        assert_eq!(swept, ended.map(|lease| lease.key));
    }

    async fn routes_lead_to_other_nodes_with_chat_connections(self, directory: &dyn Directory) {
        let here = self.lease("contract-routes", "node-here", "d1", 191);
        let there = self.lease("contract-routes", "node-there", "d2", 192);
        let also_there = self.lease("contract-routes", "node-there", "d3", 193);
        let party = Lease {
            kind: LeaseKind::Party,
            ..self.lease("contract-routes", "node-party", "d4", 194)
        };
        for lease in [&here, &there, &also_there, &party] {
            assert_eq!(self.register(directory, lease, policy(LONG)).await, admitted(&[]));
        }
        let users = ["nobody", "contract-routes"].map(|user| user.parse().expect("a legal id"));
        let routes = directory.routes(&users, &here.key.node_id).await;
        let route = Route {
            node_id: there.key.node_id.clone(),
            user_ids: vec![there.key.user_id.clone()],
            connections: 2,
        };
        assert_eq!(routes.expect("the directory answers"), [route]);
    }
}
