//! Any bytes, cut anywhere: the frame reader neither panics nor holds more than its limits allow,
//! and what it hears does not depend on the cuts.

#![no_main]

use heartline_gateway::websocket::{FrameError, FrameReader, Incoming, ReaderLimits};
use libfuzzer_sys::fuzz_target;

const LIMITS: ReaderLimits = ReaderLimits { message_bytes: 1000, fragments: 4 };

/// The longest header of a frame.
const HEADER_BYTES_MAX: usize = 14;

#[derive(Debug, arbitrary::Arbitrary)]
struct Conversation {
    parts: Vec<Part>,
    cuts: Vec<u8>,
}

/// Bytes of any kind seldom make a frame that is masked and whole, so some parts are made so.
#[derive(Debug, arbitrary::Arbitrary)]
enum Part {
    Bytes(Vec<u8>),
    Frame { first: u8, mask: [u8; 4], payload: Vec<u8> },
}

impl Part {
    fn write_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Bytes(part) => bytes.extend(part),
            Self::Frame { first, mask, payload } => {
                bytes.push(*first);
                match u16::try_from(payload.len()) {
                    Ok(length @ 0..=125) => bytes.push(0x80 | length as u8),
                    Ok(length) => {
                        bytes.push(0x80 | 126);
                        bytes.extend(length.to_be_bytes());
                    }
                    Err(_) => {
                        bytes.push(0x80 | 127);
                        bytes.extend((payload.len() as u64).to_be_bytes());
                    }
                }
                bytes.extend(mask);
                let masked =
                    payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
                bytes.extend(masked);
            }
        }
    }
}

/// The messages that are read until the bytes or a violation end them.
type Heard = (Vec<Incoming>, Option<FrameError>);

/// Reads what there is; true after a violation.
fn drain(reader: &mut FrameReader, heard: &mut Heard) -> bool {
    loop {
        match reader.next() {
            Ok(Some(incoming)) => heard.0.push(incoming),
            Ok(None) => return false,
            Err(error) => {
                heard.1 = Some(error);
                return true;
            }
        }
    }
}

fn read_whole(bytes: &[u8]) -> Heard {
    let (mut reader, mut heard) = (FrameReader::new(LIMITS), Heard::default());
    reader.feed(bytes);
    drain(&mut reader, &mut heard);
    heard
}

fn read_cut(bytes: &[u8], cuts: &[u8]) -> Heard {
    let (mut reader, mut heard) = (FrameReader::new(LIMITS), Heard::default());
    let (mut rest, mut cuts) = (bytes, cuts.iter().cycle());
    while !rest.is_empty() {
        let cut = cuts.next().map_or(rest.len(), |cut| usize::from(*cut).max(1));
        let (now, later) = rest.split_at(cut.min(rest.len()));
        reader.feed(now);
        rest = later;
        if drain(&mut reader, &mut heard) {
            break;
        }
        // One frame that is not whole yet, beside the fragments of a message.
        assert!(reader.buffered() <= 2 * LIMITS.message_bytes + HEADER_BYTES_MAX);
    }
    heard
}

fuzz_target!(|conversation: Conversation| {
    let mut bytes = Vec::new();
    conversation.parts.iter().for_each(|part| part.write_to(&mut bytes));
    let whole = read_whole(&bytes);
    for incoming in &whole.0 {
        let length = match incoming {
            Incoming::Text(text) => text.len(),
            Incoming::Binary(payload) => payload.len(),
            Incoming::Ping(payload) => payload.len() + LIMITS.message_bytes - 125,
            Incoming::Pong | Incoming::Close(_) => 0,
        };
        assert!(length <= LIMITS.message_bytes);
    }
    assert_eq!(whole, read_cut(&bytes, &conversation.cuts));
    assert_eq!(whole, read_cut(&bytes, &[1]));
});
