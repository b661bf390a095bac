//! A client of the server's REST interface, with the address and TLS configuration of the socket.

use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::rest::{ErrorBody, ErrorObject};
use heartline_protocol::{ErrorCode, Token};
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

/// The time limit for a complete response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the longest response that is read: more than any page has.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The path of sockets; a proxy may add a prefix.
const SOCKET_PATH: &str = "/v1/ws";

/// The error of a request, as a sentence for the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum RestError {
    /// The server could not be reached.
    #[error("the server cannot be reached ({0}); try again when it is back")]
    Unreachable(String),
    /// The response took too long.
    #[error("no answer in time; the server may have executed it: check before you try again")]
    Timeout,
    /// The server rejected the request.
    #[error("{}", explain(.object, *.retry_after))]
    Rejected {
        /// The error of the response.
        object: ErrorObject,
        /// The seconds of `Retry-After`.
        retry_after: Option<u64>,
    },
    /// The response is not from Heartline, or from an incompatible version.
    #[error(
        "the server answered with HTTP {0} and an unknown body: check the URL and the versions"
    )]
    Unreadable(u16),
    /// The token is not valid in a header.
    #[error("the token has characters that a header cannot carry: use another token")]
    BadToken,
}

impl RestError {
    /// The `details.reason` of a rejection.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Rejected { object, .. } => object.details.as_ref()?.reason.as_deref(),
            _ => None,
        }
    }
}

/// The message about a rejection: what is wrong and what to do.
fn explain(object: &ErrorObject, retry_after: Option<u64>) -> String {
    let ErrorObject { code, message, details, .. } = object;
    let reason = details.as_ref().and_then(|details| details.reason.as_deref());
    match (code, reason) {
        (ErrorCode::NotAMember, _) => {
            "you are not a member of this chat, or it does not exist: /chats lists yours".to_owned()
        }
        (ErrorCode::Forbidden, _) => format!("{message}: /who lists the roles"),
        (ErrorCode::Conflict, Some("owner_must_stay")) => {
            format!("{message}: use /add USER owner")
        }
        (ErrorCode::Conflict, Some("direct_chat")) => {
            format!("{message}: /new NAME USER… creates a group")
        }
        (ErrorCode::Unauthorized, _) => {
            format!("the server rejected the token: {message}; connect again with another one")
        }
        (ErrorCode::RateLimited | ErrorCode::ServerBusy | ErrorCode::ServiceUnavailable, _) => {
            match retry_after {
                Some(seconds) => format!("{message}; try again in {seconds} s"),
                None => format!("{message}; try again later"),
            }
        }
        _ => message.clone(),
    }
}

/// Sends requests; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Rest {
    /// Uses this TLS configuration.
    pub(super) fn new(tls_config: &rustls::ClientConfig) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config.clone())
            .https_or_http()
            .enable_http1()
            .build();
        // Idle connections are not kept: the pause between two commands is longer than a server
        // keeps them.
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Self { client }
    }

    /// Sends one request. A response without a body is parsed as null.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        url: &str,
        token: &Token,
        body: Option<Vec<u8>>,
    ) -> Result<T, RestError> {
        let request = request(method, url, token, body)?;
        let sending = self.send(request);
        tokio::time::timeout(TIMEOUT, sending).await.unwrap_or(Err(RestError::Timeout))
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<T, RestError> {
        let response = self.client.request(request).await;
        let response = response.map_err(|error| RestError::Unreachable(root_cause(&error)))?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|error| RestError::Unreachable(error.to_string()))?.to_bytes();
        let unreadable = |_| RestError::Unreadable(status.as_u16());
        if !status.is_success() {
            let ErrorBody { error: object } = serde_json::from_slice(&body).map_err(unreadable)?;
            return Err(RestError::Rejected { object, retry_after });
        }
        let body = if body.is_empty() { b"null" } else { &body[..] };
        serde_json::from_slice(body).map_err(unreadable)
    }
}

fn request(
    method: Method,
    url: &str,
    token: &Token,
    body: Option<Vec<u8>>,
) -> Result<Request<Full<Bytes>>, RestError> {
    let mut bearer =
        HeaderValue::try_from(format!("Bearer {}", token.0)).map_err(|_| RestError::BadToken)?;
    bearer.set_sensitive(true);
    let agent = concat!("heartline/", env!("CARGO_PKG_VERSION"));
    let request = Request::builder().method(method).uri(url).header(USER_AGENT, agent);
    request
        .header(AUTHORIZATION, bearer)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body.unwrap_or_default()))
        .map_err(|error| RestError::Unreachable(error.to_string()))
}

/// The innermost cause of an error: the outer layers only say that something failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

/// The base URL of REST for the URL of a socket: the same host and prefix.
pub(super) fn base_url(socket_url: &str) -> String {
    let Ok(url) = socket_url.parse::<Uri>() else { return String::new() };
    let scheme = match url.scheme_str() {
        Some("wss" | "https") => "https",
        _ => "http",
    };
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let prefix = url.path().strip_suffix(SOCKET_PATH).unwrap_or_default();
    format!("{scheme}://{authority}{prefix}")
}

#[cfg(test)]
mod tests {
    use heartline_client::ClientConfig;
    use heartline_protocol::server_frame::ErrorDetails;

    use super::*;

    fn rejected(code: ErrorCode, reason: Option<&str>) -> String {
        let reason = reason.map(str::to_owned);
        let details = Some(ErrorDetails { reason, ..ErrorDetails::default() });
        let (message, request_id) = ("why".to_owned(), String::new());
        let object = ErrorObject { code, message, request_id, details };
        RestError::Rejected { object, retry_after: Some(7) }.to_string()
    }

    #[test]
    fn the_base_url_has_the_host_and_prefix_of_the_socket() {
        assert_eq!(base_url("ws://127.0.0.1:7400"), "http://127.0.0.1:7400");
        assert_eq!(base_url("wss://example.com/"), "https://example.com");
        assert_eq!(base_url("https://example.com/live/v1/ws"), "https://example.com/live");
        assert_eq!(base_url("ws://[::1]:80/v1/ws?a=b"), "http://[::1]:80");
        assert_eq!(base_url("ws://example.com/elsewhere"), "http://example.com");
    }

    #[test]
    fn a_rejection_says_what_to_do() {
        assert!(rejected(ErrorCode::NotAMember, None).contains("/chats"));
        assert_eq!(rejected(ErrorCode::Forbidden, None), "why: /who lists the roles");
        assert!(rejected(ErrorCode::Conflict, Some("owner_must_stay")).contains("/add USER owner"));
        assert_eq!(rejected(ErrorCode::ServerBusy, None), "why; try again in 7 s");
        for code in ErrorCode::ALL {
            assert!(!rejected(code, None).is_empty());
        }
    }

    #[tokio::test]
    async fn a_server_that_is_down_is_reported() {
        // No process listens on the port of a closed listener.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/chats", listener.local_addr().unwrap());
        drop(listener);
        let token = Token("t".to_owned());
        let tls_config = ClientConfig::new("ws://x", token.clone()).tls_config();
        let result = Rest::new(&tls_config).call::<()>(Method::GET, &url, &token, None).await;
        let sentence = result.unwrap_err().to_string();
        assert!(sentence.starts_with("the server cannot be reached (Connection"), "{sentence}");
    }
}
