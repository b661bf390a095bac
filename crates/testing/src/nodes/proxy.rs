//! A TCP proxy between clients and a server that can drop all traffic.

use std::net::SocketAddr;

use heartline_runtime::TaskSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections to a server.
#[derive(Debug)]
pub struct Proxy {
    /// The address for clients.
    pub address: SocketAddr,
    /// Connections with a smaller number forward nothing, in either direction.
    dropped_below: watch::Sender<u64>,
    accepted: watch::Receiver<u64>,
    /// Accepts and forwards; ends with the proxy.
    _task: TaskSet<()>,
}

impl Proxy {
    /// Starts to forward to a server.
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dropped_below, dropped) = watch::channel(0);
        let (count, accepted) = watch::channel(0);
        let mut task = TaskSet::new();
        task.spawn(accept(listener, server, dropped, count));
        Self { address, dropped_below, accepted, _task: task }
    }

    /// Stops forwarding on all present connections: no byte, no FIN, no RST. New connections are
    /// not affected.
    pub fn black_hole(&self) {
        self.dropped_below.send_replace(*self.accepted.borrow());
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    dropped: watch::Receiver<u64>,
    count: watch::Sender<u64>,
) {
    let mut pumps = TaskSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (from_client, to_client) = client.into_split();
        let server = TcpStream::connect(server).await.unwrap();
        let (from_server, to_server) = server.into_split();
        let number = *count.borrow();
        pumps.spawn(pump(from_client, to_server, number, dropped.clone()));
        pumps.spawn(pump(from_server, to_client, number, dropped.clone()));
        count.send_modify(|count| *count += 1);
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: u64,
    mut dropped: watch::Receiver<u64>,
) {
    let forward = async {
        let mut buffer = [0; 4096];
        loop {
            match from.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(read) if to.write_all(&buffer[..read]).await.is_err() => break,
                Ok(_) => {}
            }
        }
    };
    let drop_all = async {
        let _ = dropped.wait_for(|below| number < *below).await;
    };
    tokio::select! {
        biased;
        // Both connections stay open, but are no longer read or written.
        () = drop_all => std::future::pending().await,
        () = forward => {}
    }
}
