//! A parcel: a header, and an envelope, a status or nothing.
//!
//! ```text
//! version 1 byte · kind 1 byte · number 8 bytes · earlier number 8 bytes · sender, a text · body
//! ```
//!
//! The carrier that takes a parcel writes its number when the parcel leaves, so that numbers and
//! parcels leave in the same order. A parcel that the first carrier returned and a second one takes
//! keeps the first number as its earlier one, so that the receiver detects a repeat.
//!
//! Every version has this header. The version changes only if an older node could not skip or
//! ignore what is new; `codec.rs` says what it can. Kinds below 16 have no number of their own and
//! repeat the last one; all others carry an envelope, also those that this release does not know.

use bytes::Bytes;
use heartline_protocol::NodeId;

use super::codec;
use super::envelope::Envelope;
use super::wire::{Malformed, Reader, Writer};

/// The version that this node writes, and the only one that it reads.
const VERSION: u8 = 2;

/// The positions of the two numbers.
const NUMBER: std::ops::Range<usize> = 2..10;
const EARLIER: std::ops::Range<usize> = 10..18;

/// Numbers are below this, so that adding to one cannot overflow.
const NUMBERS_END: u64 = 1 << 63;

/// Kinds of parcels that carry no envelope.
const PROBE: u8 = 1;
const STATUS: u8 = 2;

/// The largest parcel that is sent or accepted. A message to the largest group with the longest
/// ids takes 2% of it.
pub const PARCEL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The status that a node sends to every other once a second.
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

    /// A parcel with a status.
    pub fn status(sender: &NodeId, status: &Status) -> Self {
        let mut parcel = Self::begin(sender, STATUS, 64);
        let mut writer = Writer(&mut parcel.0);
        writer.byte(status.broker_is_healthy.into());
        writer.number(status.broker_number);
        // A text longer than this is no host and port.
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

    /// Writes the number under which the parcel leaves now. The number of an earlier departure is
    /// kept as its earlier number.
    pub fn stamp(&mut self, number: u64) {
        self.0.copy_within(NUMBER, EARLIER.start);
        self.0[NUMBER].copy_from_slice(&number.to_le_bytes());
    }

    /// Makes it a parcel of another kind, as a later release would send.
    #[cfg(test)]
    pub(super) fn set_kind(&mut self, kind: u8) {
        self.0[1] = kind;
    }

    /// Whether it carries an envelope. Any other parcel need not be sent again.
    pub fn is_envelope(&self) -> bool {
        is_envelope(self.0[1])
    }

    /// The parcel as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number of its bytes.
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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParcelError {
    /// The sender uses another version.
    #[error("the parcel has version {version}, this node reads {VERSION}")]
    Version {
        /// The version.
        version: u8,
        /// The sender, if the header could be read.
        sender: Option<NodeId>,
    },
    /// The header is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// A parcel that has arrived, with its header read.
#[derive(Debug)]
pub struct Arrived {
    /// The node that sent it.
    pub sender: NodeId,
    /// Its number on the transport on which it arrived; without an envelope, the last one's number.
    pub number: u64,
    /// The number under which it was sent on the other transport before.
    pub earlier: Option<u64>,
    kind: u8,
    body: Reader,
}

/// The content of a parcel.
#[derive(Debug)]
pub enum Content {
    /// An envelope.
    Envelope(Envelope),
    /// Nothing but the number.
    Probe,
    /// The sender's status.
    Status(Status),
    /// A kind that a later release sends and this one does not know.
    Unknown(u8),
}

impl Arrived {
    /// Reads the header. The body is read by [`content`](Self::content), once the number has shown
    /// that the parcel is no repeat.
    pub fn open(bytes: Bytes) -> Result<Self, ParcelError> {
        let mut reader = Reader::new(bytes);
        let version = reader.byte()?;
        if version != VERSION {
            return Err(ParcelError::Version { version, sender: sender_of(reader).ok() });
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
                Ok(Content::Status(Status { broker_is_healthy, broker_number, address }))
            }
            kind => match codec::decode(kind, self.body)? {
                Some(envelope) => Ok(Content::Envelope(envelope)),
                None => Ok(Content::Unknown(kind)),
            },
        }
    }
}

/// The sender in a header of another version.
fn sender_of(mut reader: Reader) -> Result<NodeId, Malformed> {
    reader.byte()?;
    reader.number()?;
    reader.number()?;
    reader.id()
}

fn is_envelope(kind: u8) -> bool {
    kind >= codec::kind::FIRST
}

#[cfg(test)]
mod tests;
