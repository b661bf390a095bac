//! The loop between the keyboard, the screen and the client. What it does about chats is in
//! `talk`.

use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use heartline_client::{
    ChatClient, ChatEvent, ClientEvent, Draft, Ending, Loss, SendError, WatchError,
};
use heartline_protocol::client_frame::{Heartbeat, RefreshToken};
use heartline_protocol::{ClientFrame, encode_client};
use heartline_runtime::Clock;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::book::Book;
use super::farewell;
use super::input::{Input, Typed};
use super::line::{self, HELP, Line};
use super::pending::Pending;
use super::request::Answer;
use super::rest::{self, Rest, RestError};
use super::screen::{Screen, TYPED_REQUESTS};
use super::tokens::Tokens;

/// How long it must be quiet after the end of piped input before it is taken that all answers
/// have come.
const QUIET: Duration = Duration::from_secs(2);
/// How long messages may wait for their answers after the end of piped input.
const LAST_PATIENCE: Duration = Duration::from_secs(30);
/// The exit code when all went well.
const FINE: u8 = 0;
/// The exit code when the client had to give up.
const REFUSED: u8 = 1;

/// One terminal on one client.
pub(super) struct Terminal<R, S, O, E> {
    pub(super) client: ChatClient,
    pub(super) events: mpsc::Receiver<ChatEvent>,
    pub(super) input: Input<R>,
    /// Whether a person types: then commands work at any time, and the end of input means now. A
    /// pipe waits until it is connected, and for its answers.
    pub(super) is_interactive: bool,
    /// Each item asks for the end.
    pub(super) signals: S,
    pub(super) screen: Screen<O, E>,
    pub(super) tokens: Tokens,
    pub(super) rest: Rest,
    pub(super) book: Book,
    pub(super) pending: Pending,
}

/// Something under way for one line, so that the next line waits for it.
pub(super) type Work = Pin<Box<dyn Future<Output = Done> + Send>>;

/// How it ended.
pub(super) enum Done {
    /// It is on its way; a client that has stopped says so in its last event.
    Passed,
    /// A message was taken for sending, or not.
    Taken(Draft, Result<(), SendError>),
    /// Users are watched from now on, or not.
    Watched(Result<(), WatchError>),
    /// The server answered what was typed.
    Answered(Result<Answer, RestError>),
    /// The server answered what the terminal asks after every connection.
    Listed(Result<Answer, RestError>),
}

/// What the loop knows.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) is_connected: bool,
    has_input_ended: bool,
    /// When to stop waiting after the end of input.
    give_up_at: Option<Instant>,
    pub(super) work: Option<Work>,
    /// Whether the chats are to be read anew before anything else, because names may have changed.
    pub(super) wants_list: bool,
    /// Whether they are being read: what happens in them is told when their names are known.
    pub(super) is_listing: bool,
    /// Whether it was said what there is to do.
    pub(super) has_greeted: bool,
    /// Whether a chat is being made here.
    pub(super) is_making: bool,
    /// Where REST is.
    pub(super) base: String,
    /// How often `/refresh` was typed, so that every request has its own id.
    refreshes: u64,
}

/// What happened next.
enum Step {
    Signal,
    Event(Option<ChatEvent>),
    Done(Done),
    Typed(io::Result<Option<Typed>>),
    Overdue,
    Quiet,
    GaveUp,
}

/// Whether to go on, or the exit code.
pub(super) type Flow = io::Result<ControlFlow<u8>>;

pub(super) const GO_ON: Flow = Ok(ControlFlow::Continue(()));

impl<R, S, O, E> Terminal<R, S, O, E>
where
    R: AsyncRead + Unpin,
    S: Stream + Unpin,
    O: Write,
    E: Write,
{
    /// Runs until there is a reason to end, closes the connection in order, and answers the exit
    /// code. A reader of the output that went away is no error.
    pub(super) async fn run(mut self) -> io::Result<u8> {
        let mut ended = self.converse().await;
        let Self { client, mut events, mut screen, .. } = self;
        let unanswered = client.close().await;
        if let Ok(code) = &mut ended {
            while let Ok(event) = events.try_recv() {
                if let ChatEvent::Connection(event) = event {
                    screen.event(Clock::system().wall(), &event)?;
                }
            }
            if let Some(sentence) = farewell::unanswered(&unanswered) {
                screen.complain(&sentence)?;
                *code = REFUSED;
            }
        }
        match ended {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(FINE),
            ended => ended,
        }
    }

    async fn converse(&mut self) -> io::Result<u8> {
        let mut progress = Progress::default();
        loop {
            if progress.wants_list && progress.work.is_none() {
                self.list(&mut progress);
            }
            let step = self.step(&mut progress).await;
            if let ControlFlow::Break(code) = self.take(step, &mut progress)? {
                return Ok(code);
            }
        }
    }

    /// Waits for what happens next. Events come before lines, so that what was answered is seen
    /// before the next question; and while one line is worked on no further one is read.
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
            // Begun anew at every turn, and each turn is something that happened.
            () = tokio::time::sleep(QUIET), if waits_for_quiet => Step::Quiet,
            () = until(give_up_at) => Step::GaveUp,
        }
    }

    fn take(&mut self, step: Step, progress: &mut Progress) -> Flow {
        match step {
            Step::Signal | Step::Quiet => Ok(ControlFlow::Break(FINE)),
            Step::GaveUp => Ok(ControlFlow::Break(REFUSED)),
            Step::Event(Some(ChatEvent::Connection(event))) => self.on_connection(&event, progress),
            Step::Event(Some(event)) => self.on_chat(event, progress),
            Step::Event(None) => Ok(ControlFlow::Break(REFUSED)),
            Step::Done(done) => self.on_done(done, progress),
            Step::Overdue => self.show_waiting(),
            Step::Typed(typed) => match typed? {
                Some(Typed::Line(text)) => self.on_line(line::parse(&text), progress),
                Some(Typed::TooLong) => self.explain("this line is too long for any frame"),
                Some(Typed::NotText) => self.explain("this line is not UTF-8 text"),
                None => self.on_end_of_input(progress),
            },
        }
    }

    fn on_connection(&mut self, event: &ClientEvent, progress: &mut Progress) -> Flow {
        self.screen.event(Clock::system().wall(), event)?;
        match event {
            ClientEvent::Connecting { url, .. } => progress.base = rest::base_of(url),
            ClientEvent::Connected(established) => {
                (progress.is_connected, progress.wants_list) = (true, true);
                self.book.me = Some(established.user_id.clone());
            }
            ClientEvent::Disconnected { ending, retry_in } => {
                progress.is_connected = false;
                self.pending.hurry(Clock::system().now());
                let is_wanted = matches!(ending, Ending::Lost(Loss::Dropped));
                let waits = is_wanted || !self.pending.is_empty();
                if progress.has_input_ended && retry_in.is_some() && !waits {
                    self.screen.complain("the connection ended before all answers had come")?;
                    return Ok(ControlFlow::Break(REFUSED));
                }
            }
            ClientEvent::Stopped(reason) => {
                return match farewell::explain(reason, self.tokens.directory()) {
                    Some(sentence) => {
                        self.screen.complain(&sentence)?;
                        Ok(ControlFlow::Break(REFUSED))
                    }
                    None => Ok(ControlFlow::Break(FINE)),
                };
            }
            ClientEvent::Frame { .. } => {}
        }
        GO_ON
    }

    fn on_line(&mut self, line: Line, progress: &mut Progress) -> Flow {
        match line {
            Line::Empty => GO_ON,
            Line::Frame(text) => {
                // Who speaks in frames is answered in frames.
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
                    Done::Passed
                }));
                GO_ON
            }
            Line::Drop => self.explain("there is no connection to break at the moment"),
            Line::Quit => self.on_end_of_input(progress),
            Line::Help => self.explain(HELP),
            Line::Unknown(sentence) => self.explain(&sentence),
            chat_line => self.on_chat_line(chat_line, progress),
        }
    }

    fn on_end_of_input(&mut self, progress: &mut Progress) -> Flow {
        if self.is_interactive {
            return Ok(ControlFlow::Break(FINE));
        }
        progress.has_input_ended = true;
        progress.give_up_at = Some(Clock::system().now() + LAST_PATIENCE);
        GO_ON
    }

    fn toggle_frames(&mut self) -> Flow {
        self.screen.with_frames = !self.screen.with_frames;
        let state = if self.screen.with_frames { "shown" } else { "hidden" };
        self.explain(&format!("frames are {state} from now on"))
    }

    fn refresh(&mut self, progress: &mut Progress) -> Flow {
        let token = match self.tokens.now() {
            Ok(token) => token,
            Err(why) => return self.explain(&why),
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
            self.screen.state(now, "not connected: it is sent as soon as there is a connection")?;
        }
        self.screen.typed(now, &text)?;
        let sender = self.client.sender();
        progress.work = Some(Box::pin(async move {
            let _ = sender.send_text(text).await;
            Done::Passed
        }));
        GO_ON
    }

    pub(super) fn explain(&mut self, sentence: &str) -> Flow {
        self.screen.say(sentence)?;
        GO_ON
    }
}

/// Waits until the work is done.
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

/// Waits until then; for ever without a time.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
