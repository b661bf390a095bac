//! The inputs and effects of a session.

use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::client_frame::{
    Ack, PresenceUsers, SendMessage, SyncManifestRequest, SyncRequest, Typing,
};
use heartline_protocol::{CloseReason, DeviceId, RequestId, ServerFrame, Timestamp, Token, UserId};
use tokio::time::Instant;

use crate::websocket::FrameError;
use heartline_auth::{AuthError, Claims};

/// The time on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// For durations and deadlines.
    pub now: Instant,
    /// For timestamps on the wire and the expiry of tokens.
    pub wall: Timestamp,
}

/// An input of a session.
#[derive(Debug)]
pub enum Input {
    /// The client sent a text message.
    Text(String),
    /// The client sent a binary message.
    Binary,
    /// The client sent a Ping.
    Ping(Bytes),
    /// The client sent a Pong.
    Pong,
    /// The client broke the WebSocket protocol.
    Violation(FrameError),
    /// The result of [`Effect::Verify`].
    Verified(Result<Claims, AuthError>),
    /// The result of [`Effect::Admit`].
    Admitted(Result<Admitted, CloseReason>),
    /// The response to an [`Effect::Request`].
    Answered(Response),
    /// A deadline may have passed. `late` is the delay of the tick: a long one means that the
    /// process itself was paused.
    Tick {
        /// The delay of the tick.
        late: Duration,
        /// Whether reading is paused because the client does not read its responses. Its silence is
        /// then caused by the server, and the client is a slow consumer.
        is_paused: bool,
    },
    /// The server closes the connection.
    Stop(CloseReason),
}

/// A request whose response is awaited.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Store a message.
    Send(SendMessage),
    /// Read a page of a chat.
    Sync(SyncRequest),
    /// Read a page of the user's chats.
    Manifest(SyncManifestRequest),
    /// Subscribe to the presence of users.
    Subscribe(PresenceUsers),
    /// Unsubscribe from the presence of users.
    Unsubscribe(PresenceUsers),
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// A short frame for the urgent lane.
    Reply(ServerFrame),
    /// A page for the data lane.
    Page(ServerFrame),
    /// The frame is queued already.
    AlreadyQueued,
}

/// A connection that holds its lease.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The user of the token.
    pub user_id: UserId,
    /// The device of the connection.
    pub device_id: DeviceId,
    /// When the token ends.
    pub expires_at: Timestamp,
}

/// An effect that the connection performs.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Send a frame in the urgent lane.
    Send(ServerFrame),
    /// Send a Ping.
    Ping,
    /// Send a Pong with this payload.
    Pong(Bytes),
    /// Verify a token and return [`Input::Verified`].
    Verify(Token),
    /// Register and list the connection, and return [`Input::Admitted`].
    Admit {
        /// The token's content.
        claims: Claims,
        /// The device that the client named.
        device_id: Option<DeviceId>,
    },
    /// Send a frame in the data lane.
    SendPage(ServerFrame),
    /// Start a request and return [`Input::Answered`], exactly once.
    Request(Request),
    /// Record the user's watermark of a chat.
    Acknowledge(Ack),
    /// Send a typing indicator to the other members of a chat.
    Type(Typing),
    /// Increment a metric.
    Count(Counted),
    /// Close the connection.
    Close(Closing),
}

/// A metric of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// A frame of an unknown type without a request id.
    UnknownType,
    /// A frame that is no JSON object.
    BadFrame,
    /// A frame over its rate.
    RateLimited,
    /// A request was refused because the token had expired, or was not verified yet.
    Unauthorized,
    /// A request was refused because too many are pending.
    Busy,
}

/// The content of `connection_closing` and of the Close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// The closing reason.
    pub reason: CloseReason,
    /// The WebSocket close code.
    pub code: u16,
    /// The delay after which the client may reconnect.
    pub reconnect_delay: Duration,
}

impl Request {
    /// The id that the response carries.
    pub fn into_id(self) -> RequestId {
        match self {
            Self::Send(frame) => frame.request_id,
            Self::Sync(frame) => frame.request_id,
            Self::Manifest(frame) => frame.request_id,
            Self::Subscribe(frame) | Self::Unsubscribe(frame) => frame.request_id,
        }
    }
}
