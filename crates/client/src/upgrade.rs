//! The HTTP/1.1 upgrade: the request's head and the response's, as bytes.
//!
//! It is written out here because the client must see what a refusal says: its status, its
//! `Retry-After` and its body.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use heartline_protocol::limits::REQUEST_HEAD_BYTES_MAX;
use heartline_runtime::Random;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What RFC 6455 appends to a key before it is hashed.
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The head of the server's answer.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
}

impl ResponseHead {
    /// A header's value, if it is there and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A new `Sec-WebSocket-Key`.
pub(crate) fn new_key(random: Random) -> String {
    STANDARD.encode(random.draw::<[u8; 16]>())
}

/// The `Sec-WebSocket-Accept` that proves that the server read the key.
pub(crate) fn accept_of(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(ACCEPT_SUFFIX.as_bytes());
    STANDARD.encode(hash.digest().bytes())
}

/// The bytes of an upgrade request. A header that is given replaces the default of its name.
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

/// Reads the head of a response and not a byte more.
pub(crate) async fn read_head(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<ResponseHead> {
    let mut head = Vec::new();
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (taken, complete) = take_head(&mut head, available)?;
        reader.consume(taken);
        if complete {
            return parse_head(&head);
        }
    }
}

/// Moves what belongs to the head out of `available`: how many bytes that is, and whether the
/// head is now complete.
pub(crate) fn take_head(head: &mut Vec<u8>, available: &[u8]) -> io::Result<(usize, bool)> {
    let before = head.len();
    head.extend_from_slice(available);
    // The blank line may have begun in what came before.
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

/// Understands a complete head.
pub(crate) fn parse_head(head: &[u8]) -> io::Result<ResponseHead> {
    let text =
        std::str::from_utf8(head).map_err(|_| invalid("the head of the response is no text"))?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .filter(|line| line.starts_with("HTTP/1."))
        .and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .ok_or_else(|| invalid("the response has no HTTP/1.1 status"))?;
    let mut headers = HeaderMap::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) =
            line.split_once(':').ok_or_else(|| invalid("a header of the response has no name"))?;
        let name: HeaderName =
            name.parse().map_err(|_| invalid("a header of the response has an illegal name"))?;
        let value: HeaderValue = value
            .trim()
            .parse()
            .map_err(|_| invalid("a header of the response has an illegal value"))?;
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
    fn the_accept_value_is_that_of_the_rfcs_example() {
        assert_eq!(accept_of("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
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
    async fn a_head_is_read_to_its_end_however_it_is_cut() {
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
    async fn an_endless_head_and_a_foreign_protocol_are_refused() {
        let endless = vec![b'a'; 10 * REQUEST_HEAD_BYTES_MAX];
        assert!(read_head(&mut &endless[..]).await.is_err());
        assert!(read_head(&mut &b"SSH-2.0-OpenSSH\r\n\r\n"[..]).await.is_err());
        assert!(read_head(&mut &b"HTTP/1.1 101 "[..]).await.is_err());
    }
}
