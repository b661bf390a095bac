//! Counts the sockets of each address, and finds the address that a request comes from.

use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use heartline_runtime::Map;
use http::HeaderMap;
use ipnet::IpNet;

/// Sockets per address on this node.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    counts: Arc<Mutex<Map<IpAddr, usize>>>,
}

/// One socket in the count of its address; dropping it ends the count.
#[derive(Debug)]
pub struct AddressPermit {
    addresses: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// Counts one more socket of this address, unless it already has `limit`.
    pub fn acquire(&self, address: IpAddr, limit: usize) -> Option<AddressPermit> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_insert(0);
        if *count >= limit {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(AddressPermit { addresses: self.clone(), address })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut counts = self.addresses.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = counts.entry(self.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// The address that a request comes from: the peer's own, or, behind trusted proxies, the nearest
/// one in `X-Forwarded-For` that is not itself a trusted proxy. The header of an untrusted peer is
/// ignored.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    // A listener for both IPv6 and IPv4 shows IPv4 peers as IPv6 addresses.
    let peer = peer.to_canonical();
    let is_trusted = |address: &IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(&peer) {
        return peer;
    }
    let lines: Vec<&str> =
        headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok()).collect();
    let mut nearest = peer;
    for item in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        let Ok(address) = item.trim().parse::<IpAddr>() else { break };
        let address = address.to_canonical();
        nearest = address;
        if !is_trusted(&address) {
            break;
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", value.parse().unwrap());
        headers
    }

    #[test]
    fn the_limit_holds_and_dropped_permits_free_it() {
        let addresses = Addresses::default();
        let address = IpAddr::from([127, 0, 0, 1]);
        let first = addresses.acquire(address, 2).unwrap();
        let _second = addresses.acquire(address, 2).unwrap();
        assert!(addresses.acquire(address, 2).is_none());
        assert!(addresses.acquire(IpAddr::from([127, 0, 0, 2]), 2).is_some());
        drop(first);
        assert!(addresses.acquire(address, 2).is_some());
    }

    #[test]
    fn only_the_header_of_a_trusted_proxy_is_used() {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap()];
        let proxy = IpAddr::from([10, 0, 0, 1]);
        let stranger = IpAddr::from([192, 0, 2, 1]);
        let real = IpAddr::from([198, 51, 100, 7]);
        assert_eq!(client_address(stranger, &forwarded("1.2.3.4"), &trusted), stranger);
        assert_eq!(client_address(proxy, &forwarded("1.2.3.4, 198.51.100.7"), &trusted), real);
        assert_eq!(client_address(proxy, &forwarded("198.51.100.7, 10.0.0.9"), &trusted), real);
        assert_eq!(client_address(proxy, &forwarded("nonsense"), &trusted), proxy);
        assert_eq!(client_address(proxy, &HeaderMap::new(), &trusted), proxy);
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(client_address(mapped, &forwarded("198.51.100.7"), &trusted), real);
    }
}
