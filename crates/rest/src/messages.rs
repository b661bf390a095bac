//! `/v1/chats/{chat_id}/messages`: pages of messages, and sending without a socket.

use axum::Json;
use axum::extract::State;
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{LogRead, NewMessage, Position};
use heartline_gateway::Refusal;
use heartline_gateway::config::Limits;
use heartline_protocol::limits::{
    CONTENT_BYTES_MAX, CONTENT_TYPE_BYTES_MAX, DURABILITY_DEADLINE, SYNC_PAGE_BYTES_MAX,
};
use heartline_protocol::rest::{Page, SendMessage, SentMessage};
use heartline_protocol::server_frame::Message;
use heartline_protocol::{ChatId, ErrorCode, UserId};
use heartline_routing::rate::{Allowances, Rate};
use http::StatusCode;

use super::body::JsonBody;
use super::caller::Caller;
use super::cursor::{self, List};
use super::path::PathId;
use super::query::Query;
use super::store::as_refusal;
use super::{Api, Refused, field};

/// The rate limit of each user for sends without a socket, equal to that of a socket.
#[derive(Debug, Clone)]
pub(super) struct SendRates(Allowances<UserId>);

impl SendRates {
    pub(super) fn new(limits: &Limits) -> Self {
        Self(Allowances::new(Rate::per_second(limits.send_rate, limits.send_burst)))
    }
}

pub(super) async fn page(
    State(api): State<Api>,
    caller: Caller,
    PathId(chat_id): PathId<ChatId>,
    query: Query,
) -> Result<Json<Page<Message>>, Refused> {
    let list = List::messages(&caller.user_id, chat_id);
    let position = position(&query, &list)?;
    let read = LogRead {
        chat_id,
        reader: caller.viewer().cloned(),
        position,
        limit: query.limit()?,
        content_bytes_max: SYNC_PAGE_BYTES_MAX,
    };
    let deadline = api.gateway.clock().now() + DURABILITY_DEADLINE;
    let page = api.chat.catch_up.page(read, deadline).await.map_err(as_refusal)?;
    let next = match position {
        Position::After(_) => page.messages.last().map(|last| Position::After(last.sequence)),
        Position::Before(_) => page.messages.first().map(|first| Position::Before(first.sequence)),
    };
    let next = next.filter(|_| page.has_more);
    let next_cursor = next.map(|next| list.cursor(&write_position(next)));
    Ok(Json(Page { items: page.messages, next_cursor }))
}

pub(super) async fn send(
    State(api): State<Api>,
    State(send_rates): State<SendRates>,
    caller: Caller,
    PathId(chat_id): PathId<ChatId>,
    JsonBody(body): JsonBody<SendMessage>,
) -> Result<(StatusCode, Json<SentMessage>), Refused> {
    // The same order as on a socket: validate, rate, queue, breaker.
    let message = new_message(&caller, chat_id, body)?;
    let now = api.gateway.clock().now();
    if !caller.is_service {
        send_rates.0.take(&caller.user_id, now).map_err(|seconds| {
            let message = "the send rate limit is exceeded";
            Refusal::later(ErrorCode::RateLimited, message, seconds)
        })?;
    }
    let submitted = api.chat.ingest.submit(message, now + DURABILITY_DEADLINE);
    let receipt = submitted.map_err(as_refusal)?.outcome().await.map_err(as_refusal)?;
    let status = if receipt.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let message = (*receipt.message).clone();
    Ok((status, Json(SentMessage { message, duplicate: receipt.duplicate })))
}

/// The start of a page as the request gives it; the newest messages by default.
fn position(query: &Query, list: &List<'_>) -> Result<Position, Refusal> {
    let before = query.number("before_sequence")?.map(Position::Before);
    let after = query.number("after_sequence")?.map(Position::After);
    let cursor = query.text("cursor")?.map(|cursor| {
        let position = list.position(&cursor)?;
        read_position(&position).ok_or_else(cursor::foreign)
    });
    let given = [before, after, cursor.transpose()?];
    if given.iter().flatten().count() > 1 {
        let field = if after.is_some() { "after_sequence" } else { "before_sequence" };
        let message = "give one of before_sequence, after_sequence and cursor";
        return Err(field::wrong(field, message));
    }
    Ok(given.into_iter().flatten().next().unwrap_or(Position::Before(u64::MAX)))
}

fn write_position(position: Position) -> String {
    match position {
        Position::After(sequence) => format!("after {sequence}"),
        Position::Before(sequence) => format!("before {sequence}"),
    }
}

fn read_position(text: &str) -> Option<Position> {
    let (direction, sequence) = text.split_once(' ')?;
    let sequence = sequence.parse().ok()?;
    match direction {
        "after" => Some(Position::After(sequence)),
        "before" => Some(Position::Before(sequence)),
        _ => None,
    }
}

fn new_message(caller: &Caller, chat_id: ChatId, body: SendMessage) -> Result<NewMessage, Refusal> {
    let SendMessage { client_message_id, content, content_type, sender_id } = body;
    if sender_id.is_some() && !caller.is_service {
        let message = "only a token whose scope contains service may send for other users";
        return Err(field::refused("sender_id", ErrorCode::Forbidden, message));
    }
    if content.is_empty() {
        return Err(field::wrong("content", "content must not be empty"));
    }
    if content.len() > CONTENT_BYTES_MAX {
        let message = format!("content may have at most {CONTENT_BYTES_MAX} bytes");
        return Err(field::refused("content", ErrorCode::MessageTooLarge, message));
    }
    let content_type = content_type.unwrap_or_else(|| DEFAULT_CONTENT_TYPE.to_owned());
    if !(1..=CONTENT_TYPE_BYTES_MAX).contains(&content_type.len()) {
        let message = format!("content_type must be 1 to {CONTENT_TYPE_BYTES_MAX} bytes");
        return Err(field::wrong("content_type", message));
    }
    let sender_id = sender_id.unwrap_or_else(|| caller.user_id.clone());
    Ok(NewMessage { chat_id, sender_id, client_message_id, content, content_type, origin: None })
}
