//! Nodes with connected receivers and senders.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use heartline_engines::{Postgres, Redis};
use heartline_protocol::server_frame::ChatKind;
use heartline_runtime::Clock;
use tokio::time::sleep;

use super::window::Window;
use crate::ClusterArgs;
use crate::chat_layout::{ChatLayout, Chats};
use crate::child::{Backends, ClusterConfig, random_secret};
use crate::client_sockets::ClientSockets;
use crate::counters::{Epoch, Tally};
use crate::dial::DialPlan;
use crate::load::{Load, Pacing, Pusher, drive};
use crate::message_template::{IdKind, MessageTemplate, content};
use crate::push_setup::users;
use crate::receiver_process::{CheckResult, Deliveries, Receiver, ReceiverPlan, ReceiverProcess};
use crate::report::new_histogram;
use crate::sender::{Sender, Senders};
use crate::server_under_test::ServerUnderTest;
use crate::signer::Secret;

/// Without an acknowledgement for this long, missing ones count as lost.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often the counters are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The size of a setup.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// The number of nodes.
    pub(super) nodes: usize,
    /// The number of users, each with one connection.
    pub(super) sockets: usize,
    /// Deliveries per second.
    pub(super) rate: f64,
}

/// Nodes and all connections to them.
#[derive(Debug)]
pub(super) struct ClusterSetup {
    nodes: Vec<ServerUnderTest>,
    /// The receivers, by node.
    receivers: Vec<ReceiverProcess>,
    /// The connections of the senders, on all nodes.
    sending: ClientSockets,
    senders: Senders,
    chats: Chats,
    users: Vec<String>,
    epoch: Epoch,
    pacing: Pacing,
}

impl ClusterSetup {
    /// Starts the nodes and connects receivers and senders.
    pub(super) async fn open(
        size: Size,
        options: &ClusterArgs,
        redis: &Redis,
        postgres: &Postgres,
    ) -> Result<Self> {
        let ClusterArgs { room, nodes: senders_per_group, .. } = *options;
        let Size { nodes: node_count, sockets, rate } = size;
        let cluster = ClusterConfig {
            redis_url: redis.url(),
            key_prefix: format!("nodes-{node_count}:"),
            secret: random_secret(),
        };
        let backends =
            Backends { store_url: Some(postgres.fresh_database()), cluster: Some(cluster) };
        let secret = random_secret();
        let mut nodes = Vec::with_capacity(node_count);
        for _ in 0..node_count {
            nodes.push(ServerUnderTest::start_node(&backends, &secret, 2 * sockets).await?);
        }
        let users = users("bench", sockets);
        let (chats, kind) = (sockets / room, ChatKind::Group);
        let layout = ChatLayout { users: sockets, chats, members: room, kind };
        let chats = Chats::create(&nodes[0], layout, &users).await?;
        let epoch = Epoch::begin();
        let receivers = start_receivers(&nodes, &chats, &users, room, &secret, epoch).await?;
        let mut sending = ClientSockets::new(epoch, 1);
        let mut senders = Vec::new();
        for number in 0..senders_per_group {
            let node = &nodes[number % node_count];
            let added = add_senders(&mut sending, node, number, layout, &chats, &users, options);
            senders.extend(added.await?);
        }
        let senders = Senders { senders, receivers_per_message: room as u64 };
        let pacing = Pacing::Rate { pushes_per_second: rate / room as f64 };
        Ok(Self { nodes, receivers, sending, senders, chats, users, epoch, pacing })
    }

    /// Sends for a while, waits until everything is delivered, and returns the measurements.
    pub(super) async fn window(&mut self, duration: Duration) -> Result<Window> {
        self.sending.counters().take_ack_latency();
        let deliveries_before = self.wait_for_deliveries(&vec![0; self.nodes.len()]).await?;
        let stored_before = self.head_sequences().await?;
        let before = self.tallies();
        let (cpu_before, began) = (self.cpu()?, Clock::system().now());
        let load = Load { pacing: self.pacing, duration };
        let senders = vec![Box::new(self.senders.clone()) as Box<dyn Pusher>];
        drive(senders, load, self.epoch, self.sending.counters()).await?;
        let after = self.wait_for_acknowledgements(before).await;
        let acknowledged = after[1] - before[1];
        let expected = acknowledged * self.senders.receivers_per_message / self.nodes.len() as u64;
        let due: Vec<u64> = deliveries_before.iter().map(|it| it.total + expected).collect();
        let deliveries = self.wait_for_deliveries(&due).await?;
        let (elapsed, cpu) =
            (Clock::system().now() - began, self.cpu()?.saturating_sub(cpu_before));
        let stored = self.head_sequences().await?;
        let mut checked = CheckResult::default();
        for receivers in &mut self.receivers {
            checked.add(receivers.check(&stored).await?);
        }
        let mut latency = new_histogram();
        for (nanos, count) in deliveries.iter().flat_map(|it| &it.latencies) {
            latency.saturating_record_n(*nanos, *count);
        }
        let arrived = deliveries.iter().zip(&deliveries_before);
        let arrived = arrived.map(|(after, before)| after.total - before.total);
        let closed = self.sending.counters().get(Tally::Closed);
        Ok(Window {
            sent: after[0] - before[0],
            acknowledged,
            stored: stored.iter().sum::<u64>() - stored_before.iter().sum::<u64>(),
            rejections: after[2] - before[2],
            delivered: arrived.map(|arrived| (arrived, expected)).collect(),
            checked,
            closed: deliveries.iter().map(|it| it.closed).sum::<u64>() + closed,
            elapsed,
            cpu,
            ack_latency: self.sending.counters().take_ack_latency(),
            latency,
        })
    }

    /// Waits for the due number of deliveries of each node since it was opened.
    async fn wait_for_deliveries(&mut self, due: &[u64]) -> Result<Vec<Deliveries>> {
        let all = self.receivers.iter_mut().zip(due);
        try_join_all(all.map(|(receivers, due)| receivers.wait_for_deliveries(*due))).await
    }

    async fn head_sequences(&self) -> Result<Vec<u64>> {
        self.chats.head_sequences(&self.nodes[0], &self.users).await
    }

    /// Returns early if nothing arrives for [`QUIET_MAX`], so that a loss is reported.
    async fn wait_for_acknowledgements(&self, before: [u64; 3]) -> [u64; 3] {
        let mut last = (self.tallies(), Clock::system().now());
        loop {
            let ([sent, acks, rejections], since) = last;
            let is_complete = acks + rejections - before[1] - before[2] >= sent - before[0];
            if is_complete || Clock::system().now() - since >= QUIET_MAX {
                return last.0;
            }
            sleep(POLL_INTERVAL).await;
            let now = self.tallies();
            if now != last.0 {
                last = (now, Clock::system().now());
            }
        }
    }

    fn tallies(&self) -> [u64; 3] {
        let counters = self.sending.counters();
        [Tally::Sent, Tally::Acks, Tally::Rejections].map(|tally| counters.get(tally))
    }

    /// The CPU time of all nodes so far.
    fn cpu(&self) -> Result<Duration> {
        let mut cpu = Duration::ZERO;
        for node in &self.nodes {
            cpu += node.usage()?.context("the process id of a node is not known")?.cpu;
        }
        Ok(cpu)
    }
}

/// Connects one device of every user, to the nodes in rotation.
async fn start_receivers(
    nodes: &[ServerUnderTest],
    chats: &Chats,
    users: &[String],
    room: usize,
    secret: &Secret,
    epoch: Epoch,
) -> Result<Vec<ReceiverProcess>> {
    let mut all = Vec::with_capacity(nodes.len());
    for (number, node) in nodes.iter().enumerate() {
        let here = users.iter().enumerate().skip(number).step_by(nodes.len());
        let receiver = |(index, user): (usize, &String)| Receiver {
            user_id: user.clone(),
            chat: index / room,
        };
        let mut process = ReceiverProcess::start(secret, epoch).await?;
        let plan = ReceiverPlan {
            label: format!("connect to node {} of {}", number + 1, nodes.len()),
            address: node.address,
            receivers: here.map(receiver).collect(),
            chat_ids: chats.ids.clone(),
            clock_offset_nanos: 0,
        };
        process.open(plan).await?;
        all.push(process);
    }
    Ok(all)
}

/// Adds one sender for each group, on one node: a further device of a member.
async fn add_senders(
    sending: &mut ClientSockets,
    node: &ServerUnderTest,
    number: usize,
    layout: ChatLayout,
    chats: &Chats,
    users: &[String],
    options: &ClusterArgs,
) -> Result<Vec<Arc<Sender>>> {
    let signer = node.signer.as_ref().context("the node has no signer")?;
    let device = format!("sender-{number}");
    let member = |chat: usize| layout.members_of(chat).nth(number).unwrap_or(0);
    let tokens = (0..layout.chats).map(|chat| signer.device(&users[member(chat)], &device));
    let plan = DialPlan::in_order(node, &tokens.collect::<Result<Vec<_>>>()?)?;
    let content = content(options.content)?;
    let mut senders = Vec::with_capacity(layout.chats);
    for (chat, opened) in plan.open("connect senders").await?.into_iter().enumerate() {
        let template = MessageTemplate::new(chats.ids[chat], &content, IdKind::Ulid)?;
        senders.push(sending.add_sender(opened, vec![template]));
    }
    Ok(senders)
}
