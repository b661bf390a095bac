//! The promises of every [`Chats`](crate::Chats).

use std::collections::BTreeSet;

use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{ChatId, UserId};

use super::{Contract, message, no_chat};
use crate::chats::{
    Actor, ChatEdit, Created, EditError, GROUP_MEMBERS_MAX, Idempotency, NewChat, Watermark,
};

fn add(user_id: &UserId, role: Role) -> ChatEdit {
    ChatEdit::Add { user_id: user_id.clone(), role }
}

fn set_role(user_id: &UserId, role: Role) -> ChatEdit {
    ChatEdit::SetRole { user_id: user_id.clone(), role }
}

fn remove(user_id: &UserId) -> ChatEdit {
    ChatEdit::Remove { user_id: user_id.clone() }
}

/// An owner, an admin and two plain members of one group, and a user who is no member.
struct Cast {
    chat_id: ChatId,
    owner: UserId,
    admin: UserId,
    member: UserId,
    other: UserId,
    stranger: UserId,
}

impl Contract<'_> {
    /// Checks [`Chats`](crate::Chats).
    pub async fn prove_chats(&self) {
        self.a_group_has_one_owner_and_its_members().await;
        self.a_pair_has_one_direct_chat().await;
        self.chats_are_shown_to_members_only().await;
        self.names_are_for_owners_and_admins().await;
        self.who_may_add_whom().await;
        self.who_may_remove_whom().await;
        self.who_may_give_which_role().await;
        self.ownership_passes_and_never_vanishes().await;
        self.the_service_may_do_what_an_owner_may().await;
        self.a_direct_chat_stays_as_it_is().await;
        self.a_group_is_full_at_its_limit().await;
        self.every_change_of_members_has_a_version().await;
        self.a_deleted_chat_is_gone_at_once().await;
        self.a_key_gives_the_first_result().await;
        self.watermarks_rise_to_the_head_and_never_fall().await;
        self.summaries_show_the_newest_message().await;
    }

    async fn cast(&self) -> Cast {
        let [owner, admin, member, other, stranger] =
            ["owner", "admin", "member", "other", "stranger"].map(|name| self.user(name));
        let chat_id = self.group(&owner, &[&admin, &member, &other]).await.chat_id;
        let made = self.edit(chat_id, &owner, set_role(&admin, Role::Admin)).await;
        made.expect("an owner may give roles");
        Cast { chat_id, owner, admin, member, other, stranger }
    }

    async fn direct(&self, one: &UserId, other: &UserId) -> Created {
        let new = NewChat {
            kind: ChatKind::Direct,
            name: None,
            creator_id: one.clone(),
            member_ids: vec![other.clone()],
        };
        let created = self.store.create(new, None).await.expect("the store works");
        created.expect("a direct chat may be made")
    }

    async fn users_of(&self, chat_id: ChatId) -> BTreeSet<UserId> {
        let chat = self.store.chat(chat_id, None).await.expect("the store works");
        let members = chat.expect("the chat exists").members;
        members.into_iter().map(|member| member.user_id).collect()
    }

    async fn a_group_has_one_owner_and_its_members(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let chat = self.group(&ana, &[&bo]).await;
        assert_eq!((chat.kind, chat.name.as_deref()), (ChatKind::Group, Some("contract")));
        assert_eq!(chat.head_sequence, 0);
        assert_eq!(self.role_of(chat.chat_id, &ana).await, Some(Role::Owner));
        assert_eq!(self.role_of(chat.chat_id, &bo).await, Some(Role::Member));
        assert_eq!(self.users_of(chat.chat_id).await, BTreeSet::from([ana.clone(), bo]));
        assert_ne!(self.group(&ana, &[]).await.chat_id, chat.chat_id, "each group is a new one");
    }

    async fn a_pair_has_one_direct_chat(&self) {
        let (ana, bo, cy) = (self.user("ana"), self.user("bo"), self.user("cy"));
        let make = |one, other| self.direct(one, other);
        let (a, b, c, d) =
            tokio::join!(make(&ana, &bo), make(&bo, &ana), make(&ana, &bo), make(&bo, &ana));
        let made = [a, b, c, d];
        assert_eq!(made.iter().filter(|created| created.is_new).count(), 1);
        assert!(made.iter().all(|created| created.chat.chat_id == made[0].chat.chat_id));
        assert_eq!(made[0].chat.members.len(), 2);
        assert!(made[0].chat.members.iter().all(|member| member.role == Role::Member));
        assert!(!self.direct(&bo, &ana).await.is_new);
        assert!(self.direct(&ana, &cy).await.is_new, "another pair is another chat");
    }

    async fn chats_are_shown_to_members_only(&self) {
        let Cast { chat_id, member, stranger, .. } = self.cast().await;
        let shown = async |chat_id, viewer| {
            self.store.chat(chat_id, viewer).await.expect("the store works")
        };
        assert!(shown(chat_id, Some(&member)).await.is_some());
        assert!(shown(chat_id, None).await.is_some(), "the server itself sees every chat");
        assert_eq!(shown(chat_id, Some(&stranger)).await, None);
        assert_eq!(shown(no_chat(), None).await, None);
        let watermarks = self.store.watermarks(chat_id, &stranger).await;
        assert_eq!(watermarks.expect("the store works"), None);
    }

    async fn names_are_for_owners_and_admins(&self) {
        let Cast { chat_id, owner, admin, member, stranger, .. } = self.cast().await;
        let rename = |name: &str| ChatEdit::Rename(Some(name.to_owned()));
        for (actor, expected) in [
            (&owner, Ok(())),
            (&admin, Ok(())),
            (&member, Err(EditError::Forbidden)),
            (&stranger, Err(EditError::NotAMember)),
        ] {
            let edited = self.edit(chat_id, actor, rename(actor.as_str())).await;
            let name = edited.as_ref().ok().and_then(|edited| edited.chat.name.as_deref());
            assert!(name.is_none_or(|name| name == actor.as_str()));
            assert_eq!(edited.map(|_| ()), expected);
        }
        let again = self.edit(chat_id, &owner, rename(admin.as_str())).await;
        assert!(!again.expect("an owner may rename").has_changed, "it has this name already");
        let none = self.edit(chat_id, &owner, ChatEdit::Rename(None)).await;
        let none = none.expect("an owner may rename");
        assert_eq!((none.chat.name, none.has_changed), (None, true));
        let gone = self.edit(no_chat(), &owner, rename("x")).await;
        assert_eq!(gone.err(), Some(EditError::NotAMember));
    }

    async fn who_may_add_whom(&self) {
        let Cast { chat_id, owner, admin, member, stranger, .. } = self.cast().await;
        let table = [
            (&owner, Role::Member, Ok(())),
            (&owner, Role::Admin, Ok(())),
            (&owner, Role::Owner, Err(EditError::Forbidden)),
            (&admin, Role::Member, Ok(())),
            (&admin, Role::Admin, Err(EditError::Forbidden)),
            (&member, Role::Member, Err(EditError::Forbidden)),
            (&stranger, Role::Member, Err(EditError::NotAMember)),
        ];
        for (actor, role, expected) in table {
            let new = self.user("new");
            let edited = self.edit(chat_id, actor, add(&new, role)).await;
            assert!(edited.as_ref().map_or(true, |edited| edited.has_changed));
            assert_eq!(edited.map(|_| ()), expected, "{actor} adds a {role:?}");
            let given = expected.is_ok().then_some(role);
            assert_eq!(self.role_of(chat_id, &new).await, given);
        }
        let again = self.edit(chat_id, &owner, add(&admin, Role::Admin)).await;
        assert!(!again.expect("an owner may add").has_changed, "an admin is an admin already");
        let again = self.edit(chat_id, &owner, add(&admin, Role::Member)).await;
        assert_eq!(again.err(), Some(EditError::AlreadyMember));
    }

    async fn who_may_remove_whom(&self) {
        let Cast { chat_id, owner, admin, member, other, stranger } = self.cast().await;
        let second = self.user("second");
        self.edit(chat_id, &owner, add(&second, Role::Admin)).await.expect("an owner may add");
        let refusals = [
            (&member, &other, EditError::Forbidden),
            (&member, &stranger, EditError::Forbidden),
            (&admin, &second, EditError::Forbidden),
            (&admin, &owner, EditError::Forbidden),
            (&admin, &stranger, EditError::NoSuchMember),
            (&owner, &stranger, EditError::NoSuchMember),
            (&owner, &owner, EditError::OwnerMustStay),
            (&stranger, &member, EditError::NotAMember),
            (&stranger, &stranger, EditError::NotAMember),
        ];
        for (actor, target, expected) in refusals {
            let edited = self.edit(chat_id, actor, remove(target)).await;
            assert_eq!(edited.err(), Some(expected), "{actor} removes {target}");
        }
        let removals = [(&admin, &member), (&other, &other), (&owner, &second), (&admin, &admin)];
        for (actor, target) in removals {
            let edited = self.edit(chat_id, actor, remove(target)).await;
            let edited = edited.expect("they may");
            assert_eq!(
                (edited.removed.as_slice(), edited.has_changed),
                (&[target.clone()][..], true)
            );
            assert_eq!(self.role_of(chat_id, target).await, None);
        }
        assert_eq!(self.users_of(chat_id).await, BTreeSet::from([owner]));
    }

    async fn who_may_give_which_role(&self) {
        let Cast { chat_id, owner, admin, member, stranger, .. } = self.cast().await;
        let refusals = [
            (&admin, &member, Role::Admin, EditError::Forbidden),
            (&member, &member, Role::Admin, EditError::Forbidden),
            (&stranger, &member, Role::Admin, EditError::NotAMember),
            (&owner, &stranger, Role::Admin, EditError::NoSuchMember),
            (&owner, &owner, Role::Member, EditError::OwnerMustStay),
        ];
        for (actor, target, role, expected) in refusals {
            let edited = self.edit(chat_id, actor, set_role(target, role)).await;
            assert_eq!(edited.err(), Some(expected), "{actor} makes {target} {role:?}");
        }
        let same = self.edit(chat_id, &owner, set_role(&admin, Role::Admin)).await;
        assert!(!same.expect("an owner may").has_changed);
        let less = self.edit(chat_id, &owner, set_role(&admin, Role::Member)).await;
        assert!(less.expect("an owner may").has_changed);
        assert_eq!(self.role_of(chat_id, &admin).await, Some(Role::Member));
    }

    async fn ownership_passes_and_never_vanishes(&self) {
        let Cast { chat_id, owner, member, .. } = self.cast().await;
        let passed = self.edit(chat_id, &owner, set_role(&member, Role::Owner)).await;
        let chat = passed.expect("an owner may").chat;
        let owners: Vec<_> =
            chat.members.iter().filter(|entry| entry.role == Role::Owner).collect();
        assert_eq!(owners.len(), 1);
        assert_eq!(owners[0].user_id, member);
        assert_eq!(self.role_of(chat_id, &owner).await, Some(Role::Admin));
        let left = self.edit(chat_id, &owner, remove(&owner)).await;
        left.expect("who is not owner any more may leave");
    }

    async fn the_service_may_do_what_an_owner_may(&self) {
        let Cast { chat_id, owner, admin, member, .. } = self.cast().await;
        let edit = async |edit| {
            let edited = self.store.edit(chat_id, Actor::Service, edit, None).await;
            edited.expect("the store works")
        };
        edit(ChatEdit::Rename(Some("service".to_owned()))).await.expect("it may");
        edit(add(&self.user("new"), Role::Admin)).await.expect("it may");
        edit(remove(&admin)).await.expect("it may");
        assert_eq!(edit(remove(&owner)).await.err(), Some(EditError::OwnerMustStay));
        assert_eq!(edit(set_role(&owner, Role::Admin)).await.err(), Some(EditError::OwnerMustStay));
        edit(set_role(&member, Role::Owner)).await.expect("it may");
        assert_eq!(self.role_of(chat_id, &owner).await, Some(Role::Admin));
        edit(ChatEdit::Delete).await.expect("it may");
        assert_eq!(edit(ChatEdit::Delete).await.err(), Some(EditError::NotAMember));
    }

    async fn a_direct_chat_stays_as_it_is(&self) {
        let (ana, bo, cy) = (self.user("ana"), self.user("bo"), self.user("cy"));
        let chat_id = self.direct(&ana, &bo).await.chat.chat_id;
        let edits = [
            ChatEdit::Rename(Some("x".to_owned())),
            add(&cy, Role::Member),
            set_role(&bo, Role::Admin),
            remove(&bo),
            remove(&ana),
        ];
        for edit in edits {
            let refused = self.edit(chat_id, &ana, edit.clone()).await;
            assert_eq!(refused.err(), Some(EditError::DirectChat), "{edit:?}");
            let refused = self.edit(chat_id, &cy, edit).await;
            assert_eq!(refused.err(), Some(EditError::NotAMember));
        }
        let deleted = self.edit(chat_id, &ana, ChatEdit::Delete).await;
        assert_eq!(deleted.err(), Some(EditError::Forbidden), "it has no owner");
        let deleted = self.store.edit(chat_id, Actor::Service, ChatEdit::Delete, None).await;
        deleted.expect("the store works").expect("the service may");
        assert!(self.direct(&ana, &bo).await.is_new, "the pair may have a new one");
    }

    async fn a_group_is_full_at_its_limit(&self) {
        let owner = self.user("owner");
        let others: Vec<_> = (1..GROUP_MEMBERS_MAX).map(|_| self.user("m")).collect();
        let mut others: Vec<_> = others.iter().collect();
        let chat = self.group(&owner, &others).await;
        assert_eq!(chat.members.len(), GROUP_MEMBERS_MAX);
        let last = self.user("last");
        let full = self.edit(chat.chat_id, &owner, add(&last, Role::Member)).await;
        assert_eq!(full.err(), Some(EditError::Full));
        self.edit(chat.chat_id, &owner, remove(others[0])).await.expect("an owner may");
        self.edit(chat.chat_id, &owner, add(&last, Role::Member)).await.expect("there is room");
        others.push(&last);
        let new = NewChat {
            kind: ChatKind::Group,
            name: None,
            creator_id: owner.clone(),
            member_ids: others.iter().map(|other| (*other).clone()).collect(),
        };
        let refused = self.store.create(new, None).await.expect("the store works");
        assert_eq!(refused.err(), Some(EditError::Full));
    }

    async fn every_change_of_members_has_a_version(&self) {
        let Cast { chat_id, owner, member, stranger, .. } = self.cast().await;
        let first = self.send(chat_id, &owner, "v0").await.expect("it is stored");
        let mut last = first.members_version;
        for edit in [remove(&member), add(&member, Role::Member), add(&stranger, Role::Admin)] {
            let edited = self.edit(chat_id, &owner, edit).await.expect("an owner may");
            assert!(edited.members_version > last);
            last = edited.members_version;
            let appended = self.send(chat_id, &owner, &format!("v{last}")).await;
            assert_eq!(appended.expect("it is stored").members_version, last);
        }
        let same = self.edit(chat_id, &owner, add(&member, Role::Member)).await;
        assert_eq!(same.expect("an owner may").members_version, last, "nobody came");
    }

    async fn a_deleted_chat_is_gone_at_once(&self) {
        let Cast { chat_id, owner, admin, member, other, .. } = self.cast().await;
        self.stored(chat_id, &member, "hello").await;
        for actor in [&admin, &member] {
            let refused = self.edit(chat_id, actor, ChatEdit::Delete).await;
            assert_eq!(refused.err(), Some(EditError::Forbidden));
        }
        let deleted = self.edit(chat_id, &owner, ChatEdit::Delete).await;
        let deleted = deleted.expect("an owner may");
        assert!(deleted.has_changed);
        assert_eq!((deleted.chat.chat_id, deleted.chat.head_sequence), (chat_id, 1));
        let removed: BTreeSet<_> = deleted.removed.into_iter().collect();
        assert_eq!(removed, BTreeSet::from([owner.clone(), admin, member.clone(), other]));
        assert_eq!(self.store.chat(chat_id, None).await.expect("the store works"), None);
        let manifest = self.store.manifest(&member, None, 10).await;
        assert_eq!(manifest.expect("the store works"), []);
        let page = self.page(chat_id, None, super::Position::After(0), 10).await;
        assert_eq!(page, None);
        let late = self.send(chat_id, &owner, "late").await;
        assert_eq!(late.err(), Some(super::AppendRefusal::NotAMember));
    }

    async fn a_key_gives_the_first_result(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let key = |user_id: &UserId, route: &str, fingerprint| Idempotency {
            user_id: user_id.clone(),
            route: route.to_owned(),
            key: "key".to_owned(),
            fingerprint: [fingerprint; 32],
        };
        let create = async |creator: &UserId, idempotency| {
            let new = NewChat {
                kind: ChatKind::Group,
                name: Some("keyed".to_owned()),
                creator_id: creator.clone(),
                member_ids: Vec::new(),
            };
            self.store.create(new, Some(idempotency)).await.expect("the store works")
        };
        let first = create(&ana, key(&ana, "POST /v1/chats", 1)).await.expect("it is made");
        assert!(first.is_new);
        let again = create(&ana, key(&ana, "POST /v1/chats", 1)).await.expect("it is found");
        assert_eq!((again.is_new, &again.chat), (false, &first.chat));
        let other = create(&ana, key(&ana, "POST /v1/chats", 2)).await;
        assert_eq!(other.err(), Some(EditError::KeyReused));
        let elsewhere = create(&ana, key(&ana, "POST /v1/other", 2)).await;
        assert!(elsewhere.expect("another route").is_new);
        assert!(create(&bo, key(&bo, "POST /v1/chats", 2)).await.expect("another user").is_new);

        let chat_id = first.chat.chat_id;
        let edit = async |fingerprint| {
            let edit = add(&bo, Role::Member);
            let key = Some(key(&ana, "POST /v1/chats/x/members", fingerprint));
            let actor = Actor::User(ana.clone());
            self.store.edit(chat_id, actor, edit, key).await.expect("the store works")
        };
        assert!(edit(1).await.expect("an owner may").has_changed);
        self.edit(chat_id, &ana, remove(&bo)).await.expect("an owner may");
        let again = edit(1).await.expect("the first result");
        assert!(!again.has_changed);
        assert_eq!(again.chat.members.len(), 2, "as it was the first time");
        assert_eq!(self.role_of(chat_id, &bo).await, None, "nothing was done again");
        assert_eq!(edit(2).await.err(), Some(EditError::KeyReused));
    }

    async fn watermarks_rise_to_the_head_and_never_fall(&self) {
        let Cast { chat_id, owner, member, stranger, .. } = self.cast().await;
        let batch = (1..=5).map(|number| message(chat_id, &owner, &format!("m{number}")));
        self.append(batch.collect()).await;
        let record = async |user_id: &UserId, last_acked_sequence| {
            let user_id = user_id.clone();
            let watermark = Watermark { user_id, chat_id, last_acked_sequence };
            self.store.record_watermarks(vec![watermark]).await.expect("the store works");
        };
        let acked = async |user_id: &UserId| {
            let all = self.store.watermarks(chat_id, &owner).await.expect("the store works");
            let all = all.expect("a member may ask");
            assert_eq!(all.len(), 4, "one for each member");
            let own = all.into_iter().find(|watermark| watermark.user_id == *user_id);
            own.map(|watermark| watermark.last_acked_sequence)
        };
        assert_eq!(acked(&member).await, Some(0));
        record(&member, 3).await;
        assert_eq!(acked(&member).await, Some(3));
        record(&member, 2).await;
        assert_eq!(acked(&member).await, Some(3), "it never falls");
        record(&member, u64::MAX).await;
        assert_eq!(acked(&member).await, Some(5), "it ends at the head");
        record(&stranger, 4).await;
        assert_eq!(acked(&stranger).await, None);
        assert_eq!(acked(&owner).await, Some(0), "each has their own");
    }

    async fn summaries_show_the_newest_message(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let mut chats = Vec::new();
        for _ in 0..3 {
            chats.push(self.group(&ana, &[&bo]).await.chat_id);
        }
        chats.sort_unstable();
        self.stored(chats[1], &ana, "older").await;
        let newest = self.stored(chats[1], &bo, "newest").await;
        let acked = Watermark { user_id: bo.clone(), chat_id: chats[1], last_acked_sequence: 1 };
        self.store.record_watermarks(vec![acked]).await.expect("the store works");
        let first = self.store.chats_of(&bo, None, 2).await.expect("the store works");
        let rest = self.store.chats_of(&bo, Some(chats[1]), 2).await.expect("the store works");
        let listed: Vec<_> =
            first.iter().chain(&rest).map(|summary| summary.chat.chat_id).collect();
        assert_eq!(listed, chats);
        assert_eq!(first[0].last_message, None);
        assert_eq!(first[1].last_message.as_ref(), Some(&newest));
        assert_eq!((first[1].chat.head_sequence, first[1].last_acked_sequence), (2, 1));
        assert_eq!(first[1].chat.members.len(), 2);
    }
}
