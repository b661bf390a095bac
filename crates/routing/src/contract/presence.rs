//! Presence: both transitions, each exactly once, and the correct state in between.

use std::slice;
use std::time::Duration;

use heartline_protocol::{Timestamp, UserId};
use tokio::time::sleep;

use super::listeners::Listeners;
use super::{Contract, LEASE, LONG, admitted, policy};
use crate::directory::{Policy, Refusal, Registration};
use crate::presence::PresenceState;

/// The delay that is allowed on a busy machine.
const LATE: Duration = Duration::from_millis(900);

impl Contract<'_> {
    pub(super) async fn prove_presence(&self) {
        self.an_unknown_user_is_offline().await;
        self.going_online_and_offline_are_each_decided_once().await;
        self.two_devices_at_the_same_instant_come_online_once().await;
        self.only_the_last_disconnect_counts().await;
        self.a_replacement_is_no_event().await;
        self.a_refused_connection_brings_nobody_online().await;
        self.a_crash_is_decided_by_the_sweep().await;
        self.a_return_before_the_sweep_is_no_event().await;
        self.a_user_is_kept_online_for_as_long_as_asked().await;
        self.a_return_while_kept_online_is_no_event().await;
        self.a_return_ends_the_time_for_which_a_user_was_kept_online().await;
        self.a_crash_lingers_when_the_policy_says_so().await;
        self.a_clean_disconnect_ends_a_siblings_linger().await;
        self.versions_rise_over_every_return().await;
    }

    async fn an_unknown_user_is_offline(&self) {
        let (stranger, known) = (self.user(), self.user());
        let lease = self.lease(&known, &self.node(), "phone");
        self.connect(&lease, policy(LONG)).await;
        let users = [stranger.clone(), known.clone(), stranger.clone()];
        let states = self.other().presence(&users).await.expect("the directory answers");
        assert!(matches!(states[0], PresenceState::Offline { last_seen: None, .. }));
        assert!(matches!(states[1], PresenceState::Online { .. }));
        assert!(matches!(states[2], PresenceState::Offline { .. }));
        let lease_of_stranger = self.lease(&stranger, &self.node(), "phone");
        let before = states[0].version().expect("a known state");
        self.connect(&lease_of_stranger, policy(LONG)).await;
        let after = self.presence(&stranger).await.version().expect("a known state");
        assert!(after > before, "going online is newer than never having been online");
        self.disconnect(&lease).await;
        self.disconnect(&lease_of_stranger).await;
    }

    async fn going_online_and_offline_are_each_decided_once(&self) {
        let mut listeners = Listeners::open(self);
        let user = self.user();
        let lease = self.party(&user, &self.node(), "phone");
        self.connect(&lease, policy(LONG)).await;
        let online = listeners.expect(&user, &[true]).await;
        assert_eq!(self.presence(&user).await, online[0].state());
        self.connect(&lease, policy(LONG)).await;
        assert_eq!(self.renew(&lease, LONG).await, []);
        listeners.expect(&user, &[]).await;
        self.disconnect(&lease).await;
        self.disconnect(&lease).await;
        let offline = listeners.expect(&user, &[false]).await;
        assert_eq!(self.presence(&user).await, offline[0].state());
        assert!(offline[0].version > online[0].version);
        self.sweep(policy(LONG)).await;
        listeners.expect(&user, &[]).await;
    }

    async fn two_devices_at_the_same_instant_come_online_once(&self) {
        let mut listeners = Listeners::open(self);
        let (user, node) = (self.user(), self.node());
        let (phone, laptop) =
            (self.lease(&user, &node, "phone"), self.lease(&user, &node, "laptop"));
        let both = tokio::join!(
            self.first().register(phone.clone(), policy(LONG)),
            self.other().register(laptop.clone(), policy(LONG))
        );
        assert_eq!(both.0.expect("the directory answers"), admitted(&[]));
        assert_eq!(both.1.expect("the directory answers"), admitted(&[]));
        listeners.expect(&user, &[true]).await;
        let both = tokio::join!(
            self.first().unregister(&phone.key, Duration::ZERO),
            self.other().unregister(&laptop.key, Duration::ZERO)
        );
        both.0.and(both.1).expect("the directory answers");
        listeners.expect(&user, &[false]).await;
    }

    async fn only_the_last_disconnect_counts(&self) {
        let mut listeners = Listeners::open(self);
        let (user, node) = (self.user(), self.node());
        let phone = self.lease(&user, &node, "phone");
        let party = self.party(&user, &node, "phone");
        self.connect(&phone, policy(LONG)).await;
        self.connect(&party, policy(LONG)).await;
        listeners.expect(&user, &[true]).await;
        self.unregister(&phone, LONG).await;
        listeners.expect(&user, &[]).await;
        assert!(self.is_online(&user).await);
        self.disconnect(&party).await;
        listeners.expect(&user, &[false]).await;
    }

    async fn a_replacement_is_no_event(&self) {
        let mut listeners = Listeners::open(self);
        let user = self.user();
        let old = self.lease(&user, &self.node(), "phone");
        let new = self.lease(&user, &self.node(), "phone");
        self.connect(&old, policy(LONG)).await;
        listeners.expect(&user, &[true]).await;
        assert_eq!(self.register(&new, policy(LONG)).await, admitted(&[&old]));
        self.disconnect(&old).await;
        listeners.expect(&user, &[]).await;
        self.disconnect(&new).await;
        listeners.expect(&user, &[false]).await;
    }

    async fn a_refused_connection_brings_nobody_online(&self) {
        let mut listeners = Listeners::open(self);
        let user = self.user();
        let lease = self.lease(&user, &self.node(), "phone");
        let full = Policy { connections_per_user: 0, ..policy(LONG) };
        let answer = self.register(&lease, full).await;
        assert_eq!(answer, Registration::Refused(Refusal::ConnectionLimit));
        listeners.expect(&user, &[]).await;
        assert!(!self.is_online(&user).await);
    }

    async fn a_crash_is_decided_by_the_sweep(&self) {
        let mut listeners = Listeners::open(self);
        let (user, node) = (self.user(), self.node());
        let phone = self.lease(&user, &node, "phone");
        let laptop = self.lease(&user, &node, "laptop");
        let lease = LEASE * 2;
        self.connect(&phone, policy(LEASE / 2)).await;
        self.connect(&laptop, policy(lease)).await;
        sleep(LEASE).await;
        assert_eq!(self.renew(&laptop, lease).await, []);
        self.sweep(policy(lease)).await;
        listeners.expect(&user, &[true]).await;
        assert!(self.is_online(&user).await, "the laptop is still there");
        sleep(lease + LEASE / 4).await;
        let (first, other) = tokio::join!(
            self.first().sweep(1000, policy(lease)),
            self.other().sweep(1000, policy(lease))
        );
        first.and(other).expect("the directory answers");
        let offline = listeners.expect(&user, &[false]).await;
        assert_eq!(self.presence(&user).await, offline[0].state());
        // The version is the directory's time of the decision, if time has passed.
        let decided_at = Timestamp { unix_ms: offline[0].version };
        let last_seen = offline[0].last_seen.expect("when somebody leaves");
        let ago = last_seen.until(decided_at);
        assert!(ago + LATE / 10 >= lease + LEASE / 4, "not the sweep: {ago:?} ago");
        assert!(ago < lease + LEASE / 4 + LATE, "not the beginning: {ago:?} ago");
    }

    async fn a_return_before_the_sweep_is_no_event(&self) {
        let mut listeners = Listeners::open(self);
        let (user, node) = (self.user(), self.node());
        let lost = self.lease(&user, &node, "phone");
        self.connect(&lost, policy(LEASE)).await;
        listeners.expect(&user, &[true]).await;
        self.outlive_lease().await;
        let back = self.lease(&user, &node, "laptop");
        self.connect(&back, policy(LONG)).await;
        self.sweep(policy(LEASE)).await;
        listeners.expect(&user, &[]).await;
        assert!(self.is_online(&user).await);
        self.disconnect(&back).await;
        listeners.expect(&user, &[false]).await;
    }

    async fn a_user_is_kept_online_for_as_long_as_asked(&self) {
        let mut listeners = Listeners::open(self);
        let user = self.user();
        let lease = self.lease(&user, &self.node(), "phone");
        self.connect(&lease, policy(LONG)).await;
        listeners.expect(&user, &[true]).await;
        self.unregister(&lease, LEASE * 2).await;
        let left_at = self.moment().await;
        assert_eq!(self.live(&user).await, [], "it is no longer found");
        assert_eq!(self.renew(&lease, LONG).await, slice::from_ref(&lease.key), "nor renewed");
        self.disconnect(&lease).await;
        self.sweep(policy(LONG)).await;
        listeners.expect(&user, &[]).await;
        assert!(self.is_online(&user).await, "ending it twice changes nothing");
        sleep(LEASE).await;
        self.outlive_lease().await;
        assert_eq!(self.sweep(policy(LONG)).await, [], "its end was known");
        let offline = listeners.expect(&user, &[false]).await;
        let last_seen = offline[0].last_seen.expect("when somebody leaves");
        assert!(last_seen <= left_at && last_seen.until(left_at) < LATE, "the moment of the leave");
    }

    async fn a_return_while_kept_online_is_no_event(&self) {
        let mut listeners = Listeners::open(self);
        let user = self.user();
        let lease = self.lease(&user, &self.node(), "phone");
        self.connect(&lease, policy(LONG)).await;
        listeners.expect(&user, &[true]).await;
        self.unregister(&lease, LEASE).await;
        let back = self.lease(&user, &self.node(), "phone");
        self.connect(&back, policy(LONG)).await;
        self.outlive_lease().await;
        self.sweep(policy(LONG)).await;
        listeners.expect(&user, &[]).await;
        assert!(self.is_online(&user).await);
        self.disconnect(&back).await;
        listeners.expect(&user, &[false]).await;
    }

    async fn a_return_ends_the_time_for_which_a_user_was_kept_online(&self) {
        let mut listeners = Listeners::open(self);
        let user = self.user();
        let lease = self.lease(&user, &self.node(), "phone");
        self.connect(&lease, policy(LONG)).await;
        self.unregister(&lease, LONG).await;
        let back = self.lease(&user, &self.node(), "phone");
        self.connect(&back, policy(LEASE)).await;
        listeners.expect(&user, &[true]).await;
        self.outlive_lease().await;
        self.sweep(policy(LEASE)).await;
        listeners.expect(&user, &[false]).await;
        assert!(!self.is_online(&user).await, "only the new lease counted");
    }

    async fn a_crash_lingers_when_the_policy_says_so(&self) {
        let mut listeners = Listeners::open(self);
        let lingering = Policy { offline_linger: LEASE * 2, ..policy(LEASE) };
        let (gone, back) = (self.user(), self.user());
        let lease = self.lease(&gone, &self.node(), "phone");
        let lease_of_back = self.lease(&back, &self.node(), "phone");
        self.connect(&lease, lingering).await;
        self.connect(&lease_of_back, lingering).await;
        listeners.expect(&gone, &[true]).await;
        self.outlive_lease().await;
        let swept = self.sweep(lingering).await;
        assert!(swept.contains(&lease.key) && swept.contains(&lease_of_back.key));
        assert_eq!(self.live(&gone).await, []);
        assert!(self.is_online(&gone).await, "for a while");
        let again = self.lease(&back, &self.node(), "phone");
        self.connect(&again, policy(LONG)).await;
        sleep(LEASE).await;
        self.outlive_lease().await;
        self.sweep(lingering).await;
        let offline = listeners.expect(&gone, &[false]).await;
        let decided_at = Timestamp { unix_ms: offline[0].version };
        let last_seen = offline[0].last_seen.expect("when somebody leaves");
        // The lease and the linger have passed, and the lease was never renewed.
        assert!(
            last_seen.until(decided_at) + LATE / 10 >= LEASE * 2 || self.is_time_paused().await
        );
        assert!(self.is_online(&back).await, "a user who returned stays online");
        self.disconnect(&again).await;
    }

    async fn a_clean_disconnect_ends_a_siblings_linger(&self) {
        let mut listeners = Listeners::open(self);
        let lingering = Policy { offline_linger: LONG, ..policy(LEASE) };
        let (user, node) = (self.user(), self.node());
        let crashed = self.lease(&user, &node, "phone");
        let leaving = self.lease(&user, &node, "laptop");
        self.connect(&crashed, lingering).await;
        self.connect(&leaving, policy(LONG)).await;
        self.outlive_lease().await;
        self.sweep(lingering).await;
        listeners.expect(&user, &[true]).await;
        self.disconnect(&leaving).await;
        listeners.expect(&user, &[false]).await;
        assert!(!self.is_online(&user).await, "the last live connection ended");
    }

    async fn versions_rise_over_every_return(&self) {
        let mut listeners = Listeners::open(self);
        let user = self.user();
        let mut last = 0;
        for _ in 0..10 {
            let lease = self.lease(&user, &self.node(), "phone");
            self.connect(&lease, policy(LONG)).await;
            self.disconnect(&lease).await;
            let heard = listeners.expect(&user, &[true, false]).await;
            assert!(heard[0].version > last);
            last = heard[1].version;
        }
    }

    /// The directory's own time now: the version of a transition.
    async fn moment(&self) -> Timestamp {
        let user: UserId = self.user();
        let lease = self.lease(&user, &self.node(), "clock");
        self.connect(&lease, policy(LONG)).await;
        let unix_ms = self.presence(&user).await.version().expect("a known state");
        self.disconnect(&lease).await;
        Timestamp { unix_ms }
    }

    /// Whether the runtime's clock is paused, so that the wall clock does not follow it.
    async fn is_time_paused(&self) -> bool {
        let before = self.moment().await;
        sleep(LEASE / 4).await;
        before.until(self.moment().await) < LEASE / 8
    }
}
