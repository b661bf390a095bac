//! The promises of every [`ChatLog`](crate::log::ChatLog) if one chat cannot be written.

use heartline_protocol::{ChatId, Outcome};

use super::{Contract, message};
use crate::log::AppendError;

impl Contract<'_> {
    /// Proves that a chat that cannot be written fails alone. No port can make a chat fail, so the
    /// caller says how: `break_chat` makes the engine fail every later write of a message to this
    /// chat. The chat stays broken.
    pub async fn prove_failing_chat(&self, break_chat: impl AsyncFn(ChatId)) {
        let ana = self.user("ana");
        let mut chat_ids = Vec::new();
        for _ in 0..7 {
            chat_ids.push(self.group(&ana, &[]).await.chat_id);
        }
        let broken = chat_ids[3];
        self.stored(broken, &ana, "before").await;
        break_chat(broken).await;

        let names = ["first", "second", "third"];
        let batch = || {
            let chats = |name| chat_ids.iter().map(move |chat_id| (*chat_id, name));
            let messages = names.into_iter().flat_map(chats);
            messages.map(|(chat_id, name)| message(chat_id, &ana, name)).collect::<Vec<_>>()
        };
        for is_retry in [false, true] {
            let results = self.store.append(batch()).await;
            assert_eq!(results.len(), batch().len(), "one result per message");
            for (index, (new, result)) in batch().iter().zip(results).enumerate() {
                if new.chat_id == broken {
                    let Err(AppendError::Store(error)) = result else {
                        panic!("a broken chat fails: {result:?}");
                    };
                    assert_eq!(error.outcome, Outcome::Rejected, "nothing was committed");
                    continue;
                }
                let appended = result.expect("the other chats are stored");
                let sequence = (index / chat_ids.len()) as u64 + 1;
                assert_eq!(appended.message.sequence, sequence);
                assert_eq!(appended.duplicate, is_retry);
            }
        }
        for chat_id in chat_ids {
            let stored = if chat_id == broken { 1 } else { names.len() };
            assert_eq!(self.whole(chat_id).await.len(), stored);
        }
    }
}
