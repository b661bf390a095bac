//! Ports for servers that are about to start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::TcpSocket;

/// Below those that outgoing connections take: nobody has one by chance when a server that was told
/// of it begins to listen, and a client whose server is down cannot connect to itself.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// Far enough apart for all that neighbouring processes start.
const STRIDE: u16 = 101;

/// A port of loopback that nobody has, and that this process does not give away again soon.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() as u16).wrapping_mul(STRIDE);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(start);
        let port = FIRST + number % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// A port that nobody is given until this is dropped.
#[derive(Debug)]
pub struct HeldPort {
    _socket: TcpSocket,
}

/// Keeps the port of an engine that is down, so that no client that connects to somewhere else
/// meanwhile is given it by chance.
///
/// # Panics
/// Another process has the port.
pub fn hold_port(port: u16) -> HeldPort {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an option of a socket");
    socket.bind((Ipv4Addr::LOCALHOST, port).into()).expect("the port of an engine that is down");
    HeldPort { _socket: socket }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_are_not_told_of_the_same_port() {
        let (one, other) = (free_port(), free_port());
        assert_ne!(one, other);
        assert!((FIRST..FIRST + COUNT).contains(&one));
    }
}
