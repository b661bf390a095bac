//! When a newer token is due, and which one is on its way.

use std::time::Duration;

use heartline_protocol::{RequestId, Timestamp, Token};
use tokio::time::Instant;

use crate::token::TokenNeed;

/// How long to wait at least between two tokens, so that neither a short-lived token nor a
/// provider without news makes the client spin.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The share of a token's remaining life after which a newer one is fetched.
const REMAINING_LIFE_SHARE: f64 = 0.8;

/// The state of a connection's token.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    /// When the token in force ends, if that is known.
    expires_at: Option<Timestamp>,
    /// When to ask the provider next.
    due_at: Option<Instant>,
    /// The token that was offered to the server and not yet answered.
    offered: Option<(RequestId, Token)>,
    /// Whether the last token that was offered was refused.
    last_was_refused: bool,
    /// How many were offered on this connection.
    offer_count: u64,
}

impl Refresh {
    /// The server took a token that ends at `expires_at`. If that is over already by the client's
    /// clock, then the clock is wrong, and the server will say when the token ends.
    pub(crate) fn in_force(
        &mut self,
        expires_at: Option<Timestamp>,
        now: Instant,
        wall: Timestamp,
    ) {
        self.expires_at = expires_at.filter(|end| *end > wall);
        self.last_was_refused = false;
        self.due_at = self.expires_at.map(|end| now + pause_before(end, wall));
    }

    /// The server says that the token has ended. A fetch or an offer under way goes on.
    pub(crate) fn expired(&mut self, now: Instant) {
        self.expires_at = None;
        if self.offered.is_none() {
            self.due_at = Some(now);
        }
    }

    /// When to ask the provider.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// The provider is being asked.
    pub(crate) fn begin(&mut self) -> TokenNeed {
        self.due_at = None;
        if self.last_was_refused { TokenNeed::Refused } else { TokenNeed::Refresh }
    }

    /// The provider had nothing new: it is asked again later, and once a second in the end.
    pub(crate) fn not_yet(&mut self, now: Instant, wall: Timestamp) {
        let pause = self.expires_at.map_or(PAUSE_MIN, |end| pause_before(end, wall));
        self.due_at = Some(now + pause);
    }

    /// A newer token is sent to the server in this request.
    pub(crate) fn offer(&mut self, token: Token) -> RequestId {
        self.due_at = None;
        self.offer_count += 1;
        let request_id: RequestId = format!("heartline-client-refresh-{}", self.offer_count)
            .parse()
            .expect("a fixed prefix and a number are a legal request id");
        self.offered = Some((request_id.clone(), token));
        request_id
    }

    /// The server took the token of this request. Gives it back if it is one that was offered
    /// here; the application may refresh tokens as well.
    pub(crate) fn accepted(&mut self, request_id: &RequestId) -> Option<Token> {
        let (_, token) = self.offered.take_if(|(offered, _)| offered == request_id)?;
        Some(token)
    }

    /// The server refused this request. If it was an offer of a token, another one is fetched.
    pub(crate) fn refused(&mut self, request_id: &RequestId, now: Instant, wall: Timestamp) {
        if self.offered.take_if(|(offered, _)| offered == request_id).is_some() {
            self.last_was_refused = true;
            self.not_yet(now, wall);
        }
    }
}

fn pause_before(end: Timestamp, wall: Timestamp) -> Duration {
    wall.until(end).mul_f64(REMAINING_LIFE_SHARE).max(PAUSE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const WALL: Timestamp = Timestamp { unix_ms: 1_700_000_000_000 };

    fn in_force_for(seconds: u64, now: Instant) -> Refresh {
        let mut refresh = Refresh::default();
        refresh.in_force(Some(WALL.plus(Duration::from_secs(seconds))), now, WALL);
        refresh
    }

    #[test]
    fn a_newer_token_is_due_at_four_fifths_of_the_remaining_life() {
        let now = clock::now();
        assert_eq!(in_force_for(100, now).due_at(), Some(now + Duration::from_secs(80)));
        let mut unknown = Refresh::default();
        unknown.in_force(None, now, WALL);
        assert_eq!(unknown.due_at(), None);
    }

    #[test]
    fn an_expired_token_is_replaced_at_once() {
        let now = clock::now();
        let mut refresh = in_force_for(100, now);
        refresh.expired(now);
        assert_eq!(refresh.due_at(), Some(now));
        assert_eq!(refresh.begin(), TokenNeed::Refresh);
        assert_eq!(refresh.due_at(), None);
    }

    #[test]
    fn a_client_whose_clock_is_ahead_waits_for_the_servers_word() {
        let now = clock::now();
        let mut refresh = Refresh::default();
        refresh.in_force(Some(WALL), now, WALL.plus(Duration::from_secs(1)));
        assert_eq!(refresh.due_at(), None);
        refresh.expired(now);
        assert_eq!(refresh.due_at(), Some(now));
    }

    #[test]
    fn after_the_servers_word_the_tokens_own_claim_counts_no_more() {
        let now = clock::now();
        let mut refresh = in_force_for(3600, now);
        refresh.begin();
        refresh.expired(now);
        refresh.not_yet(now, WALL);
        assert_eq!(refresh.due_at(), Some(now + PAUSE_MIN));
    }

    #[test]
    fn a_provider_without_news_is_asked_again_but_not_in_a_loop() {
        let now = clock::now();
        let mut refresh = in_force_for(100, now);
        refresh.not_yet(now, WALL.plus(Duration::from_secs(80)));
        assert_eq!(refresh.due_at(), Some(now + Duration::from_secs(16)));
        refresh.not_yet(now, WALL.plus(Duration::from_secs(1000)));
        assert_eq!(refresh.due_at(), Some(now + PAUSE_MIN));
    }

    #[test]
    fn only_its_own_requests_are_its_business() {
        let now = clock::now();
        let mut refresh = in_force_for(100, now);
        let own = refresh.offer(Token("new".to_owned()));
        let other: RequestId = "other".parse().unwrap();
        assert_eq!(refresh.accepted(&other), None);
        assert_eq!(refresh.accepted(&own), Some(Token("new".to_owned())));
        assert_eq!(refresh.accepted(&own), None);
    }

    #[test]
    fn after_a_refused_offer_a_different_token_is_asked_for() {
        let now = clock::now();
        let mut refresh = in_force_for(100, now);
        refresh.begin();
        let own = refresh.offer(Token("bad".to_owned()));
        refresh.refused(&own, now, WALL);
        assert_eq!(refresh.due_at(), Some(now + Duration::from_secs(80)));
        assert_eq!(refresh.begin(), TokenNeed::Refused);
    }
}
