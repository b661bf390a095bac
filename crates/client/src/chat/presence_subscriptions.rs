//! The users whose presence the application subscribes to, and the requests that subscribe again on
//! every connection.

use std::collections::{BTreeMap, BTreeSet};

use heartline_protocol::client_frame::PresenceUsers;
use heartline_protocol::limits::{ClientLimits, PRESENCE_USERS_PER_CONNECTION_MAX};
use heartline_protocol::{ClientFrame, ErrorFrame, RequestId, UserId};
use tokio::time::Instant;

use crate::back_off::BackOff;
use crate::chat::rate_limit::RateLimit;
use crate::chat::retry_decision::{RetryDecision, decide};

/// The reason why users are not subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The limit of one connection would be exceeded; no user is added.
    #[error("at most {PRESENCE_USERS_PER_CONNECTION_MAX} users can be subscribed to")]
    TooMany,
    /// The client has stopped; the last event has the reason.
    #[error("the client has stopped")]
    Stopped,
}

/// The presence subscriptions of the application.
#[derive(Debug)]
pub(crate) struct PresenceSubscriptions {
    /// The users that the application subscribed to, over all connections.
    wanted: BTreeSet<UserId>,
    /// The users of this connection's subscriptions that the server confirmed.
    confirmed: BTreeSet<UserId>,
    /// The changes that are not sent yet, one per user; a later change replaces an earlier one.
    unsent: BTreeMap<UserId, Change>,
    /// The request under way. Only one at a time, so that changes arrive in order.
    in_flight: Option<InFlight>,
    /// No request is sent before this time, because the server asked for a delay.
    paused_until: Option<Instant>,
    rate_limit: RateLimit,
    users_per_frame: usize,
    /// Requests since the start.
    requests: u64,
    back_off: BackOff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Subscribe,
    Unsubscribe,
}

#[derive(Debug)]
struct InFlight {
    request_id: RequestId,
    user_ids: Vec<UserId>,
    change: Change,
}

/// The effect of an error frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ErrorEffect {
    /// The error is not about a presence request.
    Unrelated,
    /// The request is sent again.
    Retry,
    /// The server rejected the subscription to these users.
    Rejected(Vec<UserId>),
}

impl PresenceSubscriptions {
    /// No subscriptions.
    pub(crate) fn new(back_off: BackOff) -> Self {
        let limits = ClientLimits::default();
        Self {
            wanted: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            unsent: BTreeMap::new(),
            in_flight: None,
            paused_until: None,
            rate_limit: rate_limit(&limits),
            users_per_frame: users_per_frame(&limits),
            requests: 0,
            back_off,
        }
    }

    /// Subscribes to users: to all, or to none if there are too many.
    pub(crate) fn subscribe(&mut self, user_ids: &[UserId]) -> Result<(), SubscribeError> {
        let new: BTreeSet<_> = user_ids.iter().filter(|id| !self.wanted.contains(*id)).collect();
        if self.wanted.len() + new.len() > PRESENCE_USERS_PER_CONNECTION_MAX {
            return Err(SubscribeError::TooMany);
        }
        for user_id in user_ids {
            self.wanted.insert(user_id.clone());
            self.unsent.insert(user_id.clone(), Change::Subscribe);
        }
        Ok(())
    }

    /// Unsubscribes from users. Nothing is sent for users for whom no subscribe was sent.
    pub(crate) fn unsubscribe(&mut self, user_ids: &[UserId]) {
        for user_id in user_ids {
            self.wanted.remove(user_id);
            if self.confirmed.contains(user_id) || self.change_in_flight(user_id).is_some() {
                self.unsent.insert(user_id.clone(), Change::Unsubscribe);
            } else {
                self.unsent.remove(user_id);
            }
        }
    }

    /// The change under way for a user.
    fn change_in_flight(&self, user_id: &UserId) -> Option<Change> {
        let in_flight =
            self.in_flight.as_ref().filter(|in_flight| in_flight.user_ids.contains(user_id));
        in_flight.map(|in_flight| in_flight.change)
    }

    /// Whether an unsubscribe is pending for a user.
    pub(crate) fn is_unsubscribing(&self, user_id: &UserId) -> bool {
        let unsent = self.unsent.get(user_id).copied();
        unsent.or(self.change_in_flight(user_id)) == Some(Change::Unsubscribe)
    }

    /// A connection begins, without subscriptions.
    pub(crate) fn connected(&mut self, limits: &ClientLimits) {
        self.disconnected();
        (self.rate_limit, self.users_per_frame) = (rate_limit(limits), users_per_frame(limits));
        self.unsent =
            self.wanted.iter().map(|user_id| (user_id.clone(), Change::Subscribe)).collect();
    }

    /// The connection ended, and with it its subscriptions.
    pub(crate) fn disconnected(&mut self) {
        (self.in_flight, self.paused_until) = (None, None);
        self.unsent.clear();
        self.confirmed.clear();
    }

    /// The server accepted a newer token: requests that waited for it continue.
    pub(crate) fn token_refreshed(&mut self) {
        self.paused_until = None;
    }

    /// When to send the next request.
    pub(crate) fn due_at(&self, now: Instant) -> Option<Instant> {
        if self.in_flight.is_some() || self.unsent.is_empty() {
            return None;
        }
        let ready_at = self.rate_limit.ready_at(now);
        Some(self.paused_until.map_or(ready_at, |until| until.max(ready_at)))
    }

    /// The request to send now. Unsubscribes come first, because they make room.
    pub(crate) fn next(&mut self, now: Instant) -> Option<ClientFrame> {
        if self.due_at(now)? > now {
            return None;
        }
        let has_unsubscribes = self.unsent.values().any(|change| *change == Change::Unsubscribe);
        let change = if has_unsubscribes { Change::Unsubscribe } else { Change::Subscribe };
        let of_change = self.unsent.iter().filter(|(_, other)| **other == change);
        let user_ids: Vec<UserId> =
            of_change.map(|(user_id, _)| user_id.clone()).take(self.users_per_frame).collect();
        user_ids.iter().for_each(|user_id| _ = self.unsent.remove(user_id));
        self.requests += 1;
        let request_id: RequestId = format!("heartline-client-presence-{}", self.requests)
            .parse()
            .expect("a fixed prefix and a number are a valid request id");
        self.rate_limit.spend(now);
        let frame = PresenceUsers { request_id: request_id.clone(), user_ids: user_ids.clone() };
        self.in_flight = Some(InFlight { request_id, user_ids, change });
        Some(match change {
            Change::Subscribe => ClientFrame::PresenceSubscribe(frame),
            Change::Unsubscribe => ClientFrame::PresenceUnsubscribe(frame),
        })
    }

    /// A snapshot arrived, possibly in answer to the request under way.
    pub(crate) fn answered(&mut self, request_id: &RequestId) {
        let is_it = |in_flight: &mut InFlight| in_flight.request_id == *request_id;
        let Some(InFlight { user_ids, change, .. }) = self.in_flight.take_if(is_it) else { return };
        self.back_off.reset();
        match change {
            Change::Subscribe => self.confirmed.extend(user_ids),
            Change::Unsubscribe => self.confirmed.retain(|user_id| !user_ids.contains(user_id)),
        }
    }

    /// An error arrived.
    pub(crate) fn on_error(&mut self, error: &ErrorFrame, now: Instant) -> ErrorEffect {
        let is_it =
            |in_flight: &mut InFlight| error.request_id.as_ref() == Some(&in_flight.request_id);
        let Some(InFlight { user_ids, change, .. }) = self.in_flight.take_if(is_it) else {
            return ErrorEffect::Unrelated;
        };
        match (decide(error, &mut self.back_off), change) {
            (RetryDecision::RetryAll(delay) | RetryDecision::RetryOne(delay), change) => {
                self.paused_until = Some(now + delay);
                for user_id in user_ids {
                    self.unsent.entry(user_id).or_insert(change);
                }
                ErrorEffect::Retry
            }
            (RetryDecision::GiveUp, Change::Subscribe) => {
                // Users that were subscribed to again in the meantime are retried.
                let is_over = |user_id: &UserId| !self.unsent.contains_key(user_id);
                let user_ids: Vec<UserId> = user_ids.into_iter().filter(is_over).collect();
                user_ids.iter().for_each(|user_id| _ = self.wanted.remove(user_id));
                ErrorEffect::Rejected(user_ids)
            }
            (RetryDecision::GiveUp, Change::Unsubscribe) => ErrorEffect::Retry,
        }
    }
}

/// The rate limit of presence requests: one less than the server allows, because the network may
/// deliver frames in bursts.
fn rate_limit(limits: &ClientLimits) -> RateLimit {
    let rate = limits.presence_rate.saturating_sub(1);
    RateLimit::new(rate, rate)
}

fn users_per_frame(limits: &ClientLimits) -> usize {
    usize::try_from(limits.presence_users_per_frame).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests;
