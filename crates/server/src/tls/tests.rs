//! Pairs made for these tests; they protect nothing.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::dev::tests::Scratch;

const FIRST: (&str, &str) = (
    "\
-----BEGIN CERTIFICATE-----
MIIBkTCCATigAwIBAgIUa78SnimnlxkNHA8LOv1uWNqSTLMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNTIxMzUyMloYDzIxMjYxMDIy
MjEzNTIyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAR2NE8XYsZ3cd26WpkieQycT3naNjrQ1aFfW4uC2nKvGiIW8j2aDWtC
hq+MtYPGlWLrCd57uLN7IjKb5e3vAmRlo2YwZDAdBgNVHQ4EFgQUFxYEd2rleGER
p3STARXViu3DSHswHwYDVR0jBBgwFoAUFxYEd2rleGERp3STARXViu3DSHswFAYD
VR0RBA0wC4IJbG9jYWxob3N0MAwGA1UdEwEB/wQCMAAwCgYIKoZIzj0EAwIDRwAw
RAIgXoR2R7l4aRKBL8H0ybIp5VA5vMbcD65kSP3xN7XmRqoCIEAWUky8N0SEpMXv
auouUy0SrmO02pwd52cNB0J3Nt1q
-----END CERTIFICATE-----
",
    "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgwhgtl1rTKr+0JxvO
YT5Ul7w0ZQh0I86EW3wTFcF3PPqhRANCAAR2NE8XYsZ3cd26WpkieQycT3naNjrQ
1aFfW4uC2nKvGiIW8j2aDWtChq+MtYPGlWLrCd57uLN7IjKb5e3vAmRl
-----END PRIVATE KEY-----
",
);

const SECOND: (&str, &str) = (
    "\
-----BEGIN CERTIFICATE-----
MIIBkTCCATigAwIBAgIUK0ESO8UC38EVXuwxubTpOKf1PykwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNTIxMzUyMloYDzIxMjYxMDIy
MjEzNTIyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAR4kn+O54kz4LYKZWM4PR8M5O8qXovv7F8NWe3XlgcUtN5eiZaDUXrF
d29uVnGRlYi8cy74dggvvMyQCnKJbB2Bo2YwZDAdBgNVHQ4EFgQULEfl9F72L9R4
cGFW/zGLJnzYpcMwHwYDVR0jBBgwFoAULEfl9F72L9R4cGFW/zGLJnzYpcMwFAYD
VR0RBA0wC4IJbG9jYWxob3N0MAwGA1UdEwEB/wQCMAAwCgYIKoZIzj0EAwIDRwAw
RAIgHmlqM1NDfQczoz4RDmLnhiWTlDCMIbhdLSrJtdNAx5MCIFO3pVXTMLR09gKi
3dQJVmXCNQK4YShP2jmVUOw7glGF
-----END CERTIFICATE-----
",
    "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgsOp+0JYr964HvdmO
/J1+lu6+yS7FULhujCSO40L5tu+hRANCAAR4kn+O54kz4LYKZWM4PR8M5O8qXovv
7F8NWe3XlgcUtN5eiZaDUXrFd29uVnGRlYi8cy74dggvvMyQCnKJbB2B
-----END PRIVATE KEY-----
",
);

/// The two files of a server in a directory of their own.
struct Pair {
    scratch: Scratch,
}

impl Pair {
    fn new((certificate, key): (&str, &str)) -> Self {
        let pair = Self { scratch: Scratch::new() };
        fs::write(pair.certificate(), certificate).unwrap();
        fs::write(pair.key(), key).unwrap();
        pair
    }

    fn certificate(&self) -> PathBuf {
        self.scratch.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.scratch.path().join("key.pem")
    }

    fn load(&self) -> Result<TlsReloader, TlsError> {
        TlsReloader::load(&self.certificate(), &self.key())
    }

    /// Replaces a file as deployment tools do, so that the change is detected at any resolution of
    /// timestamps.
    fn replace(&self, path: &Path, content: &str) {
        let aside = self.scratch.path().join("aside");
        fs::write(&aside, content).unwrap();
        fs::rename(aside, path).unwrap();
    }
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_speaks_http_1_over_it() {
    let pair = Pair::new(FIRST);
    let acceptor = tokio_rustls::TlsAcceptor::from(pair.load().unwrap().current());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(FIRST.0.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));

    let (near, far) = tokio::io::duplex(64 * 1024);
    let serve = async {
        let mut socket = acceptor.accept(far).await.unwrap();
        socket.write_all(b"hello").await.unwrap();
        socket.shutdown().await.unwrap();
    };
    let connect = async {
        let name = "localhost".try_into().unwrap();
        let mut socket = connector.connect(name, near).await.unwrap();
        assert_eq!(socket.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
        let mut heard = String::new();
        socket.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "hello");
    };
    tokio::join!(serve, connect);
}

#[test]
fn a_new_pair_serves_without_a_restart() {
    let pair = Pair::new(FIRST);
    let reloader = pair.load().unwrap();
    let before = reloader.current();
    assert!(matches!(reloader.reload_if_changed(), Reload::Unchanged));
    assert!(Arc::ptr_eq(&before, &reloader.current()));

    // Between the two writes the files do not match, and the old pair is served.
    pair.replace(&pair.certificate(), SECOND.0);
    let kept = reloader.reload_if_changed();
    assert!(matches!(kept, Reload::Kept(TlsError::NotAPair { .. })), "{kept:?}");
    assert!(Arc::ptr_eq(&before, &reloader.current()));
    assert!(matches!(reloader.reload_if_changed(), Reload::Unchanged));

    pair.replace(&pair.key(), SECOND.1);
    assert!(matches!(reloader.reload_if_changed(), Reload::Reloaded));
    assert!(!Arc::ptr_eq(&before, &reloader.current()));
}

#[test]
fn a_missing_file_keeps_the_old_pair_until_it_exists_again() {
    let pair = Pair::new(FIRST);
    let reloader = pair.load().unwrap();
    fs::remove_file(pair.key()).unwrap();
    let kept = reloader.reload_if_changed();
    assert!(matches!(kept, Reload::Kept(TlsError::Unreadable { .. })), "{kept:?}");
    pair.replace(&pair.key(), FIRST.1);
    assert!(matches!(reloader.reload_if_changed(), Reload::Reloaded));
}

#[tokio::test]
async fn the_watch_ends_on_stop() {
    let pair = Pair::new(FIRST);
    let reloader = pair.load().unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    reloader.watch(stop).await;
}

#[test]
fn files_that_cannot_be_used_are_refused_with_advice() {
    let truncated = &FIRST.0[..FIRST.0.len() / 2];
    let table = [
        ((FIRST.0, SECOND.1), "does not belong to the first certificate"),
        ((FIRST.1, FIRST.1), "cert.pem holds no certificate"),
        ((FIRST.0, FIRST.0), "key.pem holds no unencrypted private key"),
        (("", FIRST.1), "cert.pem holds no certificate"),
        ((truncated, FIRST.1), "cert.pem is not valid PEM"),
    ];
    for (content, expected) in table {
        let refusal = Pair::new(content).load().unwrap_err().to_string();
        assert!(refusal.contains(expected), "{refusal}");
    }
    let pair = Pair::new(FIRST);
    fs::remove_file(pair.certificate()).unwrap();
    let refusal = pair.load().unwrap_err().to_string();
    assert!(refusal.starts_with("cannot read ") && refusal.contains("cert.pem"), "{refusal}");
}
