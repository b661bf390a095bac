//! A device that reads too slowly is warned, has a grace period, and is then closed; a device that
//! catches up loses nothing.

use std::time::Duration;

use heartline_protocol::limits::{CLOSE_WRITE_DEADLINE, OUTBOX_BYTES_MAX, SLOW_GRACE};
use heartline_testing::{PATIENCE, Server, Socket};
use tokio::time::timeout;

use crate::HEARTLINE;
use crate::peers::{Pusher, Received, connect_narrow, events, now, trickle};

const WARNINGS: &str = "gateway_slow_consumer_warnings_total";
const DISCONNECTS: &str = "gateway_slow_consumer_disconnects_total";
const UNDELIVERED: &str = "gateway_signals_undelivered_total";
const ACTIVE: &str = "gateway_connections_active";

/// Bytes of an event, so that some 130 of them fill an outbox.
const EVENT_BYTES: usize = 8 * 1024;

/// Bytes that a slow device's own kernel takes.
const RECEIVE_BYTES: u32 = 16 * 1024;

/// The allowance for a busy machine.
const SLACK: Duration = Duration::from_secs(3);

/// A server, a device `slow` on it that has not read a byte yet, and who pushes to it.
struct Stage {
    server: Server,
    socket: Socket,
    pusher: Pusher,
    pushed: u64,
    /// How many sockets the server had before anybody came.
    idle_sockets: usize,
}

impl Stage {
    async fn set(configuration: &str) -> Self {
        let server = HEARTLINE.start_with(configuration).await;
        let idle_sockets = server.open_sockets();
        let socket = connect_narrow(&server, "slow", RECEIVE_BYTES).await;
        server.metric_becomes(ACTIVE, 1.0).await;
        let pusher = Pusher::new(&server).await;
        Self { server, socket, pusher, pushed: 0, idle_sockets }
    }

    /// Pushes the next event; returns whether it was queued for the device.
    async fn push(&mut self) -> bool {
        self.pushed += 1;
        self.pusher.push(&["slow".to_owned()], self.pushed, EVENT_BYTES).await == 1
    }

    /// Pushes until the device is warned for the `count`th time.
    async fn push_until_warned(&mut self, count: f64) {
        while self.server.metric(WARNINGS).await < count {
            if !self.push().await {
                // The event before was too much, and closed it; its warning is counted in a moment.
                return self.server.metric_becomes(WARNINGS, count).await;
            }
        }
    }

    /// Reads until this event has arrived; returns all frames up to and including it.
    async fn read_to(&mut self, number: u64) -> Vec<Received> {
        let mut received = Vec::new();
        while received.last() != Some(&Received::Event(number)) {
            received.extend(Received::of(&self.socket.frame().await));
        }
        received
    }
}

/// Splits what was received at the one warning, which must announce this grace. Before it came what
/// the kernels held already, and nothing of the outbox, which was 95 percent full.
fn split_at_warning(received: &[Received], pushed: u64, grace: Duration) -> (Vec<u64>, Vec<u64>) {
    let warnings: Vec<_> = received.iter().filter(|received| received.is_warning()).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let Received::Other(warning) = warnings[0] else { unreachable!("a warning is JSON") };
    assert_eq!(warning["details"]["grace_period_seconds"], grace.as_secs(), "{warning}");
    let place = received.iter().position(Received::is_warning).unwrap();
    let (before, after) = (events(&received[..place]), events(&received[place..]));
    let outbox_events = (OUTBOX_BYTES_MAX * 95 / 100 / EVENT_BYTES) as u64;
    let overtaken = pushed - before.len() as u64;
    assert!(overtaken >= outbox_events - 1, "the warning overtook only {overtaken} of {pushed}");
    (before, after)
}

fn assert_in_order(numbers: &[u64]) {
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
}

fn assert_closed_as_slow(received: &[Received]) {
    let [.., closing, close] = received else { panic!("{received:?}") };
    assert!(closing.is_of_type("connection_closing"), "{closing:?}");
    let Received::Other(closing) = closing else { unreachable!("a closing is JSON") };
    assert_eq!(
        (&closing["reason"], &closing["reconnect_allowed"]),
        (&"slow_consumer".into(), &true.into())
    );
    assert_eq!(*close, Received::Close(1008, "slow_consumer".to_owned()));
}

#[tokio::test]
async fn a_trickle_reader_is_warned_ahead_of_its_queue_and_closed_after_the_grace() {
    let mut stage = Stage::set("[limits]\nslow_grace = \"2s\"").await;
    stage.push_until_warned(1.0).await;
    let (warned_at, server, socket) = (now(), &stage.server, &mut stage.socket);
    let closed_after = async {
        server.metric_becomes(DISCONNECTS, 1.0).await;
        now() - warned_at
    };
    let trickling = trickle(socket, 1024, Duration::from_millis(15));
    let (received, closed_after) = tokio::join!(trickling, closed_after);
    let grace = Duration::from_secs(2);
    assert!(closed_after > grace - Duration::from_millis(500), "{closed_after:?}");
    assert!(closed_after < grace + SLACK, "{closed_after:?}");
    assert!(received[0].is_of_type("connection_established"));
    let (mut before, after) = split_at_warning(&received, stage.pushed, grace);
    before.extend(after);
    assert_in_order(&before);
    assert!((before.len() as u64) < stage.pushed, "the data lane was not dropped");
    assert_closed_as_slow(&received);
    stage.server.metric_becomes(ACTIVE, 0.0).await;
    assert_eq!(stage.server.metric(UNDELIVERED).await, 0.0);
}

#[tokio::test]
async fn a_slow_reader_that_recovers_within_the_grace_stays_and_gets_everything() {
    let mut stage = Stage::set("[limits]\nslow_grace = \"2s\"").await;
    stage.push_until_warned(1.0).await;
    let received = stage.read_to(stage.pushed).await;
    let (mut numbers, after) = split_at_warning(&received, stage.pushed, Duration::from_secs(2));
    numbers.extend(after);
    assert_in_order(&numbers);
    assert_eq!(numbers.len() as u64, stage.pushed);
    // The grace must pass without consequence.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(stage.push().await);
    assert_eq!(stage.read_to(stage.pushed).await, [Received::Event(stage.pushed)]);
    assert_eq!(stage.server.metric(DISCONNECTS).await, 0.0);
    assert_eq!(stage.server.metric("gateway_frames_dropped_total").await, 0.0);
}

#[tokio::test]
async fn the_third_slow_episode_in_a_minute_closes_at_once() {
    let mut stage = Stage::set("[limits]\nslow_grace = \"30s\"").await;
    for episode in [1.0, 2.0] {
        stage.push_until_warned(episode).await;
        stage.read_to(stage.pushed).await;
        assert_eq!(stage.server.metric(DISCONNECTS).await, 0.0);
    }
    stage.push_until_warned(3.0).await;
    let received =
        timeout(SLACK + SLACK, trickle(&mut stage.socket, 64 * 1024, Duration::ZERO)).await;
    let received = received.expect("no grace");
    let warning = received.iter().position(Received::is_warning).expect("a warning");
    assert_eq!(received.len() - warning, 3, "the warning, the closing and the Close come last");
    assert_closed_as_slow(&received);
}

#[tokio::test]
async fn a_flood_to_the_hard_cap_is_warned_about_and_closed_without_a_grace() {
    let mut stage = Stage::set("[limits]\nslow_grace = \"30s\"").await;
    let began = now();
    while stage.push().await {}
    assert_eq!(stage.server.metric(WARNINGS).await, 1.0);
    let received = trickle(&mut stage.socket, 64 * 1024, Duration::ZERO).await;
    assert!(now() - began < Duration::from_secs(20), "that was a grace");
    let (before, after) = split_at_warning(&received, stage.pushed, Duration::from_secs(30));
    assert_in_order(&before);
    assert!(after.is_empty(), "the data lane was not dropped: {after:?}");
    assert_closed_as_slow(&received);
    assert_eq!(stage.server.metric(DISCONNECTS).await, 1.0);
    assert_eq!(stage.server.metric(UNDELIVERED).await, 0.0);
}

#[tokio::test]
async fn a_peer_that_never_reads_is_freed_after_the_grace_and_its_signal_counted_as_undelivered() {
    let mut stage = Stage::set("").await;
    stage.push_until_warned(1.0).await;
    let warned_at = now();
    stage.server.metric_becomes(UNDELIVERED, 1.0).await;
    let freed_after = now() - warned_at;
    assert_eq!(stage.server.metric(ACTIVE).await, 0.0);
    assert!(freed_after > SLOW_GRACE - Duration::from_millis(500), "{freed_after:?}");
    assert!(freed_after < SLOW_GRACE + CLOSE_WRITE_DEADLINE + SLACK, "{freed_after:?}");
    assert_eq!(stage.server.metric(DISCONNECTS).await, 1.0);
    stage.server.logged(&["disconnected", "slow_consumer"]).await;
    assert!(stage.server.metric("gateway_frames_dropped_total").await > 100.0);
    let Stage { server, pusher, socket: _unread, idle_sockets, .. } = stage;
    drop(pusher);
    let freed = async {
        while server.open_sockets() > idle_sockets {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, freed).await.expect("the socket is closed");
}

#[tokio::test]
async fn a_pause_of_the_server_is_not_held_against_a_slow_reader() {
    let mut stage = Stage::set("[limits]\nslow_grace = \"2s\"").await;
    stage.push_until_warned(1.0).await;
    stage.server.signal("STOP").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (server, socket) = (&stage.server, &mut stage.socket);
    let last = stage.pushed;
    let read = async {
        let mut received = Vec::new();
        while received.last() != Some(&Received::Event(last)) {
            received.extend(Received::of(&socket.frame().await));
        }
        received
    };
    let (received, ()) = tokio::join!(read, async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.signal("CONT").await;
    });
    assert_in_order(&events(&received));
}
