use std::sync::{Mutex, MutexGuard};

use heartline_protocol::{ChatId, Timestamp};
use heartline_runtime::TaskSet;

use super::*;
use crate::directory::NodeRecord;
use crate::link::{Delivery, Departures, RETURNS_MAX, ResyncReason, Transport};
use crate::memory::MemoryDirectory;

/// The fault of one transport of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Parcels are accepted, and never arrive.
    Swallow,
    /// Parcels are not sent, and are returned.
    Return,
    /// Parcels are sent and returned nevertheless, as after a timeout.
    Both,
    /// Parcels are refused.
    Full,
}

type Receptions = Arc<Mutex<Map<NodeId, Arc<Reception>>>>;

/// One transport of one node.
#[derive(Debug)]
struct Wire {
    transport: Transport,
    receptions: Receptions,
    departures: Mutex<Departures>,
    /// Nodes that receive nothing on this transport.
    deaf: Arc<Mutex<Vec<NodeId>>>,
    fault: Mutex<Fault>,
    reach: Mutex<Map<NodeId, Reach>>,
    returns: mpsc::Sender<Returned>,
}

impl Wire {
    fn set(&self, fault: Fault) {
        *locked(&self.fault) = fault;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

#[async_trait]
impl Carrier for Wire {
    async fn carry(
        &self,
        receiver: &NodeId,
        _address: Option<&str>,
        mut parcel: Parcel,
    ) -> Result<(), Refused> {
        let fault = *locked(&self.fault);
        if fault == Fault::Full {
            return Err(Refused { error: LinkError::Full, parcel });
        }
        locked(&self.departures).stamp(receiver, &mut parcel);
        let reception = locked(&self.receptions).get(receiver).cloned();
        let is_heard = matches!(fault, Fault::None | Fault::Both);
        if is_heard && !locked(&self.deaf).contains(receiver) {
            let Some(reception) = reception else {
                return Err(Refused { error: LinkError::Gone, parcel });
            };
            let bytes = parcel.as_bytes().to_vec().into();
            reception.receive(self.transport, bytes).await.unwrap();
        }
        if matches!(fault, Fault::Return | Fault::Both) {
            let returned = Returned { receiver: receiver.clone(), parcel };
            self.returns.try_send(returned).unwrap();
        }
        Ok(())
    }

    fn last_number(&self, receiver: &NodeId) -> u64 {
        locked(&self.departures).last(receiver)
    }

    fn lose(&self, receiver: &NodeId) {
        locked(&self.departures).next(receiver);
    }

    fn forget(&self, receiver: &NodeId) {
        locked(&self.departures).forget(receiver);
    }
}

#[async_trait]
impl DirectCarrier for Wire {
    async fn who_is_at(&self, address: &str) -> Result<NodeId, LinkError> {
        let node_id: NodeId = address.parse().map_err(|_| LinkError::Gone)?;
        locked(&self.receptions).contains_key(&node_id).then_some(node_id).ok_or(LinkError::Gone)
    }

    fn reach(&self, node_id: &NodeId) -> Reach {
        locked(&self.reach).get(node_id).copied().unwrap_or(Reach::Connected)
    }
}

/// A network of nodes in one process, whose time advances while nothing happens.
struct Network {
    receptions: Receptions,
    deaf: Arc<Mutex<Vec<NodeId>>>,
    directory: Arc<MemoryDirectory>,
    tasks: TaskSet<()>,
}

struct Node {
    id: NodeId,
    link: Arc<ClusterLink>,
    broker: Arc<Wire>,
    direct: Arc<Wire>,
    inbox: mpsc::Receiver<Envelope>,
}

impl Network {
    fn new() -> Self {
        let directory = Arc::new(MemoryDirectory::new(1, Clock::system()));
        let (receptions, deaf) = (Receptions::default(), Arc::default());
        Self { receptions, deaf, directory, tasks: TaskSet::new() }
    }

    /// A node that the directory lists. In this network a node's address is its id.
    async fn node(&mut self, name: &str) -> Node {
        let node = self.unlisted(name, &[]);
        let record = NodeRecord {
            node_id: node.id.clone(),
            address: Some(name.to_owned()),
            planes: String::new(),
            started_at: Timestamp { unix_ms: 0 },
            connections: 0,
        };
        self.directory.announce(&record, Duration::from_secs(100_000)).await.unwrap();
        node
    }

    fn unlisted(&mut self, name: &str, peers: &[&str]) -> Node {
        let id: NodeId = name.parse().unwrap();
        let (reception, inbox) =
            Reception::new(id.clone(), Clock::system(), LinkMetrics::default());
        locked(&self.receptions).insert(id.clone(), Arc::clone(&reception));
        let (returns, returned) = mpsc::channel(RETURNS_MAX);
        let wire = |transport, deaf| {
            Arc::new(Wire {
                transport,
                receptions: Arc::clone(&self.receptions),
                departures: Mutex::default(),
                deaf,
                fault: Mutex::new(Fault::None),
                reach: Mutex::default(),
                returns: returns.clone(),
            })
        };
        let broker = wire(Transport::Broker, Arc::clone(&self.deaf));
        let direct = wire(Transport::Direct, Arc::default());
        let link = ClusterLink::new(ClusterParts {
            address: Some(name.to_owned()),
            peers: peers.iter().copied().map(str::to_owned).collect(),
            reception,
            broker: Arc::clone(&broker) as Arc<dyn Carrier>,
            direct: Arc::clone(&direct) as Arc<dyn DirectCarrier>,
            nodes: Arc::clone(&self.directory) as Arc<dyn Nodes>,
            clock: Clock::system(),
        });
        self.tasks.spawn(Arc::clone(&link).run(returned));
        Node { id, link, broker, direct, inbox }
    }
}

impl Node {
    async fn send(&self, to: &Node, sequence: u64) -> Result<(), LinkError> {
        self.link.send(&to.id, message(sequence, 10)).await
    }

    /// The sequences of the received messages, and the number of resyncs.
    fn received(&mut self) -> (Vec<u64>, usize) {
        let (mut messages, mut resyncs) = (Vec::new(), 0);
        while let Ok(envelope) = self.inbox.try_recv() {
            match envelope {
                Envelope::Message(delivery) => messages.push(delivery.sequence),
                Envelope::Resync { reason: ResyncReason::LinkGap, .. } => resyncs += 1,
                other => panic!("nobody sends {other:?}"),
            }
        }
        (messages, resyncs)
    }

    fn envelopes_sent_directly_to(&self, other: &Node) -> bool {
        self.direct.last_number(&other.id) > 0
    }
}

fn message(sequence: u64, frame_bytes: usize) -> Envelope {
    Envelope::Message(Delivery {
        chat_id: ChatId(1_u128.into()),
        sequence,
        user_ids: Arc::new([]),
        frame: "x".repeat(frame_bytes).into(),
        origin: None,
        committed_at: None,
    })
}

async fn seconds(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

/// Two nodes that know each other.
async fn pair() -> (Network, Node, Node) {
    let mut network = Network::new();
    let (a, b) = (network.node("a-1").await, network.node("b-1").await);
    seconds(2.5).await;
    assert_eq!(a.link.peers(), std::slice::from_ref(&b.id));
    (network, a, b)
}

#[tokio::test(start_paused = true)]
async fn an_envelope_for_the_node_itself_uses_no_carrier() {
    let (_network, mut a, _b) = pair().await;
    a.link.send(&a.id, message(1, 10)).await.unwrap();
    assert_eq!(a.received(), (vec![1], 0));
    assert_eq!(a.broker.last_number(&a.id), 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_envelope_before_silence_is_missed_within_two_and_a_half_seconds() {
    let (_network, a, mut b) = pair().await;
    // The probe through the broker is sufficient without a status.
    a.direct.set(Fault::Swallow);
    a.send(&b, 1).await.unwrap();
    a.broker.set(Fault::Swallow);
    a.send(&b, 2).await.unwrap();
    a.broker.set(Fault::None);
    assert_eq!(b.received(), (vec![1], 0));
    seconds(2.5).await;
    assert_eq!(b.received(), (vec![], 1));
    a.send(&b, 3).await.unwrap();
    seconds(10.0).await;
    assert_eq!(b.received(), (vec![3], 0), "it is reported once");
}

#[tokio::test(start_paused = true)]
async fn silence_is_no_loss() {
    let (_network, mut a, mut b) = pair().await;
    seconds(100.0).await;
    // A direct link that drops its statuses for a while loses no envelope.
    a.direct.set(Fault::Swallow);
    seconds(10.0).await;
    a.direct.set(Fault::None);
    seconds(10.0).await;
    assert_eq!((a.received(), b.received()), ((vec![], 0), (vec![], 0)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_broker_does_not_reach_is_sent_everything_directly() {
    let (network, a, mut b) = pair().await;
    locked(&network.deaf).push(b.id.clone());
    a.send(&b, 1).await.unwrap();
    seconds(4.5).await;
    assert!(!b.link.broker_is_healthy() && a.link.broker_is_healthy());
    assert_eq!(a.link.cut_off(), std::slice::from_ref(&b.id));
    assert_eq!(b.received(), (vec![], 1), "the loss before the change is reported");
    a.send(&b, 2).await.unwrap();
    assert_eq!(b.received(), (vec![2], 0));
    assert!(a.envelopes_sent_directly_to(&b));
    // No node probes an unreachable one, and nothing more is missing.
    seconds(20.0).await;
    assert!(b.link.is_worse_off() && !a.link.is_worse_off());
    assert_eq!(b.received(), (vec![], 0));
    locked(&network.deaf).clear();
    seconds(2.5).await;
    assert!(a.link.cut_off().is_empty() && !b.link.is_worse_off());
    let direct = a.direct.last_number(&b.id);
    a.send(&b, 3).await.unwrap();
    assert_eq!(b.received(), (vec![3], 0));
    assert_eq!(a.direct.last_number(&b.id), direct);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_status_is_sent_at_once() {
    let (network, a, b) = pair().await;
    for is_deaf in [true, false] {
        match is_deaf {
            true => locked(&network.deaf).push(b.id.clone()),
            false => locked(&network.deaf).clear(),
        }
        while b.link.broker_is_healthy() == is_deaf {
            seconds(0.01).await;
        }
        seconds(0.01).await;
        assert_eq!(!a.link.cut_off().is_empty(), is_deaf);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_worse_off_when_the_broker_is_down_for_all() {
    let (network, a, mut b) = pair().await;
    locked(&network.deaf).extend([a.id.clone(), b.id.clone()]);
    seconds(30.0).await;
    for node in [&a, &b] {
        assert!(!node.link.broker_is_healthy() && !node.link.is_worse_off());
        assert_eq!(node.link.cut_off().len(), 1);
    }
    a.send(&b, 1).await.unwrap();
    assert_eq!(b.received(), (vec![1], 0));
}

#[tokio::test(start_paused = true)]
async fn a_parcel_that_the_broker_returns_is_sent_directly_and_is_no_gap() {
    let (_network, a, mut b) = pair().await;
    a.broker.set(Fault::Return);
    a.send(&b, 1).await.unwrap();
    a.send(&b, 2).await.unwrap();
    a.broker.set(Fault::None);
    seconds(0.1).await;
    assert_eq!(b.received(), (vec![1, 2], 0));
    // For a moment the broker is not tried again for that node.
    let last = a.broker.last_number(&b.id);
    a.send(&b, 3).await.unwrap();
    assert_eq!(a.broker.last_number(&b.id), last);
    seconds(10.0).await;
    a.send(&b, 4).await.unwrap();
    assert_eq!(a.broker.last_number(&b.id), last + 1);
    seconds(10.0).await;
    assert_eq!(b.received(), (vec![3, 4], 0));
}

#[tokio::test(start_paused = true)]
async fn a_parcel_that_the_broker_publishes_and_returns_is_received_once() {
    let (_network, a, mut b) = pair().await;
    a.broker.set(Fault::Both);
    a.send(&b, 1).await.unwrap();
    seconds(5.0).await;
    assert_eq!(b.received(), (vec![1], 0));
}

#[tokio::test(start_paused = true)]
async fn a_parcel_that_no_transport_sends_is_a_gap() {
    let (_network, a, mut b) = pair().await;
    a.broker.set(Fault::Return);
    a.direct.set(Fault::Full);
    a.send(&b, 1).await.unwrap();
    seconds(1.0).await;
    a.broker.set(Fault::None);
    a.direct.set(Fault::None);
    seconds(3.0).await;
    assert_eq!(b.received(), (vec![], 1));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_of_the_broker_is_bypassed() {
    let (_network, a, mut b) = pair().await;
    a.broker.set(Fault::Full);
    a.send(&b, 1).await.unwrap();
    assert_eq!(b.received(), (vec![1], 0));
}

#[tokio::test(start_paused = true)]
async fn a_parcel_that_no_carrier_accepts_is_a_gap_on_the_next_working_transport() {
    let (_network, a, mut b) = pair().await;
    for (reach, heals) in [(Reach::Connected, &a.direct), (Reach::Unreachable, &a.broker)] {
        locked(&a.direct.reach).insert(b.id.clone(), reach);
        a.broker.set(Fault::Full);
        a.direct.set(Fault::Full);
        assert_eq!(a.send(&b, 1).await, Err(LinkError::Full));
        heals.set(Fault::None);
        seconds(2.5).await;
        assert_eq!(b.received(), (vec![], 1), "{reach:?}");
        a.broker.set(Fault::None);
        a.direct.set(Fault::None);
        seconds(10.0).await;
        assert_eq!(b.received(), (vec![], 0), "it is reported once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_nobody_knows_is_reached_through_the_broker_or_not_at_all() {
    let (mut network, a, _b) = pair().await;
    let mut c = network.unlisted("c-1", &[]);
    c.direct.set(Fault::Swallow);
    a.send(&c, 1).await.unwrap();
    assert_eq!(c.received(), (vec![1], 0));
    locked(&network.deaf).push(a.id.clone());
    seconds(4.0).await;
    assert_eq!(a.send(&c, 2).await, Err(LinkError::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_configured_address_introduces_both_sides() {
    let mut network = Network::new();
    let a = network.unlisted("a-1", &["a-1"]);
    let b = network.unlisted("b-1", &["a-1", "b-1", "nobody"]);
    seconds(4.0).await;
    assert_eq!(b.link.peers(), std::slice::from_ref(&a.id));
    assert_eq!(a.link.peers(), std::slice::from_ref(&b.id), "a learns it from b's status");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_forgotten_unless_the_directory_lists_it() {
    let (network, a, b) = pair().await;
    locked(&network.receptions).remove(&b.id);
    b.direct.set(Fault::Swallow);
    locked(&a.direct.reach).insert(b.id.clone(), Reach::Gone);
    for _ in 0..100 {
        seconds(0.1).await;
        assert_eq!(a.link.peers(), std::slice::from_ref(&b.id));
    }
    network.directory.withdraw(&b.id).await.unwrap();
    seconds(5.0).await;
    assert!(a.link.peers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_only_silent_is_remembered_for_ten_minutes() {
    let (network, a, b) = pair().await;
    network.directory.withdraw(&b.id).await.unwrap();
    b.direct.set(Fault::Swallow);
    seconds(590.0).await;
    assert_eq!(a.link.peers(), std::slice::from_ref(&b.id));
    seconds(20.0).await;
    assert!(a.link.peers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_envelope_that_is_too_large_is_refused() {
    let (_network, a, mut b) = pair().await;
    let sent = a.link.send(&b.id, message(1, PARCEL_BYTES_MAX)).await;
    assert_eq!(sent, Err(LinkError::Full));
    seconds(2.5).await;
    assert_eq!(b.received(), (vec![], 1), "and its receiver detects the gap");
}

#[tokio::test(start_paused = true)]
async fn a_node_knows_when_it_is_subscribed() {
    let mut network = Network::new();
    let a: NodeId = "a-1".parse().unwrap();
    locked(&network.deaf).push(a);
    let node = network.node("a-1").await;
    assert!(timeout(Duration::from_secs(60), node.link.subscribed()).await.is_err());
    locked(&network.deaf).clear();
    timeout(Duration::from_secs(2), node.link.subscribed()).await.unwrap();
}
