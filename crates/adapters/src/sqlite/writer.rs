//! The one thread that writes: it takes everything that waits, does it in one transaction with
//! one sync of the disk, and only then answers.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use heartline_durability::{Chain, NewMessage, StoreError};
use heartline_routing::Clock;
use heartline_runtime::Random;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::append::{self, Answer};
use super::check::Health;
use super::checkpoint::Checkpointer;
use super::counters::SqliteCounters;
use super::disk::DiskGuard;
use super::error::{rejected, unknown};
use super::job::{AppendJob, Group, Job, Piece};
use super::session::{Memory, Session};

/// Jobs that may wait; who comes then waits to be let in.
const QUEUE_JOBS_MAX: usize = 1024;

/// How long a planted early acknowledgement is ahead of its commit.
const PLANTED_HEAD_START: Duration = Duration::from_millis(20);

/// What the writer needs to begin.
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

/// The way to the writer's thread. Dropping it finishes what waits, then ends the thread.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Does the jobs on the tasks that ask, instead of the thread.
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

    /// A writer without a thread: every job is done on the task that asks for it.
    pub(super) fn inline(parts: WriterParts) -> Self {
        let (jobs, receiver) = mpsc::channel(QUEUE_JOBS_MAX);
        let loop_ = WriterLoop { parts, memory: Memory::default() };
        let inline = Inline(Mutex::new(Some((loop_, receiver))));
        Self { jobs: Some(jobs), thread: None, inline: Some(inline) }
    }

    /// Has messages stored.
    pub(super) async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<Answer>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let answers = Vec::new();
        self.submit(Job::Append(AppendJob { batch, answers, reply })).await?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Has a function run in a transaction; its result counts once that is committed.
    pub(super) async fn write<T, F>(&self, function: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Session<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.write_then(function, |_| {}).await
    }

    /// The same; what comes then is done on the writer's thread, in the order of the commits and
    /// before anybody is answered, also if who asked has gone meanwhile.
    pub(super) async fn write_then<T, F, Then>(
        &self,
        function: F,
        then: Then,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Session<'_>) -> rusqlite::Result<T> + Send + 'static,
        Then: FnOnce(&T) + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.submit(Job::Work(Box::new(Piece::new(function, then, reply)))).await?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Finishes what was asked for so far, then ends; whatever comes later is refused.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.submit(Job::Close(reply)).await.is_ok() {
            // It ends in either case: an answer, or a thread that is gone.
            let _ = closed.await;
        }
    }

    /// How many jobs wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.jobs.as_ref().map_or(0, |jobs| jobs.max_capacity() - jobs.capacity())
    }

    async fn submit(&self, job: Job) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().expect("the way is there until it is dropped");
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
            // A panic of the thread was told where it happened.
            let _ = thread.join();
        }
        if let Some(inline) = self.inline.take() {
            inline.end();
        }
    }
}

/// The writer's loop where no thread runs it; empty once it is closed.
#[derive(Debug)]
struct Inline(Mutex<Option<(WriterLoop, mpsc::Receiver<Job>)>>);

impl Inline {
    /// Does every job that waits.
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

    /// Commits a job together with those that wait behind it. Answers who asked for the end.
    fn step(&mut self, first: Job, jobs: &mut mpsc::Receiver<Job>) -> Option<oneshot::Sender<()>> {
        let mut group = Group::gather(first, jobs);
        if !group.is_empty() {
            let messages = group.messages();
            let committed = self.commit(&mut group);
            self.report(&group, &committed);
            group.answer(&committed);
            self.parts.checkpointer.committed(messages);
        }
        group.close
    }

    fn end(self, jobs: mpsc::Receiver<Job>, close: Option<oneshot::Sender<()>>) {
        // Who still waits is told, because the receiver goes; what is in it was never begun.
        drop(jobs);
        self.finish();
        if let Some(close) = close {
            let _ = close.send(());
        }
    }

    /// Does all the work of a group in one transaction. Its own failure concerns everybody;
    /// failures of single pieces are kept with them.
    fn commit(&mut self, group: &mut Group) -> Result<(), StoreError> {
        if let Some(damage) = self.parts.health.damage() {
            return Err(StoreError::rejected(format!("the store is damaged: {damage}")));
        }
        if let Some(refusal) = self.parts.disk.refusal(self.parts.clock) {
            return Err(refusal);
        }
        let begin = |writer: &mut Self| {
            execute(&writer.parts.connection, "BEGIN IMMEDIATE")?;
            writer.memory.refresh(&writer.parts.connection)
        };
        if let Err(error) = begin(self) {
            self.roll_back();
            return Err(rejected("beginning a transaction", error));
        }
        if let Err(error) = self.run_all(group) {
            self.roll_back();
            return Err(rejected("a write", error));
        }
        // Exists only to prove that the tests catch a server that acknowledges too early.
        if cfg!(feature = "planted-early-ack") {
            group.answer(&Ok(()));
            thread::sleep(PLANTED_HEAD_START);
        }
        execute(&self.parts.connection, "COMMIT").map_err(|error| {
            self.roll_back();
            unknown("a commit", error)
        })
    }

    /// Runs every piece inside a savepoint of its own; one that is alone has the transaction for
    /// it, which saves a copy of every page that it touches. Fails only when all of it failed, or
    /// when the database has given up the transaction, as it does when the disk is full or fails.
    fn run_all(&mut self, group: &mut Group) -> rusqlite::Result<()> {
        let Group { appends, appends_failed, works, .. } = group;
        let has_appends = !appends.is_empty();
        let mut store = |session: &mut Session<'_>| {
            for job in appends.iter_mut() {
                job.answers = append::append(session, std::mem::take(&mut job.batch))?;
            }
            session.write_heads()
        };
        if works.is_empty() {
            return store(&mut self.session());
        }
        if has_appends {
            *appends_failed = self.run_piece(store)?;
        }
        for (work, failed) in works {
            *failed = self.run_piece(|session| work.run(session))?;
        }
        Ok(())
    }

    fn run_piece(
        &mut self,
        piece: impl FnOnce(&mut Session<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Option<StoreError>> {
        execute(&self.parts.connection, "SAVEPOINT piece")?;
        let result = piece(&mut self.session());
        let connection = &self.parts.connection;
        let Err(error) = result else {
            execute(connection, "RELEASE piece")?;
            return Ok(None);
        };
        self.memory.clear();
        if connection.is_autocommit() {
            return Err(error);
        }
        execute(connection, "ROLLBACK TO piece")?;
        execute(connection, "RELEASE piece")?;
        Ok(Some(rejected("a write", error)))
    }

    fn session(&mut self) -> Session<'_> {
        Session {
            connection: &self.parts.connection,
            memory: &mut self.memory,
            counters: &self.parts.counters,
            now: self.parts.clock.wall(),
            random: self.parts.random,
        }
    }

    /// Ends a transaction that failed, if the database has not, and forgets what it had seen.
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
        let own = group.works.iter().filter_map(|(_, failure)| failure.as_ref());
        for failure in committed.as_ref().err().into_iter().chain(&group.appends_failed).chain(own)
        {
            let outcome = failure.outcome;
            tracing::warn!(?outcome, error = %Chain(failure), "store write failed");
        }
    }

    /// The orderly end: what is in the log goes into the database, and the flag says so. A file
    /// whose check was broken off, or found something, is checked again next time.
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

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
