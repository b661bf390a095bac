//! What the terminal asks of the server outside the socket, and what comes back.

use heartline_protocol::rest::{
    AddMember, CreateChat, ListedChat, PAGE_ITEMS_MAX, Page, RenameChat, SetRole, Visibility,
    VisibilitySetting,
};
use heartline_protocol::server_frame::{Chat, ChatMember, Message, Role};
use heartline_protocol::{ChatId, Token, UserId};
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rest::{Rest, RestError};
use crate::path::encoded;

/// Chats that are listed at most.
pub(super) const CHATS_MAX: usize = 1000;
/// Messages of a history at most.
pub(super) const HISTORY_MAX: usize = 1000;

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    /// The user's chats.
    Chats,
    /// Make a chat.
    Make(CreateChat),
    /// A chat to talk in.
    Join(ChatId),
    /// Who belongs to a chat.
    Who(ChatId),
    /// The last messages of a chat.
    History { chat_id: ChatId, count: usize },
    /// Add a member or, with a role, change theirs.
    Add { chat_id: ChatId, user_id: UserId, role: Option<Role> },
    /// Remove a member.
    Remove { chat_id: ChatId, user_id: UserId },
    /// Give a chat another name.
    Rename { chat_id: ChatId, name: String },
    /// Leave a chat.
    Leave(ChatId),
    /// Choose who sees when the user is here.
    Show(Visibility),
    /// Make somebody a contact.
    Befriend(UserId),
    /// End that.
    Unfriend(UserId),
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// The chats in the order of the list; those that are too many are left out.
    Chats(Vec<ListedChat>),
    /// A chat that was made, or found, for talking in it.
    Made(Chat),
    /// A chat to talk in.
    Joined(Chat),
    /// A chat with its members.
    Who(Chat),
    /// Messages, the oldest first.
    History { chat_id: ChatId, messages: Vec<Message> },
    /// A chat as it is after a change.
    Changed(Chat),
    /// The user is out of it.
    Left(ChatId),
    /// Who sees when the user is here.
    Shown(Visibility),
    /// Somebody is a contact now.
    Befriended(UserId),
    /// Somebody is none any more.
    Unfriended(UserId),
}

/// Where and as whom to ask.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) rest: Rest,
    /// The address before `/v1`.
    pub(super) base: String,
    pub(super) token: Token,
}

impl Desk {
    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, request: Request) -> Result<Answer, RestError> {
        match request {
            Request::Chats => Ok(Answer::Chats(self.chats().await?)),
            Request::Make(body) => Ok(Answer::Made(self.post("/v1/chats", &body).await?)),
            Request::Join(chat_id) => Ok(Answer::Joined(self.chat(chat_id).await?)),
            Request::Who(chat_id) => Ok(Answer::Who(self.chat(chat_id).await?)),
            Request::History { chat_id, count } => {
                let messages = self.history(chat_id, count).await?;
                Ok(Answer::History { chat_id, messages })
            }
            Request::Add { chat_id, user_id, role } => {
                self.add(chat_id, user_id, role).await?;
                Ok(Answer::Changed(self.chat(chat_id).await?))
            }
            Request::Remove { chat_id, user_id } => {
                let path = format!("/v1/chats/{chat_id}/members/{}", encoded(user_id.as_str()));
                self.call::<()>(Method::DELETE, &path, None).await?;
                Ok(Answer::Changed(self.chat(chat_id).await?))
            }
            Request::Rename { chat_id, name } => {
                let (path, name) = (format!("/v1/chats/{chat_id}"), Some(name));
                Ok(Answer::Changed(self.patch(&path, &RenameChat { name }).await?))
            }
            Request::Leave(chat_id) => {
                let path = format!("/v1/chats/{chat_id}/leave");
                self.call::<()>(Method::POST, &path, None).await?;
                Ok(Answer::Left(chat_id))
            }
            Request::Show(visibility) => {
                let body = Some(json(&VisibilitySetting { visibility }));
                let path = "/v1/presence/visibility";
                let setting: VisibilitySetting = self.call(Method::PUT, path, body).await?;
                Ok(Answer::Shown(setting.visibility))
            }
            Request::Befriend(user_id) => {
                self.contact(Method::PUT, &user_id).await?;
                Ok(Answer::Befriended(user_id))
            }
            Request::Unfriend(user_id) => {
                self.contact(Method::DELETE, &user_id).await?;
                Ok(Answer::Unfriended(user_id))
            }
        }
    }

    async fn chats(&self) -> Result<Vec<ListedChat>, RestError> {
        let mut chats = Vec::new();
        let mut path = format!("/v1/chats?limit={PAGE_ITEMS_MAX}");
        loop {
            let page: Page<ListedChat> = self.call(Method::GET, &path, None).await?;
            chats.extend(page.items);
            match page.next_cursor.filter(|_| chats.len() < CHATS_MAX) {
                Some(cursor) => {
                    let cursor = encoded(&cursor);
                    path = format!("/v1/chats?limit={PAGE_ITEMS_MAX}&cursor={cursor}");
                }
                None => break,
            }
        }
        chats.truncate(CHATS_MAX);
        Ok(chats)
    }

    /// The newest messages come first, page by page, each page ascending.
    async fn history(&self, chat_id: ChatId, count: usize) -> Result<Vec<Message>, RestError> {
        let mut messages: Vec<Message> = Vec::new();
        while messages.len() < count {
            let limit = (count - messages.len()).min(PAGE_ITEMS_MAX);
            let before = messages.first().map(|first| first.sequence);
            let before = before.map(|first| format!("&before_sequence={first}"));
            let before = before.unwrap_or_default();
            let path = format!("/v1/chats/{chat_id}/messages?limit={limit}{before}");
            let page: Page<Message> = self.call(Method::GET, &path, None).await?;
            let is_last = page.items.is_empty() || page.next_cursor.is_none();
            messages.splice(..0, page.items);
            if is_last {
                break;
            }
        }
        Ok(messages)
    }

    /// A member who has another role is given the one that was named. Nobody is added as owner,
    /// but a member can become one.
    async fn add(
        &self,
        chat_id: ChatId,
        user_id: UserId,
        role: Option<Role>,
    ) -> Result<ChatMember, RestError> {
        let path = format!("/v1/chats/{chat_id}/members");
        let first_role = role.filter(|role| *role != Role::Owner).unwrap_or(Role::Member);
        let body = AddMember { user_id: user_id.clone(), role: first_role };
        let added: Result<ChatMember, RestError> = self.post(&path, &body).await;
        let is_member = match &added {
            Ok(_) => true,
            Err(error) => error.reason() == Some("already_member"),
        };
        match role {
            Some(role) if is_member && (added.is_err() || role != first_role) => {
                let path = format!("{path}/{}", encoded(user_id.as_str()));
                self.patch(&path, &SetRole { role }).await
            }
            _ => added,
        }
    }

    async fn contact(&self, method: Method, user_id: &UserId) -> Result<(), RestError> {
        let path = format!("/v1/contacts/{}", encoded(user_id.as_str()));
        self.call::<()>(method, &path, None).await
    }

    async fn chat(&self, chat_id: ChatId) -> Result<Chat, RestError> {
        self.call(Method::GET, &format!("/v1/chats/{chat_id}"), None).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, RestError> {
        self.call(Method::POST, path, Some(json(body))).await
    }

    async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, RestError> {
        self.call(Method::PATCH, path, Some(json(body))).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<T, RestError> {
        self.rest.call(method, &format!("{}{path}", self.base), &self.token, body).await
    }
}

fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("the bodies of REST have only text keys")
}
