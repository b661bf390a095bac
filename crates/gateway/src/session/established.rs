//! The state of an admitted connection: its user, its device and the expiry of its token.

use heartline_protocol::{DeviceId, RequestId, ServerFrame, UserId};
use smallvec::smallvec;
use tokio::time::Instant;

use super::{Admitted, Effect, Effects, Moment, replies};
use crate::config::Config;
use heartline_auth::{AuthError, Claims};

#[derive(Debug)]
pub(super) struct Established {
    pub(super) user_id: UserId,
    pub(super) device_id: DeviceId,
    /// When the token expires.
    pub(super) token_ends: Instant,
    /// The end of the grace that `token_expired` announced; `None` before the token expires.
    pub(super) grace_ends: Option<Instant>,
    /// The refresh whose token is being verified.
    pub(super) refreshing: Option<RequestId>,
}

impl Established {
    pub(super) fn new(admitted: Admitted, at: Moment) -> Self {
        Self {
            user_id: admitted.user_id,
            device_id: admitted.device_id,
            token_ends: at.now + at.wall.until(admitted.expires_at),
            grace_ends: None,
            refreshing: None,
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.grace_ends.unwrap_or(self.token_ends)
    }

    /// Announces the expiry of the token once. The grace begins with the announcement, so that a
    /// client that gets it late, after a pause of the server, still has the whole grace.
    pub(super) fn expire(&mut self, config: &Config, at: Moment) -> Option<Effect> {
        if self.grace_ends.is_some() || at.now < self.token_ends {
            return None;
        }
        self.grace_ends = Some(at.now + config.token_grace);
        let grace_period_seconds = config.token_grace.as_secs();
        Some(Effect::Send(ServerFrame::TokenExpired { grace_period_seconds }))
    }

    pub(super) fn refreshed(&mut self, answer: Result<Claims, AuthError>, at: Moment) -> Effects {
        let Some(request_id) = self.refreshing.take() else { return Effects::new() };
        let refusal = match answer {
            Ok(claims) => {
                let other_device = claims.device_id.is_some_and(|device| device != self.device_id);
                if claims.user_id == self.user_id && !other_device {
                    self.token_ends = at.now + at.wall.until(claims.expires_at);
                    self.grace_ends = None;
                    let expires_at = claims.expires_at;
                    let frame = ServerFrame::TokenRefreshed { request_id, expires_at };
                    return smallvec![Effect::Send(frame)];
                }
                replies::other_users_token(request_id)
            }
            Err(AuthError::NotReady) => replies::no_keys(request_id),
            Err(AuthError::Invalid(_) | AuthError::UnknownKey) => replies::bad_token(request_id),
        };
        replies::refuse(refusal)
    }
}
