//! The main loop between keyboard, screen and client. `chats` has the part about chats.

use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use heartline_client::{
    ChatClient, ChatEvent, ClientEvent, Draft, Ending, Loss, SendError, SubscribeError,
};
use heartline_protocol::client_frame::{Heartbeat, RefreshToken};
use heartline_protocol::{ClientFrame, encode_client};
use heartline_runtime::{Clock, until};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::chat_list::ChatList;
use super::exit_message;
use super::input::{Input, Typed};
use super::line::{self, HELP, Line};
use super::pending::Pending;
use super::request::Response;
use super::rest::{self, Rest, RestError};
use super::screen::{Screen, TYPED_REQUESTS};
use super::tokens::Tokens;

/// The time without events after the end of piped input after which the terminal exits.
const QUIET_PERIOD: Duration = Duration::from_secs(2);
/// The time limit for the answers to messages after the end of piped input.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The exit code of success.
const EXIT_OK: u8 = 0;
/// The exit code if the client stopped or messages are unanswered.
const EXIT_FAILED: u8 = 1;

/// A terminal with its client.
pub(super) struct Terminal<R, S, O, E> {
    pub(super) client: ChatClient,
    pub(super) events: mpsc::Receiver<ChatEvent>,
    pub(super) input: Input<R>,
    /// Whether a person types. If so, commands work at any time and the end of input exits at once;
    /// otherwise input waits for the connection, and the exit for the answers.
    pub(super) is_interactive: bool,
    /// Each item requests the exit.
    pub(super) signals: S,
    pub(super) screen: Screen<O, E>,
    pub(super) tokens: Tokens,
    pub(super) rest: Rest,
    pub(super) chat_list: ChatList,
    pub(super) pending: Pending,
}

/// The work for one line; the next line waits for it.
pub(super) type Work = Pin<Box<dyn Future<Output = Done> + Send>>;

/// The result of the work for a line.
pub(super) enum Done {
    /// The command was passed to the client. If the client has stopped, its last event says so.
    Sent,
    /// The message was queued for sending, or not.
    Queued(Draft, Result<(), SendError>),
    /// The users were subscribed to, or not.
    Subscribed(Result<(), SubscribeError>),
    /// The response to a typed request.
    Requested(Result<Response, RestError>),
    /// The response to the list of chats, which is requested after every connection.
    Listed(Result<Response, RestError>),
}

/// The state of the main loop.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) is_connected: bool,
    has_input_ended: bool,
    /// When to exit although messages are unanswered, after the end of input.
    give_up_at: Option<Instant>,
    pub(super) work: Option<Work>,
    /// Whether the list of chats must be read next, because names may have changed.
    pub(super) wants_list: bool,
    /// Whether the list of chats is being read. Events wait until the names are known.
    pub(super) is_listing: bool,
    /// Whether the first hint was shown.
    pub(super) has_shown_hint: bool,
    /// Whether a command of this terminal is creating a chat.
    pub(super) is_creating_chat: bool,
    /// The base URL of REST.
    pub(super) base: String,
    /// The number of `/refresh` commands, for unique request ids.
    refreshes: u64,
}

/// The next event of the main loop.
enum Step {
    Signal,
    Event(Option<ChatEvent>),
    Done(Done),
    Typed(io::Result<Option<Typed>>),
    Overdue,
    Quiet,
    GaveUp,
}

/// Whether to continue, or the exit code.
pub(super) type Flow = io::Result<ControlFlow<u8>>;

pub(super) const CONTINUE: Flow = Ok(ControlFlow::Continue(()));

impl<R, S, O, E> Terminal<R, S, O, E>
where
    R: AsyncRead + Unpin,
    S: Stream + Unpin,
    O: Write,
    E: Write,
{
    /// Runs until the exit, closes the connection with a Close frame, and returns the exit code. A
    /// closed output pipe is not an error.
    pub(super) async fn run(mut self) -> io::Result<u8> {
        let mut ended = self.run_loop().await;
        let Self { client, mut events, mut screen, .. } = self;
        let unanswered = client.close().await;
        if let Ok(code) = &mut ended {
            while let Ok(event) = events.try_recv() {
                if let ChatEvent::Connection(event) = event {
                    screen.event(Clock::system().wall(), &event)?;
                }
            }
            if let Some(sentence) = exit_message::unanswered(&unanswered) {
                screen.print_error(&sentence)?;
                *code = EXIT_FAILED;
            }
        }
        match ended {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(EXIT_OK),
            ended => ended,
        }
    }

    async fn run_loop(&mut self) -> io::Result<u8> {
        let mut progress = Progress::default();
        loop {
            if progress.wants_list && progress.work.is_none() {
                self.list(&mut progress);
            }
            let step = self.step(&mut progress).await;
            if let ControlFlow::Break(code) = self.handle(step, &mut progress)? {
                return Ok(code);
            }
        }
    }

    /// Waits for the next event. Events come before lines, so that an answer is shown before the
    /// next line is read; while the work for a line is under way, no line is read.
    async fn step(&mut self, progress: &mut Progress) -> Step {
        let Progress { is_connected, has_input_ended, work, is_listing, .. } = progress;
        let is_idle = work.is_none();
        let reads = is_idle && !*has_input_ended && (self.is_interactive || *is_connected);
        let is_answered = is_idle && *has_input_ended && self.pending.is_empty();
        let waits_for_quiet = is_answered && *is_connected;
        let give_up_at = progress.give_up_at.filter(|_| !is_answered);
        tokio::select! {
            biased;
            _ = self.signals.next() => Step::Signal,
            event = self.events.recv(), if !*is_listing => Step::Event(event),
            done = finished(work) => Step::Done(done),
            () = until(self.pending.due_at()) => Step::Overdue,
            typed = self.input.next(), if reads => Step::Typed(typed),
            // The period starts again with every event.
            () = tokio::time::sleep(QUIET_PERIOD), if waits_for_quiet => Step::Quiet,
            () = until(give_up_at) => Step::GaveUp,
        }
    }

    fn handle(&mut self, step: Step, progress: &mut Progress) -> Flow {
        match step {
            Step::Signal | Step::Quiet => Ok(ControlFlow::Break(EXIT_OK)),
            Step::GaveUp => Ok(ControlFlow::Break(EXIT_FAILED)),
            Step::Event(Some(ChatEvent::Connection(event))) => self.on_connection(&event, progress),
            Step::Event(Some(event)) => self.on_chat(event, progress),
            Step::Event(None) => Ok(ControlFlow::Break(EXIT_FAILED)),
            Step::Done(done) => self.on_done(done, progress),
            Step::Overdue => self.show_waiting(),
            Step::Typed(typed) => match typed? {
                Some(Typed::Line(text)) => self.on_line(line::parse(&text), progress),
                Some(Typed::TooLong) => self.explain("this line is too long: the limit is 1 MiB"),
                Some(Typed::NotText) => self.explain("this line is not UTF-8"),
                None => self.on_end_of_input(progress),
            },
        }
    }

    fn on_connection(&mut self, event: &ClientEvent, progress: &mut Progress) -> Flow {
        self.screen.event(Clock::system().wall(), event)?;
        match event {
            ClientEvent::Connecting { url, .. } => progress.base = rest::base_url(url),
            ClientEvent::Connected(established) => {
                (progress.is_connected, progress.wants_list) = (true, true);
                self.chat_list.me = Some(established.user_id.clone());
            }
            ClientEvent::Disconnected { ending, retry_in } => {
                progress.is_connected = false;
                self.pending.show_all_by(Clock::system().now());
                let is_wanted = matches!(ending, Ending::Lost(Loss::Dropped));
                let waits = is_wanted || !self.pending.is_empty();
                if progress.has_input_ended && retry_in.is_some() && !waits {
                    self.screen.print_error("the connection ended before all answers arrived")?;
                    return Ok(ControlFlow::Break(EXIT_FAILED));
                }
            }
            ClientEvent::Stopped(reason) => {
                return match exit_message::explain(reason, self.tokens.directory()) {
                    Some(sentence) => {
                        self.screen.print_error(&sentence)?;
                        Ok(ControlFlow::Break(EXIT_FAILED))
                    }
                    None => Ok(ControlFlow::Break(EXIT_OK)),
                };
            }
            ClientEvent::Frame { .. } => {}
        }
        CONTINUE
    }

    fn on_line(&mut self, line: Line, progress: &mut Progress) -> Flow {
        match line {
            Line::Empty => CONTINUE,
            Line::Frame(text) => {
                // A user who sends frames sees frames.
                self.screen.with_frames = true;
                self.send(text, progress)
            }
            Line::Frames => self.toggle_frames(),
            Line::Heartbeat => {
                self.send(encode_client(&ClientFrame::Heartbeat(Heartbeat {})), progress)
            }
            Line::Refresh => self.refresh(progress),
            Line::Drop if progress.is_connected => {
                let sender = self.client.sender();
                progress.work = Some(Box::pin(async move {
                    let _ = sender.drop_socket().await;
                    Done::Sent
                }));
                CONTINUE
            }
            Line::Drop => self.explain("not connected: there is no connection to drop"),
            Line::Quit => self.on_end_of_input(progress),
            Line::Help => self.explain(HELP),
            Line::Unknown(sentence) => self.explain(&sentence),
            chat_line => self.on_chat_line(chat_line, progress),
        }
    }

    fn on_end_of_input(&mut self, progress: &mut Progress) -> Flow {
        if self.is_interactive {
            return Ok(ControlFlow::Break(EXIT_OK));
        }
        progress.has_input_ended = true;
        progress.give_up_at = Some(Clock::system().now() + ANSWER_TIMEOUT);
        CONTINUE
    }

    fn toggle_frames(&mut self) -> Flow {
        self.screen.with_frames = !self.screen.with_frames;
        let state = if self.screen.with_frames { "shown" } else { "hidden" };
        self.explain(&format!("frames are {state} from now on"))
    }

    fn refresh(&mut self, progress: &mut Progress) -> Flow {
        let token = match self.tokens.current() {
            Ok(token) => token,
            Err(error) => return self.explain(&error),
        };
        progress.refreshes += 1;
        let request_id = format!("{TYPED_REQUESTS}refresh-{}", progress.refreshes)
            .parse()
            .expect("a short ASCII text is a request id");
        self.send(
            encode_client(&ClientFrame::RefreshToken(RefreshToken { request_id, token })),
            progress,
        )
    }

    fn send(&mut self, text: String, progress: &mut Progress) -> Flow {
        let now = Clock::system().wall();
        if !progress.is_connected {
            self.screen.info(now, "not connected: the frame is sent once connected")?;
        }
        self.screen.typed(now, &text)?;
        let sender = self.client.sender();
        progress.work = Some(Box::pin(async move {
            let _ = sender.send_text(text).await;
            Done::Sent
        }));
        CONTINUE
    }

    pub(super) fn explain(&mut self, sentence: &str) -> Flow {
        self.screen.print(sentence)?;
        CONTINUE
    }
}

/// Waits for the work; forever without one.
async fn finished(work: &mut Option<Work>) -> Done {
    match work {
        Some(future) => {
            let done = future.await;
            *work = None;
            done
        }
        None => std::future::pending().await,
    }
}
