//! Reading chats, their members and the watermarks of the members.

use heartline_durability::{ChatSummary, Watermark};
use heartline_fanout::Audience;
use heartline_protocol::server_frame::{Chat, ChatMember};
use heartline_protocol::{ChatId, UserId};
use tokio_postgres::Row;

use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{self, Id, get, head, message_columns, number, row_limit};

/// A chat `c` with its members, for [`whole`].
macro_rules! whole_columns {
    () => {
        concat!(
            "c.chat_key, c.members_version, c.chat_id, c.kind, c.name, c.created_at, ",
            head!(),
            ", p.user_ids, p.roles"
        )
    };
}

/// The members of a chat `c` as `p`, in the order in which they joined.
macro_rules! members {
    () => {
        "CROSS JOIN LATERAL (
            SELECT coalesce(array_agg(u.user_id ORDER BY m.join_order), '{}') AS user_ids,
                coalesce(array_agg(m.role ORDER BY m.join_order), '{}') AS roles
            FROM members m CROSS JOIN LATERAL (
                SELECT k.user_id FROM users k WHERE k.user_key = m.user_key LIMIT 1
            ) u
            WHERE m.chat_key = c.chat_key
        ) p"
    };
}

/// A chat with its key and version in the database.
#[derive(Debug, Clone)]
pub(super) struct WholeChat {
    /// The key of the chat in the database.
    pub(super) key: i64,
    /// The version of the membership.
    pub(super) members_version: u64,
    /// The chat with its members.
    pub(super) chat: Chat,
}

/// The chats with these ids and their members, in the order of their ids.
pub(super) async fn find_all(
    connection: &mut PooledConnection<'_>,
    chat_ids: &[Id],
) -> Result<Vec<WholeChat>, Failure> {
    const FIND: &str = concat!(
        "SELECT ",
        whole_columns!(),
        " FROM chats c ",
        members!(),
        " WHERE c.chat_id = ANY ($1) ORDER BY c.chat_id"
    );
    let rows = connection.query(FIND, &[&chat_ids]).await?;
    rows.iter().map(whole).collect()
}

/// A chat with its members; none when there is no such chat.
pub(super) async fn find(
    connection: &mut PooledConnection<'_>,
    chat_id: ChatId,
) -> Result<Option<WholeChat>, Failure> {
    Ok(find_all(connection, &[chat_id.into()]).await?.pop())
}

/// Locks chats until the end of the transaction, in the order of their ids, as every transaction
/// does.
pub(super) async fn lock(
    connection: &mut PooledConnection<'_>,
    chat_ids: &[Id],
) -> Result<(), Failure> {
    const LOCK: &str =
        "SELECT 1 FROM chats WHERE chat_id = ANY ($1) ORDER BY chat_id FOR NO KEY UPDATE";
    connection.query(LOCK, &[&chat_ids]).await.map(drop)
}

fn whole(row: &Row) -> Result<WholeChat, Failure> {
    let users = rows::user_ids(row, 7)?.into_iter().zip(rows::roles(row, 8)?);
    Ok(WholeChat {
        key: get(row, 0)?,
        members_version: number(row, 1)?,
        chat: Chat {
            chat_id: rows::chat_id(row, 2)?,
            kind: rows::kind(row, 3)?,
            name: get(row, 4)?,
            members: users.map(|(user_id, role)| ChatMember { user_id, role }).collect(),
            created_at: rows::timestamp(row, 5)?,
            head_sequence: number(row, 6)?,
        },
    })
}

/// A chat, if the viewer may see it: a member, or the server itself.
pub(super) async fn visible(
    mut connection: PooledConnection<'_>,
    chat_id: ChatId,
    viewer: Option<&UserId>,
) -> Result<Option<Chat>, Failure> {
    let chat = find(&mut connection, chat_id).await?.map(|whole| whole.chat);
    Ok(chat.filter(|chat| {
        viewer.is_none_or(|viewer| chat.members.iter().any(|member| member.user_id == *viewer))
    }))
}

/// The chats of a user in the order of their ids.
pub(super) async fn of_user(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
    after: Option<ChatId>,
    limit: usize,
) -> Result<Vec<ChatSummary>, Failure> {
    const OF_USER: &str = concat!(
        "SELECT ",
        whole_columns!(),
        ", c.last_acked_sequence, ",
        message_columns!(),
        " FROM (
            SELECT k.*, own.last_acked_sequence
            FROM users u
            CROSS JOIN LATERAL (
                SELECT m.chat_key, m.last_acked_sequence FROM members m
                WHERE m.user_key = u.user_key OFFSET 0
            ) own
            CROSS JOIN LATERAL (
                SELECT * FROM chats WHERE chats.chat_key = own.chat_key LIMIT 1
            ) k
            WHERE u.user_id = $1 AND ($2::uuid IS NULL OR k.chat_id > $2)
            ORDER BY k.chat_id LIMIT $3
        ) c ",
        members!(),
        " LEFT JOIN LATERAL (
            SELECT k.* FROM messages k WHERE k.chat_key = c.chat_key
            ORDER BY k.sequence DESC LIMIT 1
        ) m ON true
        LEFT JOIN LATERAL (
            SELECT k.user_id FROM users k WHERE k.user_key = m.sender_key LIMIT 1
        ) u ON true
        ORDER BY c.chat_id"
    );
    let after = after.map(Id::from);
    let rows = connection.query(OF_USER, &[&user_id.as_str(), &after, &row_limit(limit)]).await?;
    let summary = |row: &Row| {
        let chat = whole(row)?.chat;
        let has_message = get::<Option<i64>>(row, 10)?.is_some();
        let last_message = has_message.then(|| rows::message(row, 10, chat.chat_id)).transpose()?;
        Ok(ChatSummary { chat, last_acked_sequence: number(row, 9)?, last_message })
    };
    rows.iter().map(summary).collect()
}

/// The members of a chat; none if there is no such chat.
pub(super) async fn audience(
    mut connection: PooledConnection<'_>,
    chat_id: ChatId,
) -> Result<Option<Audience>, Failure> {
    const AUDIENCE: &str = concat!(
        "SELECT c.members_version, p.user_ids FROM chats c ",
        members!(),
        " WHERE c.chat_id = $1"
    );
    let rows = connection.query(AUDIENCE, &[&Id::from(chat_id)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let user_ids = rows::user_ids(row, 1)?.into();
    Ok(Some(Audience { members_version: number(row, 0)?, user_ids }))
}

/// The watermark of each member; none if the viewer is not a member.
pub(super) async fn watermarks(
    mut connection: PooledConnection<'_>,
    chat_id: ChatId,
    viewer: &UserId,
) -> Result<Option<Vec<Watermark>>, Failure> {
    const WATERMARKS: &str = "SELECT u.user_id, m.last_acked_sequence
        FROM chats c
        CROSS JOIN LATERAL (
            SELECT * FROM members k WHERE k.chat_key = c.chat_key OFFSET 0
        ) m
        CROSS JOIN LATERAL (
            SELECT k.user_id FROM users k WHERE k.user_key = m.user_key LIMIT 1
        ) u
        WHERE c.chat_id = $1 ORDER BY m.join_order";
    let rows = connection.query(WATERMARKS, &[&Id::from(chat_id)]).await?;
    let watermark = |row: &Row| {
        let (user_id, last_acked_sequence) = (rows::user_id(row, 0)?, number(row, 1)?);
        Ok(Watermark { user_id, chat_id, last_acked_sequence })
    };
    let watermarks = rows.iter().map(watermark).collect::<Result<Vec<_>, _>>()?;
    let is_member = watermarks.iter().any(|watermark| watermark.user_id == *viewer);
    Ok(is_member.then_some(watermarks))
}
