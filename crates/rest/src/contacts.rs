//! `/v1/contacts`: the users whom the caller has added as contacts.

use axum::Json;
use axum::extract::State;
use heartline_gateway::Refusal;
use heartline_protocol::UserId;
use heartline_protocol::rest::{Contact, Page};
use http::StatusCode;

use super::caller::Caller;
use super::cursor::{self, List};
use super::edit::Edits;
use super::path::PathId;
use super::query::Query;
use super::{Api, Refused, field, store};

pub(super) async fn list(
    State(api): State<Api>,
    Caller { user_id, .. }: Caller,
    query: Query,
) -> Result<Json<Page<Contact>>, Refused> {
    let list = List::contacts(&user_id);
    let after = query.text("cursor")?.map(|cursor| list.position(&cursor)).transpose()?;
    let after: Option<UserId> =
        after.map(|position| position.parse()).transpose().map_err(|_| cursor::foreign())?;
    let limit = query.limit()?;
    // One more than the limit is read, to know whether there is a next page.
    let found = api.chat.contacts.contacts(&user_id, after.as_ref(), limit + 1);
    let mut found = store::read(found).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| has_more);
    let next_cursor = last.map(|last| list.cursor(last.as_str()));
    let items = found.into_iter().map(|user_id| Contact { user_id }).collect();
    Ok(Json(Page { items, next_cursor }))
}

pub(super) async fn put(
    State(edits): State<Edits>,
    Caller { user_id, .. }: Caller,
    PathId(contact_id): PathId<UserId>,
) -> Result<StatusCode, Refused> {
    check_other(&user_id, &contact_id)?;
    edits.put_contact(user_id, contact_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn remove(
    State(edits): State<Edits>,
    Caller { user_id, .. }: Caller,
    PathId(contact_id): PathId<UserId>,
) -> Result<StatusCode, Refused> {
    check_other(&user_id, &contact_id)?;
    edits.remove_contact(user_id, contact_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn check_other(user_id: &UserId, contact_id: &UserId) -> Result<(), Refusal> {
    if user_id == contact_id {
        return Err(field::wrong("user_id", "a user cannot be their own contact"));
    }
    Ok(())
}
