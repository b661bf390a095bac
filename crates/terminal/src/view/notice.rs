//! Frames in words, for those who do not want to read frames.

use heartline_protocol::{ServerFrame, Timestamp};

use super::{CYAN, View, printable, to_seconds};

/// What the chat client begins the ids of its own requests with.
const CLIENT_REQUESTS: &str = "heartline-client-";

impl View {
    /// A frame in words; none for what is told otherwise or concerns only the client.
    pub(crate) fn notice(self, at: Timestamp, frame: &ServerFrame) -> Option<String> {
        match frame {
            ServerFrame::Event { name, data } => {
                let event = format!("event {name} {data}");
                Some(self.line(&to_seconds(at), CYAN, "--", &printable(&event)))
            }
            ServerFrame::TokenExpired { grace_period_seconds } => Some(self.trouble(
                at,
                &format!("the token has ended; a newer one is due in {grace_period_seconds} s"),
            )),
            ServerFrame::Error(error) => {
                let request = error.request_id.as_ref();
                let is_clients =
                    request.is_some_and(|request| request.as_str().starts_with(CLIENT_REQUESTS));
                // A definite refusal of a message is told with the message.
                let is_told = is_clients && !error.retryable;
                let sentence =
                    format!("the server says {}: {}", error.code.as_str(), error.message);
                (!is_told).then(|| self.trouble(at, &sentence))
            }
            ServerFrame::AuthChallenge { .. }
            | ServerFrame::ConnectionEstablished(_)
            | ServerFrame::HeartbeatAck { .. }
            | ServerFrame::MessageAck(_)
            | ServerFrame::Message(_)
            | ServerFrame::SyncResponse { .. }
            | ServerFrame::SyncManifest { .. }
            | ServerFrame::ChatChanged { .. }
            | ServerFrame::PresenceSnapshot { .. }
            | ServerFrame::PresenceChanged(_)
            | ServerFrame::TypingIndicator { .. }
            | ServerFrame::ResyncRequired { .. }
            | ServerFrame::TokenRefreshed { .. }
            | ServerFrame::ConnectionClosing(_)
            | ServerFrame::Unknown => None,
        }
    }
}
