//! One request to another node, on a connection of its own.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use heartline_protocol::NodeId;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::executor::executor;
use super::socket::prepare;
use super::stream::RequestBody;
use super::{
    CONNECTION_WINDOW_BYTES, ClusterSecret, NODE, NODE_PATH, PARCELS_PATH, PING_INTERVAL,
    PING_TIMEOUT, RECEIVER, SENDER,
};

/// The longest time from the first packet to the head of the response.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of the head of a response.
const HEAD_BYTES_MAX: u32 = 16 * 1024;

/// Why a node was not reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// No connection was made.
    #[error("no connection")]
    Connect(#[from] io::Error),
    /// HTTP/2 failed on the connection.
    #[error("the connection broke")]
    Http(#[from] hyper::Error),
    /// No response came in time.
    #[error("no response within {DIAL_TIMEOUT:?}")]
    Timeout,
    /// The address or an id is not valid in a request.
    #[error("the address cannot be used")]
    Address(#[from] http::Error),
    /// The node rejects the secret.
    #[error("the node refuses cluster.secret; all nodes must have the same")]
    Secret,
    /// Another node is at the address now.
    #[error("another node is at this address: {0}")]
    OtherNode(NodeId),
    /// The server at the address is no node.
    #[error("the response has the status {0}")]
    Status(StatusCode),
}

impl DialError {
    /// Whether the address refuses connections.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Self::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

/// The node that dials, and its secret.
#[derive(Debug, Clone)]
pub(super) struct Dialer {
    pub(super) own: NodeId,
    pub(super) secret: ClusterSecret,
}

/// A connection with the response to its request.
pub(super) struct Dialled {
    /// The node that answered.
    pub(super) node_id: NodeId,
    /// The body of its response.
    pub(super) body: Incoming,
    /// Drives the connection, and must be polled while it is used. It ends with the connection.
    pub(super) driving: Driving,
    /// Dropping it closes the connection.
    _requests: SendRequest<RequestBody>,
}

/// The future that drives a connection.
pub(super) type Driving = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Dialer {
    /// Asks which node is at an address.
    pub(super) async fn ask(&self, address: &str) -> Result<NodeId, DialError> {
        let request = self.request(Method::GET, address, NODE_PATH, RequestBody::Empty)?;
        Ok(self.dial(address, request).await?.node_id)
    }

    /// Begins a stream of parcels to a node.
    pub(super) async fn stream(
        &self,
        address: &str,
        receiver: &NodeId,
        body: RequestBody,
    ) -> Result<Dialled, DialError> {
        let mut request = self.request(Method::POST, address, PARCELS_PATH, body)?;
        request.headers_mut().insert(RECEIVER, header(receiver)?);
        let dialled = self.dial(address, request).await?;
        match dialled.node_id == *receiver {
            true => Ok(dialled),
            false => Err(DialError::OtherNode(dialled.node_id)),
        }
    }

    fn request(
        &self,
        method: Method,
        address: &str,
        path: &str,
        body: RequestBody,
    ) -> Result<Request<RequestBody>, DialError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{address}{path}"))
            .header(AUTHORIZATION, self.secret.header())
            .header(SENDER, header(&self.own)?);
        Ok(request.body(body)?)
    }

    async fn dial(
        &self,
        address: &str,
        request: Request<RequestBody>,
    ) -> Result<Dialled, DialError> {
        let dial = dial(address, request);
        tokio::time::timeout(DIAL_TIMEOUT, dial).await.unwrap_or(Err(DialError::Timeout))
    }
}

async fn dial(address: &str, request: Request<RequestBody>) -> Result<Dialled, DialError> {
    let socket = TcpStream::connect(address).await?;
    prepare(&socket)?;
    let (executor, work) = executor();
    let mut settings = http2::Builder::new(executor);
    settings
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(HEAD_BYTES_MAX);
    let (mut requests, connection) = settings.handshake(TokioIo::new(socket)).await?;
    let mut driving: Driving = Box::pin(async move {
        tokio::select! {
            // The request on the connection returns the error.
            _ = connection => {}
            () = work.run() => {}
        }
    });
    let response = tokio::select! {
        biased;
        response = requests.send_request(request) => response?,
        () = &mut driving => return Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
    };
    let node_id = node_of(&response)?;
    Ok(Dialled { node_id, body: response.into_body(), driving, _requests: requests })
}

fn node_of(response: &Response<Incoming>) -> Result<NodeId, DialError> {
    let node_id = response.headers().get(NODE).and_then(|value| value.to_str().ok()?.parse().ok());
    match (response.status(), node_id) {
        (StatusCode::OK, Some(node_id)) => Ok(node_id),
        (StatusCode::CONFLICT, Some(node_id)) => Err(DialError::OtherNode(node_id)),
        (StatusCode::UNAUTHORIZED, _) => Err(DialError::Secret),
        (status, _) => Err(DialError::Status(status)),
    }
}

fn header(node_id: &NodeId) -> Result<HeaderValue, http::Error> {
    Ok(HeaderValue::from_str(node_id.as_str())?)
}
