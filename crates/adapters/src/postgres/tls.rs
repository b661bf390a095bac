//! TLS to the database, by rustls.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

type BoxError = Box<dyn Error + Send + Sync>;

/// Encrypts connections.
#[derive(Debug, Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Encrypts without verifying the server.
    pub(super) fn unverified() -> Self {
        let verifier = Arc::new(Anybody(provider()));
        let config = builder().dangerous().with_custom_certificate_verifier(verifier);
        Self::new(config.with_no_client_auth())
    }

    /// Encrypts, and verifies the name and the certificate of the server. The trusted roots are
    /// those of a PEM file, or else those that browsers trust.
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate.
    pub(super) fn verified(roots_file: Option<&Path>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match roots_file {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let certificates = CertificateDer::pem_file_iter(path);
                let certificates = certificates.map_err(|error| error.to_string())?;
                for certificate in certificates {
                    let certificate = certificate.map_err(|error| error.to_string())?;
                    roots.add(certificate).map_err(|error| error.to_string())?;
                }
                if roots.is_empty() {
                    return Err("it holds no certificate".to_owned());
                }
            }
        }
        Ok(Self::new(builder().with_root_certificates(roots).with_no_client_auth()))
    }

    fn new(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Self(Arc::new(config))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions")
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = BoxError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, BoxError> {
        let name = ServerName::try_from(host.to_owned())?;
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

/// A handshake with one server.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted, BoxError>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let Self { connector, name } = self;
            Ok(Encrypted(Box::new(connector.connect(name, socket).await?)))
        })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted(Box<tokio_rustls::client::TlsStream<Socket>>);

impl fmt::Debug for Encrypted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encrypted").finish_non_exhaustive()
    }
}

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Accepts every certificate, as `sslmode=require` says, but verifies that the server holds its
/// key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
