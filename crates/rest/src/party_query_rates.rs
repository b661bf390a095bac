//! The rate limit of each address for party requests over HTTP, signed in or not.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::FromRequestParts;
use heartline_gateway::Refusal;
use heartline_gateway::addresses::client_address;
use heartline_protocol::ErrorCode;
use heartline_routing::rate::{Allowances, Rate};
use http::request::Parts;
use tokio::time::Instant;

use super::{Refused, Shared};

/// The rate limits of all addresses of this node. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct PartyQueryRates(Allowances<IpAddr>);

impl PartyQueryRates {
    /// A limit of requests per second, with bursts of twice as many.
    pub(super) fn new(per_second: u32) -> Self {
        Self(Allowances::new(Rate::per_second(per_second, per_second.saturating_mul(2))))
    }

    /// Takes one token, or returns the seconds until there is one.
    fn take(&self, address: IpAddr, now: Instant) -> Result<(), u64> {
        self.0.take(&counted_address(address), now)
    }
}

/// The address under which a request is counted. A /64 network of IPv6 counts as one address,
/// because a client usually has all of its addresses.
fn counted_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// Proof that the address of a request is within its rate. Extracted before the body, so that the
/// body of a rejected request is not read.
#[derive(Debug)]
pub(super) struct WithinRate;

impl FromRequestParts<Shared> for WithinRate {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refused> {
        let gateway = &shared.api.gateway;
        // Every listener records the peer; requests of tests without one are not counted.
        let Some(peer) = parts.extensions.get::<SocketAddr>() else { return Ok(Self) };
        let address = client_address(peer.ip(), &parts.headers, &gateway.config().trusted_proxies);
        match shared.party_query_rates.take(address, gateway.clock().now()) {
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

    use heartline_runtime::Clock;

    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_holds_and_an_ipv6_network_counts_as_one() {
        let rates = PartyQueryRates::new(5);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let start = Clock::system().now();
        for number in 0..10 {
            assert_eq!(rates.take(address(&format!("2001:db8::{number}")), start), Ok(()));
        }
        assert_eq!(rates.take(address("2001:db8::ffff:ffff:ffff"), start), Err(1));
        assert_eq!(rates.take(address("2001:db8:0:1::1"), start), Ok(()), "another network");
        for _ in 0..10 {
            assert_eq!(rates.take(address("192.0.2.1"), start), Ok(()));
        }
        assert_eq!(rates.take(address("192.0.2.1"), start), Err(1));
        assert_eq!(rates.take(address("192.0.2.2"), start), Ok(()), "another address");
        let later = start + Duration::from_millis(200);
        assert_eq!(rates.take(address("192.0.2.1"), later), Ok(()));
    }
}
