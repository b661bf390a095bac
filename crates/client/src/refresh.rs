//! When a newer token is due, and which one was offered to the server.

use std::time::Duration;

use heartline_protocol::{RequestId, Timestamp, Token};
use tokio::time::Instant;

use crate::token::TokenNeed;

/// The shortest delay between two requests to the provider, so that neither a short-lived token nor
/// a provider without a newer one causes a busy loop.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// The share of a token's remaining lifetime after which a newer one is requested.
const REMAINING_LIFE_SHARE: f64 = 0.8;

/// The state of a connection's token.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    /// The expiry of the accepted token, if known.
    expires_at: Option<Timestamp>,
    /// When to request the next token from the provider.
    due_at: Option<Instant>,
    /// The token that was offered to the server and is not answered yet.
    offered: Option<(RequestId, Token)>,
    /// Whether the server rejected the last offered token.
    last_was_rejected: bool,
    /// The number of tokens offered on this connection.
    offer_count: u64,
}

impl Refresh {
    /// The server accepted a token that expires at `expires_at`. If that is in the past, the
    /// client's clock is wrong, and the server will send `token_expired` in time.
    pub(crate) fn set_expiry(
        &mut self,
        expires_at: Option<Timestamp>,
        now: Instant,
        wall: Timestamp,
    ) {
        self.expires_at = expires_at.filter(|end| *end > wall);
        self.last_was_rejected = false;
        self.due_at = self.expires_at.map(|end| now + delay_before(end, wall));
    }

    /// The server sent `token_expired`. A request or an offer under way continues.
    pub(crate) fn expired(&mut self, now: Instant) {
        self.expires_at = None;
        if self.offered.is_none() {
            self.due_at = Some(now);
        }
    }

    /// When to request a token from the provider.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// A request to the provider begins; returns the reason to pass to it.
    pub(crate) fn begin(&mut self) -> TokenNeed {
        self.due_at = None;
        if self.last_was_rejected { TokenNeed::Rejected } else { TokenNeed::Refresh }
    }

    /// The provider has no newer token: request again later, at last once a second.
    pub(crate) fn retry_later(&mut self, now: Instant, wall: Timestamp) {
        let delay = self.expires_at.map_or(DELAY_MIN, |end| delay_before(end, wall));
        self.due_at = Some(now + delay);
    }

    /// Records that `token` is offered to the server; returns the id of the request.
    pub(crate) fn offer(&mut self, token: Token) -> RequestId {
        self.due_at = None;
        self.offer_count += 1;
        let request_id: RequestId = format!("heartline-client-refresh-{}", self.offer_count)
            .parse()
            .expect("a fixed prefix and a number are a valid request id");
        self.offered = Some((request_id.clone(), token));
        request_id
    }

    /// The server accepted the token of this request. Returns the token if it was offered here; the
    /// application may refresh tokens too.
    pub(crate) fn accepted(&mut self, request_id: &RequestId) -> Option<Token> {
        let (_, token) = self.offered.take_if(|(offered, _)| offered == request_id)?;
        Some(token)
    }

    /// The server rejected this request. If it offered a token, another one is requested.
    pub(crate) fn rejected(&mut self, request_id: &RequestId, now: Instant, wall: Timestamp) {
        if self.offered.take_if(|(offered, _)| offered == request_id).is_some() {
            self.last_was_rejected = true;
            self.retry_later(now, wall);
        }
    }
}

fn delay_before(end: Timestamp, wall: Timestamp) -> Duration {
    wall.until(end).mul_f64(REMAINING_LIFE_SHARE).max(DELAY_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const WALL: Timestamp = Timestamp { unix_ms: 1_700_000_000_000 };

    fn expiring_in(seconds: u64, now: Instant) -> Refresh {
        let mut refresh = Refresh::default();
        refresh.set_expiry(Some(WALL.plus(Duration::from_secs(seconds))), now, WALL);
        refresh
    }

    #[test]
    fn a_newer_token_is_due_at_four_fifths_of_the_remaining_lifetime() {
        let now = clock::now();
        assert_eq!(expiring_in(100, now).due_at(), Some(now + Duration::from_secs(80)));
        let mut unknown = Refresh::default();
        unknown.set_expiry(None, now, WALL);
        assert_eq!(unknown.due_at(), None);
    }

    #[test]
    fn an_expired_token_is_replaced_at_once() {
        let now = clock::now();
        let mut refresh = expiring_in(100, now);
        refresh.expired(now);
        assert_eq!(refresh.due_at(), Some(now));
        assert_eq!(refresh.begin(), TokenNeed::Refresh);
        assert_eq!(refresh.due_at(), None);
    }

    #[test]
    fn a_client_whose_clock_is_ahead_waits_for_token_expired() {
        let now = clock::now();
        let mut refresh = Refresh::default();
        refresh.set_expiry(Some(WALL), now, WALL.plus(Duration::from_secs(1)));
        assert_eq!(refresh.due_at(), None);
        refresh.expired(now);
        assert_eq!(refresh.due_at(), Some(now));
    }

    #[test]
    fn after_token_expired_the_exp_claim_is_ignored() {
        let now = clock::now();
        let mut refresh = expiring_in(3600, now);
        refresh.begin();
        refresh.expired(now);
        refresh.retry_later(now, WALL);
        assert_eq!(refresh.due_at(), Some(now + DELAY_MIN));
    }

    #[test]
    fn a_provider_without_a_newer_token_is_asked_again_after_a_delay() {
        let now = clock::now();
        let mut refresh = expiring_in(100, now);
        refresh.retry_later(now, WALL.plus(Duration::from_secs(80)));
        assert_eq!(refresh.due_at(), Some(now + Duration::from_secs(16)));
        refresh.retry_later(now, WALL.plus(Duration::from_secs(1000)));
        assert_eq!(refresh.due_at(), Some(now + DELAY_MIN));
    }

    #[test]
    fn requests_of_the_application_are_ignored() {
        let now = clock::now();
        let mut refresh = expiring_in(100, now);
        let own = refresh.offer(Token("new".to_owned()));
        let other: RequestId = "other".parse().unwrap();
        assert_eq!(refresh.accepted(&other), None);
        assert_eq!(refresh.accepted(&own), Some(Token("new".to_owned())));
        assert_eq!(refresh.accepted(&own), None);
    }

    #[test]
    fn after_a_rejected_offer_a_different_token_is_requested() {
        let now = clock::now();
        let mut refresh = expiring_in(100, now);
        refresh.begin();
        let own = refresh.offer(Token("bad".to_owned()));
        refresh.rejected(&own, now, WALL);
        assert_eq!(refresh.due_at(), Some(now + Duration::from_secs(80)));
        assert_eq!(refresh.begin(), TokenNeed::Rejected);
    }
}
