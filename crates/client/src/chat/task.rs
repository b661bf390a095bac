//! The task between the connection and the application.

use heartline_protocol::{ChatId, ClientFrame, UserId, encode_client};
use heartline_runtime::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::chat::draft::{Draft, SendError};
use crate::chat::event::ChatEvent;
use crate::chat::state::ChatState;
use crate::chat::watching::WatchError;
use crate::client::{Client, ClientStopped, Outgoing};
use crate::connection::until;
use crate::event::ClientEvent;

/// What the application asks of the task.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send a message, and say whether it was taken.
    Send { draft: Draft, taken: oneshot::Sender<Result<(), SendError>> },
    /// Tell a chat that the user is typing, or no longer.
    Typing { chat_id: ChatId, is_typing: bool },
    /// Watch users, and say whether they are not too many.
    Watch { user_ids: Vec<UserId>, taken: oneshot::Sender<Result<(), WatchError>> },
    /// Watch users no longer.
    Unwatch { user_ids: Vec<UserId> },
    /// Break the present connection.
    DropSocket,
}

/// What the task works with.
#[derive(Debug)]
pub(crate) struct ChatTask {
    pub(crate) state: ChatState,
    pub(crate) client: Client,
    pub(crate) client_events: mpsc::Receiver<ClientEvent>,
    pub(crate) events: mpsc::Sender<ChatEvent>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) clock: Clock,
    pub(crate) closing: CancellationToken,
}

impl ChatTask {
    /// Runs until the client stops, the application closes it, or nobody receives its events. The
    /// result is what has no definite answer.
    pub(crate) async fn run(mut self) -> Vec<Draft> {
        self.drive().await;
        self.finish().await
    }

    /// The branches take turns at random, so that neither a busy server nor a busy application
    /// keeps the other waiting. The connection is heard only when the application has had
    /// everything: while it does not receive, the socket is not read.
    async fn drive(&mut self) {
        let Self { state, client, client_events, events, commands, clock, closing } = self;
        let frames = client.sender();
        let mut takes_frames = true;
        loop {
            let frame_at = state.next_frame_at(clock.now());
            let room_for_frame = async {
                until(frame_at).await;
                frames.reserve().await
            };
            tokio::select! {
                () = closing.cancelled() => return,
                room = events.reserve(), if state.has_event() => {
                    let Ok(room) = room else { return };
                    if let Some(event) = state.next_event(clock.now()) {
                        let is_last = matches!(
                            event, ChatEvent::Connection(ClientEvent::Stopped(_))
                        );
                        room.send(event);
                        if is_last {
                            return;
                        }
                    }
                }
                room = room_for_frame, if takes_frames => match room {
                    Ok(room) => {
                        let only_on = state.connection_id();
                        if let Some(frame) = state.next_frame(clock.now()) {
                            let text = encode_client(&frame);
                            state.sending(&text);
                            room.send(Outgoing { text, only_on });
                        }
                    }
                    // The client has stopped; its last event is still to be passed on.
                    Err(ClientStopped) => takes_frames = false,
                },
                event = client_events.recv(), if !state.has_event() => {
                    let Some(event) = event else { return };
                    state.on_event(event, clock.now());
                }
                command = commands.recv() => match command {
                    None => return,
                    Some(Command::Send { draft, taken }) => _ = taken.send(state.send(draft)),
                    Some(Command::Typing { chat_id, is_typing }) => {
                        state.typing(chat_id, is_typing);
                    }
                    Some(Command::Watch { user_ids, taken }) => {
                        _ = taken.send(state.watch(&user_ids));
                    }
                    Some(Command::Unwatch { user_ids }) => state.unwatch(&user_ids),
                    Some(Command::DropSocket) => client.drop_socket(),
                },
            }
        }
    }

    /// Tells the server how far the application has come, and closes the connection in order.
    async fn finish(self) -> Vec<Draft> {
        let Self { mut state, client, mut client_events, events, clock, .. } = self;
        let frames = client.sender();
        let only_on = state.connection_id();
        for ack in state.last_acks() {
            if let Some(room) = frames.try_reserve() {
                room.send(Outgoing { text: encode_client(&ClientFrame::Ack(ack)), only_on });
            }
        }
        // The application may be waiting for the end instead of receiving events.
        while let Some(event) = state.next_event(clock.now()) {
            let _ = events.try_send(event);
        }
        let pass_on = async {
            while let Some(event) = client_events.recv().await {
                let _ = events.try_send(ChatEvent::Connection(event));
            }
        };
        tokio::join!(client.close(), pass_on);
        state.into_drafts()
    }
}
