//! How much happened in a run, and whether it was enough to prove anything.

use std::collections::BTreeMap;
use std::fmt;

use super::readers::Held;
use super::view::{Attempt, Down, Request, View};
use crate::history::{End, Event, Fault, SendOutcome};

/// How much happened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sends: usize,
    pub(crate) acks: usize,
    pub(crate) indeterminate: usize,
    pub(crate) refused: BTreeMap<String, usize>,
    pub(crate) retried: usize,
    pub(crate) connections: usize,
    pub(crate) pushes: usize,
    pub(crate) pages: usize,
    pub(crate) stored: usize,
    pub(crate) resyncs: usize,
    /// Connections that the server ended, by the reason it gave.
    pub(crate) closings: BTreeMap<String, usize>,
    /// The number of faults, by name.
    pub(crate) faults: BTreeMap<&'static str, usize>,
    pub(crate) longest_answer_us: u64,
}

impl Counts {
    pub(super) fn of(view: &View<'_>) -> Self {
        let mut counts = Self {
            sends: view.attempts.len(),
            retried: view.attempts.len() - view.attempts_of.len(),
            connections: view.connections.len(),
            stored: view.logs.values().map(BTreeMap::len).sum(),
            ..Self::default()
        };
        for attempt in &view.attempts {
            match attempt.answer {
                Some((_, SendOutcome::Stored { .. })) => counts.acks += 1,
                Some((_, SendOutcome::Refused { code })) => {
                    *counts.refused.entry(code.clone()).or_default() += 1;
                }
                Some((_, SendOutcome::Unknown { .. })) | None => counts.indeterminate += 1,
            }
        }
        for entry in view.history {
            match &entry.event {
                Event::Pushed { .. } => counts.pushes += 1,
                Event::SyncAnswered { .. } => counts.pages += 1,
                Event::ResyncRequired { .. } => counts.resyncs += 1,
                Event::Ended { end: End::Closed { reason }, .. } => {
                    *counts.closings.entry(reason.clone()).or_default() += 1;
                }
                Event::Fault { fault } => {
                    if let Some(name) = fault.name() {
                        *counts.faults.entry(name).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        let waits = view.requests.values().filter_map(|request| {
            request.answers.first().map(|answered| view.waited_us(request, *answered))
        });
        counts.longest_answer_us = waits.max().unwrap_or(0);
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "sends            {}", self.sends)?;
        writeln!(formatter, "acknowledged     {}", self.acks)?;
        writeln!(formatter, "indeterminate    {}", self.indeterminate)?;
        for (code, count) in &self.refused {
            writeln!(formatter, "refused          {count} {code}")?;
        }
        writeln!(formatter, "retried          {}", self.retried)?;
        writeln!(formatter, "stored           {}", self.stored)?;
        writeln!(formatter, "pushes, pages    {}, {}", self.pushes, self.pages)?;
        writeln!(formatter, "told to sync     {}", self.resyncs)?;
        writeln!(formatter, "connections      {}", self.connections)?;
        for (reason, count) in &self.closings {
            writeln!(formatter, "closed           {count} {reason}")?;
        }
        for (name, count) in &self.faults {
            writeln!(formatter, "fault            {count} {name}")?;
        }
        writeln!(formatter, "longest answer   {} ms", self.longest_answer_us / 1000)
    }
}

/// The situations that a run must have reached at least once. A run that reached too few is void:
/// it may have passed only because nothing happened.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// Messages whose sender could not know, and which were stored.
    pub(crate) indeterminate_stored: usize,
    /// Sends with an unknown outcome that were not stored.
    pub(crate) indeterminate_absent: usize,
    /// Retries of a message whose sender could not know, which found it stored.
    pub(crate) retry_found_stored: usize,
    /// Repeats that were answered as such.
    pub(crate) repeats_answered: usize,
    /// Messages that a client had missed and a page brought.
    pub(crate) healed_by_sync: usize,
    /// Kills that found at least one send without its answer.
    pub(crate) kills_in_flight: usize,
    /// Sends that were refused for certain.
    pub(crate) refused: usize,
    /// Sends that were rejected because the disk was full.
    pub(crate) refused_while_full: usize,
    /// Pages that were read from a full disk.
    pub(crate) read_while_full: usize,
    /// Acknowledgements after the last fault.
    pub(crate) acked_afterwards: usize,
    /// Sends that were made and acknowledged while Redis was away.
    pub(crate) acked_without_redis: usize,
    /// Orders to sync.
    pub(crate) told_to_sync: usize,
    /// Times that a node left the store alone for a while.
    pub(crate) breaker_openings: usize,
    /// Neighbours in a chat that were numbered by two nodes.
    pub(crate) numbered_by_two: usize,
}

impl Reached {
    pub(super) fn of(view: &View<'_>) -> Self {
        let mut reached = Self::default();
        for (key, attempts) in &view.attempts_of {
            let attempts: Vec<_> = attempts.iter().map(|index| &view.attempts[*index]).collect();
            reached.message(view.stored.contains_key(key), &attempts);
        }
        let mut held = Held::default();
        for entry in view.history {
            reached.healed_by_sync += held.add(view, &entry.event);
        }
        let in_flight = |down: &&Down| {
            view.attempts.iter().any(|attempt| {
                let open = attempt.answer.is_none_or(|(answered, _)| answered > down.killed);
                let connection = view.connections.get(&attempt.connection);
                let ended = connection.and_then(|connection| connection.ended);
                let connected = ended.is_none_or(|(ended, _)| ended > down.killed);
                let concerned = connection.is_some_and(|it| it.node == down.node);
                attempt.invoked < down.killed && open && connected && concerned
            })
        };
        reached.kills_in_flight = view.downs.iter().filter(in_flight).count();
        reached.around_faults(view);
        reached.among_nodes(view);
        reached
    }

    /// Counts the replies while the disk was full, and after the last fault.
    fn around_faults(&mut self, view: &View<'_>) {
        let mut is_full = false;
        for entry in view.history {
            match &entry.event {
                Event::Fault { fault } => {
                    is_full = *fault == Fault::DiskFilled;
                    self.acked_afterwards = 0;
                }
                Event::SendAnswered { answer: SendOutcome::Stored { .. }, .. } => {
                    self.acked_afterwards += 1;
                }
                Event::SendAnswered {
                    answer: SendOutcome::Refused { code } | SendOutcome::Unknown { code },
                    ..
                } if is_full && code == "SERVICE_UNAVAILABLE" => self.refused_while_full += 1,
                Event::SyncAnswered { .. } if is_full => self.read_while_full += 1,
                _ => {}
            }
        }
    }

    /// Counts the situations that only several nodes with shared engines can reach.
    fn among_nodes(&mut self, view: &View<'_>) {
        let mut redis_went_at = None;
        for (position, entry) in view.history.iter().enumerate() {
            match &entry.event {
                Event::Fault { fault: Fault::RedisKilled | Fault::RedisPaused } => {
                    redis_went_at = Some(position);
                }
                Event::Fault { fault: Fault::RedisBack } => redis_went_at = None,
                Event::SendAnswered { request, answer: SendOutcome::Stored { .. } } => {
                    let asked = view.requests.get(request);
                    let meanwhile = |(asked, went_at): (&Request, usize)| asked.invoked > went_at;
                    let is_meanwhile = asked.zip(redis_went_at).is_some_and(meanwhile);
                    self.acked_without_redis += usize::from(is_meanwhile);
                }
                Event::ResyncRequired { .. } => self.told_to_sync += 1,
                Event::BreakersOpened { count } => self.breaker_openings += count,
                _ => {}
            }
        }
        let mut numbered: BTreeMap<(&str, u64), usize> = BTreeMap::new();
        for attempt in &view.attempts {
            if let Some((_, SendOutcome::Stored { chat, sequence, duplicate: false, .. })) =
                attempt.answer
                && let Some(connection) = view.connections.get(&attempt.connection)
            {
                numbered.insert((chat, *sequence), connection.node);
            }
        }
        let by_another = |((chat, sequence), node): &(&(&str, u64), &usize)| {
            let before = numbered.get(&(*chat, sequence - 1));
            before.is_some_and(|before| before != *node)
        };
        self.numbered_by_two = numbered.iter().filter(by_another).count();
    }

    fn message(&mut self, stored: bool, attempts: &[&Attempt<'_>]) {
        self.refused += attempts.iter().filter(|attempt| attempt.is_refused()).count();
        let repeats = attempts.iter().filter(|attempt| flag(attempt) == Some(true)).count();
        self.repeats_answered += repeats;
        let Some(lost) = attempts.iter().find(|attempt| attempt.is_indeterminate()) else { return };
        let new_later = attempts
            .iter()
            .any(|attempt| attempt.invoked > lost.invoked && flag(attempt) == Some(false));
        if new_later || !stored {
            self.indeterminate_absent += 1;
        } else if attempts.iter().all(|attempt| flag(attempt) != Some(false)) {
            self.indeterminate_stored += 1;
            self.retry_found_stored += usize::from(repeats > 0);
        }
    }

    /// The wanted situations that were not reached.
    pub(crate) fn lacks(&self, wanted: &[Wanted]) -> Vec<&'static str> {
        let unmet = wanted.iter().filter(|wanted| (wanted.count)(self) == 0);
        unmet.map(|wanted| wanted.name).collect()
    }
}

/// The flag `duplicate` in the acknowledgement of an attempt.
fn flag(attempt: &Attempt<'_>) -> Option<bool> {
    match attempt.answer {
        Some((_, SendOutcome::Stored { duplicate, .. })) => Some(*duplicate),
        Some(_) | None => None,
    }
}

/// Something that a run must have met.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    name: &'static str,
    count: fn(&Reached) -> usize,
}

impl Wanted {
    pub(crate) const INDETERMINATE_STORED: Self =
        Self::new("an indeterminate send that was stored", |it| it.indeterminate_stored);
    pub(crate) const INDETERMINATE_ABSENT: Self =
        Self::new("an indeterminate send that was not stored", |it| it.indeterminate_absent);
    pub(crate) const RETRY_FOUND_STORED: Self =
        Self::new("a retry that found its message stored", |it| it.retry_found_stored);
    pub(crate) const REPEATS_ANSWERED: Self =
        Self::new("a repeat that was answered as one", |it| it.repeats_answered);
    pub(crate) const HEALED_BY_SYNC: Self =
        Self::new("a gap that a sync healed", |it| it.healed_by_sync);
    pub(crate) const KILLS_IN_FLIGHT: Self =
        Self::new("a kill while a send was in flight", |it| it.kills_in_flight);
    pub(crate) const REFUSED: Self =
        Self::new("a send that was refused for certain", |it| it.refused);

    pub(crate) const REFUSED_WHILE_FULL: Self =
        Self::new("a send that a full disk refused", |it| it.refused_while_full);
    pub(crate) const READ_WHILE_FULL: Self =
        Self::new("a page that was read from a full disk", |it| it.read_while_full);
    pub(crate) const ACKED_AFTERWARDS: Self =
        Self::new("an acknowledgement after the last fault", |it| it.acked_afterwards);

    pub(crate) const ACKED_WITHOUT_REDIS: Self =
        Self::new("an acknowledgement while Redis was away", |it| it.acked_without_redis);
    pub(crate) const TOLD_TO_SYNC: Self = Self::new("an order to sync", |it| it.told_to_sync);
    pub(crate) const BREAKER_OPENINGS: Self =
        Self::new("a breaker that opened", |it| it.breaker_openings);
    pub(crate) const NUMBERED_BY_TWO: Self =
        Self::new("neighbours in a chat that two nodes numbered", |it| it.numbered_by_two);

    /// The situations that a cluster whose nodes and engines fail repeatedly must reach.
    pub(crate) const CLUSTER: [Self; 10] = [
        Self::ACKED_AFTERWARDS,
        Self::INDETERMINATE_STORED,
        Self::RETRY_FOUND_STORED,
        Self::REPEATS_ANSWERED,
        Self::HEALED_BY_SYNC,
        Self::KILLS_IN_FLIGHT,
        Self::ACKED_WITHOUT_REDIS,
        Self::TOLD_TO_SYNC,
        Self::BREAKER_OPENINGS,
        Self::NUMBERED_BY_TWO,
    ];

    /// The situations that a server that is killed repeatedly must reach.
    pub(crate) const KILLS: [Self; 8] = [
        Self::ACKED_AFTERWARDS,
        Self::INDETERMINATE_STORED,
        Self::INDETERMINATE_ABSENT,
        Self::RETRY_FOUND_STORED,
        Self::REPEATS_ANSWERED,
        Self::HEALED_BY_SYNC,
        Self::KILLS_IN_FLIGHT,
        Self::REFUSED,
    ];

    const fn new(name: &'static str, count: fn(&Reached) -> usize) -> Self {
        Self { name, count }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = [
            Wanted::REFUSED_WHILE_FULL,
            Wanted::READ_WHILE_FULL,
            Wanted::ACKED_WITHOUT_REDIS,
            Wanted::TOLD_TO_SYNC,
            Wanted::BREAKER_OPENINGS,
            Wanted::NUMBERED_BY_TWO,
        ];
        for wanted in Wanted::KILLS.into_iter().chain(others) {
            writeln!(formatter, "reached          {} x {}", (wanted.count)(self), wanted.name)?;
        }
        Ok(())
    }
}
