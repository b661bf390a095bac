//! Parcels through Redis: each node listens to its own channel, `server:<node>:deliver`.
//!
//! The reply to `PUBLISH` is no proof that the receiver got a parcel (only 0 proves that it did
//! not, and only without a Cluster). So parcels are numbered, parcels that Redis does not take are
//! returned to be sent directly, and an interrupted subscription is reported to the receiving end
//! as a gap.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use heartline_protocol::NodeId;
use heartline_routing::link::{
    Carrier, Departures, LinkMetrics, Parcel, Reception, Refused, Returned, Transport,
};
use heartline_runtime::Supervisor;
use redis::{Pipeline, Value};
use tokio::sync::mpsc;
use tracing::debug;

use super::client::RedisClient;
use super::failure::RedisFailure;
use super::subscription::Event;
use crate::parcel_queue::{ParcelQueue, Waiting};

/// Parcels that are published with one round trip.
const BATCH_PARCELS: usize = 64;

/// Bytes of parcels after which a batch is complete.
const BATCH_BYTES: usize = 1024 * 1024;

/// Carries parcels through Redis pub/sub; on a Cluster through its sharded kind.
#[derive(Debug)]
pub struct RedisCarrier {
    queue: ParcelQueue,
    departures: Mutex<Departures>,
    metrics: LinkMetrics,
}

/// The loops of the carrier, which must run.
#[derive(Debug)]
pub struct RedisLinkTasks {
    client: RedisClient,
    carrier: Arc<RedisCarrier>,
    own: NodeId,
    reception: Arc<Reception>,
    returns: mpsc::Sender<Returned>,
}

impl RedisCarrier {
    /// The name of this transport in metrics.
    pub const TRANSPORT: &str = "redis";

    /// A carrier for this node, and its loops. Parcels that arrive go to `reception`, and parcels
    /// that did not leave to `returns`.
    pub fn new(
        client: RedisClient,
        own: NodeId,
        reception: Arc<Reception>,
        returns: mpsc::Sender<Returned>,
    ) -> (Arc<Self>, RedisLinkTasks) {
        let metrics = reception.metrics().clone();
        let queue = ParcelQueue::new(metrics.of(Transport::Broker).queue_parcels.clone());
        let carrier = Arc::new(Self { queue, departures: Mutex::default(), metrics });
        let tasks =
            RedisLinkTasks { client, carrier: Arc::clone(&carrier), own, reception, returns };
        (carrier, tasks)
    }

    fn departures(&self) -> MutexGuard<'_, Departures> {
        self.departures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queued parcels, or the first that is queued, numbered.
    async fn batch(&self) -> Vec<Waiting> {
        let mut next = Some(poll_fn(|context| self.queue.poll_next(context)).await);
        let mut departures = self.departures();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(mut waiting) = next {
            departures.stamp(&waiting.receiver, &mut waiting.parcel);
            bytes += waiting.parcel.len();
            batch.push(waiting);
            let is_complete = batch.len() == BATCH_PARCELS || bytes >= BATCH_BYTES;
            next = if is_complete { None } else { self.queue.next_now() };
        }
        batch
    }

    fn count(&self, parcel: &Parcel) {
        let metrics = self.metrics.of(Transport::Broker);
        metrics.parcels_sent.inc();
        metrics.bytes_sent.inc_by(parcel.len() as u64);
        if !parcel.is_envelope() {
            metrics.probes_sent.inc();
        }
    }
}

#[async_trait]
impl Carrier for RedisCarrier {
    async fn carry(
        &self,
        receiver: &NodeId,
        _address: Option<&str>,
        parcel: Parcel,
    ) -> Result<(), Refused> {
        self.queue.put(receiver, parcel).await
    }

    fn last_number(&self, receiver: &NodeId) -> u64 {
        self.departures().last(receiver)
    }

    fn lose(&self, receiver: &NodeId) {
        self.departures().next(receiver);
    }

    fn forget(&self, receiver: &NodeId) {
        self.departures().forget(receiver);
    }
}

impl RedisLinkTasks {
    /// Publishes and receives parcels for as long as the node has an inbox. Either loop is
    /// restarted if it panics: parcels that were lost by it show as a gap at their receivers.
    pub async fn run(self) {
        let restarts = &self.client.counters().listener_restarts;
        let supervisor = |name| Supervisor::new(name, self.client.clock(), restarts.clone());
        let (publisher, listener) = (supervisor("link publisher"), supervisor("link listener"));
        let mut is_first = true;
        tokio::select! {
            () = publisher.run(|| self.publish_for_ever()) => {}
            () = listener.run(|| self.receive(std::mem::replace(&mut is_first, false))) => {}
        }
    }

    /// Receives until the inbox has ended. While it does not run, this node's probes to itself do
    /// not arrive either, so that it counts as cut off.
    async fn receive(&self, is_first: bool) {
        let mut subscription = self.client.subscribe(vec![self.channel(&self.own)]);
        if !is_first {
            subscription.established().await;
            self.reception.resubscribed();
        }
        loop {
            let message = match subscription.next().await {
                Event::Message(message) => message,
                Event::Lost => {
                    self.reception.resubscribed();
                    continue;
                }
            };
            #[cfg(test)]
            assert!(message.payload != super::directory::PLANTED_PANIC, "planted by a test");
            if self.reception.receive(Transport::Broker, message.payload).await.is_err() {
                return;
            }
        }
    }

    fn channel(&self, node_id: &NodeId) -> String {
        format!("{}server:{node_id}:deliver", self.client.config().key_prefix())
    }

    async fn publish_for_ever(&self) {
        loop {
            let batch = self.carrier.batch().await;
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for Waiting { receiver, parcel, .. } in &batch {
                let channel = self.channel(receiver);
                pipeline.add_command(self.client.publish_command(&channel, parcel.as_bytes()));
            }
            let results = self.client.pipe_each(&pipeline).await;
            let mut is_down = false;
            for (waiting, result) in batch.into_iter().zip(results) {
                is_down |= result.as_ref().is_err_and(RedisFailure::is_infrastructure);
                if self.has_left(&result) {
                    self.carrier.count(&waiting.parcel);
                } else {
                    self.give_back(waiting);
                }
            }
            // Queued parcels would fail too. They are numbered all the same, so that the receiver
            // detects a gap if the direct transport does not take them either.
            while is_down && let Some(mut waiting) = self.carrier.queue.next_now() {
                self.carrier.departures().stamp(&waiting.receiver, &mut waiting.parcel);
                self.give_back(waiting);
            }
        }
    }

    /// Whether a subscriber received it. On a Cluster the reply does not say, because it counts
    /// only the subscribers at one of several servers.
    fn has_left(&self, result: &Result<Value, RedisFailure>) -> bool {
        match result {
            Ok(Value::Int(0)) => self.client.config().is_cluster(),
            Ok(_) => true,
            Err(_) => false,
        }
    }

    fn give_back(&self, Waiting { receiver, parcel, .. }: Waiting) {
        let is_envelope = parcel.is_envelope();
        let returned = self.returns.try_send(Returned { receiver, parcel });
        if returned.is_err() && is_envelope {
            // The receiver detects a gap by its number.
            debug!("parcel dropped: the queue of returned parcels is full");
            self.carrier.metrics.dropped("returns_full");
        }
    }
}
