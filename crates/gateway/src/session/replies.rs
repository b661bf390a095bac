//! The error and warning frames of a session.

use std::time::Duration;

use heartline_protocol::limits::{
    CONTENT_BYTES_MAX, DRAIN_RECONNECT_DELAY_MAX, RECONNECT_DELAY_MIN, RECONNECT_JITTER_PERCENT,
};
use heartline_protocol::server_frame::{ErrorDetails, ErrorFrame};
use heartline_protocol::{CloseReason, DecodeError, ErrorCode, Outcome, RequestId, ServerFrame};
use smallvec::smallvec;

use super::{Effect, Effects};

pub(super) fn refuse(refusal: ServerFrame) -> Effects {
    smallvec![Effect::Send(refusal)]
}

pub(super) fn error(request_id: Option<RequestId>, code: ErrorCode, message: &str) -> ServerFrame {
    ServerFrame::Error(ErrorFrame { request_id, ..ErrorFrame::new(code, message) })
}

fn detailed(
    request_id: Option<RequestId>,
    code: ErrorCode,
    message: &str,
    details: ErrorDetails,
) -> ServerFrame {
    let details = Some(details);
    ServerFrame::Error(ErrorFrame { request_id, details, ..ErrorFrame::new(code, message) })
}

pub(super) fn unknown_type(request_id: Option<RequestId>) -> ServerFrame {
    let details = ErrorDetails { reason: Some("unknown_type".to_owned()), ..Default::default() };
    let message = "unknown frame type";
    detailed(request_id, ErrorCode::InvalidMessage, message, details)
}

/// The request id of an invalid frame, if it could be read.
pub(super) fn request_id(decode_error: &DecodeError) -> Option<RequestId> {
    match decode_error {
        DecodeError::NotAnObject(_) => None,
        DecodeError::InvalidField { request_id, .. } => request_id.clone(),
        DecodeError::ContentTooLarge { request_id } => Some(request_id.clone()),
    }
}

pub(super) fn invalid(decode_error: DecodeError) -> ServerFrame {
    match decode_error {
        DecodeError::NotAnObject(message) => error(None, ErrorCode::InvalidMessage, &message),
        DecodeError::InvalidField { request_id, field, message } => {
            let details = ErrorDetails { field: Some(field), ..Default::default() };
            detailed(request_id, ErrorCode::InvalidMessage, &message, details)
        }
        DecodeError::ContentTooLarge { request_id } => {
            let message = format!("content may have at most {CONTENT_BYTES_MAX} bytes");
            error(Some(request_id), ErrorCode::MessageTooLarge, &message)
        }
    }
}

pub(super) fn rate_limited(request_id: Option<RequestId>, retry_after_seconds: u64) -> ServerFrame {
    ServerFrame::Error(ErrorFrame {
        request_id,
        retry_after_seconds: Some(retry_after_seconds),
        ..ErrorFrame::new(ErrorCode::RateLimited, "too many frames: send more slowly")
    })
}

/// The warning to a client that reads too slowly. Not an effect of the session, because it must be
/// sent although the connection's task does not run.
pub(crate) fn slow_consumer(grace: Duration) -> ServerFrame {
    let grace_period_seconds = Some(grace.as_secs());
    let details = ErrorDetails { grace_period_seconds, ..Default::default() };
    let message = "this client reads too slowly: catch up, or the connection is closed";
    detailed(None, ErrorCode::SlowConsumer, message, details)
}

pub(super) fn second_authenticate() -> ServerFrame {
    error(None, ErrorCode::Conflict, "this connection is already authenticated")
}

pub(super) fn refresh_pending(request_id: RequestId) -> ServerFrame {
    ServerFrame::Error(ErrorFrame {
        request_id: Some(request_id),
        retry_after_seconds: Some(1),
        ..ErrorFrame::new(ErrorCode::ServerBusy, "another refresh_token is being verified")
    })
}

pub(super) fn other_users_token(request_id: RequestId) -> ServerFrame {
    let message = "the token is for another user or device; the old one stays in force";
    error(Some(request_id), ErrorCode::Forbidden, message)
}

pub(super) fn bad_token(request_id: RequestId) -> ServerFrame {
    let message = "the token is not valid; the old one stays in force";
    error(Some(request_id), ErrorCode::Unauthorized, message)
}

pub(super) fn no_keys(request_id: RequestId) -> ServerFrame {
    ServerFrame::Error(ErrorFrame {
        request_id: Some(request_id),
        retry_after_seconds: Some(5),
        ..ErrorFrame::new(ErrorCode::ServiceUnavailable, "the signing keys are not loaded yet")
    })
}

/// Every request is answered, also one that is pending when its connection closes.
pub(crate) fn closing(request_id: RequestId) -> ServerFrame {
    let message = "the connection is closing; send the request again on the next one";
    ServerFrame::Error(ErrorFrame {
        request_id: Some(request_id),
        retry_after_seconds: Some(1),
        ..ErrorFrame::new(ErrorCode::ServiceUnavailable, message)
    })
}

pub(super) fn token_expired(request_id: Option<&RequestId>) -> ServerFrame {
    let message = "the token has expired: send refresh_token, then try again";
    error(request_id.cloned(), ErrorCode::Unauthorized, message)
}

pub(super) fn busy(request_id: RequestId) -> ServerFrame {
    let details = ErrorDetails { outcome: Some(Outcome::Rejected), ..Default::default() };
    let message = "too many requests are pending";
    ServerFrame::Error(ErrorFrame {
        request_id: Some(request_id),
        retry_after_seconds: Some(1),
        details: Some(details),
        ..ErrorFrame::new(ErrorCode::ServerBusy, message)
    })
}

pub(crate) fn presence_busy(request_id: RequestId) -> ServerFrame {
    ServerFrame::Error(ErrorFrame {
        request_id: Some(request_id),
        retry_after_seconds: Some(1),
        ..ErrorFrame::new(ErrorCode::ServerBusy, "too many presence requests at once")
    })
}

/// When a client may reconnect, different for every socket: `unit` is its number from 0 to 1.
pub(super) fn reconnect_delay(reason: CloseReason, unit: f64) -> Duration {
    match reason {
        // All clients disconnect at once: their reconnects are spread over as long as one lease
        // allows.
        CloseReason::ServerShutdown | CloseReason::Overloaded | CloseReason::MaxAge => {
            DRAIN_RECONNECT_DELAY_MAX.mul_f64(unit)
        }
        _ => {
            let jitter = f64::from(RECONNECT_JITTER_PERCENT) / 100.0;
            RECONNECT_DELAY_MIN.mul_f64(1.0 - jitter + 2.0 * jitter * unit)
        }
    }
}
