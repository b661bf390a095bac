//! Both ends of the event bus, between ingest and fanout.

use std::fmt;
use std::sync::Arc;

use heartline_durability::{EventBus, EventSource, InProcessBus, Publications};
use heartline_runtime::Clock;

/// Both ends of the event bus. Clones share it.
#[derive(Clone)]
pub(crate) struct Bus {
    /// The end of ingest.
    pub(crate) publisher: Arc<dyn EventBus>,
    open_source: Arc<dyn Fn() -> Box<dyn EventSource> + Send + Sync>,
}

impl Bus {
    /// The bus inside of this process, which records what it has delivered in `publications`.
    pub(crate) fn in_process(publications: Publications, clock: Clock) -> Self {
        let bus = Arc::new(InProcessBus::new(publications, clock));
        let publisher = Arc::clone(&bus) as Arc<dyn EventBus>;
        Self { publisher, open_source: Arc::new(move || Box::new(bus.source())) }
    }

    /// Opens the end of fanout, at the start and again after a consumer has failed.
    pub(crate) fn open_source(&self) -> Box<dyn EventSource> {
        (self.open_source)()
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.publisher.fmt(formatter)
    }
}
