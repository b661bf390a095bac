//! A connection that sends messages: one when it is told to, or one for each answer.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use super::counters::{Counters, Tally};
use super::letter::Letter;
use super::load::Pusher;
use super::voice::Voice;

/// Sends letters on a connection of a fleet.
#[derive(Debug)]
pub(super) struct Sender {
    voice: Arc<Voice>,
    letters: Mutex<Letters>,
    counters: Arc<Counters>,
}

/// The letters to a sender's chats, written to in turn.
#[derive(Debug)]
struct Letters {
    letters: Vec<Letter>,
    next: usize,
}

impl Sender {
    /// A sender that has sent nothing.
    pub(super) fn new(voice: Arc<Voice>, letters: Vec<Letter>, counters: Arc<Counters>) -> Self {
        Self { voice, letters: Mutex::new(Letters { letters, next: 0 }), counters }
    }

    /// Sends some messages that were due at this time, in one write if the socket takes it.
    pub(super) fn send(&self, count: u64, intended_nanos: u64) {
        self.counters.add(Tally::Sent, count);
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let Letters { letters, next } = &mut *letters;
        self.voice.say(|frames| {
            for _ in 0..count {
                letters[*next].seal(intended_nanos, frames);
                *next = (*next + 1) % letters.len();
            }
        });
    }

    /// Some messages were acknowledged: in a closed loop as many follow. What the socket did not
    /// take before is tried again in any case.
    pub(super) fn answered(&self, acks: u64) {
        let now = self.counters.epoch().nanos();
        self.send(if self.counters.repeats_at(now) { acks } else { 0 }, now);
    }
}

/// The senders of a run, told in turn.
#[derive(Debug, Clone)]
pub(super) struct Senders {
    /// Who sends.
    pub(super) senders: Vec<Arc<Sender>>,
    /// How many connections hear each message.
    pub(super) hearers: u64,
}

impl Senders {
    /// Has everybody send so many at once; with a closed loop this many stay under way.
    pub(super) fn begin(&self, in_flight: u64) {
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
        self.hearers
    }

    /// Does not wait: answers are counted where they arrive.
    fn push(&mut self, group: usize, intended_nanos: u64) -> Result<u64> {
        self.senders[group].send(1, intended_nanos);
        Ok(self.hearers)
    }
}
