//! Moving the log into the database beside the writer, so that no commit has to wait for it.
//!
//! A commit that finds the log over its bound still moves what is left; that is little, because
//! this thread has moved the rest, and it is what lets the log begin anew.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

/// Messages after which the log is moved.
const MESSAGES: usize = 2000;

/// The thread, and how much has come since it was last asked. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Checkpointer {
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Where the log is moved on the caller's thread, instead of the thread.
    inline: Option<Connection>,
    messages: usize,
}

impl Checkpointer {
    /// Starts the thread on a connection of its own.
    pub(super) fn start(connection: Connection) -> io::Result<Self> {
        // One request that waits is as good as many.
        let (requests, receiver) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("sqlite-log".to_owned())
            .spawn(move || run(&connection, &receiver))?;
        Ok(Self { requests: Some(requests), thread: Some(thread), inline: None, messages: 0 })
    }

    /// A checkpointer without a thread: it moves the log when the commit is reported.
    pub(super) fn inline(connection: Connection) -> Self {
        Self { requests: None, thread: None, inline: Some(connection), messages: 0 }
    }

    /// So many messages were committed.
    pub(super) fn committed(&mut self, messages: usize) {
        self.messages += messages;
        if self.messages < MESSAGES {
            return;
        }
        self.messages = 0;
        if let Some(requests) = &self.requests {
            // Full: it has been asked and not begun yet.
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
            // A panic of the thread was told where it happened.
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
        // The log goes on growing, and the commit beyond its bound tries again.
        tracing::warn!(%error, "the log could not be moved into the database");
    }
}
