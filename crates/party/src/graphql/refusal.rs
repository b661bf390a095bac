//! How refusals are written: each with its message, a code of the protocol, and when it is worth
//! trying again.

use async_graphql::{ErrorExtensionValues, Response, ServerError, Value};
use bytes::Bytes;
use heartline_protocol::ErrorCode;
use serde::Serialize;

use crate::value::error::PartyError;

/// After how long it is worth asking again for what cannot be done now.
const RETRY_AFTER_SECONDS: u64 = 1;

/// A refusal before anything was run.
pub(super) fn server_error(error: &PartyError) -> ServerError {
    let mut refusal = ServerError::new(&error.message, None);
    refusal.extensions = Some(extensions(error));
    refusal
}

/// The list of errors of a document that is not run.
pub(super) fn encode_errors(mut errors: Vec<ServerError>) -> Bytes {
    errors.iter_mut().for_each(complete);
    encode(&errors)
}

/// Errors without data: nothing was run, but the document itself is right.
pub(super) fn encode_without_data(mut errors: Vec<ServerError>) -> Bytes {
    #[derive(Serialize)]
    struct Refused {
        errors: Vec<ServerError>,
    }
    errors.iter_mut().for_each(complete);
    encode(&Refused { errors })
}

/// What came of a document that was run.
pub(super) fn encode_response(mut response: Response) -> Bytes {
    // The engine looks into some variables only when it has begun, and then finds nothing to do.
    let is_own = |error: &ServerError| error.source::<PartyError>().is_some();
    if response.data == Value::Null && !response.errors.iter().any(is_own) {
        return encode_without_data(response.errors);
    }
    response.errors.iter_mut().for_each(complete);
    encode(&response)
}

/// Gives an error its code. Whatever is not a refusal of the party's own is the engine's, about
/// what the caller wrote.
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
    let is_passing = [ErrorCode::ServiceUnavailable, ErrorCode::ServerBusy].contains(&error.code);
    let usual = is_passing.then_some(RETRY_AFTER_SECONDS);
    if let Some(seconds) = error.retry_after_seconds.or(usual) {
        extensions.set("retry_after_seconds", Value::from(seconds));
    }
    extensions
}

fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("a reply has no key that is not text").into()
}
