//! The connection plane of one node, put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use heartline_durability::EventBus;
use heartline_protocol::NodeId;
use heartline_routing::{Clock, Leases, NodeLink, PresenceStates};
use heartline_runtime::Tasks;

use crate::addresses::Addresses;
use crate::auth::Authenticator;
use crate::budget::Budget;
use crate::config::Config;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::ports::DurabilityPorts;
use crate::presence::{PresencePlane, PresenceTask, Sights};

/// The connection plane of one node.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) config: Arc<Config>,
    pub(crate) node_id: NodeId,
    pub(crate) clock: Clock,
    pub(crate) authenticator: Authenticator,
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) link: Arc<dyn NodeLink>,
    pub(crate) durability: DurabilityPorts,
    pub(crate) bus: Arc<dyn EventBus>,
    pub(crate) presence: PresencePlane,
    pub(crate) hub: Arc<Hub>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) addresses: Addresses,
    pub(crate) metrics: Metrics,
    sights: Sights,
    /// Registrations under way.
    pub(crate) tasks: Tasks,
    draining: AtomicBool,
}

/// What the gateway is made of.
#[derive(Debug)]
pub struct Parts {
    /// Its configuration.
    pub config: Config,
    /// Its node.
    pub node_id: NodeId,
    /// The clocks.
    pub clock: Clock,
    /// Who checks tokens.
    pub authenticator: Authenticator,
    /// Where connections are leased.
    pub leases: Arc<dyn Leases>,
    /// Which users are online.
    pub presence: Arc<dyn PresenceStates>,
    /// How other nodes, and this one, are reached.
    pub link: Arc<dyn NodeLink>,
    /// Stores and reads messages, records facts and answers who may see whom.
    pub durability: DurabilityPorts,
    /// Takes typing indicators, which may be lost.
    pub bus: Arc<dyn EventBus>,
    /// The gateway's metrics.
    pub metrics: Metrics,
}

impl Gateway {
    /// The connection plane made of these parts, and the task that tells presence. Nothing runs
    /// yet.
    pub fn new(parts: Parts) -> (Self, PresenceTask) {
        let Parts { config, node_id, clock, authenticator, leases, link, .. } = parts;
        let (durability, bus, metrics) = (parts.durability, parts.bus, parts.metrics);
        let budget = Arc::new(Budget::new(config.limits.outbox_memory));
        let hub = Arc::new(Hub::new(clock, metrics.clone(), &config.limits));
        let (config, addresses) = (Arc::new(config), Addresses::default());
        let draining = AtomicBool::new(false);
        let sights = Sights {
            states: parts.presence,
            relations: Arc::clone(&durability.relations),
            clock,
            default_visibility: config.default_visibility,
            window: config.lease,
        };
        let (presence, task) = PresencePlane::new(Arc::clone(&hub), sights.clone());
        let gateway = Self {
            config,
            node_id,
            clock,
            authenticator,
            leases,
            link,
            durability,
            bus,
            hub,
            budget,
            addresses,
            tasks: Tasks::counting(metrics.task_panics.clone()),
            metrics,
            presence,
            sights,
            draining,
        };
        (gateway, task)
    }

    /// Who may see what of whom.
    pub fn sights(&self) -> &Sights {
        &self.sights
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The clocks.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The connections of this node.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The memory of all outboxes.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// This node.
    pub fn node_id(&self) -> &NodeId {
        &self.node_id
    }

    /// Whether new sockets are refused because the node is going away.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Brings the gauges up to date that are read from the outboxes rather than counted.
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
