//! Every request is answered, once and in time, or its connection ends; and that has a cause.

use super::view::View;
use super::{Findings, Rule};
use crate::history::{End, Event};

/// The deadline of a request, and what the machine may add to it.
const ANSWER_US_MAX: u64 = (5 + 3) * 1_000_000;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    answers(view, findings);
    ends(view, findings);
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
                let waited = view.awake_us(request.invoked, open_until);
                if ended.is_none() || waited > ANSWER_US_MAX {
                    let what = format!("{}, after {waited} us on an open connection", what());
                    findings.add(Rule::NeverAnswered, what);
                }
            }
            [answered, ..] => {
                let waited = view.awake_us(request.invoked, answered);
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

/// A connection breaks without a word only when the server is killed.
fn ends(view: &View<'_>, findings: &mut Findings) {
    for (name, connection) in &view.connections {
        let Some((ended, End::Lost)) = connection.ended else { continue };
        let killed =
            view.downs.iter().any(|(kill, start)| connection.began < *start && *kill < ended);
        if !killed {
            let at_us = view.at_us(ended);
            let what = format!("connection {name} of {} at {at_us} us", connection.client);
            findings.add(Rule::SilentDisconnect, what);
        }
    }
}
