//! Chats on top of a connection: delivers every message once and in order, and retries every send
//! until it is stored or rejected.
//!
//! A [`ChatClient`] adds the state of chats to a [`Client`]. The rules are pure and separate from
//! the task: `outbox` holds messages until they are stored or rejected, `cursor` holds the position
//! in each chat, `manifest` and `sync` request missing messages, `acks` acknowledges delivered
//! messages, `catch_up` detects when every chat is up to date, `presence_subscriptions` holds the
//! users whose presence is subscribed to, `rate_limit` and `retry_decision` keep within the
//! server's limits. `state` combines them, `on_event` handles the events of the connection, and
//! `task` runs everything.

mod acks;
mod catch_up;
mod config;
mod cursor;
mod draft;
mod event;
#[cfg(test)]
mod fixtures;
mod manifest;
mod on_event;
mod outbox;
mod presence_subscriptions;
mod rate_limit;
mod retry_decision;
mod state;
mod sync;
mod task;

use heartline_protocol::{ChatId, ClientMessageId, UserId};
use heartline_runtime::{Random, TaskSet};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientStopped, FrameSender};
use crate::config::{ClientConfig, ConfigError};
use state::ChatState;
use task::{ChatTask, Command};

pub use config::{Backlog, ChatConfig};
pub use draft::{Draft, SendError};
pub use event::ChatEvent;
pub use presence_subscriptions::SubscribeError;

/// Commands that may wait for the task.
const COMMAND_CAPACITY: usize = 64;

/// A running chat client. Dropping the handle stops the client at once, without a Close frame;
/// [`ChatClient::close`] closes the connection properly.
#[derive(Debug)]
pub struct ChatClient {
    sender: ChatSender,
    closing: CancellationToken,
    /// The client's one task, which is aborted when the handle is dropped.
    task: TaskSet<Vec<Draft>>,
}

/// Sends messages and commands to a chat client; cheap to clone.
#[derive(Debug, Clone)]
pub struct ChatSender {
    commands: mpsc::Sender<Command>,
    frames: FrameSender,
    random: Random,
}

impl ChatClient {
    /// Starts a chat client on the current runtime. The caller must receive the events: while the
    /// event queue is full, the socket is not read, and when the receiver is dropped, the client
    /// stops.
    pub fn start(
        config: ClientConfig,
        chat_config: ChatConfig,
    ) -> Result<(Self, mpsc::Receiver<ChatEvent>), ConfigError> {
        if chat_config.event_capacity == 0 {
            return Err(ConfigError::ZeroCapacity);
        }
        let (event_sender, events) = mpsc::channel(chat_config.event_capacity);
        let (command_sender, commands) = mpsc::channel(COMMAND_CAPACITY);
        let closing = CancellationToken::new();
        let state = ChatState::new(chat_config, config.back_off, config.random.draw());
        let (clock, random) = (config.clock, config.random);
        let (client, client_events) = Client::start(config)?;
        let sender = ChatSender { commands: command_sender, frames: client.sender(), random };
        let chat_task = ChatTask {
            state,
            client,
            client_events,
            events: event_sender,
            commands,
            clock,
            closing: closing.clone(),
        };
        let mut task = TaskSet::new();
        task.spawn(chat_task.run());
        Ok((Self { sender, closing, task }, events))
    }

    /// A sender that other tasks may hold.
    pub fn sender(&self) -> ChatSender {
        self.sender.clone()
    }

    /// See [`ChatSender::send`].
    pub async fn send(
        &self,
        chat_id: ChatId,
        content: impl Into<String>,
        content_type: Option<String>,
    ) -> Result<ClientMessageId, SendError> {
        self.sender.send(chat_id, content, content_type).await
    }

    /// See [`ChatSender::send_draft`].
    pub async fn send_draft(&self, draft: Draft) -> Result<(), SendError> {
        self.sender.send_draft(draft).await
    }

    /// See [`ChatSender::typing`].
    pub async fn typing(&self, chat_id: ChatId, is_typing: bool) -> Result<(), ClientStopped> {
        self.sender.typing(chat_id, is_typing).await
    }

    /// See [`ChatSender::presence_subscribe`].
    pub async fn presence_subscribe(&self, user_ids: Vec<UserId>) -> Result<(), SubscribeError> {
        self.sender.presence_subscribe(user_ids).await
    }

    /// See [`ChatSender::presence_unsubscribe`].
    pub async fn presence_unsubscribe(&self, user_ids: Vec<UserId>) -> Result<(), ClientStopped> {
        self.sender.presence_unsubscribe(user_ids).await
    }

    /// See [`ChatSender::send_text`].
    pub async fn send_text(&self, text: impl Into<String>) -> Result<(), ClientStopped> {
        self.sender.send_text(text).await
    }

    /// See [`ChatSender::drop_socket`].
    pub async fn drop_socket(&self) -> Result<(), ClientStopped> {
        self.sender.drop_socket().await
    }

    /// Acknowledges all delivered messages, closes the connection with a Close frame and stops the
    /// client. Returns every message that is neither stored nor rejected, in the order of sending.
    /// Sending those again with [`ChatSender::send_draft`] stores none of them twice. The last
    /// events are dropped if the event queue is full.
    pub async fn close(mut self) -> Vec<Draft> {
        self.closing.cancel();
        match self.task.join_next().await {
            Some(Ok(drafts)) => drafts,
            Some(Err(error)) => {
                tracing::error!(%error, "chat client task failed");
                Vec::new()
            }
            None => Vec::new(),
        }
    }
}

impl ChatSender {
    /// Queues a message for sending and gives it an id. The client sends the message once
    /// connected, and again after every failure, until [`Sent`](ChatEvent::Sent) or
    /// [`Rejected`](ChatEvent::Rejected) reports the result. Messages of one chat are stored in the
    /// order in which they were queued.
    pub async fn send(
        &self,
        chat_id: ChatId,
        content: impl Into<String>,
        content_type: Option<String>,
    ) -> Result<ClientMessageId, SendError> {
        let draft = Draft { content_type, ..Draft::with_random(self.random, chat_id, content) };
        let client_message_id = draft.client_message_id.clone();
        self.send_draft(draft).await?;
        Ok(client_message_id)
    }

    /// Like [`ChatSender::send`] for a message that has an id already, for example from before a
    /// restart.
    pub async fn send_draft(&self, draft: Draft) -> Result<(), SendError> {
        let (result, receiver) = oneshot::channel();
        let command = Command::Send { draft, result };
        self.command(command).await.map_err(|_| SendError::Stopped)?;
        receiver.await.unwrap_or(Err(SendError::Stopped))
    }

    /// Reports to a chat that the user started or stopped typing; does nothing without a
    /// connection.
    pub async fn typing(&self, chat_id: ChatId, is_typing: bool) -> Result<(), ClientStopped> {
        self.command(Command::Typing { chat_id, is_typing }).await
    }

    /// Subscribes to the presence of users, on this connection and every later one. The status of
    /// each user arrives as a [`Presence`](ChatEvent::Presence) event, also for users that were
    /// subscribed to already, and again on every change. If the limit would be exceeded, no user is
    /// added.
    pub async fn presence_subscribe(&self, user_ids: Vec<UserId>) -> Result<(), SubscribeError> {
        let (result, receiver) = oneshot::channel();
        let command = Command::Subscribe { user_ids, result };
        self.command(command).await.map_err(|_| SubscribeError::Stopped)?;
        receiver.await.unwrap_or(Err(SubscribeError::Stopped))
    }

    /// Unsubscribes from the presence of users. Events about users who share an active chat with
    /// this user still arrive.
    pub async fn presence_unsubscribe(&self, user_ids: Vec<UserId>) -> Result<(), ClientStopped> {
        self.command(Command::Unsubscribe { user_ids }).await
    }

    /// Sends any text as a frame, as [`FrameSender::send_text`] does. The answer arrives as
    /// [`ChatEvent::Connection`]; a message sent this way is not retried.
    pub async fn send_text(&self, text: impl Into<String>) -> Result<(), ClientStopped> {
        self.frames.send_text(text).await
    }

    /// Drops the current connection without a Close frame, as a failing network would; the client
    /// then reconnects.
    pub async fn drop_socket(&self) -> Result<(), ClientStopped> {
        self.command(Command::DropSocket).await
    }

    async fn command(&self, command: Command) -> Result<(), ClientStopped> {
        self.commands.send(command).await.map_err(|_| ClientStopped)
    }
}
