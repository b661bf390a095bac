//! Parcels out of a stream of pieces.

use bytes::{Buf, Bytes, BytesMut};
use heartline_routing::link::PARCEL_BYTES_MAX;

/// Bytes of the length before each parcel.
pub(super) const LENGTH_BYTES: usize = 4;

/// The stream does not consist of parcels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a parcel of {0} bytes is announced")]
pub(super) struct BadLength(pub(super) usize);

/// Cuts parcels out of pieces. A parcel within one piece is a slice of it; only a parcel that spans
/// several pieces is copied.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    piece: Bytes,
    /// The beginning of an incomplete parcel, with its length.
    begun: BytesMut,
}

impl Unpacker {
    /// Adds the next piece. All parcels of the piece before must have been read.
    pub(super) fn add(&mut self, piece: Bytes) {
        debug_assert!(self.piece.is_empty(), "a piece is used up before the next one");
        self.piece = piece;
    }

    /// The next complete parcel, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, BadLength> {
        if self.begun.is_empty() && self.piece.len() >= LENGTH_BYTES {
            let length = length_of(&self.piece)?;
            if self.piece.len() >= LENGTH_BYTES + length {
                self.piece.advance(LENGTH_BYTES);
                return Ok(Some(self.piece.split_to(length)));
            }
        }
        if !self.fill(LENGTH_BYTES) {
            return Ok(None);
        }
        let length = length_of(&self.begun)?;
        if !self.fill(LENGTH_BYTES + length) {
            return Ok(None);
        }
        self.begun.advance(LENGTH_BYTES);
        Ok(Some(self.begun.split().freeze()))
    }

    /// Moves bytes from the piece until so many have begun. Returns whether there were enough.
    fn fill(&mut self, length: usize) -> bool {
        let missing = length.saturating_sub(self.begun.len());
        let moved = self.piece.split_to(missing.min(self.piece.len()));
        self.begun.extend_from_slice(&moved);
        moved.len() == missing
    }
}

fn length_of(bytes: &[u8]) -> Result<usize, BadLength> {
    let length = bytes.first_chunk().copied().map_or(0, u32::from_le_bytes) as usize;
    match length {
        1..=PARCEL_BYTES_MAX => Ok(length),
        _ => Err(BadLength(length)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn pack(parcels: &[Vec<u8>]) -> Bytes {
        let mut stream = BytesMut::new();
        for parcel in parcels {
            stream.extend_from_slice(&(parcel.len() as u32).to_le_bytes());
            stream.extend_from_slice(parcel);
        }
        stream.freeze()
    }

    proptest! {
        #[test]
        fn parcels_come_out_however_the_stream_is_cut(
            parcels in vec(vec(any::<u8>(), 1..50), 0..20),
            cuts in vec(1..40_usize, 0..100),
        ) {
            let mut stream = pack(&parcels);
            let mut unpacker = Unpacker::default();
            let mut unpacked = Vec::new();
            for cut in cuts.into_iter().chain([usize::MAX]) {
                unpacker.add(stream.split_to(cut.min(stream.len())));
                while let Some(parcel) = unpacker.next().unwrap() {
                    unpacked.push(parcel.to_vec());
                }
            }
            prop_assert_eq!(unpacked, parcels);
        }
    }

    #[test]
    fn a_parcel_within_a_piece_is_not_copied() {
        let stream = pack(&[vec![1; 10], vec![2; 10]]);
        let mut unpacker = Unpacker::default();
        unpacker.add(stream.clone());
        let first = unpacker.next().unwrap().unwrap();
        assert_eq!(first.as_ptr(), stream[LENGTH_BYTES..].as_ptr());
    }

    #[test]
    fn an_impossible_length_is_refused_before_room_is_made() {
        for length in [0, PARCEL_BYTES_MAX + 1, u32::MAX as usize] {
            let mut unpacker = Unpacker::default();
            unpacker.add(Bytes::copy_from_slice(&(length as u32).to_le_bytes()));
            assert_eq!(unpacker.next(), Err(BadLength(length)));
        }
    }
}
