use std::collections::{BTreeMap, BTreeSet};

use heartline_durability::{
    Actor, Announcements, AppendRefusal, ChatEdit, ChatLog, Chats, LazyStore, LogRead, NewMessage,
    Position, Published, Watermark,
};
use heartline_protocol::ChatId;
use heartline_protocol::server_frame::Role;
use proptest::prelude::*;

use super::scratch::{Scratch, group, message, user};
use crate::append_all::AppendAll;
use crate::sqlite::SqliteStore;

const USERS: [&str; 3] = ["ana", "bo", "cy"];

/// A call to a store. Numbers stand for chats, users and messages.
#[derive(Debug, Clone)]
enum Step {
    Append(Vec<(usize, usize, u8, bool)>),
    Add(usize, usize),
    Remove(usize, usize),
    Publish(usize, u64, u64),
    Acknowledge(usize, usize, u64),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let sent = (0..2_usize, 0..3_usize, 0..8_u8, any::<bool>());
    prop_oneof![
        6 => prop::collection::vec(sent, 1..6).prop_map(Step::Append),
        2 => (0..2_usize, 1..3_usize).prop_map(|(chat, who)| Step::Add(chat, who)),
        1 => (0..2_usize, 1..3_usize).prop_map(|(chat, who)| Step::Remove(chat, who)),
        2 => (0..2_usize, 1..9_u64, 0..4_u64)
            .prop_map(|(chat, first, more)| Step::Publish(chat, first, first + more)),
        1 => (0..2_usize, 0..3_usize, 0..20_u64)
            .prop_map(|(chat, who, last)| Step::Acknowledge(chat, who, last)),
        1 => Just(Step::Reopen),
    ]
}

/// The simplest model of a chat.
#[derive(Debug, Default)]
struct ModelChat {
    members: BTreeMap<usize, u64>,
    messages: Vec<(usize, String, String)>,
    published: u64,
    /// Ranges announced since the store was opened: ranges after a gap are not in the file.
    announced: BTreeSet<u64>,
}

impl ModelChat {
    /// The sequence, whether the message existed, and whether it was announced.
    fn append(&mut self, who: usize, new: &NewMessage) -> Result<(u64, bool, bool), AppendRefusal> {
        let name = new.client_message_id.as_str();
        let stored = self.messages.iter().position(|(sender, id, _)| *sender == who && id == name);
        match stored {
            Some(index) if self.messages[index].2 != new.content => Err(AppendRefusal::Conflict),
            Some(index) => {
                let sequence = index as u64 + 1;
                Ok((sequence, true, sequence <= self.published))
            }
            None if !self.members.contains_key(&who) => Err(AppendRefusal::NotAMember),
            None => {
                self.messages.push((who, name.to_owned(), new.content.clone()));
                Ok((self.messages.len() as u64, false, false))
            }
        }
    }

    fn publish(&mut self, first: u64, last: u64) {
        let head = self.messages.len() as u64;
        self.announced.extend(first..=last.min(head));
        while self.announced.contains(&(self.published + 1)) {
            self.published += 1;
        }
    }
}

async fn edit(store: &SqliteStore, chat_id: ChatId, edit: ChatEdit) {
    let _ = store.edit(chat_id, Actor::Service, edit, None).await.unwrap();
}

async fn run_step(store: &SqliteStore, ids: [ChatId; 2], chats: &mut [ModelChat; 2], step: Step) {
    match step {
        Step::Append(sent) => {
            let news: Vec<_> = sent
                .iter()
                .map(|(chat, who, name, is_other)| {
                    let mut new = message(ids[*chat], USERS[*who], &format!("m{name}"));
                    new.content.push_str(if *is_other { " or other" } else { "" });
                    new
                })
                .collect();
            let expected: Vec<_> = sent
                .iter()
                .zip(&news)
                .map(|((chat, who, ..), new)| chats[*chat].append(*who, new))
                .collect();
            let answers = store.append_all(news).await.unwrap().into_iter().map(|answer| {
                let appended = answer?;
                Ok((appended.message.sequence, appended.duplicate, appended.published))
            });
            assert_eq!(answers.collect::<Vec<_>>(), expected);
        }
        Step::Add(chat, who) => {
            chats[chat].members.entry(who).or_insert(0);
            let role = Role::Member;
            edit(store, ids[chat], ChatEdit::Add { user_id: user(USERS[who]), role }).await;
        }
        Step::Remove(chat, who) => {
            chats[chat].members.remove(&who);
            edit(store, ids[chat], ChatEdit::Remove { user_id: user(USERS[who]) }).await;
        }
        Step::Publish(chat, first, last) => {
            let range = Published { chat_id: ids[chat], first, last };
            chats[chat].publish(first, last);
            store.record_published(vec![range]).await.unwrap();
        }
        Step::Acknowledge(chat, who, last) => {
            let head = chats[chat].messages.len() as u64;
            if let Some(acked) = chats[chat].members.get_mut(&who) {
                *acked = (*acked).max(last.min(head));
            }
            let (user_id, chat_id) = (user(USERS[who]), ids[chat]);
            let watermark = Watermark { user_id, chat_id, last_acked_sequence: last };
            store.record_watermarks(vec![watermark]).await.unwrap();
        }
        Step::Reopen => chats.iter_mut().for_each(|chat| chat.announced.clear()),
    }
}

async fn compare(store: &SqliteStore, chat_id: ChatId, chat: &ModelChat) {
    let read = LogRead {
        chat_id,
        reader: None,
        position: Position::After(0),
        limit: 1000,
        content_bytes_max: usize::MAX,
    };
    let page = store.read(read).await.unwrap().unwrap();
    let stored: Vec<_> = page
        .messages
        .iter()
        .map(|message| (message.sequence, message.sender_id.as_str(), message.content.as_str()))
        .collect();
    let expected: Vec<_> = (1..)
        .zip(&chat.messages)
        .map(|(sequence, (who, _, content))| (sequence, USERS[*who], content.as_str()))
        .collect();
    assert_eq!(stored, expected);
    let watermarks = store.watermarks(chat_id, &user("ana")).await.unwrap().unwrap();
    let acked: BTreeSet<_> = watermarks
        .into_iter()
        .map(|watermark| (watermark.user_id.to_string(), watermark.last_acked_sequence))
        .collect();
    let expected =
        chat.members.iter().map(|(who, acked)| (USERS[*who].to_owned(), *acked)).collect();
    assert_eq!(acked, expected);
}

async fn walk(steps: Vec<Step>) {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    let ids = [group(&store, "ana").await, group(&store, "ana").await];
    let mut chats = [ModelChat::default(), ModelChat::default()];
    for chat in &mut chats {
        chat.members.insert(0, 0);
    }
    for step in steps {
        if matches!(step, Step::Reopen) {
            drop(store);
            store = scratch.open();
        }
        run_step(&store, ids, &mut chats, step).await;
    }
    for (chat_id, chat) in ids.into_iter().zip(&chats) {
        compare(&store, chat_id, chat).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_store_behaves_like_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(walk(steps));
    }
}
