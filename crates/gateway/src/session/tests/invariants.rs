//! Invariants of every session, for any input at any time.
//!
//! A [`Walk`] takes a session through steps and checks the invariants after each. The steps are
//! made from numbers, so that any generator will do: random tests and the fuzzer use the same
//! steps.

use super::{
    Admitted, Arc, AuthError, Bytes, Claims, ClientFrame, CloseReason, Config, DecodeError,
    Decoded, Duration, Effect, Effects, ErrorCode, FrameError, Input, Instant, Moment, RequestId,
    Response, ServerFrame, Session, Timestamp, decode_client,
};

/// A tick that is this late must not close a connection for silence.
const PAUSE: Duration = Duration::from_millis(500);

/// Texts that clients send, valid and invalid.
const TEXTS: [&str; 19] = [
    r#"{"type":"heartbeat"}"#,
    r#"{"type":"authenticate","token":"t"}"#,
    r#"{"type":"authenticate","token":"t","device_id":"phone"}"#,
    r#"{"type":"authenticate"}"#,
    r#"{"type":"refresh_token","request_id":"a","token":"t"}"#,
    r#"{"type":"refresh_token","request_id":"b","token":"t"}"#,
    r#"{"type":"send_message","request_id":"c","chat_id":"chat_00000000000000000000000001","client_message_id":"m","content":"x"}"#,
    r#"{"type":"send_message","request_id":"d","chat_id":"nowhere"}"#,
    r#"{"type":"ack","chat_id":"chat_00000000000000000000000001","last_acked_sequence":3}"#,
    r#"{"type":"sync_request","request_id":"e","chat_id":"chat_00000000000000000000000001","after_sequence":0}"#,
    r#"{"type":"sync_manifest","request_id":"f"}"#,
    r#"{"type":"typing","chat_id":"chat_00000000000000000000000001","is_typing":true}"#,
    r#"{"type":"presence_subscribe","request_id":"g","user_ids":["bo"]}"#,
    r#"{"type":"presence_unsubscribe","request_id":"i","user_ids":["bo","cy"]}"#,
    r#"{"type":"presence_unsubscribe","request_id":"j","user_ids":[]}"#,
    r#"{"type":"from_the_future"}"#,
    r#"{"type":"from_the_future","request_id":"h"}"#,
    "[]",
    "{",
];

/// An event in the life of a session.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Says(String),
    /// The same text many times in a row.
    Floods(&'static str, u8),
    Binary,
    Ping,
    Pong,
    Violates(FrameError),
    /// The pending verification or admission ends, with success or failure.
    Response(u8, Duration),
    /// One of the pending requests is answered.
    AnswerRequest(u8),
    /// Time passes, with a tick at every deadline.
    Wait(Duration),
    /// The process is paused for this long at its next deadline.
    Pause(Duration),
    /// The wall clock is set.
    SetWallClock(u64),
    Stop(CloseReason),
}

impl Step {
    /// Makes a step from two numbers; frequent kinds have more numbers.
    pub(super) fn from_numbers(kind: u8, value: u16) -> Self {
        let [_, low] = value.to_be_bytes();
        let text = TEXTS[usize::from(value) % TEXTS.len()];
        match kind % 32 {
            0..=9 => Self::Says(text.to_owned()),
            10 => Self::Floods(text, low),
            11 => Self::Binary,
            12 => Self::Ping,
            13..=15 => Self::Pong,
            16 | 17 => Self::Response(low, Duration::from_millis(u64::from(value) * 10)),
            18 | 19 => Self::AnswerRequest(low),
            20..=23 => Self::Wait(Duration::from_millis(u64::from(value) / 4)),
            24 | 25 => Self::Wait(Duration::from_millis(u64::from(value) * 5)),
            26..=28 => Self::Pause(Duration::from_millis(u64::from(value))),
            29 => Self::SetWallClock(u64::from(value) << (low % 40)),
            30 if value.is_multiple_of(8) => Self::Violates(FrameError::TooLarge),
            31 if value.is_multiple_of(8) => {
                Self::Stop(CloseReason::ALL[usize::from(value / 8) % CloseReason::ALL.len()])
            }
            _ => Self::Wait(Duration::from_secs(1)),
        }
    }
}

/// A session whose invariants are checked.
#[derive(Debug)]
pub(super) struct Walk {
    session: Session,
    config: Arc<Config>,
    at: Moment,
    last_heard: Instant,
    is_established: bool,
    is_verifying: bool,
    /// The refresh whose token is being verified.
    refresh: Option<RequestId>,
    is_admitting: bool,
    /// The requests that are pending outside of the session.
    asked: Vec<RequestId>,
    /// The times of accepted presence frames within the last second.
    watched_at: Vec<Instant>,
    is_closed: bool,
}

impl Walk {
    /// A walk that begins with a challenge, with limits and ages short enough to be met.
    pub(super) fn new(seed: u64, at: Moment) -> Self {
        let max_connection_age = Duration::from_secs(45);
        let config = Arc::new(Config { max_connection_age, ..Config::default() });
        let (session, first) = Session::challenged(Arc::clone(&config), None, seed, at);
        assert!(matches!(first.as_slice(), [Effect::Send(ServerFrame::AuthChallenge { .. })]));
        Self {
            session,
            config,
            at,
            last_heard: at.now,
            is_established: false,
            is_verifying: false,
            refresh: None,
            is_admitting: false,
            asked: Vec::new(),
            watched_at: Vec::new(),
            is_closed: false,
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Says(text) => self.sends(&text),
            Step::Floods(text, times) => (0..times).for_each(|_| self.sends(text)),
            Step::Binary => drop(self.hears(Input::Binary)),
            Step::Ping => drop(self.hears(Input::Ping(Bytes::from_static(b"p")))),
            Step::Pong => drop(self.hears(Input::Pong)),
            Step::Violates(error) => {
                let was_closed = self.is_closed;
                let effects = self.on(Input::Violation(error));
                assert!(was_closed || matches!(effects.last(), Some(Effect::Close(_))));
            }
            Step::Response(how, life) => self.answer(how, life),
            Step::AnswerRequest(which) => self.answer_request(which),
            Step::Wait(duration) => self.wait(duration),
            Step::Pause(duration) => {
                let planned = self.session.deadline().max(self.at.now);
                self.pass(planned - self.at.now + duration);
                self.tick(duration);
            }
            Step::SetWallClock(unix_ms) => self.at.wall = Timestamp { unix_ms },
            Step::Stop(reason) => drop(self.on(Input::Stop(reason))),
        }
    }

    /// Sends a text; the session must answer each request in it exactly once.
    fn sends(&mut self, text: &str) {
        let request_id = match decode_client(text) {
            Ok(Decoded::Frame(frame)) => frame.request_id().cloned(),
            Ok(Decoded::UnknownType { request_id }) => request_id,
            Err(DecodeError::InvalidField { request_id, .. }) => request_id,
            Err(DecodeError::ContentTooLarge { request_id }) => Some(request_id),
            Err(DecodeError::NotAnObject(_)) => None,
        };
        let (is_refresh, is_presence) = match decode_client(text) {
            Ok(Decoded::Frame(ClientFrame::RefreshToken(_))) => (true, false),
            Ok(Decoded::Frame(
                ClientFrame::PresenceSubscribe(_) | ClientFrame::PresenceUnsubscribe(_),
            )) => (false, true),
            _ => (false, false),
        };
        let was_closed = self.is_closed;
        let refresh = self.refresh.clone();
        let effects = self.hears(Input::Text(text.to_owned()));
        let Some(request_id) = request_id.filter(|_| !was_closed) else { return };
        let answers = effects.iter().filter(|effect| answers(effect, &request_id)).count();
        let checks = effects.iter().filter(|effect| matches!(effect, Effect::Verify(_))).count();
        let asked = effects.iter().filter(|effect| matches!(effect, Effect::Request(_))).count();
        // A pending refresh with the same id is answered when the connection closes.
        let overtaken = usize::from(self.is_closed && refresh.as_ref() == Some(&request_id));
        assert_eq!(answers + checks + asked, 1 + overtaken, "{text} is answered once: {effects:?}");
        assert!(checks == 0 || is_refresh);
        if checks > 0 {
            self.refresh = Some(request_id);
        }
        if is_presence && asked > 0 {
            self.watched();
        }
    }

    /// Records an accepted presence frame: at most a burst plus one second's rate.
    fn watched(&mut self) {
        let now = self.at.now;
        self.watched_at.retain(|then| now - *then < Duration::from_secs(1));
        self.watched_at.push(now);
        let rate = self.config.limits.presence_rate as usize;
        assert!(self.watched_at.len() <= 2 * rate, "presence frames are limited");
    }

    fn answer(&mut self, how: u8, life: Duration) {
        let expires_at = self.at.wall.plus(life);
        let (user_id, device_id) = ("ana".parse().unwrap(), "phone".parse().unwrap());
        if self.is_admitting {
            self.is_admitting = false;
            let answer = match how % 4 {
                0 => Err(CloseReason::ConnectionLimit),
                _ => Ok(Admitted { user_id, device_id, expires_at }),
            };
            self.is_established = answer.is_ok();
            self.on(Input::Admitted(answer));
        } else if self.is_verifying {
            self.is_verifying = false;
            self.refresh = None;
            let claims = Claims { user_id, device_id: Some(device_id), service: false, expires_at };
            let answer = match how % 8 {
                0 => Err(AuthError::Invalid("it is bad")),
                1 => Err(AuthError::NotReady),
                2 => Ok(Claims { user_id: "bo".parse().unwrap(), ..claims }),
                3 => Ok(Claims { device_id: "tablet".parse().ok(), ..claims }),
                4 => Ok(Claims { device_id: None, ..claims }),
                _ => Ok(claims),
            };
            let was_closed = self.is_closed;
            let effects = self.on(Input::Verified(answer));
            assert!(was_closed || effects.len() == 1, "every check leads to one thing");
        }
    }

    /// Answers a pending request, which must be answered once, also after the Close.
    fn answer_request(&mut self, which: u8) {
        if self.asked.is_empty() {
            return;
        }
        let request_id = self.asked.swap_remove(usize::from(which) % self.asked.len());
        let frame = ServerFrame::TokenRefreshed { request_id, expires_at: self.at.wall };
        let answer = match which % 3 {
            0 => Response::Page(frame),
            1 => Response::Reply(frame),
            _ => Response::AlreadyQueued,
        };
        let is_already_queued = answer == Response::AlreadyQueued;
        let effects = self.session.on(Input::Answered(answer), self.at);
        let is_said = matches!(effects.as_slice(), [Effect::Send(_) | Effect::SendPage(_)]);
        assert!(is_said || (is_already_queued && effects.is_empty()), "once: {effects:?}");
        assert!(!(is_said && is_already_queued), "not twice: {effects:?}");
    }

    /// Time passes, with a tick at every deadline; one before the deadline has no effect.
    fn wait(&mut self, duration: Duration) {
        let end = self.at.now + duration;
        while !self.is_closed && self.session.deadline() <= end {
            self.pass(self.session.deadline().saturating_duration_since(self.at.now));
            self.tick(Duration::ZERO);
        }
        self.pass(end.saturating_duration_since(self.at.now));
        if !self.is_closed {
            let deadline = self.session.deadline();
            assert!(self.tick(Duration::ZERO).is_empty(), "nothing is due before the deadline");
            assert_eq!(self.session.deadline(), deadline);
        }
    }

    fn pass(&mut self, duration: Duration) {
        self.at = Moment { now: self.at.now + duration, wall: self.at.wall.plus(duration) };
    }

    fn tick(&mut self, late: Duration) -> Effects {
        let effects = self.on(Input::Tick { late, is_paused: false });
        let is_ahead = self.session.deadline() > self.at.now;
        assert!(self.is_closed || is_ahead, "a tick leaves nothing due");
        if effects.iter().any(|effect| closes_for(effect, CloseReason::HeartbeatTimeout)) {
            assert!(late < PAUSE, "a pause of the server closes no connection");
            let silence = self.at.now - self.last_heard;
            assert!(silence >= self.config.heartbeat_timeout, "{silence:?} is no timeout");
        }
        effects
    }

    fn hears(&mut self, input: Input) -> Effects {
        self.last_heard = self.at.now;
        self.on(input)
    }

    /// Passes an input to the session and checks the invariants of all effects.
    fn on(&mut self, input: Input) -> Effects {
        let effects = self.session.on(input, self.at);
        assert!(!self.is_closed || effects.is_empty(), "after a Close there are no effects");
        for (index, effect) in effects.iter().enumerate() {
            match effect {
                Effect::Close(closing) => {
                    assert_eq!(index + 1, effects.len(), "a Close is the last effect");
                    assert!(closing.reconnect_delay <= Duration::from_secs(8));
                    self.is_closed = true;
                }
                Effect::Verify(_) => {
                    assert!(!self.is_verifying && !self.is_admitting, "one check at a time");
                    self.is_verifying = true;
                }
                Effect::Admit { .. } => {
                    assert!(!self.is_established, "a connection is admitted once");
                    self.is_admitting = true;
                }
                Effect::Send(frame) => assert!(self.is_established || is_for_guests(frame)),
                Effect::Request(request) => {
                    assert!(self.is_established, "only an admitted session starts requests");
                    self.asked.push(request.clone().into_id());
                    assert!(self.asked.len() <= self.config.limits.inbound_requests);
                }
                Effect::Acknowledge(_) | Effect::Type(_) => assert!(self.is_established),
                Effect::SendPage(_) => panic!("a page answers a request"),
                Effect::Ping | Effect::Pong(_) | Effect::Count(_) => {}
            }
        }
        assert_eq!(self.session.is_closed(), self.is_closed);
        effects
    }
}

fn closes_for(effect: &Effect, reason: CloseReason) -> bool {
    matches!(effect, Effect::Close(closing) if closing.reason == reason)
}

fn answers(effect: &Effect, to: &RequestId) -> bool {
    match effect {
        Effect::Send(ServerFrame::Error(frame)) => frame.request_id.as_ref() == Some(to),
        Effect::Send(ServerFrame::TokenRefreshed { request_id, .. }) => request_id == to,
        _ => false,
    }
}

/// Whether a frame may be sent before authentication: refusals only.
fn is_for_guests(frame: &ServerFrame) -> bool {
    let codes = [
        ErrorCode::Unauthorized,
        ErrorCode::InvalidMessage,
        ErrorCode::MessageTooLarge,
        ErrorCode::Conflict,
        ErrorCode::RateLimited,
    ];
    matches!(frame, ServerFrame::Error(frame) if codes.contains(&frame.code))
}
