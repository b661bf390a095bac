//! `/v1/users`: the profiles of users.

use axum::Json;
use axum::extract::State;
use heartline_durability::Profile;
use heartline_durability::people::DISPLAY_NAME_CHARACTERS_MAX;
use heartline_protocol::UserId;
use heartline_protocol::rest::{UpdateUser, User};
use http::StatusCode;

use super::body::JsonBody;
use super::caller::{Caller, Service};
use super::edit::Edits;
use super::path::PathId;
use super::{Api, Refused, field, store};

pub(super) async fn me(State(api): State<Api>, caller: Caller) -> Result<Json<User>, Refused> {
    profile(&api, &caller.user_id).await
}

pub(super) async fn update_me(
    State(edits): State<Edits>,
    Caller { user_id, .. }: Caller,
    JsonBody(UpdateUser { display_name }): JsonBody<UpdateUser>,
) -> Result<Json<User>, Refused> {
    if let Some(display_name) = &display_name {
        field::check_name("display_name", display_name, DISPLAY_NAME_CHARACTERS_MAX)?;
    }
    Ok(Json(user(edits.set_display_name(user_id, display_name).await?)))
}

pub(super) async fn read(
    State(api): State<Api>,
    _: Caller,
    PathId(user_id): PathId<UserId>,
) -> Result<Json<User>, Refused> {
    profile(&api, &user_id).await
}

pub(super) async fn delete(
    State(edits): State<Edits>,
    _: Service,
    PathId(user_id): PathId<UserId>,
) -> Result<StatusCode, Refused> {
    edits.delete_user(user_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn profile(api: &Api, user_id: &UserId) -> Result<Json<User>, Refused> {
    let profile = store::read(api.chat.people.profile(user_id)).await?;
    Ok(Json(user(profile)))
}

/// The public part of a profile. The last-seen time is presence, whose visibility is limited.
fn user(profile: Profile) -> User {
    let Profile { user_id, display_name, .. } = profile;
    User { user_id, display_name }
}
