//! The task of one connection, from the upgrade to its end.

use std::future::pending;
use std::pin::Pin;

use heartline_protocol::{ClientFrame, ServerFrame, Token, decode_server, encode_client};
use heartline_runtime::{Clock, until};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::client::Outgoing;
use crate::config::ClientConfig;
use crate::connection_state::ConnectionState;
use crate::dial::{self, Socket};
use crate::event::{ClientEvent, Ending, Loss};
use crate::frame_socket::{FrameSocket, SocketEvent};
use crate::reconnect_policy::ReconnectPolicy;
use crate::token::TokenError;

/// Frames of the application that are written together.
const WRITE_BATCH_FRAMES_MAX: usize = 32;

/// The parts that all connections of a client share.
pub(crate) struct ConnectionContext {
    pub(crate) config: ClientConfig,
    pub(crate) policy: ReconnectPolicy,
    /// The event queue of the application.
    pub(crate) events: mpsc::Sender<ClientEvent>,
    /// Frames of the application, which wait here while there is no connection.
    pub(crate) frames: mpsc::Receiver<Outgoing>,
    /// Cancelled when the application closes the client.
    pub(crate) closing: CancellationToken,
    /// Changes when the application drops the current connection.
    pub(crate) disconnects: watch::Receiver<()>,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// The connection ended; the reconnect policy decides what follows.
    Ended(Ending),
    /// The application closed the client.
    ClosedByCaller,
}

/// A request for a token that is under way.
type Fetching = Pin<Box<dyn Future<Output = Result<Token, TokenError>> + Send>>;

/// Runs one connection until it ends; also returns the last valid token.
///
/// The order of the branches is their priority. Heartbeats and token refreshes come before reading,
/// so that a server that sends continuously cannot prevent them. The deadline comes after reading,
/// so that a client that was late reads pending data before it declares the server lost. The socket
/// is read only while the event queue has room: a slow application stops the reading, and nothing
/// accumulates.
pub(crate) async fn run(
    socket: Socket,
    token: Token,
    context: &mut ConnectionContext,
) -> (ConnectionEnd, Token) {
    let clock = context.config.clock;
    let establish_by = clock.now() + context.config.establish_timeout;
    let mut state = ConnectionState::new(token, context.config.device_id.clone(), establish_by);
    let mut socket = FrameSocket::new(socket, clock);
    let exit = drive(&mut socket, &mut state, context).await;
    let token = state.token().clone();
    match exit {
        Exit::ClosedByCaller => {
            socket.queue_remaining(&state, &mut context.frames);
            socket.close().await;
            (ConnectionEnd::ClosedByCaller, token)
        }
        Exit::Closed => {
            socket.close().await;
            let loss =
                Loss::Broken("the server closed the connection without a close code".to_owned());
            (ConnectionEnd::Ended(state.ending(loss)), token)
        }
        Exit::Lost(loss) => {
            dial::abort(socket.websocket);
            (ConnectionEnd::Ended(state.ending(loss)), token)
        }
    }
}

/// Why the loop of a connection ended.
#[derive(Debug)]
enum Exit {
    ClosedByCaller,
    /// The server's Close frame arrived and must be answered.
    Closed,
    /// The connection is lost.
    Lost(Loss),
}

async fn drive(
    socket: &mut FrameSocket,
    state: &mut ConnectionState,
    context: &mut ConnectionContext,
) -> Exit {
    let ConnectionContext { config, policy, events, frames, closing, disconnects } = context;
    let mut fetching: Option<Fetching> = None;
    let mut batch = Vec::with_capacity(WRITE_BATCH_FRAMES_MAX);
    let mut permit: Option<mpsc::Permit<'_, ClientEvent>> = None;
    disconnects.mark_unchanged();
    loop {
        let refresh_at = state.refresh_at().filter(|_| fetching.is_none());
        let deadline = state.deadline().filter(|_| permit.is_some());
        let accepts_frames = state.is_open() && !socket.unflushed;
        let wrote = tokio::select! {
            biased;
            () = closing.cancelled() => return Exit::ClosedByCaller,
            Ok(()) = disconnects.changed() => return Exit::Lost(Loss::Dropped),
            () = until(state.heartbeat_at()) => socket.queue_heartbeat(state),
            () = until(refresh_at) => {
                let (provider, need) = (config.token.clone(), state.begin_refresh());
                fetching = Some(Box::pin(async move { provider.token(need).await }));
                Ok(())
            }
            token = fetched(&mut fetching) => socket.offer_token(token, state),
            count = frames.recv_many(&mut batch, WRITE_BATCH_FRAMES_MAX), if accepts_frames => {
                if count == 0 {
                    return Exit::ClosedByCaller;
                }
                batch.drain(..).try_for_each(|outgoing| socket.queue_outgoing(state, outgoing))
            }
            reserved = events.reserve(), if permit.is_none() => {
                let Ok(reserved) = reserved else { return Exit::ClosedByCaller };
                state.reading_resumed(config.clock.now());
                permit = Some(reserved);
                Ok(())
            }
            event = socket.write_and_read(permit.is_some()) => match event {
                SocketEvent::Flushed => Ok(()),
                SocketEvent::Received(message) => {
                    state.received();
                    if message.is_close() {
                        state.on_close(message.as_close().map(|(code, _)| code.into()));
                        return Exit::Closed;
                    }
                    match message.as_text() {
                        None => Ok(()),
                        Some(text) => {
                            let (event, reply) = on_text(text, state, policy, config.clock);
                            if let Some(permit) = permit.take() {
                                permit.send(event);
                            }
                            reply.map_or(Ok(()), |reply| socket.queue(encode_client(&reply)))
                        }
                    }
                }
                SocketEvent::Broken(loss) => return Exit::Lost(loss),
            },
            () = until(deadline) => return Exit::Lost(state.timeout_loss()),
        };
        if let Err(loss) = wrote {
            return Exit::Lost(loss);
        }
    }
}

/// Handles a text from the server. Returns the event for the application and the client's own
/// reply.
fn on_text(
    text: &str,
    state: &mut ConnectionState,
    policy: &mut ReconnectPolicy,
    clock: Clock,
) -> (ClientEvent, Option<ClientFrame>) {
    let frame = decode_server(text).unwrap_or_else(|error| {
        tracing::debug!(category = ?error.classify(), "frame not decodable");
        ServerFrame::Unknown
    });
    let reply = state.on_frame(&frame, clock.now(), clock.wall());
    let event = match frame {
        ServerFrame::ConnectionEstablished(established) => {
            policy.established();
            ClientEvent::Connected(established)
        }
        frame => ClientEvent::Frame { frame: Box::new(frame), text: text.to_owned() },
    };
    (event, reply)
}

async fn fetched(fetching: &mut Option<Fetching>) -> Result<Token, TokenError> {
    match fetching {
        Some(future) => {
            let token = future.await;
            *fetching = None;
            token
        }
        None => pending().await,
    }
}
