//! Connections over TLS.

use std::sync::Arc;

use heartline_client::{Ending, Loss};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::harness::{FakeServer, FakeSocket, config_for, start, within_timeout};

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

fn trusting_config() -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

#[tokio::test]
async fn a_trusted_server_is_accepted() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[]);
    config.urls = vec![format!("https://localhost:{}", server.address.port())];
    config.tls = Some(trusting_config());
    let (client, mut events) = start(config);
    let stream = within_timeout(acceptor().accept(server.accept_tcp().await)).await.unwrap();
    let mut socket = FakeSocket::upgrade(stream).await;
    socket.send_established(5_000, 10_000).await;
    events.connected().await;
    client.send_text(r#"{"type":"heartbeat"}"#).await.unwrap();
    socket.receive().await;
    client.drop_socket();
    socket.receive_until_closed().await;
    assert_eq!(events.disconnected().await.0, Ending::Lost(Loss::Dropped));
}

#[tokio::test]
async fn an_unknown_certificate_is_rejected_by_default() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[]);
    config.urls = vec![format!("wss://127.0.0.1:{}", server.address.port())];
    let (_client, mut events) = start(config);
    assert!(within_timeout(acceptor().accept(server.accept_tcp().await)).await.is_err());
    let (ending, _) = events.disconnected().await;
    assert!(matches!(ending, Ending::Lost(Loss::Unreachable(_))), "{ending:?}");
}
