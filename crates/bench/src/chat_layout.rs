//! The chats of a run and their members.

use anyhow::{Result, ensure};
use heartline_protocol::ChatId;
use heartline_protocol::rest::CreateChat;
use heartline_protocol::server_frame::ChatKind;

use super::rest;
use super::server_under_test::ServerUnderTest;

/// The members of each chat, as indexes of users and chats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChatLayout {
    /// The number of users.
    pub(super) users: usize,
    /// The number of chats.
    pub(super) chats: usize,
    /// The number of members of each chat.
    pub(super) members: usize,
    /// The kind of all chats.
    pub(super) kind: ChatKind,
}

/// Chats that were created on a server.
#[derive(Debug)]
pub(super) struct Chats {
    layout: ChatLayout,
    /// The ids of the chats.
    pub(super) ids: Vec<ChatId>,
}

impl ChatLayout {
    /// Users in direct chats of two, or in groups if `chats` or `members` is given.
    pub(super) fn new(users: usize, chats: Option<usize>, members: Option<usize>) -> Result<Self> {
        let layout = match (chats, members) {
            (None, None) => {
                ensure!(
                    users.is_multiple_of(2),
                    "{users} senders cannot be split into pairs: give an even number, or --members"
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
        let places = layout.chats * layout.members;
        ensure!(
            users > 0 && places >= users,
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
    /// Creates the chats on the server.
    pub(super) async fn create(
        server: &ServerUnderTest,
        layout: ChatLayout,
        users: &[String],
    ) -> Result<Self> {
        let mut ids = Vec::with_capacity(layout.chats);
        for chat in 0..layout.chats {
            let members: Vec<&String> =
                layout.members_of(chat).map(|member| &users[member]).collect();
            let member_ids = members[1..].iter().map(|user| user.parse());
            let member_ids = member_ids.collect::<Result<_, _>>()?;
            let create = CreateChat { kind: layout.kind, name: None, member_ids };
            ids.push(rest::create_chat(server, members[0], &create).await?.chat_id);
        }
        Ok(Self { layout, ids })
    }

    /// The number of stored messages in all chats.
    pub(super) async fn stored(&self, server: &ServerUnderTest, users: &[String]) -> Result<u64> {
        Ok(self.head_sequences(server, users).await?.iter().sum())
    }

    /// The head sequence of each chat.
    pub(super) async fn head_sequences(
        &self,
        server: &ServerUnderTest,
        users: &[String],
    ) -> Result<Vec<u64>> {
        let mut head_sequences = Vec::with_capacity(self.ids.len());
        for (chat, chat_id) in self.ids.iter().enumerate() {
            let member = self.layout.members_of(chat).next().unwrap_or(0);
            let chat = rest::read_chat(server, &users[member], *chat_id).await?;
            head_sequences.push(chat.head_sequence);
        }
        Ok(head_sequences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_in_pairs_by_default() {
        let layout = ChatLayout::new(6, None, None).unwrap();
        assert_eq!((layout.chats, layout.members, layout.kind), (3, 2, ChatKind::Direct));
        assert_eq!(layout.members_of(2).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(layout.chats_of(3).collect::<Vec<_>>(), [1]);
        assert!(ChatLayout::new(5, None, None).is_err());
    }

    #[test]
    fn every_sender_has_a_chat_of_the_requested_size() {
        let layout = ChatLayout::new(10, Some(7), Some(3)).unwrap();
        assert!((0..10).all(|user| layout.chats_of(user).next().is_some()));
        assert_eq!(layout.kind, ChatKind::Group);
        assert!(ChatLayout::new(10, Some(2), Some(3)).is_err());
        assert!(ChatLayout::new(10, Some(2), Some(11)).is_err());
    }
}
