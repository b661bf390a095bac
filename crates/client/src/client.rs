//! The handle of a client, and the task that reconnects.

use std::convert::Infallible;

use heartline_protocol::{ClientFrame, ConnectionId, Token, encode_client};
use heartline_runtime::TaskSet;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::back_off::BackOff;
use crate::config::{ClientConfig, ConfigError};
use crate::connection::{self, ConnectionContext, ConnectionEnd};
use crate::dial;
use crate::endpoint::Endpoint;
use crate::event::{ClientEvent, Ending, StopReason};
use crate::reconnect_policy::{NextStep, ReconnectPolicy};
use crate::token::{self, TokenNeed};

/// A running client. Dropping the handle stops the client at once, without a Close frame;
/// [`Client::close`] closes the connection properly.
#[derive(Debug)]
pub struct Client {
    sender: FrameSender,
    closing: CancellationToken,
    disconnects: watch::Sender<()>,
    /// The client's one task, which is aborted when the handle is dropped.
    task: TaskSet<()>,
}

/// Sends frames to the server; cheap to clone.
///
/// Frames wait in a bounded queue until a connection is established. A frame that was written to a
/// socket that then broke is lost: the caller must send it again, a message with the same
/// `client_message_id`.
#[derive(Debug, Clone)]
pub struct FrameSender {
    frames: mpsc::Sender<Outgoing>,
}

/// A frame that is queued for the socket.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) text: String,
    /// The only connection on which the frame may be sent; on any other it is dropped.
    pub(crate) only_on: Option<ConnectionId>,
}

/// The client has stopped; the last event has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client has stopped")]
pub struct ClientStopped;

impl Client {
    /// Starts a client on the current runtime. The caller must receive the events: while the event
    /// queue is full, the socket is not read, and when the receiver is dropped, the client stops.
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
        let (disconnects, disconnects_receiver) = watch::channel(());
        let closing = CancellationToken::new();
        let back_off = BackOff::new(config.back_off, config.random.draw());
        let reconnector = Reconnector {
            tls: dial::tls_connector(&config, &endpoints),
            context: ConnectionContext {
                policy: ReconnectPolicy::new(back_off, endpoints.len()),
                config,
                events: event_sender,
                frames,
                closing: closing.clone(),
                disconnects: disconnects_receiver,
            },
            endpoints,
        };
        let mut task = TaskSet::new();
        task.spawn(reconnector.run());
        Ok((
            Self { sender: FrameSender { frames: frame_sender }, closing, disconnects, task },
            events,
        ))
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

    /// Drops the current connection without a Close frame, as a failing network would; the client
    /// then reconnects. Does nothing without a connection.
    pub fn drop_socket(&self) {
        self.disconnects.send_replace(());
    }

    /// Writes all queued frames, closes the connection with a Close frame and stops the client. The
    /// last events are dropped if the event queue is full.
    pub async fn close(mut self) {
        self.closing.cancel();
        while let Some(ended) = self.task.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "client task failed");
            }
        }
    }
}

impl FrameSender {
    /// Sends a frame; waits while the queue is full.
    pub async fn send(&self, frame: &ClientFrame) -> Result<(), ClientStopped> {
        self.send_text(encode_client(frame)).await
    }

    /// Sends any text as a frame, also one that the protocol does not define.
    pub async fn send_text(&self, text: impl Into<String>) -> Result<(), ClientStopped> {
        let outgoing = Outgoing { text: text.into(), only_on: None };
        self.frames.send(outgoing).await.map_err(|_| ClientStopped)
    }

    /// A slot in the queue for one frame; waits while the queue is full.
    pub(crate) async fn reserve(&self) -> Result<mpsc::Permit<'_, Outgoing>, ClientStopped> {
        self.frames.reserve().await.map_err(|_| ClientStopped)
    }

    /// A slot in the queue for one frame; none if the queue is full.
    pub(crate) fn try_reserve(&self) -> Option<mpsc::Permit<'_, Outgoing>> {
        self.frames.try_reserve().ok()
    }
}

/// The task that connects, and reconnects after every loss.
struct Reconnector {
    context: ConnectionContext,
    endpoints: Vec<Endpoint>,
    tls: Option<TlsConnector>,
}

impl Reconnector {
    async fn run(mut self) {
        let Err(reason) = self.keep_connected().await;
        tracing::debug!(?reason, "client stopped");
        let by_caller = reason == StopReason::ClosedByCaller;
        let stopped = ClientEvent::Stopped(reason);
        if by_caller {
            // The caller may be waiting in `close` and receive no events.
            let _ = self.context.events.try_send(stopped);
        } else {
            let _ = self.emit(stopped).await;
        }
    }

    /// Connects again and again until there is a reason to stop.
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
            let next = self.context.policy.ended(&ending);
            let (after, next_need) = match next {
                NextStep::Retry { after } => (after, TokenNeed::Connect),
                NextStep::RetryWithNewToken { after } => (after, TokenNeed::Rejected),
                NextStep::Stop(reason) => {
                    self.emit(ClientEvent::Disconnected { ending, retry_in: None }).await?;
                    return Err(reason);
                }
            };
            // The provider failed to return a different token, so a different one is still needed.
            let still_rejected =
                matches!(ending, Ending::NoToken(_)) && need == TokenNeed::Rejected;
            need = if still_rejected { TokenNeed::Rejected } else { next_need };
            self.emit(ClientEvent::Disconnected { ending, retry_in: Some(after) }).await?;
            self.unless_closing(tokio::time::sleep(after)).await?;
        }
    }

    /// Requests a token from the provider. The inner error is an ending for the reconnect policy to
    /// decide about.
    async fn obtain_token(
        &self,
        need: TokenNeed,
        last_token: Option<&Token>,
    ) -> Result<Result<Token, Ending>, StopReason> {
        match self.unless_closing(self.context.config.token.token(need)).await? {
            Err(error) => Ok(Err(Ending::NoToken(error))),
            Ok(token) if need == TokenNeed::Rejected && Some(&token) == last_token => {
                Err(StopReason::TokenRejected)
            }
            Ok(token) if !token::is_valid_in_header(&token) => Err(StopReason::NoToken(
                "the token is empty, too long, or has characters that a header cannot carry"
                    .to_owned(),
            )),
            Ok(token) => Ok(Ok(token)),
        }
    }

    /// Makes one attempt and, if it succeeds, runs the connection. Returns how it ended and the
    /// last valid token.
    async fn connect(&mut self, token: Token) -> Result<(Ending, Token), StopReason> {
        let endpoint = &self.endpoints[self.context.policy.url_index()];
        let (url, attempt) = (endpoint.url.clone(), self.context.policy.attempt());
        self.emit(ClientEvent::Connecting { url, attempt }).await?;
        let dialling = dial::dial(&self.context.config, endpoint, self.tls.as_ref(), &token);
        let socket = match self.unless_closing(dialling).await? {
            Ok(socket) => socket,
            Err(ending) => return Ok((ending, token)),
        };
        match connection::run(socket, token, &mut self.context).await {
            (ConnectionEnd::Ended(ending), token) => Ok((ending, token)),
            (ConnectionEnd::ClosedByCaller, _) => Err(StopReason::ClosedByCaller),
        }
    }

    async fn emit(&self, event: ClientEvent) -> Result<(), StopReason> {
        let sent = self.unless_closing(self.context.events.send(event)).await?;
        sent.map_err(|_| StopReason::ClosedByCaller)
    }

    async fn unless_closing<T>(&self, future: impl Future<Output = T>) -> Result<T, StopReason> {
        let result = self.context.closing.run_until_cancelled(future).await;
        result.ok_or(StopReason::ClosedByCaller)
    }
}
