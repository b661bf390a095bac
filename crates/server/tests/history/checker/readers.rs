//! Checks that a client that syncs has every message, and that a connected client is neither left
//! without messages nor told to sync without end.

use std::collections::{BTreeSet, HashMap};

use super::view::View;
use super::{Findings, Rule};
use crate::history::{Event, Seen, SendOutcome};

/// How often per second a connection may be told to sync one chat.
const RESYNCS_MAX: usize = 10;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    resyncs(view, findings);
    let mut held = Held::default();
    for entry in view.history {
        held.add(view, &entry.event);
        match &entry.event {
            Event::Quiet { client } => {
                // A connection is not pushed its own messages; it gets their acknowledgements
                // instead.
                let owed = |seen: &Seen| seen.key.sender != *client;
                missing(view, &held, client, owed, Rule::SilentlyStale, findings);
            }
            Event::CaughtUp { client } => {
                missing(view, &held, client, |_| true, Rule::ReaderIncomplete, findings);
            }
            Event::FinalRead { reader, chat, messages } => {
                let has: BTreeSet<_> = messages.iter().map(|seen| seen.sequence).collect();
                let Some(log) = view.logs.get(chat.as_str()) else { continue };
                for sequence in log.keys().filter(|sequence| !has.contains(sequence)) {
                    let what = format!("{reader} did not read {sequence} of {chat}");
                    findings.add(Rule::ReaderIncomplete, what);
                }
            }
            _ => {}
        }
    }
}

/// One order to sync covers all that was stored before it.
fn resyncs(view: &View<'_>, findings: &mut Findings) {
    let mut told: HashMap<(u64, &str, u64), usize> = HashMap::new();
    for entry in view.history {
        let Event::ResyncRequired { connection, chats, .. } = &entry.event else { continue };
        let second = entry.at_us / 1_000_000;
        for chat in chats.iter().flatten() {
            let count = told.entry((*connection, chat, second)).or_default();
            *count += 1;
            if *count == RESYNCS_MAX + 1 {
                let what = format!("connection {connection}, {chat}, in second {second}");
                findings.add(Rule::ResyncStorm, what);
            }
        }
    }
}

fn missing(
    view: &View<'_>,
    held: &Held<'_>,
    client: &str,
    owed: impl Fn(&Seen) -> bool,
    rule: Rule,
    findings: &mut Findings,
) {
    for (chat, log) in &view.logs {
        for seen in log.values().filter(|seen| owed(seen)) {
            if !held.has(client, chat, seen.sequence) {
                let sequence = seen.sequence;
                findings.add(rule, format!("{client} does not hold {sequence} of {chat}"));
            }
        }
    }
}

/// The messages that each client has: by push, by page, and its own by their acknowledgements.
#[derive(Debug, Default)]
pub(super) struct Held<'a>(HashMap<(&'a str, &'a str), BTreeSet<u64>>);

impl<'a> Held<'a> {
    /// Adds an event; returns the number of new messages that it brought by a page.
    pub(super) fn add(&mut self, view: &View<'a>, event: &'a Event) -> usize {
        match event {
            Event::Pushed { connection, message } => {
                self.hold(view, *connection, &message.key.chat, message.sequence);
                0
            }
            Event::SyncAnswered { request, messages, .. } => {
                let Some(asked) = view.requests.get(request) else { return 0 };
                let new = messages.iter().filter(|seen| {
                    self.hold(view, asked.connection, &seen.key.chat, seen.sequence)
                });
                new.count()
            }
            Event::SendAnswered { request, answer: SendOutcome::Stored { chat, sequence, .. } } => {
                if let Some(asked) = view.requests.get(request) {
                    self.hold(view, asked.connection, chat, *sequence);
                }
                0
            }
            _ => 0,
        }
    }

    fn hold(&mut self, view: &View<'a>, connection: u64, chat: &'a str, sequence: u64) -> bool {
        let Some(client) = view.client_of(connection) else { return false };
        self.0.entry((client, chat)).or_default().insert(sequence)
    }

    fn has(&self, client: &str, chat: &str, sequence: u64) -> bool {
        self.0.get(&(client, chat)).is_some_and(|held| held.contains(&sequence))
    }
}
