//! The encoding of replies and errors. An error has a message, a code of the protocol, and the time
//! after which to retry.

use async_graphql::{ErrorExtensionValues, Response, ServerError, Value};
use bytes::Bytes;
use heartline_protocol::ErrorCode;
use serde::Serialize;

use crate::value::error::PartyError;

/// The time after which to retry a request that cannot be served now.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An error of a request that was not run.
pub(super) fn server_error(error: &PartyError) -> ServerError {
    let mut refusal = ServerError::new(&error.message, None);
    refusal.extensions = Some(extensions(error));
    refusal
}

/// Encodes the errors of a document that was not run.
pub(super) fn encode_errors(mut errors: Vec<ServerError>) -> Bytes {
    errors.iter_mut().for_each(complete);
    encode(&errors)
}

/// Encodes errors without data: nothing was run, but the document itself is valid.
pub(super) fn encode_without_data(mut errors: Vec<ServerError>) -> Bytes {
    #[derive(Serialize)]
    struct Refused {
        errors: Vec<ServerError>,
    }
    errors.iter_mut().for_each(complete);
    encode(&Refused { errors })
}

/// Encodes the response of a document that was run.
pub(super) fn encode_response(mut response: Response) -> Bytes {
    // The engine validates some variables only while it runs the document.
    let is_own = |error: &ServerError| error.source::<PartyError>().is_some();
    if response.data == Value::Null && !response.errors.iter().any(is_own) {
        return encode_without_data(response.errors);
    }
    response.errors.iter_mut().for_each(complete);
    encode(&response)
}

/// Adds the code to an error. An error that is not a [`PartyError`] is from the GraphQL engine, and
/// concerns the caller's document.
fn complete(error: &mut ServerError) {
    if error.extensions.as_ref().is_some_and(|known| known.get("code").is_some()) {
        return;
    }
    error.extensions = Some(match error.source::<PartyError>() {
        Some(refusal) => extensions(refusal),
        None => extensions(&PartyError::new(ErrorCode::InvalidMessage, String::new())),
    });
}

fn extensions(error: &PartyError) -> ErrorExtensionValues {
    let mut extensions = ErrorExtensionValues::default();
    extensions.set("code", error.code.as_str());
    let is_temporary = [ErrorCode::ServiceUnavailable, ErrorCode::ServerBusy].contains(&error.code);
    let default = is_temporary.then_some(RETRY_AFTER_SECONDS);
    if let Some(seconds) = error.retry_after_seconds.or(default) {
        extensions.set("retry_after_seconds", Value::from(seconds));
    }
    extensions
}

fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("a reply has no key that is not text").into()
}
