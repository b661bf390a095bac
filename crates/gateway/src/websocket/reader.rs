//! Parses the bytes of a client into messages: frame headers, masks, fragments, limits, UTF-8.
//!
//! The reader holds only incomplete messages. An idle connection therefore has no buffer here.

use bytes::Bytes;

use super::Opcode;

/// The limits of a reader.
#[derive(Debug, Clone, Copy)]
pub struct ReaderLimits {
    /// Bytes of one message, over all its fragments.
    pub message_bytes: usize,
    /// Frames that one message may be split into.
    pub fragments: usize,
}

/// A complete message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A text message.
    Text(String),
    /// A binary message, whose content is ignored.
    Binary(Bytes),
    /// A Ping to be answered with the same payload.
    Ping(Bytes),
    /// A Pong.
    Pong,
    /// The client closes, with its code if it gave one.
    Close(Option<u16>),
}

/// A violation of the WebSocket protocol: the connection ends with this close code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame that RFC 6455 does not allow.
    #[error("{0}")]
    Framing(&'static str),
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// A message over the limit.
    #[error("message over the size limit")]
    TooLarge,
}

impl FrameError {
    /// The close code of this violation.
    pub const fn close_code(self) -> u16 {
        match self {
            Self::Framing(_) => 1002,
            Self::Utf8 => 1007,
            Self::TooLarge => 1009,
        }
    }
}

/// Turns bytes into messages.
#[derive(Debug)]
pub struct FrameReader {
    limits: ReaderLimits,
    /// The bytes of an incomplete frame, from `start` on.
    pending: Vec<u8>,
    start: usize,
    /// The fragments so far of an incomplete message.
    partial: Option<Box<Partial>>,
}

#[derive(Debug)]
struct Partial {
    opcode: Opcode,
    payload: Vec<u8>,
    fragments: usize,
}

struct Header {
    is_final: bool,
    opcode: Opcode,
    mask: [u8; 4],
    length: usize,
    /// Bytes of the header itself.
    size: usize,
}

impl FrameReader {
    /// An empty reader.
    pub fn new(limits: ReaderLimits) -> Self {
        Self { limits, pending: Vec::new(), start: 0, partial: None }
    }

    /// Adds bytes from the socket; [`next`](Self::next) returns the messages in them.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.pending.drain(..self.start);
        self.start = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// The next complete message, or `None` until more bytes are fed. After an error the reader
    /// must not be used again.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not report an error once")]
    pub fn next(&mut self) -> Result<Option<Incoming>, FrameError> {
        loop {
            let Some(header) = self.header()? else {
                self.free_buffer();
                return Ok(None);
            };
            let frame_length = header.size + header.length;
            if self.pending.len() - self.start < frame_length {
                return Ok(None);
            }
            let payload = self.start + header.size..self.start + frame_length;
            self.start += frame_length;
            unmask(&mut self.pending[payload.clone()], header.mask);
            if let Some(incoming) = self.accept(&header, payload)? {
                return Ok(Some(incoming));
            }
        }
    }

    /// Bytes of incomplete messages.
    pub fn buffered(&self) -> usize {
        self.pending.len() - self.start + self.partial.as_ref().map_or(0, |p| p.payload.len())
    }

    /// Frees the buffer once it is empty.
    fn free_buffer(&mut self) {
        if self.start == self.pending.len() {
            self.pending = Vec::new();
            self.start = 0;
        }
    }

    /// The header at the front, if it is complete. A frame that can be rejected by its header alone
    /// is rejected here, before any payload is awaited or stored.
    fn header(&self) -> Result<Option<Header>, FrameError> {
        let bytes = &self.pending[self.start..];
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(FrameError::Framing("reserved bit is set"));
        }
        let opcode =
            Opcode::from_bits(first & 0x0f).ok_or(FrameError::Framing("unknown opcode"))?;
        let is_final = first & 0x80 != 0;
        if second & 0x80 == 0 {
            return Err(FrameError::Framing("frame is not masked"));
        }
        let (length, length_size) = match (second & 0x7f, rest) {
            (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 2),
            (127, [a, b, c, d, e, f, g, h, ..]) => {
                (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 8)
            }
            (126 | 127, _) => return Ok(None),
            (length, _) => (u64::from(length), 0),
        };
        if opcode.is_control() && (length > 125 || !is_final) {
            return Err(FrameError::Framing("control frame is fragmented or over 125 bytes"));
        }
        if length >> 63 != 0 {
            return Err(FrameError::Framing("length has its highest bit set"));
        }
        let so_far = self.partial.as_ref().map_or(0, |partial| partial.payload.len()) as u64;
        if !opcode.is_control() && so_far.saturating_add(length) > self.limits.message_bytes as u64
        {
            return Err(FrameError::TooLarge);
        }
        let Some(&[a, b, c, d]) = rest.get(length_size..length_size + 4) else { return Ok(None) };
        let size = 2 + length_size + 4;
        Ok(Some(Header { is_final, opcode, mask: [a, b, c, d], length: length as usize, size }))
    }

    /// Accepts one complete frame whose unmasked payload is in `pending`.
    fn accept(
        &mut self,
        header: &Header,
        payload: std::ops::Range<usize>,
    ) -> Result<Option<Incoming>, FrameError> {
        let payload = &self.pending[payload];
        match (header.opcode, &mut self.partial) {
            (Opcode::Ping, _) => Ok(Some(Incoming::Ping(Bytes::copy_from_slice(payload)))),
            (Opcode::Pong, _) => Ok(Some(Incoming::Pong)),
            (Opcode::Close, _) => close(payload).map(Some),
            (Opcode::Continuation, None) => Err(FrameError::Framing("nothing to continue")),
            (Opcode::Continuation, Some(partial)) => {
                partial.fragments += 1;
                if partial.fragments > self.limits.fragments {
                    return Err(FrameError::Framing("too many fragments"));
                }
                partial.payload.extend_from_slice(payload);
                if !header.is_final {
                    return Ok(None);
                }
                let whole = self.partial.take().expect("it was matched above");
                message(whole.opcode, whole.payload).map(Some)
            }
            (Opcode::Text | Opcode::Binary, Some(_)) => {
                Err(FrameError::Framing("a message began inside another"))
            }
            (opcode, None) if header.is_final => message(opcode, payload.to_vec()).map(Some),
            (opcode, None) => {
                let partial = Partial { opcode, payload: payload.to_vec(), fragments: 1 };
                self.partial = Some(Box::new(partial));
                Ok(None)
            }
        }
    }
}

fn message(opcode: Opcode, payload: Vec<u8>) -> Result<Incoming, FrameError> {
    match opcode {
        Opcode::Text => {
            String::from_utf8(payload).map(Incoming::Text).map_err(|_| FrameError::Utf8)
        }
        _ => Ok(Incoming::Binary(payload.into())),
    }
}

fn close(payload: &[u8]) -> Result<Incoming, FrameError> {
    let [first, second, reason @ ..] = payload else {
        return if payload.is_empty() {
            Ok(Incoming::Close(None))
        } else {
            Err(FrameError::Framing("close code is truncated"))
        };
    };
    let code = u16::from_be_bytes([*first, *second]);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(FrameError::Framing("close code is not allowed"));
    }
    if std::str::from_utf8(reason).is_err() {
        return Err(FrameError::Utf8);
    }
    Ok(Incoming::Close(Some(code)))
}

/// Eight bytes at a time: the mask repeats every four.
fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut chunks = payload.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let word = u64::from_ne_bytes(chunk.try_into().expect("a chunk has eight bytes"));
        chunk.copy_from_slice(&(word ^ wide).to_ne_bytes());
    }
    for (byte, mask) in chunks.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests;
