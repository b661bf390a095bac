//! A server under test with connected clients and the connections that push to them.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use heartline_protocol::limits::PUSH_USERS_MAX;
use heartline_runtime::Clock;
use tokio::time::{sleep, sleep_until};

use super::client_sockets::ClientSockets;
use super::counters::{Epoch, Tally};
use super::dial::DialPlan;
use super::load::{LEAD, Load, Pusher, drive};
use super::push_connection::{PushConnection, PushTemplate};
use super::report::new_histogram;
use super::sender::Senders;
use super::server_under_test::ServerUnderTest;

/// Number of concurrent handshakes.
const DIAL_CONCURRENCY: usize = 64;
/// Without an arrival for this long, missing deliveries count as lost.
const QUIET_MAX: Duration = Duration::from_secs(5);
/// How often the counters are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A server under test, its connected clients and its pushers.
#[derive(Debug)]
pub(super) struct PushSetup {
    /// The server under test.
    pub(super) server: ServerUnderTest,
    sockets: ClientSockets,
    pushers: Pushers,
    epoch: Epoch,
}

/// The source of the pushes.
#[derive(Debug)]
pub(super) enum Pushers {
    /// Connections that are opened for every window.
    Connections {
        /// The pushes.
        templates: Vec<PushTemplate>,
        /// The number of connections.
        count: usize,
    },
    /// Members of a group chat.
    Senders(Senders),
}

/// The measurements of one window or the sum of several.
#[derive(Debug)]
pub(super) struct Window {
    /// Deliveries that arrived.
    pub(super) delivered: u64,
    /// Deliveries that were requested.
    pub(super) expected: u64,
    /// Deliveries that the server reported as queued.
    pub(super) queued: u64,
    /// From the first push until the window was over and everything had arrived.
    pub(super) elapsed: Duration,
    /// CPU time of the server; none if its process id is not known.
    pub(super) cpu: Option<Duration>,
    /// From the intended time of a push to its arrival, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    /// Connections that the server closed since the setup was opened.
    pub(super) closed: u64,
}

/// The ids of the bench's users.
pub(super) fn users(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}-{index}")).collect()
}

/// Users in groups of equal size, none larger than the limit of users per push.
pub(super) fn groups(users: &[String]) -> Vec<&[String]> {
    let count = users.len().div_ceil(PUSH_USERS_MAX).max(1);
    users.chunks(users.len().div_ceil(count).max(1)).collect()
}

impl PushSetup {
    /// Connects each user and prepares pushes through `push_connections` connections.
    pub(super) async fn open(
        label: &str,
        server: ServerUnderTest,
        users: &[String],
        payload: usize,
        push_connections: usize,
    ) -> Result<Self> {
        let templates = PushTemplate::for_groups(&server, &groups(users), payload)?;
        let sockets = ClientSockets::new(Epoch::begin(), if users.len() <= 200 { 1 } else { 10 });
        let pushers = Pushers::Connections { templates, count: push_connections };
        Self::with(label, server, users, sockets, pushers).await
    }

    /// Connects each user; `pushers` push to them.
    pub(super) async fn with(
        label: &str,
        server: ServerUnderTest,
        users: &[String],
        mut sockets: ClientSockets,
        pushers: Pushers,
    ) -> Result<Self> {
        let epoch = sockets.counters().epoch();
        let plan = DialPlan::new(&server, users, DIAL_CONCURRENCY)?;
        plan.open_each(label, |opened| sockets.add(opened)).await?;
        Ok(Self { server, sockets, pushers, epoch })
    }

    /// The epoch of all times.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Pushes for one window and waits until everything has arrived. Opens new push connections,
    /// because a server may close those that were idle while another server was measured.
    pub(super) async fn window(&self, load: Load) -> Result<Window> {
        let pushers = self.pushers.open(&self.server)?;
        let counters = self.sockets.counters().clone();
        counters.take_latency();
        let delivered_before = counters.deliveries();
        let cpu_before = self.server.usage()?.map(|usage| usage.cpu);
        let started = Clock::system().now() + LEAD;
        let result = drive(pushers, load, self.epoch, &counters).await?;
        self.wait_for_arrivals(delivered_before + result.expected).await;
        sleep_until(started + load.duration).await;
        let elapsed = Clock::system().now().duration_since(started);
        let cpu_after = self.server.usage()?.map(|usage| usage.cpu);
        Ok(Window {
            delivered: counters.deliveries() - delivered_before,
            expected: result.expected,
            queued: result.queued,
            elapsed,
            cpu: cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before)),
            latency: counters.take_latency(),
            closed: counters.get(Tally::Closed),
        })
    }

    /// Returns early if nothing arrives for [`QUIET_MAX`], so that a loss is reported.
    async fn wait_for_arrivals(&self, expected: u64) {
        let counters = self.sockets.counters();
        let mut last = (counters.deliveries(), Clock::system().now());
        while counters.deliveries() < expected
            && Clock::system().now().duration_since(last.1) < QUIET_MAX
        {
            sleep(POLL_INTERVAL).await;
            if counters.deliveries() != last.0 {
                last = (counters.deliveries(), Clock::system().now());
            }
        }
    }
}

impl Pushers {
    fn open(&self, server: &ServerUnderTest) -> Result<Vec<Box<dyn Pusher>>> {
        match self {
            Self::Connections { templates, count } => {
                PushConnection::open_many(server, templates, *count)
            }
            Self::Senders(senders) => Ok(vec![Box::new(senders.clone())]),
        }
    }
}

impl Window {
    /// A window without measurements.
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

    /// Adds a later window of the same server.
    pub(super) fn add(&mut self, later: &Self) {
        self.delivered += later.delivered;
        self.expected += later.expected;
        self.queued += later.queued;
        self.elapsed += later.elapsed;
        self.cpu = self.cpu.zip(later.cpu).map(|(sum, cpu)| sum + cpu);
        self.latency.add(&later.latency).expect("all histograms have the same bounds");
        self.closed = self.closed.max(later.closed);
    }

    /// CPU time of the server per delivery, in microseconds.
    pub(super) fn cpu_micros_per_delivery(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.delivered as f64)
    }

    /// Deliveries per second.
    pub(super) fn deliveries_per_second(&self) -> f64 {
        self.delivered as f64 / self.elapsed.as_secs_f64()
    }

    /// The failures in this window, as texts for the report.
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
    use heartline_runtime::TaskSet;
    use tokio::net::TcpListener;

    use super::super::load::Pacing;
    use super::*;

    #[test]
    fn groups_are_even_and_within_the_limit_of_a_push() {
        let sizes = |count: usize| -> Vec<usize> {
            groups(&users("u", count)).iter().map(|group| group.len()).collect()
        };
        assert_eq!(sizes(1000), [1000]);
        assert_eq!(sizes(2500), [834, 834, 832]);
        assert_eq!(sizes(1), [1]);
    }

    async fn bare_setup(connections: usize, tasks: &mut TaskSet<()>) -> PushSetup {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = ServerUnderTest::at_address(listener.local_addr().unwrap(), None);
        tasks.spawn(async move {
            super::super::bare::accept(listener).await.unwrap();
        });
        PushSetup::open("test", server, &users("u", connections), 200, 2).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_delivery_of_an_open_loop_arrives_with_its_time() {
        let mut tasks = TaskSet::new();
        let setup = bare_setup(20, &mut tasks).await;
        let pacing = Pacing::Rate { pushes_per_second: 200.0 };
        let window = setup.window(Load { pacing, duration: Duration::from_millis(100) }).await;
        let window = window.unwrap();
        assert_eq!((window.delivered, window.expected, window.queued), (400, 400, 400));
        assert_eq!(window.latency.len(), 400);
        assert!(window.latency.max() < Duration::from_secs(10).as_nanos() as u64);
        assert_eq!(window.errors("bare loop"), [""; 0]);
        assert_eq!(window.cpu, None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_saturated_window_loses_nothing_and_can_be_repeated() {
        let mut tasks = TaskSet::new();
        let setup = bare_setup(20, &mut tasks).await;
        let pacing = Pacing::Saturate { in_flight: 4 };
        for _ in 0..2 {
            let load = Load { pacing, duration: Duration::from_millis(50) };
            let window = setup.window(load).await.unwrap();
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
