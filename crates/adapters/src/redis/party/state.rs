//! One session: its state, its log and the step from one state to the next.

use bytes::Bytes;
use heartline_party::{Commit, Committed, PartyStoreError, Revision, Stored};
use redis::{Value, cmd};
use tracing::debug;

use super::{RedisPartyStore, revision};
use crate::redis::client::typed;
use crate::redis::failure::RedisFailure;

impl RedisPartyStore {
    pub(super) async fn load_session(
        &self,
        session_id: &str,
    ) -> Result<Option<Stored>, PartyStoreError> {
        let key = self.keys.session(session_id)?.state();
        self.stored_at(&key).await
    }

    pub(super) async fn entries_after(
        &self,
        session_id: &str,
        after: Revision,
    ) -> Result<Option<Vec<Bytes>>, PartyStoreError> {
        let known = [after.incarnation.to_string(), after.version.to_string()];
        self.entries_of(session_id, &known).await
    }

    pub(super) async fn log_of(
        &self,
        session_id: &str,
        incarnation: u64,
    ) -> Result<Vec<Bytes>, PartyStoreError> {
        let entries = self.entries_of(session_id, &[incarnation.to_string()]).await?;
        Ok(entries.unwrap_or_default())
    }

    async fn entries_of(
        &self,
        session_id: &str,
        known: &[String],
    ) -> Result<Option<Vec<Bytes>>, PartyStoreError> {
        let keys = self.keys.session(session_id)?;
        let (script, keys) = (&self.scripts.entries, [keys.state(), keys.events()]);
        let entries: Option<Vec<Vec<u8>>> = self.client.script(script, &keys, known).await?;
        Ok(entries.map(|entries| entries.into_iter().map(Bytes::from).collect()))
    }

    pub(super) async fn commit_step(&self, commit: Commit) -> Result<Committed, PartyStoreError> {
        let keys = self.keys.session(&commit.session_id)?;
        let names = commit.changes.set.iter().map(|(name, _)| name).chain(&commit.changes.remove);
        refuse_own_field(names)?;
        let call = self.scripts.commit_call(&keys, &commit);
        let committing = self.run(&self.scripts.commit, call);
        let is_apart = self.client.config().is_cluster();
        let session_ids = std::slice::from_ref(&commit.session_id);
        let reply = if is_apart && commit.is_active {
            // An active session must be listed, so it is listed even if the commit may fail.
            let (reply, listed) = tokio::join!(committing, self.give_signs(session_ids));
            note(listed);
            reply
        } else {
            committing.await
        };
        let committed = reply.and_then(committed)?;
        if is_apart && !commit.is_active && committed == Committed::Done {
            note(self.unlist(&commit.session_id).await);
        }
        Ok(committed)
    }

    pub(super) async fn remove_session(
        &self,
        session_id: &str,
        revision: Revision,
    ) -> Result<bool, PartyStoreError> {
        let keys = self.keys.session(session_id)?;
        let call = self.scripts.remove_call(&keys, session_id, revision);
        let is_removed = typed::<u8>(self.run(&self.scripts.remove, call).await?)? == 1;
        if is_removed && self.client.config().is_cluster() {
            note(self.unlist(session_id).await);
        }
        Ok(is_removed)
    }

    /// The session in a hash; none if it is not there.
    pub(super) async fn stored_at(&self, key: &str) -> Result<Option<Stored>, PartyStoreError> {
        let mut command = cmd("HGETALL");
        let fields: Vec<(Vec<u8>, Vec<u8>)> = self.client.query(command.arg(key)).await?;
        let mut revision = None;
        let mut stored = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let name = String::from_utf8(name)
                .map_err(|_| PartyStoreError::new("the name of a field is not UTF-8"))?;
            if name == revision::FIELD {
                revision = revision::read(&value);
            } else {
                stored.push((name, value));
            }
        }
        Ok(revision.map(|revision| Stored { revision, fields: stored }))
    }
}

/// Rejects a field whose name is that of the revision.
pub(super) fn refuse_own_field<'name>(
    mut names: impl Iterator<Item = &'name String>,
) -> Result<(), PartyStoreError> {
    if names.any(|name| name == revision::FIELD) {
        return Err(PartyStoreError::new("a session cannot have a field called revision"));
    }
    Ok(())
}

/// Logs a failed update of the active list. The next activity repairs the list.
fn note(listed: Result<(), RedisFailure>) {
    if let Err(failure) = listed {
        debug!(%failure, "the list of active sessions was not written");
    }
}

fn committed(reply: Value) -> Result<Committed, RedisFailure> {
    let mut parts: Vec<Value> = typed(reply)?;
    let present = (parts.len() == 2).then(|| parts.pop()).flatten();
    let is_done = typed::<u8>(parts.pop().unwrap_or(Value::Nil))? == 1;
    match present {
        None if is_done => Ok(Committed::Done),
        Some(present) if !is_done => {
            let present: Vec<u8> = typed(present)?;
            Ok(Committed::Conflict(revision::read(&present)))
        }
        _ => Err(RedisFailure::unexpected("a commit")),
    }
}
