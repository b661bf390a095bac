//! Writes lines, and decides which events are shown.

use std::io::{self, Write};

use heartline_client::ClientEvent;
use heartline_protocol::{ServerFrame, Timestamp};

use super::view::{View, kind};

/// The prefix of the ids of requests that a typed command causes.
pub(super) const TYPED_REQUESTS: &str = "terminal-";

/// The two output streams of the terminal. A failed write ends the terminal.
#[derive(Debug)]
pub(super) struct Screen<O, E> {
    pub(super) output: O,
    pub(super) errors: E,
    pub(super) view: View,
    /// Whether frames are shown as received; otherwise they are shown as sentences, if they concern
    /// a person.
    pub(super) with_frames: bool,
    /// Whether answers to the client's own heartbeats are shown.
    pub(super) with_heartbeats: bool,
    /// Typed heartbeats whose answers are not shown yet.
    pub(super) heartbeats_typed: usize,
}

impl<O: Write, E: Write> Screen<O, E> {
    /// Shows an event of the connection.
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
        self.write(&line)
    }

    /// Shows a frame that was typed.
    pub(super) fn typed(&mut self, at: Timestamp, text: &str) -> io::Result<()> {
        if kind(text).is_some_and(|kind| kind == "heartbeat") {
            self.heartbeats_typed += 1;
        }
        self.write(&self.view.sent(at, text))
    }

    /// Shows a frame that the client sends, if frames are shown.
    pub(super) fn sent(&mut self, at: Timestamp, text: &str) -> io::Result<()> {
        if self.with_frames { self.write(&self.view.sent(at, text)) } else { Ok(()) }
    }

    /// Shows a sentence about the connection or a chat.
    pub(super) fn info(&mut self, at: Timestamp, sentence: &str) -> io::Result<()> {
        self.write(&self.view.info(at, sentence))
    }

    /// Shows the answer to a typed line.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// Writes an error.
    pub(super) fn print_error(&mut self, sentence: &str) -> io::Result<()> {
        writeln!(self.errors, "heartline: {sentence}")
    }

    /// Writes lines that the view has formatted.
    pub(super) fn write(&mut self, lines: &str) -> io::Result<()> {
        self.output.write_all(lines.as_bytes())?;
        self.output.flush()
    }

    /// Whether a frame is shown as received. If frames are shown, all are, except the answers to
    /// the client's own heartbeats; otherwise only the answers to typed heartbeats and refreshes
    /// are.
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
