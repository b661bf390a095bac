//! The two stores return the same results for the same calls.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::OnceLock;

use heartline_durability::contract::StorePorts;
use heartline_durability::{
    Actor, ChatEdit, Idempotency, LogRead, NewChat, Position, Published, Sight, Watermark,
};
use heartline_fanout::Audiences;
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{ChatKind, Role};
use heartline_protocol::{ChatId, Timestamp, UserId};
use heartline_runtime::{Clock, Random};
use proptest::prelude::*;

use super::scratch::{Scratch, message, user};
use crate::append_all::AppendAll;
use crate::sqlite::{SqliteConfig, SqliteStore};

const USERS: [&str; 5] = ["ana", "bo", "cy", "di", "ed"];
const ROLES: [Role; 3] = [Role::Owner, Role::Admin, Role::Member];
const VISIBILITIES: [Visibility; 3] =
    [Visibility::Everyone, Visibility::ContactsOnly, Visibility::Nobody];

/// A call to a store. Numbers stand for chats, users and messages.
#[derive(Debug, Clone)]
enum Step {
    Create { creator: usize, others: Vec<usize>, is_direct: bool, key: Option<u8> },
    Edit { chat: usize, actor: Option<usize>, edit: Edit, key: Option<u8> },
    Append(Vec<(usize, usize, u8, bool)>),
    Publish(Vec<(usize, u64, u64)>),
    Acknowledge(usize, usize, u64),
    Name(usize, Option<u8>),
    See(usize, u64),
    Choose(usize, usize),
    Put(usize, usize),
    TakeAway(usize, usize),
    Delete(usize),
    Forget(usize),
}

#[derive(Debug, Clone)]
enum Edit {
    Rename(Option<u8>),
    Add(usize, usize),
    SetRole(usize, usize),
    Remove(usize),
    Delete,
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..USERS.len();
    let chat = || 0..6_usize;
    let key = || prop::option::weighted(0.3, 0..2_u8);
    let edit = prop_oneof![
        1 => prop::option::of(0..3_u8).prop_map(Edit::Rename),
        3 => (who(), 0..3_usize).prop_map(|(who, role)| Edit::Add(who, role)),
        2 => (who(), 0..3_usize).prop_map(|(who, role)| Edit::SetRole(who, role)),
        2 => who().prop_map(Edit::Remove),
        1 => Just(Edit::Delete),
    ];
    let sent = (chat(), who(), 0..6_u8, prop::bool::weighted(0.8));
    let range = (chat(), 1..9_u64, 0..4_u64);
    let range = range.prop_map(|(chat, first, more)| (chat, first, first + more));
    prop_oneof![
        3 => (who(), prop::collection::btree_set(who(), 0..4), any::<bool>(), key()).prop_map(
            |(creator, others, is_direct, key)| {
                let others = others.into_iter().filter(|other| *other != creator).collect();
                Step::Create { creator, others, is_direct, key }
            }
        ),
        4 => (chat(), prop::option::weighted(0.8, who()), edit, key())
            .prop_map(|(chat, actor, edit, key)| Step::Edit { chat, actor, edit, key }),
        8 => prop::collection::vec(sent, 1..8).prop_map(Step::Append),
        3 => prop::collection::vec(range, 1..4).prop_map(Step::Publish),
        2 => (chat(), who(), 0..20_u64)
            .prop_map(|(chat, who, last)| Step::Acknowledge(chat, who, last)),
        1 => (who(), prop::option::of(any::<u8>())).prop_map(|(who, name)| Step::Name(who, name)),
        1 => (who(), 1..2000_u64).prop_map(|(who, at)| Step::See(who, at)),
        1 => (who(), 0..3_usize).prop_map(|(who, choice)| Step::Choose(who, choice)),
        3 => (who(), who()).prop_map(|(one, other)| Step::Put(one, other)),
        1 => (who(), who()).prop_map(|(one, other)| Step::TakeAway(one, other)),
        1 => who().prop_map(Step::Delete),
        1 => (1..5_usize).prop_map(Step::Forget),
    ]
}

/// A store, and the chats in the order in which they were created.
struct Subject<S> {
    store: S,
    chats: Vec<ChatId>,
}

impl<S: StorePorts + Audiences> Subject<S> {
    /// Runs a step and returns its result, without ids and times.
    async fn step(&mut self, step: &Step) -> String {
        let text = match step {
            Step::Create { creator, others, is_direct, key } => {
                self.create(*creator, others, *is_direct, *key).await
            }
            Step::Edit { chat, actor, edit, key } => {
                let Some(chat_id) = self.chat(*chat) else { return String::new() };
                let edit = edit.of();
                let who = actor.unwrap_or(0);
                let key = key.map(|key| idempotency(who, "edit", key, &(chat, &edit)));
                let actor = actor.map_or(Actor::Service, |who| Actor::User(user(USERS[who])));
                text_of(&self.store.edit(chat_id, actor, edit, key).await.unwrap())
            }
            Step::Append(sent) => {
                let batch = sent.iter().filter_map(|(chat, who, name, is_usual)| {
                    let mut new = message(self.chat(*chat)?, USERS[*who], &format!("m{name}"));
                    if !is_usual {
                        new.content.push('!');
                    }
                    Some(new)
                });
                text_of(&self.store.append_all(batch.collect()).await.unwrap())
            }
            Step::Publish(ranges) => {
                let range = |(chat, first, last): &(usize, u64, u64)| {
                    let chat_id = self.chat(*chat)?;
                    Some(Published { chat_id, first: *first, last: *last })
                };
                let ranges = ranges.iter().filter_map(range).collect();
                text_of(&self.store.record_published(ranges).await.unwrap())
            }
            Step::Acknowledge(chat, who, last_acked_sequence) => {
                let Some(chat_id) = self.chat(*chat) else { return String::new() };
                let user_id = user(USERS[*who]);
                let last_acked_sequence = *last_acked_sequence;
                let watermark = Watermark { user_id, chat_id, last_acked_sequence };
                text_of(&self.store.record_watermarks(vec![watermark]).await.unwrap())
            }
            Step::Name(..) | Step::See(..) | Step::Choose(..) | Step::Put(..) => {
                self.person(step).await
            }
            Step::TakeAway(..) | Step::Delete(..) => self.person(step).await,
            Step::Forget(limit) => {
                // Runs to the end, because each store chooses itself what it deletes first.
                let mut changed = Vec::new();
                while changed.last().is_none_or(|changed| changed == limit) {
                    changed.push(self.store.forget(None, *limit).await.unwrap());
                }
                text_of(&changed)
            }
        };
        self.blur(text)
    }

    async fn create(
        &mut self,
        creator: usize,
        others: &[usize],
        is_direct: bool,
        key: Option<u8>,
    ) -> String {
        let kind = if is_direct { ChatKind::Direct } else { ChatKind::Group };
        let others = &others[..if is_direct { others.len().min(1) } else { others.len() }];
        if is_direct && others.is_empty() {
            return String::new();
        }
        let creator_id = user(USERS[creator]);
        let member_ids = others.iter().map(|other| user(USERS[*other])).collect();
        let new = NewChat { kind, name: None, creator_id, member_ids };
        let key = key.map(|key| idempotency(creator, "create", key, &new));
        let created = self.store.create(new, key).await.unwrap();
        if let Ok(created) = &created
            && !self.chats.contains(&created.chat.chat_id)
        {
            self.chats.push(created.chat.chat_id);
        }
        text_of(&created)
    }

    async fn person(&self, step: &Step) -> String {
        let id = |who: &usize| user(USERS[*who]);
        match step {
            Step::Name(who, name) => {
                let name = name.map(|name| format!("name {name}"));
                text_of(&self.store.set_display_name(&id(who), name).await.unwrap())
            }
            Step::See(who, unix_ms) => {
                let seen = vec![(id(who), Timestamp { unix_ms: *unix_ms })];
                text_of(&self.store.record_last_seen(seen).await.unwrap())
            }
            Step::Choose(who, choice) => {
                let choice = VISIBILITIES[*choice];
                text_of(&self.store.set_visibility(&id(who), choice).await.unwrap())
            }
            Step::Put(one, other) => {
                text_of(&self.store.put_contact(&id(one), &id(other)).await.unwrap())
            }
            Step::TakeAway(one, other) => {
                text_of(&self.store.remove_contact(&id(one), &id(other)).await.unwrap())
            }
            Step::Delete(who) => {
                let mut edited = self.store.delete_user(&id(who)).await.unwrap();
                edited.sort_by_key(|edited| self.place(edited.chat.chat_id));
                text_of(&edited)
            }
            _ => unreachable!("the others are not about people"),
        }
    }

    /// Everything that the ports can read.
    async fn look(&self) -> String {
        let mut seen = BTreeMap::new();
        for (place, chat_id) in self.chats.iter().enumerate() {
            let viewer = user(USERS[place % USERS.len()]);
            let read = |reader: Option<UserId>, position| LogRead {
                chat_id: *chat_id,
                reader,
                position,
                limit: 3,
                content_bytes_max: 40,
            };
            let after = self.store.read(read(None, Position::After(1))).await.unwrap();
            let before = self.store.read(read(Some(viewer.clone()), Position::Before(5))).await;
            let audience = self.store.audience(*chat_id).await.unwrap().map(|audience| {
                let mut user_ids = audience.user_ids.to_vec();
                user_ids.sort_unstable();
                (audience.members_version, user_ids)
            });
            let watermarks = self.store.watermarks(*chat_id, &viewer).await.unwrap();
            let chat = self.store.chat(*chat_id, None).await.unwrap();
            let seen_here = (after, before.unwrap(), audience, watermarks, chat);
            seen.insert(format!("chat {place}"), text_of(&seen_here));
        }
        for name in USERS {
            let user_id = user(name);
            let mut manifest = self.store.manifest(&user_id, None, 9).await.unwrap();
            manifest.sort_by_key(|chat| self.place(chat.chat_id));
            let mut chats = self.store.chats_of(&user_id, None, 9).await.unwrap();
            chats.sort_by_key(|summary| self.place(summary.chat.chat_id));
            let contacts = self.store.contacts(&user_id, Some(&user("b")), 2).await.unwrap();
            let profile = self.store.profile(&user_id).await.unwrap();
            let sight = |other: &&str| Sight { observer_id: user_id.clone(), user_id: user(other) };
            let sights = USERS.iter().map(sight).collect();
            let relations = self.store.relations(sights).await.unwrap();
            let day = std::time::Duration::from_secs(24 * 60 * 60);
            let companions = self.store.companions(std::slice::from_ref(&user_id), day, 3).await;
            let mut companions = companions.unwrap();
            companions.iter_mut().for_each(|companions| companions.sort_unstable());
            let seen_here = (manifest, chats, contacts, profile, relations, companions);
            seen.insert(name.to_owned(), text_of(&seen_here));
        }
        let waiting = self.store.unpublished(std::time::Duration::ZERO, 99).await.unwrap();
        let mut waiting: Vec<_> = waiting
            .iter()
            .map(|chat| (self.place(chat.chat_id), chat.published_sequence, chat.head_sequence))
            .collect();
        waiting.sort_unstable();
        seen.insert("unpublished".to_owned(), text_of(&waiting));
        self.blur(format!("{seen:#?}"))
    }

    fn chat(&self, number: usize) -> Option<ChatId> {
        self.chats.get(number).copied()
    }

    fn place(&self, chat_id: ChatId) -> usize {
        self.chats.iter().position(|known| *known == chat_id).expect("a chat that was made")
    }

    /// Replaces the id of a chat with its index, and removes message ids and current times.
    fn blur(&self, mut text: String) -> String {
        for (place, chat_id) in self.chats.iter().enumerate() {
            text = text.replace(&chat_id.to_string(), &format!("chat {place}"));
        }
        let text = cut(&text, "msg_", 26);
        // Thirteen digits until the year 2286; those of the steps have four.
        let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
        let mut parts = text.split("unix_ms: ");
        let mut blurred = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = digits(part);
            let time = if end > 4 { "today" } else { &part[..end] };
            blurred.push_str(&format!("unix_ms: {time}{}", &part[end..]));
        }
        blurred
    }
}

fn text_of(value: &impl Debug) -> String {
    format!("{value:?}")
}

/// Removes so many characters after every mark.
fn cut(text: &str, mark: &str, length: usize) -> String {
    let mut parts = text.split(mark);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + mark + &part[length.min(part.len())..])
}

fn idempotency(who: usize, route: &str, key: u8, request: &impl Debug) -> Idempotency {
    let mut fingerprint = [0_u8; 32];
    for (index, byte) in format!("{request:?}").bytes().enumerate() {
        fingerprint[index % 32] = byte.wrapping_add(fingerprint[index % 32].rotate_left(3));
    }
    let (user_id, route) = (user(USERS[who]), route.to_owned());
    Idempotency { user_id, route, key: format!("key{key}"), fingerprint }
}

impl Edit {
    fn of(&self) -> ChatEdit {
        let id = |who: &usize| user(USERS[*who]);
        match self {
            Self::Rename(name) => ChatEdit::Rename(name.map(|name| format!("chat {name}"))),
            Self::Add(who, role) => ChatEdit::Add { user_id: id(who), role: ROLES[*role] },
            Self::SetRole(who, role) => ChatEdit::SetRole { user_id: id(who), role: ROLES[*role] },
            Self::Remove(who) => ChatEdit::Remove { user_id: id(who) },
            Self::Delete => ChatEdit::Delete,
        }
    }
}

/// The directory of an embedded store, removed on drop.
struct Directory(std::path::PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn compare(steps: &[Step]) -> Result<(), TestCaseError> {
    let name = format!("heartline-alike-{:032x}", Random::system().draw::<u128>());
    let directory = Directory(std::env::temp_dir().join(name));
    std::fs::create_dir(&directory.0).unwrap();
    let config = SqliteConfig { disk_reserve_bytes: 0, ..SqliteConfig::in_directory(&directory.0) };
    let sqlite = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
    // One database for all cases, because creating one costs more than a case.
    static SCRATCH: OnceLock<Scratch> = OnceLock::new();
    let scratch = SCRATCH.get_or_init(Scratch::new);
    let postgres = scratch.open().await;
    scratch.empty();
    let mut sqlite = Subject { store: sqlite, chats: Vec::new() };
    let mut postgres = Subject { store: postgres, chats: Vec::new() };
    for (number, step) in steps.iter().enumerate() {
        let (expected, answered) = (sqlite.step(step).await, postgres.step(step).await);
        prop_assert_eq!(expected, answered, "step {}: {:?}", number, step);
    }
    prop_assert_eq!(sqlite.look().await, postgres.look().await);
    scratch.check_marks();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Default::default()
    })]

    #[test]
    fn both_stores_return_the_same_results(steps in prop::collection::vec(step(), 20..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(&steps))?;
    }
}
