//! Chats on top of a connection: every message once and in order, and every send answered.
//!
//! A [`ChatClient`] adds memory to a [`Client`]. The rules are pure and stand apart from the
//! task: `outbox` keeps what is to be sent until its definite answer, `cursor` knows how far each
//! chat has come, `manifest` and `sync` ask for what is missing, `receipts` tell the server what
//! has arrived, `catch_up` notices when everything has, `watching` names the users whose presence
//! is wanted, `pace` and `verdict` keep to what the server allows. `state` puts them together, `incoming` says what follows from each event of the
//! connection, and `task` runs it.

mod catch_up;
mod config;
mod cursor;
mod draft;
mod event;
#[cfg(test)]
mod fixtures;
mod incoming;
mod manifest;
mod outbox;
mod pace;
mod receipts;
mod state;
mod sync;
mod task;
mod verdict;
mod watching;

use heartline_protocol::{ChatId, ClientMessageId, UserId};
use heartline_runtime::Random;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientStopped, FrameSender};
use crate::config::{ClientConfig, ConfigError};
use state::ChatState;
use task::{ChatTask, Command};

pub use config::{Backlog, ChatConfig};
pub use draft::{Draft, SendError};
pub use event::ChatEvent;
pub use watching::WatchError;

/// Commands that may wait for the task, which takes them at once.
const COMMAND_CAPACITY: usize = 64;

/// A running chat client. Dropping it ends it at once, without a Close frame;
/// [`ChatClient::close`] ends it in order.
#[derive(Debug)]
pub struct ChatClient {
    sender: ChatSender,
    closing: CancellationToken,
    /// Holds the one task, and ends it when the handle is dropped.
    task: JoinSet<Vec<Draft>>,
}

/// Sends messages of a chat client, from anywhere in the application.
#[derive(Debug, Clone)]
pub struct ChatSender {
    commands: mpsc::Sender<Command>,
    frames: FrameSender,
    random: Random,
}

impl ChatClient {
    /// Starts a chat client on the current runtime. Its events must be received: while they wait,
    /// the socket is not read, and when their receiver is dropped, the client ends.
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
        let mut task = JoinSet::new();
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
    pub async fn presence_subscribe(&self, user_ids: Vec<UserId>) -> Result<(), WatchError> {
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

    /// Tells the server how far the application has come, closes the connection in order and ends
    /// the client. The result is every message without a definite answer, in the order in which
    /// they were given: sent again with [`ChatSender::send_draft`], none of them is stored twice.
    /// The last events are dropped if there is no room for them.
    pub async fn close(mut self) -> Vec<Draft> {
        self.closing.cancel();
        match self.task.join_next().await {
            Some(Ok(drafts)) => drafts,
            Some(Err(error)) => {
                tracing::error!(%error, "the chat client's task failed");
                Vec::new()
            }
            None => Vec::new(),
        }
    }
}

impl ChatSender {
    /// Takes a message for sending and gives it an id. It is sent as soon as there is a
    /// connection, and again after every failure, until
    /// [`Sent`](ChatEvent::Sent) or [`Refused`](ChatEvent::Refused) says how it ended. Messages
    /// of one chat are stored in the order in which they were taken.
    pub async fn send(
        &self,
        chat_id: ChatId,
        content: impl Into<String>,
        content_type: Option<String>,
    ) -> Result<ClientMessageId, SendError> {
        let draft = Draft { content_type, ..Draft::drawn(self.random, chat_id, content) };
        let client_message_id = draft.client_message_id.clone();
        self.send_draft(draft).await?;
        Ok(client_message_id)
    }

    /// The same for a message that has its id already, perhaps from before a restart.
    pub async fn send_draft(&self, draft: Draft) -> Result<(), SendError> {
        let (taken, answer) = oneshot::channel();
        let command = Command::Send { draft, taken };
        self.command(command).await.map_err(|_| SendError::Stopped)?;
        answer.await.unwrap_or(Err(SendError::Stopped))
    }

    /// Tells a chat that the user is typing, or no longer; nothing happens without a connection.
    pub async fn typing(&self, chat_id: ChatId, is_typing: bool) -> Result<(), ClientStopped> {
        self.command(Command::Typing { chat_id, is_typing }).await
    }

    /// Watches users from now on, on this connection and every later one. Each is told of as a
    /// [`Presence`](ChatEvent::Presence) event, also if they were watched already, and again
    /// whenever it changes. If they are too many together with those who are watched, none is.
    pub async fn presence_subscribe(&self, user_ids: Vec<UserId>) -> Result<(), WatchError> {
        let (taken, answer) = oneshot::channel();
        let command = Command::Watch { user_ids, taken };
        self.command(command).await.map_err(|_| WatchError::Stopped)?;
        answer.await.unwrap_or(Err(WatchError::Stopped))
    }

    /// Watches users no longer. Those who share an active chat with this user are told of all the
    /// same.
    pub async fn presence_unsubscribe(&self, user_ids: Vec<UserId>) -> Result<(), ClientStopped> {
        self.command(Command::Unwatch { user_ids }).await
    }

    /// Sends any text as a frame, as [`FrameSender::send_text`] does. Its answer is seen in
    /// [`ChatEvent::Connection`]; a message sent like this is not tried again.
    pub async fn send_text(&self, text: impl Into<String>) -> Result<(), ClientStopped> {
        self.frames.send_text(text).await
    }

    /// Breaks the present connection without a Close frame, as a failing network would; the
    /// client then reconnects.
    pub async fn drop_socket(&self) -> Result<(), ClientStopped> {
        self.command(Command::DropSocket).await
    }

    async fn command(&self, command: Command) -> Result<(), ClientStopped> {
        self.commands.send(command).await.map_err(|_| ClientStopped)
    }
}
