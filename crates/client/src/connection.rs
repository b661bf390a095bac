//! One socket, from the upgrade to its end.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use futures_util::{Sink, SinkExt, StreamExt};
use heartline_protocol::limits::CLOSE_WRITE_DEADLINE;
use heartline_protocol::{ClientFrame, ServerFrame, Token, decode_server, encode_client};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_websockets::Message;

use crate::clock;
use crate::config::ClientConfig;
use crate::dial::{self, Socket};
use crate::event::{ClientEvent, Ending, Loss};
use crate::policy::Policy;
use crate::session::Session;
use crate::token::TokenError;

/// Frames of the application that are written together.
const WRITE_BATCH_FRAMES_MAX: usize = 32;
/// Pongs that may wait to be written: a server that pings without ever reading is broken.
const PONGS_UNWRITTEN_MAX: usize = 64;

/// What a connection works with; it outlives every connection.
pub(crate) struct Surroundings {
    pub(crate) config: ClientConfig,
    pub(crate) policy: Policy,
    /// What happened, for the application.
    pub(crate) events: mpsc::Sender<ClientEvent>,
    /// Frames of the application. They wait here while there is no connection.
    pub(crate) frames: mpsc::Receiver<String>,
    /// The application wants the client to end.
    pub(crate) closing: CancellationToken,
    /// The application wants the present socket to break.
    pub(crate) breaks: watch::Receiver<()>,
}

/// How a connection gave control back.
#[derive(Debug)]
pub(crate) enum Finish {
    /// It ended; the policy decides what follows.
    Ended(Ending),
    /// The application does not want it any more.
    ClosedByCaller,
}

/// A provider's answer on its way.
type Fetching = Pin<Box<dyn Future<Output = Result<Token, TokenError>> + Send>>;

/// Runs one socket until it ends, with the token in force at that time.
///
/// The order of the branches is their priority. Duties come before reading, so that a server
/// that sends without pause cannot keep the client from its heartbeats; the deadline comes after
/// reading, so that a late client reads first and then judges. The socket is read only while
/// there is room for an event: a slow application stops the reading and nothing piles up.
pub(crate) async fn run(
    socket: Socket,
    token: Token,
    around: &mut Surroundings,
) -> (Finish, Token) {
    let establish_by = clock::now() + around.config.establish_timeout;
    let mut session = Session::new(token, around.config.device_id.clone(), establish_by);
    let mut link = Link { socket, unflushed: false, pongs_unwritten: 0 };
    let finish = drive(&mut link, &mut session, around).await;
    let token = session.token().clone();
    match finish {
        Step::ClosedByCaller => {
            link.say_goodbye().await;
            (Finish::ClosedByCaller, token)
        }
        Step::Closed => {
            link.say_goodbye().await;
            let loss = Loss::Broken("closed without a code".to_owned());
            (Finish::Ended(session.ending(loss)), token)
        }
        Step::Lost(loss) => {
            dial::abort(link.socket);
            (Finish::Ended(session.ending(loss)), token)
        }
    }
}

/// Why the loop of a connection ended.
#[derive(Debug)]
enum Step {
    ClosedByCaller,
    /// The server's Close frame came and wants its answer.
    Closed,
    /// The socket is of no use any more.
    Lost(Loss),
}

async fn drive(link: &mut Link, session: &mut Session, around: &mut Surroundings) -> Step {
    let Surroundings { config, policy, events, frames, closing, breaks } = around;
    let mut fetching: Option<Fetching> = None;
    let mut batch = Vec::with_capacity(WRITE_BATCH_FRAMES_MAX);
    let mut permit: Option<mpsc::Permit<'_, ClientEvent>> = None;
    breaks.mark_unchanged();
    loop {
        let refresh_at = session.refresh_at().filter(|_| fetching.is_none());
        let deadline = session.deadline().filter(|_| permit.is_some());
        let takes_frames = session.is_open() && !link.unflushed;
        let wrote = tokio::select! {
            biased;
            () = closing.cancelled() => return Step::ClosedByCaller,
            Ok(()) = breaks.changed() => return Step::Lost(Loss::Dropped),
            () = until(session.heartbeat_at()) => link.beat(session),
            () = until(refresh_at) => {
                let (provider, need) = (config.token.clone(), session.begin_refresh());
                fetching = Some(Box::pin(async move { provider.token(need).await }));
                Ok(())
            }
            token = fetched(&mut fetching) => link.offer(token, session),
            count = frames.recv_many(&mut batch, WRITE_BATCH_FRAMES_MAX), if takes_frames => {
                if count == 0 {
                    return Step::ClosedByCaller;
                }
                batch.drain(..).try_for_each(|text| link.queue(text))
            }
            reserved = events.reserve(), if permit.is_none() => {
                let Ok(reserved) = reserved else { return Step::ClosedByCaller };
                session.resumed(clock::now());
                permit = Some(reserved);
                Ok(())
            }
            turn = link.turn(permit.is_some()) => match turn {
                Turn::Flushed => Ok(()),
                Turn::Received(message) => {
                    session.heard();
                    if message.is_close() {
                        session.on_close(message.as_close().map(|(code, _)| code.into()));
                        return Step::Closed;
                    }
                    match message.as_text() {
                        None => Ok(()),
                        Some(text) => {
                            let (event, answer) = understand(text, session, policy);
                            if let Some(permit) = permit.take() {
                                permit.send(event);
                            }
                            answer.map_or(Ok(()), |answer| link.queue(encode_client(&answer)))
                        }
                    }
                }
                Turn::Broken(loss) => return Step::Lost(loss),
            },
            () = until(deadline) => return Step::Lost(session.overdue()),
        };
        if let Err(loss) = wrote {
            return Step::Lost(loss);
        }
    }
}

/// What a text from the server means for the application, and what the client answers to it.
fn understand(
    text: &str,
    session: &mut Session,
    policy: &mut Policy,
) -> (ClientEvent, Option<ClientFrame>) {
    let frame = decode_server(text).unwrap_or_else(|error| {
        tracing::debug!(category = ?error.classify(), "a frame could not be understood");
        ServerFrame::Unknown
    });
    let answer = session.on_frame(&frame, clock::now(), clock::wall());
    let event = match frame {
        ServerFrame::ConnectionEstablished(established) => {
            policy.established();
            ClientEvent::Connected(established)
        }
        frame => ClientEvent::Frame { frame: Box::new(frame), text: text.to_owned() },
    };
    (event, answer)
}

/// The socket and what waits in it to be written.
#[derive(Debug)]
struct Link {
    socket: Socket,
    /// Whether the socket holds something that is not yet written.
    unflushed: bool,
    pongs_unwritten: usize,
}

/// What the socket had to say.
#[derive(Debug)]
enum Turn {
    /// All is written.
    Flushed,
    Received(Message),
    Broken(Loss),
}

impl Link {
    /// Puts a text into the socket; [`Link::turn`] writes it.
    fn queue(&mut self, text: String) -> Result<(), Loss> {
        self.unflushed = true;
        Pin::new(&mut self.socket).start_send(Message::text(text)).map_err(broken)
    }

    /// Sends a heartbeat. If earlier frames are still being written they are the sign of life,
    /// and another one behind them would only pile up.
    fn beat(&mut self, session: &mut Session) -> Result<(), Loss> {
        let frame = session.heartbeat(clock::now());
        if self.unflushed { Ok(()) } else { self.queue(encode_client(&frame)) }
    }

    /// Offers a newer token to the server, if the provider had one.
    fn offer(
        &mut self,
        token: Result<Token, TokenError>,
        session: &mut Session,
    ) -> Result<(), Loss> {
        let (now, wall) = (clock::now(), clock::wall());
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
    async fn turn(&mut self, reading: bool) -> Turn {
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
    async fn say_goodbye(&mut self) {
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

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => pending().await,
    }
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
