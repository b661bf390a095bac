//! The receiving end of direct links.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::NodeId;
use heartline_routing::link::{Reception, Transport};
use heartline_runtime::Tasks;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::executor::executor;
use super::socket::prepare;
use super::unpacker::Unpacker;
use super::{
    CONNECTION_WINDOW_BYTES, ClusterSecret, FRAME_BYTES_MAX, NODE, NODE_PATH, PARCELS_PATH,
    PING_INTERVAL, PING_TIMEOUT, RECEIVER, SENDER, STREAM_WINDOW_BYTES,
};

/// Connections that may be open. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;

/// Streams of one connection. A node needs one.
const STREAMS_MAX: u32 = 8;

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: u32 = 16 * 1024;

/// How long a connection may be open without a request with the secret.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a stream may be silent. Every node sends its status once a second.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long accepting pauses when the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Receives parcels from other nodes.
#[derive(Debug, Clone)]
pub struct DirectServer {
    node_id: NodeId,
    secret: ClusterSecret,
    reception: Arc<Reception>,
}

impl DirectServer {
    /// A server for this node.
    pub fn new(node_id: NodeId, secret: ClusterSecret, reception: Arc<Reception>) -> Self {
        Self { node_id, secret, reception }
    }

    /// Accepts connections from the listener until `stop` is done, then drops them.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        // If the task of a connection panics, the sender opens another connection and detects which
        // parcels were lost.
        let connections = Tasks::counting(self.reception.metrics().task_panics.clone());
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let stopped = CancellationToken::new();
        let _drops_connections = stopped.clone().drop_guard();
        tokio::pin!(stop);
        loop {
            let accept = async {
                let permit = Arc::clone(&permits).acquire_owned().await;
                (permit.expect("the semaphore is never closed"), listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                biased;
                () = &mut stop => return,
                accepted = accept => accepted,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let (server, stopped) = (self.clone(), stopped.clone());
                    connections.spawn("direct connection", async move {
                        let _permit = permit;
                        stopped.run_until_cancelled(server.serve_socket(socket, peer)).await
                    });
                }
                Err(error) => {
                    warn!(%error, "accept paused on the direct listener");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve_socket(self, socket: TcpStream, peer: SocketAddr) {
        if let Err(error) = prepare(&socket) {
            return debug!(%peer, %error, "direct connection closed before it was accepted");
        }
        let (executor, work) = executor();
        let mut settings = http2::Builder::new(executor);
        settings
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES_MAX)
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX);
        let is_authenticated = Arc::new(AtomicBool::new(false));
        let service = service_fn(|request| {
            let (server, is_authenticated) = (self.clone(), Arc::clone(&is_authenticated));
            async move {
                let response = server.respond(request);
                let is_known = response.status() != StatusCode::UNAUTHORIZED;
                is_authenticated.fetch_or(is_known, Ordering::Relaxed);
                Ok::<_, Infallible>(response)
            }
        });
        let connection = settings.serve_connection(TokioIo::new(socket), service);
        tokio::select! {
            served = connection => if let Err(error) = served {
                debug!(%peer, %error, "direct connection failed");
            },
            () = work.run() => {}
            () = authentication_timeout(&is_authenticated) => {
                debug!(%peer, "direct connection closed: no request with the secret in time");
                self.reception.metrics().refused("no_request");
            }
        }
    }

    /// Responds to one request. Also called by a server of other requests between nodes.
    pub fn respond(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        if !self.secret.is_known_to(request.headers()) {
            // A client without the secret learns nothing more.
            self.reception.metrics().refused("unauthorized");
            return empty(StatusCode::UNAUTHORIZED);
        }
        let mut response = match (request.method(), request.uri().path()) {
            (&Method::POST, PARCELS_PATH) => self.receive(request),
            (&Method::GET, NODE_PATH) => empty(StatusCode::OK),
            (_, PARCELS_PATH | NODE_PATH) => empty(StatusCode::METHOD_NOT_ALLOWED),
            _ => empty(StatusCode::NOT_FOUND),
        };
        let node_id = HeaderValue::from_str(self.node_id.as_str());
        response.headers_mut().insert(NODE, node_id.expect("ids of nodes are plain text"));
        response
    }

    fn receive(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let node_of =
            |name| -> Option<NodeId> { request.headers().get(name)?.to_str().ok()?.parse().ok() };
        let (Some(sender), Some(receiver)) = (node_of(&SENDER), node_of(&RECEIVER)) else {
            self.reception.metrics().refused("malformed");
            return empty(StatusCode::BAD_REQUEST);
        };
        if receiver != self.node_id {
            self.reception.metrics().refused("other_node");
            return empty(StatusCode::CONFLICT);
        }
        let receiving = receive(request.into_body(), sender, Arc::clone(&self.reception));
        Response::new(ResponseBody(Some(Box::pin(receiving))))
    }
}

/// Returns if no request has shown the secret in time.
async fn authentication_timeout(is_authenticated: &AtomicBool) {
    tokio::time::sleep(AUTHENTICATION_TIMEOUT).await;
    if is_authenticated.load(Ordering::Relaxed) {
        std::future::pending().await
    }
}

/// Receives the parcels of a stream until the stream ends.
async fn receive(mut stream: Incoming, sender: NodeId, reception: Arc<Reception>) {
    let mut unpacker = Unpacker::default();
    loop {
        let piece = match tokio::time::timeout(SILENCE_MAX, stream.frame()).await {
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(error))) => return debug!(node = %sender, %error, "parcel stream failed"),
            Ok(None) => return debug!(node = %sender, "parcel stream ended"),
            Err(_) => return warn!(node = %sender, "parcel stream closed: silent for too long"),
        };
        unpacker.add(piece);
        loop {
            let parcel = match unpacker.next() {
                Ok(Some(parcel)) => parcel,
                Ok(None) => break,
                Err(error) => {
                    reception.metrics().dropped("malformed");
                    return warn!(node = %sender, %error, "parcel stream closed: malformed");
                }
            };
            if reception.receive(Transport::Direct, parcel).await.is_err() {
                return;
            }
        }
    }
}

fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody(None));
    *response.status_mut() = status;
    response
}

/// The body of a response: empty, and ends with the request's parcels. Polling it receives them, in
/// the stream's own task.
pub struct ResponseBody(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(receiving) = &mut self.0 {
            ready!(receiving.as_mut().poll(context));
            self.0 = None;
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseBody").field("is_receiving", &self.0.is_some()).finish()
    }
}
