//! A run: chats are made, clients live, something happens to the server, and all is read.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use heartline_runtime::{Clock, TaskSet};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::checker::{Report, check};
use crate::client::Client;
use crate::history::{Event, Fault, Recorder, write};
use crate::rest;

/// How many clients a run has.
pub(crate) const CLIENTS: usize = 6;
const CHATS: usize = 3;

/// How long everything may take to be answered, sent again and synced after the last fault.
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// How long nothing must happen for all to be still.
const STILL: Duration = Duration::from_millis(400);

/// How long that is waited for.
const STILL_MAX: Duration = Duration::from_secs(5);

/// The log line of a breaker that opens.
const BREAKER_OPENED: &str = "too many failures: calls are refused";

/// The phase of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// All they can.
    Busy,
    /// Only what is open.
    Settle,
    /// They read everything and go.
    Read,
}

/// The state that all clients of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The addresses of the nodes.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) users: Vec<String>,
    pub(crate) chats: Vec<String>,
    pub(crate) recorder: Recorder,
    pub(crate) phase: watch::Sender<Phase>,
    /// Sends that are open, over all clients, by node.
    pub(crate) in_flight: Vec<AtomicUsize>,
    /// Milliseconds between two actions of a client.
    pub(crate) pace_ms: Range<u64>,
    /// The number of clients, the first ones, that never disconnect and sync only after
    /// `resync_required` or a gap.
    pub(crate) steady: usize,
    settled: watch::Sender<[bool; CLIENTS]>,
}

impl Shared {
    /// A client has nothing left to do, or it has again.
    pub(crate) fn settle(&self, client: usize, settled: bool) {
        self.settled
            .send_if_modified(|all| std::mem::replace(&mut all[client], settled) != settled);
    }

    /// Waits until a send is in flight, and returns the node of its connection.
    pub(crate) async fn until_in_flight(&self, random: &mut StdRng) -> usize {
        let first = random.random_range(0..self.in_flight.len());
        let nodes = || (0..self.in_flight.len()).map(|next| (first + next) % self.in_flight.len());
        let is_open = |node: &usize| self.in_flight[*node].load(Ordering::Relaxed) > 0;
        let looked = timeout(SETTLE_MAX, async {
            loop {
                if let Some(node) = nodes().find(is_open) {
                    return node;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        looked.await.expect("busy clients send")
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) report: Report,
    /// Why the run did not come to its end, if it did not.
    pub(crate) complaint: Option<String>,
    pub(crate) history: PathBuf,
}

impl Finished {
    /// Removes the files of a run that passed.
    pub(crate) fn discard(&self) {
        std::fs::remove_file(&self.history).unwrap();
        std::fs::remove_file(log_path(&self.history)).unwrap();
    }
}

/// The target of a run: one server, or several nodes.
pub(crate) trait Target {
    /// Where the nodes are.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// The log of each node, including its earlier processes.
    fn logs(&self) -> Vec<String>;
}

/// How a run is made.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    /// Milliseconds between two actions of a client.
    pub(crate) pace_ms: Range<u64>,
    /// The number of clients, the first ones, that never disconnect and sync only after
    /// `resync_required` or a gap.
    pub(crate) steady: usize,
    /// Deadline after the last fault for every client to have every message.
    pub(crate) recovery: Duration,
}

impl Plan {
    /// One server.
    pub(crate) fn single(name: &'static str, seed: u64) -> Self {
        Self { name, seed, pace_ms: 5..60, steady: 0, recovery: Duration::ZERO }
    }
}

/// Runs clients against a target while `nemesis` does its work, then reads and checks.
pub(crate) async fn run<T: Target>(
    plan: &Plan,
    target: &mut T,
    nemesis: impl AsyncFnOnce(&mut T, &Shared, &mut StdRng),
) -> Finished {
    let (addresses, seed) = (target.addresses(), plan.seed);
    let users: Vec<_> = (0..CLIENTS).map(|index| format!("client_{index}")).collect();
    let mut chats = Vec::new();
    for index in 0..CHATS {
        chats.push(rest::create_chat(addresses[0], &format!("chat {index}"), &users).await);
    }
    let shared = Arc::new(Shared {
        in_flight: addresses.iter().map(|_| AtomicUsize::new(0)).collect(),
        addresses,
        users,
        chats,
        recorder: Recorder::new(),
        phase: watch::Sender::new(Phase::Busy),
        pace_ms: plan.pace_ms.clone(),
        steady: plan.steady,
        settled: watch::Sender::new([false; CLIENTS]),
    });
    for node in 0..shared.addresses.len() {
        shared.recorder.fault(Fault::Started { node });
    }
    let mut clients = TaskSet::new();
    for index in 0..CLIENTS {
        clients.spawn(Client::new(&shared, index, seed).run());
    }
    nemesis(target, &shared, &mut StdRng::seed_from_u64(seed)).await;
    let complaint = finish(&shared, &mut clients, plan.recovery).await.err();
    let logs = target.logs();
    let count = logs.iter().map(|log| log.matches(BREAKER_OPENED).count()).sum();
    shared.recorder.record(Event::BreakersOpened { count });
    let entries = shared.recorder.entries();
    let report = check(&entries);
    let history = history_path(plan.name, seed);
    let keep = std::env::var_os("HISTORY_KEEP").is_some();
    if keep || complaint.is_some() || !report.violations.is_empty() {
        write(&entries, &history).unwrap();
        std::fs::write(log_path(&history), logs.join("\n== the next node\n")).unwrap();
    }
    let complaint = complaint.map(|complaint| {
        let ends: Vec<_> = logs.iter().map(|log| end_of(log)).collect();
        format!("{complaint}\n{}", ends.join("\n\n"))
    });
    Finished { report, complaint, history }
}

/// The end of what a node logged.
pub(crate) fn end_of(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

fn history_path(name: &str, seed: u64) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{name}-{seed}.ndjson"))
}

/// Where the logs of the nodes are kept beside a history.
fn log_path(history: &Path) -> PathBuf {
    history.with_extension("log")
}

/// Lets the clients settle, waits until all is still, and reads.
async fn finish(
    shared: &Arc<Shared>,
    clients: &mut TaskSet<()>,
    recovery: Duration,
) -> Result<(), String> {
    let recovered_at = shared.recorder.last_fault_at() + recovery;
    shared.phase.send_replace(Phase::Settle);
    until_settled(shared).await?;
    if Clock::system().now() < recovered_at {
        tokio::time::sleep_until(recovered_at).await;
        until_settled(shared).await?;
    }
    // If the deadline passes, the checker reports the reason.
    let _ = timeout(STILL_MAX, until_still(shared)).await;
    if recovery > Duration::ZERO {
        routes(shared).await;
    }
    shared.phase.send_replace(Phase::Read);
    until_read(shared, clients).await?;
    for chat in &shared.chats {
        let messages = rest::read_chat(shared.addresses[0], &shared.users[0], chat).await;
        let (reader, chat) = ("rest".to_owned(), chat.clone());
        shared.recorder.record(Event::FinalRead { reader, chat, messages });
    }
    Ok(())
}

/// Reads the routes of every user from every node.
async fn routes(shared: &Shared) {
    for (node, address) in shared.addresses.iter().enumerate() {
        for client in shared.users.clone() {
            let ids = rest::connections(*address, &client).await;
            shared.recorder.record(Event::Routed { node, client, ids });
        }
    }
}

async fn until_settled(shared: &Shared) -> Result<(), String> {
    let mut settled = shared.settled.subscribe();
    let all = settled.wait_for(|all| all.iter().all(|one| *one));
    if timeout(SETTLE_MAX, all).await.is_err() {
        let states = *shared.settled.borrow();
        return Err(format!("the clients did not settle: {states:?}"));
    }
    Ok(())
}

/// Waits until every client has read everything. A long history may take them long, but they get
/// on with it.
async fn until_read(shared: &Shared, clients: &mut TaskSet<()>) -> Result<(), String> {
    loop {
        let length = shared.recorder.length();
        match timeout(SETTLE_MAX, clients.join_next()).await {
            Ok(None) => return Ok(()),
            Ok(Some(client)) => client.map_err(|error| format!("a client failed: {error}"))?,
            Err(_) if shared.recorder.length() == length => {
                return Err("the clients do not come to the end of their reads".to_owned());
            }
            Err(_) => {}
        }
    }
}

async fn until_still(shared: &Shared) {
    loop {
        let length = shared.recorder.length();
        tokio::time::sleep(STILL).await;
        if shared.recorder.length() == length {
            return;
        }
    }
}
