//! Both ends of the event bus, between ingest and fanout.

use std::fmt;
use std::sync::Arc;

use heartline_durability::{EventBus, EventSource, InProcessBus, Publications};
use heartline_runtime::Clock;
use prometheus_client::registry::Registry;

/// Both ends of the event bus. Clones share it.
#[derive(Clone)]
pub(crate) struct Bus {
    /// The end of ingest.
    pub(crate) publisher: Arc<dyn EventBus>,
    /// The messages that were published and are not recorded in the store yet.
    pub(crate) publications: Publications,
    open_source: Arc<dyn Fn() -> Box<dyn EventSource> + Send + Sync>,
}

impl Bus {
    /// The bus inside this process.
    pub(crate) fn in_process(clock: Clock, registry: &mut Registry) -> Self {
        let publications = Publications::default();
        let bus = Arc::new(InProcessBus::new(publications.clone(), clock));
        bus.register(registry);
        let publisher = Arc::clone(&bus) as Arc<dyn EventBus>;
        Self { publisher, publications, open_source: Arc::new(move || Box::new(bus.source())) }
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
