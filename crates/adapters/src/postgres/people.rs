//! Users: display names, last-seen times, watermarks and deletion.

use std::collections::BTreeMap;

use heartline_durability::{Edited, Profile, Watermark};
use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{Timestamp, UserId};
use tokio_postgres::Row;

use super::chats::{self, WholeChat};
use super::edit::{end, raise_versions, remove_members, set_role, set_roles};
use super::failure::Failure;
use super::pooled_connection::PooledConnection;
use super::rows::{Id, get, head, milliseconds, signed, some_timestamp};
use super::users;
use heartline_durability::chat_rules;

/// Rows that one transaction writes.
pub(super) const NOTES_MAX: usize = 1000;

/// A user's profile; empty for an unknown user.
pub(super) async fn profile(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
) -> Result<Profile, Failure> {
    const PROFILE: &str = "SELECT display_name, last_seen FROM users WHERE user_id = $1";
    let rows = connection.query(PROFILE, &[&user_id.as_str()]).await?;
    read_profile(rows.first(), user_id)
}

fn read_profile(row: Option<&Row>, user_id: &UserId) -> Result<Profile, Failure> {
    let user_id = user_id.clone();
    let Some(row) = row else {
        return Ok(Profile { user_id, display_name: None, last_seen: None });
    };
    Ok(Profile { user_id, display_name: get(row, 0)?, last_seen: some_timestamp(row, 1)? })
}

/// Sets the display name of a user.
pub(super) async fn set_display_name(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
    display_name: Option<&str>,
) -> Result<Profile, Failure> {
    const SET: &str = "INSERT INTO users (user_id, display_name) VALUES ($1, $2)
        ON CONFLICT (user_id) DO UPDATE SET display_name = excluded.display_name
        RETURNING display_name, last_seen";
    let rows = connection.write(SET, &[&user_id.as_str(), &display_name]).await?;
    read_profile(rows.first(), user_id)
}

/// The latest time of each user, in the order of their ids: every transaction writes the rows of
/// several users in this order.
pub(super) fn latest(seen: Vec<(UserId, Timestamp)>) -> Vec<(UserId, Timestamp)> {
    let mut latest = BTreeMap::new();
    for (user_id, at) in seen {
        let held = latest.entry(user_id).or_insert(at);
        *held = at.max(*held);
    }
    latest.into_iter().collect()
}

/// Raises last-seen times, never above the time of the database server.
pub(super) async fn record_last_seen(
    mut connection: PooledConnection<'_>,
    seen: &[(UserId, Timestamp)],
) -> Result<(), Failure> {
    const RECORD: &str = "INSERT INTO users (user_id, last_seen)
        SELECT n.user_id, least(n.last_seen, now_ms())
        FROM unnest($1::text[], $2::bigint[]) AS n (user_id, last_seen)
        ON CONFLICT (user_id) DO UPDATE SET last_seen = excluded.last_seen
            WHERE users.last_seen IS NULL OR users.last_seen < excluded.last_seen";
    let user_ids: Vec<&str> = seen.iter().map(|(user_id, _)| user_id.as_str()).collect();
    let times: Vec<i64> = seen.iter().map(|(_, at)| milliseconds(*at)).collect();
    connection.write(RECORD, &[&user_ids, &times]).await.map(drop)
}

/// Raises watermarks, each clamped to its chat's head. The rows are locked in their order, so that
/// nodes that write the same members do not deadlock.
pub(super) async fn record_watermarks(
    mut connection: PooledConnection<'_>,
    watermarks: &[Watermark],
) -> Result<(), Failure> {
    const RECORD: &str = concat!(
        "WITH wanted AS MATERIALIZED (
            SELECT c.chat_key, u.user_key,
                max(least(n.last_acked_sequence, ",
        head!(),
        ")) AS last_acked_sequence
            FROM unnest($1::uuid[], $2::text[], $3::bigint[])
                AS n (chat_id, user_id, last_acked_sequence)
            CROSS JOIN LATERAL (
                SELECT k.chat_key, k.head_sequence FROM chats k
                WHERE k.chat_id = n.chat_id LIMIT 1
            ) c
            CROSS JOIN LATERAL (
                SELECT k.user_key FROM users k WHERE k.user_id = n.user_id LIMIT 1
            ) u
            GROUP BY c.chat_key, u.user_key
        ), locked AS MATERIALIZED (
            SELECT m.chat_key, m.user_key, w.last_acked_sequence
            FROM wanted w JOIN members m
                ON m.chat_key = w.chat_key AND m.user_key = w.user_key
                AND m.last_acked_sequence < w.last_acked_sequence
            ORDER BY m.chat_key, m.user_key FOR NO KEY UPDATE OF m
        )
        UPDATE members m SET last_acked_sequence = l.last_acked_sequence
        FROM locked l WHERE m.chat_key = l.chat_key AND m.user_key = l.user_key
            AND m.last_acked_sequence < l.last_acked_sequence"
    );
    let chat_ids: Vec<Id> = watermarks.iter().map(|watermark| watermark.chat_id.into()).collect();
    let user_ids: Vec<&str> =
        watermarks.iter().map(|watermark| watermark.user_id.as_str()).collect();
    let acked: Vec<i64> =
        watermarks.iter().map(|watermark| signed(watermark.last_acked_sequence)).collect();
    connection.write(RECORD, &[&chat_ids, &user_ids, &acked]).await.map(drop)
}

/// Deletes a user: profile, memberships and contacts at once, the content of messages later. The
/// number of statements does not depend on the number of chats, because all of them are locked
/// meanwhile.
pub(super) async fn delete(
    mut connection: PooledConnection<'_>,
    user_id: &UserId,
) -> Result<Vec<Edited>, Failure> {
    let Some(user_key) = users::key(&mut connection, user_id).await? else { return Ok(Vec::new()) };
    connection.begin().await?;
    let chats = lock_chats(&mut connection, user_key).await?;
    let edited = leave(&mut connection, chats, user_id).await?;
    for sql in [
        // Messages that the user sends after coming back must stay, so the newest sequence of each
        // chat is recorded. The deletion of content begins again, because it does not follow
        // sequences.
        "INSERT INTO erasures (user_key, chat_key, last_sequence)
        SELECT s.user_key, s.chat_key, coalesce((
            SELECT m.sequence FROM messages m WHERE m.chat_key = s.chat_key
            ORDER BY m.sequence DESC LIMIT 1
        ), 0)
        FROM speakers s WHERE s.user_key = $1
        ON CONFLICT (user_key, chat_key) DO UPDATE SET last_sequence = excluded.last_sequence,
            done_client_message_id = ''",
        "UPDATE users SET display_name = NULL, last_seen = NULL, visibility = NULL
        WHERE user_key = $1",
        "DELETE FROM contacts WHERE user_key = $1",
        "DELETE FROM contacts WHERE contact_key = $1",
        "DELETE FROM idempotency_keys WHERE user_key = $1",
    ] {
        connection.write(sql, &[&user_key]).await?;
    }
    connection.commit().await?;
    Ok(edited)
}

/// The chats of a user, locked.
async fn lock_chats(
    connection: &mut PooledConnection<'_>,
    user_key: i64,
) -> Result<Vec<WholeChat>, Failure> {
    const CHATS: &str = "SELECT c.chat_id FROM members m
        CROSS JOIN LATERAL (
            SELECT k.chat_id FROM chats k WHERE k.chat_key = m.chat_key LIMIT 1
        ) c
        WHERE m.user_key = $1";
    let rows = connection.query(CHATS, &[&user_key]).await?;
    let chat_ids = rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<Id>, _>>()?;
    chats::lock(connection, &chat_ids).await?;
    chats::find_all(connection, &chat_ids).await
}

/// Removes a deleted user from chats. The other member of a direct chat may create a new one.
async fn leave(
    connection: &mut PooledConnection<'_>,
    chats: Vec<WholeChat>,
    user_id: &UserId,
) -> Result<Vec<Edited>, Failure> {
    let (mut ended, mut left, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut heirs, mut inherited) = (Vec::new(), Vec::new());
    let mut edited = Vec::new();
    for WholeChat { key, members_version, mut chat } in chats {
        let members_version = members_version + 1;
        // The user may have been removed while this transaction waited for the locks.
        if !chat.members.iter().any(|member| member.user_id == *user_id) {
            continue;
        }
        if chat.members.len() == 1 {
            ended.push(key);
        } else {
            left.push(key);
            if chat.kind == ChatKind::Direct {
                pairs.push(key);
            }
            if let Some(heir) = chat_rules::heir(&chat, user_id) {
                set_role(&mut chat, &heir, Role::Owner);
                inherited.push(key);
                heirs.push(heir);
            }
            chat.members.retain(|member| member.user_id != *user_id);
        }
        let removed = vec![user_id.clone()];
        edited.push(Edited { chat, members_version, removed, has_changed: true });
    }
    end(connection, &ended).await?;
    set_roles(connection, &inherited, &heirs.iter().collect::<Vec<_>>(), Role::Owner).await?;
    const PART: &str = "UPDATE chats SET direct_low = NULL, direct_high = NULL
        WHERE chat_key = ANY ($1)";
    connection.write(PART, &[&pairs]).await?;
    remove_members(connection, &left, user_id).await?;
    raise_versions(connection, &left).await?;
    Ok(edited)
}
