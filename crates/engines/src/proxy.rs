//! A TCP proxy that simulates network faults.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use heartline_runtime::TaskSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

/// How often binding the proxy's address is retried.
const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The state of the simulated network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// All bytes are forwarded.
    Forwarding,
    /// No bytes are forwarded, but connections stay open.
    Cut,
    /// No bytes are forwarded from the client to the server.
    CutUpstream,
    /// No bytes are forwarded from the server to the client.
    CutDownstream,
    /// Connections are closed, and new ones refused.
    Refusing,
}

/// Forwards TCP connections to a server and simulates faults on request. Bytes that are in transit
/// during a cut are not lost: like TCP, the proxy delivers them after the network heals.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    state: watch::Sender<LinkState>,
    /// Accepts and forwards; ends with the proxy.
    _task: TaskSet<()>,
}

impl FaultProxy {
    /// Starts to forward to a server, on a free port of loopback.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (state, current) = watch::channel(LinkState::Forwarding);
        let mut task = TaskSet::new();
        task.spawn(run(listener, address, target, current));
        Ok(Self { address, state, _task: task })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards no bytes in either direction. Connections stay open, and new ones are accepted.
    pub fn cut(&self) {
        self.state.send_replace(LinkState::Cut);
    }

    /// Forwards no bytes from clients to the server.
    pub fn cut_upstream(&self) {
        self.state.send_replace(LinkState::CutUpstream);
    }

    /// Forwards no bytes from the server to clients.
    pub fn cut_downstream(&self) {
        self.state.send_replace(LinkState::CutDownstream);
    }

    /// Closes all connections and refuses new ones.
    pub fn refuse(&self) {
        self.state.send_replace(LinkState::Refusing);
    }

    /// Forwards all bytes again.
    pub fn heal(&self) {
        self.state.send_replace(LinkState::Forwarding);
    }
}

async fn run(
    listener: TcpListener,
    address: SocketAddr,
    target: SocketAddr,
    mut state: watch::Receiver<LinkState>,
) {
    let mut listener = Some(listener);
    loop {
        let open = match listener.take() {
            Some(listener) => listener,
            None => bind_again(address).await,
        };
        let mut connections = TaskSet::new();
        let accept = async {
            while let Ok((client, _)) = open.accept().await {
                connections.spawn(forward(client, target, state.clone()));
            }
        };
        let mut refusing = state.clone();
        tokio::select! {
            () = accept => {}
            _ = refusing.wait_for(|state| *state == LinkState::Refusing) => {}
        }
        drop((open, connections));
        if state.wait_for(|state| *state != LinkState::Refusing).await.is_err() {
            return;
        }
    }
}

/// Binds the address again. Earlier connections may still hold it for a short time.
async fn bind_again(address: SocketAddr) -> TcpListener {
    loop {
        let bind = || {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(1024)
        };
        match bind() {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(BIND_RETRY_INTERVAL).await,
        }
    }
}

async fn forward(client: TcpStream, target: SocketAddr, mut state: watch::Receiver<LinkState>) {
    // A real network that is cut would not establish the connection; here it stays unused.
    if state.wait_for(|state| *state != LinkState::Cut).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    // The proxy must not delay small writes.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let upstream = pump(from_client, to_server, state.clone(), LinkState::CutUpstream);
    let downstream = pump(from_server, to_client, state, LinkState::CutDownstream);
    tokio::join!(upstream, downstream);
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<LinkState>,
    one_way: LinkState,
) {
    let mut buffer = vec![0; 64 * 1024];
    let passes = |state: &LinkState| *state != LinkState::Cut && *state != one_way;
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => 0,
            Ok(read) => read,
        };
        // The end of a connection is not forwarded during a cut either.
        if state.wait_for(passes).await.is_err() || read == 0 {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const A_WHILE: Duration = Duration::from_millis(200);

    /// A server that returns every byte.
    async fn echo() -> (SocketAddr, TaskSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = TaskSet::new();
        tasks.spawn(async move {
            let mut sockets = TaskSet::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                sockets.spawn(async move {
                    let (mut from, mut to) = socket.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        (address, tasks)
    }

    async fn is_echoed(socket: &mut TcpStream) -> bool {
        let mut echo = [0; 1];
        let written = socket.write_all(b"x").await;
        written.is_ok() && matches!(timeout(A_WHILE, socket.read(&mut echo)).await, Ok(Ok(1)))
    }

    #[tokio::test]
    async fn bytes_sent_during_a_cut_are_delivered_after_it_heals() {
        let (server, _tasks) = echo().await;
        let proxy = FaultProxy::start(server).await.unwrap();
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(is_echoed(&mut socket).await);
        let cuts: [fn(&FaultProxy); 3] =
            [FaultProxy::cut, FaultProxy::cut_upstream, FaultProxy::cut_downstream];
        for cut in cuts {
            cut(&proxy);
            assert!(!is_echoed(&mut socket).await);
            proxy.heal();
            let mut late = [0; 1];
            timeout(A_WHILE * 10, socket.read_exact(&mut late)).await.unwrap().unwrap();
            assert!(is_echoed(&mut socket).await);
        }
    }

    #[tokio::test]
    async fn refusing_closes_connections_until_the_network_heals() {
        let (server, _tasks) = echo().await;
        let proxy = FaultProxy::start(server).await.unwrap();
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(is_echoed(&mut socket).await);
        proxy.refuse();
        assert!(!is_echoed(&mut socket).await);
        let refused = async { while TcpStream::connect(proxy.address()).await.is_ok() {} };
        timeout(A_WHILE * 10, refused).await.unwrap();
        proxy.heal();
        let healed = async {
            loop {
                if let Ok(mut socket) = TcpStream::connect(proxy.address()).await {
                    return is_echoed(&mut socket).await;
                }
                tokio::time::sleep(BIND_RETRY_INTERVAL).await;
            }
        };
        assert!(timeout(A_WHILE * 10, healed).await.unwrap());
    }
}
