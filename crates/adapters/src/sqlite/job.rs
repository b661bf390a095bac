//! What the writer is asked to do: pieces of work that wait together and are committed together.

use heartline_durability::{NewMessage, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::append::Answer;
use super::session::Session;

/// Messages that one transaction takes at most; what is beyond waits for the next.
const GROUP_MESSAGES_MAX: usize = 4096;

/// Other pieces of work that one transaction takes at most.
const GROUP_WORKS_MAX: usize = 256;

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// One thing for the writer to do.
pub(super) enum Job {
    /// Messages to be stored.
    Append(AppendJob),
    /// Anything else that writes.
    Work(Box<dyn Work>),
    /// Finish what came before this, then end.
    Close(oneshot::Sender<()>),
}

/// A batch of messages to be stored.
pub(super) struct AppendJob {
    pub(super) batch: Vec<NewMessage>,
    pub(super) answers: Vec<Answer>,
    pub(super) reply: Reply<Vec<Answer>>,
}

/// A piece of work that writes in a transaction and is answered when that is committed.
pub(super) trait Work: Send {
    /// Does it and keeps the result.
    fn run(&mut self, session: &mut Session<'_>) -> rusqlite::Result<()>;

    /// Tells the result that was kept, or why there is none.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);

    /// Whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool;
}

/// A piece of work made of a function, and of what is to be done once its result is committed,
/// whether or not somebody still waits for it.
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
    F: FnOnce(&mut Session<'_>) -> rusqlite::Result<T> + Send,
    Then: FnOnce(&T) + Send,
{
    fn run(&mut self, session: &mut Session<'_>) -> rusqlite::Result<()> {
        let function = self.function.take().expect("a piece of work runs once");
        self.result = Some(function(session)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { then, result, reply, .. } = *self;
        let result = committed.map(|()| result.expect("what is committed was run"));
        if let Ok(result) = &result {
            then(result);
        }
        // Who has gone does not want to know.
        let _ = reply.send(result);
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

/// What is committed together.
#[derive(Default)]
pub(super) struct Group {
    /// Batches of messages; they run first and as one piece, so that each head is written once.
    pub(super) appends: Vec<AppendJob>,
    /// Why the batches failed, if they did.
    pub(super) appends_failed: Option<StoreError>,
    /// The rest, each with why it failed, if it did.
    pub(super) works: Vec<(Box<dyn Work>, Option<StoreError>)>,
    /// Who asked for the end.
    pub(super) close: Option<oneshot::Sender<()>>,
    messages: usize,
}

impl Group {
    /// Takes a job and everything that waits behind it, as far as one transaction goes.
    pub(super) fn gather(first: Job, jobs: &mut mpsc::Receiver<Job>) -> Self {
        let mut group = Self::default();
        group.take(first);
        while group.has_room() {
            let Ok(job) = jobs.try_recv() else { break };
            group.take(job);
        }
        group
    }

    fn has_room(&self) -> bool {
        self.close.is_none()
            && self.messages < GROUP_MESSAGES_MAX
            && self.works.len() < GROUP_WORKS_MAX
    }

    /// What nobody waits for any more is not begun.
    fn take(&mut self, job: Job) {
        match job {
            Job::Append(job) if job.reply.is_closed() => {}
            Job::Append(job) => {
                self.messages += job.batch.len();
                self.appends.push(job);
            }
            Job::Work(work) if work.is_abandoned() => {}
            Job::Work(work) => self.works.push((work, None)),
            Job::Close(reply) => self.close = Some(reply),
        }
    }

    /// How many messages it holds.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    /// Whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.appends.is_empty() && self.works.is_empty()
    }

    /// Answers everybody: with what they asked for, with their own failure, or with the group's.
    pub(super) fn answer(&mut self, committed: &Result<(), StoreError>) {
        let verdict = |own: Option<StoreError>| own.map_or_else(|| committed.clone(), Err);
        for job in self.appends.drain(..) {
            let answers = verdict(self.appends_failed.clone()).map(|()| job.answers);
            // Who has gone does not want to know.
            let _ = job.reply.send(answers);
        }
        for (work, failure) in self.works.drain(..) {
            work.answer(verdict(failure));
        }
    }
}
