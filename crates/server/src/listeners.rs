//! The listeners of a node: bound here in production, given from outside in tests.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, anyhow};
use heartline_runtime::Listener;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::config::{Config, MetricsListen};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// Unsent bytes that the kernel may hold per socket, so that the outbox sees backpressure early.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// The listeners of a node.
#[derive(Debug)]
pub struct Listeners {
    /// Accepts clients.
    pub main: Box<dyn Listener>,
    /// Accepts requests for metrics, if they have a listener of their own.
    pub metrics: Option<Box<dyn Listener>>,
    /// Accepts other nodes, if the node runs in a cluster.
    pub cluster: Option<TcpListener>,
}

impl Listeners {
    /// Binds every address that the configuration names.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn bind(config: &Config) -> Result<Self> {
        let user_timeout = config.gateway.heartbeat_timeout * 2;
        let bind = |address, key| bind(address, user_timeout, key);
        let main = Box::new(bind(config.server.listen, "server.listen (or --listen)")?);
        let metrics: Option<Box<dyn Listener>> = match config.metrics.listen {
            MetricsListen::Address(address) => Some(Box::new(bind(address, "metrics.listen")?)),
            MetricsListen::Off | MetricsListen::Main => None,
        };
        let in_cluster = config.redis.url.as_ref().and(config.cluster.listen);
        let cluster = in_cluster.map(|address| bind(address, "cluster.listen")).transpose()?;
        Ok(Self { main, metrics, cluster })
    }
}

fn bind(address: SocketAddr, user_timeout: Duration, key: &str) -> Result<TcpListener> {
    open(address, user_timeout).map_err(|error| {
        let is_elsewhere = error.kind() == io::ErrorKind::AddrNotAvailable;
        let cause = if is_elsewhere {
            "this machine has no such address"
        } else {
            "stop the process that uses it"
        };
        anyhow!("cannot listen on {address}: {error}; {cause}, or set another {key}")
    })
}

/// A listener whose accepted sockets inherit its options, which saves three system calls per
/// connection.
fn open(address: SocketAddr, user_timeout: Duration) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_tcp_user_timeout(Some(user_timeout))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}
