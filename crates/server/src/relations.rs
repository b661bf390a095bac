//! The gateway's port [`Relations`] on the store of this process.

use std::sync::Arc;

use async_trait::async_trait;
use heartline_durability::{Privacy, Relation, Sight};
use heartline_gateway::ports::{Relations, RelationsError};
use tokio::time::{Instant, timeout_at};

/// Reads relations from the store.
#[derive(Debug)]
pub(crate) struct StoreRelations(pub(crate) Arc<dyn Privacy>);

#[async_trait]
impl Relations for StoreRelations {
    async fn relations(
        &self,
        sights: Vec<Sight>,
        deadline: Instant,
    ) -> Result<Vec<Relation>, RelationsError> {
        let read = timeout_at(deadline, self.0.relations(sights)).await;
        let read = read.map_err(|_| RelationsError::Deadline)?;
        read.map_err(|error| RelationsError::Failed(error.into()))
    }
}
