//! Very many devices that do not read do not slow down the others.

use std::time::Duration;

use heartline_testing::PATIENCE;
use tokio::time::timeout;

use crate::HEARTLINE;
use crate::peers::{Attentive, Pusher, Received, connect_narrow, now};

const ACTIVE: &str = "gateway_connections_active";
const WARNINGS: &str = "gateway_slow_consumer_warnings_total";

const MIB: u64 = 1024 * 1024;

/// Bytes that a stalled device's own kernel takes.
const RECEIVE_BYTES: u32 = 16 * 1024;

fn users(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{kind}-{number}")).collect()
}

#[tokio::test]
async fn two_hundred_stalled_readers_cost_little_memory_and_hold_up_nobody() {
    let server = HEARTLINE.start().await;
    let mut stalled = Vec::new();
    let mut receivers = users("stalled", 200);
    for user in &receivers {
        stalled.push(connect_narrow(&server, user, RECEIVE_BYTES).await);
    }
    let mut healthy = Vec::new();
    for user in users("healthy", 5) {
        healthy.push(Attentive::new(server.connect(&user).await));
        receivers.push(user);
    }
    server.metric_becomes(ACTIVE, 205.0).await;
    let before = server.resident_bytes();
    let mut pusher = Pusher::new(&server).await;
    let (mut number, mut peak, mut slowest) = (0, before, Duration::ZERO);
    // Far enough that all have been warned, and on until all are gone.
    while server.metric(ACTIVE).await > 5.0 {
        number += 1;
        let pushed_at = now();
        pusher.push(&receivers, number, 8 * 1024).await;
        for device in &mut healthy {
            device.has(number).await;
        }
        slowest = slowest.max(now() - pushed_at);
        peak = peak.max(server.resident_bytes());
        if server.metric(WARNINGS).await >= 200.0 {
            // All outboxes are full; the wait for the grace needs no more.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let growth = peak - before;
    assert!(growth < 64 * MIB, "{growth} bytes for 200 MiB of outboxes that share theirs");
    assert!(slowest < Duration::from_secs(5), "a push took {slowest:?} to arrive");
    assert_eq!(server.metric("gateway_slow_consumer_disconnects_total").await, 200.0);
    server.metric_becomes("gateway_signals_undelivered_total", 200.0).await;
    server.metric_becomes("gateway_outbox_bytes", 0.0).await;
    assert!(healthy.iter_mut().all(Attentive::is_open));
}

#[tokio::test]
async fn when_all_outboxes_hold_too_much_new_sockets_are_refused_and_then_the_fullest_shed() {
    let configuration = "[limits]\noutbox_memory_percent = 1\noutbox_bytes = 1073741824\n\
                         outbox_messages = 1000000\n[gateway]\nheartbeat_interval = \"60s\"\n\
                         heartbeat_timeout = \"120s\"";
    let server = HEARTLINE.start_with(configuration).await;
    let (full, light) = (users("full", 20), users("light", 200));
    let mut full_sockets = Vec::new();
    let mut light_sockets = Vec::new();
    for user in &full {
        full_sockets.push(connect_narrow(&server, user, RECEIVE_BYTES).await);
    }
    for user in &light {
        light_sockets.push(connect_narrow(&server, user, RECEIVE_BYTES).await);
    }
    let everybody = [full.clone(), light].concat();
    server.metric_becomes(ACTIVE, 220.0).await;
    let capacity = server.metric("gateway_outbox_capacity_bytes").await;
    // The full ones get three events where the others get one; a round is at most 2 percent.
    let bytes = (capacity / 50.0 / 260.0).min(15_000.0) as usize;
    let rounds_max = (capacity / (bytes as f64 * 260.0) * 2.0) as u64 + 100;
    let mut pusher = Pusher::new(&server).await;
    let overloaded = "gateway_disconnects_total{reason=\"overloaded\"}";
    let mut was_refused = false;
    for round in 0.. {
        assert!(round < rounds_max, "nobody was shed after {round} rounds of {bytes} bytes");
        pusher.push(&everybody, 3 * round + 1, bytes).await;
        pusher.push(&full, 3 * round + 2, bytes).await;
        pusher.push(&full, 3 * round + 3, bytes).await;
        let used = server.metric("gateway_outbox_bytes").await;
        if used > 0.91 * capacity && !was_refused {
            let upgrade = server.upgrade(&[]).await;
            assert_eq!(upgrade.status, 503);
            assert!(upgrade.headers.contains_key("retry-after"));
            let ready = server.http("GET", "/readyz", "", None).await;
            assert_eq!(ready.status, 503);
            assert!(ready.body.contains("outbox_memory"), "{}", ready.body);
            was_refused = true;
        }
        if used < 0.9 * capacity && was_refused {
            break;
        }
    }
    // Those that are being closed have 2 s to hear why; the others hear all that waits for them.
    let mut readers: Vec<_> = full_sockets.into_iter().map(Attentive::new).collect();
    let mut told = 0.0;
    let all_told = async {
        while told == 0.0 || told < server.metric(overloaded).await {
            for received in readers.iter_mut().filter_map(Attentive::ended_already) {
                let [.., closing, close] = &received[..] else { panic!("{received:?}") };
                assert!(closing.is_of_type("connection_closing"), "{closing:?}");
                assert_eq!(*close, Received::Close(1013, "overloaded".to_owned()));
                told += 1.0;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, all_told).await.expect("whoever is shed is told");
    server.metric_becomes(ACTIVE, 220.0 - told).await;
    assert_eq!(server.metric(overloaded).await, told, "only the fullest were shed");
    assert_eq!(server.metric("gateway_signals_undelivered_total").await, 0.0);
    server.connect("newcomer").await;
}
