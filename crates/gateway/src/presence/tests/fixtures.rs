//! The fixtures of the presence tests.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::rest::Visibility;
use heartline_protocol::{ConnectionId, UserId};
use heartline_routing::{
    Lease, LeaseKey, LeaseKind, Leases, MemoryDirectory, Policy, PresenceNews, PresenceStates,
    Transition,
};
use heartline_runtime::{Clock, TaskSet};
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;
use ulid::Ulid;

use super::super::{PresenceHandle, PresenceReader, PresenceTask, Watch};
use super::engines::{MutableStates, ScriptedRelations};
use crate::budget::Budget;
use crate::config::Limits;
use crate::handle::{Handle, Identity};
use crate::hub::{Hub, Listing};
use crate::metrics::Metrics;
use crate::outbox::{Outbox, Signal};
use crate::ports::Relations;
use crate::pressure::Bounds;
use crate::session::Response;

/// Longer than any wait of a test.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

/// A connection of a user that only the test reads.
pub(super) fn handle(name: &str, number: u128) -> Arc<Handle> {
    let bounds = Bounds { messages: 1000, bytes: 1 << 20, grace: Duration::from_secs(5) };
    let outbox = Outbox::new(bounds, Arc::new(Budget::new(1 << 30)), Counter::default());
    let handle = Handle::new(outbox, None, Clock::system().now(), LeaseKind::Chat);
    let device_id = format!("device-{number}").parse().unwrap();
    handle.identify(Identity { key: key(name, number), device_id, is_leased: true });
    Arc::new(handle)
}

fn key(name: &str, number: u128) -> LeaseKey {
    LeaseKey {
        user_id: user(name),
        node_id: "node".parse().unwrap(),
        connection_id: ConnectionId { ulid: Ulid(number), shard: 0 },
    }
}

/// A presence task with its surroundings.
pub(super) struct World {
    pub(super) plane: PresenceHandle,
    pub(super) directory: Arc<MutableStates>,
    pub(super) relations: Arc<ScriptedRelations>,
    pub(super) metrics: Metrics,
    hub: Arc<Hub>,
    policy: Policy,
    numbers: u128,
    /// The task before it runs.
    waiting: Option<PresenceTask>,
    running: TaskSet<()>,
}

/// A connection that is listed.
pub(super) struct Listener {
    pub(super) handle: Arc<Handle>,
    /// Its entry in the hub.
    _listing: Listing,
}

impl World {
    /// A running presence task.
    pub(super) fn start(default_visibility: Visibility) -> Self {
        let mut world = Self::resting(default_visibility);
        world.wake();
        world
    }

    /// A presence task that does not run yet.
    pub(super) fn resting(default_visibility: Visibility) -> Self {
        let metrics = Metrics::default();
        let hub = Arc::new(Hub::new(Clock::system(), metrics.clone(), &Limits::default()));
        let directory = Arc::new(MutableStates::new(MemoryDirectory::new(8, Clock::system())));
        let relations = Arc::new(ScriptedRelations::default());
        let lease = Duration::from_secs(15);
        let reader = PresenceReader {
            states: Arc::clone(&directory) as Arc<dyn PresenceStates>,
            relations: Arc::clone(&relations) as Arc<dyn Relations>,
            clock: Clock::system(),
            default_visibility,
            window: lease,
        };
        let (plane, task) = PresenceHandle::new(Arc::clone(&hub), reader);
        let policy = Policy {
            single_session: false,
            connections_per_user: 20,
            lease,
            offline_linger: Duration::ZERO,
        };
        let (waiting, running) = (Some(task), TaskSet::new());
        Self { plane, directory, relations, metrics, hub, policy, numbers: 0, waiting, running }
    }

    /// Starts the task.
    pub(super) fn wake(&mut self) {
        self.running.spawn(self.waiting.take().expect("it rests").run());
    }

    /// A connection of an observer without a lease, whose user is not online.
    pub(super) fn listener(&mut self, name: &str) -> Listener {
        self.numbers += 1;
        let handle = handle(name, self.numbers);
        let _listing = self.hub.list(Arc::clone(&handle));
        Listener { handle, _listing }
    }

    /// Connects a user; returns the lease.
    pub(super) async fn comes(&mut self, name: &str) -> LeaseKey {
        self.numbers += 1;
        let key = key(name, self.numbers);
        let lease = Lease {
            key: key.clone(),
            device_id: format!("device-{}", self.numbers).parse().unwrap(),
            kind: LeaseKind::Chat,
            age: Duration::ZERO,
            again: false,
        };
        self.directory.directory.register(lease, self.policy).await.unwrap();
        key
    }

    /// Disconnects a user.
    pub(super) async fn goes(&self, key: &LeaseKey) {
        self.directory.directory.unregister(key, Duration::ZERO).await.unwrap();
    }

    /// These users share an active chat with the user of a transition.
    pub(super) fn news(&self, name: &str, is_online: bool, observers: &[&str]) {
        let transition = Transition { user_id: user(name), is_online, version: 1, last_seen: None };
        let observer_ids = observers.iter().map(|name| user(name)).collect();
        self.plane.news(vec![PresenceNews { transition, observer_ids }]);
    }

    /// Subscribes a connection, and waits for the response.
    pub(super) async fn subscribe(&self, listener: &Listener, names: &[&str]) {
        let answer = timeout(PATIENCE, self.ask(listener, names, true)).await;
        assert_eq!(answer.expect("an answer in time"), Ok(Response::AlreadyQueued));
    }

    /// Sends a request to subscribe or unsubscribe.
    pub(super) fn ask(
        &self,
        listener: &Listener,
        names: &[&str],
        begins: bool,
    ) -> oneshot::Receiver<Response> {
        self.try_ask(listener, names, begins).expect("there is room")
    }

    pub(super) fn try_ask(
        &self,
        listener: &Listener,
        names: &[&str],
        begins: bool,
    ) -> Option<oneshot::Receiver<Response>> {
        self.plane.watch(Watch {
            handle: Arc::clone(&listener.handle),
            request_id: "request".parse().unwrap(),
            user_ids: names.iter().map(|name| user(name)).collect(),
            begins,
        })
    }

    /// Waits until the gauge of watches has this value.
    pub(super) async fn watches_become(&self, count: i64) {
        let wait = async {
            while self.metrics.presence.watches.get() != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = timeout(PATIENCE, wait).await;
        assert!(in_time.is_ok(), "{} watches", self.metrics.presence.watches.get());
    }
}

impl Listener {
    pub(super) fn connection_id(&self) -> ConnectionId {
        self.handle.connection_id().unwrap()
    }

    /// The next frames, at least so many, without their timestamps.
    pub(super) async fn receive(&self, count: usize) -> Vec<Value> {
        let mut heard = Vec::new();
        let hearing = async {
            while heard.len() < count {
                let signal = poll_fn(|context| self.handle.outbox.poll_signal(context, None)).await;
                assert_eq!(signal, Signal::Writable);
                heard.extend(self.received());
            }
        };
        let in_time = timeout(PATIENCE, hearing).await.is_ok();
        assert!(in_time, "{count} frames were expected: {heard:?}");
        heard
    }

    /// Exactly one frame.
    pub(super) async fn receive_one(&self) -> Value {
        let mut heard = self.receive(1).await;
        assert_eq!(heard.len(), 1, "{heard:?}");
        heard.remove(0)
    }

    /// The frames that have arrived so far.
    pub(super) fn received(&self) -> Vec<Value> {
        let mut bytes = Vec::new();
        let taken = self.handle.outbox.flush_with(|slices| {
            slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
            Ok(slices.iter().map(|slice| slice.len()).sum())
        });
        taken.unwrap();
        frames(&bytes)
    }
}

/// The texts of server frames as JSON, without their timestamps.
fn frames(mut bytes: &[u8]) -> Vec<Value> {
    let mut frames = Vec::new();
    while let [0x81, length, rest @ ..] = bytes {
        let (length, rest) = match length {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            127 => panic!("a presence frame is short"),
            length => (usize::from(*length), rest),
        };
        let (text, after) = rest.split_at(length);
        let mut frame: Value = serde_json::from_slice(text).unwrap();
        frame.as_object_mut().unwrap().remove("timestamp").expect("it carries its time");
        frames.push(frame);
        bytes = after;
    }
    assert!(bytes.is_empty(), "whole text frames and nothing else");
    frames
}
