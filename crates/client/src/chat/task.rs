//! The task between the connection and the application.

use heartline_protocol::{ChatId, ClientFrame, UserId, encode_client};
use heartline_runtime::{Clock, until};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::chat::draft::{Draft, SendError};
use crate::chat::event::ChatEvent;
use crate::chat::presence_subscriptions::SubscribeError;
use crate::chat::state::ChatState;
use crate::client::{Client, ClientStopped, Outgoing};
use crate::event::ClientEvent;

/// A command of the application.
#[derive(Debug)]
pub(crate) enum Command {
    /// Queue a message; `result` receives whether it was queued.
    Send { draft: Draft, result: oneshot::Sender<Result<(), SendError>> },
    /// Report that the user started or stopped typing.
    Typing { chat_id: ChatId, is_typing: bool },
    /// Subscribe to users; `result` receives whether the limit allows it.
    Subscribe { user_ids: Vec<UserId>, result: oneshot::Sender<Result<(), SubscribeError>> },
    /// Unsubscribe from users.
    Unsubscribe { user_ids: Vec<UserId> },
    /// Drop the current connection.
    DropSocket,
}

/// The task of a chat client.
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
    /// Runs until the client stops, the application closes it, or the event receiver is dropped.
    /// Returns all messages that are neither stored nor rejected.
    pub(crate) async fn run(mut self) -> Vec<Draft> {
        self.drive().await;
        self.finish().await
    }

    /// The branches are polled in random order, so that neither a busy server nor a busy
    /// application blocks the other. Events of the connection are received only when the
    /// application has received all of its events: while it receives none, the socket is not read.
    async fn drive(&mut self) {
        let Self { state, client, client_events, events, commands, clock, closing } = self;
        let frames = client.sender();
        let mut accepts_frames = true;
        loop {
            let frame_at = state.next_frame_at(clock.now());
            let permit_for_frame = async {
                until(frame_at).await;
                frames.reserve().await
            };
            tokio::select! {
                () = closing.cancelled() => return,
                permit = events.reserve(), if state.has_event() => {
                    let Ok(permit) = permit else { return };
                    if let Some(event) = state.next_event(clock.now()) {
                        let is_last = matches!(
                            event, ChatEvent::Connection(ClientEvent::Stopped(_))
                        );
                        permit.send(event);
                        if is_last {
                            return;
                        }
                    }
                }
                permit = permit_for_frame, if accepts_frames => match permit {
                    Ok(permit) => {
                        let only_on = state.connection_id();
                        if let Some(frame) = state.next_frame(clock.now()) {
                            let text = encode_client(&frame);
                            state.report_outgoing(&text);
                            permit.send(Outgoing { text, only_on });
                        }
                    }
                    // The client has stopped; its last event must still be delivered.
                    Err(ClientStopped) => accepts_frames = false,
                },
                event = client_events.recv(), if !state.has_event() => {
                    let Some(event) = event else { return };
                    state.on_event(event, clock.now());
                }
                command = commands.recv() => match command {
                    None => return,
                    Some(Command::Send { draft, result }) => _ = result.send(state.send(draft)),
                    Some(Command::Typing { chat_id, is_typing }) => {
                        state.typing(chat_id, is_typing);
                    }
                    Some(Command::Subscribe { user_ids, result }) => {
                        _ = result.send(state.presence_subscribe(&user_ids));
                    }
                    Some(Command::Unsubscribe { user_ids }) => {
                        state.presence_unsubscribe(&user_ids);
                    }
                    Some(Command::DropSocket) => client.drop_socket(),
                },
            }
        }
    }

    /// Sends all outstanding acks and closes the connection with a Close frame.
    async fn finish(self) -> Vec<Draft> {
        let Self { mut state, client, mut client_events, events, clock, .. } = self;
        let frames = client.sender();
        let only_on = state.connection_id();
        for ack in state.remaining_acks() {
            if let Some(permit) = frames.try_reserve() {
                permit.send(Outgoing { text: encode_client(&ClientFrame::Ack(ack)), only_on });
            }
        }
        // The application may be waiting in `close` and receive no events.
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
