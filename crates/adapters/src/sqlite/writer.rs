//! The one thread that writes: it runs all waiting jobs in one transaction with one sync of the
//! disk, and only then replies.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use heartline_durability::{AppendError, Chain, NewMessage, StoreError};
use heartline_protocol::ChatId;
use heartline_runtime::{Clock, Random};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::append;
use super::check::Health;
use super::checkpoint::Checkpointer;
use super::counters::SqliteCounters;
use super::disk::DiskGuard;
use super::error::{concerns_rows, rejected, unknown};
use super::job::{AppendJob, AppendResults, Appends, Group, Job, Piece};
use super::write_transaction::{Memory, WriteTransaction};

/// Jobs that may wait; further callers wait until one has been taken.
const QUEUE_JOBS_MAX: usize = 1024;

/// How long an early acknowledgement, which only a test build sends, precedes its commit.
const PLANTED_HEAD_START: Duration = Duration::from_millis(20);

/// The parts of a writer.
#[derive(Debug)]
pub(super) struct WriterParts {
    pub(super) connection: Connection,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) disk: DiskGuard,
    pub(super) checkpointer: Checkpointer,
    pub(super) counters: SqliteCounters,
    pub(super) health: Arc<Health>,
}

/// The handle of the writer's thread. Dropping it finishes the waiting jobs, then ends the thread.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Runs the jobs on the calling tasks, instead of the thread.
    inline: Option<Inline>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(parts: WriterParts) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel(QUEUE_JOBS_MAX);
        let loop_ = WriterLoop { parts, memory: Memory::default() };
        let thread = thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || loop_.run(receiver))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), inline: None })
    }

    /// A writer without a thread: every job runs on the task that submits it.
    pub(super) fn inline(parts: WriterParts) -> Self {
        let (jobs, receiver) = mpsc::channel(QUEUE_JOBS_MAX);
        let loop_ = WriterLoop { parts, memory: Memory::default() };
        let inline = Inline(Mutex::new(Some((loop_, receiver))));
        Self { jobs: Some(jobs), thread: None, inline: Some(inline) }
    }

    /// Stores messages.
    pub(super) async fn append(&self, batch: Vec<NewMessage>) -> AppendResults {
        let count = batch.len();
        let (reply, results) = oneshot::channel();
        let results = match self.submit(Job::Append(AppendJob::new(batch, reply))).await {
            Ok(()) => results.await.map_err(|_| ended()),
            Err(error) => Err(error),
        };
        results.unwrap_or_else(|error| vec![Err(AppendError::Store(error)); count])
    }

    /// Runs a function in a transaction, and returns its result once that is committed.
    pub(super) async fn write<T, F>(&self, function: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTransaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.write_then(function, |_| {}).await
    }

    /// The same; `then` runs on the writer's thread, in the order of the commits and before any
    /// caller has its result, even if this caller has gone meanwhile.
    pub(super) async fn write_then<T, F, Then>(
        &self,
        function: F,
        then: Then,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTransaction<'_>) -> rusqlite::Result<T> + Send + 'static,
        Then: FnOnce(&T) + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        self.submit(Job::Work(Box::new(Piece::new(function, then, reply)))).await?;
        result.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Finishes the jobs that were submitted so far, then ends; later jobs are rejected.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.submit(Job::Close(reply)).await.is_ok() {
            // An error means that the thread has ended already.
            let _ = closed.await;
        }
    }

    /// The number of waiting jobs.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.jobs.as_ref().map_or(0, |jobs| jobs.max_capacity() - jobs.capacity())
    }

    async fn submit(&self, job: Job) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().expect("the sender is there until the drop");
        jobs.send(job).await.map_err(|_| StoreError::rejected("the store is closed"))?;
        if let Some(inline) = &self.inline {
            inline.run_waiting();
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
        if let Some(inline) = self.inline.take() {
            inline.end();
        }
    }
}

/// The writer's loop, if no thread runs it; empty once it is closed.
#[derive(Debug)]
struct Inline(Mutex<Option<(WriterLoop, mpsc::Receiver<Job>)>>);

impl Inline {
    /// Runs every waiting job.
    fn run_waiting(&self) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((writer, jobs)) = slot.as_mut() else { return };
        let mut close = None;
        while close.is_none()
            && let Ok(first) = jobs.try_recv()
        {
            close = writer.step(first, jobs);
        }
        if let Some(close) = close {
            let (writer, jobs) = slot.take().expect("the loop was there just now");
            writer.end(jobs, Some(close));
        }
    }

    fn end(self) {
        self.run_waiting();
        let slot = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((writer, jobs)) = slot {
            writer.end(jobs, None);
        }
    }
}

fn ended() -> StoreError {
    StoreError::unknown("the store's writer has ended")
}

#[derive(Debug)]
struct WriterLoop {
    parts: WriterParts,
    memory: Memory,
}

impl WriterLoop {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut close = None;
        while close.is_none()
            && let Some(first) = jobs.blocking_recv()
        {
            close = self.step(first, &mut jobs);
        }
        self.end(jobs, close);
    }

    /// Commits a job together with the jobs that wait behind it. Returns the reply of a closing job.
    fn step(&mut self, first: Job, jobs: &mut mpsc::Receiver<Job>) -> Option<oneshot::Sender<()>> {
        let mut group = Group::gather(first, jobs);
        if !group.is_empty() {
            let messages = group.messages();
            let committed = self.commit(&mut group);
            self.report(&group, &committed);
            group.reply(&committed);
            self.parts.checkpointer.committed(messages);
        }
        group.close
    }

    fn end(self, jobs: mpsc::Receiver<Job>, close: Option<oneshot::Sender<()>>) {
        // Callers of the jobs in it get an error; those jobs never began.
        drop(jobs);
        self.finish();
        if let Some(close) = close {
            let _ = close.send(());
        }
    }

    /// Runs all jobs of a group in one transaction. Its failure concerns every job; a failure of a
    /// single job is kept with the job.
    fn commit(&mut self, group: &mut Group) -> Result<(), StoreError> {
        if let Some(damage) = self.parts.health.damage() {
            return Err(StoreError::rejected(format!("the store is damaged: {damage}")));
        }
        if let Some(refusal) = self.parts.disk.refusal(self.parts.clock) {
            return Err(refusal);
        }
        if let Err(error) = self.begin() {
            self.roll_back();
            return Err(rejected("beginning a transaction", error));
        }
        if let Err(error) = self.run_all(group) {
            self.roll_back();
            return Err(rejected("a write", error));
        }
        // Proves in a test build that the tests catch a server that acknowledges too early.
        if cfg!(feature = "planted-early-ack") {
            group.reply(&Ok(()));
            thread::sleep(PLANTED_HEAD_START);
        }
        execute(&self.parts.connection, "COMMIT").map_err(|error| {
            self.roll_back();
            unknown("a commit", error)
        })
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        execute(&self.parts.connection, "BEGIN IMMEDIATE")?;
        self.memory.refresh(&self.parts.connection)
    }

    /// Runs every job inside a savepoint of its own, unless the appends are alone: a savepoint
    /// copies every page that the job changes. Fails only if all jobs failed, or if the database
    /// has ended the transaction, as it does when the disk is full or fails.
    fn run_all(&mut self, group: &mut Group) -> rusqlite::Result<()> {
        let Group { appends, works, .. } = group;
        if works.is_empty() {
            return match store(&mut self.transaction(), appends, None) {
                Err(error) if concerns_rows(&error) => {
                    self.roll_back();
                    self.begin()?;
                    self.store_by_chat(appends)
                }
                result => result,
            };
        }
        if !appends.is_empty() {
            match self.run_piece(|transaction| store(transaction, appends, None))? {
                Err(error) if concerns_rows(&error) => self.store_by_chat(appends)?,
                Err(error) => appends.fail(None, &rejected("a write", error)),
                Ok(()) => {}
            }
        }
        for (work, failure) in works {
            let result = self.run_piece(|transaction| work.run(transaction))?;
            *failure = result.err().map(|error| rejected("a write", error));
        }
        Ok(())
    }

    /// Stores the messages of each chat inside a savepoint of its own, after one of the chats has
    /// failed: that chat fails again, alone.
    fn store_by_chat(&mut self, appends: &mut Appends) -> rusqlite::Result<()> {
        for chat_id in appends.chat_ids() {
            let chat_id = Some(chat_id);
            let result = self.run_piece(|transaction| store(transaction, appends, chat_id))?;
            if let Err(error) = result {
                appends.fail(chat_id, &rejected("a write", error));
            }
        }
        Ok(())
    }

    /// Runs a part of the transaction inside a savepoint. The outer result fails if the database
    /// has ended the transaction.
    fn run_piece(
        &mut self,
        piece: impl FnOnce(&mut WriteTransaction<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<rusqlite::Result<()>> {
        execute(&self.parts.connection, "SAVEPOINT piece")?;
        let result = piece(&mut self.transaction());
        let connection = &self.parts.connection;
        let Err(error) = result else {
            execute(connection, "RELEASE piece")?;
            return Ok(Ok(()));
        };
        self.memory.clear();
        if connection.is_autocommit() {
            return Err(error);
        }
        execute(connection, "ROLLBACK TO piece")?;
        execute(connection, "RELEASE piece")?;
        Ok(Err(error))
    }

    fn transaction(&mut self) -> WriteTransaction<'_> {
        WriteTransaction {
            connection: &self.parts.connection,
            memory: &mut self.memory,
            counters: &self.parts.counters,
            now: self.parts.clock.wall(),
            random: self.parts.random,
        }
    }

    /// Rolls back a failed transaction, unless the database has, and clears the memory.
    fn roll_back(&mut self) {
        self.memory.clear();
        if !self.parts.connection.is_autocommit()
            && let Err(error) = execute(&self.parts.connection, "ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn report(&self, group: &Group, committed: &Result<(), StoreError>) {
        match committed {
            Ok(()) => self.parts.counters.commits.inc(),
            Err(_) => self.parts.counters.failures.inc(),
        };
        for failure in committed.as_ref().err().into_iter().chain(group.failures()) {
            let outcome = failure.outcome;
            tracing::warn!(?outcome, error = %Chain(failure), "store write failed");
        }
    }

    /// Moves the write-ahead log into the database and records the clean stop. A file whose check
    /// was interrupted, or found damage, is checked again at the next start.
    fn finish(self) {
        drop(self.parts.checkpointer);
        let is_open = i64::from(!self.parts.health.is_trusted());
        let sql = "UPDATE meta SET value = ?1 WHERE name = 'is_open'";
        let ended = self.parts.connection.execute(sql, [is_open]).and_then(|_| {
            self.parts.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        });
        if let Err(error) = ended {
            tracing::warn!(%error, "the store could not be closed in order; it will be checked");
        }
    }
}

/// Stores the messages of one chat, or all messages, and writes the heads.
fn store(
    transaction: &mut WriteTransaction<'_>,
    appends: &mut Appends,
    chat_id: Option<ChatId>,
) -> rusqlite::Result<()> {
    appends.store(chat_id, |message| append::append(transaction, message))?;
    transaction.write_heads()
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
