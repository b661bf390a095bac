//! What a start has with a Redis that is not there yet: machines and containers start together, and
//! in no order.

use std::time::Duration;

use anyhow::{Error, Result};
use heartline_adapters::redis::RedisFailure;
use heartline_routing::Clock;
use tokio::time::sleep;
use tracing::warn;

/// How long a start waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it waits between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Calls again while Redis does not serve. What it refuses is told at once.
pub(crate) async fn patiently<T, E, F>(clock: Clock, call: impl Fn() -> F) -> Result<T>
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
