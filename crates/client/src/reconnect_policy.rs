//! Whether, when and where to come back: the reconnect rules of the protocol, without any IO.

use std::time::Duration;

use heartline_protocol::server_frame::ConnectionClosing;
use heartline_protocol::{CloseReason, Reconnect};

use crate::back_off::BackOff;
use crate::event::{Ending, Refusal, StopReason};
use crate::token::TokenError;

/// The longest pause that a server can ask for; more than this is a mistake of the server.
pub(crate) const SERVER_DELAY_MAX: Duration = Duration::from_secs(60 * 60);

/// What to do after an ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Try the next URL after the pause.
    Retry {
        /// The pause.
        after: Duration,
    },
    /// The same, but only with a token other than the last one.
    RetryWithNewToken {
        /// The pause.
        after: Duration,
    },
    /// Make no further attempt.
    Stop(StopReason),
}

/// The memory of the rules: what was tried since the last established connection.
#[derive(Debug)]
pub struct Policy {
    back_off: BackOff,
    /// How many URLs there are to take turns.
    url_count: usize,
    /// Whose turn it is.
    url_index: usize,
    /// The attempt under way or about to begin, counted from 1.
    attempt: u32,
    /// Whether a different token was already asked for: a second refusal is final.
    token_replaced: bool,
}

impl Policy {
    /// The rules for a client with this many URLs.
    pub fn new(back_off: BackOff, url_count: usize) -> Self {
        assert!(url_count > 0, "a client without a URL does not start");
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

    /// The server admitted the connection, so all that was held against it is forgotten.
    pub fn established(&mut self) {
        self.back_off.reset();
        self.attempt = 0;
        self.token_replaced = false;
    }

    /// Decides what follows an ending.
    pub fn ended(&mut self, ending: &Ending) -> Next {
        self.attempt = self.attempt.saturating_add(1);
        self.url_index = (self.url_index + 1) % self.url_count;
        match ending {
            Ending::Refused(refusal) => self.after_refusal(refusal),
            Ending::Closed { closing: Some(closing), .. } => self.after_closing(closing),
            Ending::Closed { closing: None, code } => self.after_code(*code),
            Ending::Lost(_) | Ending::NoToken(TokenError::Unavailable(_)) => self.backed_off(),
            Ending::NoToken(TokenError::Ended(why)) => Next::Stop(StopReason::NoToken(why.clone())),
        }
    }

    /// Only 401 and 403 are the server's own verdict on this client. Every other status may come
    /// from a proxy while a deployment is under way, and passes.
    fn after_refusal(&mut self, refusal: &Refusal) -> Next {
        match (refusal.status, refusal.retry_after) {
            (401, _) => self.with_new_token(Duration::ZERO),
            (403, _) => Next::Stop(StopReason::Refused { status: 403 }),
            (_, Some(delay)) => {
                Next::Retry { after: self.back_off.at_least(delay.min(SERVER_DELAY_MAX)) }
            }
            (_, None) => self.backed_off(),
        }
    }

    fn after_closing(&mut self, closing: &ConnectionClosing) -> Next {
        let after = match closing.reconnect_delay_ms {
            0 => None,
            delay_ms => Some(Duration::from_millis(delay_ms).min(SERVER_DELAY_MAX)),
        };
        match closing.reason.reconnect() {
            Reconnect::Never => Next::Stop(StopReason::ClosedByServer(closing.reason)),
            Reconnect::WithNewToken => {
                let after = after.unwrap_or_else(|| self.back_off.next_delay());
                self.with_new_token(after)
            }
            Reconnect::BackOff | Reconnect::AfterDelay if !closing.reconnect_allowed => {
                Next::Stop(StopReason::ClosedByServer(closing.reason))
            }
            Reconnect::BackOff | Reconnect::AfterDelay => match after {
                Some(after) => Next::Retry { after },
                None => self.backed_off(),
            },
        }
    }

    /// The closing frame was lost, so the code alone speaks; codes that several reasons share
    /// have the same rule.
    fn after_code(&mut self, code: Option<u16>) -> Next {
        let reason = CloseReason::ALL.into_iter().find(|reason| Some(reason.code()) == code);
        match reason.map(|reason| (reason, reason.reconnect())) {
            Some((reason, Reconnect::Never)) => Next::Stop(StopReason::ClosedByServer(reason)),
            Some((_, Reconnect::WithNewToken)) => {
                let after = self.back_off.next_delay();
                self.with_new_token(after)
            }
            Some((_, Reconnect::BackOff | Reconnect::AfterDelay)) | None => self.backed_off(),
        }
    }

    fn backed_off(&mut self) -> Next {
        Next::Retry { after: self.back_off.next_delay() }
    }

    fn with_new_token(&mut self, after: Duration) -> Next {
        if std::mem::replace(&mut self.token_replaced, true) {
            Next::Stop(StopReason::TokenRefused)
        } else {
            Next::RetryWithNewToken { after }
        }
    }
}

#[cfg(test)]
mod tests;
