//! Appends a batch in tests that expect one verdict for all of it.

use async_trait::async_trait;
use heartline_durability::{AppendError, AppendRefusal, Appended, ChatLog, NewMessage, StoreError};

/// The results of a batch, or the failure of the store.
pub(crate) type Results = Result<Vec<Result<Appended, AppendRefusal>>, StoreError>;

/// [`ChatLog::append`] with the failure of the store apart.
#[async_trait]
pub(crate) trait AppendAll: ChatLog {
    async fn append_all(&self, batch: Vec<NewMessage>) -> Results {
        let answers = self.append(batch).await.into_iter().map(|answer| match answer {
            Ok(appended) => Ok(Ok(appended)),
            Err(AppendError::Refused(refusal)) => Ok(Err(refusal)),
            Err(AppendError::Store(error)) => Err(error),
        });
        answers.collect()
    }
}

impl<Store: ChatLog + ?Sized> AppendAll for Store {}
