//! The suites that every store and every bus must pass: they check each promise of the ports'
//! documentation through the ports alone.
//!
//! Every run has users of its own, so one engine can serve any number of runs. Only the last step,
//! retention, removes data of others.

mod chat_log;
mod chats;
mod contacts;
pub(crate) mod event_bus;
mod failing_chat;
mod halted;
mod people;

pub use self::event_bus::{BusUnderTest, prove_event_bus};

use std::sync::atomic::{AtomicU64, Ordering};

use heartline_protocol::server_frame::{Chat, ChatKind, Message, Role};
use heartline_protocol::{ChatId, UserId};
use heartline_runtime::Random;

use crate::announcements::Announcements;
use crate::chats::{Actor, ChatEdit, Chats, EditError, Edited, NewChat};
use crate::contacts::Contacts;
use crate::lazy_writes::LazyStore;
use crate::log::{AppendError, AppendRefusal, Appended, ChatLog, LogPage, LogRead, Position};
use crate::message::{DEFAULT_CONTENT_TYPE, NewMessage};
use crate::people::People;
use crate::privacy::Privacy;
use crate::upkeep::Upkeep;

/// Every port of durability, as one store implements them.
pub trait StorePorts:
    ChatLog + Announcements + Upkeep + Chats + LazyStore + People + Contacts + Privacy
{
}

impl<Store> StorePorts for Store where
    Store: ChatLog + Announcements + Upkeep + Chats + LazyStore + People + Contacts + Privacy
{
}

/// A store under test, with unused names.
#[derive(Debug)]
pub struct Contract<'store> {
    store: &'store dyn StorePorts,
    run: u64,
    names: AtomicU64,
}

impl<'store> Contract<'store> {
    /// A suite for this store.
    pub fn new(store: &'store dyn StorePorts) -> Self {
        Self { store, run: Random::system().draw(), names: AtomicU64::new(0) }
    }

    /// Runs the whole suite but [`Contract::prove_halted`] and [`Contract::prove_failing_chat`],
    /// which need help from the engine.
    pub async fn run(&self) {
        self.store.probe().await.expect("the store takes writes");
        self.prove_chats().await;
        self.prove_chat_log().await;
        self.prove_people().await;
        self.prove_contacts().await;
        self.prove_retention().await;
    }

    /// A new user id.
    pub fn user(&self, name: &str) -> UserId {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        format!("{name}-{number}-{:x}", self.run).parse().expect("a legal user id")
    }

    /// A new group.
    pub async fn group(&self, owner: &UserId, others: &[&UserId]) -> Chat {
        let new = NewChat {
            kind: ChatKind::Group,
            name: Some("contract".to_owned()),
            creator_id: owner.clone(),
            member_ids: others.iter().map(|other| (*other).clone()).collect(),
        };
        let created = self.store.create(new, None).await.expect("the store works");
        created.expect("a group may be created").chat
    }

    /// Changes a chat.
    ///
    /// # Errors
    /// The actor may not make this change.
    pub async fn edit(
        &self,
        chat_id: ChatId,
        actor: &UserId,
        edit: ChatEdit,
    ) -> Result<Edited, EditError> {
        let actor = Actor::User(actor.clone());
        self.store.edit(chat_id, actor, edit, None).await.expect("the store works")
    }

    async fn append(&self, batch: Vec<NewMessage>) -> Vec<Result<Appended, AppendRefusal>> {
        let count = batch.len();
        let answers = self.store.append(batch).await;
        assert_eq!(answers.len(), count, "one result per message");
        let refusal = |error| match error {
            AppendError::Refused(refusal) => refusal,
            AppendError::Store(error) => panic!("the store works: {error:?}"),
        };
        answers.into_iter().map(|answer| answer.map_err(refusal)).collect()
    }

    async fn send(
        &self,
        chat_id: ChatId,
        sender: &UserId,
        name: &str,
    ) -> Result<Appended, AppendRefusal> {
        self.append(vec![message(chat_id, sender, name)]).await.remove(0)
    }

    /// Sends a message that must be stored, and returns it as the store holds it.
    pub async fn stored(&self, chat_id: ChatId, sender: &UserId, name: &str) -> Message {
        let appended = self.send(chat_id, sender, name).await.expect("a member may send");
        assert!(!appended.duplicate, "{name} is new");
        appended.message
    }

    async fn page(
        &self,
        chat_id: ChatId,
        reader: Option<&UserId>,
        position: Position,
        limit: usize,
    ) -> Option<LogPage> {
        let read = LogRead {
            chat_id,
            reader: reader.cloned(),
            position,
            limit,
            content_bytes_max: usize::MAX,
        };
        self.store.read(read).await.expect("the store works")
    }

    /// The whole chat as the server reads it, without gaps.
    async fn whole(&self, chat_id: ChatId) -> Vec<Message> {
        let page = self.page(chat_id, None, Position::After(0), 10_000).await;
        let page = page.expect("the chat exists");
        assert!(!page.has_more);
        for (index, message) in page.messages.iter().enumerate() {
            assert_eq!(message.sequence, index as u64 + 1, "sequences run 1, 2, 3, …");
        }
        assert_eq!(page.head_sequence, page.messages.len() as u64);
        page.messages
    }

    async fn role_of(&self, chat_id: ChatId, user_id: &UserId) -> Option<Role> {
        let chat = self.store.chat(chat_id, None).await.expect("the store works");
        let members = chat.map_or(Vec::new(), |chat| chat.members);
        members.into_iter().find(|member| member.user_id == *user_id).map(|member| member.role)
    }

    async fn forget_all(&self) {
        while self.store.forget(None, 2).await.expect("the store works") == 2 {}
        assert_eq!(self.store.forget(None, 2).await.expect("the store works"), 0, "it stays done");
    }
}

/// A message whose content is derived from its name.
fn message(chat_id: ChatId, sender: &UserId, name: &str) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id: sender.clone(),
        client_message_id: name.parse().expect("a legal client_message_id"),
        content: format!("content of {name}"),
        content_type: DEFAULT_CONTENT_TYPE.to_owned(),
        origin: None,
    }
}

/// The id of a chat that does not exist.
fn no_chat() -> ChatId {
    ChatId(ulid::Ulid(Random::system().draw::<u128>() >> 1))
}

fn sequences(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| message.sequence).collect()
}
