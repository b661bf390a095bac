//! The shapes that every REST answer shares.

use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;
use crate::server_frame::ErrorDetails;

/// The body of every refused HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The refusal.
    pub error: ErrorObject,
}

/// What was refused and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// What went wrong.
    pub code: ErrorCode,
    /// The same for a person.
    pub message: String,
    /// Names this request in the server's log.
    pub request_id: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
}
