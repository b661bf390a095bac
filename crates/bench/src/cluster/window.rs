//! What one side of the comparison measured, in one window or in several.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::audience::Checked;
use crate::report::new_histogram;

/// What one or several windows measured.
#[derive(Debug)]
pub(super) struct Window {
    /// Messages that were sent.
    pub(super) sent: u64,
    /// Those that were acknowledged.
    pub(super) acknowledged: u64,
    /// Those that the chats hold.
    pub(super) stored: u64,
    /// Those that were refused.
    pub(super) refusals: u64,
    /// Arrivals at each node's listeners, and how many there should have been.
    pub(super) delivered: Vec<(u64, u64)>,
    /// Devices that did not hear each message of their room once and in order, at the end.
    pub(super) checked: Checked,
    /// Connections that a node ended, since the beginning.
    pub(super) closed: u64,
    /// From the first message until everybody had heard everything.
    pub(super) elapsed: Duration,
    /// What it cost all nodes.
    pub(super) cpu: Duration,
    /// From the intended time of a message to its acknowledgement, in nanoseconds.
    pub(super) ack_latency: Histogram<u64>,
    /// The same to its arrival at a device.
    pub(super) latency: Histogram<u64>,
}

fn add(total: &mut Histogram<u64>, more: &Histogram<u64>) {
    total.add(more).expect("all histograms have the same bounds");
}

impl Window {
    /// Nothing measured as yet.
    pub(super) fn empty() -> Self {
        Self {
            sent: 0,
            acknowledged: 0,
            stored: 0,
            refusals: 0,
            delivered: Vec::new(),
            checked: Checked::default(),
            closed: 0,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            ack_latency: new_histogram(),
            latency: new_histogram(),
        }
    }

    /// Adds what a later window measured.
    pub(super) fn add(&mut self, later: Self) {
        self.sent += later.sent;
        self.acknowledged += later.acknowledged;
        self.stored += later.stored;
        self.refusals += later.refusals;
        self.delivered.resize(later.delivered.len(), (0, 0));
        for ((delivered, expected), more) in self.delivered.iter_mut().zip(later.delivered) {
            *delivered += more.0;
            *expected += more.1;
        }
        // Both count from the beginning.
        self.checked = later.checked;
        self.closed = later.closed;
        self.elapsed += later.elapsed;
        self.cpu += later.cpu;
        add(&mut self.ack_latency, &later.ack_latency);
        add(&mut self.latency, &later.latency);
    }

    /// All arrivals.
    pub(super) fn deliveries(&self) -> f64 {
        self.delivered.iter().map(|(delivered, _)| *delivered).sum::<u64>() as f64
    }

    /// CPU of all nodes per delivery, in microseconds.
    pub(super) fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.deliveries()
    }

    /// What must not happen, if it did.
    pub(super) fn errors(&self, name: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let Self { sent, acknowledged, stored, refusals, closed, .. } = self;
        if sent != acknowledged || acknowledged != stored || *refusals > 0 {
            errors.push(format!(
                "{name}: {sent} sent, {acknowledged} acknowledged, {stored} stored, {refusals} \
                 refused"
            ));
        }
        for (node, (delivered, expected)) in self.delivered.iter().enumerate() {
            if delivered != expected {
                errors.push(format!("{name}, node {node}: {delivered} of {expected} delivered"));
            }
        }
        let Checked { faulty, examples } = &self.checked;
        if *faulty > 0 {
            let examples = examples.join("; ");
            errors.push(format!(
                "{name}: {faulty} devices did not hear each message once and in order: {examples}"
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
    fn what_a_node_did_not_deliver_is_an_error_although_the_sum_is_right() {
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
    fn a_device_that_missed_something_is_an_error_although_every_node_has_its_sum() {
        let examples = vec!["bench-7 heard 3 of 4 in order, and 1 others".to_owned()];
        let checked = Checked { faulty: 1, examples };
        let mut total = Window::empty();
        total.add(Window { checked, delivered: vec![(4, 4)], ..Window::empty() });
        let errors = total.errors("cluster");
        assert_eq!(errors.len(), 1);
        assert!(errors[0].ends_with("bench-7 heard 3 of 4 in order, and 1 others"), "{errors:?}");
    }
}
