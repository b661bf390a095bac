//! The measurements of a [`super::setup::ClusterSetup`].

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::receiver_process::CheckResult;
use crate::report::new_histogram;

/// The measurements of one window or the sum of several.
#[derive(Debug)]
pub(super) struct Window {
    /// Messages that were sent.
    pub(super) sent: u64,
    /// Messages that were acknowledged.
    pub(super) acknowledged: u64,
    /// Messages that were stored in the chats.
    pub(super) stored: u64,
    /// Messages that were rejected.
    pub(super) rejections: u64,
    /// Deliveries to each node's receivers: actual and expected.
    pub(super) delivered: Vec<(u64, u64)>,
    /// Receivers that did not get each message of their group once and in order, at the end.
    pub(super) checked: CheckResult,
    /// Connections that a node closed since the setup was opened.
    pub(super) closed: u64,
    /// From the first message until everything was delivered.
    pub(super) elapsed: Duration,
    /// CPU time of all nodes.
    pub(super) cpu: Duration,
    /// From the intended time of a message to its acknowledgement, in nanoseconds.
    pub(super) ack_latency: Histogram<u64>,
    /// From the intended time of a message to its arrival at a device, in nanoseconds.
    pub(super) latency: Histogram<u64>,
}

fn add(total: &mut Histogram<u64>, more: &Histogram<u64>) {
    total.add(more).expect("all histograms have the same bounds");
}

impl Window {
    /// A window without measurements.
    pub(super) fn empty() -> Self {
        Self {
            sent: 0,
            acknowledged: 0,
            stored: 0,
            rejections: 0,
            delivered: Vec::new(),
            checked: CheckResult::default(),
            closed: 0,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            ack_latency: new_histogram(),
            latency: new_histogram(),
        }
    }

    /// Adds a later window.
    pub(super) fn add(&mut self, later: Self) {
        self.sent += later.sent;
        self.acknowledged += later.acknowledged;
        self.stored += later.stored;
        self.rejections += later.rejections;
        self.delivered.resize(later.delivered.len(), (0, 0));
        for ((delivered, expected), more) in self.delivered.iter_mut().zip(later.delivered) {
            *delivered += more.0;
            *expected += more.1;
        }
        // Both count since the setup was opened.
        self.checked = later.checked;
        self.closed = later.closed;
        self.elapsed += later.elapsed;
        self.cpu += later.cpu;
        add(&mut self.ack_latency, &later.ack_latency);
        add(&mut self.latency, &later.latency);
    }

    /// All deliveries.
    pub(super) fn deliveries(&self) -> f64 {
        self.delivered.iter().map(|(delivered, _)| *delivered).sum::<u64>() as f64
    }

    /// CPU of all nodes per delivery, in microseconds.
    pub(super) fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.deliveries()
    }

    /// The failures in this window, as texts for the report.
    pub(super) fn errors(&self, name: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let Self { sent, acknowledged, stored, rejections, closed, .. } = self;
        if sent != acknowledged || acknowledged != stored || *rejections > 0 {
            errors.push(format!(
                "{name}: {sent} sent, {acknowledged} acknowledged, {stored} stored, {rejections} \
                 rejected"
            ));
        }
        for (node, (delivered, expected)) in self.delivered.iter().enumerate() {
            if delivered != expected {
                errors.push(format!("{name}, node {node}: {delivered} of {expected} delivered"));
            }
        }
        let CheckResult { faulty, examples } = &self.checked;
        if *faulty > 0 {
            let examples = examples.join("; ");
            errors.push(format!(
                "{name}: {faulty} receivers did not get each message once and in order: {examples}"
            ));
        }
        if *closed > 0 {
            errors.push(format!("{name}: {closed} connections were closed by the server"));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_delivery_of_a_node_is_an_error_even_if_the_sum_is_right() {
        let window = |delivered: Vec<(u64, u64)>| Window {
            sent: 2,
            acknowledged: 2,
            stored: 2,
            delivered,
            cpu: Duration::from_micros(40),
            ..Window::empty()
        };
        let mut total = Window::empty();
        total.add(window(vec![(10, 10), (10, 10)]));
        assert_eq!(total.errors("cluster"), Vec::<String>::new());
        total.add(window(vec![(9, 10), (11, 10)]));
        assert!((total.cpu_micros() - 2.0).abs() < 1e-9);
        let errors = total.errors("cluster");
        assert_eq!(errors.len(), 2);
        assert_eq!(errors[0], "cluster, node 0: 19 of 20 delivered");
    }

    #[test]
    fn a_receiver_that_missed_a_message_is_an_error_even_if_every_sum_is_right() {
        let examples = vec!["bench-7 received 3 of 4 in order, 1 others".to_owned()];
        let checked = CheckResult { faulty: 1, examples };
        let mut total = Window::empty();
        total.add(Window { checked, delivered: vec![(4, 4)], ..Window::empty() });
        let errors = total.errors("cluster");
        assert_eq!(errors.len(), 1);
        assert!(errors[0].ends_with("bench-7 received 3 of 4 in order, 1 others"), "{errors:?}");
    }
}
