//! A history sorted by what the checks ask for.

use std::collections::{BTreeMap, HashMap};

use crate::history::{End, Entry, Event, Fault, Key, Seen, SendOutcome};

/// A place in the history: positions have the order of time, and no two are equal.
pub(super) type Position = usize;

/// One attempt to send a message.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) request: u64,
    pub(super) connection: u64,
    pub(super) key: &'a Key,
    pub(super) hash: u64,
    pub(super) invoked: Position,
    pub(super) answer: Option<(Position, &'a SendOutcome)>,
}

impl Attempt<'_> {
    /// Whether this attempt certainly stored nothing.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.answer, Some((_, SendOutcome::Refused { .. })))
    }

    /// Whether this attempt was acknowledged.
    pub(super) fn is_stored(&self) -> bool {
        matches!(self.answer, Some((_, SendOutcome::Stored { .. })))
    }

    /// Whether the outcome of this attempt is unknown.
    pub(super) fn is_indeterminate(&self) -> bool {
        !self.is_refused() && !self.is_stored()
    }
}

/// One request of any kind, and when it was answered.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) connection: u64,
    pub(super) invoked: Position,
    pub(super) answers: Vec<Position>,
}

/// One connection's life.
#[derive(Debug)]
pub(super) struct Connection<'a> {
    pub(super) client: &'a str,
    pub(super) node: usize,
    /// The connection id that the node assigned.
    pub(super) id: &'a str,
    pub(super) began: Position,
    pub(super) ended: Option<(Position, &'a End)>,
}

/// From a kill of a node to its next start.
#[derive(Debug)]
pub(super) struct Down {
    pub(super) node: usize,
    pub(super) killed: Position,
    pub(super) started: Position,
}

/// A pause of a node's process, in microseconds.
#[derive(Debug)]
struct Pause {
    node: usize,
    begin_us: u64,
    end_us: u64,
}

/// A history and its indexes.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) history: &'a [Entry],
    /// Per chat, what any final read showed, by sequence: the log.
    pub(super) logs: BTreeMap<&'a str, BTreeMap<u64, &'a Seen>>,
    /// The first sequence at which the log holds a message.
    pub(super) stored: HashMap<&'a Key, &'a Seen>,
    pub(super) attempts: Vec<Attempt<'a>>,
    /// The attempts of each message, in their order.
    pub(super) attempts_of: BTreeMap<&'a Key, Vec<usize>>,
    /// The attempt of each send request.
    pub(super) attempt_of: HashMap<u64, usize>,
    pub(super) requests: BTreeMap<u64, Request>,
    pub(super) connections: BTreeMap<u64, Connection<'a>>,
    pub(super) downs: Vec<Down>,
    pauses: Vec<Pause>,
}

impl<'a> View<'a> {
    pub(super) fn of(history: &'a [Entry]) -> Self {
        let mut view = Self {
            history,
            logs: BTreeMap::new(),
            stored: HashMap::new(),
            attempts: Vec::new(),
            attempts_of: BTreeMap::new(),
            attempt_of: HashMap::new(),
            requests: BTreeMap::new(),
            connections: BTreeMap::new(),
            downs: Vec::new(),
            pauses: Vec::new(),
        };
        for (position, entry) in history.iter().enumerate() {
            view.add(position, entry);
        }
        for log in view.logs.values() {
            for seen in log.values() {
                view.stored.entry(&seen.key).or_insert(seen);
            }
        }
        view
    }

    fn add(&mut self, position: Position, entry: &'a Entry) {
        match &entry.event {
            Event::Connected { connection, client, node, id } => {
                let node = *node;
                let begun = Connection { client, node, id, began: position, ended: None };
                self.connections.insert(*connection, begun);
            }
            Event::Ended { connection, end } => {
                if let Some(connection) = self.connections.get_mut(connection) {
                    connection.ended = Some((position, end));
                }
            }
            Event::SendInvoked { request, connection, key, hash } => {
                self.ask(*request, *connection, position);
                let (request, connection, hash) = (*request, *connection, *hash);
                let index = self.attempts.len();
                let invoked = position;
                let attempt = Attempt { request, connection, key, hash, invoked, answer: None };
                self.attempts.push(attempt);
                self.attempts_of.entry(key).or_default().push(index);
                self.attempt_of.insert(request, index);
            }
            Event::SendAnswered { request, answer } => {
                self.answer(*request, position);
                if let Some(index) = self.attempt_of.get(request) {
                    self.attempts[*index].answer.get_or_insert((position, answer));
                }
            }
            Event::SyncInvoked { request, connection, .. }
            | Event::ManifestInvoked { request, connection } => {
                self.ask(*request, *connection, position);
            }
            Event::SyncAnswered { request, .. }
            | Event::ManifestAnswered { request, .. }
            | Event::ReadRefused { request, .. } => self.answer(*request, position),
            Event::FinalRead { chat, messages, .. } => {
                let log = self.logs.entry(chat).or_default();
                for seen in messages {
                    log.entry(seen.sequence).or_insert(seen);
                }
            }
            Event::Fault { fault } => self.fault(*fault, position, entry.at_us),
            Event::Abandoned { .. }
            | Event::Stray { .. }
            | Event::Pushed { .. }
            | Event::ResyncRequired { .. }
            | Event::Quiet { .. }
            | Event::CaughtUp { .. }
            | Event::Routed { .. }
            | Event::BreakersOpened { .. } => {}
        }
    }

    fn ask(&mut self, request: u64, connection: u64, invoked: Position) {
        self.requests.insert(request, Request { connection, invoked, answers: Vec::new() });
    }

    fn answer(&mut self, request: u64, position: Position) {
        if let Some(request) = self.requests.get_mut(&request) {
            request.answers.push(position);
        }
    }

    fn fault(&mut self, fault: Fault, position: Position, at_us: u64) {
        match fault {
            Fault::Killed { node } => self.down(node, position),
            Fault::PowerCut => self.down(0, position),
            Fault::Started { node } => {
                let mut downs = self.downs.iter_mut().rev();
                if let Some(down) = downs.find(|down| down.node == node) {
                    down.started = down.started.min(position);
                }
            }
            Fault::Paused { node } => {
                self.pauses.push(Pause { node, begin_us: at_us, end_us: u64::MAX });
            }
            Fault::Resumed { node } => {
                let mut pauses = self.pauses.iter_mut().rev();
                if let Some(pause) = pauses.find(|pause| pause.node == node) {
                    pause.end_us = at_us;
                }
            }
            // Whatever happens to an engine, nodes live and answer in time.
            Fault::Drained { .. }
            | Fault::DiskFilled
            | Fault::DiskFreed
            | Fault::StoreKilled
            | Fault::StorePaused
            | Fault::StoreBack
            | Fault::RedisKilled
            | Fault::RedisPaused
            | Fault::RedisWiped
            | Fault::RedisBack => {}
        }
    }

    fn down(&mut self, node: usize, killed: Position) {
        self.downs.push(Down { node, killed, started: Position::MAX });
    }

    /// The time of a position.
    pub(super) fn at_us(&self, position: Position) -> u64 {
        self.history[position].at_us
    }

    /// How long a request waited until then, without the pauses of the node that was asked.
    pub(super) fn waited_us(&self, request: &Request, until: Position) -> u64 {
        let node = self.connections.get(&request.connection).map(|connection| connection.node);
        let (from, to) = (self.at_us(request.invoked), self.at_us(until));
        let paused: u64 = self
            .pauses
            .iter()
            .filter(|pause| Some(pause.node) == node)
            .map(|pause| to.min(pause.end_us).saturating_sub(from.max(pause.begin_us)))
            .sum();
        to.saturating_sub(from).saturating_sub(paused)
    }

    /// Whose connection it is.
    pub(super) fn client_of(&self, connection: u64) -> Option<&'a str> {
        self.connections.get(&connection).map(|connection| connection.client)
    }

    /// The chat and the beginning that a sync asked for.
    pub(super) fn sync_of(&self, request: u64) -> Option<(&'a str, u64, &Request)> {
        let asked = self.requests.get(&request)?;
        match &self.history[asked.invoked].event {
            Event::SyncInvoked { chat, after, .. } => Some((chat, *after, asked)),
            _ => None,
        }
    }
}
