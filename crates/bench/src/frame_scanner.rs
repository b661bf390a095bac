//! Finds the WebSocket frames in a byte stream without parsing their payloads.
//!
//! Thousands of readers share the machine with the server under test, so a reader inspects only
//! frame headers and the first bytes of a payload. They are enough to tell a delivery from a reply
//! and to find the intended send time.

/// Bytes of a payload that are inspected; they contain the time.
pub(super) const HEAD_BYTES: usize = 288;
/// The longest frame header from a server; servers do not mask.
const HEADER_BYTES_MAX: usize = 10;
/// The beginning of an event.
const EVENT_PREFIX: &[u8] = br#"{"type":"event""#;
/// The beginning of a chat message.
const MESSAGE_PREFIX: &[u8] = br#"{"type":"message","#;
/// The beginning of an acknowledgement, up to its request id, which is a time.
const ACK_PREFIX: &[u8] = br#"{"type":"message_ack","request_id":""#;
/// The beginning of an error.
const ERROR_PREFIX: &[u8] = br#"{"type":"error""#;
/// The bytes before the intended time in an event.
pub(super) const TIME_MARKER: &[u8] = br#""at":""#;
/// The bytes before the intended time in a message.
pub(super) const CONTENT_MARKER: &[u8] = br#""content":""#;
/// The content of a message begins after at least this many bytes: prefix, chat id, message id.
const CONTENT_AFTER: usize = 120;
/// Digits of the intended time, in nanoseconds.
pub(super) const TIME_DIGITS: usize = 20;

/// A frame with the bytes that a reader inspects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A text frame with the first bytes of its payload.
    Text(&'a [u8]),
    /// A ping with its payload.
    Ping(&'a [u8]),
    /// A Close frame.
    Close,
    /// Anything else.
    Other,
}

/// The position of a reader in its stream. A frame may be split over any number of reads.
#[derive(Debug)]
pub(super) struct FrameScanner {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    opcode: u8,
    /// Bytes of the current payload that were not read yet.
    remaining: u64,
    /// The beginning of a payload that was split.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Length of the head that is being collected, if any.
    head_wanted: Option<usize>,
}

impl FrameScanner {
    /// A scanner at the beginning of a stream.
    pub(super) fn new() -> Self {
        Self {
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            opcode: 0,
            remaining: 0,
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            head_wanted: None,
        }
    }

    /// Scans the next bytes and calls `on_frame` for every frame whose head is complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut on_frame: impl FnMut(Frame<'_>)) {
        loop {
            if let Some(wanted) = self.head_wanted {
                bytes = self.collect_head(wanted, bytes, &mut on_frame);
            } else if self.remaining > 0 {
                let skipped =
                    bytes.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
                self.remaining -= skipped as u64;
                bytes = &bytes[skipped..];
            } else {
                bytes = self.collect_header(bytes);
            }
            // A frame without a payload is complete although no byte follows its header.
            if bytes.is_empty() && self.head_wanted != Some(0) {
                return;
            }
        }
    }

    fn collect_header<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let Some((&byte, rest)) = bytes.split_first() {
            self.header[self.header_bytes] = byte;
            self.header_bytes += 1;
            bytes = rest;
            if let Some(length) = payload_length(&self.header[..self.header_bytes]) {
                self.opcode = self.header[0] & 0x0f;
                self.header_bytes = 0;
                self.remaining = length;
                self.head_bytes = 0;
                self.head_wanted = Some(length.min(HEAD_BYTES as u64) as usize);
                break;
            }
        }
        bytes
    }

    fn collect_head<'a>(
        &mut self,
        wanted: usize,
        bytes: &'a [u8],
        on_frame: &mut impl FnMut(Frame<'_>),
    ) -> &'a [u8] {
        let taken = bytes.len().min(wanted - self.head_bytes);
        let (new, rest) = bytes.split_at(taken);
        self.remaining -= taken as u64;
        if taken == wanted {
            on_frame(frame(self.opcode, new));
            self.head_wanted = None;
            return rest;
        }
        self.head[self.head_bytes..self.head_bytes + taken].copy_from_slice(new);
        self.head_bytes += taken;
        if self.head_bytes == wanted {
            on_frame(frame(self.opcode, &self.head[..wanted]));
            self.head_wanted = None;
        }
        rest
    }
}

/// The length of the payload, once the header is complete.
fn payload_length(header: &[u8]) -> Option<u64> {
    match header.get(1)? & 0x7f {
        126 => Some(u16::from_be_bytes(header.get(2..4)?.try_into().ok()?).into()),
        127 => Some(u64::from_be_bytes(header.get(2..10)?.try_into().ok()?)),
        short => Some(short.into()),
    }
}

fn frame(opcode: u8, head: &[u8]) -> Frame<'_> {
    match opcode {
        1 => Frame::Text(head),
        8 => Frame::Close,
        9 => Frame::Ping(head),
        _ => Frame::Other,
    }
}

/// The kind of a text frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// A push: an event, or a message of a chat.
    Delivery,
    /// The acknowledgement of a stored message.
    Ack,
    /// A rejected request.
    Error,
    /// A heartbeat acknowledgement or any other frame.
    Other,
}

/// The kind of a text frame, from its first bytes.
pub(super) fn frame_kind(head: &[u8]) -> FrameKind {
    if head.starts_with(MESSAGE_PREFIX) || head.starts_with(EVENT_PREFIX) {
        FrameKind::Delivery
    } else if head.starts_with(ACK_PREFIX) {
        FrameKind::Ack
    } else if head.starts_with(ERROR_PREFIX) {
        FrameKind::Error
    } else {
        FrameKind::Other
    }
}

/// The intended time in the head of a delivery or an acknowledgement, in nanoseconds since the
/// run's start.
pub(super) fn intended_nanos(head: &[u8]) -> Option<u64> {
    let digits = match head.strip_prefix(ACK_PREFIX) {
        Some(rest) => rest,
        None if head.starts_with(MESSAGE_PREFIX) => {
            after(head.get(CONTENT_AFTER..)?, CONTENT_MARKER)?
        }
        None => after(head, TIME_MARKER)?,
    };
    std::str::from_utf8(digits.get(..TIME_DIGITS)?).ok()?.parse().ok()
}

fn after<'a>(head: &'a [u8], marker: &[u8]) -> Option<&'a [u8]> {
    let place = head.windows(marker.len()).position(|window| window == marker)?;
    head.get(place + marker.len()..)
}

#[cfg(test)]
mod tests {
    use heartline_protocol::server_frame::{Message, MessageAck};
    use heartline_protocol::{ChatId, MessageId, ServerFrame, Timestamp, encode_server};
    use ulid::Ulid;

    use super::*;

    fn encode(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80 | opcode];
        match payload.len() {
            length @ 0..126 => bytes.push(length as u8),
            length @ 126..65_536 => {
                bytes.push(126);
                bytes.extend((length as u16).to_be_bytes());
            }
            length => {
                bytes.push(127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.extend(payload);
        bytes
    }

    fn scan(chunks: &[&[u8]]) -> Vec<String> {
        let mut scanner = FrameScanner::new();
        let mut seen = Vec::new();
        for chunk in chunks {
            scanner.feed(chunk, |frame| {
                seen.push(match frame {
                    Frame::Text(head) => format!("text {}", String::from_utf8_lossy(head)),
                    Frame::Ping(payload) => format!("ping {}", String::from_utf8_lossy(payload)),
                    Frame::Close => "close".to_owned(),
                    Frame::Other => "other".to_owned(),
                });
            });
        }
        seen
    }

    #[test]
    fn every_split_of_the_stream_gives_the_same_frames() {
        let mut stream = encode(1, b"hello");
        stream.extend(encode(9, b""));
        stream.extend(encode(1, &[b'x'; 600]));
        stream.extend(encode(10, b"pong"));
        stream.extend(encode(1, &vec![b'y'; 70_000]));
        stream.extend(encode(8, b""));
        let whole = scan(&[&stream]);
        let long = |character: &str| format!("text {}", character.repeat(HEAD_BYTES));
        assert_eq!(whole, ["text hello", "ping ", &long("x"), "other", &long("y"), "close"]);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(scan(&bytes), whole);
        for split in 0..620 {
            let (first, second) = stream.split_at(split);
            assert_eq!(scan(&[first, second]), whole, "split at {split}");
        }
    }

    #[test]
    fn the_intended_time_is_found_in_an_event() {
        let head = br#"{"type":"event","name":"bench","data":{"at":"00000000001234567890","pad":"#;
        assert_eq!(frame_kind(head), FrameKind::Delivery);
        assert_eq!(intended_nanos(head), Some(1_234_567_890));
        assert_eq!(intended_nanos(&head[..60]), None);
        assert_eq!(frame_kind(br#"{"type":"heartbeat_ack""#), FrameKind::Other);
    }

    #[test]
    fn the_intended_time_is_found_in_messages_and_their_acknowledgements() {
        let frames = [
            ServerFrame::Message(Message {
                chat_id: ChatId(Ulid(1)),
                sequence: u64::MAX,
                message_id: MessageId(Ulid(2)),
                sender_id: "bench-1000".parse().unwrap(),
                client_message_id: "n".repeat(32).parse().unwrap(),
                content: "00000000001234567890xxx".to_owned(),
                content_type: "text/plain".to_owned(),
                created_at: Timestamp { unix_ms: 0 },
                deleted: false,
            }),
            ServerFrame::MessageAck(MessageAck {
                request_id: "00000000001234567890".parse().unwrap(),
                chat_id: ChatId(Ulid(1)),
                client_message_id: "n".parse().unwrap(),
                message_id: MessageId(Ulid(2)),
                sequence: 1,
                created_at: Timestamp { unix_ms: 0 },
                duplicate: false,
            }),
        ];
        let kinds = frames.map(|frame| {
            let text = encode_server(&frame, Timestamp { unix_ms: 0 });
            let head = &text.as_bytes()[..text.len().min(HEAD_BYTES)];
            assert_eq!(intended_nanos(head), Some(1_234_567_890), "{text}");
            frame_kind(head)
        });
        assert_eq!(kinds, [FrameKind::Delivery, FrameKind::Ack]);
        assert_eq!(frame_kind(br#"{"type":"error","request_id":"1""#), FrameKind::Error);
    }
}
