//! An oracle that cannot find a planted fault is no oracle: here are the faults.

use std::collections::HashMap;

use super::reached::Wanted;
use super::{Report, Rule, check};
use crate::history::{Entry, Event, Key, Seen, SendOutcome};

mod model;
mod messages;
mod delivery;

use model::valid_history;

const SEEDS: std::ops::Range<u64> = 0..20;
const STEPS: usize = 600;

#[test]
fn valid_histories_pass_and_reach_everything() {
    for seed in SEEDS {
        let report = check(&valid_history(seed, STEPS));
        assert!(report.violations.is_empty(), "seed {seed}:\n{report}");
        assert_eq!(report.reached.lacks(&Wanted::KILLS), Vec::<&str>::new(), "seed {seed}");
    }
}

#[test]
fn a_run_in_which_nothing_went_wrong_says_what_it_did_not_reach() {
    let lacks = check(&[]).reached.lacks(&Wanted::KILLS);
    assert_eq!(lacks.len(), Wanted::KILLS.len());
    assert!(lacks.contains(&"a kill while a send was in flight"));
}

#[test]
fn a_long_valid_history_passes() {
    let history = valid_history(1, 5_000);
    assert!(check(&history).violations.is_empty());
}

/// Plants a fault in valid histories, as far as each has a place for it, and checks that it is
/// found under its name every time, and in enough of them.
fn caught(rule: Rule, plant: impl Fn(&mut Vec<Entry>) -> Option<()>) {
    let mut planted = 0;
    for seed in SEEDS {
        let mut history = valid_history(seed, STEPS);
        if plant(&mut history).is_none() {
            continue;
        }
        planted += 1;
        let report: Report = check(&history);
        assert!(report.has(rule), "seed {seed}: {} was not found\n{report}", rule.name());
    }
    assert!(planted >= 10, "{} was planted only {planted} times", rule.name());
}

/// Changes every message that anybody was shown.
fn each_seen(history: &mut [Entry], mut change: impl FnMut(&mut Seen)) {
    for entry in history {
        match &mut entry.event {
            Event::Pushed { message, .. } => change(message),
            Event::SyncAnswered { messages, .. } | Event::FinalRead { messages, .. } => {
                messages.iter_mut().for_each(&mut change);
            }
            _ => {}
        }
    }
}

/// Changes every final read of a chat.
fn each_read(history: &mut [Entry], of: &str, mut change: impl FnMut(&mut Vec<Seen>)) {
    for entry in history {
        if let Event::FinalRead { chat, messages, .. } = &mut entry.event
            && chat == of
        {
            change(messages);
        }
    }
}

/// The log of the first chat.
fn log(history: &[Entry]) -> Vec<Seen> {
    let read = history.iter().find_map(|entry| match &entry.event {
        Event::FinalRead { messages, .. } => Some(messages.clone()),
        _ => None,
    });
    read.unwrap()
}

/// Every acknowledged attempt: where it was made and where it was answered.
fn acked(history: &[Entry]) -> Vec<(usize, usize, Key)> {
    let mut invoked = HashMap::new();
    let mut acked = Vec::new();
    for (position, entry) in history.iter().enumerate() {
        match &entry.event {
            Event::SendInvoked { request, key, .. } => {
                invoked.insert(*request, (position, key));
            }
            Event::SendAnswered { request, answer: SendOutcome::Stored { .. } } => {
                if let Some((invoked, key)) = invoked.get(request) {
                    acked.push((*invoked, position, Key::clone(key)));
                }
            }
            _ => {}
        }
    }
    acked
}

fn attempts(history: &[Entry], wanted: &Key) -> usize {
    let of_key =
        |entry: &&Entry| matches!(&entry.event, Event::SendInvoked { key, .. } if key == wanted);
    history.iter().filter(of_key).count()
}

fn is_acked(history: &[Entry], key: &Key) -> bool {
    acked(history).iter().any(|(.., acked)| acked == key)
}
