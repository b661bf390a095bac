//! Direct links by themselves: nodes without Redis that find each other by `cluster.peers`, and
//! everything that a direct link must refuse or survive.

use std::time::Duration;

use heartline_engines::FaultProxy;
use heartline_routing::link::{ReasonLabel, Transport};
use heartline_routing::{LinkError, NodeLink};
use heartline_runtime::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::directory::{Listed, record};
use crate::harness::{Node, PATIENCE, PROMPT, Setting, free_address, until};

/// Two nodes without Redis; the second has the address of the first.
async fn pair() -> (Node, Node) {
    let listed = Listed::default();
    let a = Node::start(Setting::new("a", None, &listed)).await;
    let b = Node::start(Setting {
        peers: vec![a.address.to_string()],
        ..Setting::new("b", None, &listed)
    })
    .await;
    acquainted(&a, &b).await;
    (a, b)
}

/// Waits until both know each other, and that neither has Redis.
async fn acquainted(a: &Node, b: &Node) {
    for (node, other) in [(a, b), (b, a)] {
        let knows = || {
            let statuses = node.link.peer_statuses();
            let heard = statuses.iter().find(|status| status.node_id == other.id);
            !node.link.broker_is_healthy() && heard.is_some_and(|status| !status.broker_is_healthy)
        };
        until("nodes knowing each other", PATIENCE, knows).await;
    }
}

fn refusals(node: &Node, reason: &'static str) -> u64 {
    node.metrics.refusals.get_or_create(&ReasonLabel { reason }).get()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_find_each_other_without_redis_and_envelopes_keep_their_order() {
    let (mut a, mut b) = pair().await;
    assert_eq!(a.link.peers(), std::slice::from_ref(&b.id));
    for sequence in 1..=5000 {
        b.send(&a.id, sequence).await.unwrap();
        if sequence % 500 == 0 {
            let heard = a.hears(sequence, PATIENCE).await;
            assert_eq!(heard.messages, Vec::from_iter(sequence - 499..=sequence));
            assert_eq!(heard.resyncs, 0);
        }
    }
    a.send(&b.id, 1).await.unwrap();
    b.hears(1, PROMPT).await;
    assert_eq!(b.sent(Transport::Direct), 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_ignores_its_own_address_among_the_peers() {
    let listed = Listed::default();
    let address = free_address();
    let node = Node::start(Setting {
        peers: vec![address.to_string()],
        listen: Some(address),
        ..Setting::new("a", None, &listed)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(node.link.peers().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_secret_is_rejected_and_counted() {
    let (mut a, b) = pair().await;
    let listed = Listed::default();
    let stranger = Node::start(Setting {
        peers: vec![a.address.to_string(), b.address.to_string()],
        secret: "a guess",
        ..Setting::new("x", None, &listed)
    })
    .await;
    until("being refused", PATIENCE, || refusals(&a, "unauthorized") > 0).await;
    assert!(stranger.link.peers().is_empty());
    // The same for a sender that names the receiver.
    listed.lock().unwrap().push(record(&a.id, a.address.to_string()));
    until("a being known", PATIENCE, || stranger.link.peers() == std::slice::from_ref(&a.id)).await;
    until("being without Redis", PATIENCE, || !stranger.link.broker_is_healthy()).await;
    let before = refusals(&a, "unauthorized");
    let is_given_up = async {
        while stranger.send(&a.id, 1).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, is_given_up).await.expect("nothing is taken for it");
    until("being refused again", PATIENCE, || refusals(&a, "unauthorized") > before).await;
    assert_eq!(a.link.peers(), std::slice::from_ref(&b.id));
    assert!(a.empty().messages.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_at_the_same_address_is_another_one() {
    let (mut a, b) = pair().await;
    a.send(&b.id, 1).await.unwrap();
    let (old, address) = (b.id.clone(), b.address);
    b.kill().await;
    let mut b = Node::start(Setting {
        peers: vec![a.address.to_string()],
        listen: Some(address),
        ..Setting::new("b", None, &Listed::default())
    })
    .await;
    acquainted(&a, &b).await;
    until("the old one being forgotten", PATIENCE, || {
        a.link.peers() == std::slice::from_ref(&b.id)
    })
    .await;
    assert_eq!(a.send(&old, 2).await, Err(LinkError::Gone));
    assert!(refusals(&b, "other_node") > 0);
    a.send(&b.id, 3).await.unwrap();
    let heard = b.hears(3, PROMPT).await;
    assert_eq!(heard.messages, [3]);
    b.send(&a.id, 4).await.unwrap();
    a.hears(4, PROMPT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_killed_is_gone_within_seconds() {
    let (a, b) = pair().await;
    let old = b.id.clone();
    b.kill().await;
    let killed_at = Clock::system().now();
    let is_refused = async {
        while a.send(&old, 1).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PROMPT * 3, is_refused).await.expect("nothing is taken for it any more");
    until("it being forgotten", PATIENCE, || a.link.peers().is_empty()).await;
    assert!(Clock::system().now() - killed_at < Duration::from_secs(8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_stalls_bounds_its_sender_and_hurts_nobody_else() {
    let (a, mut b) = pair().await;
    let mut c = Node::start(Setting {
        peers: vec![a.address.to_string()],
        ..Setting::new("c", None, &Listed::default())
    })
    .await;
    acquainted(&a, &c).await;
    // Nobody reads b's inbox: first that fills, then the stream, then a's queue.
    let mut taken = 0;
    while a.send(&b.id, taken + 1).await.is_ok() {
        taken += 1;
        assert!(taken < 100_000, "the queue has no bound");
    }
    let refused_at = Clock::system().now();
    for _ in 0..1000 {
        assert_eq!(a.send(&b.id, 0).await, Err(LinkError::Full));
    }
    assert!(Clock::system().now() - refused_at < PROMPT, "who is refused does not wait");
    a.send(&c.id, 1).await.unwrap();
    assert_eq!(c.hears(1, PROMPT).await.resyncs, 0);
    // Everything that was accepted arrives, in order.
    let heard = b.hears(taken, PATIENCE).await;
    assert_eq!(heard.messages, Vec::from_iter(1..=taken));
    // The refused ones used up their numbers, so b sees a gap. The gap is reported at b's next
    // check, before or after the last message.
    if heard.resyncs == 0 {
        b.resyncs(PATIENCE).await;
    }
    a.send(&b.id, taken + 1).await.unwrap();
    b.hears(taken + 1, PROMPT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_between_nodes_is_detected_within_seconds_and_reported_as_a_gap() {
    let listed = Listed::default();
    let address = free_address();
    let proxy = FaultProxy::start(address).await.unwrap();
    let mut b = Node::start(Setting {
        listen: Some(address),
        advertise: Some(proxy.address()),
        ..Setting::new("b", None, &listed)
    })
    .await;
    let a = Node::start(Setting::new("a", None, &listed)).await;
    b.announce();
    let is_connected = || a.metrics.peers_connected.get() == 1;
    until("a reaching b", PATIENCE, is_connected).await;
    until("a being without Redis", PATIENCE, || !a.link.broker_is_healthy()).await;
    a.send(&b.id, 1).await.unwrap();
    b.hears(1, PROMPT).await;
    let cut_at = Clock::system().now();
    proxy.cut();
    // Something is always under way, and is lost when the connection is given up.
    let noticed = async {
        let mut sequence = 2;
        while a.send(&b.id, sequence).await.is_ok() {
            sequence += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, noticed).await.expect("the cut is noticed");
    // Three seconds until it is noticed, one until nothing is queued for it any more.
    assert!(Clock::system().now() - cut_at < Duration::from_secs(6));
    proxy.heal();
    b.resyncs(PATIENCE).await;
    until("a reaching b again", PATIENCE, is_connected).await;
    a.send(&b.id, 1000).await.unwrap();
    b.hears(1000, PROMPT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_the_secret_are_closed() {
    let (a, _b) = pair().await;
    let mut silent = TcpStream::connect(a.address).await.unwrap();
    let mut loud = TcpStream::connect(a.address).await.unwrap();
    loud.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    for socket in [&mut loud, &mut silent] {
        let mut said = Vec::new();
        let ended = timeout(PATIENCE, socket.read_to_end(&mut said)).await;
        assert!(ended.is_ok(), "the connection is ended");
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains(a.id.as_str()), "a stranger learns nothing");
    }
}
