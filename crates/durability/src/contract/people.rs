//! The promises of every [`People`](crate::People).

use std::time::Duration;

use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{Timestamp, UserId};

use super::{Contract, message};
use crate::chats::{ChatEdit, NewChat};
use crate::log::{AppendRefusal, Position};
use crate::people::Profile;

impl Contract<'_> {
    /// Checks [`People`](crate::People).
    pub async fn prove_people(&self) {
        self.a_name_is_set_and_removed().await;
        self.last_seen_only_rises().await;
        self.a_deleted_user_is_removed_at_once().await;
        self.a_deleted_users_content_is_removed_and_the_sequences_stay().await;
        self.messages_after_a_return_stay().await;
        self.an_owned_group_passes_on().await;
        self.a_chat_without_other_members_is_deleted().await;
    }

    pub(super) async fn profile(&self, user_id: &UserId) -> Profile {
        let profile = self.store.profile(user_id).await.expect("the store works");
        assert_eq!(profile.user_id, *user_id);
        profile
    }

    async fn a_name_is_set_and_removed(&self) {
        let ana = self.user("ana");
        let empty = Profile { user_id: ana.clone(), display_name: None, last_seen: None };
        assert_eq!(self.profile(&ana).await, empty, "an unknown user has an empty one");
        let name = Some("Ana ☃".to_owned());
        let set = self.store.set_display_name(&ana, name.clone()).await;
        assert_eq!(set.expect("the store works").display_name, name);
        assert_eq!(self.profile(&ana).await.display_name, name);
        let cleared = self.store.set_display_name(&ana, None).await;
        assert_eq!(cleared.expect("the store works"), empty);
        assert_eq!(self.profile(&ana).await, empty);
    }

    async fn last_seen_only_rises(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let at = |unix_ms| Timestamp { unix_ms };
        let record = async |seen| {
            self.store.record_last_seen(seen).await.expect("the store works");
        };
        record(vec![(ana.clone(), at(2000)), (bo.clone(), at(1000))]).await;
        record(vec![(ana.clone(), at(1000)), (bo.clone(), at(3000))]).await;
        assert_eq!(self.profile(&ana).await.last_seen, Some(at(2000)));
        assert_eq!(self.profile(&bo).await.last_seen, Some(at(3000)));
    }

    async fn a_deleted_user_is_removed_at_once(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let group = self.group(&bo, &[&ana]).await.chat_id;
        let new = NewChat {
            kind: ChatKind::Direct,
            name: None,
            creator_id: ana.clone(),
            member_ids: vec![bo.clone()],
        };
        let direct = self.store.create(new, None).await.expect("the store works");
        let direct = direct.expect("it may be made").chat.chat_id;
        let named = self.store.set_display_name(&ana, Some("Ana".to_owned())).await;
        named.expect("the store works");
        let before = self.send(group, &bo, "before").await.expect("it is stored").members_version;

        let edited = self.store.delete_user(&ana).await.expect("the store works");
        let mut changed: Vec<_> = edited.iter().map(|edited| edited.chat.chat_id).collect();
        changed.sort_unstable();
        let mut expected = [group, direct];
        expected.sort_unstable();
        assert_eq!(changed, expected);
        for edited in &edited {
            assert_eq!((edited.removed.as_slice(), edited.has_changed), (&[ana.clone()][..], true));
            assert!(edited.chat.members.iter().all(|member| member.user_id != ana));
        }
        let after = self.send(group, &bo, "after").await.expect("the chat is still there");
        assert!(after.members_version > before);
        let empty = Profile { user_id: ana.clone(), display_name: None, last_seen: None };
        assert_eq!(self.profile(&ana).await, empty);
        assert_eq!(self.store.manifest(&ana, None, 9).await.expect("the store works"), []);
        let refused = self.send(group, &ana, "late").await;
        assert_eq!(refused.err(), Some(AppendRefusal::NotAMember));
        // The other member still has the chat.
        self.stored(direct, &bo, "alone").await;
        let again = self.store.delete_user(&ana).await.expect("the store works");
        assert_eq!(again, [], "a second time changes nothing");
    }

    async fn a_deleted_users_content_is_removed_and_the_sequences_stay(&self) {
        self.forget_all().await;
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let (here, left) = (self.group(&bo, &[&ana]).await, self.group(&bo, &[&ana]).await);
        let (here, left) = (here.chat_id, left.chat_id);
        let mut batch = vec![message(left, &ana, "elsewhere"), message(here, &bo, "kept")];
        batch.extend((1..=4).map(|number| message(here, &ana, &format!("m{number}"))));
        self.append(batch).await;
        let leave = ChatEdit::Remove { user_id: ana.clone() };
        self.edit(left, &ana, leave).await.expect("a member may leave");

        self.store.delete_user(&ana).await.expect("the store works");
        let mut changed = Vec::new();
        while changed.last() != Some(&0) {
            changed.push(self.store.forget(None, 2).await.expect("the store works"));
        }
        assert_eq!(changed.iter().sum::<usize>(), 5, "also where they had left: {changed:?}");
        let messages = self.whole(here).await;
        assert_eq!(messages.len(), 5);
        for stored in messages.iter().chain(&self.whole(left).await) {
            let is_own = stored.sender_id == ana;
            assert_eq!((stored.deleted, stored.content.is_empty()), (is_own, is_own));
        }
        let mut retry = message(here, &ana, "m1");
        retry.content = "anything".to_owned();
        let retry = self.append(vec![retry]).await.remove(0).expect("the row still answers");
        assert!(retry.duplicate && retry.message.deleted);
        assert_eq!(retry.message.sequence, 2);
    }

    async fn messages_after_a_return_stay(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let chat_id = self.group(&bo, &[&ana]).await.chat_id;
        self.stored(chat_id, &ana, "before").await;
        self.store.delete_user(&ana).await.expect("the store works");
        let add = ChatEdit::Add { user_id: ana.clone(), role: Role::Member };
        self.edit(chat_id, &bo, add).await.expect("an owner may add");
        self.stored(chat_id, &ana, "after").await;
        self.forget_all().await;
        let deleted: Vec<_> =
            self.whole(chat_id).await.iter().map(|stored| stored.deleted).collect();
        assert_eq!(deleted, [true, false]);
    }

    async fn an_owned_group_passes_on(&self) {
        let [owner, first, second, admin, later] =
            ["owner", "first", "second", "admin", "later"].map(|name| self.user(name));
        let plain = self.group(&owner, &[&first, &second]).await.chat_id;
        let led = self.group(&owner, &[&first]).await.chat_id;
        for user_id in [&admin, &later] {
            let add = ChatEdit::Add { user_id: user_id.clone(), role: Role::Admin };
            self.edit(led, &owner, add).await.expect("an owner may add");
        }
        self.store.delete_user(&owner).await.expect("the store works");
        assert_eq!(self.role_of(led, &admin).await, Some(Role::Owner), "the admin who came first");
        assert_eq!(self.role_of(led, &later).await, Some(Role::Admin));
        assert_eq!(self.role_of(plain, &first).await, Some(Role::Owner), "or else the member");
        assert_eq!(self.role_of(plain, &second).await, Some(Role::Member));
    }

    async fn a_chat_without_other_members_is_deleted(&self) {
        let ana = self.user("ana");
        let chat_id = self.group(&ana, &[]).await.chat_id;
        self.stored(chat_id, &ana, "alone").await;
        let edited = self.store.delete_user(&ana).await.expect("the store works");
        assert_eq!(edited.len(), 1);
        assert_eq!(edited[0].removed, [ana]);
        assert_eq!(self.page(chat_id, None, Position::After(0), 9).await, None);
        self.forget_all().await;
        let unpublished = self.store.unpublished(Duration::ZERO, 10_000).await;
        let unpublished = unpublished.expect("the store works");
        assert!(unpublished.iter().all(|unpublished| unpublished.chat_id != chat_id));
    }
}
