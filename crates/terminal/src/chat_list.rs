//! The chats that the terminal knows: their names for people, and the one that is talked in.

use heartline_protocol::rest::ListedChat;
use heartline_protocol::server_frame::{Chat, ChatKind, ChatMember, Role};
use heartline_protocol::{ChatId, UserId};

use super::request::CHATS_MAX;

/// Members that stand for a group without a name.
const NAMED_MEMBERS_MAX: usize = 3;
/// Candidates that are named when a text could mean several chats.
const CANDIDATES_MAX: usize = 5;
/// What every unique beginning of an id may leave out.
const ID_PREFIX: &str = "chat_";

/// The chats in the order of the list, whose numbers count from one.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Who sits at the terminal, from the first connection on.
    pub(super) me: Option<UserId>,
    chats: Vec<Chat>,
    current: Option<ChatId>,
}

/// What a text that should name a chat means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// This chat.
    Known(ChatId),
    /// A whole id that is not in the list.
    Unlisted(ChatId),
    /// No chat, or too many, in a sentence.
    Unclear(String),
}

impl Book {
    /// The chat that is talked in.
    pub(super) fn current(&self) -> Option<ChatId> {
        self.current
    }

    /// Talks in this chat from now on.
    pub(super) fn enter(&mut self, chat_id: ChatId) {
        self.current = Some(chat_id);
    }

    /// Takes the list as it is now. A chat that is not in it any more is not talked in either.
    pub(super) fn replace(&mut self, listed: &[ListedChat]) {
        self.chats = listed.iter().map(|listed| listed.chat.clone()).collect();
        self.current = self.current.filter(|current| self.chat(*current).is_some());
    }

    /// How many chats there are, and the first of them.
    pub(super) fn first(&self) -> (usize, Option<ChatId>) {
        (self.chats.len(), self.chats.first().map(|chat| chat.chat_id))
    }

    /// A chat by its id.
    pub(super) fn chat(&self, chat_id: ChatId) -> Option<&Chat> {
        self.chats.iter().find(|chat| chat.chat_id == chat_id)
    }

    /// The role of a user in a chat, as far as it is known.
    pub(super) fn role(&self, chat_id: ChatId, user_id: &UserId) -> Option<Role> {
        let members = &self.chat(chat_id)?.members;
        members.iter().find(|member| member.user_id == *user_id).map(|member| member.role)
    }

    /// Takes a chat as it is now, and answers what is different about it in sentences. A chat that
    /// was not known says nothing.
    pub(super) fn learn(&mut self, chat: &Chat) -> Vec<String> {
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

    /// The user is out of a chat; answers its name if it was known.
    pub(super) fn forget(&mut self, chat_id: ChatId) -> Option<String> {
        let index = self.chats.iter().position(|chat| chat.chat_id == chat_id)?;
        let chat = self.chats.remove(index);
        self.current = self.current.filter(|current| *current != chat_id);
        Some(self.label_of(&chat))
    }

    /// What a chat is called here.
    pub(super) fn label(&self, chat_id: ChatId) -> String {
        self.chat(chat_id).map_or_else(|| chat_id.to_string(), |chat| self.label_of(chat))
    }

    /// A group has its name or its members; a direct chat is called after the other one.
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
            ChatKind::Group if others.is_empty() => label.push_str("a group of yours"),
            ChatKind::Group if others.len() > NAMED_MEMBERS_MAX => label.push_str(", …"),
            ChatKind::Group => {}
        }
        label
    }

    /// The chat that a text means: its number in the list, its id, its name, or the beginning of
    /// one of these.
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
            [] => Found::Unclear(format!(
                "there is no chat {text} among yours: /chats lists them, /new NAME USER… and \
                 /direct USER make one"
            )),
            [chat] => Found::Known(chat.chat_id),
            _ => Found::Unclear(self.unclear(text, &matching)),
        }
    }

    fn matching(&self, matches: impl Fn(&str, &str) -> bool) -> Vec<&Chat> {
        let is_match = |chat: &&Chat| {
            let label = self.label_of(chat).to_lowercase();
            matches(&label, &chat.chat_id.to_string().to_lowercase())
        };
        self.chats.iter().filter(is_match).collect()
    }

    fn unclear(&self, text: &str, matching: &[&Chat]) -> String {
        let number = |chat: &Chat| {
            let index = self.chats.iter().position(|known| known.chat_id == chat.chat_id);
            format!("{} {}", index.unwrap_or_default() + 1, self.label_of(chat))
        };
        let candidates = matching.iter().take(CANDIDATES_MAX).map(|chat| number(chat));
        let candidates = candidates.collect::<Vec<_>>().join(", ");
        let more = if matching.len() > CANDIDATES_MAX { ", …" } else { "" };
        format!("{text} could be several: {candidates}{more}; /join the number")
    }
}

fn differences(old_label: &str, label: &str, before: &Chat, after: &Chat) -> Vec<String> {
    let mut sentences = Vec::new();
    if before.name != after.name {
        sentences.push(format!("{old_label} is now called {label}"));
    }
    let of = |chat: &Chat, member: &ChatMember| {
        let same = chat.members.iter().find(|other| other.user_id == member.user_id);
        same.map(|member| member.role)
    };
    for member in &after.members {
        let ChatMember { user_id, role } = member;
        match of(before, member) {
            None => sentences.push(format!("{user_id} is now in {label}")),
            Some(old) if old != *role => {
                let (article, role) = role_name(*role);
                sentences.push(format!("{user_id} is now {article} {role} of {label}"));
            }
            Some(_) => {}
        }
    }
    let gone = before.members.iter().filter(|member| of(after, member).is_none());
    sentences.extend(gone.map(|member| format!("{} is no longer in {label}", member.user_id)));
    sentences
}

/// A role in words, with its article.
pub(super) fn role_name(role: Role) -> (&'static str, &'static str) {
    match role {
        Role::Owner => ("an", "owner"),
        Role::Admin => ("an", "admin"),
        Role::Member => ("a", "member"),
    }
}

#[cfg(test)]
mod tests;
