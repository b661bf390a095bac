//! Rate limits of connections, and of accounts over HTTP.

use heartline_protocol::{ErrorCode, UserId, retry_after_seconds};
use heartline_routing::rate::{Allowances, Rate, TokenBucket};
use tokio::time::Instant;

use crate::value::error::PartyError;

/// The rates of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartyRates {
    /// Edits of the queue, and changes of the name.
    pub edits: Rate,
    /// Queries, counted apart from edits: a client at its limit of edits may still catch up.
    pub queries: Rate,
    /// Joining a session.
    pub joins: Rate,
    /// Creating and ending sessions.
    pub lifecycle: Rate,
}

impl Default for PartyRates {
    fn default() -> Self {
        let often = Rate::per_second(50, 100);
        Self {
            edits: often,
            queries: often,
            joins: Rate::per_minute(30),
            lifecycle: Rate::per_minute(5),
        }
    }
}

/// Takes one token, or returns the error that names the time of the next one.
pub(crate) fn take(bucket: &mut TokenBucket, rate: Rate, now: Instant) -> Result<(), PartyError> {
    bucket.take(rate, now).map_err(|wait| refusal(retry_after_seconds(wait)))
}

/// The rate limit of accounts that create and end sessions over HTTP.
#[derive(Debug)]
pub(crate) struct Accounts(Allowances<UserId>);

impl Accounts {
    pub(crate) fn new(rates: PartyRates) -> Self {
        Self(Allowances::new(rates.lifecycle))
    }

    pub(crate) fn take_lifecycle(&self, account: &UserId, now: Instant) -> Result<(), PartyError> {
        self.0.take(account, now).map_err(refusal)
    }
}

fn refusal(seconds: u64) -> PartyError {
    let message = format!("Rate limit exceeded. Try again in {seconds} seconds.");
    PartyError::new(ErrorCode::RateLimited, message).after(seconds)
}

#[cfg(test)]
mod tests {
    use heartline_runtime::Clock;

    use super::*;

    #[test]
    fn a_rejected_request_names_the_seconds_to_wait() {
        let now = Clock::system().now();
        let mut bucket = TokenBucket::new(now);
        let rate = Rate::per_minute(1);
        take(&mut bucket, rate, now).unwrap();
        let refused = take(&mut bucket, rate, now).unwrap_err();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        assert_eq!(refused.message, "Rate limit exceeded. Try again in 60 seconds.");
        assert_eq!(refused.retry_after_seconds, Some(60));
    }
}
