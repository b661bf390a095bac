//! The promises of every [`ChatLog`](crate::log::ChatLog) about a chat whose counter is lost.

use heartline_protocol::ChatId;

use super::{Contract, Position};
use crate::log::AppendRefusal;

impl Contract<'_> {
    /// Checks the effects of a lost counter. No port can lose one, so the caller passes
    /// `lose_counter`, which deletes the counter of a chat in the engine itself. The chats stay
    /// halted.
    pub async fn prove_halted(&self, lose_counter: impl AsyncFn(ChatId)) {
        let ana = self.user("ana");
        let mut lost = Vec::new();
        for _ in 0..3 {
            let chat_id = self.group(&ana, &[]).await.chat_id;
            self.stored(chat_id, &ana, "before").await;
            assert!(!self.halted(10_000).await.contains(&chat_id), "a sound chat goes on");
            lose_counter(chat_id).await;
            let refused = self.send(chat_id, &ana, "after").await;
            assert_eq!(refused.err(), Some(AppendRefusal::Halted));
            lost.push(chat_id);
        }
        let sound = self.group(&ana, &[]).await.chat_id;
        self.stored(sound, &ana, "elsewhere").await;
        let halted = self.halted(10_000).await;
        assert!(lost.iter().all(|chat_id| halted.contains(chat_id)), "every one is listed");
        assert!(!halted.contains(&sound), "and no other");
        assert_eq!(self.halted(2).await.len(), 2, "at most as many as asked for");
        assert_eq!(self.halted(0).await, []);

        for chat_id in lost {
            let again = self.send(chat_id, &ana, "before").await.expect("a retry is answered");
            assert!(again.duplicate);
            let page = self.page(chat_id, Some(&ana), Position::After(0), 10).await;
            assert_eq!(page.expect("it can be read").messages.len(), 1);
        }
    }

    async fn halted(&self, limit: usize) -> Vec<ChatId> {
        let halted = self.store.halted(limit).await.expect("the store works");
        assert!(halted.len() <= limit);
        halted
    }
}
