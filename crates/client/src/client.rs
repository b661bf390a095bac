//! The handle of a client, and the task that makes one connection after the other.

use std::convert::Infallible;

use heartline_protocol::{ClientFrame, ConnectionId, Token, encode_client};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::back_off::BackOff;
use crate::config::{ClientConfig, ConfigError};
use crate::connection::{self, Finish, Surroundings};
use crate::dial;
use crate::endpoint::Endpoint;
use crate::event::{ClientEvent, Ending, StopReason};
use crate::policy::{Next, Policy};
use crate::token::{self, TokenNeed};

/// A running client. Dropping it ends it at once, without a Close frame; [`Client::close`] ends
/// it in order.
#[derive(Debug)]
pub struct Client {
    sender: FrameSender,
    closing: CancellationToken,
    breaks: watch::Sender<()>,
    /// Holds the client's one task, and ends it when the handle is dropped.
    task: JoinSet<()>,
}

/// Sends frames to a client's server, from anywhere in the application.
///
/// Frames wait in a bounded queue until a connection is established. One that was handed to a
/// socket which then broke is lost: whoever needs its answer sends it again, with the same
/// `client_message_id` if it is a message.
#[derive(Debug, Clone)]
pub struct FrameSender {
    frames: mpsc::Sender<Outgoing>,
}

/// A frame on its way to a socket.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) text: String,
    /// The one connection that it makes sense on; it is dropped when that is over.
    pub(crate) only_on: Option<ConnectionId>,
}

/// The client has stopped; the last event said why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client has stopped")]
pub struct ClientStopped;

impl Client {
    /// Starts a client on the current runtime. Its events must be received: while they wait, the
    /// socket is not read, and when their receiver is dropped, the client ends.
    pub fn start(config: ClientConfig) -> Result<(Self, mpsc::Receiver<ClientEvent>), ConfigError> {
        if config.urls.is_empty() {
            return Err(ConfigError::NoUrl);
        }
        if config.event_capacity == 0 || config.frame_capacity == 0 {
            return Err(ConfigError::ZeroCapacity);
        }
        let endpoints =
            config.urls.iter().map(|url| Endpoint::parse(url)).collect::<Result<Vec<_>, _>>()?;
        let (event_sender, events) = mpsc::channel(config.event_capacity);
        let (frame_sender, frames) = mpsc::channel(config.frame_capacity);
        let (breaks, breaks_receiver) = watch::channel(());
        let closing = CancellationToken::new();
        let back_off = BackOff::new(config.back_off, config.random.draw());
        let keeper = Keeper {
            tls: dial::tls_connector(&config, &endpoints),
            around: Surroundings {
                policy: Policy::new(back_off, endpoints.len()),
                config,
                events: event_sender,
                frames,
                closing: closing.clone(),
                breaks: breaks_receiver,
            },
            endpoints,
        };
        let mut task = JoinSet::new();
        task.spawn(keeper.run());
        Ok((Self { sender: FrameSender { frames: frame_sender }, closing, breaks, task }, events))
    }

    /// A sender that other tasks may hold.
    pub fn sender(&self) -> FrameSender {
        self.sender.clone()
    }

    /// See [`FrameSender::send`].
    pub async fn send(&self, frame: &ClientFrame) -> Result<(), ClientStopped> {
        self.sender.send(frame).await
    }

    /// See [`FrameSender::send_text`].
    pub async fn send_text(&self, text: impl Into<String>) -> Result<(), ClientStopped> {
        self.sender.send_text(text).await
    }

    /// Breaks the present connection without a Close frame, as a failing network would; the
    /// client then reconnects. Without a connection it does nothing.
    pub fn drop_socket(&self) {
        self.breaks.send_replace(());
    }

    /// Closes the connection in order and ends the client: what was sent before is written first.
    /// The last events are dropped if there is no room for them.
    pub async fn close(mut self) {
        self.closing.cancel();
        while let Some(ended) = self.task.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "the client's task failed");
            }
        }
    }
}

impl FrameSender {
    /// Sends a frame; waits while the queue is full.
    pub async fn send(&self, frame: &ClientFrame) -> Result<(), ClientStopped> {
        self.send_text(encode_client(frame)).await
    }

    /// Sends any text as a frame, even one that the protocol does not know.
    pub async fn send_text(&self, text: impl Into<String>) -> Result<(), ClientStopped> {
        let outgoing = Outgoing { text: text.into(), only_on: None };
        self.frames.send(outgoing).await.map_err(|_| ClientStopped)
    }

    /// Room for one frame; waits while the queue is full.
    pub(crate) async fn reserve(&self) -> Result<mpsc::Permit<'_, Outgoing>, ClientStopped> {
        self.frames.reserve().await.map_err(|_| ClientStopped)
    }

    /// Room for one frame, if there is some at once.
    pub(crate) fn try_reserve(&self) -> Option<mpsc::Permit<'_, Outgoing>> {
        self.frames.try_reserve().ok()
    }
}

/// Keeps the device connected.
struct Keeper {
    around: Surroundings,
    endpoints: Vec<Endpoint>,
    tls: Option<TlsConnector>,
}

impl Keeper {
    async fn run(mut self) {
        let Err(reason) = self.keep_connected().await;
        tracing::debug!(?reason, "the client stopped");
        let by_caller = reason == StopReason::ClosedByCaller;
        let stopped = ClientEvent::Stopped(reason);
        if by_caller {
            // The caller may be waiting for the end instead of receiving events.
            let _ = self.around.events.try_send(stopped);
        } else {
            let _ = self.emit(stopped).await;
        }
    }

    /// Makes one connection after the other until there is a reason to stop.
    async fn keep_connected(&mut self) -> Result<Infallible, StopReason> {
        let mut last_token = None;
        let mut need = TokenNeed::Connect;
        loop {
            let ending = match self.obtain_token(need, last_token.as_ref()).await? {
                Ok(token) => {
                    let (ending, token) = self.connect(token).await?;
                    last_token = Some(token);
                    ending
                }
                Err(ending) => ending,
            };
            let next = self.around.policy.ended(&ending);
            let (after, next_need) = match next {
                Next::Retry { after } => (after, TokenNeed::Connect),
                Next::RetryWithNewToken { after } => (after, TokenNeed::Refused),
                Next::Stop(reason) => {
                    self.emit(ClientEvent::Disconnected { ending, retry_in: None }).await?;
                    return Err(reason);
                }
            };
            // A provider that could not give a different token still owes one.
            let still_refused = matches!(ending, Ending::NoToken(_)) && need == TokenNeed::Refused;
            need = if still_refused { TokenNeed::Refused } else { next_need };
            self.emit(ClientEvent::Disconnected { ending, retry_in: Some(after) }).await?;
            self.unless_closing(tokio::time::sleep(after)).await?;
        }
    }

    /// Asks the provider. The inner error is an ending that the policy judges.
    async fn obtain_token(
        &self,
        need: TokenNeed,
        last_token: Option<&Token>,
    ) -> Result<Result<Token, Ending>, StopReason> {
        match self.unless_closing(self.around.config.token.token(need)).await? {
            Err(error) => Ok(Err(Ending::NoToken(error))),
            Ok(token) if need == TokenNeed::Refused && Some(&token) == last_token => {
                Err(StopReason::TokenRefused)
            }
            Ok(token) if !token::is_legal(&token) => {
                Err(StopReason::NoToken("no header can carry the token".to_owned()))
            }
            Ok(token) => Ok(Ok(token)),
        }
    }

    /// One attempt and, if it succeeds, one connection; and the token that it ended with.
    async fn connect(&mut self, token: Token) -> Result<(Ending, Token), StopReason> {
        let endpoint = &self.endpoints[self.around.policy.url_index()];
        let (url, attempt) = (endpoint.url.clone(), self.around.policy.attempt());
        self.emit(ClientEvent::Connecting { url, attempt }).await?;
        let dialling = dial::dial(&self.around.config, endpoint, self.tls.as_ref(), &token);
        let socket = match self.unless_closing(dialling).await? {
            Ok(socket) => socket,
            Err(ending) => return Ok((ending, token)),
        };
        match connection::run(socket, token, &mut self.around).await {
            (Finish::Ended(ending), token) => Ok((ending, token)),
            (Finish::ClosedByCaller, _) => Err(StopReason::ClosedByCaller),
        }
    }

    async fn emit(&self, event: ClientEvent) -> Result<(), StopReason> {
        let sent = self.unless_closing(self.around.events.send(event)).await?;
        sent.map_err(|_| StopReason::ClosedByCaller)
    }

    async fn unless_closing<T>(&self, future: impl Future<Output = T>) -> Result<T, StopReason> {
        let result = self.around.closing.run_until_cancelled(future).await;
        result.ok_or(StopReason::ClosedByCaller)
    }
}
