//! Formats frames as sentences, for users who do not read frames.

use heartline_protocol::{ServerFrame, Timestamp};

use super::{CYAN, View, printable, to_seconds};

/// The prefix of the ids of the chat client's own requests.
const CLIENT_REQUESTS: &str = "heartline-client-";

impl View {
    /// A frame as a sentence; none for frames that are shown otherwise or concern only the client.
    pub(crate) fn notice(self, at: Timestamp, frame: &ServerFrame) -> Option<String> {
        match frame {
            ServerFrame::Event { name, data } => {
                let event = format!("event {name} {data}");
                Some(self.line(&to_seconds(at), CYAN, "--", &printable(&event)))
            }
            ServerFrame::TokenExpired { grace_period_seconds } => Some(self.error(
                at,
                &format!(
                    "the token has expired; a newer one is needed within {grace_period_seconds} s"
                ),
            )),
            ServerFrame::Error(error) => {
                let request = error.request_id.as_ref();
                let is_clients =
                    request.is_some_and(|request| request.as_str().starts_with(CLIENT_REQUESTS));
                // The rejection of a message is shown with the message.
                let is_shown = is_clients && !error.retryable;
                let sentence = format!("error {}: {}", error.code.as_str(), error.message);
                (!is_shown).then(|| self.error(at, &sentence))
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
