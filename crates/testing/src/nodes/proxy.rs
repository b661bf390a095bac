//! A network between a client and the server that can go dark.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Forwards connections to a server.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Connections with a smaller number get nothing through, in either direction.
    dark_below: watch::Sender<u64>,
    accepted: watch::Receiver<u64>,
    /// Ends with the proxy.
    _task: JoinSet<()>,
}

impl Proxy {
    /// Begins to forward to a server.
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dark_below, dark) = watch::channel(0);
        let (count, accepted) = watch::channel(0);
        let mut task = JoinSet::new();
        task.spawn(accept(listener, server, dark, count));
        Self { address, dark_below, accepted, _task: task }
    }

    /// From now on every connection that there is gets nothing through: no byte, no FIN, no RST.
    /// New ones are not concerned.
    pub fn black_hole(&self) {
        self.dark_below.send_replace(*self.accepted.borrow());
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    dark: watch::Receiver<u64>,
    count: watch::Sender<u64>,
) {
    let mut pumps = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (from_client, to_client) = client.into_split();
        let server = TcpStream::connect(server).await.unwrap();
        let (from_server, to_server) = server.into_split();
        let number = *count.borrow();
        pumps.spawn(pump(from_client, to_server, number, dark.clone()));
        pumps.spawn(pump(from_server, to_client, number, dark.clone()));
        count.send_modify(|count| *count += 1);
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: u64,
    mut dark: watch::Receiver<u64>,
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
    let darkness = async {
        let _ = dark.wait_for(|below| number < *below).await;
    };
    tokio::select! {
        biased;
        // Both ends stay open, and nobody reads or writes them.
        () = darkness => std::future::pending().await,
        () = forward => {}
    }
}
