//! The protocol state of one connection, without IO.

use std::time::Duration;

use heartline_protocol::client_frame::{Authenticate, Heartbeat as HeartbeatFrame, RefreshToken};
use heartline_protocol::server_frame::{ConnectionClosing, ConnectionEstablished};
use heartline_protocol::{ClientFrame, ConnectionId, DeviceId, ServerFrame, Timestamp, Token};
use tokio::time::Instant;

use crate::event::{Ending, Loss};
use crate::heartbeat::Heartbeat;
use crate::refresh::Refresh;
use crate::token::{self, TokenNeed};

/// The time limit for the Close frame after `connection_closing`: the server completes pending
/// requests for 5 s and writes for 2 s.
const CLOSE_FRAME_TIMEOUT: Duration = Duration::from_secs(8);

/// The protocol state of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// The token that the server accepted last.
    token: Token,
    device_id: Option<DeviceId>,
    /// Present from `connection_established` on.
    connection_id: Option<ConnectionId>,
    /// The deadline for `connection_established` or, after `connection_closing`, for the Close
    /// frame.
    phase_ends_at: Instant,
    /// Present from `connection_established` on.
    heartbeat: Option<Heartbeat>,
    refresh: Refresh,
    /// The server's `connection_closing`.
    closing: Option<ConnectionClosing>,
    /// The code of the server's Close frame.
    close_code: Option<u16>,
}

impl ConnectionState {
    /// The state after an upgrade with this token.
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

    /// The token that the server accepted last.
    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// Whether a frame that is restricted to the connection `only_on`, or to none, may be sent
    /// here.
    pub(crate) fn accepts(&self, only_on: Option<ConnectionId>) -> bool {
        only_on.is_none() || only_on == self.connection_id
    }

    /// Whether the application's frames may be sent: only after `connection_established` and before
    /// `connection_closing`.
    pub(crate) fn is_open(&self) -> bool {
        self.heartbeat.is_some() && self.closing.is_none()
    }

    /// The server sent a message of any kind, including a Pong.
    pub(crate) fn received(&mut self) {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.received();
        }
    }

    /// The socket is read again after the event queue was full.
    pub(crate) fn reading_resumed(&mut self, now: Instant) {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.reading_resumed(now);
        }
    }

    /// The server sent a frame. Returns the client's own reply, if the frame requires one.
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
                self.refresh.set_expiry(Some(*expires_at), now, wall);
            }
            ServerFrame::Error(error) => {
                if let Some(request_id) = &error.request_id {
                    self.refresh.rejected(request_id, now, wall);
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
        self.refresh.set_expiry(token::expiry_of(&self.token), now, wall);
    }

    /// The server sent a Close frame.
    pub(crate) fn on_close(&mut self, code: Option<u16>) {
        self.close_code = code;
    }

    /// When the next heartbeat is due.
    pub(crate) fn heartbeat_at(&self) -> Option<Instant> {
        self.heartbeat.as_ref().filter(|_| self.closing.is_none()).map(Heartbeat::next_at)
    }

    /// The heartbeat to send now.
    pub(crate) fn heartbeat(&mut self, now: Instant) -> ClientFrame {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.sent(now);
        }
        ClientFrame::Heartbeat(HeartbeatFrame {})
    }

    /// When to request a newer token from the provider.
    pub(crate) fn refresh_at(&self) -> Option<Instant> {
        self.refresh.due_at().filter(|_| self.is_open())
    }

    /// A request to the provider begins; returns the reason to pass to it.
    pub(crate) fn begin_refresh(&mut self) -> TokenNeed {
        self.refresh.begin()
    }

    /// The provider returned a token. Returns the frame that offers it to the server, if it is new.
    pub(crate) fn on_token(
        &mut self,
        token: Token,
        now: Instant,
        wall: Timestamp,
    ) -> Option<ClientFrame> {
        if token == self.token || !token::is_valid_in_header(&token) {
            self.refresh.retry_later(now, wall);
            return None;
        }
        let request_id = self.refresh.offer(token.clone());
        Some(ClientFrame::RefreshToken(RefreshToken { request_id, token }))
    }

    /// The provider has no token at the moment. Not called if the provider will never have another
    /// one, so that it is not asked again.
    pub(crate) fn on_no_token(&mut self, now: Instant, wall: Timestamp) {
        self.refresh.retry_later(now, wall);
    }

    /// When the connection counts as lost unless the server sends something.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.heartbeat {
            Some(heartbeat) if self.closing.is_none() => heartbeat.timeout_at(),
            _ => Some(self.phase_ends_at),
        }
    }

    /// How the connection ended. A reason that the server sent takes precedence over `loss`.
    pub(crate) fn ending(self, loss: Loss) -> Ending {
        if self.closing.is_none() && self.close_code.is_none() {
            return Ending::Lost(loss);
        }
        Ending::Closed { closing: self.closing, code: self.close_code }
    }

    /// The loss to report when the deadline has passed.
    pub(crate) fn timeout_loss(&self) -> Loss {
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

    fn state(now: Instant) -> ConnectionState {
        ConnectionState::new(Token("t".to_owned()), None, now + Duration::from_secs(15))
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
    fn before_it_is_established_only_the_establish_deadline_applies() {
        let now = clock::now();
        let state = state(now);
        assert!(!state.is_open());
        assert_eq!((state.heartbeat_at(), state.refresh_at()), (None, None));
        assert_eq!(state.deadline(), Some(now + Duration::from_secs(15)));
        assert_eq!(state.timeout_loss(), Loss::NotEstablished);
    }

    #[test]
    fn a_frame_for_an_earlier_connection_is_not_accepted() {
        let now = clock::now();
        let mut state = state(now);
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
        state.on_frame(&ServerFrame::ConnectionEstablished(Box::new(established)), now, WALL);
        assert!(state.accepts(None) && state.accepts(Some(connection_id(2))));
        assert!(!state.accepts(Some(connection_id(1))));
    }

    #[test]
    fn the_closing_frame_is_the_reason_even_without_a_close_frame() {
        let now = clock::now();
        let mut state = state(now);
        let frame = closing(CloseReason::Overloaded);
        state.on_frame(&ServerFrame::ConnectionClosing(frame.clone()), now, WALL);
        assert_eq!(state.deadline(), Some(now + CLOSE_FRAME_TIMEOUT));
        let ending = state.ending(Loss::Broken("reset".to_owned()));
        assert_eq!(ending, Ending::Closed { closing: Some(frame), code: None });
    }

    #[test]
    fn an_end_without_a_reason_is_a_loss() {
        let ending = state(clock::now()).ending(Loss::HeartbeatTimeout);
        assert_eq!(ending, Ending::Lost(Loss::HeartbeatTimeout));
    }
}
