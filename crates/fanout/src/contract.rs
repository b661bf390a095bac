//! The suite that every [`Audiences`] must pass, together with the store behind it.

use std::collections::BTreeSet;
use std::time::Duration;

use heartline_durability::chats::GROUP_MEMBERS_MAX;
use heartline_durability::contract::{Contract, StorePorts};
use heartline_durability::{ChatEdit, NewChat};
use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{ChatId, UserId};
use ulid::Ulid;

use crate::audiences::{Audiences, COMPANIONS_MAX};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A store under test.
#[derive(Debug)]
pub struct AudienceContract<'store> {
    store: &'store dyn StorePorts,
    audiences: &'store dyn Audiences,
    chats: Contract<'store>,
}

impl<'store> AudienceContract<'store> {
    /// A suite for the audiences of this store.
    pub fn new(store: &'store dyn StorePorts, audiences: &'store dyn Audiences) -> Self {
        Self { store, audiences, chats: Contract::new(store) }
    }

    /// Runs the whole suite.
    pub async fn run(&self) {
        self.an_audience_is_every_member_at_its_version().await;
        self.companions_share_a_chat_with_a_message().await;
        self.chats_without_recent_messages_do_not_count().await;
        self.large_chats_are_skipped().await;
        self.former_members_are_no_companions().await;
        self.companions_are_listed_in_the_order_of_users().await;
        self.the_number_of_companions_is_limited().await;
    }

    async fn an_audience_is_every_member_at_its_version(&self) {
        let [ana, bo, cy] = ["ana", "bo", "cy"].map(|name| self.chats.user(name));
        let chat_id = self.chats.group(&ana, &[&bo]).await.chat_id;
        let audience = async |chat_id| {
            let audience = self.audiences.audience(chat_id).await.expect("the store works");
            audience.map(|audience| (audience.members_version, sorted(&*audience.user_ids)))
        };
        let (first, users) = audience(chat_id).await.expect("the chat exists");
        assert_eq!(users, sorted([&ana, &bo]));
        let add = ChatEdit::Add { user_id: cy.clone(), role: Role::Member };
        let edited = self.chats.edit(chat_id, &ana, add).await.expect("an owner may add");
        assert!(edited.members_version > first);
        let expected = (edited.members_version, sorted([&ana, &bo, &cy]));
        assert_eq!(audience(chat_id).await, Some(expected));
        self.store.delete_user(&bo).await.expect("the store works");
        let (last, users) = audience(chat_id).await.expect("the chat exists");
        assert!(last > edited.members_version);
        assert_eq!(users, sorted([&ana, &cy]));
        self.chats.edit(chat_id, &ana, ChatEdit::Delete).await.expect("an owner may delete");
        assert_eq!(audience(chat_id).await, None);
        assert_eq!(audience(ChatId(Ulid(1))).await, None);
    }

    /// The companions of some users, each in the order of their ids.
    async fn companions_of(
        &self,
        user_ids: &[&UserId],
        active_within: Duration,
        members_max: usize,
    ) -> Vec<Vec<UserId>> {
        let user_ids: Vec<_> = user_ids.iter().map(|user_id| (*user_id).clone()).collect();
        let found = self.audiences.companions(&user_ids, active_within, members_max).await;
        let mut found = found.expect("the store works");
        assert_eq!(found.len(), user_ids.len(), "one list per user");
        for companions in &mut found {
            companions.sort_unstable();
        }
        found
    }

    async fn companions(&self, user_id: &UserId) -> Vec<UserId> {
        self.companions_of(&[user_id], DAY, 100).await.remove(0)
    }

    async fn companions_share_a_chat_with_a_message(&self) {
        let [ana, bo, cy, dan] = ["ana", "bo", "cy", "dan"].map(|name| self.chats.user(name));
        assert_eq!(self.companions(&ana).await, [], "an unknown user has none");
        let group = self.chats.group(&ana, &[&bo, &cy]).await.chat_id;
        let other = self.chats.group(&bo, &[&ana, &dan]).await.chat_id;
        let new = NewChat {
            kind: ChatKind::Direct,
            name: None,
            creator_id: ana.clone(),
            member_ids: vec![bo.clone()],
        };
        let direct = self.store.create(new, None).await.expect("the store works");
        let direct = direct.expect("it may be created").chat.chat_id;
        assert_eq!(self.companions(&ana).await, [], "no message yet");
        self.chats.stored(direct, &ana, "hello").await;
        assert_eq!(self.companions(&ana).await, sorted([&bo]));
        self.chats.stored(group, &cy, "hello").await;
        assert_eq!(self.companions(&ana).await, sorted([&bo, &cy]), "each once, not oneself");
        assert_eq!(self.companions(&cy).await, sorted([&ana, &bo]), "whoever sent it");
        assert_eq!(self.companions(&dan).await, []);
        self.chats.stored(other, &bo, "hello").await;
        assert_eq!(self.companions(&ana).await, sorted([&bo, &cy, &dan]));
        assert_eq!(self.companions(&dan).await, sorted([&ana, &bo]));
        self.chats.edit(group, &ana, ChatEdit::Delete).await.expect("an owner may delete");
        assert_eq!(self.companions(&ana).await, sorted([&bo, &dan]));
        assert_eq!(self.companions(&cy).await, []);
        let alone = self.chats.group(&cy, &[]).await.chat_id;
        self.chats.stored(alone, &cy, "hello").await;
        assert_eq!(self.companions(&cy).await, [], "nobody is their own companion");
    }

    async fn chats_without_recent_messages_do_not_count(&self) {
        let [ana, bo, cy] = ["ana", "bo", "cy"].map(|name| self.chats.user(name));
        let (old, new) =
            (self.chats.group(&ana, &[&bo]).await, self.chats.group(&ana, &[&cy]).await);
        self.chats.stored(old.chat_id, &bo, "earlier").await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        let within =
            async |active_within| self.companions_of(&[&ana], active_within, 100).await.remove(0);
        assert_eq!(within(Duration::from_millis(30)).await, []);
        self.chats.stored(new.chat_id, &ana, "now").await;
        assert_eq!(within(DAY).await, sorted([&bo, &cy]));
        // A new message makes an old chat active again.
        self.chats.stored(old.chat_id, &ana, "again").await;
        assert_eq!(within(Duration::from_secs(60)).await, sorted([&bo, &cy]));
    }

    async fn large_chats_are_skipped(&self) {
        let ana = self.chats.user("ana");
        let others: Vec<_> = (0..4).map(|_| self.chats.user("other")).collect();
        let pair = self.chats.group(&ana, &[&others[0]]).await.chat_id;
        let three = self.chats.group(&ana, &[&others[1], &others[2]]).await.chat_id;
        let four = self.chats.group(&ana, &others[1..].iter().collect::<Vec<_>>()).await.chat_id;
        for chat_id in [pair, three, four] {
            self.chats.stored(chat_id, &ana, "hello").await;
        }
        let at_most =
            async |members_max| self.companions_of(&[&ana], DAY, members_max).await.remove(0);
        assert_eq!(at_most(1).await, []);
        assert_eq!(at_most(2).await, sorted([&others[0]]));
        assert_eq!(at_most(3).await, sorted([&others[0], &others[1], &others[2]]));
        assert_eq!(at_most(4).await, sorted(&others));
        assert_eq!(at_most(usize::MAX).await, sorted(&others));
        let remove = ChatEdit::Remove { user_id: others[1].clone() };
        self.chats.edit(four, &ana, remove).await.expect("an owner may remove");
        assert_eq!(at_most(3).await, sorted(&others), "only current members count");
    }

    async fn former_members_are_no_companions(&self) {
        let [ana, bo, cy] = ["ana", "bo", "cy"].map(|name| self.chats.user(name));
        let chat_id = self.chats.group(&ana, &[&bo, &cy]).await.chat_id;
        self.chats.stored(chat_id, &bo, "hello").await;
        let leave = ChatEdit::Remove { user_id: bo.clone() };
        self.chats.edit(chat_id, &bo, leave).await.expect("a member may leave");
        assert_eq!(self.companions(&ana).await, sorted([&cy]));
        assert_eq!(self.companions(&bo).await, [], "a former member has none either");
        self.store.delete_user(&cy).await.expect("the store works");
        assert_eq!(self.companions(&ana).await, []);
    }

    async fn companions_are_listed_in_the_order_of_users(&self) {
        let [ana, bo, cy, nobody] = ["ana", "bo", "cy", "nobody"].map(|name| self.chats.user(name));
        for (one, other) in [(&ana, &bo), (&bo, &cy)] {
            let chat_id = self.chats.group(one, &[other]).await.chat_id;
            self.chats.stored(chat_id, one, "hello").await;
        }
        let found = self.companions_of(&[&cy, &nobody, &bo, &ana, &cy], DAY, 100).await;
        let of_bo = sorted([&ana, &cy]);
        let expected = [vec![bo.clone()], Vec::new(), of_bo, vec![bo.clone()], vec![bo]];
        assert_eq!(found, expected);
        assert!(self.companions_of(&[], DAY, 100).await.is_empty());
    }

    async fn the_number_of_companions_is_limited(&self) {
        let ana = self.chats.user("ana");
        let mut others = BTreeSet::new();
        while others.len() <= COMPANIONS_MAX {
            let members: Vec<_> =
                (1..GROUP_MEMBERS_MAX).map(|_| self.chats.user("other")).collect();
            let chat_id = self.chats.group(&ana, &members.iter().collect::<Vec<_>>()).await.chat_id;
            self.chats.stored(chat_id, &ana, "hello").await;
            others.extend(members);
        }
        let found = self.companions_of(&[&ana], DAY, GROUP_MEMBERS_MAX).await.remove(0);
        assert!(!found.is_empty() && found.len() <= COMPANIONS_MAX, "{} companions", found.len());
        let distinct: BTreeSet<_> = found.iter().cloned().collect();
        assert_eq!(distinct.len(), found.len(), "each once");
        assert!(distinct.is_subset(&others));
        let found = self.companions_of(&[&ana], DAY, 100).await.remove(0);
        assert_eq!(found, [], "all of these chats are large");
    }
}

fn sorted<'a>(user_ids: impl IntoIterator<Item = &'a UserId>) -> Vec<UserId> {
    let mut user_ids: Vec<_> = user_ids.into_iter().cloned().collect();
    user_ids.sort_unstable();
    user_ids
}
