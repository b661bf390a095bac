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
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::{debug, error, warn};

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

/// How long a connection may be open without a request that knows the secret.
const STRANGER_TIME: Duration = Duration::from_secs(5);

/// How long a stream may be silent. Every node sends its status once a second.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long accepting pauses when the process has no file descriptors left.
const REST: Duration = Duration::from_millis(100);

/// Takes parcels from other nodes.
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
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                Some(ended) = connections.join_next() => if let Err(panic) = ended {
                    // The sender opens another connection, and sees which parcels were not taken.
                    error!(%panic, "direct connection panicked");
                    self.reception.metrics().task_panics.inc();
                },
                accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                    match accepted {
                        Ok((socket, peer)) => {
                            connections.spawn(self.clone().serve_socket(socket, peer));
                        }
                        Err(error) => {
                            warn!(%error, "accept paused on the direct listener");
                            tokio::time::sleep(REST).await;
                        }
                    }
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
        let is_known = Arc::new(AtomicBool::new(false));
        let service = service_fn(|request| {
            let (server, is_known) = (self.clone(), Arc::clone(&is_known));
            async move {
                let answer = server.answer(request);
                is_known.fetch_or(answer.status() != StatusCode::UNAUTHORIZED, Ordering::Relaxed);
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = settings.serve_connection(TokioIo::new(socket), service);
        tokio::select! {
            served = connection => if let Err(error) = served {
                debug!(%peer, %error, "direct connection failed");
            },
            () = work.run() => {}
            () = no_stranger(&is_known) => {
                debug!(%peer, "direct connection closed: no request with the secret in time");
                self.reception.metrics().refused("no_request");
            }
        }
    }

    /// Answers one request, also for a server of other requests between nodes.
    pub fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        if !self.secret.is_known_to(request.headers()) {
            // A client without the secret learns nothing more.
            self.reception.metrics().refused("unauthorized");
            return empty(StatusCode::UNAUTHORIZED);
        }
        let mut answer = match (request.method(), request.uri().path()) {
            (&Method::POST, PARCELS_PATH) => self.take(request),
            (&Method::GET, NODE_PATH) => empty(StatusCode::OK),
            (_, PARCELS_PATH | NODE_PATH) => empty(StatusCode::METHOD_NOT_ALLOWED),
            _ => empty(StatusCode::NOT_FOUND),
        };
        let node_id = HeaderValue::from_str(self.node_id.as_str());
        answer.headers_mut().insert(NODE, node_id.expect("ids of nodes are plain text"));
        answer
    }

    fn take(&self, request: Request<Incoming>) -> Response<Answer> {
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
        Response::new(Answer(Some(Box::pin(receiving))))
    }
}

/// Returns if no request has shown the secret in time.
async fn no_stranger(is_known: &AtomicBool) {
    tokio::time::sleep(STRANGER_TIME).await;
    if is_known.load(Ordering::Relaxed) {
        std::future::pending().await
    }
}

/// Takes parcels out of a stream for as long as it lasts.
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

fn empty(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer(None));
    *response.status_mut() = status;
    response
}

/// The body of a response: empty, and ends with the request's parcels. Polling it receives them, in
/// the stream's own task.
pub struct Answer(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Body for Answer {
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

impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Answer").field("takes_parcels", &self.0.is_some()).finish()
    }
}
