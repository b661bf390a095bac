//! One socket, from the upgrade to its end.

use std::future::pending;
use std::pin::Pin;

use heartline_protocol::{ClientFrame, ServerFrame, Token, decode_server, encode_client};
use heartline_runtime::Clock;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::Outgoing;
use crate::config::ClientConfig;
use crate::dial::{self, Socket};
use crate::event::{ClientEvent, Ending, Loss};
use crate::link::{Link, Turn};
use crate::policy::Policy;
use crate::session::Session;
use crate::token::TokenError;

/// Frames of the application that are written together.
const WRITE_BATCH_FRAMES_MAX: usize = 32;

/// What a connection works with; it outlives every connection.
pub(crate) struct Surroundings {
    pub(crate) config: ClientConfig,
    pub(crate) policy: Policy,
    /// What happened, for the application.
    pub(crate) events: mpsc::Sender<ClientEvent>,
    /// Frames of the application. They wait here while there is no connection.
    pub(crate) frames: mpsc::Receiver<Outgoing>,
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
    let clock = around.config.clock;
    let establish_by = clock.now() + around.config.establish_timeout;
    let mut session = Session::new(token, around.config.device_id.clone(), establish_by);
    let mut link = Link::new(socket, clock);
    let finish = drive(&mut link, &mut session, around).await;
    let token = session.token().clone();
    match finish {
        Step::ClosedByCaller => {
            link.queue_the_rest(&session, &mut around.frames);
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
                batch.drain(..).try_for_each(|outgoing| link.pass_on(session, outgoing))
            }
            reserved = events.reserve(), if permit.is_none() => {
                let Ok(reserved) = reserved else { return Step::ClosedByCaller };
                session.resumed(config.clock.now());
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
                            let (event, answer) = understand(text, session, policy, config.clock);
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
    clock: Clock,
) -> (ClientEvent, Option<ClientFrame>) {
    let frame = decode_server(text).unwrap_or_else(|error| {
        tracing::debug!(category = ?error.classify(), "a frame could not be understood");
        ServerFrame::Unknown
    });
    let answer = session.on_frame(&frame, clock.now(), clock.wall());
    let event = match frame {
        ServerFrame::ConnectionEstablished(established) => {
            policy.established();
            ClientEvent::Connected(established)
        }
        frame => ClientEvent::Frame { frame: Box::new(frame), text: text.to_owned() },
    };
    (event, answer)
}

/// Waits until then; for ever without a time.
pub(crate) async fn until(instant: Option<Instant>) {
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
