//! The primitives of parcels: numbers, short texts, lists and frames.
//!
//! Numbers are little-endian; a text is a byte for its length and its bytes, because no id is
//! longer than 255; a list is its count and its items; a frame is its length and its bytes. The
//! bytes come from another process and are not trusted: every length is checked before it is used.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use heartline_protocol::UserId;

/// The bytes are no parcel of this version: truncated, or with an id or number out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a parcel is malformed: {0}")]
pub struct Malformed(pub &'static str);

/// Writes primitives one after the other.
#[derive(Debug)]
pub(super) struct Writer<'a>(pub(super) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn count(&mut self, value: usize) {
        let value = u32::try_from(value).expect("nothing in memory has four billion ids");
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn short(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn ulid(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.byte(u8::try_from(text.len()).expect("ids and names are at most 255 bytes"));
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Thousands of users are common: all lengths come first, then all texts as one.
    pub(super) fn user_ids(&mut self, user_ids: &[UserId]) {
        self.count(user_ids.len());
        self.0.extend(user_ids.iter().map(|user_id| {
            u8::try_from(user_id.as_str().len()).expect("ids are at most 255 bytes")
        }));
        for user_id in user_ids {
            self.0.extend_from_slice(user_id.as_str().as_bytes());
        }
    }

    pub(super) fn frame(&mut self, frame: &[u8]) {
        self.count(frame.len());
        self.0.extend_from_slice(frame);
    }
}

/// How many bytes a list of users takes.
pub(super) fn user_ids_length(user_ids: &[UserId]) -> usize {
    4 + user_ids.iter().map(|user_id| 1 + user_id.as_str().len()).sum::<usize>()
}

/// Reads primitives in the order in which they were written.
#[derive(Debug)]
pub(super) struct Reader {
    bytes: Bytes,
    position: usize,
}

impl Reader {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, position: 0 }
    }

    fn take(&mut self, length: usize) -> Result<&[u8], Malformed> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let taken = rest.get(..length).ok_or(Malformed("truncated"))?;
        self.position += length;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Malformed> {
        let taken = self.take(LENGTH)?;
        Ok(taken.try_into().expect("exactly this many bytes were taken"))
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn short(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn ulid(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    /// A count of items that take at least `item_bytes` each. A count that exceeds the remaining
    /// bytes is refused before memory is allocated for it.
    pub(super) fn count(&mut self, item_bytes: usize) -> Result<usize, Malformed> {
        let count = self.array().map(u32::from_le_bytes)? as usize;
        let left = self.bytes.len() - self.position;
        if count > left / item_bytes {
            return Err(Malformed("it counts more items than it has bytes for"));
        }
        Ok(count)
    }

    pub(super) fn text(&mut self) -> Result<&str, Malformed> {
        let length = self.byte()?.into();
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    pub(super) fn id<T: FromStr>(&mut self) -> Result<T, Malformed> {
        self.text()?.parse().map_err(|_| Malformed("an id has not the required form"))
    }

    pub(super) fn user_ids(&mut self) -> Result<Arc<[UserId]>, Malformed> {
        let truncated = Malformed("truncated");
        let count = self.count(2)?;
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let (lengths, rest) = rest.split_at_checked(count).ok_or(truncated)?;
        let texts_length = lengths.iter().copied().map(usize::from).sum();
        let texts = rest.get(..texts_length).ok_or(truncated)?;
        let texts = std::str::from_utf8(texts).map_err(|_| Malformed("a text is not UTF-8"))?;
        let mut begin = 0;
        let user_ids = lengths.iter().map(|&length| {
            let end = begin + usize::from(length);
            let text = texts.get(std::mem::replace(&mut begin, end)..end).unwrap_or_default();
            text.parse().map_err(|_| Malformed("an id has not the required form"))
        });
        let user_ids = user_ids.collect::<Result<_, _>>()?;
        self.position += count + texts_length;
        Ok(user_ids)
    }

    /// A frame, which shares the parcel's bytes.
    pub(super) fn frame(&mut self) -> Result<Bytes, Malformed> {
        let length = self.count(1)?;
        let frame = self.bytes.slice(self.position..self.position + length);
        self.position += length;
        match std::str::from_utf8(&frame) {
            Ok(_) => Ok(frame),
            Err(_) => Err(Malformed("a frame is not UTF-8")),
        }
    }
}
