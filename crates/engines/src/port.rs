//! Free ports for servers that are about to start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::TcpSocket;

/// Ports below the range of outgoing connections. No outgoing connection can take such a port
/// before its server listens, and a client whose server is down cannot connect to itself.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// The distance between the first ports of processes with consecutive ids.
const STRIDE: u16 = 101;

/// A free port of loopback, which this process does not return again soon.
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

/// A bound port, released when the value is dropped.
#[derive(Debug)]
pub struct HeldPort {
    _socket: TcpSocket,
}

/// Binds the port of an engine that is down, so that no outgoing connection takes it meanwhile.
///
/// # Panics
/// Another process has bound the port.
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
    fn consecutive_calls_return_different_ports() {
        let (one, other) = (free_port(), free_port());
        assert_ne!(one, other);
        assert!((FIRST..FIRST + COUNT).contains(&one));
    }
}
