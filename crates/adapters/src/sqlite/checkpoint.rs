//! Checkpoints: a thread beside the writer moves the write-ahead log into the database, so that no
//! commit waits for it.
//!
//! A commit that finds the log over its limit still moves the rest, which is little, and only then
//! can SQLite start the log from its beginning.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

/// Messages after which a checkpoint runs.
const MESSAGES: usize = 2000;

/// The checkpointing thread, and the messages since the last request. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Checkpointer {
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The connection for checkpoints on the caller's thread, instead of the thread.
    inline: Option<Connection>,
    messages: usize,
}

impl Checkpointer {
    /// Starts the thread on a connection of its own.
    pub(super) fn start(connection: Connection) -> io::Result<Self> {
        // One waiting request is enough.
        let (requests, receiver) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("sqlite-log".to_owned())
            .spawn(move || run(&connection, &receiver))?;
        Ok(Self { requests: Some(requests), thread: Some(thread), inline: None, messages: 0 })
    }

    /// A checkpointer without a thread: checkpoints run when a commit is reported.
    pub(super) fn inline(connection: Connection) -> Self {
        Self { requests: None, thread: None, inline: Some(connection), messages: 0 }
    }

    /// Counts committed messages, and requests a checkpoint after enough of them.
    pub(super) fn committed(&mut self, messages: usize) {
        self.messages += messages;
        if self.messages < MESSAGES {
            return;
        }
        self.messages = 0;
        if let Some(requests) = &self.requests {
            // If the channel is full, a request is waiting already.
            let _ = requests.try_send(());
        }
        if let Some(connection) = &self.inline {
            checkpoint(connection);
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, requests: &Receiver<()>) {
    while requests.recv().is_ok() {
        checkpoint(connection);
    }
}

fn checkpoint(connection: &Connection) {
    let sql = "PRAGMA wal_checkpoint(PASSIVE)";
    if let Err(error) = connection.query_row(sql, [], |_| Ok(())) {
        // The log grows further, and the commit that exceeds its limit tries again.
        tracing::warn!(%error, "the log could not be moved into the database");
    }
}
