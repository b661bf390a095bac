//! Walks over the WebSocket frames of a byte stream without parsing what they carry.
//!
//! Thousands of readers share the machine with the server that they measure, so a reader looks at
//! nothing but frame headers and the first bytes of a payload: enough to tell an event from a
//! heartbeat's answer and to find the time that a push was meant to leave.

/// Bytes of a payload that are shown; the time stands within them.
pub(super) const HEAD_BYTES: usize = 96;
/// The longest header of a frame from a server, which never masks.
const HEADER_BYTES_MAX: usize = 10;
/// What an event begins with.
const EVENT_PREFIX: &[u8] = br#"{"type":"event""#;
/// What stands before the digits of the intended time.
pub(super) const TIME_MARKER: &[u8] = br#""at":""#;
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

/// Whether a payload that begins so is a push of the bench.
pub(super) fn is_event(head: &[u8]) -> bool {
    head.starts_with(EVENT_PREFIX)
}

/// The intended time in an event's head, in nanoseconds since the run's start.
pub(super) fn intended_nanos(head: &[u8]) -> Option<u64> {
    let marker = head.windows(TIME_MARKER.len()).position(|window| window == TIME_MARKER)?;
    let digits = head.get(marker + TIME_MARKER.len()..)?.get(..TIME_DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
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
        stream.extend(encode(1, &[b'x'; 300]));
        stream.extend(encode(10, b"pong"));
        stream.extend(encode(1, &vec![b'y'; 70_000]));
        stream.extend(encode(8, b""));
        let whole = walk(&[&stream]);
        let long = |letter: &str| format!("text {}", letter.repeat(HEAD_BYTES));
        assert_eq!(whole, ["text hello", "ping ", &long("x"), "other", &long("y"), "close"]);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(walk(&bytes), whole);
        for cut in 0..420 {
            let (first, second) = stream.split_at(cut);
            assert_eq!(walk(&[first, second]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn the_intended_time_is_found_in_an_event() {
        let head = br#"{"type":"event","name":"bench","data":{"at":"00000000001234567890","pad":"#;
        assert!(is_event(head));
        assert_eq!(intended_nanos(head), Some(1_234_567_890));
        assert_eq!(intended_nanos(&head[..60]), None);
        assert!(!is_event(br#"{"type":"heartbeat_ack""#));
    }
}
