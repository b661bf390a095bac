//! A run: chats are made, clients live, something happens to the server, and all is read.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::checker::{Report, check};
use crate::client::Client;
use crate::history::{Event, Fault, Recorder, write};
use crate::rest;
use crate::server::Server;

const CLIENTS: usize = 6;
const CHATS: usize = 3;

/// How long everything may take to be answered, sent again and synced after the last fault.
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// How long nothing must happen for all to be still.
const STILL: Duration = Duration::from_millis(400);

/// How long that is waited for.
const STILL_MAX: Duration = Duration::from_secs(5);

/// What the clients are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// All they can.
    Busy,
    /// Only what is open.
    Settle,
    /// They read everything and go.
    Read,
}

/// What everybody in a run knows.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) address: SocketAddr,
    pub(crate) users: Vec<String>,
    pub(crate) chats: Vec<String>,
    pub(crate) recorder: Recorder,
    pub(crate) phase: watch::Sender<Phase>,
    /// Sends that are open, over all clients.
    pub(crate) in_flight: AtomicUsize,
    /// Milliseconds between two actions of a client.
    pub(crate) pace_ms: Range<u64>,
    settled: watch::Sender<[bool; CLIENTS]>,
}

impl Shared {
    /// A client has nothing left to do, or it has again.
    pub(crate) fn settle(&self, client: usize, settled: bool) {
        self.settled
            .send_if_modified(|all| std::mem::replace(&mut all[client], settled) != settled);
    }

    /// Waits until a send is open, for a moment at most.
    pub(crate) async fn until_in_flight(&self) {
        for _ in 0..200 {
            if self.in_flight.load(Ordering::Relaxed) > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) report: Report,
    /// Why the run did not come to its end, if it did not.
    pub(crate) complaint: Option<String>,
    pub(crate) history: PathBuf,
}

/// Runs clients against a server while `nemesis` does its work, then reads and checks.
pub(crate) async fn run(
    name: &str,
    seed: u64,
    server: &mut Server,
    nemesis: impl AsyncFnOnce(&mut Server, &Shared, &mut StdRng),
) -> Finished {
    let users: Vec<_> = (0..CLIENTS).map(|index| format!("client_{index}")).collect();
    let mut chats = Vec::new();
    for index in 0..CHATS {
        chats.push(rest::create_chat(server.address, &format!("chat {index}"), &users).await);
    }
    let shared = Arc::new(Shared {
        address: server.address,
        users,
        chats,
        recorder: Recorder::new(),
        phase: watch::Sender::new(Phase::Busy),
        in_flight: AtomicUsize::new(0),
        pace_ms: 5..60,
        settled: watch::Sender::new([false; CLIENTS]),
    });
    shared.recorder.fault(Fault::Started);
    let mut clients = JoinSet::new();
    for index in 0..CLIENTS {
        clients.spawn(Client::new(&shared, index, seed).run());
    }
    nemesis(server, &shared, &mut StdRng::seed_from_u64(seed)).await;
    let complaint = finish(&shared, &mut clients).await.err();
    let entries = shared.recorder.entries();
    let report = check(&entries);
    let history = history_path(name, seed);
    let keep = std::env::var_os("HISTORY_KEEP").is_some();
    if keep || complaint.is_some() || !report.violations.is_empty() {
        write(&entries, &history).unwrap();
    }
    let complaint = complaint.map(|complaint| format!("{complaint}\n{}", server.log()));
    Finished { report, complaint, history }
}

fn history_path(name: &str, seed: u64) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{name}-{seed}.ndjson"))
}

/// Lets the clients settle, waits until all is still, and reads.
async fn finish(shared: &Arc<Shared>, clients: &mut JoinSet<()>) -> Result<(), String> {
    shared.phase.send_replace(Phase::Settle);
    let mut settled = shared.settled.subscribe();
    let all = settled.wait_for(|all| all.iter().all(|one| *one));
    if timeout(SETTLE_MAX, all).await.is_err() {
        let states = *shared.settled.borrow();
        return Err(format!("the clients did not settle: {states:?}"));
    }
    // Where it is never still, the checker says why.
    let _ = timeout(STILL_MAX, until_still(shared)).await;
    shared.phase.send_replace(Phase::Read);
    let reading = async {
        while let Some(client) = clients.join_next().await {
            client.map_err(|error| format!("a client failed: {error}"))?;
        }
        Ok(())
    };
    let read = timeout(SETTLE_MAX, reading).await;
    read.unwrap_or_else(|_| Err("the clients do not come to the end of their reads".to_owned()))?;
    for chat in &shared.chats {
        let messages = rest::read_chat(shared.address, &shared.users[0], chat).await;
        let (reader, chat) = ("rest".to_owned(), chat.clone());
        shared.recorder.record(Event::FinalRead { reader, chat, messages });
    }
    Ok(())
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
