//! The fanout plane of a node: consumes events and sends envelopes to the nodes of their audience.

use std::sync::Arc;
use std::time::Duration;

use heartline_durability::{Chain, LazyWrites};
use heartline_fanout::{
    Audiences, Consumer, Fanout, PresenceFanout, TypingFanout, TypingQueue, TypingReceiver,
};
use heartline_gateway::TypingNotices;
use heartline_protocol::{ChatId, UserId};
use heartline_routing::PresenceStates;
use heartline_runtime::Supervisor;
use tracing::error;

use crate::bus::Bus;
use crate::lifecycle::Lifecycle;

/// The pause before a consumer whose source failed is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The fanout plane, put together and not yet running.
#[derive(Debug)]
pub(crate) struct FanoutPlane {
    /// Sends envelopes.
    pub(crate) fanout: Fanout,
    /// The source of events.
    pub(crate) bus: Bus,
    /// Reads the members of chats.
    pub(crate) audiences: Arc<dyn Audiences>,
    /// Announces the presence transitions that this node decided.
    pub(crate) states: Arc<dyn PresenceStates>,
    /// Records when users were last seen.
    pub(crate) lazy_writes: LazyWrites,
    /// Typing notices of this node's connections.
    pub(crate) typing: TypingReceiver,
}

impl FanoutPlane {
    /// Starts every task of the plane.
    pub(crate) fn start(self, lifecycle: &Lifecycle) {
        let Self { fanout, bus, audiences, states, lazy_writes, typing } = self;
        let typing = TypingFanout::new(typing, fanout.clone(), Arc::clone(&audiences));
        lifecycle.spawn_support("typing", typing.run());
        let presence =
            PresenceFanout::new(fanout.clone(), &*states, Arc::clone(&audiences), lazy_writes);
        lifecycle.spawn_support("presence fanout", presence.run());
        lifecycle.spawn_support("fanout", consume(bus, fanout, audiences));
    }
}

/// Consumes events for ever. A consumer that fails or panics is started again, and receives the
/// events again that the former one had not reported.
async fn consume(bus: Bus, fanout: Fanout, audiences: Arc<dyn Audiences>) {
    let restarts = fanout.metrics.consumer_restarts.clone();
    let supervisor = Supervisor::new("fanout", fanout.clock, restarts.clone());
    loop {
        let start = || {
            let consumer = Consumer::new(fanout.clone(), Arc::clone(&audiences));
            consumer.run(bus.open_source())
        };
        if let Err(error) = supervisor.run(start).await {
            let restarts = restarts.inc() + 1;
            error!(error = %Chain(&error), restarts, "consuming events failed: restarting");
        }
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

/// Fanout's queue of typing notices, as the gateway's port.
#[derive(Debug)]
pub(crate) struct QueuedTyping(pub(crate) TypingQueue);

impl TypingNotices for QueuedTyping {
    fn typing(&self, chat_id: ChatId, user_id: UserId, is_typing: bool) -> bool {
        self.0.typing(chat_id, user_id, is_typing)
    }
}
