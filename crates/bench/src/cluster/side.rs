//! One side of the comparison: nodes, those who listen to them, and those who send.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use heartline_engines::{Postgres, Redis};
use heartline_protocol::server_frame::ChatKind;
use heartline_routing::Clock;
use tokio::time::sleep;

use super::window::Window;
use crate::ClusterArgs;
use crate::audience::{Audience, Checked, Heard, Listener, Plan};
use crate::child::{Footing, Meeting, random_secret};
use crate::counters::{Epoch, Tally};
use crate::dial::DialPlan;
use crate::fleet::Fleet;
use crate::layout::{Chats, Layout};
use crate::letter::{Letter, Naming, content};
use crate::load::{Load, Pacing, Pusher, drive};
use crate::report::new_histogram;
use crate::sender::{Sender, Senders};
use crate::side::users;
use crate::signer::Secret;
use crate::subject::Subject;

/// How long acknowledgements may pause before the rest is given up as lost.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How large a side is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// How many nodes there are.
    pub(super) nodes: usize,
    /// How many users, each with one connection.
    pub(super) sockets: usize,
    /// Deliveries per second.
    pub(super) rate: f64,
}

/// Nodes and everybody who is connected to them.
#[derive(Debug)]
pub(super) struct Side {
    nodes: Vec<Subject>,
    /// Those who listen, by node.
    audiences: Vec<Audience>,
    /// Those who send, on all nodes.
    sending: Fleet,
    senders: Senders,
    chats: Chats,
    users: Vec<String>,
    epoch: Epoch,
    pacing: Pacing,
}

impl Side {
    /// Starts the nodes and has everybody connect to them.
    pub(super) async fn open(
        size: Size,
        options: &ClusterArgs,
        redis: &Redis,
        postgres: &Postgres,
    ) -> Result<Self> {
        let ClusterArgs { room, nodes: senders_of_room, .. } = *options;
        let Size { nodes: node_count, sockets, rate } = size;
        let meeting = Meeting {
            redis_url: redis.url(),
            key_prefix: format!("side-{node_count}:"),
            secret: random_secret(),
        };
        let footing =
            Footing { store_url: Some(postgres.fresh_database()), meeting: Some(meeting) };
        let secret = random_secret();
        let mut nodes = Vec::with_capacity(node_count);
        for _ in 0..node_count {
            nodes.push(Subject::node(&footing, &secret, 2 * sockets).await?);
        }
        let users = users("bench", sockets);
        let (chats, kind) = (sockets / room, ChatKind::Group);
        let layout = Layout { users: sockets, chats, members: room, kind };
        let chats = Chats::make(&nodes[0], layout, &users).await?;
        let epoch = Epoch::begin();
        let audiences = gather(&nodes, &chats, &users, room, &secret, epoch).await?;
        let mut sending = Fleet::new(epoch, 1);
        let mut senders = Vec::new();
        for number in 0..senders_of_room {
            let node = &nodes[number % node_count];
            let its = add_senders(&mut sending, node, number, layout, &chats, &users, options);
            senders.extend(its.await?);
        }
        let senders = Senders { senders, hearers: room as u64 };
        let pacing = Pacing::Rate { pushes_per_second: rate / room as f64 };
        Ok(Self { nodes, audiences, sending, senders, chats, users, epoch, pacing })
    }

    /// Sends for a while and waits until everybody has heard everything.
    pub(super) async fn window(&mut self, duration: Duration) -> Result<Window> {
        self.sending.counters().take_ack_latency();
        let heard_before = self.hear(&vec![0; self.nodes.len()]).await?;
        let stored_before = self.head_sequences().await?;
        let before = self.tallies();
        let (cpu_before, began) = (self.cpu()?, Clock::system().now());
        let load = Load { pacing: self.pacing, duration };
        let senders = vec![Box::new(self.senders.clone()) as Box<dyn Pusher>];
        drive(senders, load, self.epoch, self.sending.counters()).await?;
        let after = self.wait_until_answered(before).await;
        let acknowledged = after[1] - before[1];
        let expected = acknowledged * self.senders.hearers / self.nodes.len() as u64;
        let due: Vec<u64> = heard_before.iter().map(|heard| heard.deliveries + expected).collect();
        let heard = self.hear(&due).await?;
        let (elapsed, cpu) =
            (Clock::system().now() - began, self.cpu()?.saturating_sub(cpu_before));
        let stored = self.head_sequences().await?;
        let mut checked = Checked::default();
        for audience in &mut self.audiences {
            checked.add(audience.check(&stored).await?);
        }
        let mut latency = new_histogram();
        for (nanos, count) in heard.iter().flat_map(|heard| &heard.latencies) {
            latency.saturating_record_n(*nanos, *count);
        }
        let arrived = heard.iter().zip(&heard_before);
        let arrived = arrived.map(|(after, before)| after.deliveries - before.deliveries);
        let closed = self.sending.counters().get(Tally::Closed);
        Ok(Window {
            sent: after[0] - before[0],
            acknowledged,
            stored: stored.iter().sum::<u64>() - stored_before.iter().sum::<u64>(),
            refusals: after[2] - before[2],
            delivered: arrived.map(|arrived| (arrived, expected)).collect(),
            checked,
            closed: heard.iter().map(|heard| heard.closed).sum::<u64>() + closed,
            elapsed,
            cpu,
            ack_latency: self.sending.counters().take_ack_latency(),
            latency,
        })
    }

    /// What each audience heard, once it has heard so much since it was opened.
    async fn hear(&mut self, due: &[u64]) -> Result<Vec<Heard>> {
        let audiences = self.audiences.iter_mut().zip(due);
        try_join_all(audiences.map(|(audience, due)| audience.hear(*due))).await
    }

    async fn head_sequences(&self) -> Result<Vec<u64>> {
        self.chats.head_sequences(&self.nodes[0], &self.users).await
    }

    /// Gives up only when nothing came for a while: a loss is reported, not waited for.
    async fn wait_until_answered(&self, before: [u64; 3]) -> [u64; 3] {
        let mut last = (self.tallies(), Clock::system().now());
        loop {
            let ([sent, acks, refusals], since) = last;
            let is_answered = acks + refusals - before[1] - before[2] >= sent - before[0];
            if is_answered || Clock::system().now() - since >= QUIET_MAX {
                return last.0;
            }
            sleep(LOOK_EVERY).await;
            let now = self.tallies();
            if now != last.0 {
                last = (now, Clock::system().now());
            }
        }
    }

    fn tallies(&self) -> [u64; 3] {
        let counters = self.sending.counters();
        [Tally::Sent, Tally::Acks, Tally::Refusals].map(|tally| counters.get(tally))
    }

    /// What all nodes have computed up to now.
    fn cpu(&self) -> Result<Duration> {
        let mut cpu = Duration::ZERO;
        for node in &self.nodes {
            cpu += node.usage()?.context("the nodes are on this machine")?.cpu;
        }
        Ok(cpu)
    }
}

/// Connects one device of every user, to the nodes in turn.
async fn gather(
    nodes: &[Subject],
    chats: &Chats,
    users: &[String],
    room: usize,
    secret: &Secret,
    epoch: Epoch,
) -> Result<Vec<Audience>> {
    let mut audiences = Vec::with_capacity(nodes.len());
    for (number, node) in nodes.iter().enumerate() {
        let here = users.iter().enumerate().skip(number).step_by(nodes.len());
        let listener = |(index, user): (usize, &String)| Listener {
            user_id: user.clone(),
            chat: index / room,
        };
        let mut audience = Audience::start(secret, epoch).await?;
        let plan = Plan {
            label: format!("connect to node {} of {}", number + 1, nodes.len()),
            address: node.address,
            listeners: here.map(listener).collect(),
            chat_ids: chats.ids.clone(),
            ahead_nanos: 0,
        };
        audience.open(plan).await?;
        audiences.push(audience);
    }
    Ok(audiences)
}

/// One sender for each room, on one node: a further device of a member.
async fn add_senders(
    sending: &mut Fleet,
    node: &Subject,
    number: usize,
    layout: Layout,
    chats: &Chats,
    users: &[String],
    options: &ClusterArgs,
) -> Result<Vec<Arc<Sender>>> {
    let signer = node.signer.as_ref().context("a node has a signer")?;
    let device = format!("sender-{number}");
    let member = |chat: usize| layout.members_of(chat).nth(number).unwrap_or(0);
    let tokens = (0..layout.chats).map(|chat| signer.device(&users[member(chat)], &device));
    let plan = DialPlan::in_order(node, &tokens.collect::<Result<Vec<_>>>()?)?;
    let content = content(options.content)?;
    let mut senders = Vec::with_capacity(layout.chats);
    for (chat, opened) in plan.open("connect senders").await?.into_iter().enumerate() {
        let letter = Letter::new(chats.ids[chat], &content, Naming::Ulid)?;
        senders.push(sending.add_sender(opened, vec![letter]));
    }
    Ok(senders)
}
