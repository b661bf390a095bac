//! The chats that the terminal knows, with their names for people, and the current chat.

use heartline_protocol::rest::ListedChat;
use heartline_protocol::server_frame::{Chat, ChatKind, ChatMember, Role};
use heartline_protocol::{ChatId, UserId};

use super::request::CHATS_MAX;

/// Members that are listed as the name of a group without one.
const NAMED_MEMBERS_MAX: usize = 3;
/// Candidates that are listed when a text matches several chats.
const CANDIDATES_MAX: usize = 5;
/// The prefix that the beginning of an id may omit.
const ID_PREFIX: &str = "chat_";

/// The chats in the order of `/chats`; numbers count from one.
#[derive(Debug, Default)]
pub(super) struct ChatList {
    /// The user of this terminal, known from the first connection on.
    pub(super) me: Option<UserId>,
    chats: Vec<Chat>,
    current: Option<ChatId>,
}

/// The result of looking up a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A chat of the list.
    Known(ChatId),
    /// A complete id that is not in the list.
    Unlisted(ChatId),
    /// No chat or several match; the message says which.
    NoMatch(String),
}

impl ChatList {
    /// The current chat, which receives typed messages.
    pub(super) fn current(&self) -> Option<ChatId> {
        self.current
    }

    /// Makes a chat the current one.
    pub(super) fn set_current(&mut self, chat_id: ChatId) {
        self.current = Some(chat_id);
    }

    /// Replaces the list. If the current chat is not in the new list, no chat is current.
    pub(super) fn replace(&mut self, listed: &[ListedChat]) {
        self.chats = listed.iter().map(|listed| listed.chat.clone()).collect();
        self.current = self.current.filter(|current| self.chat(*current).is_some());
    }

    /// The number of chats, and the first of them.
    pub(super) fn first(&self) -> (usize, Option<ChatId>) {
        (self.chats.len(), self.chats.first().map(|chat| chat.chat_id))
    }

    /// A chat by its id.
    pub(super) fn chat(&self, chat_id: ChatId) -> Option<&Chat> {
        self.chats.iter().find(|chat| chat.chat_id == chat_id)
    }

    /// The role of a user in a chat, if known.
    pub(super) fn role(&self, chat_id: ChatId, user_id: &UserId) -> Option<Role> {
        let members = &self.chat(chat_id)?.members;
        members.iter().find(|member| member.user_id == *user_id).map(|member| member.role)
    }

    /// Updates a chat, and returns a sentence for every change; none for a chat that was not known.
    pub(super) fn update(&mut self, chat: &Chat) -> Vec<String> {
        let label = self.label_of(chat);
        let known = self.chats.iter_mut().find(|known| known.chat_id == chat.chat_id);
        match known {
            Some(known) => {
                let before = std::mem::replace(known, chat.clone());
                differences(&self.label_of(&before), &label, &before, chat)
            }
            None => {
                if self.chats.len() < CHATS_MAX {
                    self.chats.push(chat.clone());
                }
                Vec::new()
            }
        }
    }

    /// Removes a chat that the user is no longer a member of; returns its name if it was known.
    pub(super) fn remove(&mut self, chat_id: ChatId) -> Option<String> {
        let index = self.chats.iter().position(|chat| chat.chat_id == chat_id)?;
        let chat = self.chats.remove(index);
        self.current = self.current.filter(|current| *current != chat_id);
        Some(self.label_of(&chat))
    }

    /// The name of a chat for people.
    pub(super) fn label(&self, chat_id: ChatId) -> String {
        self.chat(chat_id).map_or_else(|| chat_id.to_string(), |chat| self.label_of(chat))
    }

    /// The name of a chat for people: of a group its name or members, of a direct chat the other
    /// user.
    pub(super) fn label_of(&self, chat: &Chat) -> String {
        if let Some(name) = &chat.name {
            return name.clone();
        }
        let others = chat.members.iter().map(|member| &member.user_id);
        let others: Vec<_> = others.filter(|user_id| Some(*user_id) != self.me.as_ref()).collect();
        let named = others.iter().take(NAMED_MEMBERS_MAX).map(|user_id| user_id.as_str());
        let mut label = named.collect::<Vec<_>>().join(", ");
        match chat.kind {
            ChatKind::Direct => {}
            ChatKind::Group if others.is_empty() => label.push_str("group without other members"),
            ChatKind::Group if others.len() > NAMED_MEMBERS_MAX => label.push_str(", …"),
            ChatKind::Group => {}
        }
        label
    }

    /// Looks up a chat by its number in the list, its id, its name, or the beginning of an id or
    /// name.
    pub(super) fn find(&self, text: &str) -> Found {
        if let Ok(chat_id) = text.parse::<ChatId>() {
            let is_known = self.chat(chat_id).is_some();
            return if is_known { Found::Known(chat_id) } else { Found::Unlisted(chat_id) };
        }
        let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(chat) = number.and_then(|index| self.chats.get(index)) {
            return Found::Known(chat.chat_id);
        }
        let wanted = text.to_lowercase();
        let exact = self.matching(|label, _| label == wanted);
        let matching = if exact.is_empty() {
            self.matching(|label, id| {
                label.starts_with(&wanted)
                    || id.starts_with(&wanted)
                    || id[ID_PREFIX.len()..].starts_with(&wanted)
            })
        } else {
            exact
        };
        match matching[..] {
            [] => Found::NoMatch(format!(
                "you have no chat {text}: /chats lists yours, /new NAME USER… and /direct USER \
                 create one"
            )),
            [chat] => Found::Known(chat.chat_id),
            _ => Found::NoMatch(self.ambiguous(text, &matching)),
        }
    }

    fn matching(&self, matches: impl Fn(&str, &str) -> bool) -> Vec<&Chat> {
        let is_match = |chat: &&Chat| {
            let label = self.label_of(chat).to_lowercase();
            matches(&label, &chat.chat_id.to_string().to_lowercase())
        };
        self.chats.iter().filter(is_match).collect()
    }

    fn ambiguous(&self, text: &str, matching: &[&Chat]) -> String {
        let number = |chat: &Chat| {
            let index = self.chats.iter().position(|known| known.chat_id == chat.chat_id);
            format!("{} {}", index.unwrap_or_default() + 1, self.label_of(chat))
        };
        let candidates = matching.iter().take(CANDIDATES_MAX).map(|chat| number(chat));
        let candidates = candidates.collect::<Vec<_>>().join(", ");
        let more = if matching.len() > CANDIDATES_MAX { ", …" } else { "" };
        format!("{text} matches several chats: {candidates}{more}; use /join with a number")
    }
}

fn differences(old_label: &str, label: &str, before: &Chat, after: &Chat) -> Vec<String> {
    let mut sentences = Vec::new();
    if before.name != after.name {
        sentences.push(format!("{old_label} was renamed to {label}"));
    }
    let of = |chat: &Chat, member: &ChatMember| {
        let same = chat.members.iter().find(|other| other.user_id == member.user_id);
        same.map(|member| member.role)
    };
    for member in &after.members {
        let ChatMember { user_id, role } = member;
        match of(before, member) {
            None => sentences.push(format!("{user_id} was added to {label}")),
            Some(old) if old != *role => {
                let (article, role) = role_name(*role);
                sentences.push(format!("{user_id} is now {article} {role} of {label}"));
            }
            Some(_) => {}
        }
    }
    let gone = before.members.iter().filter(|member| of(after, member).is_none());
    sentences
        .extend(gone.map(|member| format!("{} is no longer a member of {label}", member.user_id)));
    sentences
}

/// The name of a role, with its article.
pub(super) fn role_name(role: Role) -> (&'static str, &'static str) {
    match role {
        Role::Owner => ("an", "owner"),
        Role::Admin => ("an", "admin"),
        Role::Member => ("a", "member"),
    }
}

#[cfg(test)]
mod tests;
