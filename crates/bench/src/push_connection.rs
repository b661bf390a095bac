//! A keep-alive connection that sends pushes one after the other.
//!
//! Push connections are blocking sockets, each on its own thread: a thread wakes up more precisely
//! than an asynchronous timer, and latency counts from the time at which a push was due.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::bare::{COMMAND_HEAD_BYTES, CONTROL, WELCOME};
use super::dial::{find_head_end, readable};
use super::frame_scanner::{TIME_DIGITS, TIME_MARKER};
use super::load::Pusher;
use super::server_under_test::{ServerUnderTest, status_of};

/// Deadline for a response.
const RESPONSE_WITHIN: Duration = Duration::from_secs(10);
/// The longest response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// The bytes of a push to one group of connections; each push replaces only the time.
#[derive(Debug, Clone)]
pub(super) struct PushTemplate {
    bytes: Vec<u8>,
    digits: Range<usize>,
    /// The number of connections that the push is for.
    pub(super) connections: u64,
}

/// A connection that sends pushes.
#[derive(Debug)]
pub(super) struct PushConnection {
    stream: TcpStream,
    templates: Vec<PushTemplate>,
    response_format: ResponseFormat,
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum ResponseFormat {
    Http,
    Bare,
}

#[derive(Deserialize)]
struct PushResponse {
    connections: u64,
}

impl PushTemplate {
    /// The pushes to these groups of users, in the format of the server.
    pub(super) fn for_groups(
        server: &ServerUnderTest,
        groups: &[&[String]],
        payload: usize,
    ) -> Result<Vec<Self>> {
        let data = event_data(payload)?;
        let Some(signer) = &server.signer else {
            let mut first = 0;
            return groups
                .iter()
                .map(|users| {
                    let template = Self::bare(first, users.len(), &event(&data), TIME_MARKER);
                    first += users.len();
                    template
                })
                .collect();
        };
        let token = signer.service()?;
        groups.iter().map(|users| Self::http(server, &token, users, &data)).collect()
    }

    fn http(server: &ServerUnderTest, token: &str, users: &[String], data: &str) -> Result<Self> {
        let users_json = serde_json::to_string(users)?;
        let body = format!(r#"{{"user_ids":{users_json},"name":"bench","data":{data}}}"#);
        let head = format!(
            "POST /v1/push HTTP/1.1\r\n\
             Host: {}\r\n\
             Authorization: Bearer {token}\r\n\
             Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            server.host,
            body.len()
        );
        Self::new((head + &body).into_bytes(), users.len(), TIME_MARKER)
    }

    /// A command to the bare loop with an encoded text frame; the time follows the marker.
    pub(super) fn bare(first: usize, count: usize, text: &str, marker: &[u8]) -> Result<Self> {
        let length = u16::try_from(text.len()).context("the payload has more than 65535 bytes")?;
        let mut bytes = Vec::with_capacity(COMMAND_HEAD_BYTES + 4 + text.len());
        bytes.extend((first as u32).to_be_bytes());
        bytes.extend((count as u32).to_be_bytes());
        bytes.extend((u32::from(length) + 4).to_be_bytes());
        bytes.extend([0x81, 126]);
        bytes.extend(length.to_be_bytes());
        bytes.extend(text.as_bytes());
        Self::new(bytes, count, marker)
    }

    fn new(bytes: Vec<u8>, connections: usize, marker: &[u8]) -> Result<Self> {
        let position = bytes.windows(marker.len()).position(|window| window == marker);
        let start = position.context("the push has no time")? + marker.len();
        Ok(Self { bytes, digits: start..start + TIME_DIGITS, connections: connections as u64 })
    }

    fn patch(&mut self, nanos: u64) -> &[u8] {
        let digits = format!("{nanos:0TIME_DIGITS$}");
        self.bytes[self.digits.clone()].copy_from_slice(digits.as_bytes());
        &self.bytes
    }
}

/// An event as a server would send it.
fn event(data: &str) -> String {
    let timestamp = "2000-01-01T00:00:00.000Z";
    format!(r#"{{"type":"event","name":"bench","data":{data},"timestamp":"{timestamp}"}}"#)
}

/// The JSON data of a push: a time, padded to the given size.
fn event_data(payload: usize) -> Result<String> {
    let time = "0".repeat(TIME_DIGITS);
    let smallest = format!(r#"{{"at":"{time}","pad":""}}"#).len();
    ensure!(payload >= smallest, "--payload must be at least {smallest} bytes");
    let most = heartline_protocol::limits::EVENT_DATA_BYTES_MAX;
    ensure!(payload <= most, "--payload must be at most {most} bytes");
    Ok(format!(r#"{{"at":"{time}","pad":"{}"}}"#, "x".repeat(payload - smallest)))
}

impl PushConnection {
    /// Opens several connections for the same pushes.
    pub(super) fn open_many(
        server: &ServerUnderTest,
        templates: &[PushTemplate],
        count: usize,
    ) -> Result<Vec<Box<dyn Pusher>>> {
        let open = |_| anyhow::Ok(Box::new(Self::open(server, templates)?) as Box<dyn Pusher>);
        (0..count).map(open).collect()
    }

    fn open(server: &ServerUnderTest, templates: &[PushTemplate]) -> Result<Self> {
        let mut stream = TcpStream::connect(server.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(RESPONSE_WITHIN))?;
        stream.set_write_timeout(Some(RESPONSE_WITHIN))?;
        let response_format = match server.signer {
            Some(_) => ResponseFormat::Http,
            None => {
                stream.write_all(CONTROL)?;
                let mut welcome = [0; WELCOME.len()];
                stream.read_exact(&mut welcome)?;
                ResponseFormat::Bare
            }
        };
        Ok(Self { stream, templates: templates.to_vec(), response_format, buffer: Vec::new() })
    }

    fn read_bare(&mut self) -> Result<u64> {
        let mut count = [0; 4];
        self.stream.read_exact(&mut count)?;
        Ok(u32::from_be_bytes(count).into())
    }

    fn read_http(&mut self) -> Result<u64> {
        self.buffer.clear();
        let head_end = loop {
            self.read_more()?;
            if let Some(end) = find_head_end(&self.buffer) {
                break end;
            }
        };
        let length = content_length(&self.buffer[..head_end])
            .context("the response has no Content-Length")?;
        while self.buffer.len() < head_end + length {
            self.read_more()?;
        }
        if status_of(&self.buffer) != Some(200) {
            bail!("the push was rejected: {}", readable(&self.buffer));
        }
        let pushed: PushResponse =
            serde_json::from_slice(&self.buffer[head_end..head_end + length])
                .context("the response to a push is not {\"connections\": n}")?;
        Ok(pushed.connections)
    }

    fn read_more(&mut self) -> Result<()> {
        ensure!(
            self.buffer.len() < RESPONSE_BYTES_MAX,
            "the response is longer than {RESPONSE_BYTES_MAX} bytes"
        );
        let mut chunk = [0; 1024];
        let read = self.stream.read(&mut chunk)?;
        ensure!(read > 0, "the server closed the connection: {}", readable(&self.buffer));
        self.buffer.extend(&chunk[..read]);
        Ok(())
    }
}

impl Pusher for PushConnection {
    fn groups(&self) -> usize {
        self.templates.len()
    }

    fn connections(&self, group: usize) -> u64 {
        self.templates[group].connections
    }

    /// Waits for the response.
    fn push(&mut self, group: usize, intended_nanos: u64) -> Result<u64> {
        let bytes = self.templates[group].patch(intended_nanos);
        self.stream.write_all(bytes).context("sending a push failed")?;
        let queued = match self.response_format {
            ResponseFormat::Http => self.read_http(),
            ResponseFormat::Bare => self.read_bare(),
        };
        queued.context("a push had no valid response")
    }
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::super::frame_scanner::{Frame, FrameKind, FrameScanner, frame_kind, intended_nanos};
    use super::super::signer::Signer;
    use super::*;

    #[test]
    fn the_data_has_exactly_the_requested_size() {
        for size in [64, 200, 16_384] {
            let data = event_data(size).unwrap();
            assert_eq!(data.len(), size);
            serde_json::from_str::<serde_json::Value>(&data).unwrap();
        }
        assert!(event_data(10).is_err() && event_data(16_385).is_err());
    }

    #[test]
    fn the_bare_loop_sends_a_frame_that_readers_recognise() {
        let text = event(&event_data(200).unwrap());
        let mut template = PushTemplate::bare(5, 7, &text, TIME_MARKER).unwrap();
        let bytes = template.patch(42_000);
        assert_eq!(bytes[..8], [0, 0, 0, 5, 0, 0, 0, 7]);
        let mut times = Vec::new();
        FrameScanner::new().feed(&bytes[COMMAND_HEAD_BYTES..], |frame| {
            let Frame::Text(head) = frame else { panic!("not a text frame") };
            assert_eq!(frame_kind(head), FrameKind::Delivery);
            times.push(intended_nanos(head));
        });
        assert_eq!(times, [Some(42_000)]);
    }

    /// Pushes once to a server that sends this response.
    fn push_with_response(response: &'static str) -> Result<u64> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let signer = Signer::unchecked();
        let server = ServerUnderTest::at_address(listener.local_addr().unwrap(), Some(signer));
        let users = ["ana".to_owned(), "bo".to_owned()];
        let templates = PushTemplate::for_groups(&server, &[&users], 200).unwrap();
        let request_bytes = templates[0].bytes.len();
        let responder = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; request_bytes];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(response.as_bytes()).unwrap();
            request
        });
        let mut connection = PushConnection::open(&server, &templates).unwrap();
        let queued = connection.push(0, 77);
        let request = responder.join().unwrap();
        let body = &request[find_head_end(&request).unwrap()..];
        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["user_ids"], serde_json::json!(["ana", "bo"]));
        assert_eq!(body["data"]["at"], "00000000000000000077");
        assert_eq!(content_length(&request), Some(body.to_string().len()));
        queued
    }

    #[test]
    fn a_push_is_a_request_with_its_time_and_returns_the_connections() {
        let response = "HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n{\"connections\":2}";
        assert_eq!(push_with_response(response).unwrap(), 2);
    }

    #[test]
    fn the_error_of_a_rejected_push_contains_the_response() {
        let response = "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nwait";
        let error = format!("{:#}", push_with_response(response).unwrap_err());
        assert!(error.contains("503 Busy") && error.contains("wait"), "{error}");
        let error = format!("{:#}", push_with_response("").unwrap_err());
        assert!(error.contains("closed the connection"), "{error}");
    }

    #[test]
    fn the_content_length_is_found_in_upper_and_lower_case() {
        assert_eq!(content_length(b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 17\r\n\r\n"), Some(17));
        assert_eq!(content_length(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
