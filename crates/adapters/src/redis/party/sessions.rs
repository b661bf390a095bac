//! Calls about many sessions: their revisions, and the list of active ones.

use std::time::Duration;

use heartline_party::{PartyStoreError, Revision};
use redis::{Pipeline, Value, cmd};

use super::{RedisPartyStore, revision};
use crate::redis::client::typed;
use crate::redis::failure::RedisFailure;
use crate::redis::scripts::ms;

/// The time after which a session without activity leaves the active list.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(60 * 60);

/// Sessions of one round trip. On a Cluster each may be in a different slot.
const TOGETHER: usize = 256;

impl RedisPartyStore {
    pub(super) async fn revisions_of(
        &self,
        session_ids: &[String],
    ) -> Result<Vec<Option<Revision>>, PartyStoreError> {
        let mut revisions = Vec::with_capacity(session_ids.len());
        for session_ids in session_ids.chunks(TOGETHER) {
            let mut pipeline = Pipeline::with_capacity(session_ids.len());
            for session_id in session_ids {
                let key = self.keys.session(session_id)?.state();
                pipeline.cmd("HGET").arg(key).arg(revision::FIELD);
            }
            for reply in self.client.pipe(&pipeline).await? {
                let text: Option<Vec<u8>> = typed(reply)?;
                revisions.push(text.and_then(|text| revision::read(&text)));
            }
        }
        Ok(revisions)
    }

    pub(super) async fn keep_sessions(
        &self,
        session_ids: &[String],
    ) -> Result<Vec<String>, PartyStoreError> {
        let (mut gone, mut failure) = (Vec::new(), None);
        for session_ids in session_ids.chunks(TOGETHER) {
            let mut pipeline = Pipeline::with_capacity(session_ids.len() * 2);
            for session_id in session_ids {
                let keys = self.keys.session(session_id)?;
                pipeline.cmd("PEXPIRE").arg(keys.state()).arg(ms(self.config.session_ttl));
                pipeline.cmd("PEXPIRE").arg(keys.events()).arg(ms(self.config.event_log_ttl));
            }
            let replies = self.client.pipe_each(&pipeline).await.into_iter().step_by(2);
            let mut kept = Vec::with_capacity(session_ids.len());
            for (session_id, reply) in session_ids.iter().zip(replies) {
                match reply.and_then(typed::<u8>) {
                    Ok(1) => kept.push(session_id.clone()),
                    Ok(_) => gone.push(session_id.clone()),
                    Err(error) => failure = Some(error),
                }
            }
            if !kept.is_empty() {
                failure = self.give_signs(&kept).await.err().or(failure);
            }
        }
        // On a Cluster one master may fail: the sessions of the others were kept nevertheless.
        match failure {
            Some(failure) => Err(failure.into()),
            None => Ok(gone),
        }
    }

    pub(super) async fn active_sessions(
        &self,
        limit: usize,
    ) -> Result<Vec<String>, PartyStoreError> {
        Ok(typed(self.ask_active(limit, &[]).await?)?)
    }

    /// Lists sessions as active now.
    pub(super) async fn give_signs(&self, session_ids: &[String]) -> Result<(), RedisFailure> {
        self.ask_active(0, session_ids).await.map(drop)
    }

    /// Removes a session from the list.
    pub(super) async fn unlist(&self, session_id: &str) -> Result<(), RedisFailure> {
        let mut command = cmd("ZREM");
        self.client.query::<Value>(command.arg(self.keys.active()).arg(session_id)).await.map(drop)
    }

    async fn ask_active(
        &self,
        limit: usize,
        session_ids: &[String],
    ) -> Result<Value, RedisFailure> {
        self.run(&self.scripts.active, self.scripts.active_call(limit, session_ids)).await
    }
}
