//! A `send_message` frame that is composed once; only its times and its id change.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use heartline_protocol::ChatId;
use heartline_protocol::client_frame::{ClientFrame, SendMessage};
use heartline_protocol::limits::CONTENT_BYTES_MAX;
use heartline_routing::Clock;
use ulid::{ULID_LEN, Ulid};

use super::voice::{MASK, TEXT};
use super::walker::TIME_DIGITS;

/// Bytes of the header of a masked frame of medium length.
const HEADER_BYTES: usize = 8;
/// Characters of a random id.
const RANDOM_NAME_BYTES: usize = 32;
/// What stands before the time in the content, so that it is found while composing.
const TIME_PLACE: &str = "00000000000000000000";

/// How a client names its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// By time, then by chance: neighbours in an index.
    Ulid,
    /// By chance alone: anywhere in an index.
    Random,
}

/// The masked bytes of a message to one chat.
#[derive(Debug)]
pub(super) struct Letter {
    bytes: Vec<u8>,
    naming: Naming,
    request_id: Range<usize>,
    name: Range<usize>,
    time: Range<usize>,
}

impl Naming {
    /// As it is called on the command line and in reports.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ulid => "ulid",
            Self::Random => "random",
        }
    }

    /// A new id.
    pub(super) fn name(self) -> String {
        match self {
            Self::Ulid => {
                Ulid::from_parts(Clock::system().wall().unix_ms, rand::random()).to_string()
            }
            Self::Random => format!("{:032x}", rand::random::<u128>()),
        }
    }

    const fn length(self) -> usize {
        match self {
            Self::Ulid => ULID_LEN,
            Self::Random => RANDOM_NAME_BYTES,
        }
    }
}

/// The content of a message: a time and as much padding as the size asks for.
pub(super) fn content(bytes: usize) -> Result<String> {
    ensure!(bytes >= TIME_DIGITS, "--content must be at least {TIME_DIGITS} bytes");
    ensure!(bytes <= CONTENT_BYTES_MAX, "--content must be at most {CONTENT_BYTES_MAX} bytes");
    Ok(format!("{TIME_PLACE}{}", "x".repeat(bytes - TIME_DIGITS)))
}

impl Letter {
    /// A letter to a chat.
    pub(super) fn new(chat_id: ChatId, content: &str, naming: Naming) -> Result<Self> {
        let name = "n".repeat(naming.length());
        let frame = ClientFrame::SendMessage(SendMessage {
            request_id: TIME_PLACE.parse()?,
            chat_id,
            client_message_id: name.parse()?,
            content: content.to_owned(),
            content_type: None,
        });
        let text = heartline_protocol::encode_client(&frame);
        let place = |marker: &str, length: usize| {
            let start = text.find(marker).context("a field is missing")? + marker.len();
            anyhow::Ok(HEADER_BYTES + start..HEADER_BYTES + start + length)
        };
        let request_id = place(r#""request_id":""#, TIME_DIGITS)?;
        let name = place(r#""client_message_id":""#, naming.length())?;
        let time = place(r#""content":""#, TIME_DIGITS)?;
        let length = u16::try_from(text.len())?;
        let mut bytes = vec![0x80 | TEXT, 0x80 | 126];
        bytes.extend(length.to_be_bytes());
        bytes.extend(MASK);
        bytes.extend(text.bytes().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        Ok(Self { bytes, naming, request_id, name, time })
    }

    /// Adds the frame of a new message that was meant to leave at this time.
    pub(super) fn seal(&mut self, intended_nanos: u64, frames: &mut Vec<u8>) {
        let digits = digits(intended_nanos);
        patch(&mut self.bytes, &self.request_id, &digits);
        patch(&mut self.bytes, &self.time, &digits);
        match self.naming {
            Naming::Ulid => {
                let name = Ulid::from_parts(Clock::system().wall().unix_ms, rand::random());
                let mut text = [0; ULID_LEN];
                name.array_to_str(&mut text);
                patch(&mut self.bytes, &self.name, &text);
            }
            Naming::Random => patch(&mut self.bytes, &self.name, self.naming.name().as_bytes()),
        }
        frames.extend(&self.bytes);
    }
}

/// Writes masked bytes over those that are there.
fn patch(frame: &mut [u8], place: &Range<usize>, bytes: &[u8]) {
    for (offset, byte) in place.clone().zip(bytes) {
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

    fn open(frame: &[u8]) -> SendMessage {
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
    fn every_letter_is_a_legal_frame_with_its_time_and_a_new_name() {
        let chat_id = ChatId(Ulid(7));
        for naming in [Naming::Ulid, Naming::Random] {
            let mut letter = Letter::new(chat_id, &content(300).unwrap(), naming).unwrap();
            let mut names = HashSet::new();
            for nanos in [0, 42, 18_446_744_073_709_551_615] {
                let mut frame = Vec::new();
                letter.seal(nanos, &mut frame);
                let message = open(&frame);
                assert_eq!(message.chat_id, chat_id);
                assert_eq!(message.request_id.as_str(), format!("{nanos:020}"));
                assert!(message.content.starts_with(&format!("{nanos:020}xxx")));
                assert_eq!(message.content.len(), 300);
                assert_eq!(message.client_message_id.as_str().len(), naming.length());
                names.insert(message.client_message_id);
            }
            assert_eq!(names.len(), 3);
        }
        assert!(content(19).is_err() && content(4097).is_err());
    }
}
