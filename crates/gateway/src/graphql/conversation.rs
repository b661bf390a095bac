//! `graphql-transport-ws` as a pure state machine: the allowed messages of a client, and the
//! replies.
//!
//! The close codes and their texts are those of the reference implementation, because clients
//! decide by them whether to reconnect.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use heartline_protocol::{CloseReason, ErrorCode};
use heartline_runtime::Set;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::deadlines::{Deadlines, Due};
use super::{GraphQlConfig, GraphQlRequest, Reply};
use crate::websocket::FrameError;

/// The content of the Close frame at the end of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphQlClose {
    /// The close code.
    pub code: u16,
    /// The text of the Close frame.
    pub sentence: String,
    /// The reason under which the close is counted.
    pub reason: CloseReason,
}

/// A client that offered no subprotocol of the server.
const SUBPROTOCOL_NOT_ACCEPTABLE: u16 = 4406;

/// The id of a pending operation was used again.
const SUBSCRIBER_EXISTS: u16 = 4409;

/// A second `connection_init`.
const TOO_MANY_INITIALISATIONS: u16 = 4429;

impl GraphQlClose {
    /// The close for a reason of the server.
    pub fn of(reason: CloseReason) -> Self {
        let code = reason.graphql_code().unwrap_or(1013);
        let sentence = match reason {
            CloseReason::AuthTimeout => "Connection initialisation timeout",
            reason => reason.as_str(),
        };
        Self { code, sentence: sentence.to_owned(), reason }
    }

    fn violation(code: u16, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into(), reason: CloseReason::ProtocolError }
    }

    /// The close for a client that offered no supported subprotocol.
    pub fn not_acceptable() -> Self {
        Self::violation(SUBPROTOCOL_NOT_ACCEPTABLE, "Subprotocol not acceptable")
    }
}

impl From<FrameError> for GraphQlClose {
    fn from(error: FrameError) -> Self {
        Self::violation(error.close_code(), error.to_string())
    }
}

/// An effect that the connection performs.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Send this message ahead of all results.
    Send(String),
    /// Send a Ping.
    Ping,
    /// Verify this token, or check that none is needed, and return
    /// [`initialised`](Conversation::initialised).
    Initialise(Option<String>),
    /// Run an operation, and return [`replied`](Conversation::replied) and
    /// [`ended`](Conversation::ended).
    Start {
        /// The client's id for the operation.
        id: String,
        /// The request to run.
        request: Box<GraphQlRequest>,
    },
    /// Stop an operation.
    Stop {
        /// The id of the operation.
        id: String,
    },
    /// Close the connection.
    Close(GraphQlClose),
}

/// The stage of a conversation.
#[derive(Debug)]
pub struct Conversation {
    stage: Stage,
    operations: Set<String>,
    operations_max: usize,
    deadlines: Deadlines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Initialising,
    Ready,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Message {
    ConnectionInit {
        #[serde(default)]
        payload: Option<Map<String, Value>>,
    },
    Ping {
        #[serde(default)]
        payload: Option<Value>,
    },
    Pong {},
    Subscribe {
        id: String,
        payload: Map<String, Value>,
    },
    Complete {
        id: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscribePayload {
    query: String,
    #[serde(default)]
    operation_name: Option<String>,
    #[serde(default)]
    variables: Option<Map<String, Value>>,
}

impl fmt::Debug for Message {
    /// Hides the content, which may be a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ConnectionInit { .. } => "connection_init",
            Self::Ping { .. } => "ping",
            Self::Pong {} => "pong",
            Self::Subscribe { .. } => "subscribe",
            Self::Complete { .. } => "complete",
        })
    }
}

impl Conversation {
    /// The conversation of a socket that was opened now and may stay open this long.
    pub fn new(config: GraphQlConfig, lifetime: Duration, now: Instant) -> Self {
        Self {
            stage: Stage::New,
            operations: Set::default(),
            operations_max: config.operations,
            deadlines: Deadlines::new(config, lifetime, now),
        }
    }

    /// Records that the client sent bytes.
    pub fn record_activity(&mut self, now: Instant) {
        self.deadlines.record_activity(now);
    }

    /// Records a write: whether the socket is blocked, and how many bytes are still pending.
    pub fn written(&mut self, is_blocked: bool, waiting: usize, now: Instant) {
        self.deadlines.written(is_blocked, waiting, now);
    }

    /// The next instant at which [`tick`](Self::tick) may return an effect.
    pub fn deadline(&self) -> Instant {
        self.deadlines.next()
    }

    /// Checks the deadlines.
    pub fn tick(&mut self, now: Instant) -> Option<Effect> {
        Some(match self.deadlines.due(now)? {
            Due::Ping => Effect::Ping,
            Due::Close(reason) => Effect::Close(GraphQlClose::of(reason)),
        })
    }

    /// Handles a text message.
    pub fn text(&mut self, text: &str) -> Option<Effect> {
        match serde_json::from_str(text) {
            Ok(message) => self.message(message),
            Err(_) => Some(Effect::Close(invalid())),
        }
    }

    /// Handles a binary message.
    pub fn binary(&self) -> Effect {
        Effect::Close(invalid())
    }

    fn message(&mut self, message: Message) -> Option<Effect> {
        match message {
            Message::ConnectionInit { .. } if self.stage != Stage::New => {
                let sentence = "Too many initialisation requests";
                Some(Effect::Close(GraphQlClose::violation(TOO_MANY_INITIALISATIONS, sentence)))
            }
            Message::ConnectionInit { payload } => {
                self.stage = Stage::Initialising;
                self.deadlines.init_received();
                // All other parameters are ignored. Without a session clients send null or nothing,
                // some an empty text.
                let token = payload.as_ref().and_then(|payload| payload.get("authToken")?.as_str());
                let token = token.filter(|token| !token.is_empty());
                Some(Effect::Initialise(token.map(str::to_owned)))
            }
            Message::Ping { payload } => {
                let mut pong = json!({ "type": "pong" });
                if let Some(payload) = payload {
                    pong["payload"] = payload;
                }
                Some(Effect::Send(pong.to_string()))
            }
            Message::Pong {} => None,
            Message::Subscribe { id, payload } => Some(self.subscribe(id, payload)),
            Message::Complete { id } => self.operations.remove(&id).then_some(Effect::Stop { id }),
        }
    }

    /// Stop 2 of the life of a party edit: understood. An operation begins, or is refused.
    fn subscribe(&mut self, id: String, payload: Map<String, Value>) -> Effect {
        if self.stage != Stage::Ready {
            let sentence = "Unauthorized".to_owned();
            return Effect::Close(GraphQlClose {
                sentence,
                ..GraphQlClose::of(CloseReason::Unauthorized)
            });
        }
        let Ok(payload) = serde_json::from_value(Value::Object(payload)) else {
            return Effect::Close(invalid());
        };
        if id.is_empty() {
            return Effect::Close(invalid());
        }
        if self.operations.contains(&id) {
            let sentence = format!("Subscriber for {id} already exists");
            return Effect::Close(GraphQlClose::violation(SUBSCRIBER_EXISTS, sentence));
        }
        if self.operations.len() >= self.operations_max {
            let message = "Too many operations are pending on this connection";
            let code = ErrorCode::ServerBusy.as_str();
            let error = json!({ "message": message, "extensions": { "code": code } });
            return Effect::Send(
                json!({ "type": "error", "id": id, "payload": [error] }).to_string(),
            );
        }
        tracing::trace!(target: "heartline::life", party_stop = 2, "understood");
        self.operations.insert(id.clone());
        let SubscribePayload { query, operation_name, variables } = payload;
        let variables = variables.map_or(Value::Null, Value::Object);
        let request = GraphQlRequest { query, operation_name, variables };
        Effect::Start { id, request: Box::new(request) }
    }

    /// Records that the token was accepted, with its expiry.
    pub fn initialised(&mut self, expires_at: Option<Instant>) -> Effect {
        self.stage = Stage::Ready;
        self.deadlines.token_expires(expires_at);
        Effect::Send(r#"{"type":"connection_ack"}"#.to_owned())
    }

    /// The message for a reply of an operation; none if the client has completed it meanwhile.
    pub fn replied(&mut self, id: &str, reply: &Reply) -> Option<String> {
        let (kind, payload) = match reply {
            Reply::Next(payload) if self.operations.contains(id) => ("next", payload),
            Reply::Error(payload) if self.operations.remove(id) => ("error", payload),
            Reply::Next(_) | Reply::Error(_) => return None,
        };
        Some(message(kind, id, Some(payload)))
    }

    /// The message for the end of an operation; none if the client has completed it.
    pub fn ended(&mut self, id: &str) -> Option<String> {
        self.operations.remove(id).then(|| message("complete", id, None))
    }
}

fn invalid() -> GraphQlClose {
    let sentence = "Invalid message received".to_owned();
    GraphQlClose { sentence, ..GraphQlClose::of(CloseReason::ProtocolError) }
}

/// A message around a payload that is already JSON.
fn message(kind: &str, id: &str, payload: Option<&Bytes>) -> String {
    let id = Value::from(id).to_string();
    let payload = payload.map(|payload| String::from_utf8_lossy(payload));
    match payload {
        Some(payload) => format!(r#"{{"type":"{kind}","id":{id},"payload":{payload}}}"#),
        None => format!(r#"{{"type":"{kind}","id":{id}}}"#),
    }
}

#[cfg(test)]
mod tests;
