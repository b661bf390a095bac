//! Opens a WebSocket to a URL: TCP, TLS, upgrade.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use heartline_protocol::limits::REQUEST_HEAD_BYTES_MAX;
use heartline_protocol::rest::ErrorBody;
use heartline_protocol::{SUBPROTOCOL, Token};
use heartline_runtime::{Socket as Stream, SocketIo};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tokio_websockets::{ClientBuilder, Limits, WebSocketStream};

use crate::config::{Authentication, ClientConfig};
use crate::endpoint::Endpoint;
use crate::event::{Ending, Loss, Rejection};
use crate::upgrade::{self, ResponseHead};

/// Opens sockets to servers.
#[async_trait]
pub trait Dialer: Send + Sync + fmt::Debug {
    /// Opens a socket to a port of a host, which is a name or an IP address.
    async fn dial(&self, host: &str, port: u16) -> io::Result<Arc<dyn Stream>>;
}

/// Opens TCP sockets, to the first address of the host that accepts.
#[derive(Debug, Clone, Copy)]
pub struct TcpDialer;

#[async_trait]
impl Dialer for TcpDialer {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Arc<dyn Stream>> {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        Ok(Arc::new(stream))
    }
}

/// A plain or encrypted stream. The buffer holds bytes that arrived together with the head of the
/// upgrade's response; later reads are larger than the buffer and bypass it.
pub(crate) type Transport = BufReader<Either<SocketIo, Box<TlsStream<SocketIo>>>>;

/// An open WebSocket.
pub(crate) type Socket = WebSocketStream<Transport>;

/// Bytes of the buffer for the upgrade's response.
const HEAD_BUFFER_BYTES: usize = 1024;
/// The time limit for the body of a rejection; without the body, its status is used alone.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens a socket within the configured time limit.
pub(crate) async fn dial(
    config: &ClientConfig,
    endpoint: &Endpoint,
    tls: Option<&TlsConnector>,
    token: &Token,
) -> Result<Socket, Ending> {
    let opening = open(config, endpoint, tls, token);
    match tokio::time::timeout(config.connect_timeout, opening).await {
        Ok(Ok(Ok(socket))) => Ok(socket),
        Ok(Ok(Err(rejection))) => Err(Ending::Rejected(rejection)),
        Ok(Err(error)) => Err(Ending::Lost(Loss::Unreachable(error.to_string()))),
        Err(_) => {
            Err(Ending::Lost(Loss::Unreachable("the server did not answer in time".to_owned())))
        }
    }
}

/// The configured TLS, or one that trusts the public roots; none if no URL needs it.
pub(crate) fn tls_connector(config: &ClientConfig, endpoints: &[Endpoint]) -> Option<TlsConnector> {
    if !endpoints.iter().any(|endpoint| endpoint.secure) {
        return None;
    }
    Some(config.tls_config().into())
}

/// A TLS configuration that trusts the certificate authorities that browsers trust.
pub(crate) fn public_roots() -> Arc<rustls::ClientConfig> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

async fn open(
    config: &ClientConfig,
    endpoint: &Endpoint,
    tls: Option<&TlsConnector>,
    token: &Token,
) -> io::Result<Result<Socket, Rejection>> {
    let mut transport = connect(config, endpoint, tls).await?;
    let key = upgrade::new_key(config.random);
    let request = request(config, endpoint, token, &key);
    transport.write_all(&request).await?;
    transport.flush().await?;
    let head = upgrade::read_head(&mut transport).await?;
    if head.status != 101 {
        return Ok(Err(rejection(&head, &mut transport).await));
    }
    if head.header("sec-websocket-accept") != Some(&upgrade::expected_accept(&key)) {
        return Err(io::Error::other("the server's Sec-WebSocket-Accept does not match the key"));
    }
    if head.header("sec-websocket-protocol") != Some(SUBPROTOCOL) {
        return Err(io::Error::other(format!(
            "the server did not select the subprotocol {SUBPROTOCOL}"
        )));
    }
    let limits = Limits::default().max_payload_len(Some(config.frame_bytes_max));
    Ok(Ok(ClientBuilder::new().limits(limits).take_over(transport)))
}

async fn connect(
    config: &ClientConfig,
    endpoint: &Endpoint,
    tls: Option<&TlsConnector>,
) -> io::Result<Transport> {
    let stream = SocketIo::new(config.dialer.dial(&endpoint.host, endpoint.port).await?);
    let stream = match tls.filter(|_| endpoint.secure) {
        None => Either::Left(stream),
        Some(connector) => {
            let name = ServerName::try_from(endpoint.host.clone()).map_err(io::Error::other)?;
            Either::Right(Box::new(connector.connect(name, stream).await?))
        }
    };
    Ok(BufReader::with_capacity(HEAD_BUFFER_BYTES, stream))
}

fn request(config: &ClientConfig, endpoint: &Endpoint, token: &Token, key: &str) -> Vec<u8> {
    let bearer = format!("Bearer {}", token.0);
    let mut subprotocols = SUBPROTOCOL.to_owned();
    let mut headers = vec![("User-Agent", concat!("heartline-client/", env!("CARGO_PKG_VERSION")))];
    match config.authentication {
        Authentication::Header => {
            headers.push(("Authorization", &bearer));
            if let Some(device_id) = &config.device_id {
                headers.push(("X-Device-ID", device_id.as_str()));
            }
        }
        Authentication::Subprotocol => {
            subprotocols.push_str(", bearer.");
            subprotocols.push_str(&token.0);
            if let Some(device_id) = &config.device_id {
                subprotocols.push_str(", device.");
                subprotocols.push_str(device_id.as_str());
            }
        }
        Authentication::Message => {}
    }
    headers.push(("Sec-WebSocket-Protocol", &subprotocols));
    upgrade::request_head(&endpoint.host_header, &endpoint.path, key, &headers)
}

/// Reads the details of a rejected upgrade. The body is optional: without a valid one, only the
/// status is returned.
async fn rejection(head: &ResponseHead, transport: &mut Transport) -> Rejection {
    let seconds = head.header("retry-after").and_then(|value| value.parse().ok());
    let length = head.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; std::cmp::min(length, REQUEST_HEAD_BYTES_MAX)];
    let read = tokio::time::timeout(BODY_TIMEOUT, transport.read_exact(&mut body)).await;
    let error = match read {
        Ok(Ok(_)) => serde_json::from_slice::<ErrorBody>(&body).ok().map(|body| body.error),
        Ok(Err(_)) | Err(_) => None,
    };
    let (code, message) = error.map(|error| (error.code, error.message)).unzip();
    Rejection { status: head.status, code, message, retry_after: seconds.map(Duration::from_secs) }
}

/// Resets the connection at once: nothing more is sent, not even bytes in the kernel's buffer.
pub(crate) fn abort(socket: Socket) {
    let stream = match socket.get_ref().get_ref() {
        Either::Left(stream) => stream,
        Either::Right(stream) => stream.get_ref().0,
    };
    stream.socket().abort();
    drop(socket);
}
