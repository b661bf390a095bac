//! A socket and what waits in it to be written.

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
use crate::dial::Socket;
use crate::event::Loss;
use crate::session::Session;
use crate::token::TokenError;

/// Pongs that may wait to be written: a server that pings without ever reading is broken.
const PONGS_UNWRITTEN_MAX: usize = 64;

/// The socket and what waits in it to be written.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: Socket,
    /// Whether the socket holds something that is not yet written.
    pub(crate) unflushed: bool,
    pongs_unwritten: usize,
    clock: Clock,
}

/// What the socket had to say.
#[derive(Debug)]
pub(crate) enum Turn {
    /// All is written.
    Flushed,
    Received(Message),
    Broken(Loss),
}

impl Link {
    /// A socket in which nothing waits.
    pub(crate) fn new(socket: Socket, clock: Clock) -> Self {
        Self { socket, unflushed: false, pongs_unwritten: 0, clock }
    }

    /// Puts a text into the socket; [`Link::turn`] writes it.
    pub(crate) fn queue(&mut self, text: String) -> Result<(), Loss> {
        self.unflushed = true;
        Pin::new(&mut self.socket).start_send(Message::text(text)).map_err(broken)
    }

    /// Queues a frame of the application, unless it was meant for a connection that is over.
    pub(crate) fn pass_on(&mut self, session: &Session, outgoing: Outgoing) -> Result<(), Loss> {
        if session.takes(outgoing.only_on) { self.queue(outgoing.text) } else { Ok(()) }
    }

    /// Queues what the application had sent before it closed the client.
    pub(crate) fn queue_the_rest(
        &mut self,
        session: &Session,
        frames: &mut mpsc::Receiver<Outgoing>,
    ) {
        while session.is_open()
            && let Ok(outgoing) = frames.try_recv()
        {
            if self.pass_on(session, outgoing).is_err() {
                return;
            }
        }
    }

    /// Sends a heartbeat. If earlier frames are still being written they are the sign of life,
    /// and another one behind them would only pile up.
    pub(crate) fn beat(&mut self, session: &mut Session) -> Result<(), Loss> {
        let frame = session.heartbeat(self.clock.now());
        if self.unflushed { Ok(()) } else { self.queue(encode_client(&frame)) }
    }

    /// Offers a newer token to the server, if the provider had one.
    pub(crate) fn offer(
        &mut self,
        token: Result<Token, TokenError>,
        session: &mut Session,
    ) -> Result<(), Loss> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        match token {
            Ok(token) => match session.on_token(token, now, wall) {
                Some(frame) => self.queue(encode_client(&frame)),
                None => Ok(()),
            },
            Err(error) => {
                tracing::debug!(%error, "there is no newer token");
                if matches!(error, TokenError::Unavailable(_)) {
                    session.on_no_token(now, wall);
                }
                Ok(())
            }
        }
    }

    /// Writes what waits and, if there is room for it, reads one message. It goes on reading
    /// while writing is blocked, because the server may wait for just that.
    pub(crate) async fn turn(&mut self, reading: bool) -> Turn {
        poll_fn(|context| {
            let mut flushed = false;
            if self.unflushed {
                match self.socket.poll_flush_unpin(context) {
                    Poll::Pending => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Turn::Broken(broken(error))),
                    Poll::Ready(Ok(())) => {
                        (self.unflushed, self.pongs_unwritten) = (false, 0);
                        flushed = true;
                    }
                }
            }
            if reading && let Poll::Ready(next) = self.socket.poll_next_unpin(context) {
                return Poll::Ready(self.received(next));
            }
            if flushed { Poll::Ready(Turn::Flushed) } else { Poll::Pending }
        })
        .await
    }

    fn received(&mut self, next: Option<Result<Message, tokio_websockets::Error>>) -> Turn {
        let message = match next {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Turn::Broken(broken(error)),
            None => return Turn::Broken(Loss::Broken("the connection ended".to_owned())),
        };
        if message.is_ping() {
            // The codec has queued the pong; it only needs to be written.
            self.unflushed = true;
            self.pongs_unwritten += 1;
            if self.pongs_unwritten > PONGS_UNWRITTEN_MAX {
                let reason = "the server pings but does not read".to_owned();
                return Turn::Broken(Loss::Broken(reason));
            }
        }
        Turn::Received(message)
    }

    /// Closes the socket as the protocol asks, but without waiting long for a server that does
    /// not answer.
    pub(crate) async fn say_goodbye(&mut self) {
        match tokio::time::timeout(CLOSE_WRITE_DEADLINE, self.socket.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the socket did not close in order"),
            Err(_) => tracing::debug!("the server did not answer the Close frame in time"),
        }
    }
}

fn broken(error: impl std::fmt::Display) -> Loss {
    Loss::Broken(error.to_string())
}
