//! Formats lines for the terminal, without state: here frames and the connection, in `message`
//! messages and chats, in `presence` the presence of users.

mod notice;
pub(super) mod presence;
pub(super) mod message;

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use heartline_client::{Ending, Loss};
use heartline_protocol::server_frame::ConnectionEstablished;
use heartline_protocol::{ServerFrame, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

const RED: &str = "\u{1b}[31m";
const CYAN: &str = "\u{1b}[36m";
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "";
const RESET: &str = "\u{1b}[0m";

/// The format of lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) with_colours: bool,
}

impl View {
    /// A frame from the server as received.
    pub(super) fn received(self, at: Timestamp, frame: &ServerFrame, text: &str) -> String {
        self.line(&to_milliseconds(at), colour(frame), "<-", &frame_line(text))
    }

    /// The `connection_established` frame, which the client returns without its text.
    pub(super) fn established(self, at: Timestamp, frame: &ConnectionEstablished) -> String {
        let frame = ServerFrame::ConnectionEstablished(Box::new(frame.clone()));
        let text = serde_json::to_string(&frame).unwrap_or_default();
        self.received(at, &frame, &text)
    }

    /// A frame of the client. A token in it is replaced.
    pub(super) fn sent(self, at: Timestamp, text: &str) -> String {
        self.line(&to_milliseconds(at), DIM, "->", &frame_line(&without_token(text)))
    }

    /// A sentence about the connection or a chat.
    pub(super) fn info(self, at: Timestamp, sentence: &str) -> String {
        self.line(&to_seconds(at), PLAIN, "--", &printable(sentence))
    }

    /// A sentence about an error.
    pub(super) fn error(self, at: Timestamp, sentence: &str) -> String {
        self.line(&to_seconds(at), RED, "--", &printable(sentence))
    }

    /// An attempt to connect begins.
    pub(super) fn connecting(self, at: Timestamp, url: &str, attempt: u32) -> String {
        let attempt = if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
        self.info(at, &format!("connecting to {url}{attempt}"))
    }

    /// The connection is established.
    pub(super) fn connected(self, at: Timestamp, frame: &ConnectionEstablished) -> String {
        let ConnectionEstablished { user_id, device_id, connection_id, .. } = frame;
        let mut sentence =
            format!("connected as {user_id} on device {device_id} ({connection_id})");
        if let Some(parts) = frame.degraded.as_ref().filter(|parts| !parts.is_empty()) {
            let _ = write!(sentence, "; not working at the moment: {}", parts.join(", "));
        }
        self.info(at, &sentence)
    }

    /// An attempt or a connection ended.
    pub(super) fn disconnected(
        self,
        at: Timestamp,
        ending: &Ending,
        retry_in: Option<Duration>,
    ) -> String {
        let mut sentence = format!("disconnected: {}", describe(ending));
        match retry_in {
            Some(Duration::ZERO) => sentence.push_str("; reconnecting at once"),
            Some(delay) => {
                let _ = write!(sentence, "; reconnecting in {:.1} s", delay.as_secs_f64());
            }
            None => {}
        }
        self.error(at, &sentence)
    }

    fn line(self, time: &str, colour: &str, arrow: &str, rest: &str) -> String {
        if self.with_colours && colour != PLAIN {
            format!("{DIM}{time}{RESET} {colour}{arrow} {rest}{RESET}\n")
        } else if self.with_colours {
            format!("{DIM}{time}{RESET} {arrow} {rest}\n")
        } else {
            format!("{time} {arrow} {rest}\n")
        }
    }
}

/// The time of day with milliseconds.
fn to_milliseconds(at: Timestamp) -> String {
    // The form of a timestamp is fixed: the date comes first and a letter last.
    at.to_string().get(11..23).unwrap_or_default().to_owned()
}

/// The time of day with seconds.
fn to_seconds(at: Timestamp) -> String {
    at.to_string().get(11..19).unwrap_or_default().to_owned()
}

fn colour(frame: &ServerFrame) -> &'static str {
    match frame {
        ServerFrame::Error(_)
        | ServerFrame::ConnectionClosing(_)
        | ServerFrame::TokenExpired { .. } => RED,
        ServerFrame::Message(_)
        | ServerFrame::ChatChanged { .. }
        | ServerFrame::PresenceChanged(_)
        | ServerFrame::TypingIndicator { .. }
        | ServerFrame::Event { .. }
        | ServerFrame::ResyncRequired { .. } => CYAN,
        ServerFrame::AuthChallenge { .. }
        | ServerFrame::ConnectionEstablished(_)
        | ServerFrame::HeartbeatAck { .. }
        | ServerFrame::MessageAck(_)
        | ServerFrame::SyncResponse { .. }
        | ServerFrame::SyncManifest { .. }
        | ServerFrame::PresenceSnapshot { .. }
        | ServerFrame::TokenRefreshed { .. }
        | ServerFrame::Unknown => PLAIN,
    }
}

/// The type of a frame and the frame itself.
fn frame_line(text: &str) -> String {
    let kind = kind(text);
    let kind = kind.as_deref().unwrap_or("?");
    format!("{} {}", printable(kind), printable(text))
}

/// The `type` of a text, if it is a frame.
pub(super) fn kind(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_str::<Typed>(text).ok().map(|typed| typed.kind)
}

/// A frame with its token replaced. A text that is not an object is unchanged.
fn without_token(text: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(mut frame) if frame.contains_key("token") => {
            frame.insert("token".to_owned(), "…".into());
            Value::from(frame).to_string().into()
        }
        _ => text.into(),
    }
}

/// A text on one line, with all characters escaped that control a terminal.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => shown.push(' '),
            _ if is_unsafe(character) => {
                let _ = write!(shown, "\\u{:04x}", u32::from(character));
            }
            _ => shown.push(character),
        }
    }
    shown.into()
}

/// Whether a character is a control character or a line end, or changes the direction of text.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2066}'..='\u{2069}')
}

fn describe(ending: &Ending) -> String {
    match ending {
        Ending::Rejected(rejection) => {
            let why = rejection.message.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("the server rejected the connection with HTTP {}{why}", rejection.status)
        }
        Ending::Closed { closing: Some(closing), code } => {
            let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
            format!("the server closed the connection: {}{code}", closing.reason.as_str())
        }
        Ending::Closed { closing: None, code: Some(code) } => {
            format!("the server closed the connection with code {code}")
        }
        Ending::Closed { closing: None, code: None } => {
            "the server closed the connection".to_owned()
        }
        Ending::Lost(Loss::Unreachable(why)) => format!("the server cannot be reached: {why}"),
        Ending::Lost(Loss::NotEstablished) => {
            "the server did not establish the connection in time".to_owned()
        }
        Ending::Lost(Loss::HeartbeatTimeout) => {
            "the server did not answer a heartbeat in time".to_owned()
        }
        Ending::Lost(Loss::Broken(why)) => format!("the connection broke: {why}"),
        Ending::Lost(Loss::Dropped) => "you dropped the connection".to_owned(),
        Ending::NoToken(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
