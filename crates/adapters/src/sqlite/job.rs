//! Jobs for the writer: all jobs that wait at the same time are committed in one transaction.

use std::collections::HashSet;

use heartline_durability::{AppendError, Appended, NewMessage, StoreError};
use heartline_protocol::ChatId;
use tokio::sync::{mpsc, oneshot};

use super::append::MessageOutcome;
use super::write_transaction::WriteTransaction;

/// Messages of one transaction at most; further jobs wait for the next one.
const GROUP_MESSAGES_MAX: usize = 4096;

/// Other writes of one transaction at most.
const GROUP_WORKS_MAX: usize = 256;

/// The sender of a job's result.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// One job for the writer.
pub(super) enum Job {
    /// Store messages.
    Append(AppendJob),
    /// Write something else.
    Work(Box<dyn Work>),
    /// Finish the jobs before this one, then end.
    Close(oneshot::Sender<()>),
}

/// The results of a batch, in its order.
pub(super) type AppendResults = Vec<Result<Appended, AppendError>>;

/// A batch of messages to be stored.
pub(super) struct AppendJob {
    batch: Vec<NewMessage>,
    /// The outcome of each message of the batch, or the failure of its chat.
    outcomes: Vec<Option<Result<MessageOutcome, StoreError>>>,
    reply: oneshot::Sender<AppendResults>,
}

impl AppendJob {
    pub(super) fn new(batch: Vec<NewMessage>, reply: oneshot::Sender<AppendResults>) -> Self {
        let outcomes = batch.iter().map(|_| None).collect();
        Self { batch, outcomes, reply }
    }

    /// Replies once the transaction is committed, or has failed.
    fn reply(self, committed: &Result<(), StoreError>) {
        let Self { batch, outcomes, reply } = self;
        let results = batch.into_iter().zip(outcomes).map(|(message, outcome)| {
            committed.clone()?;
            let numbered = outcome.expect("every message of a commit has an outcome")??;
            Ok(numbered.appended(message))
        });
        // The caller may have gone.
        let _ = reply.send(results.collect());
    }
}

/// A write that is part of a transaction, and whose result is sent after the commit.
pub(super) trait Work: Send {
    /// Runs the write and keeps its result.
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> rusqlite::Result<()>;

    /// Sends the result, or the failure.
    fn reply(self: Box<Self>, committed: Result<(), StoreError>);

    /// Whether the caller has gone.
    fn is_abandoned(&self) -> bool;
}

/// A write made of a function, and a second function that runs once the result is committed, even
/// if the caller has gone.
pub(super) struct Piece<T, F, Then> {
    function: Option<F>,
    then: Then,
    result: Option<T>,
    reply: Reply<T>,
}

impl<T, F, Then> Piece<T, F, Then> {
    pub(super) fn new(function: F, then: Then, reply: Reply<T>) -> Self {
        Self { function: Some(function), then, result: None, reply }
    }
}

impl<T, F, Then> Work for Piece<T, F, Then>
where
    T: Send,
    F: FnOnce(&mut WriteTransaction<'_>) -> rusqlite::Result<T> + Send,
    Then: FnOnce(&T) + Send,
{
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> rusqlite::Result<()> {
        let function = self.function.take().expect("a write runs once");
        self.result = Some(function(transaction)?);
        Ok(())
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { then, result, reply, .. } = *self;
        let result = committed.map(|()| result.expect("a committed write has run"));
        if let Ok(result) = &result {
            then(result);
        }
        // The caller may have gone.
        let _ = reply.send(result);
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

/// The jobs of one transaction.
#[derive(Default)]
pub(super) struct Group {
    /// Batches of messages; they run first and together, so that each head is written once.
    pub(super) appends: Appends,
    /// The other writes, each with its own failure.
    pub(super) works: Vec<(Box<dyn Work>, Option<StoreError>)>,
    /// The caller that waits for the writer's end.
    pub(super) close: Option<oneshot::Sender<()>>,
    messages: usize,
}

impl Group {
    /// Collects a job and the jobs that wait behind it, up to the limits of one transaction.
    pub(super) fn gather(first: Job, jobs: &mut mpsc::Receiver<Job>) -> Self {
        let mut group = Self::default();
        group.add(first);
        while group.has_room() {
            let Ok(job) = jobs.try_recv() else { break };
            group.add(job);
        }
        group
    }

    fn has_room(&self) -> bool {
        self.close.is_none()
            && self.messages < GROUP_MESSAGES_MAX
            && self.works.len() < GROUP_WORKS_MAX
    }

    /// Adds a job, unless its caller has gone.
    fn add(&mut self, job: Job) {
        match job {
            Job::Append(job) if job.reply.is_closed() => {}
            Job::Append(job) => {
                self.messages += job.batch.len();
                self.appends.jobs.push(job);
            }
            Job::Work(work) if work.is_abandoned() => {}
            Job::Work(work) => self.works.push((work, None)),
            Job::Close(reply) => self.close = Some(reply),
        }
    }

    /// The number of messages.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    /// Whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.appends.jobs.is_empty() && self.works.is_empty()
    }

    /// The failures of single parts of the transaction.
    pub(super) fn failures(&self) -> impl Iterator<Item = &StoreError> {
        let works = self.works.iter().filter_map(|(_, failure)| failure.as_ref());
        self.appends.failure.iter().chain(works)
    }

    /// Sends every caller its result, its own failure or the failure of the transaction.
    pub(super) fn reply(&mut self, committed: &Result<(), StoreError>) {
        for job in self.appends.jobs.drain(..) {
            job.reply(committed);
        }
        for (work, failure) in self.works.drain(..) {
            work.reply(failure.map_or_else(|| committed.clone(), Err));
        }
    }
}

/// The batches of messages of one transaction.
#[derive(Default)]
pub(super) struct Appends {
    jobs: Vec<AppendJob>,
    /// The first failure of a chat.
    failure: Option<StoreError>,
}

impl Appends {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The chats of all messages, in the order of their first message.
    pub(super) fn chat_ids(&self) -> Vec<ChatId> {
        let mut seen = HashSet::new();
        let messages = self.jobs.iter().flat_map(|job| &job.batch);
        messages.map(|message| message.chat_id).filter(|chat_id| seen.insert(*chat_id)).collect()
    }

    /// Sets the outcome of every message, or of the messages of one chat.
    pub(super) fn store(
        &mut self,
        chat_id: Option<ChatId>,
        mut store: impl FnMut(&NewMessage) -> rusqlite::Result<MessageOutcome>,
    ) -> rusqlite::Result<()> {
        for (message, outcome) in self.of_chat(chat_id) {
            *outcome = Some(Ok(store(message)?));
        }
        Ok(())
    }

    /// Fails every message, or the messages of one chat.
    pub(super) fn fail(&mut self, chat_id: Option<ChatId>, failure: &StoreError) {
        for (_, outcome) in self.of_chat(chat_id) {
            *outcome = Some(Err(failure.clone()));
        }
        self.failure.get_or_insert_with(|| failure.clone());
    }

    fn of_chat(
        &mut self,
        chat_id: Option<ChatId>,
    ) -> impl Iterator<Item = (&NewMessage, &mut Option<Result<MessageOutcome, StoreError>>)> {
        let messages = self.jobs.iter_mut().flat_map(|job| job.batch.iter().zip(&mut job.outcomes));
        messages.filter(move |(message, _)| chat_id.is_none_or(|id| message.chat_id == id))
    }
}
