//! A refused HTTP request: one code, one sentence, one JSON body.

use heartline_protocol::ErrorCode;
use heartline_protocol::rest::{ErrorBody, ErrorObject};
use heartline_protocol::server_frame::ErrorDetails;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use ulid::Ulid;

use heartline_auth::AuthError;
use heartline_runtime::Random;

/// Why a request is refused, before it becomes a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The error code.
    pub code: ErrorCode,
    /// The message for a person.
    pub message: String,
    /// The status, where it is not the code's own.
    pub status: Option<StatusCode>,
    /// When to try again.
    pub retry_after_seconds: Option<u64>,
    /// Further details.
    pub details: Option<ErrorDetails>,
    /// A header that the status requires.
    pub header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// A refusal with the code's own status.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            status: None,
            retry_after_seconds: None,
            details: None,
            header: None,
        }
    }

    /// A malformed request, with the status for its fault.
    pub fn malformed(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status: Some(status), ..Self::new(ErrorCode::InvalidMessage, message) }
    }

    /// A request that may succeed after a pause.
    pub fn later(code: ErrorCode, message: impl Into<String>, retry_after_seconds: u64) -> Self {
        Self { retry_after_seconds: Some(retry_after_seconds), ..Self::new(code, message) }
    }

    /// No valid token. The message is the same for every fault, so that it does not help to guess.
    pub fn unauthorized() -> Self {
        Self::new(ErrorCode::Unauthorized, "a valid token is required")
    }

    /// The refusal with a header.
    #[must_use]
    pub fn with_header(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some((name, HeaderValue::from_static(value))), ..self }
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        let code = self.code.http_status().and_then(|code| StatusCode::from_u16(code).ok());
        self.status.or(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The response with its JSON body. The id of the request is drawn from `random`.
    pub fn into_response(self, random: Random) -> Response<String> {
        let head = self.head();
        let body = ErrorBody {
            error: ErrorObject {
                code: self.code,
                message: self.message,
                request_id: format!("req_{}", Ulid(random.draw())),
                details: self.details,
            },
        };
        let text = serde_json::to_string(&body).expect("an error body has only string keys");
        head.map(|()| text)
    }

    /// The status and the headers of the response.
    pub fn head(&self) -> Response<()> {
        let status = self.status();
        let mut response = Response::new(());
        *response.status_mut() = status;
        let headers: &mut HeaderMap = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if let Some((name, value)) = &self.header {
            headers.insert(name, value.clone());
        }
        response
    }
}

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::NotReady => {
                let message = "the signing keys are not loaded yet";
                Self::later(ErrorCode::ServiceUnavailable, message, 5)
            }
            AuthError::Invalid(_) | AuthError::UnknownKey => Self::unauthorized(),
        }
    }
}
