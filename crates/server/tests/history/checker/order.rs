//! Numbers follow time, pushes ascend, and a read knows what was known before it.

use std::collections::{BTreeMap, HashMap};

use super::view::{Position, View};
use super::{Findings, Rule};
use crate::history::{Event, Seen, SendOutcome};

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    pushes(view, findings);
    let known = Known::of(view);
    numbers(view, &known, findings);
    pages(view, &known, findings);
}

fn pushes(view: &View<'_>, findings: &mut Findings) {
    let mut last: HashMap<(u64, &str), u64> = HashMap::new();
    for entry in view.history {
        let Event::Pushed { connection, message } = &entry.event else { continue };
        let sequence = message.sequence;
        let before = last.insert((*connection, &message.key.chat), sequence);
        if let Some(before) = before.filter(|before| *before >= sequence) {
            let chat = &message.key.chat;
            let what = format!("{chat} on connection {connection}: {before}, then {sequence}");
            findings.add(Rule::PushOutOfOrder, what);
        }
    }
}

/// Per chat, the highest sequence that any client knew of, by position.
struct Known<'a>(BTreeMap<&'a str, Vec<(Position, u64)>>);

impl<'a> Known<'a> {
    fn of(view: &View<'a>) -> Self {
        let mut known = Self(BTreeMap::new());
        for (position, entry) in view.history.iter().enumerate() {
            match &entry.event {
                Event::Pushed { message, .. } => {
                    known.add(&message.key.chat, position, message.sequence);
                }
                Event::SendAnswered {
                    answer: SendOutcome::Stored { chat, sequence, .. }, ..
                } => {
                    known.add(chat, position, *sequence);
                }
                Event::SyncAnswered { messages, .. } => {
                    if let Some(last) = messages.last() {
                        known.add(&last.key.chat, position, last.sequence);
                    }
                }
                _ => {}
            }
        }
        known
    }

    fn add(&mut self, chat: &'a str, position: Position, sequence: u64) {
        let chat = self.0.entry(chat).or_default();
        if chat.last().is_none_or(|(_, highest)| *highest < sequence) {
            chat.push((position, sequence));
        }
    }

    /// The highest sequence of a chat that was known before a position; zero if none was.
    fn before(&self, chat: &str, position: Position) -> u64 {
        let Some(chat) = self.0.get(chat) else { return 0 };
        let count = chat.partition_point(|(known, _)| *known < position);
        count.checked_sub(1).map_or(0, |last| chat[last].1)
    }
}

/// A message that was sent after another was known has the higher sequence.
fn numbers(view: &View<'_>, known: &Known<'_>, findings: &mut Findings) {
    for (key, attempts) in &view.attempts_of {
        let Some(seen) = view.stored.get(key) else { continue };
        let invoked = view.attempts[attempts[0]].invoked;
        let highest = known.before(&key.chat, invoked);
        if highest >= seen.sequence {
            let what = format!(
                "{key:?} is number {}, but {highest} was known before it was sent",
                seen.sequence
            );
            findings.add(Rule::RealtimeOrder, what);
        }
    }
}

fn pages(view: &View<'_>, known: &Known<'_>, findings: &mut Findings) {
    for entry in view.history {
        match &entry.event {
            Event::SyncAnswered { request, messages, has_more, head } => {
                let Some((chat, after, asked)) = view.sync_of(*request) else { continue };
                let highest = known.before(chat, asked.invoked);
                page(*request, chat, after, messages, findings);
                let reached = messages.last().map_or(after, |last| last.sequence);
                if *head < highest || (!has_more && reached < highest) {
                    let what = format!(
                        "the page {request} of {chat} ends at {reached} and calls {head} the \
                         head, but {highest} was known before it was asked for"
                    );
                    findings.add(Rule::StaleSync, what);
                }
            }
            Event::ManifestAnswered { request, heads } => {
                let Some(asked) = view.requests.get(request) else { continue };
                for chat in known.0.keys() {
                    let head = heads.iter().find(|(named, _)| named == chat);
                    let head = head.map_or(0, |(_, head)| *head);
                    let highest = known.before(chat, asked.invoked);
                    if head < highest {
                        let what = format!(
                            "the manifest {request} calls {head} the head of {chat}, but \
                             {highest} was known before"
                        );
                        findings.add(Rule::StaleSync, what);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A page begins right after the requested sequence and has no gap.
fn page(request: u64, chat: &str, after: u64, messages: &[Seen], findings: &mut Findings) {
    for (expected, seen) in (after + 1..).zip(messages) {
        if seen.sequence != expected || seen.key.chat != chat {
            let what = format!("the page {request} of {chat} after {after} has {seen:?}");
            return findings.add(Rule::PageHole, what);
        }
    }
}
