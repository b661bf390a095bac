//! Who is in which chat, and how the chats are made.

use anyhow::{Result, ensure};
use heartline_protocol::ChatId;
use heartline_protocol::rest::CreateChat;
use heartline_protocol::server_frame::ChatKind;

use super::rest;
use super::subject::Subject;

/// Chats and their members, by number: of users, and of chats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// How many users there are.
    pub(super) users: usize,
    /// How many chats.
    pub(super) chats: usize,
    /// How many users each chat has.
    pub(super) members: usize,
    /// Whether a chat is between two, or a group.
    pub(super) kind: ChatKind,
}

/// Chats that exist.
#[derive(Debug)]
pub(super) struct Chats {
    layout: Layout,
    /// Their names.
    pub(super) ids: Vec<ChatId>,
}

impl Layout {
    /// Users in pairs, or, when told so, in groups.
    pub(super) fn new(users: usize, chats: Option<usize>, members: Option<usize>) -> Result<Self> {
        let layout = match (chats, members) {
            (None, None) => {
                ensure!(
                    users.is_multiple_of(2),
                    "senders are in pairs: give an even number, or --members"
                );
                Self { users, chats: users / 2, members: 2, kind: ChatKind::Direct }
            }
            _ => {
                let members = members.unwrap_or(2);
                ensure!((1..=users).contains(&members), "--members must be 1 to {users}");
                let chats = chats.unwrap_or(users.div_ceil(members));
                Self { users, chats, members, kind: ChatKind::Group }
            }
        };
        let reach = layout.chats * layout.members;
        ensure!(
            users > 0 && reach >= users,
            "every sender needs a chat: raise --chats or --members"
        );
        Ok(layout)
    }

    /// The members of a chat.
    pub(super) fn members_of(self, chat: usize) -> impl Iterator<Item = usize> {
        (0..self.members).map(move |member| (chat * self.members + member) % self.users)
    }

    /// The chats of a user.
    pub(super) fn chats_of(self, user: usize) -> impl Iterator<Item = usize> {
        (0..self.chats).filter(move |chat| self.members_of(*chat).any(|member| member == user))
    }
}

impl Chats {
    /// Has the server make the chats.
    pub(super) async fn make(subject: &Subject, layout: Layout, users: &[String]) -> Result<Self> {
        let mut ids = Vec::with_capacity(layout.chats);
        for chat in 0..layout.chats {
            let members: Vec<&String> =
                layout.members_of(chat).map(|member| &users[member]).collect();
            let member_ids = members[1..].iter().map(|user| user.parse());
            let member_ids = member_ids.collect::<Result<_, _>>()?;
            let create = CreateChat { kind: layout.kind, name: None, member_ids };
            ids.push(rest::create_chat(subject, members[0], &create).await?.chat_id);
        }
        Ok(Self { layout, ids })
    }

    /// How many messages all chats hold together.
    pub(super) async fn stored(&self, subject: &Subject, users: &[String]) -> Result<u64> {
        Ok(self.head_sequences(subject, users).await?.iter().sum())
    }

    /// The newest number of each chat.
    pub(super) async fn head_sequences(
        &self,
        subject: &Subject,
        users: &[String],
    ) -> Result<Vec<u64>> {
        let mut head_sequences = Vec::with_capacity(self.ids.len());
        for (chat, chat_id) in self.ids.iter().enumerate() {
            let member = self.layout.members_of(chat).next().unwrap_or(0);
            let chat = rest::read_chat(subject, &users[member], *chat_id).await?;
            head_sequences.push(chat.head_sequence);
        }
        Ok(head_sequences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_in_pairs_unless_told_otherwise() {
        let layout = Layout::new(6, None, None).unwrap();
        assert_eq!((layout.chats, layout.members, layout.kind), (3, 2, ChatKind::Direct));
        assert_eq!(layout.members_of(2).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(layout.chats_of(3).collect::<Vec<_>>(), [1]);
        assert!(Layout::new(5, None, None).is_err());
    }

    #[test]
    fn every_sender_has_a_chat_of_the_size_asked_for() {
        let layout = Layout::new(10, Some(7), Some(3)).unwrap();
        assert!((0..10).all(|user| layout.chats_of(user).next().is_some()));
        assert_eq!(layout.kind, ChatKind::Group);
        assert!(Layout::new(10, Some(2), Some(3)).is_err());
        assert!(Layout::new(10, Some(2), Some(11)).is_err());
    }
}
