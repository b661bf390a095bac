//! The limits of pending requests, typing and presence frames of one connection.

use std::time::Duration;

use heartline_protocol::ChatId;
use heartline_protocol::client_frame::Typing;
use heartline_protocol::limits::{BUSY_REJECTIONS_MAX, BUSY_WINDOW};
use heartline_routing::rate::TokenBucket;
use tokio::time::Instant;

use crate::sliding_window::SlidingWindow;

/// Chats in which one connection may be typing at once; typing in more is dropped.
const TYPING_CHATS_MAX: usize = 16;

/// The pending requests and typing of a connection.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    in_flight: u16,
    busy: SlidingWindow,
    typing: Vec<TypingChat>,
    /// `None` until the first presence frame.
    presence: Option<TokenBucket>,
}

/// Whether one more request is accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Room,
    Full,
    /// Full too often: the connection ends.
    FullAgain,
}

#[derive(Debug)]
struct TypingChat {
    chat_id: ChatId,
    /// When the next typing frame of this chat may be sent.
    next_at: Instant,
    /// The latest typing frame that waits for that time.
    waits: Option<bool>,
}

impl Inbound {
    /// Counts one more request, if the limit allows it.
    pub(super) fn enter(&mut self, max: usize, now: Instant) -> Queue {
        if usize::from(self.in_flight) < max {
            self.in_flight += 1;
            return Queue::Room;
        }
        match self.busy.record(BUSY_REJECTIONS_MAX, BUSY_WINDOW, now) {
            true => Queue::FullAgain,
            false => Queue::Full,
        }
    }

    /// A request was answered.
    pub(super) fn leave(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The token bucket of presence frames.
    pub(super) fn presence(&mut self, now: Instant) -> &mut TokenBucket {
        self.presence.get_or_insert_with(|| TokenBucket::new(now))
    }

    /// Returns a typing frame if it may be sent now; else keeps the latest one until it may.
    pub(super) fn typing(
        &mut self,
        typing: Typing,
        interval: Duration,
        now: Instant,
    ) -> Option<Typing> {
        let chats = &mut self.typing;
        let Typing { chat_id, is_typing } = typing;
        if let Some(chat) = chats.iter_mut().find(|chat| chat.chat_id == chat_id) {
            if now < chat.next_at {
                chat.waits = Some(is_typing);
                return None;
            }
            chat.next_at = now + interval;
            return Some(typing);
        }
        chats.retain(|chat| chat.waits.is_some() || now < chat.next_at);
        if chats.len() == TYPING_CHATS_MAX {
            return None;
        }
        chats.push(TypingChat { chat_id, next_at: now + interval, waits: None });
        Some(typing)
    }

    /// The waiting typing frames that may be sent now.
    pub(super) fn typing_due(&mut self, interval: Duration, now: Instant) -> Vec<Typing> {
        let chats = self.typing.iter_mut();
        let due = |chat: &mut TypingChat| {
            let is_typing = if now >= chat.next_at { chat.waits.take()? } else { return None };
            chat.next_at = now + interval;
            Some(Typing { chat_id: chat.chat_id, is_typing })
        };
        chats.filter_map(due).collect()
    }

    /// When a waiting typing frame may be sent.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let chats = self.typing.iter();
        chats.filter(|chat| chat.waits.is_some()).map(|chat| chat.next_at).min()
    }
}

#[cfg(test)]
mod tests {
    use heartline_runtime::Clock;
    use ulid::Ulid;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn word(chat: u128, is_typing: bool) -> Typing {
        Typing { chat_id: ChatId(Ulid(chat)), is_typing }
    }

    #[test]
    fn the_number_of_pending_requests_is_limited_and_the_third_refusal_closes() {
        let (mut inbound, now) = (Inbound::default(), Clock::system().now());
        assert_eq!([(); 2].map(|()| inbound.enter(2, now)), [Queue::Room, Queue::Room]);
        assert_eq!([(); 2].map(|()| inbound.enter(2, now)), [Queue::Full, Queue::Full]);
        inbound.leave();
        assert_eq!(inbound.enter(2, now), Queue::Room);
        assert_eq!(inbound.enter(2, now), Queue::FullAgain);
        assert_eq!(inbound.enter(2, now + BUSY_WINDOW), Queue::Full);
    }

    #[test]
    fn typing_too_often_is_coalesced_to_the_latest_frame() {
        let (mut inbound, now) = (Inbound::default(), Clock::system().now());
        assert_eq!(inbound.typing(word(1, true), SECOND, now), Some(word(1, true)));
        assert_eq!(inbound.typing(word(1, false), SECOND, now), None);
        assert_eq!(inbound.typing(word(1, true), SECOND, now), None);
        assert_eq!(inbound.typing(word(1, false), SECOND, now), None);
        assert_eq!(inbound.typing(word(2, true), SECOND, now), Some(word(2, true)));
        assert_eq!(inbound.deadline(), Some(now + SECOND));
        assert!(inbound.typing_due(SECOND, now).is_empty());
        assert_eq!(inbound.typing_due(SECOND, now + SECOND), [word(1, false)]);
        assert_eq!(inbound.deadline(), None);
    }

    #[test]
    fn typing_in_very_many_chats_is_dropped() {
        let (mut inbound, now) = (Inbound::default(), Clock::system().now());
        let passed = (0..100).filter_map(|chat| inbound.typing(word(chat, true), SECOND, now));
        assert_eq!(passed.count(), TYPING_CHATS_MAX);
        assert!(inbound.typing(word(200, true), SECOND, now + SECOND).is_some());
    }
}
