//! Checks that every stored message was sent, is stored once, and that no acknowledged message is
//! missing.

use std::collections::HashMap;

use super::view::{Attempt, View};
use super::{Findings, Rule};
use crate::history::{Event, Key, Seen, SendOutcome};

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    logs(view, findings);
    reads(view, findings);
    for (key, attempts) in &view.attempts_of {
        let attempts: Vec<_> = attempts.iter().map(|index| &view.attempts[*index]).collect();
        acknowledged(view, key, &attempts, findings);
        flags(key, &attempts, findings);
    }
}

/// Every stored message has a sender who sent just this, and no sequence is left out.
fn logs(view: &View<'_>, findings: &mut Findings) {
    for (chat, log) in &view.logs {
        let mut places: HashMap<&Key, u64> = HashMap::new();
        for (expected, (sequence, seen)) in (1..).zip(log) {
            if *sequence != expected {
                findings.add(Rule::Gap, format!("{chat}: {sequence} is in place {expected}"));
                break;
            }
            if let Some(first) = places.insert(&seen.key, *sequence) {
                let what = format!("{:?} is stored at {first} and at {sequence}", seen.key);
                findings.add(Rule::DuplicateMessage, what);
            }
        }
        for seen in log.values() {
            origin(view, seen, findings);
        }
    }
}

fn origin(view: &View<'_>, seen: &Seen, findings: &mut Findings) {
    let Some(attempts) = view.attempts_of.get(&seen.key) else {
        return findings.add(Rule::PhantomMessage, format!("{seen:?} was never sent"));
    };
    let mut same = attempts
        .iter()
        .map(|index| &view.attempts[*index])
        .filter(|attempt| attempt.hash == seen.hash)
        .peekable();
    if same.peek().is_none() {
        findings.add(Rule::BodyChanged, format!("{seen:?} was sent with other content"));
    } else if same.all(Attempt::is_refused) {
        findings.add(Rule::RejectedButStored, format!("every attempt of {seen:?} was refused"));
    }
}

/// No single read gives a sequence twice.
fn reads(view: &View<'_>, findings: &mut Findings) {
    for entry in view.history {
        let Event::FinalRead { reader, chat, messages } = &entry.event else { continue };
        let mut sequences: Vec<_> = messages.iter().map(|seen| seen.sequence).collect();
        sequences.sort_unstable();
        for pair in sequences.windows(2).filter(|pair| pair[0] == pair[1]) {
            let what = format!("{reader} read {} of {chat} twice", pair[0]);
            findings.add(Rule::DuplicateSequence, what);
        }
    }
}

/// Compares the acknowledgements of one message with each other and with the log.
fn acknowledged(view: &View<'_>, key: &Key, attempts: &[&Attempt<'_>], findings: &mut Findings) {
    let mut first: Option<(u64, &str)> = None;
    for attempt in attempts {
        let Some((_, SendOutcome::Stored { chat, id, sequence, message_id, .. })) = attempt.answer
        else {
            continue;
        };
        if (chat, id) != (&key.chat, &key.id) {
            let what = format!("{key:?} was answered for {chat} {id}");
            findings.add(Rule::WrongAnswer, what);
            continue;
        }
        let (first_sequence, first_id) = *first.get_or_insert((*sequence, message_id));
        if (first_sequence, first_id) != (*sequence, message_id.as_str()) {
            let what = format!("{key:?}: first {first_sequence} {first_id}, then {sequence}");
            findings.add(Rule::RetryGotOtherSequence, what);
        }
        let kept = view.logs.get(key.chat.as_str()).and_then(|log| log.get(sequence));
        match kept {
            Some(seen) if seen.key == *key => {
                if seen.hash != attempt.hash {
                    let what = format!("{key:?} was acknowledged with other content");
                    findings.add(Rule::BodyChanged, what);
                }
            }
            Some(_) | None => {
                let at_us = view.at_us(attempt.invoked);
                let what = format!("{key:?}, sent at {at_us} us, acknowledged as {sequence}");
                findings.add(Rule::AckedLost, what);
            }
        }
    }
}

/// One attempt stored the message; every other finds it.
fn flags(key: &Key, attempts: &[&Attempt<'_>], findings: &mut Findings) {
    let mut originals = 0;
    for attempt in attempts {
        let Some((answered, SendOutcome::Stored { duplicate, .. })) = attempt.answer else {
            continue;
        };
        let others = || attempts.iter().filter(|other| other.request != attempt.request);
        if *duplicate {
            let could_be_first =
                |other: &&&Attempt<'_>| other.invoked < answered && !other.is_refused();
            if others().find(could_be_first).is_none() {
                let what = format!("{key:?} is called a repeat, but nothing was before it");
                findings.add(Rule::DuplicateFlagWrong, what);
            }
        } else {
            originals += 1;
            let known = |other: &&Attempt<'_>| {
                other.is_stored() && other.answer.is_some_and(|(at, _)| at < attempt.invoked)
            };
            if others().any(known) {
                let what = format!("{key:?} was acknowledged before, yet is called new");
                findings.add(Rule::DuplicateFlagWrong, what);
            }
        }
    }
    if originals > 1 {
        let what = format!("{key:?} was called new {originals} times");
        findings.add(Rule::DuplicateFlagWrong, what);
    }
}
