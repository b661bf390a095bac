//! What one connection knows, and what it owes the server: pure, without the socket.

use std::time::Duration;

use heartline_protocol::client_frame::{Authenticate, Heartbeat as HeartbeatFrame, RefreshToken};
use heartline_protocol::server_frame::{ConnectionClosing, ConnectionEstablished};
use heartline_protocol::{ClientFrame, ConnectionId, DeviceId, ServerFrame, Timestamp, Token};
use tokio::time::Instant;

use crate::event::{Ending, Loss};
use crate::heartbeat::Heartbeat;
use crate::refresh::Refresh;
use crate::token::{self, TokenNeed};

/// How long the Close frame may take after `connection_closing`: the server answers what is in
/// flight for 5 s and writes for 2 s.
const CLOSE_FRAME_TIMEOUT: Duration = Duration::from_secs(8);

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// The token in force on this connection.
    token: Token,
    device_id: Option<DeviceId>,
    /// The server's name for this connection, from `connection_established` on.
    connection_id: Option<ConnectionId>,
    /// When the connection must have been established, or, once the server is closing, ended.
    phase_ends_at: Instant,
    /// Present from `connection_established` on.
    heartbeat: Option<Heartbeat>,
    refresh: Refresh,
    /// What the server said before closing.
    closing: Option<ConnectionClosing>,
    /// The code of the server's Close frame.
    close_code: Option<u16>,
}

impl Session {
    /// A connection whose upgrade went well with this token.
    pub(crate) fn new(token: Token, device_id: Option<DeviceId>, establish_by: Instant) -> Self {
        Self {
            token,
            device_id,
            connection_id: None,
            phase_ends_at: establish_by,
            heartbeat: None,
            refresh: Refresh::default(),
            closing: None,
            close_code: None,
        }
    }

    /// The token in force.
    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// Whether a frame that makes sense only on that connection, or on any, may be sent on this.
    pub(crate) fn takes(&self, only_on: Option<ConnectionId>) -> bool {
        only_on.is_none() || only_on == self.connection_id
    }

    /// Whether the application's frames may be sent: not before the connection is established,
    /// and not once the server no longer reads.
    pub(crate) fn is_open(&self) -> bool {
        self.heartbeat.is_some() && self.closing.is_none()
    }

    /// Something came from the server, be it only a pong.
    pub(crate) fn heard(&mut self) {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.heard();
        }
    }

    /// The socket is read again after the application was busy.
    pub(crate) fn resumed(&mut self, now: Instant) {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.resumed(now);
        }
    }

    /// A frame came. The result is the answer that the client itself owes to it.
    pub(crate) fn on_frame(
        &mut self,
        frame: &ServerFrame,
        now: Instant,
        wall: Timestamp,
    ) -> Option<ClientFrame> {
        match frame {
            ServerFrame::AuthChallenge { .. } => {
                let (token, device_id) = (self.token.clone(), self.device_id.clone());
                return Some(ClientFrame::Authenticate(Authenticate { token, device_id }));
            }
            ServerFrame::ConnectionEstablished(established) => {
                self.established(established, now, wall);
            }
            ServerFrame::TokenExpired { .. } => self.refresh.expired(now),
            ServerFrame::TokenRefreshed { request_id, expires_at } => {
                if let Some(token) = self.refresh.accepted(request_id) {
                    self.token = token;
                }
                self.refresh.in_force(Some(*expires_at), now, wall);
            }
            ServerFrame::Error(error) => {
                if let Some(request_id) = &error.request_id {
                    self.refresh.refused(request_id, now, wall);
                }
            }
            ServerFrame::ConnectionClosing(closing) => {
                self.closing = Some(closing.clone());
                self.phase_ends_at = now + CLOSE_FRAME_TIMEOUT;
            }
            ServerFrame::HeartbeatAck { .. }
            | ServerFrame::MessageAck(_)
            | ServerFrame::Message(_)
            | ServerFrame::SyncResponse { .. }
            | ServerFrame::SyncManifest { .. }
            | ServerFrame::ChatChanged { .. }
            | ServerFrame::PresenceSnapshot { .. }
            | ServerFrame::PresenceChanged(_)
            | ServerFrame::TypingIndicator { .. }
            | ServerFrame::Event { .. }
            | ServerFrame::ResyncRequired { .. }
            | ServerFrame::Unknown => {}
        }
        None
    }

    fn established(&mut self, frame: &ConnectionEstablished, now: Instant, wall: Timestamp) {
        let interval = Duration::from_millis(frame.heartbeat_interval_ms);
        let timeout = Duration::from_millis(frame.heartbeat_timeout_ms);
        self.connection_id = Some(frame.connection_id);
        self.heartbeat = Some(Heartbeat::new(interval, timeout, now));
        self.refresh.in_force(token::expiry_of(&self.token), now, wall);
    }

    /// The server's Close frame came.
    pub(crate) fn on_close(&mut self, code: Option<u16>) {
        self.close_code = code;
    }

    /// When a heartbeat is due.
    pub(crate) fn heartbeat_at(&self) -> Option<Instant> {
        self.heartbeat.as_ref().filter(|_| self.closing.is_none()).map(Heartbeat::next_at)
    }

    /// The heartbeat that is due now.
    pub(crate) fn heartbeat(&mut self, now: Instant) -> ClientFrame {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.sent(now);
        }
        ClientFrame::Heartbeat(HeartbeatFrame {})
    }

    /// When the provider is to be asked for a newer token.
    pub(crate) fn refresh_at(&self) -> Option<Instant> {
        self.refresh.due_at().filter(|_| self.is_open())
    }

    /// The provider is being asked, for this.
    pub(crate) fn begin_refresh(&mut self) -> TokenNeed {
        self.refresh.begin()
    }

    /// The provider's answer. The result is the frame that offers it to the server, if it is new.
    pub(crate) fn on_token(
        &mut self,
        token: Token,
        now: Instant,
        wall: Timestamp,
    ) -> Option<ClientFrame> {
        if token == self.token || !token::is_legal(&token) {
            self.refresh.not_yet(now, wall);
            return None;
        }
        let request_id = self.refresh.offer(token.clone());
        Some(ClientFrame::RefreshToken(RefreshToken { request_id, token }))
    }

    /// The provider has no token at the moment; one that will never have another is not asked
    /// again.
    pub(crate) fn on_no_token(&mut self, now: Instant, wall: Timestamp) {
        self.refresh.not_yet(now, wall);
    }

    /// When the client gives this connection up, if nothing comes before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.heartbeat {
            Some(heartbeat) if self.closing.is_none() => heartbeat.dead_at(),
            _ => Some(self.phase_ends_at),
        }
    }

    /// How the connection ended, given what was the matter when it did. What the server said
    /// explains more than how the socket broke.
    pub(crate) fn ending(self, loss: Loss) -> Ending {
        if self.closing.is_none() && self.close_code.is_none() {
            return Ending::Lost(loss);
        }
        Ending::Closed { closing: self.closing, code: self.close_code }
    }

    /// What the matter is when the deadline has passed.
    pub(crate) fn overdue(&self) -> Loss {
        match self.heartbeat {
            Some(_) => Loss::HeartbeatTimeout,
            None => Loss::NotEstablished,
        }
    }
}

#[cfg(test)]
mod tests {
    use heartline_protocol::CloseReason;

    use super::*;
    use crate::clock;

    const WALL: Timestamp = Timestamp { unix_ms: 1_700_000_000_000 };

    fn session(now: Instant) -> Session {
        Session::new(Token("t".to_owned()), None, now + Duration::from_secs(15))
    }

    fn closing(reason: CloseReason) -> ConnectionClosing {
        ConnectionClosing {
            reason,
            reconnect_allowed: true,
            reconnect_delay_ms: 10,
            sync_hints: None,
        }
    }

    #[test]
    fn before_it_is_established_only_that_deadline_counts() {
        let now = clock::now();
        let session = session(now);
        assert!(!session.is_open());
        assert_eq!((session.heartbeat_at(), session.refresh_at()), (None, None));
        assert_eq!(session.deadline(), Some(now + Duration::from_secs(15)));
        assert_eq!(session.overdue(), Loss::NotEstablished);
    }

    #[test]
    fn a_frame_meant_for_an_earlier_connection_is_not_for_this_one() {
        let now = clock::now();
        let mut session = session(now);
        let connection_id = |number| ConnectionId { ulid: ulid::Ulid(number), shard: 0 };
        let established = ConnectionEstablished {
            connection_id: connection_id(2),
            user_id: "ana".parse().unwrap(),
            device_id: "phone".parse().unwrap(),
            server_id: "node-1".parse().unwrap(),
            heartbeat_interval_ms: 5_000,
            heartbeat_timeout_ms: 10_000,
            protocol_version: heartline_protocol::PROTOCOL_VERSION,
            limits: Default::default(),
            degraded: None,
        };
        session.on_frame(&ServerFrame::ConnectionEstablished(Box::new(established)), now, WALL);
        assert!(session.takes(None) && session.takes(Some(connection_id(2))));
        assert!(!session.takes(Some(connection_id(1))));
    }

    #[test]
    fn what_the_server_said_explains_an_end_without_a_close_frame() {
        let now = clock::now();
        let mut session = session(now);
        let said = closing(CloseReason::Overloaded);
        session.on_frame(&ServerFrame::ConnectionClosing(said.clone()), now, WALL);
        assert_eq!(session.deadline(), Some(now + CLOSE_FRAME_TIMEOUT));
        let ending = session.ending(Loss::Broken("reset".to_owned()));
        assert_eq!(ending, Ending::Closed { closing: Some(said), code: None });
    }

    #[test]
    fn an_end_without_any_word_is_a_loss() {
        let ending = session(clock::now()).ending(Loss::HeartbeatTimeout);
        assert_eq!(ending, Ending::Lost(Loss::HeartbeatTimeout));
    }
}
