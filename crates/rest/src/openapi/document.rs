//! The OpenAPI document, rendered from the operations.

use heartline_protocol::ErrorCode;
use serde_json::{Map, Value, json};

use super::operation::{Access, Content, Operation, Parameter};
use super::schemas::{page_of, reference, schemas};

const DESCRIPTION: &str = "The REST interface of a Heartline node. \
    A success is the object itself; a list is `{\"items\":[…],\"next_cursor\":…}`; \
    an error is `{\"error\":{…}}` with a code that shows whether to retry. \
    Every 429 and 503 has `Retry-After`. \
    Live messages arrive over the WebSocket at `/v1/ws` (subprotocol `heartline.v1`).";

/// The whole document.
pub(super) fn render(operations: &[Operation]) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = describe(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Heartline",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "The tokens of the WebSocket: `sub` is the user, and a `scope` \
                        that contains `service` makes it the application's own back end.",
                },
            },
        },
    })
}

fn describe(operation: &Operation) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [tag(operation.path)],
        "responses": responses(operation),
    });
    let in_path = operation.path_names().map(path_parameter);
    let parameters: Vec<_> =
        in_path.chain(operation.parameters.iter().map(|kind| parameter(*kind))).collect();
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(schema) = operation.body {
        let content = json!({ "application/json": { "schema": reference(schema) } });
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    match operation.access {
        Access::Open => described["security"] = json!([]),
        Access::Token => described["security"] = json!([{ "token": [] }]),
        Access::Service => {
            described["security"] = json!([{ "token": [] }]);
            described["description"] = "Needs a token whose scope contains `service`.".into();
        }
    }
    described
}

fn tag(path: &str) -> &'static str {
    match path.trim_start_matches("/v1/").split('/').next() {
        Some("chats") => "chats",
        Some("users") => "users",
        Some("contacts") => "contacts",
        Some("presence") => "presence",
        Some("push") => "push",
        Some("admin") => "admin",
        _ => "operating",
    }
}

fn responses(operation: &Operation) -> Value {
    let mut responses = Map::new();
    for response in &operation.responses {
        let (media_type, schema) = match response.content {
            Content::Nothing => {
                let described = json!({ "description": response.meaning });
                responses.insert(response.status.to_string(), described);
                continue;
            }
            Content::Schema(name) => ("application/json", reference(name)),
            Content::Page(name) => ("application/json", page_of(name)),
            Content::Object => ("application/json", json!({ "type": "object" })),
            Content::Text(media_type) => (media_type, json!({ "type": "string" })),
        };
        let content = json!({ media_type: { "schema": schema } });
        let described = json!({ "description": response.meaning, "content": content });
        responses.insert(response.status.to_string(), described);
    }
    let refusals = operation.refusals();
    for group in refusals.chunk_by(|one, other| one.0 == other.0) {
        let codes: Vec<_> = group.iter().map(|(_, code)| *code).collect();
        responses.insert(group[0].0.to_string(), refusal(group[0].0, &codes));
    }
    responses.into()
}

/// An error response, with its codes also in a machine-readable form.
fn refusal(status: u16, codes: &[ErrorCode]) -> Value {
    let sentences: Vec<_> = codes.iter().map(|code| sentence(status, *code)).collect();
    let names: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let mut refusal = json!({
        "description": sentences.join(" "),
        "x-error-codes": names,
        "content": { "application/json": { "schema": reference("Error") } },
    });
    let header = |description: &str, schema: Value| json!({ "required": true, "description": description, "schema": schema });
    if matches!(status, 429 | 503) {
        let seconds = json!({ "type": "integer", "minimum": 1 });
        refusal["headers"] =
            json!({ "Retry-After": header("Seconds to wait before the next attempt.", seconds) });
    }
    if status == 401 {
        let text = json!({ "type": "string" });
        refusal["headers"] = json!({ "WWW-Authenticate": header("`Bearer`.", text) });
    }
    refusal
}

fn sentence(status: u16, code: ErrorCode) -> String {
    let meaning = match code {
        ErrorCode::InvalidMessage => match status {
            408 => "the body did not arrive in time",
            415 => "the body is not JSON",
            _ => "a field, a parameter or the body is malformed; `details.field` names it",
        },
        ErrorCode::Unauthorized => "the token is missing or invalid",
        ErrorCode::Forbidden => "the role or the scope does not allow it",
        ErrorCode::NotAMember => "the chat does not exist, or the caller is not a member",
        ErrorCode::NotFound => "the object does not exist",
        ErrorCode::Conflict => {
            "the request conflicts with the stored state; `details.reason` gives the reason"
        }
        ErrorCode::MessageTooLarge => "the content or the body is too large",
        ErrorCode::RateLimited => "the rate limit is exceeded",
        ErrorCode::SlowConsumer => "the client reads too slowly",
        ErrorCode::ServerBusy => "too many requests are under way",
        ErrorCode::ServiceUnavailable => {
            "the store or the signing keys are not available; `details.outcome` shows whether a \
             change may have been made"
        }
        ErrorCode::ChatHalted => "the chat rejects messages until an operator has repaired it",
        ErrorCode::InternalError => "a bug in the server",
    };
    format!("`{}`: {meaning}.", code.as_str())
}

fn path_parameter(name: &'static str) -> Value {
    let schema = match name {
        "chat_id" => "ChatId",
        "connection_id" => "ConnectionId",
        _ => "UserId",
    };
    json!({ "name": name, "in": "path", "required": true, "schema": reference(schema) })
}

fn parameter(kind: Parameter) -> Value {
    let (name, place, description, schema) = match kind {
        Parameter::Limit => {
            ("limit", "query", "The maximum number of items of a page.", reference("Limit"))
        }
        Parameter::Cursor => {
            let description = "The start of the page: `next_cursor` of the previous page.";
            ("cursor", "query", description, json!({ "type": "string" }))
        }
        Parameter::Before => {
            let description = "The last messages before this sequence.";
            ("before_sequence", "query", description, reference("Sequence"))
        }
        Parameter::After => {
            let description = "The first messages after this sequence.";
            ("after_sequence", "query", description, reference("Sequence"))
        }
        Parameter::Key => {
            let description = "Within 24 hours the same key of the same user on the same path \
                returns the first result; with another body the error is `CONFLICT`.";
            ("Idempotency-Key", "header", description, reference("IdempotencyKey"))
        }
    };
    json!({ "name": name, "in": place, "description": description, "schema": schema })
}
