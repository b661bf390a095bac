//! The server's REST interface, at the address of the socket and with the same trust.

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

/// How long an answer may take to its last byte.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the longest answer that is read: more than any page has.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Where sockets are served; a proxy may put a prefix before it.
const SOCKET_PATH: &str = "/v1/ws";

/// Why a request failed, in a sentence for whoever typed it.
#[derive(Debug, thiserror::Error)]
pub(super) enum RestError {
    /// Nobody answered.
    #[error("the server cannot be reached ({0}); try again when it is back")]
    Unreachable(String),
    /// The answer took too long.
    #[error("the server did not answer in time; look before you try again: it may have done it")]
    Timeout,
    /// The server said no.
    #[error("{}", advice(.object, *.retry_after))]
    Refused {
        /// Its reason.
        object: ErrorObject,
        /// When to try again, in seconds.
        retry_after: Option<u64>,
    },
    /// Whoever answered is no Heartline, or not this version.
    #[error("the server answered HTTP {0} with something that this version does not understand")]
    Unreadable(u16),
    /// The token cannot be put into a header.
    #[error("the token cannot be sent in a header")]
    BadToken,
}

impl RestError {
    /// The finer reason of a refusal.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Refused { object, .. } => object.details.as_ref()?.reason.as_deref(),
            _ => None,
        }
    }
}

/// What a refusal means for whoever typed the command, and what to do about it.
fn advice(object: &ErrorObject, retry_after: Option<u64>) -> String {
    let ErrorObject { code, message, details, .. } = object;
    let reason = details.as_ref().and_then(|details| details.reason.as_deref());
    match (code, reason) {
        (ErrorCode::NotAMember, _) => {
            "you are not a member of this chat, or there is none: /chats lists yours".to_owned()
        }
        (ErrorCode::Forbidden, _) => format!("{message}: /who shows who may"),
        (ErrorCode::Conflict, Some("owner_must_stay")) => {
            format!("{message}: /add USER owner makes one")
        }
        (ErrorCode::Conflict, Some("direct_chat")) => {
            format!("{message}: /new NAME USER… makes a group")
        }
        (ErrorCode::Unauthorized, _) => {
            format!("the server refused the token: {message}; connect again with another one")
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

/// Asks the server. Clones share their connections.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Rest {
    /// Believes the same certificates as the socket.
    pub(super) fn new(trust: &rustls::ClientConfig) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trust.clone())
            .https_or_http()
            .enable_http1()
            .build();
        // A person pauses longer between two commands than a server keeps a connection.
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Self { client }
    }

    /// One request. An answer without a body is read as null.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        url: &str,
        token: &Token,
        body: Option<Vec<u8>>,
    ) -> Result<T, RestError> {
        let request = request(method, url, token, body)?;
        let answering = self.answer(request);
        tokio::time::timeout(TIMEOUT, answering).await.unwrap_or(Err(RestError::Timeout))
    }

    async fn answer<T: DeserializeOwned>(
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
            return Err(RestError::Refused { object, retry_after });
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

/// What is behind an error: the layers around it only say that something failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

/// Where REST is, beside a socket: the same host, and the same prefix if there is one.
pub(super) fn base_of(socket_url: &str) -> String {
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

    fn refused(code: ErrorCode, reason: Option<&str>) -> String {
        let reason = reason.map(str::to_owned);
        let details = Some(ErrorDetails { reason, ..ErrorDetails::default() });
        let (message, request_id) = ("why".to_owned(), String::new());
        let object = ErrorObject { code, message, request_id, details };
        RestError::Refused { object, retry_after: Some(7) }.to_string()
    }

    #[test]
    fn rest_is_beside_the_socket() {
        assert_eq!(base_of("ws://127.0.0.1:7400"), "http://127.0.0.1:7400");
        assert_eq!(base_of("wss://example.com/"), "https://example.com");
        assert_eq!(base_of("https://example.com/live/v1/ws"), "https://example.com/live");
        assert_eq!(base_of("ws://[::1]:80/v1/ws?a=b"), "http://[::1]:80");
        assert_eq!(base_of("ws://example.com/elsewhere"), "http://example.com");
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        assert!(refused(ErrorCode::NotAMember, None).contains("/chats"));
        assert_eq!(refused(ErrorCode::Forbidden, None), "why: /who shows who may");
        assert!(refused(ErrorCode::Conflict, Some("owner_must_stay")).contains("/add USER owner"));
        assert_eq!(refused(ErrorCode::ServerBusy, None), "why; try again in 7 s");
        for code in ErrorCode::ALL {
            assert!(!refused(code, None).is_empty());
        }
    }

    #[tokio::test]
    async fn a_server_that_is_down_is_said_to_be() {
        // Nobody listens on the port of a closed listener.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/chats", listener.local_addr().unwrap());
        drop(listener);
        let token = Token("t".to_owned());
        let trust = ClientConfig::new("ws://x", token.clone()).trust();
        let answer = Rest::new(&trust).call::<()>(Method::GET, &url, &token, None).await;
        let sentence = answer.unwrap_err().to_string();
        assert!(sentence.starts_with("the server cannot be reached (Connection"), "{sentence}");
    }
}
