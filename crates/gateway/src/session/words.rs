//! What a session hears and what it answers.

use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::client_frame::{
    Ack, PresenceUsers, SendMessage, SyncManifestRequest, SyncRequest, Typing,
};
use heartline_protocol::{CloseReason, DeviceId, RequestId, ServerFrame, Timestamp, Token, UserId};
use tokio::time::Instant;

use crate::auth::{AuthError, Claims};
use crate::websocket::FrameError;

/// When something happened, on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// For durations and deadlines.
    pub now: Instant,
    /// For what people and tokens see.
    pub wall: Timestamp,
}

/// What happened.
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
    /// The answer to [`Effect::Verify`].
    Verified(Result<Claims, AuthError>),
    /// The answer to [`Effect::Admit`].
    Admitted(Result<Admitted, CloseReason>),
    /// The answer to an [`Effect::Request`].
    Answered(Answer),
    /// A deadline may have passed. `late` is how much later than planned this is noticed: more
    /// than a moment means that the process itself stood still.
    Tick {
        /// How late.
        late: Duration,
        /// Whether reading rests because the client does not read its answers: its silence is
        /// then our own doing, and its slowness is not.
        is_paused: bool,
    },
    /// Somebody on the server's side ends the connection.
    Stop(CloseReason),
}

/// Something whose answer must be waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A message to be stored.
    Send(SendMessage),
    /// A page of a chat.
    Sync(SyncRequest),
    /// A page of the user's chats.
    Manifest(SyncManifestRequest),
    /// Users to watch.
    Subscribe(PresenceUsers),
    /// Users to watch no longer.
    Unsubscribe(PresenceUsers),
}

/// What a request was answered with.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A short answer, ahead of all data.
    Reply(ServerFrame),
    /// A page, which waits its turn among the data.
    Page(ServerFrame),
    /// Its frame is queued already, in its place among others.
    OnItsWay,
}

/// A connection that holds its lease.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// Whose.
    pub user_id: UserId,
    /// Which device.
    pub device_id: DeviceId,
    /// When the token ends.
    pub expires_at: Timestamp,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Send a frame in the urgent lane.
    Send(ServerFrame),
    /// Send a Ping.
    Ping,
    /// Answer a Ping.
    Pong(Bytes),
    /// Check a token and come back with [`Input::Verified`].
    Verify(Token),
    /// Register and list the connection, and come back with [`Input::Admitted`].
    Admit {
        /// The token's content.
        claims: Claims,
        /// The device that the client named.
        device_id: Option<DeviceId>,
    },
    /// Send a frame in the data lane.
    SendPage(ServerFrame),
    /// Have a request answered and come back with [`Input::Answered`], exactly once.
    Request(Request),
    /// Remember how far the user has acknowledged.
    Acknowledge(Ack),
    /// Tell the others of a chat that the user types.
    Type(Typing),
    /// Count something that has no frame of its own.
    Count(Counted),
    /// End the connection with these words.
    Close(Closing),
}

/// Something worth counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// A frame of an unknown type that asked for no answer.
    UnknownType,
    /// A frame that is no JSON object.
    BadFrame,
    /// A frame over its rate.
    RateLimited,
    /// A request was refused because the token had run out, or was not there yet.
    Unauthorized,
    /// A request was refused because too many wait.
    Busy,
}

/// The last words of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// Why.
    pub reason: CloseReason,
    /// The WebSocket close code.
    pub code: u16,
    /// When the client may come back.
    pub reconnect_delay: Duration,
}

impl Request {
    /// The id that its answer carries.
    pub fn into_id(self) -> RequestId {
        match self {
            Self::Send(frame) => frame.request_id,
            Self::Sync(frame) => frame.request_id,
            Self::Manifest(frame) => frame.request_id,
            Self::Subscribe(frame) | Self::Unsubscribe(frame) => frame.request_id,
        }
    }
}
