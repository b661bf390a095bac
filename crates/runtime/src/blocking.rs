//! Work that blocks its thread.

use tokio::task::JoinError;

/// Runs work that blocks on a thread of its own. The work cannot be cancelled: a caller that is
/// dropped leaves it running to its end.
///
/// # Errors
/// The work has panicked.
#[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(work).await
}
