//! The REST requests of the terminal, and their responses.

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

/// The largest number of chats in the list.
pub(super) const CHATS_MAX: usize = 1000;
/// The largest number of messages that `/history` shows.
pub(super) const HISTORY_MAX: usize = 1000;

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    /// List the user's chats.
    Chats,
    /// Create a chat.
    CreateChat(CreateChat),
    /// Open a chat.
    Join(ChatId),
    /// List the members of a chat.
    Members(ChatId),
    /// Read the last messages of a chat.
    History { chat_id: ChatId, count: usize },
    /// Add a member or, if a role is given, change the role of a member.
    Add { chat_id: ChatId, user_id: UserId, role: Option<Role> },
    /// Remove a member.
    Remove { chat_id: ChatId, user_id: UserId },
    /// Rename a chat.
    Rename { chat_id: ChatId, name: String },
    /// Leave a chat.
    Leave(ChatId),
    /// Set who may see the user's presence.
    SetVisibility(Visibility),
    /// Add a contact.
    AddContact(UserId),
    /// Remove a contact.
    RemoveContact(UserId),
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Response {
    /// The chats in the order of the list, up to the limit.
    Chats(Vec<ListedChat>),
    /// A chat that was created, or existed already.
    Created(Chat),
    /// The chat to open.
    Joined(Chat),
    /// A chat with its members.
    Members(Chat),
    /// Messages, the oldest first.
    History { chat_id: ChatId, messages: Vec<Message> },
    /// A chat after a change.
    Changed(Chat),
    /// The user left this chat.
    Left(ChatId),
    /// The users who may see the user's presence.
    Visibility(Visibility),
    /// A contact was added.
    ContactAdded(UserId),
    /// A contact was removed.
    ContactRemoved(UserId),
}

/// The REST interface of one server, with the user's token.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) rest: Rest,
    /// The URL without `/v1`.
    pub(super) base: String,
    pub(super) token: Token,
}

impl Api {
    /// Sends a request and waits for the response.
    pub(super) async fn send(&self, request: Request) -> Result<Response, RestError> {
        match request {
            Request::Chats => Ok(Response::Chats(self.chats().await?)),
            Request::CreateChat(body) => {
                Ok(Response::Created(self.post("/v1/chats", &body).await?))
            }
            Request::Join(chat_id) => Ok(Response::Joined(self.chat(chat_id).await?)),
            Request::Members(chat_id) => Ok(Response::Members(self.chat(chat_id).await?)),
            Request::History { chat_id, count } => {
                let messages = self.history(chat_id, count).await?;
                Ok(Response::History { chat_id, messages })
            }
            Request::Add { chat_id, user_id, role } => {
                self.add(chat_id, user_id, role).await?;
                Ok(Response::Changed(self.chat(chat_id).await?))
            }
            Request::Remove { chat_id, user_id } => {
                let path = format!("/v1/chats/{chat_id}/members/{}", encoded(user_id.as_str()));
                self.call::<()>(Method::DELETE, &path, None).await?;
                Ok(Response::Changed(self.chat(chat_id).await?))
            }
            Request::Rename { chat_id, name } => {
                let (path, name) = (format!("/v1/chats/{chat_id}"), Some(name));
                Ok(Response::Changed(self.patch(&path, &RenameChat { name }).await?))
            }
            Request::Leave(chat_id) => {
                let path = format!("/v1/chats/{chat_id}/leave");
                self.call::<()>(Method::POST, &path, None).await?;
                Ok(Response::Left(chat_id))
            }
            Request::SetVisibility(visibility) => {
                let body = Some(json(&VisibilitySetting { visibility }));
                let path = "/v1/presence/visibility";
                let setting: VisibilitySetting = self.call(Method::PUT, path, body).await?;
                Ok(Response::Visibility(setting.visibility))
            }
            Request::AddContact(user_id) => {
                self.contact(Method::PUT, &user_id).await?;
                Ok(Response::ContactAdded(user_id))
            }
            Request::RemoveContact(user_id) => {
                self.contact(Method::DELETE, &user_id).await?;
                Ok(Response::ContactRemoved(user_id))
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

    /// Reads pages from the newest to the oldest, each in ascending order.
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

    /// Adds a user, or sets the given role of a user who is a member already. Nobody can be added
    /// as owner, but a member can become one.
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
    serde_json::to_vec(body).expect("REST bodies have only string keys")
}
