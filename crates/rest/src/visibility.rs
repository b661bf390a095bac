//! `/v1/presence/visibility`: the visibility of the caller's presence.

use axum::Json;
use axum::extract::State;
use heartline_protocol::rest::VisibilitySetting;

use super::body::JsonBody;
use super::caller::Caller;
use super::edit::Edits;
use super::{Api, Refused, store};

pub(super) async fn read(
    State(api): State<Api>,
    caller: Caller,
) -> Result<Json<VisibilitySetting>, Refused> {
    let chosen = store::read(api.chat.privacy.visibility(&caller.user_id)).await?;
    Ok(Json(VisibilitySetting { visibility: chosen.unwrap_or(api.default_visibility) }))
}

pub(super) async fn choose(
    State(edits): State<Edits>,
    Caller { user_id, .. }: Caller,
    JsonBody(setting): JsonBody<VisibilitySetting>,
) -> Result<Json<VisibilitySetting>, Refused> {
    edits.set_visibility(user_id, setting.visibility).await?;
    Ok(Json(setting))
}
