//! Concurrent calls: nothing is lost, and no false transition is published.

use std::slice;
use std::time::Duration;

use futures_util::future::join_all;

use super::listeners::Listeners;
use super::{Contract, LONG, admitted, policy};
use crate::directory::DirectoryEngine;
use crate::lease::Lease;

/// Users who reconnect at the same time, and how often each does.
const USERS: usize = 20;
const ROUNDS: usize = 10;

impl Contract<'_> {
    pub(super) async fn prove_races(&self) {
        self.a_concurrent_unregistration_never_loses_the_route().await;
        self.many_registrations_of_one_device_leave_exactly_one().await;
    }

    /// The old socket of a device ends while a new one begins on the same node.
    async fn a_concurrent_unregistration_never_loses_the_route(&self) {
        let mut listeners = Listeners::open(self);
        let (node, own) = (self.announced_node().await, self.node());
        let users: Vec<_> = (0..USERS).map(|_| self.user()).collect();
        join_all(users.iter().map(async |user| {
            let mut older = self.lease(user, &node, "older");
            let mut newer = self.lease(user, &node, "newer");
            self.connect(&older, policy(LONG)).await;
            self.connect(&newer, policy(LONG)).await;
            for round in 0..ROUNDS {
                let newest = self.lease(user, &node, &format!("device-{round}"));
                let (left, registered) = tokio::join!(
                    self.other().unregister(&older.key, Duration::ZERO),
                    self.first().register(newest.clone(), policy(LONG))
                );
                left.expect("the directory answers");
                assert_eq!(registered.expect("the directory answers"), admitted(&[]));
                let routes = self.other().routes(slice::from_ref(user), &own).await;
                let routes = routes.expect("the directory answers");
                assert_eq!((routes.len(), routes[0].connections), (1, 2), "in round {round}");
                (older, newer) = (newer, newest);
            }
            let mut live = [older.key.clone(), newer.key.clone()];
            live.sort_by_key(|key| key.connection_id);
            assert_eq!(self.live(user).await, live);
            self.disconnect(&older).await;
            self.disconnect(&newer).await;
        }))
        .await;
        listeners.expect(&users[0], &[true, false]).await;
        let by_node = self.other().by_node(&node).await.expect("the directory answers");
        assert_eq!(by_node, []);
    }

    /// A device that reconnects everywhere at once ends up with one connection, the youngest.
    async fn many_registrations_of_one_device_leave_exactly_one(&self) {
        let mut listeners = Listeners::open(self);
        let (user, node) = (self.user(), self.announced_node().await);
        let leases: Vec<Lease> = (0..50).map(|_| self.lease(&user, &node, "phone")).collect();
        join_all(leases.iter().enumerate().map(async |(index, lease)| {
            let directory: &dyn DirectoryEngine =
                if index % 2 == 0 { self.first() } else { self.other() };
            directory.register(lease.clone(), policy(LONG)).await.expect("the directory answers")
        }))
        .await;
        let live = self.live(&user).await;
        assert_eq!(live.len(), 1, "{live:?}");
        for lease in &leases {
            self.disconnect(lease).await;
        }
        assert_eq!(self.live(&user).await, []);
        listeners.expect(&user, &[true, false]).await;
    }
}
