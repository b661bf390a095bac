//! The ids in the path of a request.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use heartline_gateway::Refusal;
use heartline_protocol::{ErrorCode, InvalidId};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::{Refused, field};

/// The id of a path with one.
#[derive(Debug)]
pub(super) struct PathId<T>(pub(super) T);

/// The ids of a path with two, in order.
#[derive(Debug)]
pub(super) struct PathIds<A, B>(pub(super) A, pub(super) B);

impl<T, S> FromRequestParts<S> for PathId<T>
where
    T: FromStr<Err = InvalidId>,
    S: Send + Sync,
{
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let text: String = texts(parts, state).await?;
        Ok(Self(parse(&text)?))
    }
}

impl<A, B, S> FromRequestParts<S> for PathIds<A, B>
where
    A: FromStr<Err = InvalidId>,
    B: FromStr<Err = InvalidId>,
    S: Send + Sync,
{
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (first, second): (String, String) = texts(parts, state).await?;
        Ok(Self(parse(&first)?, parse(&second)?))
    }
}

async fn texts<T, S>(parts: &mut Parts, state: &S) -> Result<T, Refusal>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    let path = Path::<T>::from_request_parts(parts, state).await;
    let Path(texts) =
        path.map_err(|error| Refusal::new(ErrorCode::InvalidMessage, error.to_string()))?;
    Ok(texts)
}

fn parse<T: FromStr<Err = InvalidId>>(text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|error: InvalidId| field::wrong(error.kind, error.to_string()))
}
