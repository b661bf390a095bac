//! Making chats.

use std::collections::BTreeMap;

use heartline_durability::chats::GROUP_MEMBERS_MAX;
use heartline_durability::{Created, EditError, Idempotency, NewChat};
use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{ChatId, UserId};

use super::failure::Failure;
use super::lease::Lease;
use super::rows::{Id, get, kind_number, role_number};
use super::{chats, keys, users};

/// Makes a chat under this id, or finds the pair's direct chat, or the result of the same key.
pub(super) async fn create(
    mut lease: Lease<'_>,
    new: &NewChat,
    idempotency: Option<&Idempotency>,
    chat_id: ChatId,
) -> Result<Result<Created, EditError>, Failure> {
    let members = [&new.creator_id].into_iter().chain(&new.member_ids);
    let keyed = idempotency.map(|idempotency| &idempotency.user_id);
    let is_full = new.member_ids.len() >= GROUP_MEMBERS_MAX;
    // Whoever asks for too much names nobody.
    let names: Vec<&UserId> =
        if is_full { keyed.into_iter().collect() } else { members.chain(keyed).collect() };
    let named = users::named(&mut lease, &names).await?;
    lease.begin().await?;
    match keys::recall(&mut lease, idempotency).await? {
        Err(refusal) => return refuse(lease, refusal).await,
        Ok(Some(first)) => {
            lease.roll_back().await?;
            let members_version = first.members_version;
            return Ok(Ok(Created { chat: first.chat, is_new: false, members_version }));
        }
        Ok(None) => {}
    }
    if is_full {
        return refuse(lease, EditError::Full).await;
    }
    let (chat_id, is_new) = insert(&mut lease, new, &named, chat_id).await?;
    let whole = chats::find(&mut lease, chat_id).await?;
    let whole = whole.ok_or_else(|| Failure::again("the pair's chat has just gone"))?;
    let (chat, members_version) = (whole.chat, whole.members_version);
    keys::keep(&mut lease, idempotency, &chat, members_version).await?;
    lease.commit().await?;
    Ok(Ok(Created { chat, is_new, members_version }))
}

/// Ends a transaction that comes to nothing.
pub(super) async fn refuse<T>(
    mut lease: Lease<'_>,
    refusal: EditError,
) -> Result<Result<T, EditError>, Failure> {
    lease.roll_back().await?;
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

/// Makes the chat, unless the pair has one. Answers its id, and whether it is new.
async fn insert(
    lease: &mut Lease<'_>,
    new: &NewChat,
    named: &BTreeMap<UserId, i64>,
    chat_id: ChatId,
) -> Result<(ChatId, bool), Failure> {
    let key = |user_id: &UserId| {
        let key = named.get(user_id).copied();
        key.ok_or_else(|| Failure::rejected("a user who was named has no key"))
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
    let made = lease.write(INSERT, &[&Id::from(chat_id), &kind, &new.name, &low, &high]).await?;
    let Some(made) = made.first() else {
        let rows = lease.query(DIRECT, &[&low, &high]).await?;
        let found = rows.first().ok_or_else(|| Failure::again("the pair's chat has just gone"))?;
        return Ok((super::rows::chat_id(found, 0)?, false));
    };
    let chat_key: i64 = get(made, 0)?;
    let (creator_role, role) = (role_number(creator_role), role_number(Role::Member));
    lease.write(INSERT_MEMBERS, &[&chat_key, &members, &creator_role, &role]).await?;
    Ok((chat_id, true))
}

const ADD_MEMBER: &str = "INSERT INTO members (chat_key, user_key, role, join_order)
    SELECT $1, $2, $3, coalesce((
        SELECT max(m.join_order) FROM members m WHERE m.chat_key = $1
    ), 0) + 1";

/// Adds a member to a chat that is locked; who comes later has a higher `join_order`.
pub(super) async fn add_member(
    lease: &mut Lease<'_>,
    chat_key: i64,
    user_key: i64,
    role: Role,
) -> Result<(), Failure> {
    lease.write(ADD_MEMBER, &[&chat_key, &user_key, &role_number(role)]).await.map(drop)
}
