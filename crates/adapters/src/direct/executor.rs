//! The small tasks of one HTTP/2 connection, run by the task that owns the connection.
//!
//! The library wants to spawn: the connection itself, and one task per stream. Here they all
//! belong to their connection's one task and end with it, so that nothing is left behind.

use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;
use tokio::sync::mpsc;

/// Tasks that a connection may begin before it runs any of them: one for itself and one for each
/// of its few streams.
const TASKS_MAX: usize = 64;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the library puts its tasks.
#[derive(Debug, Clone)]
pub(super) struct ConnectionExecutor(mpsc::Sender<Task>);

/// What runs them.
pub(super) struct ConnectionTasks(mpsc::Receiver<Task>);

pub(super) fn executor() -> (ConnectionExecutor, ConnectionTasks) {
    let (begin, begun) = mpsc::channel(TASKS_MAX);
    (ConnectionExecutor(begin), ConnectionTasks(begun))
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for ConnectionExecutor {
    fn execute(&self, work: F) {
        // More than that many is no peer of ours: what does not fit is dropped, and its stream
        // with it.
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
