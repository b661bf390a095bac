//! The HTTP/1.1 upgrade: writes the head of the request and reads the head of the response.
//!
//! The client implements the upgrade itself because it needs the status, the `Retry-After` and the
//! body of a rejection.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use heartline_protocol::limits::REQUEST_HEAD_BYTES_MAX;
use heartline_runtime::Random;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The text that RFC 6455 appends to a key before hashing.
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The head of the server's response.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
}

impl ResponseHead {
    /// The value of a header, if it is present and text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A new `Sec-WebSocket-Key`.
pub(crate) fn new_key(random: Random) -> String {
    STANDARD.encode(random.draw::<[u8; 16]>())
}

/// The `Sec-WebSocket-Accept` that a server must return for a key.
pub(crate) fn expected_accept(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(ACCEPT_SUFFIX.as_bytes());
    STANDARD.encode(hash.digest().bytes())
}

/// The bytes of an upgrade request. A header in `headers` replaces the default header of the same
/// name.
pub(crate) fn request_head(host: &str, path: &str, key: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let defaults = [
        ("Host", host),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", key),
    ];
    let is_given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut head = format!("GET {path} HTTP/1.1\r\n");
    for (name, value) in defaults.iter().filter(|(name, _)| !is_given(name)).chain(headers) {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Reads exactly the head of a response.
pub(crate) async fn read_head(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<ResponseHead> {
    let mut head = Vec::new();
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (taken, complete) = append_head(&mut head, available)?;
        reader.consume(taken);
        if complete {
            return parse_head(&head);
        }
    }
}

/// Appends the bytes of `available` that belong to the head. Returns how many bytes those are, and
/// whether the head is complete.
pub(crate) fn append_head(head: &mut Vec<u8>, available: &[u8]) -> io::Result<(usize, bool)> {
    let before = head.len();
    head.extend_from_slice(available);
    // The blank line may have begun in the bytes before.
    let search_from = before.saturating_sub(3);
    let end = head[search_from..].windows(4).position(|window| window == b"\r\n\r\n");
    if let Some(end) = end {
        head.truncate(search_from + end + 4);
        return Ok((head.len() - before, true));
    }
    if head.len() > REQUEST_HEAD_BYTES_MAX {
        return Err(invalid("the head of the response is too long"));
    }
    Ok((available.len(), false))
}

/// Parses a complete head.
pub(crate) fn parse_head(head: &[u8]) -> io::Result<ResponseHead> {
    let text =
        std::str::from_utf8(head).map_err(|_| invalid("the head of the response is not UTF-8"))?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .filter(|line| line.starts_with("HTTP/1."))
        .and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .ok_or_else(|| invalid("the response has no HTTP/1.1 status"))?;
    let mut headers = HeaderMap::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) =
            line.split_once(':').ok_or_else(|| invalid("a header of the response has no colon"))?;
        let name: HeaderName =
            name.parse().map_err(|_| invalid("a header of the response has an invalid name"))?;
        let value: HeaderValue = value
            .trim()
            .parse()
            .map_err(|_| invalid("a header of the response has an invalid value"))?;
        headers.append(name, value);
    }
    Ok(ResponseHead { status, headers })
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_value_is_that_of_the_rfc() {
        assert_eq!(expected_accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_given_header_replaces_its_default() {
        let head = request_head("a:1", "/v1/ws", "key", &[("host", "b"), ("X-One", "1")]);
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET /v1/ws HTTP/1.1\r\n") && head.ends_with("\r\n\r\n"));
        assert!(head.contains("\r\nhost: b\r\n") && !head.contains("Host: a:1"));
        assert!(head.contains("\r\nX-One: 1\r\n") && head.contains("\r\nUpgrade: websocket\r\n"));
    }

    #[tokio::test]
    async fn a_head_is_read_exactly_in_parts_of_any_size() {
        let response = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\n\r\nbody";
        for capacity in 1..response.len() {
            let mut reader = tokio::io::BufReader::with_capacity(capacity, &response[..]);
            let head = read_head(&mut reader).await.unwrap();
            assert_eq!(head.status, 503);
            assert_eq!(head.header("retry-after"), Some("7"));
            let mut rest = String::new();
            tokio::io::AsyncReadExt::read_to_string(&mut reader, &mut rest).await.unwrap();
            assert_eq!(rest, "body");
        }
    }

    #[tokio::test]
    async fn a_too_long_head_and_another_protocol_are_rejected() {
        let endless = vec![b'a'; 10 * REQUEST_HEAD_BYTES_MAX];
        assert!(read_head(&mut &endless[..]).await.is_err());
        assert!(read_head(&mut &b"SSH-2.0-OpenSSH\r\n\r\n"[..]).await.is_err());
        assert!(read_head(&mut &b"HTTP/1.1 101 "[..]).await.is_err());
    }
}
