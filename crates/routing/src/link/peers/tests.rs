use heartline_protocol::Timestamp;

use super::*;
use crate::directory::NodeRecord;
use heartline_runtime::Clock;

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn listed(name: &str, address: Option<&str>) -> LiveNode {
    let record = NodeRecord {
        node_id: node(name),
        address: address.map(str::to_owned),
        planes: String::new(),
        started_at: Timestamp { unix_ms: 0 },
        connections: 0,
    };
    LiveNode { record, remaining: seconds(15.0) }
}

fn status(broker_is_healthy: bool) -> Status {
    Status { broker_is_healthy, broker_number: 0, address: Some("address".to_owned()) }
}

/// A node that knows one other, which the directory lists.
fn peers(now: Instant) -> Peers {
    let mut peers = Peers::new(node("own-1"));
    let nodes = vec![listed("own-1", None), listed("b-1", Some("address"))];
    assert_eq!(peers.listed(nodes, now), [node("b-1")]);
    peers
}

#[test]
fn the_transport_to_a_node_depends_on_the_status_of_both_ends() {
    let now = Clock::system().now();
    let (b, address) = (node("b-1"), Arc::<str>::from("address"));
    let mut peers = peers(now);
    let broker = || Some(Way::Broker(Some(address.clone())));
    let direct = || Some(Way::Direct(address.clone()));
    assert_eq!(peers.way(&b, true, now), broker());
    assert_eq!(peers.way(&b, false, now), direct(), "this node does not reach the broker");
    peers.record_status(&b, status(false), now);
    assert_eq!(peers.way(&b, true, now), direct(), "the node does not reach the broker");
    assert_eq!(peers.way(&b, true, now + STATUS_AGE_MAX), broker(), "that was long ago");
    peers.record_status(&b, status(true), now);
    peers.returned(&b, now);
    let doubtful = Some(Way::DirectOrBroker(address.clone()));
    assert_eq!(peers.way(&b, true, now), doubtful, "the broker returned a parcel");
    assert_eq!(peers.way(&b, true, now + RETURN_PAUSE), broker());
    assert_eq!(peers.way(&node("new-1"), true, now), Some(Way::Broker(None)));
    assert_eq!(peers.way(&node("new-1"), false, now), None);
}

#[test]
fn a_node_without_an_address_is_reached_through_the_broker_only() {
    let now = Clock::system().now();
    let mut peers = Peers::new(node("own-1"));
    peers.listed(vec![listed("b-1", None)], now);
    assert_eq!(peers.way(&node("b-1"), true, now), Some(Way::Broker(None)));
    assert_eq!(peers.way(&node("b-1"), false, now), None);
}

#[test]
fn a_change_of_a_nodes_broker_link_is_reported_once() {
    let now = Clock::system().now();
    let (b, mut peers) = (node("b-1"), peers(now));
    assert_eq!(peers.record_status(&b, status(true), now), None);
    assert_eq!(peers.record_status(&b, status(false), now), Some(false));
    assert_eq!(peers.record_status(&b, status(false), now), None);
    assert_eq!(peers.cut_off(now), std::slice::from_ref(&b));
    assert_eq!(peers.record_status(&b, status(true), now), Some(true));
    assert!(peers.cut_off(now).is_empty());
    assert_eq!(peers.statuses(now).len(), 1);
    assert!(peers.statuses(now + STATUS_AGE_MAX).is_empty());
}

#[test]
fn a_probe_is_due_two_seconds_after_the_last_parcel() {
    let now = Clock::system().now();
    let (b, mut peers) = (node("b-1"), peers(now));
    assert_eq!(peers.probes_due(now), std::slice::from_ref(&b));
    assert!(peers.probes_due(now + seconds(1.9)).is_empty());
    peers.way(&b, true, now + seconds(1.9));
    assert!(peers.probes_due(now + seconds(3.8)).is_empty());
    assert_eq!(peers.probes_due(now + seconds(3.9)), std::slice::from_ref(&b));
    peers.record_status(&b, status(false), now + seconds(7.0));
    assert!(peers.probes_due(now + seconds(8.0)).is_empty(), "no node would receive it");
}

#[test]
fn a_node_is_forgotten_when_it_is_gone_and_unlisted_or_long_unseen() {
    let now = Clock::system().now();
    let (b, mut peers) = (node("b-1"), peers(now));
    let is_gone = |_: &NodeId| true;
    let is_there = |_: &NodeId| false;
    assert!(peers.forget(is_gone, now + seconds(1.0)).is_empty(), "it is listed");
    assert!(peers.forget(is_there, now + seconds(599.0)).is_empty());
    assert!(peers.knows(&b));
    peers.record_status(&b, status(true), now + seconds(500.0));
    assert!(peers.forget(is_there, now + seconds(700.0)).is_empty(), "it spoke");
    assert_eq!(peers.forget(is_gone, now + seconds(700.0)), std::slice::from_ref(&b));
    peers.add(&b, None, now);
    assert_eq!(peers.forget(is_there, now + PEER_MEMORY), std::slice::from_ref(&b));
    assert!(peers.node_ids().is_empty());
}

#[test]
fn an_address_is_kept_until_another_one_is_known() {
    let now = Clock::system().now();
    let (b, mut peers) = (node("b-1"), peers(now));
    peers.add(&b, None, now);
    assert_eq!(peers.addresses(), [(b.clone(), Some("address".into()))]);
    peers.add(&b, Some("other".to_owned()), now);
    assert_eq!(peers.addresses(), [(b.clone(), Some("other".into()))]);
}

#[test]
fn the_record_of_nodes_is_bounded() {
    let now = Clock::system().now();
    let mut peers = Peers::new(node("own-1"));
    for number in 0..PEERS_MAX + 5 {
        peers.add(&node(&format!("node-{number}")), None, now);
    }
    assert_eq!(peers.node_ids().len(), PEERS_MAX);
    assert_eq!(peers.add(&node("own-1"), None, now), None);
}
