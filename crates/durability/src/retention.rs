//! Forgetting: what was deleted, and what is older than it may be.

use std::sync::Arc;
use std::time::Duration;

use heartline_routing::Clock;
use tracing::{info, warn};

use crate::log::ChatLog;

/// How often it is looked for what must go.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Messages that go in one transaction: a short one, so that sends do not wait for it.
const BATCH_MESSAGES: usize = 500;

/// How long the store rests between two such transactions.
const REST: Duration = Duration::from_millis(20);

/// Forgets for ever. Without a retention only what was deleted goes.
pub async fn run(log: Arc<dyn ChatLog>, retention: Option<Duration>, clock: Clock) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let before = retention.map(|retention| clock.wall().minus(retention));
        let mut forgotten = 0;
        loop {
            match log.forget(before, BATCH_MESSAGES).await {
                Ok(count) => {
                    forgotten += count;
                    if count < BATCH_MESSAGES {
                        break;
                    }
                }
                Err(error) => {
                    warn!(%error, "messages could not be forgotten");
                    break;
                }
            }
            tokio::time::sleep(REST).await;
        }
        if forgotten > 0 {
            info!(messages = forgotten, "forgot what was deleted or too old");
        }
    }
}
