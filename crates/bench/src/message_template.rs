//! A `send_message` frame that is encoded once; each send replaces only its times and its id.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use heartline_protocol::ChatId;
use heartline_protocol::client_frame::{ClientFrame, SendMessage};
use heartline_protocol::limits::CONTENT_BYTES_MAX;
use heartline_runtime::{Clock, Random};
use ulid::{ULID_LEN, Ulid};

use super::frame_scanner::TIME_DIGITS;
use super::frame_writer::{MASK, TEXT};

/// Bytes of the header of a masked frame of medium length.
const HEADER_BYTES: usize = 8;
/// Characters of a random id.
const RANDOM_ID_BYTES: usize = 32;
/// The placeholder of a time: [`TIME_DIGITS`] zeros.
const TIME_PLACEHOLDER: &str = "00000000000000000000";

/// The kind of a client message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdKind {
    /// Ordered by time, then random: adjacent in an index.
    Ulid,
    /// Random: anywhere in an index.
    Random,
}

/// The masked bytes of a message to one chat.
#[derive(Debug)]
pub(super) struct MessageTemplate {
    bytes: Vec<u8>,
    id_kind: IdKind,
    request_id: Range<usize>,
    client_message_id: Range<usize>,
    time: Range<usize>,
}

impl IdKind {
    /// The name on the command line and in reports.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ulid => "ulid",
            Self::Random => "random",
        }
    }

    /// A new id.
    pub(super) fn new_id(self) -> String {
        match self {
            Self::Ulid => Ulid::from_parts(Clock::system().wall().unix_ms, Random::system().draw())
                .to_string(),
            Self::Random => format!("{:032x}", Random::system().draw::<u128>()),
        }
    }

    const fn length(self) -> usize {
        match self {
            Self::Ulid => ULID_LEN,
            Self::Random => RANDOM_ID_BYTES,
        }
    }
}

/// The content of a message: a time, padded to the given size.
pub(super) fn content(bytes: usize) -> Result<String> {
    ensure!(bytes >= TIME_DIGITS, "--content must be at least {TIME_DIGITS} bytes");
    ensure!(bytes <= CONTENT_BYTES_MAX, "--content must be at most {CONTENT_BYTES_MAX} bytes");
    Ok(format!("{TIME_PLACEHOLDER}{}", "x".repeat(bytes - TIME_DIGITS)))
}

impl MessageTemplate {
    /// A template for messages to a chat.
    pub(super) fn new(chat_id: ChatId, content: &str, id_kind: IdKind) -> Result<Self> {
        let placeholder_id = "n".repeat(id_kind.length());
        let frame = ClientFrame::SendMessage(SendMessage {
            request_id: TIME_PLACEHOLDER.parse()?,
            chat_id,
            client_message_id: placeholder_id.parse()?,
            content: content.to_owned(),
            content_type: None,
        });
        let text = heartline_protocol::encode_client(&frame);
        let range = |marker: &str, length: usize| {
            let start = text.find(marker).with_context(|| format!("the frame has no {marker}"))?
                + marker.len();
            anyhow::Ok(HEADER_BYTES + start..HEADER_BYTES + start + length)
        };
        let request_id = range(r#""request_id":""#, TIME_DIGITS)?;
        let client_message_id = range(r#""client_message_id":""#, id_kind.length())?;
        let time = range(r#""content":""#, TIME_DIGITS)?;
        let length = u16::try_from(text.len())?;
        let mut bytes = vec![0x80 | TEXT, 0x80 | 126];
        bytes.extend(length.to_be_bytes());
        bytes.extend(MASK);
        bytes.extend(text.bytes().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        Ok(Self { bytes, id_kind, request_id, client_message_id, time })
    }

    /// Appends the frame of a new message whose intended send time is `intended_nanos`.
    pub(super) fn write_frame(&mut self, intended_nanos: u64, frames: &mut Vec<u8>) {
        let digits = digits(intended_nanos);
        patch(&mut self.bytes, &self.request_id, &digits);
        patch(&mut self.bytes, &self.time, &digits);
        match self.id_kind {
            IdKind::Ulid => {
                let id = Ulid::from_parts(Clock::system().wall().unix_ms, Random::system().draw());
                let mut text = [0; ULID_LEN];
                id.array_to_str(&mut text);
                patch(&mut self.bytes, &self.client_message_id, &text);
            }
            IdKind::Random => {
                patch(&mut self.bytes, &self.client_message_id, self.id_kind.new_id().as_bytes())
            }
        }
        frames.extend(&self.bytes);
    }
}

/// Overwrites a range of the frame with masked bytes.
fn patch(frame: &mut [u8], range: &Range<usize>, bytes: &[u8]) {
    for (offset, byte) in range.clone().zip(bytes) {
        frame[offset] = byte ^ MASK[(offset - HEADER_BYTES) % MASK.len()];
    }
}

/// A number with leading zeros.
fn digits(mut number: u64) -> [u8; TIME_DIGITS] {
    let mut digits = [b'0'; TIME_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use heartline_protocol::{Decoded, decode_client};

    use super::*;

    fn decode(frame: &[u8]) -> SendMessage {
        assert_eq!(frame[..2], [0x81, 0x80 | 126]);
        assert_eq!(u16::from_be_bytes([frame[2], frame[3]]) as usize, frame.len() - HEADER_BYTES);
        let payload = frame[HEADER_BYTES..].iter().zip(frame[4..8].iter().cycle());
        let text = String::from_utf8(payload.map(|(byte, mask)| byte ^ mask).collect()).unwrap();
        match decode_client(&text).unwrap() {
            Decoded::Frame(ClientFrame::SendMessage(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_frame_is_valid_and_has_its_time_and_a_new_id() {
        let chat_id = ChatId(Ulid(7));
        for id_kind in [IdKind::Ulid, IdKind::Random] {
            let mut template =
                MessageTemplate::new(chat_id, &content(300).unwrap(), id_kind).unwrap();
            let mut ids = HashSet::new();
            for nanos in [0, 42, 18_446_744_073_709_551_615] {
                let mut frame = Vec::new();
                template.write_frame(nanos, &mut frame);
                let message = decode(&frame);
                assert_eq!(message.chat_id, chat_id);
                assert_eq!(message.request_id.as_str(), format!("{nanos:020}"));
                assert!(message.content.starts_with(&format!("{nanos:020}xxx")));
                assert_eq!(message.content.len(), 300);
                assert_eq!(message.client_message_id.as_str().len(), id_kind.length());
                ids.insert(message.client_message_id);
            }
            assert_eq!(ids.len(), 3);
        }
        assert!(content(19).is_err() && content(4097).is_err());
    }
}
