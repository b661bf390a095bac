//! The threads that read beside the writer, each with a connection of its own.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use heartline_durability::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::error::rejected;

/// Reads that may wait; further callers wait until one has been taken.
const QUEUE_READS_MAX: usize = 256;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The handle of the reading threads. Dropping it finishes the waiting reads, then ends the
/// threads.
#[derive(Debug)]
pub(super) struct Readers {
    reads: Option<mpsc::Sender<Read>>,
    threads: Vec<JoinHandle<()>>,
    /// The connection for reads on the calling tasks, instead of the threads.
    inline: Option<Mutex<(Connection, mpsc::Receiver<Read>)>>,
}

impl Readers {
    /// Starts one thread per connection.
    pub(super) fn start(connections: Vec<Connection>) -> io::Result<Self> {
        let (reads, receiver) = mpsc::channel(QUEUE_READS_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut readers = Self { reads: Some(reads), threads: Vec::new(), inline: None };
        for (number, connection) in connections.into_iter().enumerate() {
            let receiver = Arc::clone(&receiver);
            let thread = thread::Builder::new()
                .name(format!("sqlite-reader-{number}"))
                .spawn(move || serve(&connection, &receiver))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Readers without threads: every read runs on the calling task.
    pub(super) fn inline(connection: Connection) -> Self {
        let (reads, receiver) = mpsc::channel(QUEUE_READS_MAX);
        let inline = Some(Mutex::new((connection, receiver)));
        Self { reads: Some(reads), threads: Vec::new(), inline }
    }

    /// Runs a function in a read transaction, which sees one snapshot.
    pub(super) async fn read<T, F>(&self, function: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let read: Read = Box::new(move |connection| {
            if reply.is_closed() {
                return;
            }
            let result = in_one_instant(connection, function);
            // The caller may have gone.
            let _ = reply.send(result.map_err(|error| rejected("a read", error)));
        });
        let reads = self.reads.as_ref().expect("the sender is there until the drop");
        reads.send(read).await.map_err(|_| StoreError::rejected("the store is closed"))?;
        self.run_waiting();
        answer.await.unwrap_or_else(|_| Err(StoreError::rejected("a reader has ended")))
    }
}

impl Readers {
    /// Runs every waiting read, if there are no threads.
    fn run_waiting(&self) {
        let Some(inline) = &self.inline else { return };
        let (connection, reads) = &mut *inline.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(read) = reads.try_recv() {
            read(connection);
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.reads = None;
        for thread in self.threads.drain(..) {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

fn serve(connection: &Connection, reads: &Mutex<mpsc::Receiver<Read>>) {
    loop {
        // One thread waits for the next read; the others wait for the mutex.
        let next = reads.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(read) = next else { return };
        read(connection);
    }
}

fn in_one_instant<T>(
    connection: &Connection,
    function: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.unchecked_transaction()?;
    let result = function(&transaction)?;
    transaction.commit()?;
    Ok(result)
}
