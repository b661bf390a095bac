//! Where lines are written, and which events deserve one.

use std::io::{self, Write};

use heartline_client::ClientEvent;
use heartline_protocol::{ServerFrame, Timestamp};

use super::view::{View, kind};

/// What the ids of requests begin with that were typed as a command.
pub(super) const TYPED_REQUESTS: &str = "terminal-";

/// The two streams of the terminal. A write that fails ends it, because nobody sees anything then.
#[derive(Debug)]
pub(super) struct Screen<O, E> {
    pub(super) output: O,
    pub(super) errors: E,
    pub(super) view: View,
    /// Whether frames are shown as they are; otherwise in words, as far as they concern a person.
    pub(super) with_frames: bool,
    /// Whether answers to heartbeats are shown that nobody typed.
    pub(super) with_heartbeats: bool,
    /// Heartbeats that were typed and whose answers are still to be shown.
    pub(super) heartbeats_typed: usize,
}

impl<O: Write, E: Write> Screen<O, E> {
    /// Shows what the connection tells.
    pub(super) fn event(&mut self, at: Timestamp, event: &ClientEvent) -> io::Result<()> {
        let view = self.view;
        let line = match event {
            ClientEvent::Connecting { url, attempt } => view.connecting(at, url, *attempt),
            ClientEvent::Connected(established) if self.with_frames => {
                view.established(at, established) + &view.connected(at, established)
            }
            ClientEvent::Connected(established) => view.connected(at, established),
            ClientEvent::Frame { frame, text } if self.is_shown_raw(frame) => {
                view.received(at, frame, text)
            }
            ClientEvent::Frame { frame, .. } if !self.with_frames => {
                view.notice(at, frame).unwrap_or_default()
            }
            ClientEvent::Disconnected { ending, retry_in } => {
                view.disconnected(at, ending, *retry_in)
            }
            ClientEvent::Frame { .. } | ClientEvent::Stopped(_) => return Ok(()),
        };
        self.show(&line)
    }

    /// Shows a frame that was typed.
    pub(super) fn typed(&mut self, at: Timestamp, text: &str) -> io::Result<()> {
        if kind(text).is_some_and(|kind| kind == "heartbeat") {
            self.heartbeats_typed += 1;
        }
        self.show(&self.view.sent(at, text))
    }

    /// Shows a frame that the client sends by itself, to those who read frames.
    pub(super) fn sent(&mut self, at: Timestamp, text: &str) -> io::Result<()> {
        if self.with_frames { self.show(&self.view.sent(at, text)) } else { Ok(()) }
    }

    /// Says something about the connection or a chat.
    pub(super) fn state(&mut self, at: Timestamp, sentence: &str) -> io::Result<()> {
        self.show(&self.view.state(at, sentence))
    }

    /// Says something in answer to what was typed.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        self.show(&format!("{text}\n"))
    }

    /// Says why it ends, where errors are read.
    pub(super) fn complain(&mut self, sentence: &str) -> io::Result<()> {
        writeln!(self.errors, "heartline: {sentence}")
    }

    /// Writes lines that the view has made.
    pub(super) fn show(&mut self, lines: &str) -> io::Result<()> {
        self.output.write_all(lines.as_bytes())?;
        self.output.flush()
    }

    /// Whether a frame is shown as it came: all are to those who read frames, but for the answers
    /// to heartbeats that nobody typed; the answers to typed ones are to everybody.
    fn is_shown_raw(&mut self, frame: &ServerFrame) -> bool {
        match frame {
            ServerFrame::HeartbeatAck { .. } => {
                let was_typed = self.heartbeats_typed > 0;
                self.heartbeats_typed = self.heartbeats_typed.saturating_sub(1);
                was_typed || self.with_heartbeats
            }
            ServerFrame::TokenRefreshed { request_id, .. } => {
                self.with_frames || request_id.as_str().starts_with(TYPED_REQUESTS)
            }
            _ => self.with_frames,
        }
    }
}
