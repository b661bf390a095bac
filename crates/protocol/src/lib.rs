//! The wire format: frames, codes, ids and limits.
//!
//! This crate has only types and their encoding: no IO, no runtime, no clock. All other crates use
//! its types; the TypeScript types and the reference page are generated from its source.

pub mod client_frame;
pub mod close;
pub mod codec;
pub mod rest;
pub mod error_code;
pub mod graphql;
pub mod ids;
pub mod limits;
pub mod server_frame;
pub mod timestamp;

mod envelope;
mod fields;

pub use client_frame::{ClientFrame, Token};
pub use close::{CloseReason, Reconnect};
pub use codec::{DecodeError, Decoded, decode_client, decode_server, encode_client, encode_server};
pub use error_code::{ErrorCode, retry_after_seconds};
pub use ids::{
    ChatId, ClientMessageId, ConnectionId, DeviceId, InvalidId, MessageId, NodeId, RequestId,
    UserId,
};
pub use server_frame::{ErrorFrame, Outcome, ServerFrame};
pub use timestamp::Timestamp;

/// The WebSocket subprotocol that a client asks for and the server answers with.
pub const SUBPROTOCOL: &str = "heartline.v1";

/// The version that `connection_established` announces.
pub const PROTOCOL_VERSION: u32 = 1;

/// The content type of a message whose sender gives none.
pub const DEFAULT_CONTENT_TYPE: &str = "text/plain";
