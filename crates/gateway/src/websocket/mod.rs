//! The server's side of RFC 6455, without IO.
//!
//! Written here rather than taken from a library because three promises must hold together: pongs
//! are bounded, an idle connection holds no read buffer, and frames that were encoded once are
//! written from shared bytes without interleaving with the codec's own.

mod handshake;
mod reader;
mod writer;

pub use handshake::{Upgrade, accept_key, bearer};
pub use reader::{FrameError, FrameReader, Incoming, ReaderLimits};
pub use writer::{binary_frame, close_frame, ping_frame, pong_frame, text_frame};

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0x0 => Some(Self::Continuation),
            0x1 => Some(Self::Text),
            0x2 => Some(Self::Binary),
            0x8 => Some(Self::Close),
            0x9 => Some(Self::Ping),
            0xa => Some(Self::Pong),
            _ => None,
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }

    fn is_control(self) -> bool {
        self.bits() & 0x8 != 0
    }
}
