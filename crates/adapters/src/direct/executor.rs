//! The small tasks of one HTTP/2 connection, run by the task that owns the connection.
//!
//! hyper spawns a task for the connection and one per stream. This executor runs all of them inside
//! the connection's own task, so that they end with it.

use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;
use tokio::sync::mpsc;

/// Tasks that a connection may begin before it runs any of them: one for itself and one for each
/// of its few streams.
const TASKS_MAX: usize = 64;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The executor for hyper.
#[derive(Debug, Clone)]
pub(super) struct ConnectionExecutor(mpsc::Sender<Task>);

/// Runs the tasks.
pub(super) struct ConnectionTasks(mpsc::Receiver<Task>);

pub(super) fn executor() -> (ConnectionExecutor, ConnectionTasks) {
    let (begin, begun) = mpsc::channel(TASKS_MAX);
    (ConnectionExecutor(begin), ConnectionTasks(begun))
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for ConnectionExecutor {
    fn execute(&self, work: F) {
        // No node of ours opens so many streams. Further ones are dropped.
        let _ = self.0.try_send(Box::pin(work));
    }
}

impl ConnectionTasks {
    /// Runs the tasks, for ever.
    pub(super) async fn run(mut self) {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(task) = self.0.recv() => running.push(task),
                Some(()) = running.next(), if !running.is_empty() => {}
                else => return std::future::pending().await,
            }
        }
    }
}
