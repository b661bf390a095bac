//! `POST /v1/push`: an event to all devices of some users.

use axum::Json;
use axum::extract::State;
use heartline_fanout::{Push, PushError};
use heartline_gateway::Refusal;
use heartline_protocol::{ErrorCode, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use super::body::JsonBody;
use super::caller::Service;
use super::{Api, Refused, field};

#[derive(Debug, Deserialize)]
pub(super) struct PushBody {
    user_ids: Vec<UserId>,
    name: String,
    data: Value,
}

#[derive(Debug, Serialize)]
pub(super) struct Pushed {
    /// Connections of this node in whose outbox it is, plus leases on other nodes.
    connections: usize,
}

pub(super) async fn push(
    State(api): State<Api>,
    _: Service,
    JsonBody(body): JsonBody<PushBody>,
) -> Result<Json<Pushed>, Refused> {
    let push = Push { user_ids: body.user_ids, name: body.name, data: body.data };
    let connections = api.fanout.push(push).await.map_err(refusal)?;
    Ok(Json(Pushed { connections }))
}

fn refusal(error: PushError) -> Refusal {
    let message = error.to_string();
    match error {
        PushError::Users => field::refused("user_ids", ErrorCode::InvalidMessage, message),
        PushError::Name => field::refused("name", ErrorCode::InvalidMessage, message),
        PushError::Data => field::refused("data", ErrorCode::MessageTooLarge, message),
        PushError::Directory(source) => {
            warn!(error = %source, "reading routes for a push failed");
            Refusal::later(ErrorCode::ServiceUnavailable, message, 5)
        }
    }
}
