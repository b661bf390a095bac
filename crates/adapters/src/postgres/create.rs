//! Creating chats.

use std::collections::BTreeMap;

use heartline_durability::chats::GROUP_MEMBERS_MAX;
use heartline_durability::{Created, EditError, Idempotency, NewChat};
use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{ChatId, UserId};

use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{Id, get, kind_number, role_number};
use super::{chats, keys, users};

/// Creates a chat with this id, or returns the existing direct chat of the pair, or the first
/// result of the idempotency key.
pub(super) async fn create(
    mut connection: PooledConnection<'_>,
    new: &NewChat,
    idempotency: Option<&Idempotency>,
    chat_id: ChatId,
) -> Result<Result<Created, EditError>, Failure> {
    let members = [&new.creator_id].into_iter().chain(&new.member_ids);
    let keyed = idempotency.map(|idempotency| &idempotency.user_id);
    let is_full = new.member_ids.len() >= GROUP_MEMBERS_MAX;
    // A request beyond the limits creates no users.
    let names: Vec<&UserId> =
        if is_full { keyed.into_iter().collect() } else { members.chain(keyed).collect() };
    let named = users::named(&mut connection, &names).await?;
    connection.begin().await?;
    match keys::recall(&mut connection, idempotency).await? {
        Err(refusal) => return refuse(connection, refusal).await,
        Ok(Some(first)) => {
            connection.roll_back().await?;
            let members_version = first.members_version;
            return Ok(Ok(Created { chat: first.chat, is_new: false, members_version }));
        }
        Ok(None) => {}
    }
    if is_full {
        return refuse(connection, EditError::Full).await;
    }
    let (chat_id, is_new) = insert(&mut connection, new, &named, chat_id).await?;
    let whole = chats::find(&mut connection, chat_id).await?;
    let whole = whole.ok_or_else(|| Failure::again("the pair's chat has just gone"))?;
    let (chat, members_version) = (whole.chat, whole.members_version);
    keys::keep(&mut connection, idempotency, &chat, members_version).await?;
    connection.commit().await?;
    Ok(Ok(Created { chat, is_new, members_version }))
}

/// Rolls back a transaction and returns the refusal.
pub(super) async fn refuse<T>(
    mut connection: PooledConnection<'_>,
    refusal: EditError,
) -> Result<Result<T, EditError>, Failure> {
    connection.roll_back().await?;
    Ok(Err(refusal))
}

const INSERT: &str = "INSERT INTO chats (chat_id, kind, name, created_at, head_sequence,
        members_version, direct_low, direct_high)
    VALUES ($1, $2, $3, now_ms(), 0, 1, $4, $5)
    ON CONFLICT (direct_low, direct_high) WHERE direct_low IS NOT NULL DO NOTHING
    RETURNING chat_key";

const DIRECT: &str = "SELECT chat_id FROM chats WHERE direct_low = $1 AND direct_high = $2";

const INSERT_MEMBERS: &str = "INSERT INTO members (chat_key, user_key, role, join_order)
    SELECT $1, n.user_key, CASE WHEN n.place = 1 THEN $3::smallint ELSE $4::smallint END, n.place
    FROM unnest($2::bigint[]) WITH ORDINALITY AS n (user_key, place)";

/// Inserts the chat, unless it is a direct chat that exists. Returns its id, and whether it is new.
async fn insert(
    connection: &mut PooledConnection<'_>,
    new: &NewChat,
    named: &BTreeMap<UserId, i64>,
    chat_id: ChatId,
) -> Result<(ChatId, bool), Failure> {
    let key = |user_id: &UserId| {
        let key = named.get(user_id).copied();
        key.ok_or_else(|| Failure::rejected("a user who was inserted has no key"))
    };
    let members = [&new.creator_id].into_iter().chain(&new.member_ids);
    let members = members.map(key).collect::<Result<Vec<i64>, _>>()?;
    let (pair, creator_role) = match (new.kind, members.as_slice()) {
        (ChatKind::Direct, [one, other, ..]) => {
            (Some((*one.min(other), *one.max(other))), Role::Member)
        }
        (ChatKind::Direct, _) => (None, Role::Member),
        (ChatKind::Group, _) => (None, Role::Owner),
    };
    let (low, high) = (pair.map(|pair| pair.0), pair.map(|pair| pair.1));
    let kind = kind_number(new.kind);
    let made =
        connection.write(INSERT, &[&Id::from(chat_id), &kind, &new.name, &low, &high]).await?;
    let Some(made) = made.first() else {
        let rows = connection.query(DIRECT, &[&low, &high]).await?;
        let found = rows.first().ok_or_else(|| Failure::again("the pair's chat has just gone"))?;
        return Ok((super::rows::chat_id(found, 0)?, false));
    };
    let chat_key: i64 = get(made, 0)?;
    let (creator_role, role) = (role_number(creator_role), role_number(Role::Member));
    connection.write(INSERT_MEMBERS, &[&chat_key, &members, &creator_role, &role]).await?;
    Ok((chat_id, true))
}

const ADD_MEMBER: &str = "INSERT INTO members (chat_key, user_key, role, join_order)
    SELECT $1, $2, $3, coalesce((
        SELECT max(m.join_order) FROM members m WHERE m.chat_key = $1
    ), 0) + 1";

/// Adds a member to a locked chat; a later member has a higher `join_order`.
pub(super) async fn add_member(
    connection: &mut PooledConnection<'_>,
    chat_key: i64,
    user_key: i64,
    role: Role,
) -> Result<(), Failure> {
    connection.write(ADD_MEMBER, &[&chat_key, &user_key, &role_number(role)]).await.map(drop)
}
