//! Concurrent faults: devices connect and disconnect on all nodes while nodes are killed, paused
//! and cut off, and Redis is wiped and paused. Afterwards every route and every presence must be
//! right.

use std::collections::BTreeMap;
use std::time::Duration;

use heartline_runtime::Random;
use heartline_testing::{PATIENCE, eventually};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::directory::Connection;
use crate::nodes::{Cluster, LEASE, Network, Setup, is_long, now};
use crate::recording_socket::RecordingSocket;

/// The users that connect and disconnect.
const USERS: [&str; 12] =
    ["ana", "bo", "cy", "dee", "eve", "fay", "gil", "hal", "ida", "jo", "kim", "lou"];

const DEVICES: [&str; 3] = ["phone", "laptop", "tablet"];

/// How long after the last fault everything must be right.
const QUIET: Duration = Duration::from_secs(20);

/// The faults of engines and nodes. The first node is never killed, because an observer is
/// connected to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Stop,
    Cut,
    CutUpstream,
    CutDownstream,
    Refuse,
    Wipe,
    PauseRedis,
}

const FAULTS: [Fault; 8] = [
    Fault::Kill,
    Fault::Stop,
    Fault::Cut,
    Fault::CutUpstream,
    Fault::CutDownstream,
    Fault::Refuse,
    Fault::Wipe,
    Fault::PauseRedis,
];

/// A device with a connection that it has not seen close.
struct Device {
    user: &'static str,
    connection: Connection,
    recording: RecordingSocket,
}

struct Chaos {
    cluster: Cluster,
    devices: Vec<Device>,
    random: StdRng,
    /// The node that is paused.
    stopped: Option<String>,
    arrivals: usize,
    departures: usize,
}

impl Chaos {
    /// One device comes, goes or is lost.
    async fn step(&mut self) {
        sleep(Duration::from_millis(self.random.random_range(20..200))).await;
        self.forget_ended();
        if self.devices.len() > 30 || (!self.devices.is_empty() && self.random.random_bool(0.4)) {
            let place = self.random.random_range(0..self.devices.len());
            drop(self.devices.swap_remove(place));
            self.departures += 1;
            return;
        }
        let nodes = self.cluster.every();
        let usable: Vec<_> = nodes.filter(|it| Some(&it.id) != self.stopped.as_ref()).collect();
        let node = usable.choose(&mut self.random).unwrap();
        let user = *USERS.choose(&mut self.random).unwrap();
        let device = *DEVICES.choose(&mut self.random).unwrap();
        let connected = timeout(PATIENCE, node.device(user, device)).await;
        let (socket, connection) = connected.expect("a socket is accepted, whatever is down");
        self.devices.push(Device { user, connection, recording: RecordingSocket::of(socket) });
        self.arrivals += 1;
    }

    /// Forgets devices whose connection has ended, which must have been for a reason.
    fn forget_ended(&mut self) {
        let living: Vec<String> = self.cluster.every().map(|node| node.id.clone()).collect();
        self.devices.retain(|device| {
            if device.recording.is_open() {
                return true;
            }
            let is_killed = !living.contains(&device.connection.node);
            let is_replaced = device.recording.received().iter().any(|received| {
                received.frame["type"] == "connection_closing"
                    && received.frame["reason"] == "session_replaced"
            });
            assert!(is_killed || is_replaced, "{:#?}", device.recording.received());
            false
        });
    }

    async fn steps_for(&mut self, duration: Duration) {
        let until = now() + duration;
        while now() < until {
            self.step().await;
        }
    }

    /// Lets something fail for a while, during which devices come and go.
    async fn fail(&mut self, fault: Fault) {
        let duration =
            Duration::from_millis(self.random.random_range(500..LEASE.as_millis() as u64));
        let number = self.random.random_range(0..self.cluster.every().count());
        println!("{fault:?} of node {number} for {duration:?}");
        match fault {
            Fault::Kill => {
                let number = number.max(1);
                self.cluster.lose(number).await;
                self.steps_for(duration).await;
                self.cluster.add_node().await;
            }
            Fault::Stop => {
                let node = self.cluster.node(number);
                node.signal("STOP").await;
                self.stopped = Some(node.id.clone());
                self.steps_for(duration).await;
                self.cluster.node(number).signal("CONT").await;
                self.stopped = None;
            }
            Fault::Cut => self.cluster.node(number).network().cut(),
            Fault::CutUpstream => self.cluster.node(number).network().cut_upstream(),
            Fault::CutDownstream => self.cluster.node(number).network().cut_downstream(),
            Fault::Refuse => self.cluster.node(number).network().refuse(),
            Fault::Wipe => {
                self.cluster.redis.command(&["FLUSHALL"]);
                self.steps_for(duration).await;
            }
            Fault::PauseRedis => {
                self.cluster.redis.pause();
                self.steps_for(duration).await;
                self.cluster.redis.resume();
            }
        }
        let networks = [Fault::Cut, Fault::CutUpstream, Fault::CutDownstream, Fault::Refuse];
        if networks.contains(&fault) {
            self.steps_for(duration).await;
            self.cluster.node(number).network().heal();
        }
    }

    /// The routes that there should be, and the connections.
    fn truth(&self, user: &str) -> (BTreeMap<String, String>, Vec<String>) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut connections = Vec::new();
        for device in self.connected(user) {
            *counts.entry(device.connection.node.clone()).or_default() += 1;
            connections.push(device.connection.id.clone());
        }
        connections.sort();
        (counts.into_iter().map(|(node, count)| (node, count.to_string())).collect(), connections)
    }

    /// Everything in Redis is as it should be.
    fn is_right(&self) -> Result<(), String> {
        for user in USERS {
            let (routes, connections) = self.truth(user);
            let found = (self.cluster.routes(user), self.cluster.connections(user));
            if found != (routes.clone(), connections.clone()) {
                return Err(format!("{user} is at {routes:?} {connections:?}, found {found:?}"));
            }
        }
        Ok(())
    }

    /// The devices of a user whose connections were not closed.
    fn connected(&self, user: &str) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(move |device| device.user == user && device.recording.is_open())
    }

    fn is_online(&self, user: &str) -> bool {
        self.connected(user).next().is_some()
    }
}

/// The last presence that an observer received of each user.
fn beliefs(snapshot: &[Value], observer: &RecordingSocket) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let received = observer.received().into_iter().map(|received| received.frame);
    let told = received.filter(|frame| frame["type"] == "presence_changed");
    let all = snapshot.iter().cloned().chain(told);
    all.map(|seen| (text(&seen["user_id"]), text(&seen["status"]))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_mix_of_faults_everybody_is_found_and_seen_as_they_are() {
    let seed = std::env::var("HEARTLINE_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|| Random::system().draw());
    println!("HEARTLINE_SEED={seed}");
    let cluster = Setup::nodes(3).network(Network::FaultyToRedis).start().await;
    let mut observer = cluster.all::<3>()[0].connect("observer").await;
    let snapshot = observer.subscribe(&USERS).await;
    let observer = RecordingSocket::of(observer);
    let (devices, random) = (Vec::new(), StdRng::seed_from_u64(seed));
    let mut chaos = Chaos { cluster, devices, random, stopped: None, arrivals: 0, departures: 0 };
    let rounds = if is_long() { 8 } else { 1 };
    for _ in 0..rounds {
        let mut faults = FAULTS;
        faults.shuffle(&mut chaos.random);
        for fault in faults {
            chaos.fail(fault).await;
            chaos.steps_for(Duration::from_secs(1)).await;
        }
    }
    println!("{} came, {} went", chaos.arrivals, chaos.departures);
    let is_right = async || chaos.is_right().is_ok();
    if timeout(QUIET, eventually("", PATIENCE, is_right)).await.is_err() {
        panic!("seed {seed}: {}", chaos.is_right().unwrap_err());
    }
    chaos.forget_ended();
    let (nodes, users): (Vec<_>, Vec<&str>) = (chaos.cluster.every().collect(), USERS.to_vec());
    for node in &nodes {
        for (seen, user) in node.knows("somebody", &users).await.iter().zip(&users) {
            let is_online = seen["status"] == "online";
            assert_eq!(is_online, chaos.is_online(user), "seed {seed}: {seen} on {}", node.id);
        }
    }
    let believes_rightly = async || {
        let believed = beliefs(&snapshot, &observer);
        users.iter().all(|user| (believed[*user] == "online") == chaos.is_online(user))
    };
    assert!(observer.is_open(), "the observer was never cut");
    eventually("the observer was told", QUIET, believes_rightly).await;
    chaos.devices.iter().for_each(|device| assert!(device.recording.is_open()));
}
