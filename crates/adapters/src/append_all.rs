//! Appends a batch in tests in which the store itself works or fails as a whole.

use async_trait::async_trait;
use heartline_durability::{AppendError, AppendRefusal, Appended, ChatLog, NewMessage, StoreError};

/// The results of a batch, or the failure of the store.
pub(crate) type Results = Result<Vec<Result<Appended, AppendRefusal>>, StoreError>;

/// [`ChatLog::append`] with a failure of the store as an error of the whole call.
#[async_trait]
pub(crate) trait AppendAll: ChatLog {
    async fn append_all(&self, batch: Vec<NewMessage>) -> Results {
        let results = self.append(batch).await.into_iter().map(|result| match result {
            Ok(appended) => Ok(Ok(appended)),
            Err(AppendError::Refused(refusal)) => Ok(Err(refusal)),
            Err(AppendError::Store(error)) => Err(error),
        });
        results.collect()
    }
}

impl<Store: ChatLog + ?Sized> AppendAll for Store {}
