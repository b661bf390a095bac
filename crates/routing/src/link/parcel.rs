//! A parcel: what one node sends another in one piece, with a header.
//!
//! ```text
//! version 1 byte · kind 1 byte · number 8 bytes · earlier number 8 bytes · sender, a text · body
//! ```
//!
//! The number is written when the parcel leaves, by the carrier that takes it, so that numbers and
//! parcels leave in the same order. A parcel that the first carrier gave back and a second one
//! takes keeps the first number as its earlier one, so that the receiver knows a repeat.

use bytes::Bytes;
use heartline_protocol::NodeId;

use super::codec;
use super::envelope::Envelope;
use super::wire::{Malformed, Reader, Writer};

/// The version that this node writes, and the only one that it reads.
const VERSION: u8 = 1;

/// Where the two numbers stand.
const NUMBER: std::ops::Range<usize> = 2..10;
const EARLIER: std::ops::Range<usize> = 10..18;

/// No sender counts so far, so that whoever adds to a number need not fear its end.
const NUMBERS_END: u64 = 1 << 63;

/// Kinds of parcels that carry no envelope.
const PROBE: u8 = 1;
const STATUS: u8 = 2;

/// The largest parcel that is sent or accepted. A message to the largest group with the longest
/// ids takes a fiftieth of it.
pub const PARCEL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What a node says of itself to another, once a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether parcels that are sent to the node through the broker arrive.
    pub broker_is_healthy: bool,
    /// The last number that the node used for a parcel to the receiver through the broker, 0 if
    /// none: the receiver detects a loss although no further parcel arrives there.
    pub broker_number: u64,
    /// The address of the node for direct links.
    pub address: Option<String>,
}

/// A parcel that has not left yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Parcel(Vec<u8>);

impl Parcel {
    /// A parcel with an envelope.
    pub fn envelope(sender: &NodeId, envelope: &Envelope) -> Self {
        let hint = codec::length_hint(envelope);
        let mut parcel = Self::begin(sender, codec::kind_of(envelope), hint);
        codec::encode(envelope, &mut Writer(&mut parcel.0));
        parcel
    }

    /// A parcel that only carries its number.
    pub fn probe(sender: &NodeId) -> Self {
        Self::begin(sender, PROBE, 0)
    }

    /// A parcel with what a node says of itself.
    pub fn status(sender: &NodeId, status: &Status) -> Self {
        let mut parcel = Self::begin(sender, STATUS, 64);
        let mut writer = Writer(&mut parcel.0);
        writer.byte(status.broker_is_healthy.into());
        writer.number(status.broker_number);
        // An address that is too long to be a host and a port is not worth telling.
        let address = status.address.as_deref().filter(|address| address.len() <= 255);
        writer.text(address.unwrap_or_default());
        parcel
    }

    fn begin(sender: &NodeId, kind: u8, body_hint: usize) -> Self {
        let mut bytes = Vec::with_capacity(EARLIER.end + 1 + sender.as_str().len() + body_hint);
        let mut writer = Writer(&mut bytes);
        writer.byte(VERSION);
        writer.byte(kind);
        writer.number(0);
        writer.number(0);
        writer.text(sender.as_str());
        Self(bytes)
    }

    /// Writes the number under which the parcel leaves now. One that left before keeps that number
    /// as its earlier one.
    pub fn stamp(&mut self, number: u64) {
        self.0.copy_within(NUMBER, EARLIER.start);
        self.0[NUMBER].copy_from_slice(&number.to_le_bytes());
    }

    /// Whether it carries an envelope: anything else need not be sent again.
    pub fn is_envelope(&self) -> bool {
        is_envelope(self.0[1])
    }

    /// What leaves.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many bytes that is.
    #[expect(clippy::len_without_is_empty, reason = "a parcel has a header, it is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl From<Parcel> for Bytes {
    fn from(parcel: Parcel) -> Self {
        parcel.0.into()
    }
}

/// Why a parcel cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParcelError {
    /// Another version wrote it, as happens while nodes are upgraded one after the other.
    #[error("a parcel has the version {0}, which is unknown here")]
    Version(u8),
    /// Its header is broken.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// A parcel that has arrived, with its header read.
#[derive(Debug)]
pub struct Arrived {
    /// Who sent it.
    pub sender: NodeId,
    /// Its number on the way that it came; without an envelope, the number of the last one.
    pub number: u64,
    /// The number under which it was sent another way before.
    pub earlier: Option<u64>,
    kind: u8,
    body: Reader,
}

/// What was in a parcel.
#[derive(Debug)]
pub enum Content {
    /// Something to do.
    Envelope(Envelope),
    /// Nothing but the number.
    Probe,
    /// What the sender says of itself.
    Status(Status),
    /// Something that a later version sends and this one does not know.
    Unknown,
}

impl Arrived {
    /// Reads the header. The body is read by [`content`](Self::content), once the number has shown
    /// that the parcel is no repeat.
    pub fn open(bytes: Bytes) -> Result<Self, ParcelError> {
        let mut reader = Reader::new(bytes);
        let version = reader.byte()?;
        if version != VERSION {
            return Err(ParcelError::Version(version));
        }
        let (kind, number, earlier) = (reader.byte()?, reader.number()?, reader.number()?);
        let sender = reader.id()?;
        let earlier = (earlier != 0).then_some(earlier);
        let arrived = Self { sender, number, earlier, kind, body: reader };
        let is_in_range = number.max(earlier.unwrap_or(0)) < NUMBERS_END;
        match is_in_range && (number > 0 || !arrived.is_envelope()) {
            true => Ok(arrived),
            false => Err(Malformed("its number is out of range").into()),
        }
    }

    /// Whether it carries an envelope, and has a number of its own.
    pub fn is_envelope(&self) -> bool {
        is_envelope(self.kind)
    }

    /// Reads the body.
    pub fn content(mut self) -> Result<Content, Malformed> {
        match self.kind {
            PROBE => Ok(Content::Probe),
            STATUS => {
                let (broker_is_healthy, broker_number) = (self.body.flag()?, self.body.number()?);
                let address = self.body.text()?;
                let address = (!address.is_empty()).then(|| address.to_owned());
                // A later version may say more; it is not read.
                Ok(Content::Status(Status { broker_is_healthy, broker_number, address }))
            }
            kind => match codec::decode(kind, self.body)? {
                Some(envelope) => Ok(Content::Envelope(envelope)),
                None => Ok(Content::Unknown),
            },
        }
    }
}

/// Whatever a later version sends beyond what is known here is something that must not be lost.
fn is_envelope(kind: u8) -> bool {
    !matches!(kind, PROBE | STATUS)
}

#[cfg(test)]
mod tests;
