//! Where lines are written, and which events deserve one.

use std::io::{self, Write};

use heartline_client::ClientEvent;
use heartline_protocol::{ServerFrame, Timestamp};

use super::view::{View, kind};

/// The two streams of the terminal. A write that fails ends it, because nobody sees anything then.
#[derive(Debug)]
pub(super) struct Screen<O, E> {
    output: O,
    errors: E,
    view: View,
    /// Whether answers to heartbeats are shown that nobody typed.
    with_heartbeats: bool,
    /// Heartbeats that were typed and whose answers are still to be shown.
    heartbeats_typed: usize,
}

impl<O: Write, E: Write> Screen<O, E> {
    /// A screen on which nothing is written yet.
    pub(super) fn new(output: O, errors: E, view: View, with_heartbeats: bool) -> Self {
        Self { output, errors, view, with_heartbeats, heartbeats_typed: 0 }
    }

    /// Shows what the client tells.
    pub(super) fn event(&mut self, at: Timestamp, event: &ClientEvent) -> io::Result<()> {
        let view = self.view;
        let line = match event {
            ClientEvent::Connecting { url, attempt } => view.connecting(at, url, *attempt),
            ClientEvent::Connected(established) => {
                view.established(at, established) + &view.connected(at, established)
            }
            ClientEvent::Frame { frame, text } if self.deserves_a_line(frame) => {
                view.received(at, frame, text)
            }
            ClientEvent::Disconnected { ending, retry_in } => {
                view.disconnected(at, ending, *retry_in)
            }
            ClientEvent::Frame { .. } | ClientEvent::Stopped(_) => return Ok(()),
        };
        self.write(&line)
    }

    /// Shows a frame of one's own.
    pub(super) fn sent(&mut self, at: Timestamp, text: &str) -> io::Result<()> {
        if kind(text).is_some_and(|kind| kind == "heartbeat") {
            self.heartbeats_typed += 1;
        }
        self.write(&self.view.sent(at, text))
    }

    /// Says something about the connection.
    pub(super) fn state(&mut self, at: Timestamp, sentence: &str) -> io::Result<()> {
        self.write(&self.view.state(at, sentence))
    }

    /// Says something in answer to what was typed.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// Says why it ends, where errors are read.
    pub(super) fn complain(&mut self, sentence: &str) -> io::Result<()> {
        writeln!(self.errors, "heartline: {sentence}")
    }

    fn deserves_a_line(&mut self, frame: &ServerFrame) -> bool {
        if self.with_heartbeats || !matches!(frame, ServerFrame::HeartbeatAck { .. }) {
            return true;
        }
        let was_typed = self.heartbeats_typed > 0;
        self.heartbeats_typed = self.heartbeats_typed.saturating_sub(1);
        was_typed
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.output.write_all(text.as_bytes())?;
        self.output.flush()
    }
}
