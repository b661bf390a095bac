//! A JWKS behind a URL, for the gateway's port [`JwksSource`].
//!
//! Keys decide which tokens are valid, so they are fetched only over TLS, from exactly the
//! configured URL (no redirects), and only completely; plain HTTP is allowed on this machine, for
//! tests and for providers that run beside the server.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use heartline_auth::{JWKS_BYTES_MAX, JwksError, JwksSource};
use http::header::{ACCEPT, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;

/// How long a fetch may take from the first packet to the last byte.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Why `auth.jwks_url` was rejected, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwksUrlError {
    /// The value is not a URL with a host.
    #[error("auth.jwks_url is not a URL; write it as https://host/path")]
    NotAUrl,
    /// The URL has another scheme.
    #[error("auth.jwks_url begins with {0}://; only https:// is supported")]
    Scheme(String),
    /// Plain HTTP lets an attacker on the network insert keys.
    #[error("auth.jwks_url uses http:// to {0}; use https://, http:// is only for this machine")]
    PlainHttp(String),
    /// The URL contains a password that would not be sent.
    #[error("auth.jwks_url contains a user name or password; key sets are public, remove it")]
    Credentials,
}

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("the request failed")]
    Request(#[from] hyper_util::client::legacy::Error),
    #[error("the answer has the status {0}, not 200")]
    Status(StatusCode),
    #[error("the answer is longer than {JWKS_BYTES_MAX} bytes")]
    TooLong,
    #[error("the answer broke off")]
    BrokenOff(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the answer is not UTF-8")]
    NotUtf8,
    #[error("there was no complete answer within {0:?}")]
    Timeout(Duration),
}

/// Fetches a JWKS over HTTPS, with the certificate authorities that browsers trust.
pub struct HttpJwks {
    url: Uri,
    timeout: Duration,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl HttpJwks {
    /// Checks the URL; nothing is fetched yet. A fetch fails after the timeout, for which
    /// [`FETCH_TIMEOUT`] is a good value.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, JwksUrlError> {
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default protocol versions")
            .with_webpki_roots()
            .with_no_client_auth();
        Self::with_tls(url, timeout, tls)
    }

    fn with_tls(url: &str, timeout: Duration, tls: ClientConfig) -> Result<Self, JwksUrlError> {
        let url = check_url(url)?;
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        // No connection is kept: it would be dead by the next use, minutes later.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector.build());
        Ok(Self { url, timeout, client })
    }

    async fn fetch_once(&self) -> Result<String, FetchError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, http::HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, http::HeaderValue::from_static("heartline"));
        let response = self.client.request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), JWKS_BYTES_MAX);
        let bytes = body.collect().await.map_err(body_error)?.to_bytes();
        String::from_utf8(bytes.into()).map_err(|_| FetchError::NotUtf8)
    }
}

#[async_trait]
impl JwksSource for HttpJwks {
    async fn fetch(&self) -> Result<String, JwksError> {
        let fetched = tokio::time::timeout(self.timeout, self.fetch_once()).await;
        let result = fetched.unwrap_or(Err(FetchError::Timeout(self.timeout)));
        result.map_err(|error| JwksError(error.into()))
    }
}

impl fmt::Debug for HttpJwks {
    /// Without the query, which may hold a provider's access key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.authority().map_or("", |authority| authority.as_str());
        let scheme = self.url.scheme_str().unwrap_or_default();
        write!(formatter, "{scheme}://{host}{}", self.url.path())
    }
}

fn check_url(url: &str) -> Result<Uri, JwksUrlError> {
    let url: Uri = url.parse().map_err(|_| JwksUrlError::NotAUrl)?;
    let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else {
        return Err(JwksUrlError::NotAUrl);
    };
    if authority.as_str().contains('@') {
        return Err(JwksUrlError::Credentials);
    }
    match (scheme, authority.host()) {
        (_, "") => Err(JwksUrlError::NotAUrl),
        ("https", _) => Ok(url),
        ("http", host) if is_loopback(host) => Ok(url),
        ("http", host) => Err(JwksUrlError::PlainHttp(host.to_owned())),
        (other, _) => Err(JwksUrlError::Scheme(other.to_owned())),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn body_error(error: Box<dyn std::error::Error + Send + Sync>) -> FetchError {
    if error.is::<LengthLimitError>() { FetchError::TooLong } else { FetchError::BrokenOff(error) }
}
