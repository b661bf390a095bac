//! The JSON body of a request: limits of type, size and time, and errors that name the field.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use heartline_gateway::Refusal;
use heartline_protocol::ErrorCode;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{Refused, field};

/// The most bytes of a body: a push to 1000 users with long ids.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// The time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a request, decoded from JSON.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        if !is_json(request.headers()) {
            let message = "the body must be JSON: send Content-Type: application/json";
            return Err(Refusal::malformed(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into());
        }
        let bytes = read(request.into_body()).await?;
        let mut reader = serde_json::Deserializer::from_slice(&bytes);
        let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            match serde_json::from_slice::<IgnoredAny>(&bytes) {
                Ok(_) => wrong_field(&error.path().to_string(), &error.inner().to_string()),
                Err(broken) => not_json(&broken),
            }
        })?;
        reader.end().map_err(|error| not_json(&error))?;
        Ok(Self(value))
    }
}

fn not_json(error: &serde_json::Error) -> Refusal {
    Refusal::new(ErrorCode::InvalidMessage, format!("the body is not JSON: {error}"))
}

/// The error with the name of the field: its path, or for a missing field the name that serde
/// quotes.
fn wrong_field(path: &str, message: &str) -> Refusal {
    let missing = || message.strip_prefix("missing field `")?.split('`').next();
    let field = if path == "." { missing() } else { Some(path) };
    match field {
        Some(field) => field::wrong(field, message),
        None => Refusal::new(ErrorCode::InvalidMessage, message),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

async fn read(body: Body) -> Result<bytes::Bytes, Refusal> {
    let whole = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect());
    match whole.await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("a body may have at most {BODY_BYTES_MAX} bytes");
            Err(Refusal::new(ErrorCode::MessageTooLarge, message))
        }
        Ok(Err(_)) => Err(Refusal::new(ErrorCode::InvalidMessage, "the body could not be read")),
        Err(_) => {
            let message = "the body did not arrive in time";
            Err(Refusal::malformed(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}
