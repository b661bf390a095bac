//! HTTP requests to nodes.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use heartline_protocol::Token;
use heartline_protocol::rest::ErrorBody;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

/// How long a whole response may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The largest response that is read, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// An HTTP client for nodes. Clones share their connections.
#[derive(Debug, Clone)]
pub(super) struct Web {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// The response of a node.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Web {
    /// A client that trusts these certificates.
    pub(super) fn new(trust: &rustls::ClientConfig) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trust.clone())
            .https_or_http()
            .enable_http1()
            .build();
        Self { client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// Sends a GET without a token.
    pub(super) async fn get(&self, url: &str) -> Result<Response> {
        self.send(Request::get(url).body(Full::default())?).await
    }

    /// Sends a request as a user; returns the body of a successful response, null if it has none.
    pub(super) async fn call(
        &self,
        method: Method,
        url: &str,
        token: &Token,
        body: Option<&Value>,
    ) -> Result<Value> {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.0))?;
        bearer.set_sensitive(true);
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(&method).uri(url).header(AUTHORIZATION, bearer);
        let request = request.header(CONTENT_TYPE, "application/json").body(text.into())?;
        let Response { status, body } = self.send(request).await?;
        if !status.is_success() {
            let refusal = serde_json::from_slice::<ErrorBody>(&body);
            let why = refusal.map_or_else(|_| String::new(), |body| body.error.message);
            return Err(anyhow!("{method} {url} returned {status}: {why}"));
        }
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).with_context(|| format!("{method} {url} returned no JSON"))
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response> {
        let url = request.uri().to_string();
        let exchange = async {
            let response = self.client.request(request).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
            let body = body.map_err(|error| anyhow!("{error}"))?.to_bytes();
            Ok::<_, anyhow::Error>(Response { status: head.status, body })
        };
        let response = timeout(TIMEOUT, exchange).await;
        response.map_err(|_| anyhow!("{url} did not answer within {} s", TIMEOUT.as_secs()))?
    }
}

/// The base URL of REST: the given URL without the path of the socket.
pub(super) fn base_of(url: &str) -> Result<String> {
    let uri: http::Uri = url.parse().with_context(|| format!("{url} is not a URL"))?;
    let scheme = match uri.scheme_str() {
        Some("https" | "wss") => "https",
        Some("http" | "ws") => "http",
        _ => return Err(anyhow!("{url} must begin with http:// or https://")),
    };
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    ensure!(!authority.is_empty() && !authority.contains('@'), "{url} must name a host");
    let path = uri.path().trim_end_matches("/v1/ws").trim_end_matches('/');
    Ok(format!("{scheme}://{authority}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_the_socket_gives_the_url_of_rest() {
        let base = |url: &str| base_of(url).map_err(|error| error.to_string());
        assert_eq!(base("http://a:7400"), Ok("http://a:7400".to_owned()));
        assert_eq!(base("wss://a/live/v1/ws"), Ok("https://a/live".to_owned()));
        assert_eq!(base("http://a/"), Ok("http://a".to_owned()));
        for bad in ["a:7400", "ftp://a", "http://user:password@a", ""] {
            assert!(base(bad).is_err(), "{bad}");
        }
    }
}
