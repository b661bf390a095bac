//! One side of a comparison: a subject, its light sockets and the lanes that push to them.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use heartline_protocol::limits::PUSH_USERS_MAX;
use heartline_routing::Clock;
use tokio::time::{sleep, sleep_until};

use super::counters::{Epoch, Tally};
use super::dial::DialPlan;
use super::fleet::Fleet;
use super::lane::{Lane, Template};
use super::load::{LEAD, Load, Pusher, drive};
use super::report::new_histogram;
use super::sender::Senders;
use super::subject::Subject;

/// Handshakes under way at once while a fleet is opened.
const DIAL_CONCURRENCY: usize = 64;
/// How long arrivals may pause before the rest is given up as lost.
const QUIET_MAX: Duration = Duration::from_secs(5);
/// How often arrivals are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A subject with its sockets and what is pushed to them.
#[derive(Debug)]
pub(super) struct Side {
    /// The process under test.
    pub(super) subject: Subject,
    fleet: Fleet,
    pushers: Pushers,
    epoch: Epoch,
}

/// Who pushes.
#[derive(Debug)]
pub(super) enum Pushers {
    /// Connections that are opened for every window.
    Lanes {
        /// What they push.
        templates: Vec<Template>,
        /// How many they are.
        count: usize,
    },
    /// Members of a room.
    Senders(Senders),
}

/// What one or several windows of pushing measured.
#[derive(Debug)]
pub(super) struct Window {
    /// Deliveries that arrived.
    pub(super) delivered: u64,
    /// Deliveries that were asked for.
    pub(super) expected: u64,
    /// Deliveries that the server said it queued.
    pub(super) queued: u64,
    /// From the first push until the window was over and everything had arrived.
    pub(super) elapsed: Duration,
    /// What it cost the subject; absent when its process is not known.
    pub(super) cpu: Option<Duration>,
    /// From the intended time of a push to its arrival, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    /// Connections that the subject ended, since the fleet was opened.
    pub(super) closed: u64,
}

/// Names of the bench's users.
pub(super) fn users(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}-{index}")).collect()
}

/// Users in groups of equal size, none larger than one push may name.
pub(super) fn groups(users: &[String]) -> Vec<&[String]> {
    let count = users.len().div_ceil(PUSH_USERS_MAX).max(1);
    users.chunks(users.len().div_ceil(count).max(1)).collect()
}

impl Side {
    /// Opens a connection for each user and as many lanes as asked for.
    pub(super) async fn open(
        label: &str,
        subject: Subject,
        users: &[String],
        payload: usize,
        lanes: usize,
    ) -> Result<Self> {
        let templates = Template::for_groups(&subject, &groups(users), payload)?;
        let fleet = Fleet::new(Epoch::begin(), if users.len() <= 200 { 1 } else { 10 });
        let pushers = Pushers::Lanes { templates, count: lanes };
        Self::with(label, subject, users, fleet, pushers).await
    }

    /// Opens a connection for each user, to be pushed to by these.
    pub(super) async fn with(
        label: &str,
        subject: Subject,
        users: &[String],
        mut fleet: Fleet,
        pushers: Pushers,
    ) -> Result<Self> {
        let epoch = fleet.counters().epoch();
        let plan = DialPlan::new(&subject, users, DIAL_CONCURRENCY)?;
        plan.open_each(label, |opened| fleet.add(opened)).await?;
        Ok(Self { subject, fleet, pushers, epoch })
    }

    /// The times of this side's pushes count from here.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Pushes for one window and waits until everything has arrived. Its lanes are new, because
    /// a server may close those that were idle while another side was measured.
    pub(super) async fn window(&self, load: Load) -> Result<Window> {
        let lanes = self.pushers.open(&self.subject)?;
        let counters = self.fleet.counters().clone();
        counters.take_latency();
        let delivered_before = counters.deliveries();
        let cpu_before = self.subject.usage()?.map(|usage| usage.cpu);
        let started = Clock::system().now() + LEAD;
        let driven = drive(lanes, load, self.epoch, &counters).await?;
        self.wait_for_arrivals(delivered_before + driven.expected).await;
        sleep_until(started + load.duration).await;
        let elapsed = Clock::system().now().duration_since(started);
        let cpu_after = self.subject.usage()?.map(|usage| usage.cpu);
        Ok(Window {
            delivered: counters.deliveries() - delivered_before,
            expected: driven.expected,
            queued: driven.queued,
            elapsed,
            cpu: cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before)),
            latency: counters.take_latency(),
            closed: counters.get(Tally::Closed),
        })
    }

    /// Gives up only when nothing came for a while: a loss is reported, not waited for.
    async fn wait_for_arrivals(&self, expected: u64) {
        let counters = self.fleet.counters();
        let mut last = (counters.deliveries(), Clock::system().now());
        while counters.deliveries() < expected
            && Clock::system().now().duration_since(last.1) < QUIET_MAX
        {
            sleep(LOOK_EVERY).await;
            if counters.deliveries() != last.0 {
                last = (counters.deliveries(), Clock::system().now());
            }
        }
    }
}

impl Pushers {
    fn open(&self, subject: &Subject) -> Result<Vec<Box<dyn Pusher>>> {
        match self {
            Self::Lanes { templates, count } => Lane::open_many(subject, templates, *count),
            Self::Senders(senders) => Ok(vec![Box::new(senders.clone())]),
        }
    }
}

impl Window {
    /// Nothing measured as yet.
    pub(super) fn empty() -> Self {
        Self {
            delivered: 0,
            expected: 0,
            queued: 0,
            elapsed: Duration::ZERO,
            cpu: Some(Duration::ZERO),
            latency: new_histogram(),
            closed: 0,
        }
    }

    /// Takes in a later window of the same side.
    pub(super) fn add(&mut self, later: &Self) {
        self.delivered += later.delivered;
        self.expected += later.expected;
        self.queued += later.queued;
        self.elapsed += later.elapsed;
        self.cpu = self.cpu.zip(later.cpu).map(|(sum, cpu)| sum + cpu);
        self.latency.add(&later.latency).expect("all histograms have the same bounds");
        self.closed = self.closed.max(later.closed);
    }

    /// CPU time of the subject per delivery, in microseconds.
    pub(super) fn cpu_micros_per_delivery(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.delivered as f64)
    }

    /// Deliveries each second.
    pub(super) fn deliveries_per_second(&self) -> f64 {
        self.delivered as f64 / self.elapsed.as_secs_f64()
    }

    /// What must not happen, if it did.
    pub(super) fn errors(&self, name: &str) -> Vec<String> {
        let mut errors = Vec::new();
        if self.delivered != self.expected {
            let Self { delivered, expected, .. } = self;
            errors.push(format!("{name}: {delivered} deliveries arrived, {expected} were due"));
        }
        if self.queued != self.expected {
            let Self { queued, expected, .. } = self;
            errors.push(format!("{name}: pushes were queued for {queued} of {expected}"));
        }
        if self.closed > 0 {
            errors.push(format!("{name}: {} connections were closed by the server", self.closed));
        }
        if self.delivered > 0 && self.latency.is_empty() {
            errors.push(format!("{name}: no delivery carried its time"));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::super::load::Pacing;
    use super::*;

    #[test]
    fn groups_are_even_and_within_what_a_push_may_name() {
        let sizes = |count: usize| -> Vec<usize> {
            groups(&users("u", count)).iter().map(|group| group.len()).collect()
        };
        assert_eq!(sizes(1000), [1000]);
        assert_eq!(sizes(2500), [834, 834, 832]);
        assert_eq!(sizes(1), [1]);
    }

    async fn bare_side(connections: usize, tasks: &mut JoinSet<()>) -> Side {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let subject = Subject::reached_at(listener.local_addr().unwrap(), None);
        tasks.spawn(async move {
            super::super::bare::accept(listener).await.unwrap();
        });
        Side::open("test", subject, &users("u", connections), 200, 2).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_delivery_of_an_open_loop_arrives_with_its_time() {
        let mut tasks = JoinSet::new();
        let side = bare_side(20, &mut tasks).await;
        let pacing = Pacing::Rate { pushes_per_second: 200.0 };
        let window = side.window(Load { pacing, duration: Duration::from_millis(100) }).await;
        let window = window.unwrap();
        assert_eq!((window.delivered, window.expected, window.queued), (400, 400, 400));
        assert_eq!(window.latency.len(), 400);
        assert!(window.latency.max() < Duration::from_secs(10).as_nanos() as u64);
        assert_eq!(window.errors("bare loop"), [""; 0]);
        assert_eq!(window.cpu, None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_saturated_window_loses_nothing_and_can_be_repeated() {
        let mut tasks = JoinSet::new();
        let side = bare_side(20, &mut tasks).await;
        let pacing = Pacing::Saturate { in_flight: 4 };
        for _ in 0..2 {
            let load = Load { pacing, duration: Duration::from_millis(50) };
            let window = side.window(load).await.unwrap();
            assert!(window.delivered > 0);
            assert_eq!(window.errors("bare loop"), [""; 0]);
        }
    }

    #[test]
    fn windows_add_up_and_losses_are_errors() {
        let mut total = Window::empty();
        let mut window = Window::empty();
        (window.delivered, window.expected, window.queued) = (900, 1000, 1000);
        window.cpu = Some(Duration::from_millis(9));
        window.elapsed = Duration::from_secs(1);
        window.closed = 2;
        total.add(&window);
        assert_eq!(total.cpu_micros_per_delivery(), Some(10.0));
        assert!((total.deliveries_per_second() - 900.0).abs() < 1e-9);
        let errors = total.errors("heartline").join("\n");
        for expected in ["900 deliveries arrived, 1000 were due", "2 connections", "its time"] {
            assert!(errors.contains(expected), "{errors}");
        }
        assert!(Window::empty().errors("bare loop").is_empty());
    }
}
