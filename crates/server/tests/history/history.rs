//! The actions of the clients of a run and the frames that they received, in the order of one
//! clock.
//!
//! A request is recorded before its bytes are sent, and a reply after its bytes were received. If
//! the history shows that a reply precedes a request, then it did so in reality.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heartline_runtime::Clock;
use serde::Serialize;
use tokio::time::Instant;

/// A message as its sender names it: what a retry must repeat, and what must be stored once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(crate) struct Key {
    pub(crate) chat: String,
    pub(crate) sender: String,
    pub(crate) id: String,
}

/// A message as a client received it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Seen {
    #[serde(flatten)]
    pub(crate) key: Key,
    pub(crate) sequence: u64,
    pub(crate) message_id: String,
    pub(crate) hash: u64,
}

/// The outcome of a send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum SendOutcome {
    /// The message is stored; the fields of its acknowledgement.
    Stored { chat: String, id: String, sequence: u64, message_id: String, duplicate: bool },
    /// This attempt stored nothing.
    Refused { code: String },
    /// The message may have been stored.
    Unknown { code: String },
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub(crate) enum End {
    /// The client dropped it.
    Dropped,
    /// The server closed the connection with this reason.
    Closed { reason: String },
    /// The connection broke without a Close.
    Lost,
}

/// A fault of a node, by its index from 0, or of an engine that nodes share. The fault is recorded
/// before it begins, and its end after it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    Started {
        node: usize,
    },
    Killed {
        node: usize,
    },
    PowerCut,
    Paused {
        node: usize,
    },
    Resumed {
        node: usize,
    },
    /// A node shuts down and drains its connections.
    Drained {
        node: usize,
    },
    DiskFilled,
    DiskFreed,
    StoreKilled,
    StorePaused,
    StoreBack,
    RedisKilled,
    RedisPaused,
    /// Redis is emptied while it runs.
    RedisWiped,
    RedisBack,
}

impl Fault {
    /// The name of the fault; none for its end.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Killed { .. } => Some("node killed"),
            Self::PowerCut => Some("power cut"),
            Self::Paused { .. } => Some("node paused"),
            Self::Drained { .. } => Some("node drained"),
            Self::DiskFilled => Some("disk filled"),
            Self::StoreKilled => Some("PostgreSQL killed"),
            Self::StorePaused => Some("PostgreSQL paused"),
            Self::RedisKilled => Some("Redis killed"),
            Self::RedisPaused => Some("Redis paused"),
            Self::RedisWiped => Some("Redis wiped"),
            Self::Started { .. }
            | Self::Resumed { .. }
            | Self::DiskFreed
            | Self::StoreBack
            | Self::RedisBack => None,
        }
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    Connected {
        connection: u64,
        client: String,
        node: usize,
        /// The connection id that the node assigned.
        id: String,
    },
    /// The client gave up waiting for a connection, which a node may still take up later.
    Abandoned {
        client: String,
        node: usize,
    },
    Ended {
        connection: u64,
        #[serde(flatten)]
        end: End,
    },
    SendInvoked {
        request: u64,
        connection: u64,
        #[serde(flatten)]
        key: Key,
        hash: u64,
    },
    SendAnswered {
        request: u64,
        #[serde(flatten)]
        answer: SendOutcome,
    },
    SyncInvoked {
        request: u64,
        connection: u64,
        chat: String,
        after: u64,
    },
    SyncAnswered {
        request: u64,
        messages: Vec<Seen>,
        has_more: bool,
        head: u64,
    },
    ManifestInvoked {
        request: u64,
        connection: u64,
    },
    ManifestAnswered {
        request: u64,
        heads: Vec<(String, u64)>,
    },
    /// A sync or a manifest was refused.
    ReadRefused {
        request: u64,
        code: String,
    },
    /// An answer to nothing that was open.
    Stray {
        connection: u64,
        what: String,
    },
    Pushed {
        connection: u64,
        #[serde(flatten)]
        message: Seen,
    },
    /// The server tells the client to sync these chats, or all.
    ResyncRequired {
        connection: u64,
        reason: String,
        chats: Option<Vec<String>>,
    },
    /// All is still, and the client holds what was given to it without asking once more.
    Quiet {
        client: String,
    },
    /// The client has synced from its cursors.
    CaughtUp {
        client: String,
    },
    /// The connections of a client as a node knows them, long after the last fault.
    Routed {
        node: usize,
        client: String,
        ids: Vec<String>,
    },
    /// All of a chat, read from its beginning after the last fault.
    FinalRead {
        reader: String,
        chat: String,
        messages: Vec<Seen>,
    },
    Fault {
        fault: Fault,
    },
    /// The number of times that the nodes' breakers opened, from their logs.
    BreakersOpened {
        count: usize,
    },
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    pub(crate) at_us: u64,
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// Where every task of a run writes down what happens to it.
#[derive(Debug)]
pub(crate) struct Recorder {
    origin: Instant,
    entries: Mutex<Vec<Entry>>,
    names: AtomicU64,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { origin: Clock::system().now(), entries: Mutex::default(), names: AtomicU64::new(1) }
    }

    /// A number that this run gives to one request or one connection.
    pub(crate) fn name(&self) -> u64 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes an event down at this moment: positions and times have one order.
    pub(crate) fn record(&self, event: Event) {
        let mut entries = self.entries.lock().unwrap();
        let at_us = self.origin.elapsed().as_micros() as u64;
        entries.push(Entry { at_us, event });
    }

    /// When the last fault began or ended.
    pub(crate) fn last_fault_at(&self) -> Instant {
        let entries = self.entries.lock().unwrap();
        let last = entries.iter().rfind(|entry| matches!(entry.event, Event::Fault { .. }));
        self.origin + Duration::from_micros(last.map_or(0, |entry| entry.at_us))
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.record(Event::Fault { fault });
    }

    /// How much has happened so far.
    pub(crate) fn length(&self) -> usize {
        self.entries.lock().unwrap().len()
    }

    /// All that has happened so far.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }
}

/// Writes a history, one JSON object a line.
pub(crate) fn write(entries: &[Entry], path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for entry in entries {
        serde_json::to_writer(&mut file, entry)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// The hash that replaces a message's content in a history.
pub(crate) fn hash_of(content: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
