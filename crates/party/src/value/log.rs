//! The newest commits of a session, for replays and for repeated operations.

use std::collections::VecDeque;

use crate::value::entry::{Entry, Remembered};
use crate::value::fact::{Fact, QueueChange, QueueEvent};
use crate::value::limits::{LOG_BYTES_MAX, LOG_ENTRIES_MAX, LOG_EVENTS_MAX};
use crate::value::operation::Outcome;
use crate::value::roster::MemberId;

/// The limits of a log. The oldest commits are removed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Queue events.
    pub events_max: usize,
    /// Commits, with or without queue events.
    pub entries_max: usize,
    /// Bytes of commits as the log keeps them.
    pub bytes_max: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        let events_max = LOG_EVENTS_MAX;
        Self { events_max, entries_max: LOG_ENTRIES_MAX, bytes_max: LOG_BYTES_MAX }
    }
}

impl LogLimits {
    fn are_over(&self, events: usize, entries: usize, bytes: usize) -> bool {
        events > self.events_max || entries > self.entries_max || bytes > self.bytes_max
    }
}

/// The newest commits, within the limits.
#[derive(Debug, Clone, Default)]
pub struct EventLog {
    limits: LogLimits,
    entries: VecDeque<Kept>,
    events: usize,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Kept {
    entry: Entry,
    events: usize,
    bytes: usize,
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq)]
pub enum Replay {
    /// All later events, without a gap.
    Events(Vec<QueueEvent>),
    /// The present state instead, because the log lacks some of the events.
    FullSync,
}

impl EventLog {
    /// An empty log.
    pub fn new(limits: LogLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Appends a commit, and removes those beyond the limits. The newest commit is always kept, so
    /// that its author finds it.
    pub fn append(&mut self, entry: &Entry) {
        let entry = entry.for_log();
        if entry.is_restoration() {
            // Events after a loss do not follow from events before it.
            *self = Self::new(self.limits);
        }
        let events = entry.queue_events();
        let bytes = entry.to_log_json().len();
        self.events += events;
        self.bytes += bytes;
        self.entries.push_back(Kept { entry, events, bytes });
        while self.entries.len() > 1 && self.is_over() {
            let oldest = self.entries.pop_front().expect("there is more than one");
            self.events -= oldest.events;
            self.bytes -= oldest.bytes;
        }
    }

    /// The number of commits in the log after appending this one of this size.
    pub fn kept_with(&self, entry: &Entry, bytes: usize) -> usize {
        if entry.is_restoration() {
            return 1;
        }
        let (mut events, mut bytes) = (self.events + entry.queue_events(), self.bytes + bytes);
        let mut entries = self.entries.len() + 1;
        for oldest in &self.entries {
            if !self.limits.are_over(events, entries, bytes) {
                break;
            }
            (events, entries, bytes) = (events - oldest.events, entries - 1, bytes - oldest.bytes);
        }
        entries
    }

    /// The events after `since`, in a session that is at `current`.
    pub fn replay(&self, since: u64, current: u64) -> Replay {
        if since > current {
            return Replay::FullSync;
        }
        let facts = self.entries.iter().flat_map(|kept| &kept.entry.facts);
        let missed: Vec<&QueueEvent> = facts
            .filter_map(Fact::queue_event)
            .filter(|event| event.stamp.sequence > since && event.stamp.sequence <= current)
            .collect();
        let has_no_gap = missed.iter().map(|event| event.stamp.sequence).eq(since + 1..=current);
        let is_marker =
            |event: &&QueueEvent| matches!(event.change, QueueChange::QueueReplaced { .. });
        if !has_no_gap || missed.iter().any(is_marker) {
            return Replay::FullSync;
        }
        Replay::Events(missed.into_iter().cloned().collect())
    }

    /// The remembered result of an operation of this member, correlation id and kind.
    pub fn remembered(
        &self,
        member: &MemberId,
        operation: &str,
        correlation_id: &str,
    ) -> Option<&Outcome> {
        let is_same = |known: &&Remembered| known.is_of(member, operation, correlation_id);
        let mut all = self.entries.iter().flat_map(|kept| &kept.entry.remembered);
        all.find(is_same).map(|known| &known.outcome)
    }

    /// The commit of this id, if it is in the window.
    pub fn commit(&self, commit_id: &str) -> Option<&Entry> {
        self.entries().find(|entry| entry.commit_id == commit_id)
    }

    /// All commits in the window, the oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().map(|kept| &kept.entry)
    }

    /// The bytes of all commits in the window.
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    fn is_over(&self) -> bool {
        self.limits.are_over(self.events, self.entries.len(), self.bytes)
    }
}
