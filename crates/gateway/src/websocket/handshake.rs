//! Checks the upgrade request by RFC 6455, and reads its token and device.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use heartline_protocol::limits::TOKEN_BYTES_MAX;
use heartline_protocol::{DeviceId, SUBPROTOCOL, Token};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode, Version, request};

use crate::refusal::Refusal;

/// A legal upgrade request.
#[derive(Debug)]
pub struct Upgrade {
    /// The value of `Sec-WebSocket-Accept`.
    pub accept: String,
    /// Whether the client asked for the subprotocol, which the response then names.
    pub subprotocol: bool,
    /// The token, if the request carries one.
    pub token: Option<Token>,
    /// The device, if the request names one.
    pub device_id: Option<DeviceId>,
}

impl Upgrade {
    /// Checks the request and reads its token and device.
    pub fn from_request(request: &request::Parts) -> Result<Self, Refusal> {
        let headers = &request.headers;
        let accept = check_upgrade(request)?;
        if query_has_token(request.uri.query().unwrap_or_default()) {
            return Err(bad("tokens in URLs are not accepted: use the Authorization header"));
        }
        let protocols: Vec<&str> = list(headers, SEC_WEBSOCKET_PROTOCOL).collect();
        let subprotocol = protocols.contains(&SUBPROTOCOL);
        if !subprotocol && !protocols.is_empty() {
            return Err(bad("the only supported subprotocol is heartline.v1"));
        }
        let offered = |prefix| protocols.iter().find_map(|item| item.strip_prefix(prefix));
        let token = match bearer(headers)? {
            Some(token) => Some(token),
            None => offered("bearer.").map(|token| Token(token.to_owned())),
        };
        if token.as_ref().is_some_and(|token| token.0.len() > TOKEN_BYTES_MAX) {
            return Err(Refusal::unauthorized());
        }
        let header = headers.get("x-device-id").map(|value| value.to_str().unwrap_or_default());
        let device_id = match header.or(offered("device.")).map(str::parse::<DeviceId>) {
            None => None,
            Some(Ok(device_id)) => Some(device_id),
            Some(Err(error)) => return Err(bad(&error.to_string())),
        };
        Ok(Self { accept, subprotocol, token, device_id })
    }
}

impl Upgrade {
    /// Checks a request for another subprotocol, which sends its token later.
    ///
    /// # Errors
    /// The request is no upgrade, or has a token in its URL.
    pub fn of(request: &request::Parts, subprotocol: &str) -> Result<Self, Refusal> {
        let accept = check_upgrade(request)?;
        if query_has_token(request.uri.query().unwrap_or_default()) {
            return Err(bad("tokens in URLs are not accepted: send it in connection_init"));
        }
        let subprotocol =
            list(&request.headers, SEC_WEBSOCKET_PROTOCOL).any(|item| item == subprotocol);
        Ok(Self { accept, subprotocol, token: None, device_id: None })
    }

    /// The response that grants the upgrade, with the subprotocol if the client asked for it.
    pub fn response(&self, subprotocol: &'static str) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let accept = HeaderValue::from_str(&self.accept).expect("base64 is a legal header value");
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        if self.subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
        }
        response
    }
}

/// The token of an `Authorization: Bearer` header.
pub fn bearer(headers: &HeaderMap) -> Result<Option<Token>, Refusal> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| Refusal::unauthorized())?;
    let (scheme, token) = value.split_once(' ').ok_or_else(Refusal::unauthorized)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::unauthorized());
    }
    Ok(Some(Token(token.trim().to_owned())))
}

fn bad(message: &str) -> Refusal {
    Refusal::malformed(StatusCode::BAD_REQUEST, message)
}

/// Checks the request by RFC 6455 section 4.2.1; returns the accept key.
fn check_upgrade(request: &request::Parts) -> Result<String, Refusal> {
    let headers = &request.headers;
    let upgrade_required =
        |message: &str| Refusal::malformed(StatusCode::UPGRADE_REQUIRED, message);
    if !list(headers, UPGRADE).any(|item| item.eq_ignore_ascii_case("websocket")) {
        let refusal =
            upgrade_required("this path needs a WebSocket upgrade: send Upgrade: websocket");
        return Err(refusal.with_header(UPGRADE, "websocket"));
    }
    if request.version != Version::HTTP_11 {
        return Err(bad("WebSocket needs HTTP/1.1"));
    }
    if !list(headers, CONNECTION).any(|item| item.eq_ignore_ascii_case("upgrade")) {
        return Err(bad("the Connection header must name upgrade"));
    }
    let has_body = headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
    if has_body || headers.contains_key(TRANSFER_ENCODING) {
        return Err(bad("an upgrade request has no body"));
    }
    if headers.get_all(HOST).iter().count() != 1 {
        return Err(bad("exactly one Host header is required"));
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let refusal = upgrade_required("Sec-WebSocket-Version must be 13");
        return Err(refusal.with_header(SEC_WEBSOCKET_VERSION, "13"));
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        return Err(bad("exactly one Sec-WebSocket-Key is required"));
    };
    let decoded = STANDARD.decode(key.as_bytes());
    if decoded.is_ok_and(|bytes| bytes.len() == 16) {
        Ok(accept_key(key.as_bytes()))
    } else {
        Err(bad("Sec-WebSocket-Key must be 16 bytes in base64"))
    }
}

/// The value of `Sec-WebSocket-Accept`: RFC 6455 section 4.2.2.
pub fn accept_key(key: &[u8]) -> String {
    let mut digest = sha1_smol::Sha1::new();
    digest.update(key);
    digest.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest.digest().bytes())
}

/// The items of a comma-separated header, over all its lines.
fn list(headers: &HeaderMap, name: http::HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

fn query_has_token(query: &str) -> bool {
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    names.into_iter().any(|name| matches!(name, "token" | "access_token" | "jwt"))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn request(
        change: impl FnOnce(http::request::Builder) -> http::request::Builder,
    ) -> request::Parts {
        let builder = Request::get("/v1/ws")
            .header(HOST, "localhost")
            .header(UPGRADE, "websocket")
            .header(CONNECTION, "keep-alive, Upgrade")
            .header(SEC_WEBSOCKET_VERSION, "13");
        change(builder).body(()).unwrap().into_parts().0
    }

    fn with_key(builder: http::request::Builder) -> http::request::Builder {
        builder.header(SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
    }

    #[test]
    fn the_accept_key_is_the_one_of_the_rfc() {
        let upgrade = Upgrade::from_request(&request(with_key)).unwrap();
        assert_eq!(upgrade.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!upgrade.subprotocol && upgrade.token.is_none() && upgrade.device_id.is_none());
    }

    #[test]
    fn the_subprotocol_list_may_carry_token_and_device() {
        let parts = request(|builder| {
            let offer = "heartline.v1, bearer.a.b.c, device.phone-1";
            with_key(builder).header(SEC_WEBSOCKET_PROTOCOL, offer)
        });
        let upgrade = Upgrade::from_request(&parts).unwrap();
        assert!(upgrade.subprotocol);
        assert_eq!(upgrade.token, Some(Token("a.b.c".to_owned())));
        assert_eq!(upgrade.device_id.unwrap().as_str(), "phone-1");
    }

    #[test]
    fn each_illegal_request_has_its_status() {
        let status = |parts: &request::Parts| Upgrade::from_request(parts).unwrap_err().status();
        let key_twice = request(|builder| with_key(with_key(builder)));
        let short_key = request(|builder| builder.header(SEC_WEBSOCKET_KEY, "c2hvcnQ="));
        let other_protocol =
            request(|builder| with_key(builder).header(SEC_WEBSOCKET_PROTOCOL, "chat"));
        let token_in_url = request(|builder| with_key(builder).uri("/v1/ws?token=abc"));
        let basic = request(|builder| with_key(builder).header(AUTHORIZATION, "Basic YTpi"));
        let bad_device = request(|builder| with_key(builder).header("x-device-id", "a b"));
        let with_body = request(|builder| with_key(builder).header(CONTENT_LENGTH, "5"));
        assert_eq!(status(&with_body), 400);
        assert_eq!(status(&key_twice), 400);
        assert_eq!(status(&short_key), 400);
        assert_eq!(status(&request(|builder| builder)), 400);
        assert_eq!(status(&other_protocol), 400);
        assert_eq!(status(&token_in_url), 400);
        assert_eq!(status(&bad_device), 400);
        assert_eq!(status(&basic), 401);
        let plain = Request::get("/v1/ws").header(HOST, "a").body(()).unwrap().into_parts().0;
        assert_eq!(status(&plain), 426);
    }
}
