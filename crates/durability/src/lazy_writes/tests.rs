//! What is written by and by, to a store that answers when the test says so.

use async_trait::async_trait;
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::Chat;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use ulid::Ulid;

use super::*;
use crate::members::{
    Actor, Audience, ChatEdit, ChatSummary, Created, EditError, Edited, Idempotency, NewChat,
};
use crate::profiles::{ContactsFull, Profile, Relation, Sight};
use crate::store::StoreError;

const CHAT: ChatId = ChatId(Ulid(7));

/// Keeps what is written, one call for each permit.
#[derive(Debug)]
struct Notes {
    permits: Semaphore,
    watermarks: Mutex<Vec<Watermark>>,
    seen: Mutex<Vec<(UserId, Timestamp)>>,
}

impl Notes {
    async fn wait(&self) {
        self.permits.acquire().await.unwrap().forget();
    }
}

#[async_trait]
impl Members for Notes {
    async fn create(
        &self,
        _: NewChat,
        _: Option<Idempotency>,
    ) -> Result<Result<Created, EditError>, StoreError> {
        unreachable!("no chat is made")
    }

    async fn chat(&self, _: ChatId, _: Option<&UserId>) -> Result<Option<Chat>, StoreError> {
        unreachable!("no chat is read")
    }

    async fn chats_of(
        &self,
        _: &UserId,
        _: Option<ChatId>,
        _: usize,
    ) -> Result<Vec<ChatSummary>, StoreError> {
        unreachable!("no chats are listed")
    }

    async fn edit(
        &self,
        _: ChatId,
        _: Actor,
        _: ChatEdit,
        _: Option<Idempotency>,
    ) -> Result<Result<Edited, EditError>, StoreError> {
        unreachable!("no chat is changed")
    }

    async fn audience(&self, _: ChatId) -> Result<Option<Audience>, StoreError> {
        unreachable!("no audience is read")
    }

    async fn watermarks(
        &self,
        _: ChatId,
        _: &UserId,
    ) -> Result<Option<Vec<Watermark>>, StoreError> {
        unreachable!("no watermarks are read")
    }

    async fn record_watermarks(&self, watermarks: Vec<Watermark>) -> Result<(), StoreError> {
        self.wait().await;
        self.watermarks.lock().unwrap().extend(watermarks);
        Ok(())
    }

    async fn companions(
        &self,
        _: &[UserId],
        _: Duration,
        _: usize,
    ) -> Result<Vec<Vec<UserId>>, StoreError> {
        unreachable!("no companions are read")
    }
}

#[async_trait]
impl Profiles for Notes {
    async fn profile(&self, _: &UserId) -> Result<Profile, StoreError> {
        unreachable!("no profile is read")
    }

    async fn set_display_name(&self, _: &UserId, _: Option<String>) -> Result<Profile, StoreError> {
        unreachable!("nobody is named")
    }

    async fn record_last_seen(&self, seen: Vec<(UserId, Timestamp)>) -> Result<(), StoreError> {
        self.wait().await;
        self.seen.lock().unwrap().extend(seen);
        Ok(())
    }

    async fn visibility(&self, _: &UserId) -> Result<Option<Visibility>, StoreError> {
        unreachable!("no choice is read")
    }

    async fn set_visibility(&self, _: &UserId, _: Visibility) -> Result<bool, StoreError> {
        unreachable!("nothing is chosen")
    }

    async fn contacts(
        &self,
        _: &UserId,
        _: Option<&UserId>,
        _: usize,
    ) -> Result<Vec<UserId>, StoreError> {
        unreachable!("no contacts are read")
    }

    async fn put_contact(
        &self,
        _: &UserId,
        _: &UserId,
    ) -> Result<Result<bool, ContactsFull>, StoreError> {
        unreachable!("no contacts are made")
    }

    async fn remove_contact(&self, _: &UserId, _: &UserId) -> Result<bool, StoreError> {
        unreachable!("no contacts are ended")
    }

    async fn relations(&self, _: Vec<Sight>) -> Result<Vec<Relation>, StoreError> {
        unreachable!("no relations are read")
    }

    async fn delete_user(&self, _: &UserId) -> Result<Vec<Edited>, StoreError> {
        unreachable!("nobody is deleted")
    }
}

#[tokio::test]
async fn what_was_being_written_when_its_task_ended_is_written_by_the_next() {
    let ana: UserId = "ana".parse().unwrap();
    let at = Timestamp::from_unix_seconds(5);
    // The first write ends while the store has answered nothing, the second after one answer.
    for answers in [0, 1] {
        let notes = Notes {
            permits: Semaphore::new(answers),
            watermarks: Mutex::default(),
            seen: Mutex::default(),
        };
        let writes = LazyWrites::new(Metrics::default());
        writes.acknowledged(&ana, CHAT, 3);
        writes.left(&ana, at);
        let cut = timeout(Duration::ZERO, writes.write(&notes, &notes)).await;
        assert!(cut.is_err(), "the store is slow");
        assert!(notes.seen.lock().unwrap().is_empty());

        notes.permits.add_permits(2);
        writes.write(&notes, &notes).await;
        let user_id = ana.clone();
        let watermark = Watermark { user_id, chat_id: CHAT, last_acked_sequence: 3 };
        assert_eq!(*notes.watermarks.lock().unwrap(), [watermark]);
        assert_eq!(*notes.seen.lock().unwrap(), [(ana.clone(), at)]);
    }
}
