//! The protocol of one connection as a pure state machine.
//!
//! [`Session::on`] takes an input and the time, and returns effects; it performs nothing, so every
//! rule of the protocol can be tested without a socket or a runtime. The task around it
//! (`connection.rs`) does the IO.

mod io;
mod established;
mod inbound;
mod liveness;
pub(crate) mod replies;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::client_frame::{Authenticate, RefreshToken};
use heartline_protocol::limits::{
    BAD_FRAMES_MAX, BAD_FRAMES_WINDOW, RATE_LIMITED_MAX, RATE_LIMITED_WINDOW,
};
use heartline_protocol::{
    ClientFrame, CloseReason, DecodeError, Decoded, DeviceId, ErrorCode, RequestId, ServerFrame,
    decode_client, retry_after_seconds,
};
use heartline_routing::rate::{Rate, TokenBucket};
use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use self::established::Established;
use self::inbound::{Inbound, Queue};
pub use self::io::{Admitted, Closing, Counted, Effect, Input, Moment, Request, Response};
use self::liveness::Liveness;
pub(crate) use self::liveness::PAUSE;
use crate::config::Config;
use crate::sliding_window::SlidingWindow;
use heartline_auth::{AuthError, Claims};

/// The effects of one input.
pub type Effects = SmallVec<[Effect; 2]>;

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    config: Arc<Config>,
    stage: Stage,
    liveness: Liveness,
    /// When the connection reaches its maximum age.
    ends: Instant,
    /// The connection's random number, from which its jitter is derived.
    seed: u64,
    sends: TokenBucket,
    frames: TokenBucket,
    bad_frames: SlidingWindow,
    rate_limited: SlidingWindow,
    /// `None` until the first request.
    inbound: Option<Box<Inbound>>,
}

#[derive(Debug)]
enum Stage {
    /// Waiting for `authenticate`, or for its token to be verified and admitted.
    Challenged { deadline: Instant, device_id: Option<DeviceId>, checking: bool },
    /// Admitted and leased.
    Established(Established),
    /// Closing: no more input is handled.
    Closed,
}

impl Session {
    /// A session whose client must answer a challenge, with the device it named at the upgrade.
    pub fn challenged(
        config: Arc<Config>,
        device_id: Option<DeviceId>,
        seed: u64,
        at: Moment,
    ) -> (Self, Effects) {
        let deadline = at.now + config.auth_timeout;
        let timeout_ms = config.auth_timeout.as_millis() as u64;
        let stage = Stage::Challenged { deadline, device_id, checking: false };
        let challenge = Effect::Send(ServerFrame::AuthChallenge { code: 401, timeout_ms });
        (Self::new(config, stage, seed, at), smallvec![challenge])
    }

    /// A session that was authenticated and admitted at the upgrade.
    pub fn established(config: Arc<Config>, admitted: Admitted, seed: u64, at: Moment) -> Self {
        let stage = Stage::Established(Established::new(admitted, at));
        Self::new(config, stage, seed, at)
    }

    fn new(config: Arc<Config>, stage: Stage, seed: u64, at: Moment) -> Self {
        let ends = at.now + config.lifetime(seed);
        Self {
            stage,
            liveness: Liveness::new(at.now),
            ends,
            seed,
            sends: TokenBucket::new(at.now),
            frames: TokenBucket::new(at.now),
            bad_frames: SlidingWindow::default(),
            rate_limited: SlidingWindow::default(),
            inbound: None,
            config,
        }
    }

    /// Takes an input and returns its effects.
    pub fn on(&mut self, input: Input, at: Moment) -> Effects {
        match input {
            // Every request is answered, also while the connection is closing.
            Input::Answered(answer) => self.answered(answer),
            _ if matches!(self.stage, Stage::Closed) => Effects::new(),
            Input::Text(text) => {
                self.liveness.record_activity(at.now);
                self.text(&text, at)
            }
            Input::Binary => {
                self.liveness.record_activity(at.now);
                self.bad_frame("binary frames are not supported", at)
            }
            Input::Ping(payload) => {
                self.liveness.record_activity(at.now);
                let refused = self.spend_frame(None, at);
                refused.unwrap_or_else(|| smallvec![Effect::Pong(payload)])
            }
            Input::Pong => {
                self.liveness.record_activity(at.now);
                self.spend_frame(None, at).unwrap_or_default()
            }
            Input::Violation(error) => self.close(CloseReason::ProtocolError, error.close_code()),
            Input::Verified(answer) => self.verified(answer, at),
            Input::Admitted(Ok(admitted)) => {
                self.stage = Stage::Established(Established::new(admitted, at));
                Effects::new()
            }
            Input::Admitted(Err(reason)) | Input::Stop(reason) => self.close_for(reason),
            Input::Tick { late, is_paused } => self.tick(late, is_paused, at),
        }
    }

    /// The next instant at which a [`Input::Tick`] may do something; may be early, never late.
    pub fn deadline(&self) -> Instant {
        let stage = match &self.stage {
            Stage::Challenged { deadline, .. } => *deadline,
            Stage::Established(established) => established.deadline(),
            Stage::Closed => return self.ends,
        };
        let session = stage.min(self.ends).min(self.liveness.deadline(&self.config));
        let typing = self.inbound.as_ref().and_then(|inbound| inbound.deadline());
        typing.map_or(session, |typing| typing.min(session))
    }

    /// Whether the session is closing.
    pub fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed)
    }

    /// Stop 3 of the life of a message: understood. Decodes a frame, or returns the error for it.
    fn text(&mut self, text: &str, at: Moment) -> Effects {
        let challenged = matches!(self.stage, Stage::Challenged { .. });
        tracing::trace!(target: "heartline::life", message_stop = 3, "understood");
        match decode_client(text) {
            Ok(Decoded::Frame(frame)) => self.frame(frame, at),
            Ok(Decoded::UnknownType { request_id }) if challenged => {
                self.not_authenticated(request_id, at)
            }
            Ok(Decoded::UnknownType { request_id }) => {
                let refused = self.spend_frame(request_id.clone(), at);
                refused.unwrap_or_else(|| match request_id {
                    None => smallvec![Effect::Count(Counted::UnknownType)],
                    Some(_) => replies::refuse(replies::unknown_type(request_id)),
                })
            }
            Err(DecodeError::NotAnObject(message)) => self.bad_frame(&message, at),
            Err(error) if challenged => self.strike_bad_frame(replies::invalid(error), at),
            Err(error) => {
                let refused = self.spend_frame(replies::request_id(&error), at);
                refused.unwrap_or_else(|| replies::refuse(replies::invalid(error)))
            }
        }
    }

    /// Stop 4 of the life of a message: allowed. Checks the rate and the token, and returns the
    /// effects; nothing is performed yet.
    fn frame(&mut self, frame: ClientFrame, at: Moment) -> Effects {
        let established = match &mut self.stage {
            Stage::Established(established) => established,
            Stage::Challenged { .. } | Stage::Closed => {
                return match frame {
                    ClientFrame::Authenticate(frame) => self.authenticate(frame),
                    other => self.not_authenticated(other.request_id().cloned(), at),
                };
            }
        };
        let expired = established.grace_ends.is_some();
        let request_id = frame.request_id().cloned();
        let refused = match frame {
            ClientFrame::SendMessage(_) => {
                self.spend(request_id, at, |session| &mut session.sends, Config::send_rate)
            }
            ClientFrame::PresenceSubscribe(_) | ClientFrame::PresenceUnsubscribe(_) => {
                let refused = self.spend_frame(request_id.clone(), at);
                refused.or_else(|| self.spend_presence(request_id, at))
            }
            _ => self.spend_frame(request_id, at),
        };
        if let Some(refused) = refused {
            return refused;
        }
        match frame {
            ClientFrame::Heartbeat(_) => {
                smallvec![Effect::Send(ServerFrame::HeartbeatAck { server_time: at.wall })]
            }
            ClientFrame::Authenticate(_) => replies::refuse(replies::second_authenticate()),
            ClientFrame::RefreshToken(frame) => self.refresh(frame),
            // Neither has a response.
            ClientFrame::Ack(_) | ClientFrame::Typing(_) if expired => Effects::new(),
            ClientFrame::Ack(frame) => smallvec![Effect::Acknowledge(frame)],
            ClientFrame::Typing(frame) => {
                let inbound = self.inbound.get_or_insert_default();
                let typing = inbound.typing(frame, self.config.typing_interval(), at.now);
                typing.map(Effect::Type).into_iter().collect()
            }
            other if expired => {
                let mut effects = replies::refuse(replies::token_expired(other.request_id()));
                effects.push(Effect::Count(Counted::Unauthorized));
                effects
            }
            ClientFrame::SendMessage(frame) => {
                tracing::trace!(target: "heartline::life", message_stop = 4, "allowed");
                self.request(Request::Send(frame), at)
            }
            ClientFrame::SyncRequest(frame) => self.request(Request::Sync(frame), at),
            ClientFrame::SyncManifest(frame) => self.request(Request::Manifest(frame), at),
            ClientFrame::PresenceSubscribe(frame) => self.request(Request::Subscribe(frame), at),
            ClientFrame::PresenceUnsubscribe(frame) => {
                self.request(Request::Unsubscribe(frame), at)
            }
        }
    }

    /// Accepts a request, unless too many of this connection are pending.
    fn request(&mut self, request: Request, at: Moment) -> Effects {
        let inbound = self.inbound.get_or_insert_default();
        let queue = inbound.enter(self.config.limits.inbound_requests, at.now);
        if queue == Queue::Room {
            return smallvec![Effect::Request(request)];
        }
        let mut effects = replies::refuse(replies::busy(request.into_id()));
        effects.push(Effect::Count(Counted::Busy));
        if queue == Queue::FullAgain {
            effects.extend(self.close_for(CloseReason::Overloaded));
        }
        effects
    }

    fn answered(&mut self, answer: Response) -> Effects {
        if let Some(inbound) = &mut self.inbound {
            inbound.leave();
        }
        match answer {
            Response::Reply(frame) => smallvec![Effect::Send(frame)],
            Response::Page(frame) => smallvec![Effect::SendPage(frame)],
            Response::AlreadyQueued => Effects::new(),
        }
    }

    fn authenticate(&mut self, frame: Authenticate) -> Effects {
        let Stage::Challenged { device_id, checking, .. } = &mut self.stage else {
            return Effects::new();
        };
        if *checking {
            return replies::refuse(replies::second_authenticate());
        }
        *checking = true;
        *device_id = device_id.take().or(frame.device_id);
        smallvec![Effect::Verify(frame.token)]
    }

    fn refresh(&mut self, frame: RefreshToken) -> Effects {
        let Stage::Established(established) = &mut self.stage else { return Effects::new() };
        if established.refreshing.is_some() {
            return replies::refuse(replies::refresh_pending(frame.request_id));
        }
        established.refreshing = Some(frame.request_id);
        smallvec![Effect::Verify(frame.token)]
    }

    fn verified(&mut self, answer: Result<Claims, AuthError>, at: Moment) -> Effects {
        match &mut self.stage {
            Stage::Challenged { device_id, .. } => match answer {
                Ok(claims) => smallvec![Effect::Admit { claims, device_id: device_id.take() }],
                Err(AuthError::NotReady) => self.close_for(CloseReason::Overloaded),
                Err(AuthError::Invalid(_) | AuthError::UnknownKey) => {
                    self.close_for(CloseReason::Unauthorized)
                }
            },
            Stage::Established(established) => established.refreshed(answer, at),
            Stage::Closed => Effects::new(),
        }
    }

    fn tick(&mut self, late: Duration, is_paused: bool, at: Moment) -> Effects {
        if at.now >= self.ends {
            return self.close_for(CloseReason::MaxAge);
        }
        let mut effects = Effects::new();
        match &mut self.stage {
            Stage::Challenged { deadline, .. } if at.now >= *deadline => {
                return self.close_for(CloseReason::AuthTimeout);
            }
            Stage::Established(established) => {
                if established.grace_ends.is_some_and(|grace_ends| at.now >= grace_ends) {
                    return self.close_for(CloseReason::TokenExpired);
                }
                effects.extend(established.expire(&self.config, at));
                if let Some(inbound) = &mut self.inbound {
                    let typing = inbound.typing_due(self.config.typing_interval(), at.now);
                    effects.extend(typing.into_iter().map(Effect::Type));
                }
            }
            Stage::Challenged { .. } | Stage::Closed => {}
        }
        match self.liveness.tick(&self.config, late, at.now) {
            liveness::Verdict::Alive => {}
            liveness::Verdict::Ping => effects.push(Effect::Ping),
            liveness::Verdict::TimedOut if is_paused => {
                return self.close_for(CloseReason::SlowConsumer);
            }
            liveness::Verdict::TimedOut => return self.close_for(CloseReason::HeartbeatTimeout),
        }
        effects
    }

    /// Charges every frame but a send to the frame rate, also an unknown or invalid one or a Pong,
    /// so that a flood of those is limited too.
    fn spend_frame(&mut self, request_id: Option<RequestId>, at: Moment) -> Option<Effects> {
        self.spend(request_id, at, |session| &mut session.frames, Config::frame_rate)
    }

    fn spend_presence(&mut self, request_id: Option<RequestId>, at: Moment) -> Option<Effects> {
        self.spend(
            request_id,
            at,
            |session| session.inbound.get_or_insert_default().presence(at.now),
            Config::presence_rate,
        )
    }

    /// Takes a token from a bucket. If there is none, returns the refusal: `RATE_LIMITED` and, after
    /// too many, a Close.
    fn spend(
        &mut self,
        request_id: Option<RequestId>,
        at: Moment,
        bucket: impl FnOnce(&mut Self) -> &mut TokenBucket,
        rate: impl FnOnce(&Config) -> Rate,
    ) -> Option<Effects> {
        let rate = rate(&self.config);
        let wait = bucket(self).take(rate, at.now).err()?;
        let mut effects =
            replies::refuse(replies::rate_limited(request_id, retry_after_seconds(wait)));
        effects.push(Effect::Count(Counted::RateLimited));
        if self.rate_limited.record(RATE_LIMITED_MAX, RATE_LIMITED_WINDOW, at.now) {
            effects.extend(self.close_for(CloseReason::RateLimited));
        }
        Some(effects)
    }

    fn bad_frame(&mut self, message: &str, at: Moment) -> Effects {
        self.strike_bad_frame(replies::error(None, ErrorCode::InvalidMessage, message), at)
    }

    fn not_authenticated(&mut self, request_id: Option<RequestId>, at: Moment) -> Effects {
        let message = "authenticate first";
        self.strike_bad_frame(replies::error(request_id, ErrorCode::Unauthorized, message), at)
    }

    fn strike_bad_frame(&mut self, refusal: ServerFrame, at: Moment) -> Effects {
        let mut effects = replies::refuse(refusal);
        effects.push(Effect::Count(Counted::BadFrame));
        if self.bad_frames.record(BAD_FRAMES_MAX, BAD_FRAMES_WINDOW, at.now) {
            effects.extend(self.close_for(CloseReason::ProtocolError));
        }
        effects
    }

    fn close_for(&mut self, reason: CloseReason) -> Effects {
        self.close(reason, reason.code())
    }

    fn close(&mut self, reason: CloseReason, code: u16) -> Effects {
        let mut effects = Effects::new();
        if let Stage::Established(established) = &mut self.stage
            && let Some(request_id) = established.refreshing.take()
        {
            effects.push(Effect::Send(replies::closing(request_id)));
        }
        self.stage = Stage::Closed;
        let reconnect_delay = replies::reconnect_delay(reason, unit(self.seed));
        effects.push(Effect::Close(Closing { reason, code, reconnect_delay }));
        effects
    }
}

/// Maps a seed to a number from 0 to 1.
fn unit(seed: u64) -> f64 {
    seed as f64 / u64::MAX as f64
}

// === impl Config ===

impl Config {
    /// The maximum age of a connection with this seed, with a jitter of a tenth so that connections
    /// opened together do not end together.
    pub(crate) fn lifetime(&self, seed: u64) -> Duration {
        self.max_connection_age.mul_f64(0.95 + 0.1 * unit(seed))
    }

    fn typing_interval(&self) -> Duration {
        Duration::from_secs(1) / self.limits.typing_rate.max(1)
    }

    fn send_rate(&self) -> Rate {
        Rate::per_second(self.limits.send_rate, self.limits.send_burst)
    }

    fn presence_rate(&self) -> Rate {
        Rate::per_second(self.limits.presence_rate, self.limits.presence_rate)
    }

    fn frame_rate(&self) -> Rate {
        Rate::per_second(self.limits.frame_rate, self.limits.frame_burst)
    }
}
