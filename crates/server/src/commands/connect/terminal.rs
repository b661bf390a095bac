//! The loop between the keyboard, the screen and the client.

use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use heartline_client::{Client, ClientEvent, ClientStopped, Ending, Loss};
use heartline_protocol::client_frame::{Heartbeat, RefreshToken};
use heartline_protocol::{ClientFrame, encode_client};
use heartline_routing::Clock;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::farewell;
use super::input::{Input, Typed};
use super::line::{self, HELP, Line};
use super::screen::Screen;
use super::tokens::Tokens;

/// How long it must be quiet after the end of piped input before it is taken that all answers
/// have come.
const QUIET: Duration = Duration::from_secs(2);
/// The exit code when all went well.
const FINE: u8 = 0;
/// The exit code when the client had to give up.
const REFUSED: u8 = 1;

/// One terminal on one client.
pub(super) struct Terminal<R, S, O, E> {
    pub(super) client: Client,
    pub(super) events: mpsc::Receiver<ClientEvent>,
    pub(super) input: Input<R>,
    /// Whether a person types: then commands work at any time, and the end of input means now. A
    /// pipe waits until it is connected, and for its answers.
    pub(super) is_interactive: bool,
    /// Each item asks for the end.
    pub(super) signals: S,
    pub(super) screen: Screen<O, E>,
    pub(super) tokens: Tokens,
}

/// A frame on its way into the client's queue, which may be full.
type Sending = Pin<Box<dyn Future<Output = Result<(), ClientStopped>> + Send>>;

/// What the loop knows.
#[derive(Default)]
struct Progress {
    is_connected: bool,
    has_input_ended: bool,
    sending: Option<Sending>,
    /// How often `/refresh` was typed, so that every request has its own id.
    refreshes: u64,
}

/// What happened next.
enum Step {
    Signal,
    Event(Option<ClientEvent>),
    Queued,
    Typed(io::Result<Option<Typed>>),
    Quiet,
}

/// Whether to go on, or the exit code.
type Flow = io::Result<ControlFlow<u8>>;

const GO_ON: Flow = Ok(ControlFlow::Continue(()));

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
        let ended = self.converse().await;
        let Self { client, mut events, mut screen, .. } = self;
        client.close().await;
        let shown = ended.and_then(|code| {
            while let Ok(event) = events.try_recv() {
                screen.event(Clock.wall(), &event)?;
            }
            Ok(code)
        });
        match shown {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(FINE),
            shown => shown,
        }
    }

    async fn converse(&mut self) -> io::Result<u8> {
        let mut progress = Progress::default();
        loop {
            let step = self.step(&mut progress).await;
            if let ControlFlow::Break(code) = self.take(step, &mut progress)? {
                return Ok(code);
            }
        }
    }

    /// Waits for what happens next. Events come before lines, so that what was answered is seen
    /// before the next question; and while a frame waits for its place no further line is read.
    async fn step(&mut self, progress: &mut Progress) -> Step {
        let Progress { is_connected, has_input_ended, sending, .. } = progress;
        let is_idle = sending.is_none();
        let reads = is_idle && !*has_input_ended && (self.is_interactive || *is_connected);
        let waits_for_quiet = is_idle && *has_input_ended && *is_connected;
        tokio::select! {
            biased;
            _ = self.signals.next() => Step::Signal,
            event = self.events.recv() => Step::Event(event),
            () = queued(sending) => Step::Queued,
            typed = self.input.next(), if reads => Step::Typed(typed),
            // Begun anew at every turn, and each turn is something that happened.
            () = tokio::time::sleep(QUIET), if waits_for_quiet => Step::Quiet,
        }
    }

    fn take(&mut self, step: Step, progress: &mut Progress) -> Flow {
        match step {
            Step::Signal | Step::Quiet => Ok(ControlFlow::Break(FINE)),
            Step::Queued => GO_ON,
            Step::Event(Some(event)) => self.on_event(&event, progress),
            Step::Event(None) => Ok(ControlFlow::Break(REFUSED)),
            Step::Typed(typed) => match typed? {
                Some(Typed::Line(text)) => self.on_line(line::parse(&text), progress),
                Some(Typed::TooLong) => self.explain("this line is too long for any frame"),
                Some(Typed::NotText) => self.explain("this line is not UTF-8 text"),
                None => self.on_end_of_input(progress),
            },
        }
    }

    fn on_event(&mut self, event: &ClientEvent, progress: &mut Progress) -> Flow {
        self.screen.event(Clock.wall(), event)?;
        match event {
            ClientEvent::Connected(_) => progress.is_connected = true,
            ClientEvent::Disconnected { ending, retry_in } => {
                progress.is_connected = false;
                let is_wanted = matches!(ending, Ending::Lost(Loss::Dropped));
                if progress.has_input_ended && retry_in.is_some() && !is_wanted {
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
            ClientEvent::Connecting { .. } | ClientEvent::Frame { .. } => {}
        }
        GO_ON
    }

    fn on_line(&mut self, line: Line, progress: &mut Progress) -> Flow {
        match line {
            Line::Empty => GO_ON,
            Line::Frame(text) => self.send(text, progress),
            Line::Heartbeat => {
                self.send(encode_client(&ClientFrame::Heartbeat(Heartbeat {})), progress)
            }
            Line::Refresh => self.refresh(progress),
            Line::Drop if progress.is_connected => {
                self.client.drop_socket();
                GO_ON
            }
            Line::Drop => self.explain("there is no connection to break at the moment"),
            Line::Quit => self.on_end_of_input(progress),
            Line::Help => self.explain(HELP),
            Line::Unknown(sentence) => self.explain(&sentence),
        }
    }

    fn on_end_of_input(&mut self, progress: &mut Progress) -> Flow {
        if self.is_interactive {
            return Ok(ControlFlow::Break(FINE));
        }
        progress.has_input_ended = true;
        GO_ON
    }

    fn refresh(&mut self, progress: &mut Progress) -> Flow {
        let token = match self.tokens.now() {
            Ok(token) => token,
            Err(why) => return self.explain(&why),
        };
        progress.refreshes += 1;
        let request_id = format!("terminal-refresh-{}", progress.refreshes)
            .parse()
            .expect("a short ASCII text is a request id");
        self.send(
            encode_client(&ClientFrame::RefreshToken(RefreshToken { request_id, token })),
            progress,
        )
    }

    fn send(&mut self, text: String, progress: &mut Progress) -> Flow {
        let now = Clock.wall();
        if !progress.is_connected {
            self.screen.state(now, "not connected: it is sent as soon as there is a connection")?;
        }
        self.screen.sent(now, &text)?;
        let sender = self.client.sender();
        progress.sending = Some(Box::pin(async move { sender.send_text(text).await }));
        GO_ON
    }

    fn explain(&mut self, sentence: &str) -> Flow {
        self.screen.say(sentence)?;
        GO_ON
    }
}

/// Waits until the frame has its place. A client that has stopped says so in its last event.
async fn queued(sending: &mut Option<Sending>) {
    match sending {
        Some(future) => {
            let _ = future.await;
            *sending = None;
        }
        None => std::future::pending().await,
    }
}
