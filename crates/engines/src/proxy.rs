//! A network between two processes that can fail.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long is waited before the proxy's address is tried again.
const BIND_AGAIN: Duration = Duration::from_millis(20);

/// What the network does at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    /// Everything passes.
    Fine,
    /// Nothing passes, but connections stay.
    Cut,
    /// Nothing passes from the client to the server.
    CutUpstream,
    /// Nothing passes from the server to the client.
    CutDownstream,
    /// Connections are reset, and new ones refused.
    Refusing,
}

/// Forwards TCP connections to a server, and fails on command. What is under way when the network
/// is cut is not lost: as TCP does, it is delivered when the network heals.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    /// Ends with the proxy.
    _task: JoinSet<()>,
}

impl FaultProxy {
    /// Begins to forward to a server, on a free port of loopback.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (weather, current) = watch::channel(Weather::Fine);
        let mut task = JoinSet::new();
        task.spawn(run(listener, address, target, current));
        Ok(Self { address, weather, _task: task })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nothing pass in either direction; connections stay, and new ones seem to be made.
    pub fn cut(&self) {
        self.weather.send_replace(Weather::Cut);
    }

    /// Lets nothing pass from clients to the server.
    pub fn cut_upstream(&self) {
        self.weather.send_replace(Weather::CutUpstream);
    }

    /// Lets nothing pass from the server to clients.
    pub fn cut_downstream(&self) {
        self.weather.send_replace(Weather::CutDownstream);
    }

    /// Ends connections and refuses new ones.
    pub fn refuse(&self) {
        self.weather.send_replace(Weather::Refusing);
    }

    /// Lets everything pass again.
    pub fn heal(&self) {
        self.weather.send_replace(Weather::Fine);
    }
}

async fn run(
    listener: TcpListener,
    address: SocketAddr,
    target: SocketAddr,
    mut weather: watch::Receiver<Weather>,
) {
    let mut listener = Some(listener);
    loop {
        let open = match listener.take() {
            Some(listener) => listener,
            None => bind_again(address).await,
        };
        let mut connections = JoinSet::new();
        let accept = async {
            while let Ok((client, _)) = open.accept().await {
                connections.spawn(forward(client, target, weather.clone()));
            }
        };
        let mut refusing = weather.clone();
        tokio::select! {
            () = accept => {}
            _ = refusing.wait_for(|weather| *weather == Weather::Refusing) => {}
        }
        drop((open, connections));
        if weather.wait_for(|weather| *weather != Weather::Refusing).await.is_err() {
            return;
        }
    }
}

/// Its last connections may still hold the address for a moment.
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
            Err(_) => tokio::time::sleep(BIND_AGAIN).await,
        }
    }
}

async fn forward(client: TcpStream, target: SocketAddr, mut weather: watch::Receiver<Weather>) {
    // In a cut network a connection is not made at all; here it is at least not used.
    if weather.wait_for(|weather| *weather != Weather::Cut).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Small writes are what a fault must not change the timing of.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let upstream = pump(from_client, to_server, weather.clone(), Weather::CutUpstream);
    let downstream = pump(from_server, to_client, weather, Weather::CutDownstream);
    tokio::join!(upstream, downstream);
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
    one_way: Weather,
) {
    let mut buffer = vec![0; 64 * 1024];
    let passes = |weather: &Weather| *weather != Weather::Cut && *weather != one_way;
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => 0,
            Ok(read) => read,
        };
        // Also the end of a connection is something that does not pass.
        if weather.wait_for(passes).await.is_err() || read == 0 {
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

    /// A server that says everything twice.
    async fn echo() -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut sockets = JoinSet::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                sockets.spawn(async move {
                    let (mut from, mut to) = socket.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        (address, tasks)
    }

    async fn answers(socket: &mut TcpStream) -> bool {
        let mut answer = [0; 1];
        let said = socket.write_all(b"x").await;
        said.is_ok() && matches!(timeout(A_WHILE, socket.read(&mut answer)).await, Ok(Ok(1)))
    }

    #[tokio::test]
    async fn a_cut_holds_back_and_healing_delivers() {
        let (server, _tasks) = echo().await;
        let proxy = FaultProxy::start(server).await.unwrap();
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(answers(&mut socket).await);
        let cuts: [fn(&FaultProxy); 3] =
            [FaultProxy::cut, FaultProxy::cut_upstream, FaultProxy::cut_downstream];
        for cut in cuts {
            cut(&proxy);
            assert!(!answers(&mut socket).await);
            proxy.heal();
            let mut late = [0; 1];
            timeout(A_WHILE * 10, socket.read_exact(&mut late)).await.unwrap().unwrap();
            assert!(answers(&mut socket).await);
        }
    }

    #[tokio::test]
    async fn refusing_ends_connections_until_it_heals() {
        let (server, _tasks) = echo().await;
        let proxy = FaultProxy::start(server).await.unwrap();
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(answers(&mut socket).await);
        proxy.refuse();
        assert!(!answers(&mut socket).await);
        let refused = async { while TcpStream::connect(proxy.address()).await.is_ok() {} };
        timeout(A_WHILE * 10, refused).await.unwrap();
        proxy.heal();
        let healed = async {
            loop {
                if let Ok(mut socket) = TcpStream::connect(proxy.address()).await {
                    return answers(&mut socket).await;
                }
                tokio::time::sleep(BIND_AGAIN).await;
            }
        };
        assert!(timeout(A_WHILE * 10, healed).await.unwrap());
    }
}
