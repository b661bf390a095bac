//! Removes deleted messages, and those that are older than the retention.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use crate::store::Chain;
use crate::upkeep::Upkeep;

/// The interval of runs.
const RUN_INTERVAL: Duration = Duration::from_secs(5);

/// Messages that one call removes: few, so that sends do not wait long.
const BATCH_MESSAGES: usize = 500;

/// The pause between two calls of a run.
const PAUSE: Duration = Duration::from_millis(20);

/// Removes messages for ever. Without a retention only deleted ones are removed.
pub async fn run(store: Arc<dyn Upkeep>, retention: Option<Duration>) {
    loop {
        tokio::time::sleep(RUN_INTERVAL).await;
        let mut removed = 0;
        loop {
            match store.forget(retention, BATCH_MESSAGES).await {
                Ok(count) => {
                    removed += count;
                    if count < BATCH_MESSAGES {
                        break;
                    }
                }
                Err(error) => {
                    warn!(error = %Chain(&error), "removing messages failed");
                    break;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        if removed > 0 {
            info!(messages = removed, "messages removed: deleted, or older than the retention");
        }
    }
}
