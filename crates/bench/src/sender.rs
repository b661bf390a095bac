//! A connection that sends messages: on request, or one for each acknowledgement.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use super::counters::{Counters, Tally};
use super::frame_writer::FrameWriter;
use super::load::Pusher;
use super::message_template::MessageTemplate;

/// Sends messages on one of the [`super::client_sockets::ClientSockets`].
#[derive(Debug)]
pub(super) struct Sender {
    writer: Arc<FrameWriter>,
    templates: Mutex<Templates>,
    counters: Arc<Counters>,
}

/// One template for each chat of the sender, used in turn.
#[derive(Debug)]
struct Templates {
    templates: Vec<MessageTemplate>,
    next: usize,
}

impl Sender {
    /// A sender that has sent nothing yet.
    pub(super) fn new(
        writer: Arc<FrameWriter>,
        templates: Vec<MessageTemplate>,
        counters: Arc<Counters>,
    ) -> Self {
        Self { writer, templates: Mutex::new(Templates { templates, next: 0 }), counters }
    }

    /// Sends messages that were due at this time, in one write if the socket accepts them.
    pub(super) fn send(&self, count: u64, intended_nanos: u64) {
        self.counters.add(Tally::Sent, count);
        let mut templates = self.templates.lock().unwrap_or_else(PoisonError::into_inner);
        let Templates { templates, next } = &mut *templates;
        self.writer.write(|frames| {
            for _ in 0..count {
                templates[*next].write_frame(intended_nanos, frames);
                *next = (*next + 1) % templates.len();
            }
        });
    }

    /// Handles acknowledgements: in a closed loop sends as many new messages. Also writes bytes
    /// that the socket did not accept before.
    pub(super) fn acknowledged(&self, acks: u64) {
        let now = self.counters.epoch().nanos();
        self.send(if self.counters.repeats_at(now) { acks } else { 0 }, now);
    }
}

/// The senders of a run, used in turn.
#[derive(Debug, Clone)]
pub(super) struct Senders {
    /// The senders.
    pub(super) senders: Vec<Arc<Sender>>,
    /// Connections that receive each message.
    pub(super) receivers_per_message: u64,
}

impl Senders {
    /// Makes every sender send `in_flight` messages, which stay in flight in a closed loop.
    pub(super) fn start_closed_loop(&self, in_flight: u64) {
        for sender in &self.senders {
            sender.send(in_flight, sender.counters.epoch().nanos());
        }
    }
}

impl Pusher for Senders {
    fn groups(&self) -> usize {
        self.senders.len()
    }

    fn connections(&self, _: usize) -> u64 {
        self.receivers_per_message
    }

    /// Does not wait: the readers count the acknowledgements.
    fn push(&mut self, group: usize, intended_nanos: u64) -> Result<u64> {
        self.senders[group].send(1, intended_nanos);
        Ok(self.receivers_per_message)
    }
}
