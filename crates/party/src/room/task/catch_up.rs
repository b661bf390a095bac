//! Commits of other nodes: folded into the copy, or read with the whole session.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};

use super::Room;
use crate::room::restore::{self, Restored};
use crate::room::store::Revision;
use crate::room::unavailable::Unavailable;
use crate::value::entry::Entry;
use crate::value::error::PartyError;
use crate::value::log::EventLog;
use crate::value::session::PartySession;

impl Room {
    pub(super) async fn on_commit(&mut self, revision: Revision, entry: Option<&Bytes>) {
        if revision <= Revision::of(&self.session) {
            return;
        }
        let is_next = revision.incarnation == self.session.incarnation
            && revision.version == self.session.version + 1;
        let entry = entry.filter(|_| is_next).and_then(|json| Entry::from_json(json).ok());
        let is_applied = entry.is_some_and(|entry| self.fold(&entry));
        if !is_applied && let Err(error) = self.catch_up().await {
            warn!(%error, session_id = %self.session.id, "reading a commit of another node failed");
        }
    }

    /// Folds a commit of another node into the copy; false if it does not follow from the copy.
    pub(super) fn fold(&mut self, entry: &Entry) -> bool {
        match self.session.after(entry) {
            Ok(session) => {
                self.apply(Arc::new(session), entry);
                true
            }
            Err(error) => {
                debug!(%error, session_id = %self.session.id, "commit does not fold, reading the whole session");
                false
            }
        }
    }

    pub(super) async fn compare(&mut self) {
        let session_id = [self.session.id.clone()];
        let own = Revision::of(&self.session);
        let found = match self.parts.store.sessions.revisions(&session_id).await {
            Ok(found) => found.into_iter().next().flatten(),
            Err(error) => return debug!(%error, "comparing a session with the store failed"),
        };
        if found != Some(own)
            && self.session.exists()
            && let Err(error) = self.catch_up().await
        {
            warn!(%error, session_id = %self.session.id, "catching up with the store failed");
        }
    }

    pub(super) async fn catch_up_before(&mut self, deadline: Instant) -> Result<(), PartyError> {
        match timeout_at(deadline, self.catch_up()).await {
            Ok(done) => done,
            Err(_) => Err(Unavailable::Contended.into()),
        }
    }

    /// Brings the copy to the state of the store.
    pub(super) async fn catch_up(&mut self) -> Result<(), PartyError> {
        let known = self.session.exists().then(|| Arc::clone(&self.session));
        let entries = match &known {
            Some(known) => self.entries_after(Revision::of(known)).await?,
            None => None,
        };
        if entries.as_ref().is_some_and(|entries| entries.iter().all(|entry| self.fold(entry))) {
            return Ok(());
        }
        let session = match restore::load(&self.parts, &self.session.id, known.as_ref()).await? {
            Restored::Found(session) => session,
            Restored::Lost(session) => {
                info!(session_id = %session.id, "session restored after a loss");
                self.parts.metrics.full_sync("restored");
                session
            }
            Restored::Unknown => return Ok(()),
        };
        if Revision::of(&session) != Revision::of(&self.session) {
            let log = self.log_of(&session).await?;
            self.replace(session, log);
        }
        Ok(())
    }

    /// The commits after a revision; none if not all of them are kept.
    async fn entries_after(&self, after: Revision) -> Result<Option<Vec<Entry>>, PartyError> {
        let entries = self.parts.store.sessions.entries(&self.session.id, after).await;
        let entries = entries.map_err(Unavailable::Store)?;
        let decoded = |entries: Vec<Bytes>| -> Option<Vec<Entry>> {
            entries.iter().map(|json| Entry::from_json(json).ok()).collect()
        };
        Ok(entries.and_then(decoded))
    }

    /// The log of a session that was read as a whole. Without it, operations with a known
    /// correlation id would be performed again, and the next commit would truncate the stored log.
    async fn log_of(&self, session: &PartySession) -> Result<EventLog, PartyError> {
        let kept = self.parts.store.sessions.log(&session.id, session.incarnation).await;
        let kept = kept.map_err(Unavailable::Store)?;
        let entries = kept.iter().filter_map(|json| Entry::from_json(json).ok());
        let mut log = EventLog::new(self.parts.config.log);
        // Other nodes may have committed since the session was read.
        let led_here = entries.filter(|entry| entry.version <= session.version);
        led_here.for_each(|entry| log.append(&entry));
        Ok(log)
    }
}
