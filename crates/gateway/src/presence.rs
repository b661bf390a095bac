//! Presence on this node: who watches whom, and who is told what.
//!
//! An event is only a hint. Whatever it says, the present state is read, judged for each observer
//! by the store's latest word on privacy, and pushed where it differs from what that connection
//! was told last. So a repeated, late or lost event, a gap and a change of privacy are all one
//! case: look again.

mod sights;
mod task;
mod watches;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use heartline_protocol::{ChatId, ConnectionId, RequestId, UserId};
use heartline_routing::PresenceNews;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::handle::Handle;
use crate::hub::Hub;
use crate::metrics::PresenceMetrics;
use crate::session::Answer;

pub use self::sights::Sights;
pub use self::task::PresenceTask;

/// Orders that may wait for the plane. Beyond, requests are answered `SERVER_BUSY`, typing is
/// dropped, and whatever else is lost makes the plane look at everybody again.
const ORDERS_MAX: usize = 1024;

/// The way to this node's presence plane. Clones share it.
#[derive(Debug, Clone)]
pub struct PresencePlane {
    orders: mpsc::Sender<Order>,
    /// Told when an order was lost that is made good by looking at everybody again.
    missed: Arc<Notify>,
    metrics: PresenceMetrics,
}

/// What the plane is asked to do.
#[derive(Debug)]
enum Order {
    Watch(Watch, oneshot::Sender<Answer>),
    Leave(ConnectionId),
    News(Vec<PresenceNews>),
    PrivacyChanged(Vec<UserId>),
    Typing(TypingNews),
}

/// A `presence_subscribe` or `presence_unsubscribe`.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) handle: Arc<Handle>,
    pub(crate) request_id: RequestId,
    pub(crate) user_ids: Vec<UserId>,
    /// Whether to begin or to end.
    pub(crate) begins: bool,
}

/// Somebody types, or does not any more.
#[derive(Debug)]
pub(crate) struct TypingNews {
    pub(crate) user_ids: Arc<[UserId]>,
    pub(crate) chat_id: ChatId,
    pub(crate) user_id: UserId,
    pub(crate) is_typing: bool,
}

impl PresencePlane {
    /// The plane and the task that runs it.
    pub(crate) fn new(hub: Arc<Hub>, sights: Sights) -> (Self, PresenceTask) {
        let (orders, waiting) = mpsc::channel(ORDERS_MAX);
        let missed = Arc::new(Notify::new());
        let metrics = hub.metrics().presence.clone();
        let task = PresenceTask::new(hub, sights, waiting, Arc::clone(&missed));
        (Self { orders, missed, metrics }, task)
    }

    /// Has a connection begin or end to watch. The answer comes when its frame is on its way;
    /// none when too much waits.
    pub(crate) fn watch(&self, watch: Watch) -> Option<oneshot::Receiver<Answer>> {
        let (sender, answer) = oneshot::channel();
        self.orders.try_send(Order::Watch(watch, sender)).ok().map(|()| answer)
    }

    /// A connection has ended.
    pub(crate) fn leave(&self, connection_id: ConnectionId) {
        // One that is not heard of is found out later: it is closing.
        let _ = self.orders.try_send(Order::Leave(connection_id));
    }

    /// Somebody came or left, and these users should know without having asked.
    pub(crate) fn news(&self, news: Vec<PresenceNews>) {
        self.order(Order::News(news));
    }

    /// Who may see these users, or whom they may see, has changed.
    pub(crate) fn privacy_changed(&self, user_ids: Vec<UserId>) {
        self.order(Order::PrivacyChanged(user_ids));
    }

    /// Something may have been missed.
    pub(crate) fn look_again(&self) {
        self.missed.notify_one();
    }

    /// Somebody types. It may be lost.
    pub(crate) fn typing(&self, typing: TypingNews) {
        if self.orders.try_send(Order::Typing(typing)).is_err() {
            self.metrics.typing_dropped.inc();
        }
    }

    fn order(&self, order: Order) {
        if self.orders.try_send(order).is_err() {
            self.metrics.orders_missed.inc();
            self.look_again();
        }
    }
}
