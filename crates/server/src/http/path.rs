//! The id in a request's path, checked like any other.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use heartline_gateway::Refusal;
use heartline_protocol::{ErrorCode, InvalidId};
use http::request::Parts;

use super::Refused;

/// The one id that a path names.
#[derive(Debug)]
pub(super) struct PathId<T>(pub(super) T);

impl<T: FromStr<Err = InvalidId>, S: Send + Sync> FromRequestParts<S> for PathId<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let invalid = |message: String| Refusal::new(ErrorCode::InvalidMessage, message);
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|error| invalid(error.to_string()))?;
        Ok(Self(text.parse().map_err(|error: InvalidId| invalid(error.to_string()))?))
    }
}
