//! Retries a call to Redis while a node starts, because machines and containers start in any order.

use std::time::Duration;

use anyhow::{Error, Result};
use heartline_adapters::redis::RedisFailure;
use heartline_runtime::Clock;
use tokio::time::sleep;
use tracing::warn;

/// How long a start retries before it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Calls again while Redis cannot be reached. Any other error is returned at once.
pub(crate) async fn retry_while_down<T, E, F>(clock: Clock, call: impl Fn() -> F) -> Result<T>
where
    E: Into<Error>,
    F: Future<Output = Result<T, E>>,
{
    let gives_up_at = clock.now() + PATIENCE;
    loop {
        let error = match call().await {
            Ok(result) => return Ok(result),
            Err(error) => error.into(),
        };
        if !is_down(&error) || clock.now() >= gives_up_at {
            return Err(error);
        }
        warn!(error = format!("{error:#}"), "Redis not reachable: retrying");
        sleep(PAUSE).await;
    }
}

fn is_down(error: &Error) -> bool {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<RedisFailure>());
    failure.is_some_and(|it| it.is_infrastructure() || matches!(it, RedisFailure::Refused))
}
