//! The gateway of one node, and the parts it is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use heartline_protocol::NodeId;
use heartline_routing::{Leases, NodeLink, PresenceStates};
use heartline_runtime::{Clock, Random, Tasks};

use crate::addresses::Addresses;
use crate::budget::Budget;
use crate::config::Config;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::ports::DurabilityPorts;
use crate::presence::{PresenceHandle, PresenceReader, PresenceTask};
use crate::typing::TypingNotices;
use heartline_auth::Authenticator;

/// The gateway of one node.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) config: Arc<Config>,
    pub(crate) node_id: NodeId,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) authenticator: Authenticator,
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) link: Arc<dyn NodeLink>,
    pub(crate) durability: DurabilityPorts,
    pub(crate) typing: Arc<dyn TypingNotices>,
    pub(crate) presence: PresenceHandle,
    pub(crate) hub: Arc<Hub>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) addresses: Addresses,
    pub(crate) metrics: Metrics,
    presence_reader: PresenceReader,
    /// Pending registrations.
    pub(crate) tasks: Tasks,
    draining: AtomicBool,
}

/// The parts of a gateway.
#[derive(Debug)]
pub struct Parts {
    /// The gateway's configuration.
    pub config: Config,
    /// The id of this node.
    pub node_id: NodeId,
    /// The clocks.
    pub clock: Clock,
    /// The source of random ids and jitter.
    pub random: Random,
    /// Verifies tokens.
    pub authenticator: Authenticator,
    /// Registers and renews the leases of connections.
    pub leases: Arc<dyn Leases>,
    /// The presence of users.
    pub presence: Arc<dyn PresenceStates>,
    /// Sends envelopes to other nodes and to this one.
    pub link: Arc<dyn NodeLink>,
    /// Stores and reads messages, and records watermarks.
    pub durability: DurabilityPorts,
    /// Delivers typing notices.
    pub typing: Arc<dyn TypingNotices>,
    /// The gateway's metrics.
    pub metrics: Metrics,
}

impl Gateway {
    /// Assembles a gateway, and the task that pushes presence. Nothing runs yet.
    pub fn new(parts: Parts) -> (Self, PresenceTask) {
        let Parts { config, node_id, clock, random, authenticator, leases, link, .. } = parts;
        let (durability, typing, metrics) = (parts.durability, parts.typing, parts.metrics);
        let budget = Arc::new(Budget::new(config.limits.outbox_memory));
        let hub = Arc::new(Hub::new(clock, metrics.clone(), &config.limits));
        let (config, addresses) = (Arc::new(config), Addresses::default());
        let draining = AtomicBool::new(false);
        let presence_reader = PresenceReader {
            states: parts.presence,
            relations: Arc::clone(&durability.relations),
            clock,
            default_visibility: config.default_visibility,
            window: config.lease,
        };
        let (presence, task) = PresenceHandle::new(Arc::clone(&hub), presence_reader.clone());
        let gateway = Self {
            config,
            node_id,
            clock,
            random,
            authenticator,
            leases,
            link,
            durability,
            typing,
            hub,
            budget,
            addresses,
            tasks: Tasks::counting(metrics.task_panics.clone()),
            metrics,
            presence,
            presence_reader,
            draining,
        };
        (gateway, task)
    }

    /// Reads presence as an observer may see it.
    pub fn presence_reader(&self) -> &PresenceReader {
        &self.presence_reader
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The clocks.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The random source.
    pub fn random(&self) -> Random {
        self.random
    }

    /// The connections of this node.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The memory of all outboxes.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The gateway's metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The id of this node.
    pub fn node_id(&self) -> &NodeId {
        &self.node_id
    }

    /// Whether new sockets are refused because the node is shutting down.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Updates the gauges whose values are read from the outboxes.
    pub fn observe(&self) {
        let loads = self.hub.all().into_iter().map(|handle| handle.outbox.load().messages);
        self.metrics.outbox_messages.set(loads.sum::<usize>() as i64);
        self.metrics.outbox_bytes.set(self.budget.used() as i64);
        self.metrics.outbox_capacity_bytes.set(self.budget.capacity() as i64);
    }

    /// Refuses new sockets from now on.
    pub fn stop_accepting(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}
