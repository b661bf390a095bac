//! The promises of every [`ChatLog`](crate::log::ChatLog).

use std::collections::BTreeSet;
use std::time::Duration;

use heartline_protocol::ChatId;

use super::{Contract, message, no_chat, sequences};
use crate::announcements::{Published, Unpublished};
use crate::chats::{ChatEdit, Watermark};
use crate::log::{AppendRefusal, LogRead, Position};

impl Contract<'_> {
    /// Checks [`ChatLog`](crate::log::ChatLog), except retention.
    pub async fn prove_chat_log(&self) {
        self.a_batch_is_numbered_in_its_order_and_refusals_spoil_nothing().await;
        self.a_read_returns_the_appended_message().await;
        self.sequences_have_no_gaps_under_concurrent_sends().await;
        self.a_retry_gets_the_first_result().await;
        self.the_same_id_with_other_content_is_a_conflict().await;
        self.the_same_id_is_free_for_others_and_elsewhere().await;
        self.concurrent_duplicates_are_stored_once().await;
        self.a_removed_sender_still_gets_the_first_result().await;
        self.strangers_and_unknown_chats_look_the_same().await;
        self.pages_follow_each_other_in_both_directions().await;
        self.a_page_ends_at_its_bytes_but_is_never_empty().await;
        self.the_manifest_lists_every_chat_once_in_order().await;
        self.published_sequences_rise_without_gaps_and_never_fall().await;
        self.unpublished_messages_are_found().await;
        self.deleted_chats_are_removed_in_small_parts().await;
    }

    async fn a_batch_is_numbered_in_its_order_and_refusals_spoil_nothing(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let (one, two) = (self.group(&ana, &[]).await, self.group(&ana, &[]).await);
        let batch = vec![
            message(one.chat_id, &ana, "a"),
            message(two.chat_id, &ana, "b"),
            message(one.chat_id, &bo, "c"),
            message(one.chat_id, &ana, "d"),
            message(no_chat(), &ana, "e"),
            message(one.chat_id, &ana, "a"),
            message(two.chat_id, &ana, "f"),
        ];
        let answers = self.append(batch).await;
        let told: Vec<_> = answers
            .iter()
            .map(|answer| {
                let appended = answer.as_ref().map_err(|refusal| *refusal)?;
                Ok((appended.message.chat_id, appended.message.sequence, appended.duplicate))
            })
            .collect();
        let expected = [
            Ok((one.chat_id, 1, false)),
            Ok((two.chat_id, 1, false)),
            Err(AppendRefusal::NotAMember),
            Ok((one.chat_id, 2, false)),
            Err(AppendRefusal::NotAMember),
            Ok((one.chat_id, 1, true)),
            Ok((two.chat_id, 2, false)),
        ];
        assert_eq!(told, expected);
        assert_eq!(self.whole(one.chat_id).await.len(), 2);
        assert_eq!(self.append(Vec::new()).await, [], "an empty batch has an empty answer");
    }

    async fn a_read_returns_the_appended_message(&self) {
        let ana = self.user("ana");
        let chat = self.group(&ana, &[]).await;
        let mut new = message(chat.chat_id, &ana, "whole");
        new.content = "snow ☃, quotes ' \" and a \u{1f600}\nsecond line".to_owned();
        new.content_type = "text/markdown".to_owned();
        let appended = self.append(vec![new.clone()]).await.remove(0).expect("it is stored");
        assert_eq!(appended.message.content, new.content);
        assert_eq!(appended.message.content_type, new.content_type);
        assert_eq!(appended.message.sender_id, ana);
        assert_eq!(appended.message.client_message_id, new.client_message_id);
        assert!(!appended.published && !appended.message.deleted);
        assert_eq!(self.whole(chat.chat_id).await, [appended.message]);
    }

    async fn sequences_have_no_gaps_under_concurrent_sends(&self) {
        let ana = self.user("ana");
        let chat = self.group(&ana, &[]).await;
        let burst = |lane: usize| {
            let batch =
                (0..20).map(|number| message(chat.chat_id, &ana, &format!("lane{lane}.{number}")));
            self.append(batch.collect())
        };
        let (a, b, c, d) = tokio::join!(burst(0), burst(1), burst(2), burst(3));
        let told: BTreeSet<u64> = [a, b, c, d]
            .into_iter()
            .flatten()
            .map(|answer| answer.expect("it is stored").message.sequence)
            .collect();
        assert_eq!(told, (1..=80).collect());
        assert_eq!(self.whole(chat.chat_id).await.len(), 80);
    }

    async fn a_retry_gets_the_first_result(&self) {
        let ana = self.user("ana");
        let chat = self.group(&ana, &[]).await;
        let first = self.stored(chat.chat_id, &ana, "once").await;
        self.stored(chat.chat_id, &ana, "between").await;
        let again = self.send(chat.chat_id, &ana, "once").await.expect("a retry is safe");
        assert!(again.duplicate);
        assert_eq!(again.message, first, "the same id, number and time");
        assert_eq!(self.whole(chat.chat_id).await.len(), 2);
    }

    async fn the_same_id_with_other_content_is_a_conflict(&self) {
        let ana = self.user("ana");
        let chat = self.group(&ana, &[]).await;
        let first = message(chat.chat_id, &ana, "once");
        let mut other = first.clone();
        other.content.push('!');
        let answers = self.append(vec![first.clone(), other.clone()]).await;
        assert_eq!(answers[1].clone().err(), Some(AppendRefusal::Conflict), "in the same batch");
        let answers = self.append(vec![other, first]).await;
        assert_eq!(answers[0].clone().err(), Some(AppendRefusal::Conflict), "and later");
        assert!(answers[1].as_ref().is_ok_and(|appended| appended.duplicate));
        assert_eq!(self.whole(chat.chat_id).await.len(), 1);
    }

    async fn the_same_id_is_free_for_others_and_elsewhere(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let (here, there) = (self.group(&ana, &[&bo]).await, self.group(&ana, &[&bo]).await);
        let ids = [
            self.stored(here.chat_id, &ana, "same").await.message_id,
            self.stored(here.chat_id, &bo, "same").await.message_id,
            self.stored(there.chat_id, &ana, "same").await.message_id,
        ];
        assert_eq!(BTreeSet::from(ids).len(), 3);
        assert_eq!(self.whole(here.chat_id).await.len(), 2);
    }

    async fn concurrent_duplicates_are_stored_once(&self) {
        let ana = self.user("ana");
        let chat = self.group(&ana, &[]).await;
        for round in 0..10 {
            let name = format!("race{round}");
            let send = || self.send(chat.chat_id, &ana, &name);
            let (a, b, c, d) = tokio::join!(send(), send(), send(), send());
            let answers = [a, b, c, d].map(|answer| answer.expect("every retry is answered"));
            let firsts = answers.iter().filter(|appended| !appended.duplicate).count();
            assert_eq!(firsts, 1, "exactly one of them stored it");
            assert!(answers.iter().all(|appended| appended.message == answers[0].message));
        }
        assert_eq!(self.whole(chat.chat_id).await.len(), 10);
    }

    async fn a_removed_sender_still_gets_the_first_result(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let chat = self.group(&ana, &[&bo]).await;
        let first = self.stored(chat.chat_id, &bo, "before").await;
        let remove = ChatEdit::Remove { user_id: bo.clone() };
        self.edit(chat.chat_id, &ana, remove).await.expect("an owner may remove");
        let again = self.send(chat.chat_id, &bo, "before").await.expect("a retry is safe");
        assert!(again.duplicate);
        assert_eq!(again.message, first);
        let mut other = message(chat.chat_id, &bo, "before");
        other.content.push('!');
        let conflict = self.append(vec![other]).await.remove(0);
        assert_eq!(conflict.err(), Some(AppendRefusal::Conflict));
        let later = self.send(chat.chat_id, &bo, "after").await;
        assert_eq!(later.err(), Some(AppendRefusal::NotAMember));
    }

    async fn strangers_and_unknown_chats_look_the_same(&self) {
        let (ana, stranger) = (self.user("ana"), self.user("stranger"));
        let chat = self.group(&ana, &[]).await;
        self.stored(chat.chat_id, &ana, "hello").await;
        for chat_id in [chat.chat_id, no_chat()] {
            let refused = self.send(chat_id, &stranger, "hello").await;
            assert_eq!(refused.err(), Some(AppendRefusal::NotAMember));
            let page = self.page(chat_id, Some(&stranger), Position::After(0), 10).await;
            assert_eq!(page, None);
        }
        assert_eq!(self.page(no_chat(), None, Position::After(0), 10).await, None);
        let page = self.page(chat.chat_id, None, Position::After(0), 10).await;
        assert!(page.is_some(), "the server itself reads every chat");
    }

    async fn pages_follow_each_other_in_both_directions(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let chat = self.group(&ana, &[]).await;
        let empty = self.page(chat.chat_id, Some(&ana), Position::After(0), 3).await;
        let empty = empty.expect("a member reads");
        assert_eq!((empty.messages.len(), empty.has_more, empty.head_sequence), (0, false, 0));
        let batch = (1..=7).map(|number| message(chat.chat_id, &ana, &format!("m{number}")));
        self.append(batch.collect()).await;
        let add = ChatEdit::Add { user_id: bo.clone(), role: super::Role::Member };
        self.edit(chat.chat_id, &ana, add).await.expect("an owner may add");

        let table: [(Position, usize, &[u64], bool); 9] = [
            (Position::After(0), 3, &[1, 2, 3], true),
            (Position::After(3), 4, &[4, 5, 6, 7], false),
            (Position::After(4), 4, &[5, 6, 7], false),
            (Position::After(7), 4, &[], false),
            (Position::After(u64::MAX), 4, &[], false),
            (Position::Before(8), 3, &[5, 6, 7], true),
            (Position::Before(5), 4, &[1, 2, 3, 4], false),
            (Position::Before(1), 4, &[], false),
            (Position::Before(u64::MAX), 2, &[6, 7], true),
        ];
        for (position, limit, expected, has_more) in table {
            let page = self.page(chat.chat_id, Some(&bo), position, limit).await;
            let page = page.expect("a new member sees the whole history");
            assert_eq!(sequences(&page.messages), expected, "{position:?}");
            assert_eq!((page.has_more, page.head_sequence), (has_more, 7), "{position:?}");
        }
    }

    async fn a_page_ends_at_its_bytes_but_is_never_empty(&self) {
        let ana = self.user("ana");
        let chat = self.group(&ana, &[]).await;
        let batch = (1..=4).map(|number| {
            let mut new = message(chat.chat_id, &ana, &format!("m{number}"));
            new.content = "x".repeat(100);
            new
        });
        self.append(batch.collect()).await;
        let table: [(Position, usize, &[u64], bool); 5] = [
            (Position::After(0), 200, &[1, 2], true),
            (Position::After(0), 299, &[1, 2], true),
            (Position::After(0), 400, &[1, 2, 3, 4], false),
            (Position::After(2), 1, &[3], true),
            (Position::Before(5), 250, &[3, 4], true),
        ];
        for (position, content_bytes_max, expected, has_more) in table {
            let read = LogRead {
                chat_id: chat.chat_id,
                reader: Some(ana.clone()),
                position,
                limit: 10,
                content_bytes_max,
            };
            let page = self.store.read(read).await.expect("the store works");
            let page = page.expect("a member reads");
            assert_eq!(sequences(&page.messages), expected, "{content_bytes_max} bytes");
            assert_eq!(page.has_more, has_more, "{content_bytes_max} bytes");
        }
    }

    async fn the_manifest_lists_every_chat_once_in_order(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let mut chats = Vec::new();
        for _ in 0..5 {
            chats.push(self.group(&ana, &[]).await.chat_id);
        }
        self.group(&bo, &[]).await;
        self.append(vec![message(chats[1], &ana, "a"), message(chats[1], &ana, "b")]).await;
        let watermark =
            Watermark { user_id: ana.clone(), chat_id: chats[1], last_acked_sequence: 1 };
        self.store.record_watermarks(vec![watermark]).await.expect("the store works");
        let mut listed: Vec<(ChatId, u64, u64)> = Vec::new();
        loop {
            let after = listed.last().map(|(chat_id, _, _)| *chat_id);
            let page = self.store.manifest(&ana, after, 2).await.expect("the store works");
            assert!(page.len() <= 2);
            if page.is_empty() {
                break;
            }
            let page = page.into_iter();
            let shown =
                page.map(|chat| (chat.chat_id, chat.head_sequence, chat.last_acked_sequence));
            listed.extend(shown);
        }
        let mut expected: Vec<_> = chats.iter().map(|chat_id| (*chat_id, 0, 0)).collect();
        expected[1] = (chats[1], 2, 1);
        expected.sort_unstable();
        assert_eq!(listed, expected);
        let nobody = self.store.manifest(&self.user("nobody"), None, 9).await;
        assert_eq!(nobody.expect("the store works"), []);
    }

    async fn published_sequences_rise_without_gaps_and_never_fall(&self) {
        let ana = self.user("ana");
        let chat_id = self.group(&ana, &[]).await.chat_id;
        let batch = (1..=6).map(|number| message(chat_id, &ana, &format!("m{number}")));
        self.append(batch.collect()).await;
        let range = |first, last| Published { chat_id, first, last };
        let record = async |ranges: Vec<Published>| {
            self.store.record_published(ranges).await.expect("the store works")
        };
        let known = async |name: &str| {
            let again = self.send(chat_id, &ana, name).await.expect("a retry is safe");
            again.published
        };
        record(vec![range(3, 3)]).await;
        record(vec![range(5, 5), range(3, 3)]).await;
        assert!(!known("m3").await, "1 and 2 are missing");
        record(vec![range(1, 2)]).await;
        assert!(known("m3").await && !known("m4").await, "up to the next hole");
        record(vec![range(1, 3)]).await;
        assert!(known("m3").await && !known("m4").await, "what is known already changes nothing");
        record(vec![range(4, 4)]).await;
        assert!(known("m5").await && !known("m6").await);
        record(vec![range(6, 9), range(8, 9)]).await;
        assert!(known("m6").await);
        self.append(vec![message(chat_id, &ana, "m7")]).await;
        assert!(!known("m7").await, "what was not stored yet cannot have been announced");
        let elsewhere = Published { chat_id: no_chat(), first: 1, last: 1 };
        record(vec![elsewhere, range(7, 7)]).await;
        assert!(known("m7").await, "a chat that is gone does not disturb");
    }

    async fn unpublished_messages_are_found(&self) {
        let ana = self.user("ana");
        let chat_id = self.group(&ana, &[]).await.chat_id;
        let version = self.stored_version(chat_id, &ana).await;
        let found = async |older_than| {
            let all = self.store.unpublished(older_than, 10_000).await.expect("the store works");
            all.into_iter().find(|unpublished| unpublished.chat_id == chat_id)
        };
        let expected = |published_sequence, head_sequence| Unpublished {
            chat_id,
            published_sequence,
            head_sequence,
            members_version: version,
        };
        assert_eq!(found(Duration::ZERO).await, Some(expected(0, 1)));
        assert_eq!(found(Duration::from_secs(3600)).await, None, "it has not waited that long");
        self.stored(chat_id, &ana, "second").await;
        let first = Published { chat_id, first: 1, last: 1 };
        self.store.record_published(vec![first]).await.expect("the store works");
        assert_eq!(found(Duration::ZERO).await, Some(expected(1, 2)));
        let second = Published { chat_id, first: 2, last: 2 };
        self.store.record_published(vec![second]).await.expect("the store works");
        assert_eq!(found(Duration::ZERO).await, None);
    }

    async fn stored_version(&self, chat_id: ChatId, sender: &super::UserId) -> u64 {
        self.send(chat_id, sender, "first").await.expect("it is stored").members_version
    }

    async fn deleted_chats_are_removed_in_small_parts(&self) {
        self.forget_all().await;
        let ana = self.user("ana");
        let chat_id = self.group(&ana, &[]).await.chat_id;
        let batch = (1..=5).map(|number| message(chat_id, &ana, &format!("m{number}")));
        self.append(batch.collect()).await;
        self.edit(chat_id, &ana, ChatEdit::Delete).await.expect("an owner may delete");
        let unpublished = self.store.unpublished(Duration::ZERO, 10_000).await;
        let unpublished = unpublished.expect("the store works");
        assert!(unpublished.iter().all(|unpublished| unpublished.chat_id != chat_id));
        let mut removed = Vec::new();
        while removed.last() != Some(&0) {
            removed.push(self.store.forget(None, 3).await.expect("the store works"));
        }
        assert_eq!(removed, [3, 2, 0]);
        let retry = self.send(chat_id, &ana, "m1").await;
        assert_eq!(retry.err(), Some(AppendRefusal::NotAMember));
    }

    /// Checks retention. Removes everything else that the store holds, so it comes last.
    pub async fn prove_retention(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        let chat_id = self.group(&ana, &[&bo]).await.chat_id;
        let batch = (1..=5).map(|number| message(chat_id, &ana, &format!("m{number}")));
        assert!(self.append(batch.collect()).await.iter().all(Result::is_ok));
        let day = Some(Duration::from_secs(24 * 60 * 60));
        let removed = self.store.forget(day, 10).await.expect("the store works");
        assert_eq!(removed, 0, "nothing is that old");

        // Times have a resolution of milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        loop {
            let removed =
                self.store.forget(Some(Duration::ZERO), 3).await.expect("the store works");
            assert!(removed <= 3);
            if removed < 3 {
                break;
            }
        }
        let page = self.page(chat_id, Some(&bo), Position::After(0), 10).await;
        let page = page.expect("the chat is still there");
        assert_eq!((page.messages.len(), page.head_sequence), (0, 5), "numbers are not used again");
        let unpublished = self.store.unpublished(Duration::ZERO, 10_000).await;
        let unpublished = unpublished.expect("the store works");
        assert!(
            unpublished.iter().all(|unpublished| unpublished.chat_id != chat_id),
            "what is gone cannot be announced"
        );
        assert_eq!(self.stored(chat_id, &ana, "next").await.sequence, 6);
        let page = self.page(chat_id, Some(&bo), Position::After(0), 10).await;
        assert_eq!(sequences(&page.expect("a member reads").messages), [6]);
    }
}
