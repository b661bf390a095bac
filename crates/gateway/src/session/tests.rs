//! The rules of the protocol that a session enforces, one test each.

mod challenge;
mod ending;
mod frames;
mod invariants;
mod liveness;
mod rates;
mod requests;
mod token;
mod walks;

use bytes::Bytes;
use heartline_protocol::{ErrorFrame, Timestamp, Token};
use heartline_runtime::Clock;

use super::*;
use crate::websocket::FrameError;

const CHAT: &str = "chat_00000000000000000000000001";
const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;
const AUTHENTICATE: &str = r#"{"type":"authenticate","token":"t"}"#;
const REFRESH: &str = r#"{"type":"refresh_token","request_id":"refresh","token":"t"}"#;
const MANIFEST: &str = r#"{"type":"sync_manifest","request_id":"manifest"}"#;

fn send_message(request_id: &str) -> String {
    format!(
        r#"{{"type":"send_message","request_id":"{request_id}","chat_id":"{CHAT}",
            "client_message_id":"m","content":"hello"}}"#
    )
}

/// Whether a request was started.
fn is_asked(effects: &Effects) -> bool {
    matches!(effects.as_slice(), [Effect::Request(_)])
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A session, with the time of its next input.
struct Talk {
    session: Session,
    at: Moment,
}

impl Talk {
    /// A client that connected without a token.
    fn challenged() -> Self {
        Self::challenged_on(None)
    }

    fn challenged_on(device_id: Option<&str>) -> Self {
        let device_id = device_id.map(|device_id| device_id.parse().unwrap());
        let (session, effects) = Session::challenged(Arc::default(), device_id, 0, start());
        let challenge = ServerFrame::AuthChallenge { code: 401, timeout_ms: 10_000 };
        assert_eq!(effects.as_slice(), [Effect::Send(challenge)]);
        Self { session, at: start() }
    }

    /// A client whose token outlives everything else.
    fn established() -> Self {
        Self::with_token_for(seconds(1_000_000), 0)
    }

    fn with_token_for(duration: Duration, seed: u64) -> Self {
        let at = start();
        let admitted = admitted(at.wall.plus(duration));
        Self { session: Session::established(Arc::default(), admitted, seed, at), at }
    }

    fn established_with(config: Config) -> Self {
        let at = start();
        let admitted = admitted(at.wall.plus(seconds(1_000_000)));
        Self { session: Session::established(Arc::new(config), admitted, 0, at), at }
    }

    fn on(&mut self, input: Input) -> Effects {
        self.session.on(input, self.at)
    }

    fn sends(&mut self, text: &str) -> Effects {
        self.on(Input::Text(text.to_owned()))
    }

    fn tick(&mut self) -> Effects {
        self.on(Input::Tick { late: Duration::ZERO, is_paused: false })
    }

    fn wait(&mut self, duration: Duration) {
        self.at = Moment { now: self.at.now + duration, wall: self.at.wall.plus(duration) };
    }

    /// Lets time pass for a client that only answers Pings; returns all other effects.
    fn stay(&mut self, duration: Duration) -> Effects {
        let end = self.at.now + duration;
        let mut told = Effects::new();
        while !self.session.is_closed() && self.session.deadline() <= end {
            self.wait(self.session.deadline() - self.at.now);
            for effect in self.tick() {
                match effect {
                    Effect::Ping => assert!(self.on(Input::Pong).is_empty()),
                    other => told.push(other),
                }
            }
        }
        self.wait(end - self.at.now);
        told
    }

    fn until_deadline(&self) -> Duration {
        self.session.deadline() - self.at.now
    }
}

fn start() -> Moment {
    Moment { now: Clock::system().now(), wall: Timestamp { unix_ms: 1_700_000_000_000 } }
}

fn admitted(expires_at: Timestamp) -> Admitted {
    let (user_id, device_id) = ("ana".parse().unwrap(), "phone".parse().unwrap());
    Admitted { user_id, device_id, expires_at }
}

fn claims(user_id: &str, device_id: Option<&str>, expires_at: Timestamp) -> Claims {
    let device_id = device_id.map(|device_id| device_id.parse().unwrap());
    Claims { user_id: user_id.parse().unwrap(), device_id, service: false, expires_at }
}

/// The error frame that is the first effect.
#[track_caller]
fn error(effects: &Effects) -> &ErrorFrame {
    match effects.first() {
        Some(Effect::Send(ServerFrame::Error(frame))) => frame,
        other => panic!("an error was expected, not {other:?}"),
    }
}

#[track_caller]
fn code(effects: &Effects) -> ErrorCode {
    error(effects).code
}

/// The reason and code of the Close that is the last effect, if it is one.
fn closing(effects: &Effects) -> Option<(CloseReason, u16)> {
    match effects.last() {
        Some(Effect::Close(closing)) => Some((closing.reason, closing.code)),
        _ => None,
    }
}
