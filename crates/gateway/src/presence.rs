//! Presence on this node: subscriptions, and the events pushed to observers.
//!
//! A presence event is only a hint to evaluate a user again: the node reads the user's present
//! state and the privacy settings, and pushes to each connection whose last pushed state differs.
//! A repeated, late or lost event, a gap and a change of privacy are therefore the same case.

mod reader;
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
use crate::session::Response;

pub use self::reader::PresenceReader;
pub use self::task::PresenceTask;

/// Commands that may be queued. When the queue is full, requests are answered `SERVER_BUSY`, typing
/// is dropped, and any other command is replaced by an evaluation of all observed users.
const COMMANDS_MAX: usize = 1024;

/// Sends commands to the [`PresenceTask`]. Clones share the queue.
#[derive(Debug, Clone)]
pub struct PresenceHandle {
    commands: mpsc::Sender<Command>,
    /// Notified when a command was dropped, so that all observed users are evaluated again.
    missed: Arc<Notify>,
    metrics: PresenceMetrics,
}

/// A command to the task.
#[derive(Debug)]
enum Command {
    Watch(Watch, oneshot::Sender<Response>),
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
    /// True to subscribe, false to unsubscribe.
    pub(crate) begins: bool,
}

/// A user started or stopped typing in a chat.
#[derive(Debug)]
pub(crate) struct TypingNews {
    pub(crate) user_ids: Arc<[UserId]>,
    pub(crate) chat_id: ChatId,
    pub(crate) user_id: UserId,
    pub(crate) is_typing: bool,
}

impl PresenceHandle {
    /// The handle and its task.
    pub(crate) fn new(hub: Arc<Hub>, reader: PresenceReader) -> (Self, PresenceTask) {
        let (commands, waiting) = mpsc::channel(COMMANDS_MAX);
        let missed = Arc::new(Notify::new());
        let metrics = hub.metrics().presence.clone();
        let task = PresenceTask::new(hub, reader, waiting, Arc::clone(&missed));
        (Self { commands, missed, metrics }, task)
    }

    /// Subscribes or unsubscribes a connection. The response comes when its frame is queued; `None`
    /// when the queue of commands is full.
    pub(crate) fn watch(&self, watch: Watch) -> Option<oneshot::Receiver<Response>> {
        let (sender, answer) = oneshot::channel();
        self.commands.try_send(Command::Watch(watch, sender)).ok().map(|()| answer)
    }

    /// Removes the subscriptions of a connection that has ended.
    pub(crate) fn leave(&self, connection_id: ConnectionId) {
        // If this command is dropped, a later check finds the closed connection.
        let _ = self.commands.try_send(Command::Leave(connection_id));
    }

    /// Stop 8 of the life of a presence transition: queued. Users came online or went offline, and
    /// members of shared active chats observe them.
    pub(crate) fn news(&self, news: Vec<PresenceNews>) {
        tracing::trace!(target: "heartline::life", presence_stop = 8, "queued");
        self.command(Command::News(news));
    }

    /// The privacy settings or contacts of these users have changed.
    pub(crate) fn privacy_changed(&self, user_ids: Vec<UserId>) {
        self.command(Command::PrivacyChanged(user_ids));
    }

    /// Evaluates all observed users again, because an event may have been lost.
    pub(crate) fn evaluate_all(&self) {
        self.missed.notify_one();
    }

    /// Shows that a user is typing; dropped and counted when the queue is full.
    pub(crate) fn typing(&self, typing: TypingNews) {
        if self.commands.try_send(Command::Typing(typing)).is_err() {
            self.metrics.typing_dropped.inc();
        }
    }

    fn command(&self, command: Command) {
        if self.commands.try_send(command).is_err() {
            self.metrics.orders_missed.inc();
            self.evaluate_all();
        }
    }
}
