//! Fetches from a real server on the loopback interface.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;

use heartline_runtime::TaskSet;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Long enough for a loaded machine, where the answer is expected to come.
const PATIENT: Duration = Duration::from_secs(30);

/// A server that gives every request the same bytes. It ends when it is dropped.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: TaskSet<()>,
}

/// The behaviour of the server after the response was written.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Close,
    StayOpen,
}

impl Server {
    async fn start(answer: impl Into<Vec<u8>>, then: Then) -> Self {
        Self::start_with(answer.into(), then, None).await
    }

    async fn start_with(answer: Vec<u8>, then: Then, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let mut tasks = TaskSet::new();
        tasks.spawn(async move {
            let mut held = Vec::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                // A client that breaks the connection off is an outcome, not a fault of the test.
                let outcome: io::Result<()> = match &tls {
                    None => answer_one(socket, &answer, then, &seen, &mut held).await,
                    Some(tls) => match tls.accept(socket).await {
                        Ok(socket) => answer_one(socket, &answer, then, &seen, &mut held).await,
                        Err(error) => Err(error),
                    },
                };
                drop(outcome);
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    fn url(&self) -> String {
        format!("http://{}/keys?a=b", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn answer_one<S>(
    mut socket: S,
    answer: &[u8],
    then: Then,
    seen: &Mutex<Vec<String>>,
    held: &mut Vec<Box<dyn Send>>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await?);
    }
    seen.lock().unwrap().push(String::from_utf8(head).unwrap());
    socket.write_all(answer).await?;
    socket.flush().await?;
    match then {
        Then::Close => socket.shutdown().await,
        Then::StayOpen => {
            held.push(Box::new(socket));
            Ok(())
        }
    }
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

async fn fetch(url: &str, timeout: Duration) -> Result<String, FetchError> {
    result_of(&HttpJwks::new(url, timeout).unwrap()).await
}

async fn result_of(source: &HttpJwks) -> Result<String, FetchError> {
    source.fetch().await.map_err(|JwksError(error)| *error.downcast().unwrap())
}

#[tokio::test]
async fn the_body_of_a_200_is_the_key_set() {
    let server = Server::start(ok(br#"{"keys":[]}"#), Then::Close).await;
    assert_eq!(fetch(&server.url(), PATIENT).await.unwrap(), r#"{"keys":[]}"#);
    let [request] = server.requests().try_into().unwrap();
    assert!(request.starts_with("GET /keys?a=b HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {}\r\n", server.address)), "{request}");
}

#[tokio::test]
async fn every_fetch_asks_again() {
    let server = Server::start(ok(b"{}"), Then::StayOpen).await;
    let source = HttpJwks::new(&server.url(), PATIENT).unwrap();
    for _ in 0..3 {
        assert_eq!(result_of(&source).await.unwrap(), "{}");
    }
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn any_other_status_is_a_failure() {
    for status in ["204 No Content", "404 Not Found", "500 Internal Server Error"] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let server = Server::start(answer, Then::Close).await;
        let error = fetch(&server.url(), PATIENT).await.unwrap_err();
        assert!(matches!(error, FetchError::Status(code) if status.starts_with(code.as_str())));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::start(ok(b"{}"), Then::Close).await;
    let location = elsewhere.url();
    let answer = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    let server = Server::start(answer, Then::Close).await;
    let error = fetch(&server.url(), PATIENT).await.unwrap_err();
    assert!(matches!(error, FetchError::Status(StatusCode::FOUND)));
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
    let server = Server::start(ok(&vec![b' '; JWKS_BYTES_MAX]), Then::Close).await;
    assert_eq!(fetch(&server.url(), PATIENT).await.unwrap().len(), JWKS_BYTES_MAX);
    let server = Server::start(ok(&vec![b' '; JWKS_BYTES_MAX + 1]), Then::Close).await;
    assert!(matches!(fetch(&server.url(), PATIENT).await, Err(FetchError::TooLong)));
    // Without a length the body only ends with the connection.
    let endless = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![b' '; JWKS_BYTES_MAX * 2]].concat();
    let server = Server::start(endless, Then::StayOpen).await;
    assert!(matches!(fetch(&server.url(), PATIENT).await, Err(FetchError::TooLong)));
}

#[tokio::test]
async fn a_body_that_is_cut_short_or_not_text_is_a_failure() {
    let mut answer = ok(br#"{"keys":[]}"#);
    answer.truncate(answer.len() - 1);
    let server = Server::start(answer, Then::Close).await;
    assert!(matches!(fetch(&server.url(), PATIENT).await, Err(FetchError::BrokenOff(_))));
    let server = Server::start(ok(b"\xff\xfe"), Then::Close).await;
    assert!(matches!(fetch(&server.url(), PATIENT).await, Err(FetchError::NotUtf8)));
}

#[tokio::test]
async fn a_slow_answer_ends_with_the_timeout_wherever_it_hangs() {
    let brief = Duration::from_millis(100);
    for said in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{"] {
        let server = Server::start(said, Then::StayOpen).await;
        let result = fetch(&server.url(), brief).await;
        assert!(matches!(result, Err(FetchError::Timeout(_))), "{said:?}: {result:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    assert!(matches!(fetch(&url, PATIENT).await, Err(FetchError::Request(_))));
}

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(include_bytes!("fixtures/localhost.certificate.pem")).unwrap()
}

async fn start_tls_server() -> Server {
    let key = include_bytes!("fixtures/localhost.private.pem");
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key)
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    Server::start_with(ok(b"{}"), Then::Close, Some(tls)).await
}

#[tokio::test]
async fn https_needs_a_trusted_certificate_for_the_right_name() {
    let server = start_tls_server().await;
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let trusting = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let port = server.address.port();
    let right = format!("https://localhost:{port}/keys");
    let source = HttpJwks::with_tls(&right, PATIENT, trusting.clone()).unwrap();
    assert_eq!(result_of(&source).await.unwrap(), "{}");

    let wrong_name = format!("https://127.0.0.1:{port}/keys");
    let source = HttpJwks::with_tls(&wrong_name, PATIENT, trusting).unwrap();
    assert!(matches!(result_of(&source).await, Err(FetchError::Request(_))));
    assert!(matches!(fetch(&right, PATIENT).await, Err(FetchError::Request(_))));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn only_https_or_this_machine_is_allowed() {
    let check = |url: &str| HttpJwks::new(url, FETCH_TIMEOUT).map(drop);
    for legal in [
        "https://id.example/keys",
        "https://id.example:8443/keys?tenant=1",
        "HTTPS://id.example",
        "http://localhost:8080/keys",
        "http://127.0.0.1/keys",
        "http://127.8.8.8/keys",
        "http://[::1]:8080/keys",
    ] {
        assert_eq!(check(legal), Ok(()), "{legal}");
    }
    for host in ["id.example", "10.0.0.1", "localhost.example", "127.0.0.1.example", "[::2]"] {
        let refused = check(&format!("http://{host}/keys"));
        assert_eq!(refused, Err(JwksUrlError::PlainHttp(host.to_owned())));
    }
    for other in ["", "keys.json", "/keys", "id.example", "https://", "https:///keys", "a b"] {
        assert_eq!(check(other), Err(JwksUrlError::NotAUrl), "{other}");
    }
    let ftp = JwksUrlError::Scheme("ftp".to_owned());
    assert_eq!(check("ftp://id.example/keys"), Err(ftp));
    let credentials = Err(JwksUrlError::Credentials);
    assert_eq!(check("https://ana:secret@id.example/keys"), credentials);
    assert_eq!(check("http://localhost@id.example/keys"), credentials);
}

#[test]
fn debug_leaves_the_query_out() {
    let source = HttpJwks::new("https://id.example/keys?key=hidden", FETCH_TIMEOUT).unwrap();
    assert_eq!(format!("{source:?}"), "https://id.example/keys");
}
