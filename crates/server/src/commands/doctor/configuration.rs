//! Checks of the configuration, and of the invariants that depend on it.

use std::time::Duration;

use super::evidence::Evidence;
use super::report::{Finding, Report};
use crate::config::{Difference, Loaded};
use crate::tls::TlsReloader;

/// The limits that the invariants promise.
const OUTBOX_MESSAGES_MAX: usize = 1000;
const INBOUND_REQUESTS_MAX: usize = 100;
const SLOW_GRACE_MIN: Duration = Duration::from_secs(5);

/// Checks a valid configuration.
pub(super) fn examine(loaded: &Loaded, report: &mut Report<'_>) -> Vec<Evidence> {
    for warning in &loaded.warnings {
        report.note(Finding::warn("configuration", warning));
    }
    let server = &loaded.config.server;
    if let (Some(certificate), Some(key)) = (&server.tls_cert, &server.tls_key) {
        report.note(match TlsReloader::load(certificate, key) {
            Ok(_) => {
                Finding::pass("certificate", format!("{} matches its key", certificate.display()))
            }
            Err(error) => Finding::fail("certificate", format!("server.tls_cert: {error}"))
                .advise("provide a certificate and its private key"),
        });
    }
    if loaded.warnings.is_empty() {
        let keys = loaded.differences.len();
        let evidence = format!("accepted without a warning; {keys} keys differ from the defaults");
        report.note(Finding::pass("configuration", evidence));
    }
    report.note(limits(&loaded.differences));
    evidence(loaded)
}

/// Lists every limit that differs from the default.
fn limits(differences: &[Difference]) -> Finding {
    let limits = differences.iter().filter(|difference| difference.key.starts_with("limits."));
    let changed = limits.map(|difference| {
        let Difference { key, value, default, source } = difference;
        format!("{key} = {value} (default {default}; {source})")
    });
    let changed = changed.collect::<Vec<_>>();
    match changed.is_empty() {
        true => Finding::pass("limits", "every limit is the default"),
        false => Finding::pass("limits", format!("not the default: {}", changed.join("; "))),
    }
}

fn evidence(loaded: &Loaded) -> Vec<Evidence> {
    let limits = &loaded.config.limits.gateway;
    let mut found = Vec::new();
    let (outbox, inbound) = (limits.outbox_messages, limits.inbound_requests);
    let buffers =
        format!("limits.outbox_messages = {outbox} and limits.inbound_requests = {inbound}");
    found.push(if outbox <= OUTBOX_MESSAGES_MAX && inbound <= INBOUND_REQUESTS_MAX {
        Evidence::holds("bounded_buffer", buffers)
    } else {
        let advice = "lower them to 1000 and 100, which clients and memory limits assume";
        Evidence::against("bounded_buffer", buffers, advice)
    });
    let grace = humantime::format_duration(limits.slow_grace);
    let grace = format!("limits.slow_grace = {grace}");
    found.push(if limits.slow_grace >= SLOW_GRACE_MIN {
        Evidence::holds("backpressure_signaled", grace)
    } else {
        let advice = "raise it to 5s, the recovery time that the protocol promises";
        Evidence::against("backpressure_signaled", grace, advice)
    });
    found
}
