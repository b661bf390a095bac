//! A cache of encoded events: an event is encoded once for all subscribers with the same document.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::Variables;
use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::room::listener::ListenerEvent;

/// The most cached events and their bytes; the oldest are removed first. Subscribers of a session
/// receive an event at the same time, so few are enough.
const KEPT_MAX: usize = 256;
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The identity of an event. The number is compared first, because it differs most often.
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
    /// The key of an event; none for an event without a number.
    pub(super) fn of(session_id: &Arc<str>, event: &ListenerEvent) -> Option<Self> {
        let (incarnation, kind, number) = match event {
            ListenerEvent::FullSync(session) => {
                (session.incarnation, Kind::FullSync, session.version)
            }
            ListenerEvent::Queue { event, incarnation } => {
                (*incarnation, Kind::Queue, event.stamp.sequence)
            }
            ListenerEvent::Session(update) => (update.incarnation, Kind::Session, update.sequence?),
        };
        Some(Self { session_id: Arc::clone(session_id), incarnation, kind, number })
    }
}

/// The identity of a document with its variables.
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

/// The cache.
#[derive(Debug, Default)]
pub(super) struct EncodingCache(Mutex<VecDeque<Kept>>);

impl EncodingCache {
    /// The event, encoded for the document. Of concurrent callers one encodes, and the others wait
    /// for it.
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
        let is_same = |kept: &&Kept| kept.event == event && kept.document == *document;
        if let Some(kept) = all.iter().rev().find(is_same) {
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
