//! Every request is answered, once and in time, or its connection ends; and that has a cause.

use super::view::View;
use super::{Findings, Rule};
use crate::history::{End, Entry, Event};

/// The deadline of a request, and what the machine may add to it.
const ANSWER_US_MAX: u64 = (5 + 3) * 1_000_000;

/// How long after its client gave it up a connection may still be taken up: the longest pause of a
/// node, and what the machine may add.
const ABANDONED_US_MAX: u64 = 20 * 1_000_000;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    answers(view, findings);
    ends(view, findings);
    replacements(view, findings);
    for entry in view.history {
        if let Event::Stray { connection, what } = &entry.event {
            let what = format!("on connection {connection}: {what}");
            findings.add(Rule::AnsweredTwice, what);
        }
    }
}

fn answers(view: &View<'_>, findings: &mut Findings) {
    let last = view.history.len().saturating_sub(1);
    for (name, request) in &view.requests {
        let ended = view.connections.get(&request.connection).and_then(|known| known.ended);
        let invoked_us = view.at_us(request.invoked);
        let what = || format!("request {name}, made at {invoked_us} us");
        match request.answers[..] {
            [] => {
                let open_until = ended.map_or(last, |(position, _)| position);
                let waited = view.waited_us(request, open_until);
                if ended.is_none() || waited > ANSWER_US_MAX {
                    let what = format!("{}, after {waited} us on an open connection", what());
                    findings.add(Rule::NeverAnswered, what);
                }
            }
            [answered, ..] => {
                let waited = view.waited_us(request, answered);
                if waited > ANSWER_US_MAX {
                    findings.add(Rule::AnsweredLate, format!("{}, took {waited} us", what()));
                }
                if request.answers.len() > 1 {
                    findings.add(Rule::AnsweredTwice, what());
                }
            }
        }
    }
}

/// A client hangs up before it connects again, so the younger connection that replaces another can
/// only be one that it waited for in vain.
fn replacements(view: &View<'_>, findings: &mut Findings) {
    for (name, connection) in &view.connections {
        let Some((ended, End::Closed { reason })) = connection.ended else { continue };
        if reason != "session_replaced" {
            continue;
        }
        let at_us = view.at_us(ended);
        let is_cause = |entry: &Entry| {
            matches!(&entry.event, Event::Abandoned { client, .. } if client == connection.client)
                && entry.at_us + ABANDONED_US_MAX >= at_us
        };
        if !view.history[..ended].iter().any(is_cause) {
            let what = format!("connection {name} of {} at {at_us} us", connection.client);
            findings.add(Rule::ReplacedByNobody, what);
        }
    }
}

/// A connection may break without a Close only when its node is killed.
fn ends(view: &View<'_>, findings: &mut Findings) {
    for (name, connection) in &view.connections {
        let Some((ended, End::Lost)) = connection.ended else { continue };
        let killed = view.downs.iter().any(|down| {
            down.node == connection.node && connection.began < down.started && down.killed < ended
        });
        if !killed {
            let at_us = view.at_us(ended);
            let what = format!("connection {name} of {} at {at_us} us", connection.client);
            findings.add(Rule::SilentDisconnect, what);
        }
    }
}
