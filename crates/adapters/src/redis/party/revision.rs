//! Revisions as they are stored: `<incarnation>/<version>`, which scripts compare as text.

use heartline_party::Revision;

/// The name of the field that holds a session's revision, which no field of a session may have.
pub(super) const FIELD: &str = "revision";

/// A revision as text.
pub(super) fn write(revision: Revision) -> String {
    format!("{}/{}", revision.incarnation, revision.version)
}

/// The revision of a text; none if it is something else.
pub(super) fn read(text: &[u8]) -> Option<Revision> {
    let (incarnation, version) = std::str::from_utf8(text).ok()?.split_once('/')?;
    Some(Revision { incarnation: incarnation.parse().ok()?, version: version.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_survives_being_text() {
        let revision = Revision { incarnation: 0, version: u64::MAX };
        assert_eq!(read(write(revision).as_bytes()), Some(revision));
        assert_eq!(read(b"7"), None);
        assert_eq!(read(b"7/-1"), None);
    }
}
