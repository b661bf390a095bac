//! The secret that the nodes of a cluster share.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};

/// The cluster's secret, `cluster.secret`. It is never shown.
#[derive(Clone)]
pub struct ClusterSecret {
    header: HeaderValue,
    digest: Digest,
}

impl ClusterSecret {
    /// A secret; none if it is empty or not allowed in a header.
    pub fn new(secret: &str) -> Option<Self> {
        if secret.is_empty() {
            return None;
        }
        let mut header = HeaderValue::from_str(&format!("Bearer {secret}")).ok()?;
        header.set_sensitive(true);
        let digest = digest(&SHA256, header.as_bytes());
        Some(Self { header, digest })
    }

    /// The value of the request's header.
    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Whether a request has the secret. Whole digests are compared, so that the time of the
    /// comparison does not reveal how much was right.
    pub(super) fn is_known_to(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let given = digest(&SHA256, given);
        verify_slices_are_equal(given.as_ref(), self.digest.as_ref()).is_ok()
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClusterSecret")
    }
}
