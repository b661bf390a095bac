//! A party session as bytes, for archives that store it in one column.
//!
//! A byte for the version, then every field: the length of its name, the name, the length of its
//! value, the value. Lengths have four bytes, big-endian.

use heartline_party::Archived;

/// Sessions, and bytes of their documents, in one transaction of an archive, which blocks others
/// meanwhile.
const CHUNK_SESSIONS_MAX: usize = 64;
const CHUNK_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The version that is written.
const FORM: u8 = 1;

/// The document is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an archived session is damaged, or of a newer version")]
pub(crate) struct Unreadable;

/// Encodes fields.
pub(crate) fn write(fields: &[(String, Vec<u8>)]) -> Vec<u8> {
    let size: usize = fields.iter().map(|(name, value)| 8 + name.len() + value.len()).sum();
    let mut document = Vec::with_capacity(1 + size);
    document.push(FORM);
    for (name, value) in fields {
        for part in [name.as_bytes(), value] {
            let length = u32::try_from(part.len()).expect("a session is a few megabytes at most");
            document.extend_from_slice(&length.to_be_bytes());
            document.extend_from_slice(part);
        }
    }
    document
}

/// Decodes fields.
pub(crate) fn read(document: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Unreadable> {
    let Some((&FORM, mut rest)) = document.split_first() else { return Err(Unreadable) };
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let name = String::from_utf8(part(&mut rest)?.to_vec()).map_err(|_| Unreadable)?;
        fields.push((name, part(&mut rest)?.to_vec()));
    }
    Ok(fields)
}

fn part<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Unreadable> {
    let (length, behind) = rest.split_first_chunk().ok_or(Unreadable)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| Unreadable)?;
    let (part, behind) = behind.split_at_checked(length).ok_or(Unreadable)?;
    *rest = behind;
    Ok(part)
}

/// Divides sessions into chunks for one transaction each, in their order.
pub(crate) fn chunks(sessions: Vec<Archived>) -> Vec<Vec<Archived>> {
    let mut chunks: Vec<Vec<Archived>> = Vec::new();
    let mut bytes = 0;
    for session in sessions {
        let size: usize = session.stored.fields.iter().map(|(_, value)| value.len()).sum();
        bytes += size;
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_SESSIONS_MAX && bytes <= CHUNK_BYTES_MAX => {
                chunk.push(session);
            }
            _ => {
                chunks.push(vec![session]);
                bytes = size;
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_was_written_is_read(fields in prop::collection::vec(
            (".*", prop::collection::vec(any::<u8>(), 0..40)), 0..8,
        )) {
            let document = write(&fields);
            prop_assert_eq!(read(&document), Ok(fields));
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&bytes);
            bytes.insert(0, FORM);
            if let Ok(fields) = read(&bytes) {
                prop_assert_eq!(write(&fields), bytes);
            }
        }
    }

    #[test]
    fn a_document_that_was_cut_off_is_refused() {
        let document = write(&[("head".to_owned(), b"value".to_vec())]);
        for length in (0..document.len()).filter(|length| *length != 1) {
            assert_eq!(read(&document[..length]), Err(Unreadable), "{length} bytes");
        }
    }
}
