//! `/v1/chats/{chat_id}/members`, `/leave` and `/delivery`: the members of a chat, their roles and
//! their watermarks.

use axum::Json;
use axum::extract::State;
use heartline_durability::send_error::not_a_member;
use heartline_durability::{Actor, ChatEdit, Watermark};
use heartline_protocol::rest::{AddMember, Delivery, Page, SetRole};
use heartline_protocol::server_frame::ChatMember;
use heartline_protocol::{ChatId, UserId};
use http::StatusCode;

use super::body::JsonBody;
use super::caller::Caller;
use super::edit::Edits;
use super::idempotency::Key;
use super::path::{PathId, PathIds};
use super::{Api, Refused, chats, privacy, store};

pub(super) async fn add(
    State(edits): State<Edits>,
    caller: Caller,
    PathId(chat_id): PathId<ChatId>,
    key: Key,
    JsonBody(body): JsonBody<AddMember>,
) -> Result<(StatusCode, Json<ChatMember>), Refused> {
    let idempotency = key.of(&caller.user_id, &body);
    let AddMember { user_id, role } = body;
    let add = ChatEdit::Add { user_id: user_id.clone(), role };
    let edited = edits.edit(chat_id, caller.actor(), add, idempotency).await?;
    let status = if edited.has_changed { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(ChatMember { user_id, role })))
}

pub(super) async fn set_role(
    State(edits): State<Edits>,
    caller: Caller,
    PathIds(chat_id, user_id): PathIds<ChatId, UserId>,
    JsonBody(SetRole { role }): JsonBody<SetRole>,
) -> Result<Json<ChatMember>, Refused> {
    let set_role = ChatEdit::SetRole { user_id: user_id.clone(), role };
    edits.edit(chat_id, caller.actor(), set_role, None).await?;
    Ok(Json(ChatMember { user_id, role }))
}

pub(super) async fn remove(
    State(edits): State<Edits>,
    caller: Caller,
    PathIds(chat_id, user_id): PathIds<ChatId, UserId>,
) -> Result<StatusCode, Refused> {
    edits.edit(chat_id, caller.actor(), ChatEdit::Remove { user_id }, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn leave(
    State(edits): State<Edits>,
    Caller { user_id, .. }: Caller,
    PathId(chat_id): PathId<ChatId>,
) -> Result<StatusCode, Refused> {
    // The caller leaves itself, also if its token has the scope `service`.
    let leave = ChatEdit::Remove { user_id: user_id.clone() };
    edits.edit(chat_id, Actor::User(user_id), leave, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn delivery(
    State(api): State<Api>,
    caller: Caller,
    PathId(chat_id): PathId<ChatId>,
) -> Result<Json<Page<Delivery>>, Refused> {
    let chat = chats::visible(&api, &caller, chat_id).await?;
    // The port reads as a member; a service reads as the first one.
    let first = || chat.members.into_iter().next().map(|member| member.user_id);
    let viewer = caller.viewer().cloned().or_else(first);
    let gone = || store::as_refusal(not_a_member());
    let viewer = viewer.ok_or_else(gone)?;
    let found = store::read(api.chat.chats.watermarks(chat_id, &viewer)).await?;
    let watermarks = found.ok_or_else(gone)?;
    // A watermark reveals when a user was online, so the visibility of presence applies to it.
    let shown = if caller.is_service {
        vec![true; watermarks.len()]
    } else {
        let user_ids = watermarks.iter().map(|watermark| &watermark.user_id);
        privacy::may_see(&api, &caller.user_id, user_ids).await?
    };
    let items = watermarks.into_iter().zip(shown).map(|(watermark, is_shown)| {
        let Watermark { user_id, last_acked_sequence: stored, .. } = watermark;
        let lazy_writes = &api.chat.lazy_writes;
        let last_acked_sequence = lazy_writes.acked(&user_id, chat_id, chat.head_sequence, stored);
        // A zero is omitted, so that a hidden user looks like one who has acknowledged nothing.
        let has_value = caller.is_service || user_id == viewer || last_acked_sequence > 0;
        let last_acked_sequence = (is_shown && has_value).then_some(last_acked_sequence);
        Delivery { user_id, last_acked_sequence }
    });
    Ok(Json(Page { items: items.collect(), next_cursor: None }))
}
