//! Whether a history keeps the promises: a pure function, tested by histories that break them.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::Entry;

mod view;
mod stored;
mod agreement;
mod order;
mod requests;
mod readers;
mod routes;
mod reached;
#[cfg(test)]
mod tests;

pub(crate) use reached::{Counts, Reached, Wanted};
use view::View;

/// A promise that can be broken; the name is what a person reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// An acknowledged message is not in the final log at its sequence.
    AckedLost,
    /// A stored message that no client sent.
    PhantomMessage,
    /// A stored or acknowledged message whose content is not the one that was sent.
    BodyChanged,
    /// A stored message whose every attempt was refused for certain.
    RejectedButStored,
    /// One message stored under two sequences.
    DuplicateMessage,
    /// One read gave a sequence twice.
    DuplicateSequence,
    /// Sequences that are not 1, 2, 3, ….
    Gap,
    /// Two acknowledgements of one message with different sequences or message ids.
    RetryGotOtherSequence,
    /// The flag `duplicate` is wrong.
    DuplicateFlagWrong,
    /// An acknowledgement for another message than the one that was sent.
    WrongAnswer,
    /// Known before another was sent, yet numbered after it.
    RealtimeOrder,
    /// A sync or manifest that does not know what was known when it was asked for.
    StaleSync,
    /// A page that does not continue where it was asked to, or leaves something out.
    PageHole,
    /// A chat's pushes on one connection did not ascend.
    PushOutOfOrder,
    /// Two readers received different messages with the same sequence.
    ReadersDisagree,
    /// A delivered message is not in the final log.
    DeliveredThenLost,
    /// A reader lacks something although it synced.
    ReaderIncomplete,
    /// A connected reader received neither a message nor `resync_required`.
    SilentlyStale,
    /// A connection is told to sync the same chat over and over.
    ResyncStorm,
    /// A request without an answer on a connection that stood.
    NeverAnswered,
    /// An answer after the deadline and its slack.
    AnsweredLate,
    /// A second reply, or a reply to an unknown request.
    AnsweredTwice,
    /// A node lists a connection that is no more.
    ZombieRoute,
    /// A node does not list a connection that stands.
    RouteMissing,
    /// A client's only connection was ended in favour of one that the client does not have.
    ReplacedByNobody,
    /// A connection that broke without a Close while the server was running.
    SilentDisconnect,
}

impl Rule {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AckedLost => "ACKED-LOST",
            Self::PhantomMessage => "phantom-message",
            Self::BodyChanged => "body-changed",
            Self::RejectedButStored => "rejected-but-stored",
            Self::DuplicateMessage => "duplicate-message",
            Self::DuplicateSequence => "duplicate-seq",
            Self::Gap => "gap",
            Self::RetryGotOtherSequence => "retry-got-other-seq",
            Self::DuplicateFlagWrong => "duplicate-flag-wrong",
            Self::WrongAnswer => "wrong-answer",
            Self::RealtimeOrder => "realtime-order",
            Self::StaleSync => "stale-sync",
            Self::PageHole => "page-hole",
            Self::PushOutOfOrder => "push-out-of-order",
            Self::ReadersDisagree => "readers-disagree",
            Self::DeliveredThenLost => "delivered-then-lost",
            Self::ReaderIncomplete => "reader-incomplete-after-sync",
            Self::SilentlyStale => "silently-stale",
            Self::ResyncStorm => "resync-storm",
            Self::NeverAnswered => "request-never-answered",
            Self::AnsweredLate => "answered-late",
            Self::AnsweredTwice => "answered-twice",
            Self::ZombieRoute => "zombie-route",
            Self::RouteMissing => "route-missing",
            Self::ReplacedByNobody => "replaced-by-nobody",
            Self::SilentDisconnect => "silent-disconnect",
        }
    }
}

/// One broken promise.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

/// Collects the findings of the checks.
#[derive(Debug, Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, rule: Rule, what: impl Into<String>) {
        self.0.push(Violation { rule, what: what.into() });
    }
}

/// The result of all checks.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) violations: Vec<Violation>,
    pub(crate) counts: Counts,
    pub(crate) reached: Reached,
}

impl Report {
    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.violations.iter().any(|violation| violation.rule == rule)
    }
}

/// The number of violations of one rule that are described.
const TOLD_MAX: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.counts, self.reached)?;
        writeln!(formatter, "violations       {}", self.violations.len())?;
        let mut by_rule: BTreeMap<Rule, Vec<&str>> = BTreeMap::new();
        for violation in &self.violations {
            by_rule.entry(violation.rule).or_default().push(&violation.what);
        }
        for (rule, all) in by_rule {
            writeln!(formatter, "  {} ({})", rule.name(), all.len())?;
            for what in all.iter().take(TOLD_MAX) {
                writeln!(formatter, "    {what}")?;
            }
        }
        Ok(())
    }
}

/// Checks a whole history, whose final reads must be in it.
pub(crate) fn check(history: &[Entry]) -> Report {
    let view = View::of(history);
    let mut findings = Findings::default();
    stored::check(&view, &mut findings);
    agreement::check(&view, &mut findings);
    order::check(&view, &mut findings);
    requests::check(&view, &mut findings);
    readers::check(&view, &mut findings);
    routes::check(&view, &mut findings);
    Report { violations: findings.0, counts: Counts::of(&view), reached: Reached::of(&view) }
}
