//! In the end every node knows of every connection that stands, and of no other.

use super::view::View;
use super::{Findings, Rule};
use crate::history::Event;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    for (position, entry) in view.history.iter().enumerate() {
        let Event::Routed { node, client, ids } = &entry.event else { continue };
        let stands: Vec<&str> = view
            .connections
            .values()
            .filter(|connection| connection.client == client && connection.began < position)
            .filter(|connection| connection.ended.is_none_or(|(ended, _)| ended > position))
            .map(|connection| connection.id)
            .collect();
        for id in ids.iter().filter(|id| !stands.contains(&id.as_str())) {
            findings.add(Rule::ZombieRoute, format!("node {node} lists {id} of {client}"));
        }
        for id in stands.iter().filter(|id| !ids.iter().any(|listed| listed == *id)) {
            findings.add(Rule::RouteMissing, format!("node {node} lacks {id} of {client}"));
        }
    }
}
