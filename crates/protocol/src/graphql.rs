//! GraphQL requests and replies, over sockets and HTTP.

use bytes::Bytes;
use serde::Deserialize;

/// A GraphQL operation that a client requests.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphQlRequest {
    /// The text of the document.
    pub query: String,
    /// The name of the operation to run, if the document has several.
    #[serde(default)]
    pub operation_name: Option<String>,
    /// An object of variables, or null.
    #[serde(default)]
    pub variables: serde_json::Value,
}

/// One reply to an operation, encoded as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A result: an object with `data`, `errors` or both.
    Next(Bytes),
    /// The operation was not run, or the subscription was rejected: an array of errors. It is the
    /// only reply.
    Error(Bytes),
}
