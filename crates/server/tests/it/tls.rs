//! Connections over TLS, and a certificate that changes while the server runs.

use std::path::Path;
use std::sync::Arc;

use heartline_client::raw::{masked_text_frame, read_server_frame};
use heartline_testing::{PATIENCE, Server, bearer};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::HEARTLINE;

/// Certificates and keys made for these tests; they protect nothing.
const FIRST: (&str, &str) =
    (include_str!("certificates/first.cert.pem"), include_str!("certificates/first.key.pem"));
const SECOND: (&str, &str) =
    (include_str!("certificates/second.cert.pem"), include_str!("certificates/second.key.pem"));

fn write_pair(directory: &Path, (certificate, key): (&str, &str)) {
    for (name, text) in [("key.pem", key), ("cert.pem", certificate)] {
        // The file is renamed into place, so that no reader sees a partial file.
        let aside = directory.join("aside");
        std::fs::write(&aside, text).unwrap();
        std::fs::rename(&aside, directory.join(name)).unwrap();
    }
}

/// A server with the pair in this directory, which bears silence for as long as a test takes.
async fn server_with(directory: &Path) -> Server {
    let path = directory.display();
    HEARTLINE
        .start_with(&format!(
            "[server]\ntls_cert = \"{path}/cert.pem\"\ntls_key = \"{path}/key.pem\"\n\
         [gateway]\nheartbeat_interval = \"60s\"\nheartbeat_timeout = \"120s\"\n"
        ))
        .await
}

/// Connects and believes exactly one certificate.
async fn connect(server: &Server, trusted: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Sends an upgrade and reads the head of its answer.
async fn upgrade(stream: &mut TlsStream<TcpStream>, user: &str) -> String {
    let request = format!(
        "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Authorization: {}\r\n\r\n",
        bearer(user)
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.expect("an answer").unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn json(stream: &mut TlsStream<TcpStream>) -> Value {
    let frame = timeout(PATIENCE, read_server_frame(stream)).await.expect("a frame").unwrap();
    serde_json::from_slice(&frame.payload).unwrap()
}

async fn is_open(stream: &mut TlsStream<TcpStream>) {
    let heartbeat = json!({ "type": "heartbeat" }).to_string();
    stream.write_all(&masked_text_frame(&heartbeat)).await.unwrap();
    loop {
        if json(stream).await["type"] == "heartbeat_ack" {
            return;
        }
    }
}

#[tokio::test]
async fn a_socket_over_tls_works_like_any_other() {
    let directory = HEARTLINE.scratch();
    write_pair(&directory, FIRST);
    let server = server_with(&directory).await;
    let mut stream = connect(&server, FIRST.0).await.unwrap();
    assert!(upgrade(&mut stream, "ana").await.starts_with("HTTP/1.1 101"));
    assert_eq!(json(&mut stream).await["user_id"], "ana");
    is_open(&mut stream).await;

    let mut refused = connect(&server, FIRST.0).await.unwrap();
    assert!(upgrade(&mut refused, "a b").await.starts_with("HTTP/1.1 401"));
    assert!(connect(&server, SECOND.0).await.is_err(), "another certificate is not believed");

    // A broken frame is answered over TLS too, and then TLS itself is ended.
    stream.write_all(&[0x81, 0]).await.unwrap();
    let closing = json(&mut stream).await;
    assert_eq!(closing["reason"], "protocol_error", "{closing}");
    let close = timeout(PATIENCE, read_server_frame(&mut stream)).await.unwrap().unwrap();
    assert_eq!(close.payload[..2], 1002_u16.to_be_bytes());
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap().expect("a clean end");
    assert_eq!(rest, b"");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn what_is_not_tls_ends_the_connection_and_disturbs_nobody() {
    let directory = HEARTLINE.scratch();
    write_pair(&directory, FIRST);
    let server = server_with(&directory).await;
    for bytes in [&b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"[..], &[0xff; 100]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "the server ends it");
        assert!(!answer.starts_with(b"HTTP"), "nothing is said in the clear");
    }
    let mut stream = connect(&server, FIRST.0).await.unwrap();
    assert!(upgrade(&mut stream, "ana").await.starts_with("HTTP/1.1 101"));
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_new_certificate_is_taken_without_a_restart_and_a_broken_one_is_not() {
    let directory = HEARTLINE.scratch();
    write_pair(&directory, FIRST);
    let server = server_with(&directory).await;
    let mut old = connect(&server, FIRST.0).await.unwrap();
    upgrade(&mut old, "ana").await;
    assert_eq!(json(&mut old).await["user_id"], "ana");

    write_pair(&directory, (SECOND.0, "not a key"));
    server.logged(&["reloading TLS files failed; the old certificate stays in use"]).await;
    assert!(connect(&server, FIRST.0).await.is_ok());

    write_pair(&directory, SECOND);
    server.logged(&["TLS certificate reloaded"]).await;
    let mut new = connect(&server, SECOND.0).await.unwrap();
    assert!(upgrade(&mut new, "bo").await.starts_with("HTTP/1.1 101"));
    assert!(connect(&server, FIRST.0).await.is_err());
    is_open(&mut old).await;
    std::fs::remove_dir_all(directory).unwrap();
}
