//! Numbers on parcels, and what they say about what was lost.
//!
//! Each sender counts the envelopes that leave for each receiver on each transport, so the receiver
//! expects exactly the next number. Probes and statuses repeat the last one: they show that an
//! envelope is missing, and their own loss means nothing. A number is a run and a count within it:
//! a sender that had forgotten the receiver begins a new run, whose numbers are all higher, so
//! that it can neither look like a repeat nor hide what the receiver missed.

use std::time::Duration;

use heartline_protocol::NodeId;
use heartline_runtime::Map;
use tokio::time::Instant;

use super::parcel::Parcel;

/// Bits of a number that count within a run: at a million parcels a second, twelve days.
const COUNT_BITS: u32 = 40;

/// Parts that the numbers received from one sender may have fallen into by losses. Beyond them the
/// oldest hole counts as closed: it was told as a gap long ago.
const PARTS_MAX: usize = 64;

/// How long a parcel may take through the broker after a status on the direct transport has named
/// its number. Then it counts as lost.
pub const PROMISE_TIME: Duration = Duration::from_millis(1500);

/// Counts what leaves on one transport.
#[derive(Debug, Default)]
pub struct Departures {
    last: Map<NodeId, u64>,
    runs: u64,
}

impl Departures {
    /// Numbers a parcel that leaves for this receiver now.
    pub fn stamp(&mut self, receiver: &NodeId, parcel: &mut Parcel) {
        let number = if parcel.is_envelope() { self.next(receiver) } else { self.last(receiver) };
        parcel.stamp(number);
    }

    /// The number of the next envelope for this receiver. One that is not used is a gap.
    pub fn next(&mut self, receiver: &NodeId) -> u64 {
        if let Some(last) = self.last.get_mut(receiver) {
            *last += 1;
            return *last;
        }
        let first = first_of_run(self.runs);
        self.runs += 1;
        self.last.insert(receiver.clone(), first);
        first
    }

    /// The number of the last one, 0 if there was none.
    pub fn last(&self, receiver: &NodeId) -> u64 {
        self.last.get(receiver).copied().unwrap_or(0)
    }

    /// Forgets a receiver that is gone. If it was not, it gets a new run.
    pub fn forget(&mut self, receiver: &NodeId) {
        self.last.remove(receiver);
    }
}

/// The first number of a run.
const fn first_of_run(run: u64) -> u64 {
    (run << COUNT_BITS) + 1
}

/// The first number of the run that a number belongs to, or follows.
const fn first_before(number: u64) -> u64 {
    first_of_run(number >> COUNT_BITS)
}

/// What a number says about the parcel that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is new, and nothing is missing before it.
    Next,
    /// It is new, and something before it did not come.
    AfterGap,
    /// It was received before, on this way or another.
    Repeat,
}

/// What was received from one sender on one transport.
#[derive(Debug)]
pub struct Received {
    /// The highest number that came on this transport, or was given up.
    highest: u64,
    /// Which numbers were received, on this transport or again on another, as closed parts in
    /// rising order.
    parts: Vec<(u64, u64)>,
    /// The last number that the sender says it has sent, and when it said so first.
    promised: Option<(u64, Instant)>,
    /// Whether the next number may be any: the loss before it was told already.
    is_forgiven: bool,
    heard_at: Instant,
}

impl Received {
    /// Nothing was received from the sender yet.
    pub fn new(now: Instant) -> Self {
        let (parts, is_forgiven) = (Vec::new(), false);
        Self { highest: 0, parts, promised: None, is_forgiven, heard_at: now }
    }

    /// A parcel came with this number on this transport.
    pub fn arrive(&mut self, number: u64, now: Instant) -> Arrival {
        self.heard_at = now;
        if !self.insert(number) {
            return Arrival::Repeat;
        }
        if number <= self.highest {
            return Arrival::Next;
        }
        let is_next = self.is_forgiven || self.has_all_up_to(number - 1);
        (self.highest, self.is_forgiven) = (number, false);
        if is_next { Arrival::Next } else { Arrival::AfterGap }
    }

    /// A parcel without an envelope says on this transport that this is the last number, 0 if
    /// there was none. Answers whether something up to it did not come.
    pub fn is_short_of(&mut self, number: u64, now: Instant) -> bool {
        self.heard_at = now;
        if number <= self.highest {
            return false;
        }
        let is_short = !self.is_forgiven && !self.has_all_up_to(number);
        (self.highest, self.is_forgiven) = (number, false);
        is_short
    }

    /// A parcel that left on this transport under this number came another way. Answers whether
    /// it is new.
    pub fn arrive_otherwise(&mut self, number: u64) -> bool {
        self.insert(number)
    }

    /// The transport was interrupted, and everybody was told of it: what is missing when the next
    /// parcel comes is no news.
    pub fn forgive(&mut self) {
        self.is_forgiven = true;
        self.promised = None;
    }

    /// The sender says another way that this is its last number on this transport.
    pub fn promise(&mut self, number: u64, now: Instant) {
        self.heard_at = now;
        if number > self.highest && self.promised.is_none() {
            self.promised = Some((number, now));
        }
    }

    /// Whether something that the sender says it has sent did not come in time. It is given up, so
    /// that this is said once.
    pub fn is_overdue(&mut self, now: Instant) -> bool {
        let Some((number, promised_at)) = self.promised else { return false };
        if number <= self.highest {
            self.promised = None;
            return false;
        }
        if now - promised_at < PROMISE_TIME {
            return false;
        }
        self.promised = None;
        let is_lost = !self.has_all_up_to(number);
        (self.highest, self.is_forgiven) = (number, false);
        is_lost
    }

    /// When anything was last heard.
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// Whether every number after the highest up to this one was received, on whatever way.
    fn has_all_up_to(&self, number: u64) -> bool {
        // Counting begins anew for every receiver, so nothing came before the first of a run.
        let first = match self.highest {
            0 => first_before(number),
            highest => highest + 1,
        };
        number < first || self.parts.iter().any(|&(low, high)| low <= first && number <= high)
    }

    /// Notes a number; false if it was noted before.
    fn insert(&mut self, number: u64) -> bool {
        let index = self.parts.partition_point(|&(_, high)| high < number);
        if self.parts.get(index).is_some_and(|&(low, _)| low <= number) {
            return false;
        }
        let touches_below = index > 0 && self.parts[index - 1].1 + 1 == number;
        let touches_above = self.parts.get(index).is_some_and(|&(low, _)| low == number + 1);
        match (touches_below, touches_above) {
            (true, true) => {
                self.parts[index - 1].1 = self.parts[index].1;
                self.parts.remove(index);
            }
            (true, false) => self.parts[index - 1].1 = number,
            (false, true) => self.parts[index].0 = number,
            (false, false) => self.parts.insert(index, (number, number)),
        }
        if self.parts.len() > PARTS_MAX {
            self.parts[0].1 = self.parts[1].1;
            self.parts.remove(1);
        }
        true
    }
}

#[cfg(test)]
mod tests;
