//! Locks and copies for restoring a lost session.

use heartline_party::{LOCK_LIFETIME, PartyStoreError, Stored};
use redis::{Value, cmd};

use super::RedisPartyStore;
use super::state::refuse_own_field;
use crate::redis::scripts::ms;

impl RedisPartyStore {
    pub(super) async fn take_lock(
        &self,
        session_id: &str,
        owner: &str,
    ) -> Result<bool, PartyStoreError> {
        let key = self.keys.session(session_id)?.lock();
        let mut command = cmd("SET");
        command.arg(key).arg(owner).arg("NX").arg("PX").arg(ms(LOCK_LIFETIME));
        let taken: Option<String> = self.client.query(&command).await?;
        Ok(taken.is_some())
    }

    pub(super) async fn release_lock(
        &self,
        session_id: &str,
        owner: &str,
    ) -> Result<(), PartyStoreError> {
        let key = self.keys.session(session_id)?.lock();
        self.client.script::<Value>(&self.scripts.unlock, key, owner).await?;
        Ok(())
    }

    pub(super) async fn ask_for_copies(&self, session_id: &str) -> Result<(), PartyStoreError> {
        self.keys.session(session_id)?;
        let channel = self.keys.wanted();
        Ok(self.client.publish(&channel, session_id.as_bytes()).await?)
    }

    pub(super) async fn offer_copy(
        &self,
        session_id: &str,
        copy: &Stored,
    ) -> Result<(), PartyStoreError> {
        let keys = self.keys.session(session_id)?;
        refuse_own_field(copy.fields.iter().map(|(name, _)| name))?;
        self.run(&self.scripts.offer, self.scripts.offer_call(&keys, copy)).await?;
        Ok(())
    }

    pub(super) async fn offered_copy(
        &self,
        session_id: &str,
    ) -> Result<Option<Stored>, PartyStoreError> {
        let key = self.keys.session(session_id)?.offer();
        self.stored_at(&key).await
    }
}
