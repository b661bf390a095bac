//! The writing half of a connection: frames leave whole and in order, and nobody waits for it.

use std::sync::{Mutex, PoisonError};

use tokio::net::tcp::OwnedWriteHalf;

/// The mask of the frames that the bench sends.
pub(super) const MASK: [u8; 4] = [0x5a, 0xc3, 0x17, 0x8e];
/// The longest payload of a control frame.
const CONTROL_BYTES_MAX: usize = 125;
/// A text frame.
pub(super) const TEXT: u8 = 0x01;
/// The answer to a ping.
pub(super) const PONG: u8 = 0x0a;

/// The writing half of a connection.
#[derive(Debug)]
pub(super) struct Voice {
    writer: OwnedWriteHalf,
    /// What the socket did not take yet.
    waiting: Mutex<Vec<u8>>,
}

impl Voice {
    /// A voice that has said nothing.
    pub(super) fn new(writer: OwnedWriteHalf) -> Self {
        Self { writer, waiting: Mutex::default() }
    }

    /// Says what the function adds to the frames that wait. What the socket does not take now is
    /// tried again with the next words, at the latest when the server has answered something. A
    /// connection that is broken is noticed by its reader. Answers whether nothing waits.
    pub(super) fn say(&self, compose: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        compose(&mut waiting);
        while !waiting.is_empty()
            && let Ok(written) = self.writer.try_write(&waiting)
        {
            waiting.drain(..written);
        }
        waiting.is_empty()
    }
}

/// A whole masked frame with a short payload.
pub(super) fn masked_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    let mut frame = vec![0x80 | opcode, 0x80 | payload.len() as u8];
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}
