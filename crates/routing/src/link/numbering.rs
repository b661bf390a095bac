//! Numbers on parcels, by which the receiver detects losses and repeats.
//!
//! Each sender counts the envelopes to each receiver on each transport, so the receiver expects
//! exactly the next number. Probes and statuses repeat the last one: they show that an envelope is
//! missing, and losing one of them does not matter. A number consists of a run and a count within
//! it: a sender that had removed the receiver begins a new run, whose numbers are all higher, so
//! that they can neither look like repeats nor hide a loss.

use std::time::Duration;

use heartline_protocol::NodeId;
use heartline_runtime::Map;
use tokio::time::Instant;

use super::parcel::Parcel;

/// Bits of a number that count within a run: at a million parcels a second, twelve days.
const COUNT_BITS: u32 = 40;

/// Ranges of received numbers that are kept per sender. Beyond, the oldest gap counts as closed: it
/// was reported long ago.
const PARTS_MAX: usize = 64;

/// How long a parcel may take through the broker after a status on the direct transport has named
/// its number. Afterwards it counts as lost.
pub const PROMISE_TIME: Duration = Duration::from_millis(1500);

/// Counts the parcels that leave on one transport.
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

    /// The number of the next envelope for this receiver. An unused number is a gap.
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

    /// The number of the last envelope for this receiver, 0 if there was none.
    pub fn last(&self, receiver: &NodeId) -> u64 {
        self.last.get(receiver).copied().unwrap_or(0)
    }

    /// Removes a receiver that is gone. If it returns, it gets a new run.
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

/// The meaning of a parcel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The parcel is new, and none before it is missing.
    Next,
    /// The parcel is new, and one before it did not arrive.
    AfterGap,
    /// The parcel was received before, on this transport or another.
    Repeat,
}

/// The numbers that were received from one sender on one transport.
#[derive(Debug)]
pub struct Received {
    /// The highest number that arrived on this transport, or was given up.
    highest: u64,
    /// The received numbers, on this transport or again on another, as closed ranges in ascending
    /// order.
    parts: Vec<(u64, u64)>,
    /// The last number that the sender's status names, and when it first did.
    promised: Option<(u64, Instant)>,
    /// Whether the next number may be any, because the loss before it was already reported.
    ignores_gap: bool,
    received_at: Instant,
}

impl Received {
    /// No number of the sender was received yet.
    pub fn new(now: Instant) -> Self {
        let (parts, ignores_gap) = (Vec::new(), false);
        Self { highest: 0, parts, promised: None, ignores_gap, received_at: now }
    }

    /// Records a parcel that arrived with this number on this transport.
    pub fn arrive(&mut self, number: u64, now: Instant) -> Arrival {
        self.received_at = now;
        if !self.insert(number) {
            return Arrival::Repeat;
        }
        if number <= self.highest {
            return Arrival::Next;
        }
        let is_next = self.ignores_gap || self.has_all_up_to(number - 1);
        (self.highest, self.ignores_gap) = (number, false);
        if is_next { Arrival::Next } else { Arrival::AfterGap }
    }

    /// Records that a parcel without an envelope named this number as the last one, 0 if there was
    /// none. Returns whether an earlier one did not arrive.
    pub fn is_short_of(&mut self, number: u64, now: Instant) -> bool {
        self.received_at = now;
        if number <= self.highest {
            return false;
        }
        let is_short = !self.ignores_gap && !self.has_all_up_to(number);
        (self.highest, self.ignores_gap) = (number, false);
        is_short
    }

    /// Records a parcel that had this number on this transport and arrived on another. Returns
    /// whether it is new.
    pub fn arrive_otherwise(&mut self, number: u64) -> bool {
        self.insert(number)
    }

    /// Records that the transport was interrupted and the loss reported: numbers that are missing
    /// before the next parcel are no new gap.
    pub fn ignore_next_gap(&mut self) {
        self.ignores_gap = true;
        self.promised = None;
    }

    /// Records that the sender's status names this as its last number on this transport.
    pub fn promise(&mut self, number: u64, now: Instant) {
        self.received_at = now;
        if number > self.highest && self.promised.is_none() {
            self.promised = Some((number, now));
        }
    }

    /// Whether a number that the sender's status named did not arrive in time. The number is
    /// then given up, so that it is reported once.
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
        (self.highest, self.ignores_gap) = (number, false);
        is_lost
    }

    /// When anything last arrived.
    pub fn received_at(&self) -> Instant {
        self.received_at
    }

    /// Whether every number after the highest up to this one was received, on any transport.
    fn has_all_up_to(&self, number: u64) -> bool {
        // Counting begins anew for every receiver, so there is nothing before the first number of a
        // run.
        let first = match self.highest {
            0 => first_before(number),
            highest => highest + 1,
        };
        number < first || self.parts.iter().any(|&(low, high)| low <= first && number <= high)
    }

    /// Records a number; false if it was recorded before.
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
