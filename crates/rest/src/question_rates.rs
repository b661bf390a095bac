//! How fast each address may ask about party sessions without a socket, signed in or not.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::FromRequestParts;
use heartline_gateway::Refusal;
use heartline_gateway::addresses::client_address;
use heartline_protocol::ErrorCode;
use heartline_routing::rate::{Allowances, Rate};
use http::request::Parts;
use tokio::time::Instant;

use super::{Refused, Shared};

/// The rates of all addresses of this node. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct QuestionRates(Allowances<IpAddr>);

impl QuestionRates {
    /// So many questions per second, of which twice as many may come at once.
    pub(super) fn new(per_second: u32) -> Self {
        Self(Allowances::new(Rate::per_second(per_second, per_second.saturating_mul(2))))
    }

    /// Takes the allowance for one question, or says in how many seconds there is one.
    fn take(&self, address: IpAddr, now: Instant) -> Result<(), u64> {
        self.0.take(&household(address), now)
    }
}

/// Whoever has one IPv6 address has the 2^64 around it, so these count as one.
fn household(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// Says that a request may be answered: its address does not ask too often. It is looked at before
/// the body, so that who asks too often is not read.
#[derive(Debug)]
pub(super) struct MayAsk;

impl FromRequestParts<Shared> for MayAsk {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refused> {
        let gateway = &shared.api.gateway;
        // Every listener notes the peer; without one there is nobody to count.
        let Some(peer) = parts.extensions.get::<SocketAddr>() else { return Ok(Self) };
        let address = client_address(peer.ip(), &parts.headers, &gateway.config().trusted_proxies);
        match shared.question_rates.take(address, gateway.clock().now()) {
            Ok(()) => Ok(Self),
            Err(seconds) => {
                let message = format!("Rate limit exceeded. Try again in {seconds} seconds.");
                Err(Refusal::later(ErrorCode::RateLimited, message, seconds).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heartline_routing::Clock;

    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_holds_and_a_household_counts_as_one() {
        let rates = QuestionRates::new(5);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let start = Clock::system().now();
        for number in 0..10 {
            assert_eq!(rates.take(address(&format!("2001:db8::{number}")), start), Ok(()));
        }
        assert_eq!(rates.take(address("2001:db8::ffff:ffff:ffff"), start), Err(1));
        assert_eq!(rates.take(address("2001:db8:0:1::1"), start), Ok(()), "another household");
        for _ in 0..10 {
            assert_eq!(rates.take(address("192.0.2.1"), start), Ok(()));
        }
        assert_eq!(rates.take(address("192.0.2.1"), start), Err(1));
        assert_eq!(rates.take(address("192.0.2.2"), start), Ok(()), "another address");
        let later = start + Duration::from_millis(200);
        assert_eq!(rates.take(address("192.0.2.1"), later), Ok(()));
    }
}
