//! A cache of parsed documents: clients send the same ones repeatedly.

use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::ServerError;
use async_graphql::parser::parse_query;
use async_graphql::parser::types::ExecutableDocument;
use heartline_runtime::Map;

use super::encode::server_error;
use super::guard::{check_document, check_text};

/// The most cached documents, and the longest text of one. A full cache is cleared: a client that
/// writes values into its documents instead of variables sends a new document every time.
const KEPT_MAX: usize = 64;
const KEPT_TEXT_BYTES_MAX: usize = 8 * 1024;

/// Parsed and checked documents by their text.
#[derive(Debug, Default)]
pub(super) struct DocumentCache(Mutex<Map<String, Arc<ExecutableDocument>>>);

impl DocumentCache {
    /// Parses and checks a text, or finds its document in the cache.
    pub(super) fn parse(&self, text: &str) -> Result<Arc<ExecutableDocument>, ServerError> {
        if let Some(known) = self.lock(|kept| kept.get(text).cloned()) {
            return Ok(known);
        }
        check_text(text).map_err(|error| server_error(&error))?;
        let parsed = parse_query(text).map_err(ServerError::from)?;
        check_document(&parsed).map_err(|error| server_error(&error))?;
        let parsed = Arc::new(parsed);
        if text.len() <= KEPT_TEXT_BYTES_MAX {
            self.lock(|kept| {
                if kept.len() >= KEPT_MAX {
                    kept.clear();
                }
                kept.insert(text.to_owned(), Arc::clone(&parsed));
            });
        }
        Ok(parsed)
    }

    fn lock<T>(&self, with: impl FnOnce(&mut Map<String, Arc<ExecutableDocument>>) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_parsed_once_and_a_bad_one_is_refused_every_time() {
        let documents = DocumentCache::default();
        let first = documents.parse("{ session(sessionId: \"a\") { id } }").unwrap();
        let again = documents.parse("{ session(sessionId: \"a\") { id } }").unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        for _ in 0..2 {
            assert!(documents.parse("{nope").is_err());
            assert!(documents.parse(&"{a".repeat(65)).is_err());
        }
        assert_eq!(documents.lock(|kept| kept.len()), 1);
    }

    #[test]
    fn the_cache_is_bounded() {
        let documents = DocumentCache::default();
        for number in 0..KEPT_MAX * 3 {
            documents.parse(&format!("{{ a{number} }}")).unwrap();
            assert!(documents.lock(|kept| kept.len()) <= KEPT_MAX);
        }
        let kept = documents.lock(|kept| kept.len());
        documents.parse(&format!("{{ a }} # {}", "x".repeat(KEPT_TEXT_BYTES_MAX))).unwrap();
        assert_eq!(documents.lock(|kept| kept.len()), kept, "a long one is not kept");
    }
}
