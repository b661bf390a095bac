//! Own messages that are not answered yet, and when to show them as waiting.
//!
//! An answer usually arrives within milliseconds, so a message is shown as waiting only after some
//! time, or when the connection is lost.

use std::collections::VecDeque;

use heartline_client::Draft;
use heartline_protocol::ClientMessageId;
use tokio::time::Instant;

/// The unanswered messages in the order in which they were typed; the client's outbox limits their
/// number.
#[derive(Debug, Default)]
pub(super) struct Pending {
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    draft: Draft,
    /// When to show the message as waiting; none if it was shown.
    show_at: Option<Instant>,
}

impl Pending {
    /// Adds a message, which is shown as waiting from `show_at` on.
    pub(super) fn push(&mut self, draft: Draft, show_at: Instant) {
        self.waiting.push_back(Waiting { draft, show_at: Some(show_at) });
    }

    /// Removes a message that was answered or not queued.
    pub(super) fn answered(&mut self, id: &ClientMessageId) -> Option<Draft> {
        let is_it = |waiting: &Waiting| waiting.draft.client_message_id == *id;
        let index = self.waiting.iter().position(is_it)?;
        self.waiting.remove(index).map(|waiting| waiting.draft)
    }

    /// The connection is lost: all messages are shown as waiting now.
    pub(super) fn show_all_by(&mut self, now: Instant) {
        for waiting in &mut self.waiting {
            waiting.show_at = waiting.show_at.map(|show_at| show_at.min(now));
        }
    }

    /// When the next message is to be shown as waiting.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|waiting| waiting.show_at).min()
    }

    /// The messages to show as waiting now; each is returned once.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Draft> {
        let due = self
            .waiting
            .iter_mut()
            .filter(|waiting| waiting.show_at.is_some_and(|show_at| show_at <= now));
        due.map(|waiting| {
            waiting.show_at = None;
            waiting.draft.clone()
        })
        .collect()
    }

    /// Whether every message is answered.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heartline_protocol::ChatId;
    use heartline_runtime::Clock;
    use ulid::Ulid;

    use super::*;

    #[test]
    fn a_message_without_a_timely_answer_is_shown_as_waiting_once() {
        let (now, soon) = (Clock::system().now(), Clock::system().now() + Duration::from_secs(1));
        let [first, second] = ["a", "b"].map(|text| Draft::new(ChatId(Ulid(1)), text));
        let mut pending = Pending::default();
        pending.push(first.clone(), soon);
        pending.push(second.clone(), soon + Duration::from_secs(1));
        assert_eq!((pending.due_at(), pending.take_due(now)), (Some(soon), Vec::new()));
        assert_eq!(pending.answered(&first.client_message_id), Some(first.clone()));
        assert_eq!(pending.answered(&first.client_message_id), None);
        pending.show_all_by(now);
        assert_eq!(pending.take_due(now), std::slice::from_ref(&second));
        assert_eq!((pending.due_at(), pending.take_due(now)), (None, Vec::new()));
        pending.show_all_by(now);
        assert_eq!(pending.due_at(), None, "it was shown already");
        assert!(!pending.is_empty());
        pending.answered(&second.client_message_id);
        assert!(pending.is_empty());
    }
}
