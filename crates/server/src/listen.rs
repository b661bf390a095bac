//! Accepts sockets: the listener, TLS, HTTP/1.1, and the hand-over of upgraded sockets to the
//! gateway.
//!
//! The loop is our own rather than a framework's, because the head of a request must arrive in
//! time, the loop must survive a full file table, and an upgraded socket must keep nothing of HTTP.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use heartline_gateway::graphql::AcceptedGraphQl;
use heartline_gateway::{Accepted, Gateway, Refusal, Transport};
use heartline_protocol::limits::{HEADER_TIMEOUT, REQUEST_HEAD_BYTES_MAX};
use heartline_runtime::{Listener, Socket, SocketIo};
use http::header::ALLOW;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;
use tracing::{debug, warn};

use crate::gateway::Sockets;
use crate::lifecycle::Lifecycle;
use crate::tls::TlsReloader;

/// How long accepting pauses when the process has no file descriptors, or the machine no memory,
/// left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a peer may take to close its half after the last response.
const LINGER: Duration = Duration::from_secs(1);

/// How long a pending request may still take when the node stops.
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Headers of a request, at most.
const HEADERS_MAX: usize = 64;

/// The parts that a listener serves.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Serves every request that is no upgrade.
    pub(crate) router: axum::Router,
    /// Serves upgraded sockets; none without the gateway plane, and on a listener for metrics.
    pub(crate) sockets: Option<Sockets>,
    /// The certificate; none for plain TCP.
    pub(crate) tls: Option<TlsReloader>,
    /// The owner of the tasks.
    pub(crate) lifecycle: Lifecycle,
}

/// Accepts sockets until the soft stop.
pub(crate) async fn accept(listener: Box<dyn Listener>, site: Site) {
    let stop = site.lifecycle.soft_stop();
    let mut is_resting = false;
    while let Some(accepted) = stop.run_until_cancelled(heartline_runtime::accept(&*listener)).await
    {
        match accepted {
            Ok((socket, peer)) => {
                is_resting = false;
                let lifecycle = site.lifecycle.clone();
                lifecycle.spawn_connection(serve_socket(socket, peer, site.clone()));
            }
            // A peer that closed before it was accepted is no error of the server.
            Err(error) if is_of_the_peer(&error) => {
                debug!(%error, "socket closed before it was accepted")
            }
            Err(error) => {
                if !is_resting {
                    warn!(%error, "accept paused: no file descriptors or memory left");
                }
                is_resting = true;
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

async fn serve_socket(socket: Arc<dyn Socket>, peer: SocketAddr, site: Site) {
    let socket = SocketIo::new(socket);
    let socket = match &site.tls {
        None => MaybeTls::Plain(socket),
        Some(tls) => {
            let handshake = TlsAcceptor::from(tls.current()).accept(socket);
            match tokio::time::timeout(HEADER_TIMEOUT, handshake).await {
                Ok(Ok(tls)) => MaybeTls::Tls(Box::new(tls)),
                Ok(Err(error)) => return debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => return debug!(%peer, "TLS handshake took too long"),
            }
        }
    };
    serve_http(socket, peer, site).await;
}

/// Serves HTTP until the peer closes, or until one request is upgraded; a new task then owns the
/// socket and holds nothing of HTTP.
async fn serve_http(socket: MaybeTls, peer: SocketAddr, site: Site) {
    let upgraded = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&upgraded);
    let gateway = site.sockets.as_ref().map(|sockets| Arc::clone(&sockets.gateway));
    let router = site.router.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (gateway, router, slot) = (gateway.clone(), router.clone(), Arc::clone(&slot));
        // Boxed, because a connection is moved when the socket is taken out of it.
        Box::pin(async move {
            let response = answer(request, peer, gateway, router, &slot).await;
            Ok::<_, Infallible>(response)
        })
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(REQUEST_HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let mut connection = http.serve_connection(TokioIo::new(socket), service);
    let stop = site.lifecycle.soft_stop();
    let served = tokio::select! {
        // The connection is polled first: if it has ended, the stop does not matter.
        biased;
        served = poll_fn(|context| connection.poll_without_shutdown(context)) => Some(served),
        () = stop.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            let rest = poll_fn(|context| connection.poll_without_shutdown(context));
            tokio::time::timeout(LAST_REQUEST_TIMEOUT, rest).await.ok()
        }
    };
    match &served {
        Some(Ok(())) => {}
        Some(Err(error)) => debug!(%peer, %error, "HTTP connection failed"),
        None => debug!(%peer, "HTTP connection closed: the node stops"),
    }
    let accepted = upgraded.lock().unwrap_or_else(PoisonError::into_inner).take();
    let parts = connection.into_parts();
    let (Some(accepted), Some(Sockets { gateway, graphql })) = (accepted, site.sockets) else {
        return linger(parts.io.into_inner()).await;
    };
    let is_whole = matches!(served, Some(Ok(())));
    let transport = match parts.io.into_inner() {
        MaybeTls::Plain(socket) => Transport::Plain(socket.into_socket()),
        MaybeTls::Tls(tls) => Transport::Tls(tls),
    };
    match accepted {
        Upgraded::Chat(accepted) if is_whole => {
            let connection = gateway.serve(accepted, transport, &parts.read_buf);
            site.lifecycle.spawn_connection(connection);
        }
        Upgraded::Chat(accepted) => gateway.abandon(accepted).await,
        Upgraded::GraphQl(accepted) if is_whole => {
            let early = parts.read_buf.to_vec();
            let connection = gateway.serve_graphql(graphql, accepted, transport, early);
            site.lifecycle.spawn_connection(connection);
        }
        Upgraded::GraphQl(_) => {}
    }
}

/// A request that became a socket.
enum Upgraded {
    Chat(Accepted),
    GraphQl(AcceptedGraphQl),
}

/// Closes our half and reads the bytes that are still arriving: closing a socket with unread bytes
/// resets it, and the reset can overtake the response.
async fn linger(mut socket: MaybeTls) {
    let end = async {
        socket.shutdown().await?;
        tokio::io::copy(&mut socket, &mut tokio::io::sink()).await
    };
    // A peer that is gone, or does not close its half in time, needs nothing more.
    let _ = tokio::time::timeout(LINGER, end).await;
}

async fn answer(
    mut request: Request<Incoming>,
    peer: SocketAddr,
    gateway: Option<Arc<Gateway>>,
    router: axum::Router,
    slot: &Mutex<Option<Upgraded>>,
) -> Response<Body> {
    let is_graphql = request.uri().path() == "/graphql" && request.method() == Method::GET;
    let is_socket = is_graphql || request.uri().path() == "/v1/ws";
    let Some(gateway) = gateway.filter(|_| is_socket) else {
        request.extensions_mut().insert(peer);
        let response = router.oneshot(request.map(Body::new)).await;
        return response.unwrap_or_else(|never| match never {});
    };
    if request.method() != Method::GET {
        let message = "a WebSocket upgrade must use GET";
        let refusal = Refusal::malformed(StatusCode::METHOD_NOT_ALLOWED, message);
        let refusal = refusal.with_header(ALLOW, "GET");
        return refusal.into_response(gateway.random()).map(Body::from);
    }
    let (head, _) = request.into_parts();
    let granted = if is_graphql {
        let granted = gateway.upgrade_graphql(&head, peer);
        granted.map(|(response, accepted)| (response, Upgraded::GraphQl(accepted)))
    } else {
        let granted = gateway.upgrade(&head, peer).await;
        granted.map(|(response, accepted)| (response, Upgraded::Chat(accepted)))
    };
    match granted {
        Ok((response, upgraded)) => {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgraded);
            response.map(|()| Body::empty())
        }
        Err(refusal) => refusal.into_response(gateway.random()).map(Body::from),
    }
}

/// A socket with or without TLS.
enum MaybeTls {
    Plain(SocketIo),
    Tls(Box<TlsStream<SocketIo>>),
}

impl AsyncRead for MaybeTls {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for MaybeTls {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }
}
