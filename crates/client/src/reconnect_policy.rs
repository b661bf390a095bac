//! Whether, when and where to reconnect: the rules of the protocol, without IO.

use std::time::Duration;

use heartline_protocol::server_frame::ConnectionClosing;
use heartline_protocol::{CloseReason, Reconnect};

use crate::back_off::BackOff;
use crate::event::{Ending, Rejection, StopReason};
use crate::token::TokenError;

/// The longest delay that the client accepts from a server.
pub(crate) const SERVER_DELAY_MAX: Duration = Duration::from_secs(60 * 60);

/// The next step after an attempt or a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Try the next URL after the delay.
    Retry {
        /// The delay.
        after: Duration,
    },
    /// Try the next URL after the delay, with a token other than the last one.
    RetryWithNewToken {
        /// The delay.
        after: Duration,
    },
    /// Do not try again.
    Stop(StopReason),
}

/// The reconnect rules, and the attempts since the last established connection.
#[derive(Debug)]
pub struct ReconnectPolicy {
    back_off: BackOff,
    /// The number of URLs, which are tried in turn.
    url_count: usize,
    /// The index of the URL to try next.
    url_index: usize,
    /// The number of the current or next attempt, from 1.
    attempt: u32,
    /// Whether a different token was already requested: a second rejection stops the client.
    token_replaced: bool,
}

impl ReconnectPolicy {
    /// The rules for a client with `url_count` URLs.
    pub fn new(back_off: BackOff, url_count: usize) -> Self {
        assert!(url_count > 0, "a client has at least one URL");
        Self { back_off, url_count, url_index: 0, attempt: 1, token_replaced: false }
    }

    /// The URL to try now.
    pub fn url_index(&self) -> usize {
        self.url_index
    }

    /// The number of this attempt since the last established connection.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The connection is established: delays, attempts and token rejections are reset.
    pub fn established(&mut self) {
        self.back_off.reset();
        self.attempt = 0;
        self.token_replaced = false;
    }

    /// Decides the next step.
    pub fn ended(&mut self, ending: &Ending) -> NextStep {
        self.attempt = self.attempt.saturating_add(1);
        self.url_index = (self.url_index + 1) % self.url_count;
        match ending {
            Ending::Rejected(rejection) => self.after_rejection(rejection),
            Ending::Closed { closing: Some(closing), .. } => self.after_closing(closing),
            Ending::Closed { closing: None, code } => self.after_code(*code),
            Ending::Lost(_) | Ending::NoToken(TokenError::Unavailable(_)) => self.backed_off(),
            Ending::NoToken(TokenError::Ended(reason)) => {
                NextStep::Stop(StopReason::NoToken(reason.clone()))
            }
        }
    }

    /// Only 401 and 403 are final decisions of the server. Any other status may come from a proxy
    /// during a deployment and is temporary.
    fn after_rejection(&mut self, rejection: &Rejection) -> NextStep {
        match (rejection.status, rejection.retry_after) {
            (401, _) => self.with_new_token(Duration::ZERO),
            (403, _) => NextStep::Stop(StopReason::Rejected { status: 403 }),
            (_, Some(delay)) => {
                NextStep::Retry { after: self.back_off.at_least(delay.min(SERVER_DELAY_MAX)) }
            }
            (_, None) => self.backed_off(),
        }
    }

    fn after_closing(&mut self, closing: &ConnectionClosing) -> NextStep {
        let after = match closing.reconnect_delay_ms {
            0 => None,
            delay_ms => Some(Duration::from_millis(delay_ms).min(SERVER_DELAY_MAX)),
        };
        match closing.reason.reconnect() {
            Reconnect::Never => NextStep::Stop(StopReason::ClosedByServer(closing.reason)),
            Reconnect::WithNewToken => {
                let after = after.unwrap_or_else(|| self.back_off.next_delay());
                self.with_new_token(after)
            }
            Reconnect::BackOff | Reconnect::AfterDelay if !closing.reconnect_allowed => {
                NextStep::Stop(StopReason::ClosedByServer(closing.reason))
            }
            Reconnect::BackOff | Reconnect::AfterDelay => match after {
                Some(after) => NextStep::Retry { after },
                None => self.backed_off(),
            },
        }
    }

    /// Without a closing frame the close code decides; reasons that share a code have the same
    /// rule.
    fn after_code(&mut self, code: Option<u16>) -> NextStep {
        let reason = CloseReason::ALL.into_iter().find(|reason| Some(reason.code()) == code);
        match reason.map(|reason| (reason, reason.reconnect())) {
            Some((reason, Reconnect::Never)) => NextStep::Stop(StopReason::ClosedByServer(reason)),
            Some((_, Reconnect::WithNewToken)) => {
                let after = self.back_off.next_delay();
                self.with_new_token(after)
            }
            Some((_, Reconnect::BackOff | Reconnect::AfterDelay)) | None => self.backed_off(),
        }
    }

    fn backed_off(&mut self) -> NextStep {
        NextStep::Retry { after: self.back_off.next_delay() }
    }

    fn with_new_token(&mut self, after: Duration) -> NextStep {
        if std::mem::replace(&mut self.token_replaced, true) {
            NextStep::Stop(StopReason::TokenRejected)
        } else {
            NextStep::RetryWithNewToken { after }
        }
    }
}

#[cfg(test)]
mod tests;
