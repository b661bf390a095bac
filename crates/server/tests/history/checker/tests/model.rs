//! Valid histories, made by nodes that are nothing but a list per chat.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::history::{End, Entry, Event, Fault, Key, Seen, SendOutcome};

const CLIENTS: usize = 4;
const CHATS: usize = 2;
pub(super) const NODES: usize = 2;

/// A message in flight: known to its sender, perhaps to the server.
#[derive(Debug, Clone)]
struct Flight {
    request: u64,
    client: usize,
    key: Key,
    hash: u64,
}

/// The model and what it has written down.
pub(super) struct Model {
    random: StdRng,
    entries: Vec<Entry>,
    now_us: u64,
    names: u64,
    logs: BTreeMap<String, Vec<Seen>>,
    connections: Vec<u64>,
    /// The messages that each client has, so that syncs begin at the right sequence.
    held: Vec<BTreeMap<String, BTreeSet<u64>>>,
    flights: Vec<Flight>,
    /// Sends with an unknown outcome, which are retried.
    unresolved: Vec<Flight>,
}

fn client(index: usize) -> String {
    format!("client_{index}")
}

fn id_of(connection: u64) -> String {
    format!("conn_{connection}")
}

/// A valid history with this many steps.
pub(super) fn valid_history(seed: u64, steps: usize) -> Vec<Entry> {
    let mut model = Model {
        random: StdRng::seed_from_u64(seed),
        entries: Vec::new(),
        now_us: 0,
        names: 0,
        logs: BTreeMap::new(),
        connections: vec![0; CLIENTS],
        held: vec![BTreeMap::new(); CLIENTS],
        flights: Vec::new(),
        unresolved: Vec::new(),
    };
    (0..CLIENTS).for_each(|index| model.connect(index));
    for _ in 0..steps {
        model.step();
    }
    model.end();
    model.entries
}

impl Model {
    fn record(&mut self, event: Event) {
        self.now_us += self.random.random_range(1..2000);
        self.entries.push(Entry { at_us: self.now_us, event });
    }

    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..40 => self.send(),
            40..80 => self.serve(),
            80..84 => self.refuse(),
            84..90 => self.retry(),
            90..94 => self.repeat(),
            94..96 => self.reconnect(),
            96..98 => self.lose_answer(),
            _ => self.kill(),
        }
    }

    fn invoke(&mut self, client: usize, key: Key, hash: u64) {
        let request = self.name();
        let connection = self.connections[client];
        self.record(Event::SendInvoked { request, connection, key: key.clone(), hash });
        self.flights.push(Flight { request, client, key, hash });
    }

    fn send(&mut self) {
        let sender = self.random.random_range(0..CLIENTS);
        let chat = format!("chat_{}", self.random.random_range(0..CHATS));
        let id = format!("m{}", self.name());
        let key = Key { chat, sender: client(sender), id };
        let hash = self.random.random();
        self.invoke(sender, key, hash);
    }

    fn take_flight(&mut self) -> Option<Flight> {
        let count = self.flights.len();
        (count > 0).then(|| self.flights.swap_remove(self.random.random_range(0..count)))
    }

    /// Stores a message if it is new; returns the stored message and whether it existed before.
    fn store(&mut self, flight: &Flight) -> (Seen, bool) {
        let message_id = format!("msg_{}", self.name());
        let log = self.logs.entry(flight.key.chat.clone()).or_default();
        if let Some(seen) = log.iter().find(|seen| seen.key == flight.key) {
            return (seen.clone(), true);
        }
        let sequence = log.len() as u64 + 1;
        let key = flight.key.clone();
        let seen = Seen { key, sequence, message_id, hash: flight.hash };
        log.push(seen.clone());
        (seen, false)
    }

    fn push(&mut self, seen: &Seen, sender: usize) {
        for index in (0..CLIENTS).filter(|index| *index != sender) {
            let connection = self.connections[index];
            self.record(Event::Pushed { connection, message: seen.clone() });
            self.hold(index, seen);
        }
    }

    fn hold(&mut self, index: usize, seen: &Seen) {
        self.held[index].entry(seen.key.chat.clone()).or_default().insert(seen.sequence);
    }

    fn serve(&mut self) {
        let Some(flight) = self.take_flight() else { return };
        let (seen, duplicate) = self.store(&flight);
        self.hold(flight.client, &seen);
        let Seen { key, sequence, message_id, .. } = seen.clone();
        let answer =
            SendOutcome::Stored { chat: key.chat, id: key.id, sequence, message_id, duplicate };
        self.record(Event::SendAnswered { request: flight.request, answer });
        if !duplicate {
            self.push(&seen, flight.client);
        }
    }

    /// Stores, or not, and does not know.
    fn lose_answer(&mut self) {
        let Some(flight) = self.take_flight() else { return };
        if self.random.random() {
            let (seen, duplicate) = self.store(&flight);
            if !duplicate {
                self.push(&seen, flight.client);
            }
        }
        let answer = SendOutcome::Unknown { code: "SERVICE_UNAVAILABLE".to_owned() };
        self.record(Event::SendAnswered { request: flight.request, answer });
        self.unresolved.push(flight);
    }

    fn refuse(&mut self) {
        let Some(flight) = self.take_flight() else { return };
        let answer = SendOutcome::Refused { code: "RATE_LIMITED".to_owned() };
        self.record(Event::SendAnswered { request: flight.request, answer });
    }

    fn retry(&mut self) {
        if let Some(flight) = self.unresolved.pop() {
            self.invoke(flight.client, flight.key, flight.hash);
        }
    }

    /// Sends once more what is stored already.
    fn repeat(&mut self) {
        let stored: Vec<_> = self.logs.values().flatten().cloned().collect();
        if stored.is_empty() {
            return;
        }
        let seen = &stored[self.random.random_range(0..stored.len())];
        let sender = (0..CLIENTS).find(|index| client(*index) == seen.key.sender).unwrap();
        self.invoke(sender, seen.key.clone(), seen.hash);
    }

    fn connect(&mut self, index: usize) {
        self.connections[index] = self.name();
        let connection = self.connections[index];
        let (client, node, id) = (client(index), index % NODES, id_of(connection));
        self.record(Event::Connected { connection, client, node, id });
        self.manifest(index);
        self.catch_up(index);
    }

    fn manifest(&mut self, index: usize) {
        let (request, connection) = (self.name(), self.connections[index]);
        self.record(Event::ManifestInvoked { request, connection });
        let heads = self.logs.iter().map(|(chat, log)| (chat.clone(), log.len() as u64)).collect();
        self.record(Event::ManifestAnswered { request, heads });
    }

    fn catch_up(&mut self, index: usize) {
        for (chat, log) in self.logs.clone() {
            let held = self.held[index].entry(chat.clone()).or_default();
            let mut after = (0..).find(|cursor| !held.contains(&(cursor + 1))).unwrap();
            loop {
                let (request, connection) = (self.name(), self.connections[index]);
                let asked = Event::SyncInvoked { request, connection, chat: chat.clone(), after };
                self.record(asked);
                let messages: Vec<_> = log.iter().skip(after as usize).take(5).cloned().collect();
                messages.iter().for_each(|seen| self.hold(index, seen));
                after = messages.last().map_or(after, |last| last.sequence);
                let head = log.len() as u64;
                let has_more = after < head;
                self.record(Event::SyncAnswered { request, messages, has_more, head });
                if !has_more {
                    break;
                }
            }
        }
    }

    /// A client drops its connection; each of its sends in flight is stored or not.
    fn reconnect(&mut self) {
        let index = self.random.random_range(0..CLIENTS);
        let connection = self.connections[index];
        self.record(Event::Ended { connection, end: End::Dropped });
        self.abandon(|flight| flight.client == index);
        self.connect(index);
    }

    /// Kills a node. The clients of the other nodes sync.
    fn kill(&mut self) {
        let node = self.random.random_range(0..NODES);
        self.record(Event::Fault { fault: Fault::Killed { node } });
        for index in (0..CLIENTS).filter(|index| index % NODES == node) {
            let connection = self.connections[index];
            self.record(Event::Ended { connection, end: End::Lost });
        }
        self.abandon(|flight| flight.client % NODES == node);
        self.record(Event::Fault { fault: Fault::Started { node } });
        for index in 0..CLIENTS {
            if index % NODES == node {
                self.connect(index);
            } else {
                self.catch_up(index);
            }
        }
    }

    /// Ends the sends in flight. Each may be stored, and no client receives it before a sync.
    fn abandon(&mut self, of: impl Fn(&Flight) -> bool) {
        let (gone, stay) = std::mem::take(&mut self.flights).into_iter().partition(of);
        self.flights = stay;
        let gone: Vec<Flight> = gone;
        for flight in gone {
            if self.random.random() {
                self.store_unseen(&flight);
            }
            if self.random.random() {
                self.unresolved.push(flight);
            }
        }
    }

    /// Stores without an answer; those who are connected are pushed it.
    fn store_unseen(&mut self, flight: &Flight) {
        let (seen, duplicate) = self.store(flight);
        let live = self.entries.iter().rev().find_map(|entry| match &entry.event {
            Event::Ended { end, .. } => Some(*end == End::Dropped),
            _ => None,
        });
        if !duplicate && live == Some(true) {
            self.push(&seen, flight.client);
        }
    }

    fn end(&mut self) {
        (0..3).for_each(|_| self.send());
        while !self.flights.is_empty() {
            self.serve();
        }
        for (node, index) in (0..NODES).flat_map(|node| (0..CLIENTS).map(move |it| (node, it))) {
            let ids = vec![id_of(self.connections[index])];
            self.record(Event::Routed { node, client: client(index), ids });
        }
        for index in 0..CLIENTS {
            self.record(Event::Quiet { client: client(index) });
            self.catch_up(index);
            self.record(Event::CaughtUp { client: client(index) });
        }
        let readers = (0..CLIENTS).map(client).chain(["rest".to_owned()]);
        for reader in readers {
            for (chat, messages) in self.logs.clone() {
                self.record(Event::FinalRead { reader: reader.clone(), chat, messages });
            }
        }
    }
}
