//! The direct link to one node: a queue, and the task that keeps a stream open for it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartline_protocol::NodeId;
use heartline_routing::LinkError;
use heartline_routing::link::{LinkMetrics, Parcel, Reach, Refused};
use heartline_runtime::{Clock, Random};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::dial::{DialError, Dialer};
use super::outgoing::{Outgoing, lock};
use super::stream::RequestBody;

/// How long a node is unreachable before its queue is dropped and further parcels are refused.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(1);

/// How long a node's address refuses connections before the node counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(3);

/// The shortest and the longest wait before the next attempt.
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// The sender's end of a link. The link's task ends when it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    /// The address of the node.
    pub(super) address: String,
    outgoing: Arc<Outgoing>,
    reach: Arc<Mutex<Reach>>,
    held: oneshot::Sender<Infallible>,
}

impl Link {
    /// A link and the task that must run for it.
    pub(super) fn new(
        receiver: NodeId,
        address: &str,
        outgoing: Outgoing,
        dialer: Dialer,
        metrics: LinkMetrics,
        clock: Clock,
        random: Random,
    ) -> (Self, LinkTask) {
        let (held, dropped) = oneshot::channel();
        let (outgoing, reach) = (Arc::new(outgoing), Arc::new(Mutex::new(Reach::Unknown)));
        let keeper = Keeper {
            receiver,
            address: address.to_owned(),
            outgoing: Arc::clone(&outgoing),
            reach: Arc::clone(&reach),
            dialer,
            metrics,
            clock,
            random,
        };
        let task = LinkTask { keeper, dropped };
        (Self { address: address.to_owned(), outgoing, reach, held }, task)
    }

    /// Whether its task has panicked.
    pub(super) fn has_failed(&self) -> bool {
        self.held.is_closed()
    }

    pub(super) fn reach(&self) -> Reach {
        *lock(&self.reach)
    }

    /// The queue of the link.
    pub(super) fn outgoing(&self) -> Arc<Outgoing> {
        Arc::clone(&self.outgoing)
    }
}

/// Queues a parcel, unless the node is unreachable.
pub(super) async fn put(reach: Reach, outgoing: &Outgoing, parcel: Parcel) -> Result<(), Refused> {
    match reach {
        Reach::Unknown | Reach::Connected => outgoing.put(parcel).await,
        // Nothing is queued for an unreachable node: it would arrive late.
        Reach::Unreachable | Reach::Gone => Err(Refused { error: LinkError::Gone, parcel }),
    }
}

/// Keeps a stream to one node open, until the link is dropped.
#[derive(Debug)]
pub(super) struct LinkTask {
    keeper: Keeper,
    dropped: oneshot::Receiver<Infallible>,
}

impl LinkTask {
    pub(super) async fn run(self) {
        tokio::select! {
            biased;
            _ = self.dropped => {}
            () = self.keeper.run() => {}
        }
    }
}

#[derive(Debug)]
struct Keeper {
    receiver: NodeId,
    address: String,
    outgoing: Arc<Outgoing>,
    reach: Arc<Mutex<Reach>>,
    dialer: Dialer,
    metrics: LinkMetrics,
    clock: Clock,
    random: Random,
}

/// Since when a node is unreachable, and since when its address refuses connections.
#[derive(Debug, Clone, Copy, Default)]
struct Absence {
    since: Option<Instant>,
    refused_since: Option<Instant>,
}

impl Keeper {
    async fn run(&self) {
        let mut absence = Absence::default();
        let mut back_off = BACK_OFF_MIN;
        loop {
            match self.hold().await {
                Ok(()) => (absence, back_off) = (Absence::default(), BACK_OFF_MIN),
                Err(error) => {
                    debug!(node = %self.receiver, ?error, "direct link: dialling failed");
                    self.judge(&mut absence, &error);
                    if matches!(error, DialError::OtherNode(_)) {
                        // A node never comes back under its old id.
                        return std::future::pending().await;
                    }
                }
            }
            let jitter = self.random.draw_within(0.5..1.0);
            tokio::time::sleep(back_off.mul_f64(jitter)).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }

    /// Opens a stream and returns when it has ended; an error if it was not opened.
    async fn hold(&self) -> Result<(), DialError> {
        let (accept, accepted) = oneshot::channel();
        let body = RequestBody::Waiting(accepted, Arc::clone(&self.outgoing));
        let mut dialled = self.dialer.stream(&self.address, &self.receiver, body).await?;
        self.set(Reach::Connected, None);
        // The body lives with the connection; if that is gone, the next line ends.
        let _ = accept.send(());
        tokio::select! {
            () = &mut dialled.driving => {}
            // The body of the response is empty, and ends with the stream.
            () = async { while let Some(Ok(_)) = dialled.body.frame().await {} } => {}
        }
        self.set(Reach::Unknown, None);
        Ok(())
    }

    fn judge(&self, absence: &mut Absence, error: &DialError) {
        let now = self.clock.now();
        let since = *absence.since.get_or_insert(now);
        match error.is_refused() {
            true => _ = absence.refused_since.get_or_insert(now),
            false => absence.refused_since = None,
        }
        let is_gone = absence.refused_since.is_some_and(|since| now - since >= GONE_AFTER);
        if is_gone || matches!(error, DialError::OtherNode(_)) {
            self.set(Reach::Gone, Some(error));
        } else if now - since >= UNREACHABLE_AFTER {
            self.set(Reach::Unreachable, Some(error));
        } else {
            return;
        }
        for _ in 0..self.outgoing.drop_all() {
            self.metrics.dropped("unreachable");
        }
    }

    fn set(&self, reach: Reach, error: Option<&DialError>) {
        if std::mem::replace(&mut *lock(&self.reach), reach) == reach {
            return;
        }
        let (node, address) = (&self.receiver, &self.address);
        match (reach, error) {
            (Reach::Connected, _) => info!(%node, %address, "direct link connected"),
            (Reach::Unknown, _) => info!(%node, %address, "direct link ended"),
            (Reach::Gone, _) => info!(%node, %address, "direct link: node gone"),
            (Reach::Unreachable, Some(error)) => {
                warn!(%node, %address, %error, "direct link: node unreachable");
            }
            (Reach::Unreachable, None) => {}
        }
    }
}
