//! Work that blocks its thread.

use std::panic::resume_unwind;

/// Runs work that blocks on a thread of its own and returns its output. The work itself cannot be
/// cancelled: a caller that is dropped leaves it running to its end.
///
/// # Panics
/// The work has panicked.
#[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(output) => output,
        Err(error) => resume_unwind(error.into_panic()),
    }
}
