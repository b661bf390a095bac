//! Loads a session from the store. If the store has lost it, restores it from the archive and the
//! copies of other nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::ErrorCode;
use tokio::time::{sleep, timeout};
use tracing::{error, info};

use crate::room::archive::{Archived, PartyArchiveError};
use crate::room::parts::Parts;
use crate::room::store::{Commit, Committed, Revision, Stored};
use crate::room::task::OPERATION_DEADLINE;
use crate::room::unavailable::Unavailable;
use crate::room::uuid::random_uuid;
use crate::value::entry::Entry;
use crate::value::error::PartyError;
use crate::value::fields::{Changes, from_fields, to_fields};
use crate::value::operation::{Context, Lifecycle, Operation, apply};
use crate::value::session::{PartySession, Status};

/// The time that other nodes have to offer their copies.
const OFFERS_WITHIN: Duration = Duration::from_secs(1);

/// The deadline of the archive if the store has the session too.
const ARCHIVED_WITHIN: Duration = Duration::from_secs(2);

/// The pause before the lock is tried again.
const LOCKED_PAUSE: Duration = Duration::from_millis(100);

/// The result of loading a session.
pub(crate) enum Restored {
    /// The session as the store has it, or as it ended.
    Found(PartySession),
    /// The store had lost it: it was restored in a new incarnation.
    Lost(PartySession),
    /// No such session exists.
    Unknown,
}

/// A copy of a session for other nodes.
pub(crate) fn copy(session: &PartySession) -> Stored {
    Stored { revision: Revision::of(session), fields: to_fields(session) }
}

/// Loads a session. A node that has a copy passes it as `known`: a store that is behind the copy
/// has lost commits.
pub(crate) async fn load(
    parts: &Arc<Parts>,
    session_id: &str,
    known: Option<&Arc<PartySession>>,
) -> Result<Restored, PartyError> {
    let deadline = parts.clock.now() + OPERATION_DEADLINE;
    // Only a store that several nodes share can keep a copy for the others.
    let mut to_offer = parts.store.recovery.as_ref().zip(known);
    loop {
        let stored = read(parts, session_id).await?;
        // A node without a copy cannot know whether a shared store has lost commits, except from
        // the archive.
        let is_certain = known.is_some() || !parts.store.is_shared();
        if is_certain && let Some(session) = current(stored.as_ref(), known, None)? {
            return Ok(Restored::Found(session));
        }
        if let Some((recovery, known)) = to_offer.take() {
            // Before the lock: if this node stops while it holds the lock, the next holder finds
            // this node's copy. Before the archive is read, which may be slow: a node that restores
            // the session meanwhile requests copies, and this room offers none until it has read
            // the archive.
            let offered = recovery.offer(session_id, copy(known)).await;
            offered.map_err(Unavailable::Store)?;
        }
        let archived = match archived(parts, session_id, stored.is_some()).await {
            Ok(archived) => archived,
            // A session that is known or stored continues; a new one is rejected.
            Err(error) if known.is_some() || stored.is_some() => {
                info!(%error, session_id, "reading the party archive failed, using the stored session");
                None
            }
            Err(error) => return Err(Unavailable::Archive(error).into()),
        };
        if let Some(session) = current(stored.as_ref(), known, archived.as_ref())? {
            return Ok(Restored::Found(session));
        }
        if archived.is_none() && known.is_none() && stored.is_none() {
            return Ok(Restored::Unknown);
        }
        let over = archived.as_ref().filter(|archived| archived.status == Status::Ended);
        // If the store still has an older state, other nodes would continue with that state, so the
        // end is committed to the store below.
        if let Some(over) = over.filter(|_| stored.is_none()) {
            return decode(&over.stored).map(Restored::Found);
        }
        let (restorer, id) = (Arc::clone(parts), session_id.to_owned());
        let attempt = restore_alone(restorer, id, known.cloned(), archived);
        // A separate task: a caller that gives up must not leave the lock behind.
        let attempted = parts.tasks.spawn("party restore", attempt).await;
        if let Some(restored) = attempted.map_err(Unavailable::RestoreFailed)?? {
            return Ok(restored);
        }
        if parts.clock.now() >= deadline {
            return Err(Unavailable::Restoring.into());
        }
    }
}

/// Restores a session while no other node does. None if another node is restoring it, or has
/// changed the store meanwhile.
async fn restore_alone(
    parts: Arc<Parts>,
    session_id: String,
    known: Option<Arc<PartySession>>,
    archived: Option<Archived>,
) -> Result<Option<Restored>, PartyError> {
    let Some(recovery) = &parts.store.recovery else {
        return restore(&parts, &session_id, known.as_ref(), archived).await;
    };
    let owner = random_uuid(parts.random);
    let restored = match recovery.lock(&session_id, &owner).await {
        Ok(true) => restore(&parts, &session_id, known.as_ref(), archived).await,
        Ok(false) => {
            sleep(LOCKED_PAUSE).await;
            return Ok(None);
        }
        // The lock may be held although the result was lost, so it is released below.
        Err(error) => Err(Unavailable::Store(error).into()),
    };
    if let Err(error) = recovery.unlock(&session_id, &owner).await {
        info!(%error, "releasing the lock of a session failed, it expires by itself");
    }
    restored
}

async fn read(parts: &Parts, session_id: &str) -> Result<Option<Stored>, PartyError> {
    Ok(parts.store.sessions.load(session_id).await.map_err(Unavailable::Store)?)
}

/// Reads a session from the archive, with a short deadline if the store has it too.
async fn archived(
    parts: &Parts,
    session_id: &str,
    is_stored: bool,
) -> Result<Option<Archived>, PartyArchiveError> {
    let reading = parts.archive.get(session_id);
    if !is_stored {
        return reading.await;
    }
    timeout(ARCHIVED_WITHIN, reading).await.map_err(PartyArchiveError::new)?
}

/// The stored session, if it is not older than the known and the archived one.
fn current(
    stored: Option<&Stored>,
    known: Option<&Arc<PartySession>>,
    archived: Option<&Archived>,
) -> Result<Option<PartySession>, PartyError> {
    let Some(stored) = stored else { return Ok(None) };
    let known = known.map(|known| Revision::of(known));
    let newest = known.max(archived.map(|archived| archived.stored.revision));
    if newest > Some(stored.revision) { Ok(None) } else { decode(stored).map(Some) }
}

/// Commits the newest of all copies to the store, under the lock. None if another node has changed
/// the store meanwhile.
async fn restore(
    parts: &Parts,
    session_id: &str,
    known: Option<&Arc<PartySession>>,
    archived: Option<Archived>,
) -> Result<Option<Restored>, PartyError> {
    // The previous holder of the lock may have restored the session.
    let stored = read(parts, session_id).await?;
    if let Some(session) = current(stored.as_ref(), known, archived.as_ref())? {
        return Ok(Some(Restored::Found(session)));
    }
    let newest = newest_copy(parts, session_id, stored.as_ref(), known, archived).await?;
    let Some(newest) = newest else { return Ok(Some(Restored::Unknown)) };
    let session = decode(&newest)?;
    let context = Context {
        now_ms: parts.now_ms(),
        actor: None,
        correlation_id: None,
        limits: parts.config.limits,
    };
    let operation = Operation::Lifecycle(Lifecycle::Restore { seen: None });
    let applied = apply(&session, &operation, &context)?;
    let commit_id = random_uuid(parts.random);
    let (after, entry) = match applied.entry(commit_id.as_str()) {
        Some(entry) => (applied.after, entry),
        None => ended_again(session, commit_id),
    };
    let committed = parts.store.sessions.commit(whole(stored.as_ref(), &after, &entry)).await;
    match committed.map_err(Unavailable::Store)? {
        Committed::Done if after.status == Status::Ended => Ok(Some(Restored::Found(after))),
        Committed::Done => Ok(Some(Restored::Lost(after))),
        Committed::Conflict(_) => Ok(None),
    }
}

/// The copy to restore: the newest of all, or the archived one if the session has ended.
async fn newest_copy(
    parts: &Parts,
    session_id: &str,
    stored: Option<&Stored>,
    known: Option<&Arc<PartySession>>,
    archived: Option<Archived>,
) -> Result<Option<Stored>, PartyError> {
    if archived.as_ref().is_some_and(|archived| archived.status == Status::Ended) {
        return Ok(archived.map(|archived| archived.stored));
    }
    let mut copies: Vec<Stored> = stored.into_iter().cloned().collect();
    copies.extend(archived.map(|archived| archived.stored));
    copies.extend(known.map(|known| copy(known)));
    if let Some(recovery) = &parts.store.recovery {
        recovery.ask(session_id).await.map_err(Unavailable::Store)?;
        sleep(OFFERS_WITHIN).await;
        let offered = recovery.offered(session_id).await;
        copies.extend(offered.map_err(Unavailable::Store)?);
    }
    Ok(copies.into_iter().max_by_key(|copy| copy.revision))
}

/// The end of a session, to be committed again: a node that does not know of the end would continue
/// with the older state in the store.
fn ended_again(ended: PartySession, commit_id: String) -> (PartySession, Entry) {
    let version = ended.version + 1;
    let entry = Entry { commit_id, version, facts: Vec::new(), remembered: Vec::new() };
    (PartySession { version, ..ended }, entry)
}

/// A commit that replaces the whole stored session.
fn whole(stored: Option<&Stored>, session: &PartySession, entry: &Entry) -> Commit {
    let mut changes = Changes::all(session);
    let kept: BTreeSet<&String> = changes.set.iter().map(|(name, _)| name).collect();
    let former = stored.iter().flat_map(|stored| &stored.fields).map(|(name, _)| name);
    // Fields of members that only the older state has are removed.
    let gone = former.filter(|name| !kept.contains(name)).cloned().collect();
    changes.remove = gone;
    Commit {
        session_id: session.id.clone(),
        expected: stored.map(|stored| stored.revision),
        revision: Revision::of(session),
        changes,
        entry: entry.to_log_json().into(),
        entries_kept: 1,
        is_active: session.status == Status::Active,
    }
}

fn decode(stored: &Stored) -> Result<PartySession, PartyError> {
    from_fields(stored.fields.iter().cloned()).map_err(|reason| {
        error!(%reason, "decoding a stored session failed");
        PartyError::new(ErrorCode::InternalError, "The session cannot be read")
    })
}
