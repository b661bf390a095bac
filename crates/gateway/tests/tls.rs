//! A connection over TLS, whose encryption holds bytes of its own between the outbox and TCP.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod scripted_store;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_gateway::{Config, Gateway, Transport, inbox};
use heartline_protocol::UserId;
use heartline_routing::LocalSockets;
use heartline_runtime::{Clock, SocketIo, TaskSet};
use http::Request;
use jsonwebtoken::{EncodingKey, Header};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// Kernel buffers so small that most bytes stay in the process.
const SOCKET_BYTES: u32 = 4096;

/// As many frames as the encryption accepts at once although TCP does not.
const FRAMES: usize = 48;
const FRAME_BYTES: usize = 1024;

/// Far less than the heartbeat interval, at which a frame would be written anyway.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_client_that_pauses_gets_the_rest_as_soon_as_it_reads_again() {
    let (gateway, mut tasks) = gateway();
    let (server, mut client) = connected().await;
    let (_, accepted) = gateway.upgrade(&upgrade_request(), peer()).await.unwrap();
    tasks.spawn(gateway.clone().serve(accepted, Transport::Tls(Box::new(server)), &[]));

    let frame = Bytes::from("x".repeat(FRAME_BYTES));
    for _ in 0..FRAMES {
        let user_ids: [UserId; 1] = ["ana".parse().unwrap()];
        assert_eq!(gateway.push(&user_ids, &frame).await, 1);
    }
    // The task passes everything to the encryption before the client begins to read.
    let is_written = async {
        while gateway.metrics().frames_sent.get() < FRAMES as u64 + 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, is_written).await.expect("the frames fit into the encryption's buffer");

    let mut received = vec![0; FRAMES * FRAME_BYTES];
    let read = timeout(PATIENCE, client.read_exact(&mut received)).await;
    read.expect("all of it arrives without another reason to write").unwrap();
}

fn gateway() -> (Arc<Gateway>, TaskSet<()>) {
    let config = Config {
        heartbeat_interval: Duration::from_secs(60),
        heartbeat_timeout: Duration::from_secs(120),
        ..Config::default()
    };
    let (gateway, _link, envelopes) = scripted_store::gateway(config, Vec::new());
    let mut tasks = TaskSet::new();
    tasks.spawn(inbox::run(Arc::clone(&gateway), envelopes));
    (gateway, tasks)
}

fn peer() -> SocketAddr {
    "127.0.0.1:9".parse().unwrap()
}

fn upgrade_request() -> http::request::Parts {
    let expires_at = Clock::system().wall().unix_ms / 1000 + 3600;
    let claims = serde_json::json!({ "sub": "ana", "exp": expires_at });
    let key = EncodingKey::from_secret(scripted_store::SECRET.as_bytes());
    let token = jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap();
    let request = Request::get("/v1/ws")
        .header("host", "localhost")
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("authorization", format!("Bearer {token}"));
    request.body(()).unwrap().into_parts().0
}

/// Both ends of a TLS connection with small kernel buffers.
async fn connected() -> (server::TlsStream<SocketIo>, client::TlsStream<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(SOCKET_BYTES).unwrap();
    let (client, accepted) =
        tokio::join!(socket.connect(listener.local_addr().unwrap()), listener.accept());
    let (client, (server, _)) = (client.unwrap(), accepted.unwrap());
    SockRef::from(&server).set_send_buffer_size(SOCKET_BYTES as usize).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let (server, client) = tokio::join!(
        acceptor().accept(SocketIo::new(Arc::new(server))),
        connector().connect(name, client)
    );
    (server.unwrap(), client.unwrap())
}

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(include_bytes!("tls/localhost.crt.pem")).unwrap()
}

fn acceptor() -> TlsAcceptor {
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/localhost.key.pem")).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key)
        .unwrap();
    Arc::new(config).into()
}

fn connector() -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config).into()
}
