//! Checks that a sequence means the same message to all readers, and that delivered messages stay.

use super::view::View;
use super::{Findings, Rule};
use crate::history::{Event, Seen, SendOutcome};

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    for entry in view.history {
        match &entry.event {
            Event::Pushed { connection, message } => {
                compare(view, message, &format!("a push on {connection}"), true, findings);
            }
            Event::SyncAnswered { request, messages, .. } => {
                for message in messages {
                    compare(view, message, &format!("the page {request}"), true, findings);
                }
            }
            Event::FinalRead { reader, messages, .. } => {
                for message in messages {
                    compare(view, message, &format!("the read of {reader}"), false, findings);
                }
            }
            Event::SendAnswered { request, answer } => acked(view, *request, answer, findings),
            _ => {}
        }
    }
}

/// Compares a message that a client received with the log.
fn compare(view: &View<'_>, seen: &Seen, place: &str, lost: bool, findings: &mut Findings) {
    match view.logs.get(seen.key.chat.as_str()).and_then(|log| log.get(&seen.sequence)) {
        Some(kept) if *kept == seen => {}
        Some(kept) => {
            let what = format!("{place} shows {seen:?}, the log {kept:?}");
            findings.add(Rule::ReadersDisagree, what);
        }
        None if lost => {
            findings.add(Rule::DeliveredThenLost, format!("{place} showed {seen:?}"));
        }
        None => {}
    }
}

/// An acknowledgement names a message as the log does; that it is there at all is another rule.
fn acked(view: &View<'_>, request: u64, answer: &SendOutcome, findings: &mut Findings) {
    let SendOutcome::Stored { chat, sequence, message_id, .. } = answer else { return };
    let kept = view.logs.get(chat.as_str()).and_then(|log| log.get(sequence));
    let Some(attempt) = view.attempt_of.get(&request).map(|index| &view.attempts[*index]) else {
        return;
    };
    let Some(kept) = kept.filter(|kept| kept.key == *attempt.key) else { return };
    if kept.message_id != *message_id {
        let what = format!("the answer {request} calls {sequence} {message_id}, the log {kept:?}");
        findings.add(Rule::ReadersDisagree, what);
    }
}
