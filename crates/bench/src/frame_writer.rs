//! The writing half of a connection: frames are written whole and in order, without blocking.

use std::sync::{Mutex, PoisonError};

use tokio::net::tcp::OwnedWriteHalf;

/// The mask of all frames that the bench sends.
pub(super) const MASK: [u8; 4] = [0x5a, 0xc3, 0x17, 0x8e];
/// The longest payload of a control frame.
const CONTROL_BYTES_MAX: usize = 125;
/// The opcode of a text frame.
pub(super) const TEXT: u8 = 0x01;
/// The opcode of a pong.
pub(super) const PONG: u8 = 0x0a;

/// The writing half of a connection.
#[derive(Debug)]
pub(super) struct FrameWriter {
    stream: OwnedWriteHalf,
    /// Bytes that the socket has not accepted yet.
    pending: Mutex<Vec<u8>>,
}

impl FrameWriter {
    /// A writer without pending bytes.
    pub(super) fn new(stream: OwnedWriteHalf) -> Self {
        Self { stream, pending: Mutex::default() }
    }

    /// Appends the frames that `compose` writes to the pending bytes and writes as many bytes as
    /// the socket accepts. The rest is written by the next call. The reader of the connection
    /// notices if the connection is broken. Returns whether nothing is pending.
    pub(super) fn write(&self, compose: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        compose(&mut pending);
        while !pending.is_empty()
            && let Ok(written) = self.stream.try_write(&pending)
        {
            pending.drain(..written);
        }
        pending.is_empty()
    }
}

/// A masked frame with a short payload.
pub(super) fn masked_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    let mut frame = vec![0x80 | opcode, 0x80 | payload.len() as u8];
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}
