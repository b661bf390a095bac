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
const HANDS_MAX: usize = 64;

type Hand = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the library puts its tasks.
#[derive(Debug, Clone)]
pub(super) struct Crew(mpsc::Sender<Hand>);

/// What runs them.
pub(super) struct CrewWork(mpsc::Receiver<Hand>);

pub(super) fn crew() -> (Crew, CrewWork) {
    let (begin, begun) = mpsc::channel(HANDS_MAX);
    (Crew(begin), CrewWork(begun))
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Crew {
    fn execute(&self, work: F) {
        // More than that many is no peer of ours: what does not fit is dropped, and its stream
        // with it.
        let _ = self.0.try_send(Box::pin(work));
    }
}

impl CrewWork {
    /// Runs the tasks, for ever.
    pub(super) async fn run(mut self) {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(hand) = self.0.recv() => running.push(hand),
                Some(()) = running.next(), if !running.is_empty() => {}
                else => return std::future::pending().await,
            }
        }
    }
}
