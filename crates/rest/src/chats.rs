//! `/v1/chats`: create, list, read, rename and delete chats.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use heartline_durability::chats::{CHAT_NAME_CHARACTERS_MAX, GROUP_MEMBERS_MAX};
use heartline_durability::send_error::not_a_member;
use heartline_durability::{ChatEdit, ChatSummary, NewChat};
use heartline_gateway::Refusal;
use heartline_protocol::rest::{CreateChat, ListedChat, PAGE_ITEMS, Page, RenameChat};
use heartline_protocol::server_frame::{Chat, ChatKind};
use heartline_protocol::{ChatId, UserId};
use http::StatusCode;

use super::body::JsonBody;
use super::caller::Caller;
use super::cursor::{self, List};
use super::edit::Edits;
use super::idempotency::Key;
use super::path::PathId;
use super::query::Query;
use super::{Api, Refused, field, store};

/// The most members of all chats of a page together. A page with large groups ends early.
const LISTED_MEMBERS_MAX: usize = 5000;

/// The chats of one read for a list: the default page, and one more to know whether there is a next
/// page.
const CHATS_PER_READ: usize = PAGE_ITEMS + 1;

pub(super) async fn create(
    State(edits): State<Edits>,
    caller: Caller,
    key: Key,
    JsonBody(body): JsonBody<CreateChat>,
) -> Result<(StatusCode, Json<Chat>), Refused> {
    let idempotency = key.of(&caller.user_id, &body);
    let chat = new_chat(caller.user_id, body)?;
    let created = edits.create(chat, idempotency).await?;
    let status = if created.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(created.chat)))
}

pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    query: Query,
) -> Result<Json<Page<ListedChat>>, Refused> {
    let list = List::chats(&caller.user_id);
    let after = query.text("cursor")?.map(|cursor| list.position(&cursor)).transpose()?;
    let after = after.map(|position| position.parse()).transpose();
    let after = after.map_err(|_| cursor::foreign())?;
    let limit = query.limit()?;
    let found = found(&api, &caller.user_id, after, limit).await?;
    let shown = page_length(&found, limit);
    let has_more = shown < found.len();
    let mut items: Vec<_> = found.into_iter().take(shown).map(listed).collect();
    for ListedChat { chat, last_acked_sequence: acked, .. } in &mut items {
        let Chat { chat_id, head_sequence, .. } = chat;
        *acked = api.chat.lazy_writes.acked(&caller.user_id, *chat_id, *head_sequence, *acked);
    }
    let last = items.last().filter(|_| has_more);
    let next_cursor = last.map(|item| list.cursor(&item.chat.chat_id.to_string()));
    Ok(Json(Page { items, next_cursor }))
}

pub(super) async fn read(
    State(api): State<Api>,
    caller: Caller,
    PathId(chat_id): PathId<ChatId>,
) -> Result<Json<Chat>, Refused> {
    Ok(Json(visible(&api, &caller, chat_id).await?))
}

pub(super) async fn rename(
    State(edits): State<Edits>,
    caller: Caller,
    PathId(chat_id): PathId<ChatId>,
    JsonBody(RenameChat { name }): JsonBody<RenameChat>,
) -> Result<Json<Chat>, Refused> {
    if let Some(name) = &name {
        field::check_name("name", name, CHAT_NAME_CHARACTERS_MAX)?;
    }
    let rename = ChatEdit::Rename(name);
    Ok(Json(edits.edit(chat_id, caller.actor(), rename, None).await?.chat))
}

pub(super) async fn delete(
    State(edits): State<Edits>,
    caller: Caller,
    PathId(chat_id): PathId<ChatId>,
) -> Result<StatusCode, Refused> {
    edits.edit(chat_id, caller.actor(), ChatEdit::Delete, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A chat that the caller may see.
pub(super) async fn visible(api: &Api, caller: &Caller, chat_id: ChatId) -> Result<Chat, Refusal> {
    let found = store::read(api.chat.chats.chat(chat_id, caller.viewer())).await?;
    found.ok_or_else(|| store::as_refusal(not_a_member()))
}

/// Validates a chat to create. The creator and duplicates among the members are ignored.
fn new_chat(creator_id: UserId, body: CreateChat) -> Result<NewChat, Refusal> {
    let CreateChat { kind, name, member_ids } = body;
    let mut named = HashSet::from([creator_id.clone()]);
    let others = member_ids.into_iter().filter(|user_id| named.insert(user_id.clone()));
    let member_ids: Vec<_> = others.collect();
    match kind {
        ChatKind::Direct if member_ids.len() != 1 => {
            let message = "a direct chat is with exactly one other user";
            return Err(field::wrong("member_ids", message));
        }
        ChatKind::Direct if name.is_some() => {
            return Err(field::wrong("name", "a direct chat has no name"));
        }
        ChatKind::Group if member_ids.len() >= GROUP_MEMBERS_MAX => {
            let message = format!("a group has at most {GROUP_MEMBERS_MAX} members");
            return Err(field::wrong("member_ids", message));
        }
        ChatKind::Direct | ChatKind::Group => {}
    }
    if let Some(name) = &name {
        field::check_name("name", name, CHAT_NAME_CHARACTERS_MAX)?;
    }
    Ok(NewChat { kind, name, creator_id, member_ids })
}

/// The chats of a page, and at least one more if there are more. They are read in several steps, so
/// that one request does not read two hundred of the largest groups at once.
async fn found(
    api: &Api,
    user_id: &UserId,
    mut after: Option<ChatId>,
    limit: usize,
) -> Result<Vec<ChatSummary>, Refusal> {
    let mut found = Vec::new();
    while found.len() <= limit && page_length(&found, limit) == found.len() {
        let step = (limit + 1 - found.len()).min(CHATS_PER_READ);
        let more = store::read(api.chat.chats.chats_of(user_id, after, step)).await?;
        let is_last = more.len() < step;
        after = more.last().map(|summary| summary.chat.chat_id);
        found.extend(more);
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// The number of these chats that fit into one page, at least one.
fn page_length(found: &[ChatSummary], limit: usize) -> usize {
    let mut members = 0;
    let fits = |summary: &&ChatSummary| {
        members += summary.chat.members.len();
        members <= LISTED_MEMBERS_MAX
    };
    found.iter().take(limit).take_while(fits).count().max(1).min(found.len())
}

fn listed(summary: ChatSummary) -> ListedChat {
    let ChatSummary { chat, last_acked_sequence, last_message } = summary;
    ListedChat { chat, last_acked_sequence, last_message }
}
