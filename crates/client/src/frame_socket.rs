//! A WebSocket with its write queue.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures_util::{Sink, SinkExt, StreamExt};
use heartline_protocol::limits::CLOSE_WRITE_DEADLINE;
use heartline_protocol::{Token, encode_client};
use heartline_runtime::Clock;
use tokio::sync::mpsc;
use tokio_websockets::Message;

use crate::client::Outgoing;
use crate::connection_state::ConnectionState;
use crate::dial::Socket;
use crate::event::Loss;
use crate::token::TokenError;

/// Pongs that may be queued: a server that sends Pings without ever reading is broken.
const PONGS_UNWRITTEN_MAX: usize = 64;

/// A WebSocket with its write queue.
#[derive(Debug)]
pub(crate) struct FrameSocket {
    pub(crate) websocket: Socket,
    /// Whether the socket holds queued bytes.
    pub(crate) unflushed: bool,
    pongs_unwritten: usize,
    clock: Clock,
}

/// An event of the socket.
#[derive(Debug)]
pub(crate) enum SocketEvent {
    /// All queued bytes are written.
    Flushed,
    Received(Message),
    Broken(Loss),
}

impl FrameSocket {
    /// A socket with an empty queue.
    pub(crate) fn new(websocket: Socket, clock: Clock) -> Self {
        Self { websocket, unflushed: false, pongs_unwritten: 0, clock }
    }

    /// Queues a text; [`FrameSocket::write_and_read`] writes it.
    pub(crate) fn queue(&mut self, text: String) -> Result<(), Loss> {
        self.unflushed = true;
        Pin::new(&mut self.websocket).start_send(Message::text(text)).map_err(broken)
    }

    /// Queues a frame of the application, unless it is restricted to an earlier connection.
    pub(crate) fn queue_outgoing(
        &mut self,
        state: &ConnectionState,
        outgoing: Outgoing,
    ) -> Result<(), Loss> {
        if state.accepts(outgoing.only_on) { self.queue(outgoing.text) } else { Ok(()) }
    }

    /// Queues the frames that the application sent before it closed the client.
    pub(crate) fn queue_remaining(
        &mut self,
        state: &ConnectionState,
        frames: &mut mpsc::Receiver<Outgoing>,
    ) {
        while state.is_open()
            && let Ok(outgoing) = frames.try_recv()
        {
            if self.queue_outgoing(state, outgoing).is_err() {
                return;
            }
        }
    }

    /// Queues a heartbeat. While earlier frames are still being written, those are the sign of
    /// life, so no heartbeat is added behind them.
    pub(crate) fn queue_heartbeat(&mut self, state: &mut ConnectionState) -> Result<(), Loss> {
        let frame = state.heartbeat(self.clock.now());
        if self.unflushed { Ok(()) } else { self.queue(encode_client(&frame)) }
    }

    /// Offers a newer token to the server, if the provider returned one.
    pub(crate) fn offer_token(
        &mut self,
        token: Result<Token, TokenError>,
        state: &mut ConnectionState,
    ) -> Result<(), Loss> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        match token {
            Ok(token) => match state.on_token(token, now, wall) {
                Some(frame) => self.queue(encode_client(&frame)),
                None => Ok(()),
            },
            Err(error) => {
                tracing::debug!(%error, "no newer token");
                if matches!(error, TokenError::Unavailable(_)) {
                    state.on_no_token(now, wall);
                }
                Ok(())
            }
        }
    }

    /// Writes queued bytes and, if `reading`, reads one message. Reading continues while writing is
    /// blocked, because the server may not read before its own writes complete.
    pub(crate) async fn write_and_read(&mut self, reading: bool) -> SocketEvent {
        poll_fn(|context| {
            let mut flushed = false;
            if self.unflushed {
                match self.websocket.poll_flush_unpin(context) {
                    Poll::Pending => {}
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(SocketEvent::Broken(broken(error)));
                    }
                    Poll::Ready(Ok(())) => {
                        (self.unflushed, self.pongs_unwritten) = (false, 0);
                        flushed = true;
                    }
                }
            }
            if reading && let Poll::Ready(next) = self.websocket.poll_next_unpin(context) {
                return Poll::Ready(self.received(next));
            }
            if flushed { Poll::Ready(SocketEvent::Flushed) } else { Poll::Pending }
        })
        .await
    }

    fn received(&mut self, next: Option<Result<Message, tokio_websockets::Error>>) -> SocketEvent {
        let message = match next {
            Some(Ok(message)) => message,
            Some(Err(error)) => return SocketEvent::Broken(broken(error)),
            None => {
                return SocketEvent::Broken(Loss::Broken(
                    "the server closed the connection without a Close frame".to_owned(),
                ));
            }
        };
        if message.is_ping() {
            // The codec has queued the Pong, which must still be written.
            self.unflushed = true;
            self.pongs_unwritten += 1;
            if self.pongs_unwritten > PONGS_UNWRITTEN_MAX {
                let reason = "the server sends Pings but does not read".to_owned();
                return SocketEvent::Broken(Loss::Broken(reason));
            }
        }
        SocketEvent::Received(message)
    }

    /// Sends a Close frame and waits, with a time limit, for the server's.
    pub(crate) async fn close(&mut self) {
        match tokio::time::timeout(CLOSE_WRITE_DEADLINE, self.websocket.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "closing the socket failed"),
            Err(_) => tracing::debug!("closing the socket timed out"),
        }
    }
}

fn broken(error: impl std::fmt::Display) -> Loss {
    Loss::Broken(error.to_string())
}
