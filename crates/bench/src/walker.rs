//! Walks over the WebSocket frames of a byte stream without parsing what they carry.
//!
//! Thousands of readers share the machine with the server that they measure, so a reader looks at
//! nothing but frame headers and the first bytes of a payload: enough to tell a delivery from an
//! answer and to find the time that it was meant to leave.

/// Bytes of a payload that are shown; the time stands within them.
pub(super) const HEAD_BYTES: usize = 288;
/// The longest header of a frame from a server, which never masks.
const HEADER_BYTES_MAX: usize = 10;
/// What an event begins with.
const EVENT_PREFIX: &[u8] = br#"{"type":"event""#;
/// What a message of a chat begins with.
const MESSAGE_PREFIX: &[u8] = br#"{"type":"message","#;
/// What an acknowledgement begins with, up to the time that its request is named after.
const ACK_PREFIX: &[u8] = br#"{"type":"message_ack","request_id":""#;
/// What a refusal begins with.
const ERROR_PREFIX: &[u8] = br#"{"type":"error""#;
/// What stands before the digits of the intended time in an event.
pub(super) const TIME_MARKER: &[u8] = br#""at":""#;
/// The same in a message.
pub(super) const CONTENT_MARKER: &[u8] = br#""content":""#;
/// Bytes of a message that stand before its content in any case: the prefix, a chat's id, a
/// message's id.
const CONTENT_AFTER: usize = 120;
/// Digits of the intended time, in nanoseconds.
pub(super) const TIME_DIGITS: usize = 20;

/// A frame as far as a reader looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A text message with the first bytes of its payload.
    Text(&'a [u8]),
    /// A ping with its payload.
    Ping(&'a [u8]),
    /// The end of the connection.
    Close,
    /// Anything else.
    Other,
}

/// Where a reader is in its stream; frames may be cut anywhere.
#[derive(Debug)]
pub(super) struct Walker {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    opcode: u8,
    /// Bytes of the present frame's payload that did not come yet.
    remaining: u64,
    /// The beginning of a payload that was cut.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// How many bytes of the payload are to be shown; none while no head is being gathered.
    head_wanted: Option<usize>,
}

impl Walker {
    /// At the beginning of a stream.
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

    /// Walks over the next bytes and shows every frame once its head is complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut show: impl FnMut(Frame<'_>)) {
        loop {
            if let Some(wanted) = self.head_wanted {
                bytes = self.gather_head(wanted, bytes, &mut show);
            } else if self.remaining > 0 {
                let skipped =
                    bytes.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
                self.remaining -= skipped as u64;
                bytes = &bytes[skipped..];
            } else {
                bytes = self.gather_header(bytes);
            }
            // A frame without a payload is complete although no byte follows its header.
            if bytes.is_empty() && self.head_wanted != Some(0) {
                return;
            }
        }
    }

    fn gather_header<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
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

    fn gather_head<'a>(
        &mut self,
        wanted: usize,
        bytes: &'a [u8],
        show: &mut impl FnMut(Frame<'_>),
    ) -> &'a [u8] {
        let taken = bytes.len().min(wanted - self.head_bytes);
        let (new, rest) = bytes.split_at(taken);
        self.remaining -= taken as u64;
        if taken == wanted {
            show(frame(self.opcode, new));
            self.head_wanted = None;
            return rest;
        }
        self.head[self.head_bytes..self.head_bytes + taken].copy_from_slice(new);
        self.head_bytes += taken;
        if self.head_bytes == wanted {
            show(frame(self.opcode, &self.head[..wanted]));
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

/// What a text frame is to the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// A push: an event, or a message of a chat.
    Delivery,
    /// A message is stored.
    Ack,
    /// A request was refused.
    Error,
    /// The answer to a heartbeat, and whatever else there may be.
    Other,
}

/// What a text frame is that begins so.
pub(super) fn word(head: &[u8]) -> Word {
    if head.starts_with(MESSAGE_PREFIX) || head.starts_with(EVENT_PREFIX) {
        Word::Delivery
    } else if head.starts_with(ACK_PREFIX) {
        Word::Ack
    } else if head.starts_with(ERROR_PREFIX) {
        Word::Error
    } else {
        Word::Other
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

    fn walk(chunks: &[&[u8]]) -> Vec<String> {
        let mut walker = Walker::new();
        let mut seen = Vec::new();
        for chunk in chunks {
            walker.feed(chunk, |frame| {
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
    fn every_cut_of_the_stream_shows_the_same_frames() {
        let mut stream = encode(1, b"hello");
        stream.extend(encode(9, b""));
        stream.extend(encode(1, &[b'x'; 600]));
        stream.extend(encode(10, b"pong"));
        stream.extend(encode(1, &vec![b'y'; 70_000]));
        stream.extend(encode(8, b""));
        let whole = walk(&[&stream]);
        let long = |letter: &str| format!("text {}", letter.repeat(HEAD_BYTES));
        assert_eq!(whole, ["text hello", "ping ", &long("x"), "other", &long("y"), "close"]);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(walk(&bytes), whole);
        for cut in 0..620 {
            let (first, second) = stream.split_at(cut);
            assert_eq!(walk(&[first, second]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn the_intended_time_is_found_in_an_event() {
        let head = br#"{"type":"event","name":"bench","data":{"at":"00000000001234567890","pad":"#;
        assert_eq!(word(head), Word::Delivery);
        assert_eq!(intended_nanos(head), Some(1_234_567_890));
        assert_eq!(intended_nanos(&head[..60]), None);
        assert_eq!(word(br#"{"type":"heartbeat_ack""#), Word::Other);
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
        let words = frames.map(|frame| {
            let text = encode_server(&frame, Timestamp { unix_ms: 0 });
            let head = &text.as_bytes()[..text.len().min(HEAD_BYTES)];
            assert_eq!(intended_nanos(head), Some(1_234_567_890), "{text}");
            word(head)
        });
        assert_eq!(words, [Word::Delivery, Word::Ack]);
        assert_eq!(word(br#"{"type":"error","request_id":"1""#), Word::Error);
    }
}
