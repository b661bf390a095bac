//! Events as the documents of subscribers ask for them, written once for all who ask alike.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::Variables;
use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::room::listener::ListenerEvent;

/// Encoded events that are kept for others who ask alike, and their bytes: the oldest go first.
/// Subscribers of a session hear an event at the same time, so that few are enough.
const KEPT_MAX: usize = 256;
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Which event it is.
///
/// The number comes first, because it tells most events apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventKey {
    number: u64,
    kind: Kind,
    incarnation: u64,
    session_id: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    FullSync,
    Queue,
    Session,
}

impl EventKey {
    /// Tells events of a session apart; none for what has no number of its own.
    pub(super) fn of(session_id: &Arc<str>, heard: &ListenerEvent) -> Option<Self> {
        let (incarnation, kind, number) = match heard {
            ListenerEvent::FullSync(session) => {
                (session.incarnation, Kind::FullSync, session.version)
            }
            ListenerEvent::Queue { event, incarnation } => {
                (*incarnation, Kind::Queue, event.stamp.sequence)
            }
            ListenerEvent::Session(news) => (news.incarnation, Kind::Session, news.sequence?),
        };
        Some(Self { session_id: Arc::clone(session_id), incarnation, kind, number })
    }
}

/// What a document asks for: who writes the same is answered the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DocumentKey {
    pub(super) query: String,
    pub(super) operation_name: Option<String>,
    pub(super) variables: Variables,
}

#[derive(Debug)]
struct Kept {
    event: EventKey,
    document: Arc<DocumentKey>,
    encoded: Arc<OnceCell<Bytes>>,
}

/// The newest encoded events.
#[derive(Debug, Default)]
pub(super) struct Encodings(Mutex<VecDeque<Kept>>);

impl Encodings {
    /// The event as the document asks for it. Of those who ask at the same time one encodes, and
    /// the others wait for it.
    pub(super) async fn get(
        &self,
        event: EventKey,
        document: &Arc<DocumentKey>,
        encode: impl Future<Output = Bytes>,
    ) -> Bytes {
        let encoded = self.cell(event, document);
        encoded.get_or_init(|| encode).await.clone()
    }

    fn cell(&self, event: EventKey, document: &Arc<DocumentKey>) -> Arc<OnceCell<Bytes>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_alike = |kept: &&Kept| kept.event == event && kept.document == *document;
        if let Some(kept) = all.iter().rev().find(is_alike) {
            return Arc::clone(&kept.encoded);
        }
        let size = |kept: &Kept| kept.encoded.get().map_or(0, Bytes::len);
        let mut bytes: usize = all.iter().map(size).sum();
        while all.len() >= KEPT_MAX || bytes > KEPT_BYTES_MAX {
            let Some(oldest) = all.pop_front() else { break };
            bytes -= size(&oldest).min(bytes);
        }
        let encoded = Arc::new(OnceCell::new());
        let document = Arc::clone(document);
        all.push_back(Kept { event, document, encoded: Arc::clone(&encoded) });
        encoded
    }
}
