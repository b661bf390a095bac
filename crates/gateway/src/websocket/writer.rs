//! Encodes frames of the server, unmasked and in one piece: the same bytes for every receiver.

use bytes::{BufMut, Bytes, BytesMut};
use heartline_protocol::close::cut_reason;

use super::Opcode;

/// A text frame around a JSON text.
pub fn text_frame(text: &str) -> Bytes {
    frame(Opcode::Text, text.as_bytes())
}

/// A binary frame. The protocol sends none; the conformance echo does.
pub fn binary_frame(payload: &[u8]) -> Bytes {
    frame(Opcode::Binary, payload)
}

/// A Ping without a payload.
pub fn ping_frame() -> Bytes {
    frame(Opcode::Ping, &[])
}

/// The reply to a Ping.
pub fn pong_frame(payload: &[u8]) -> Bytes {
    frame(Opcode::Pong, payload)
}

/// A Close with its code and reason, which is truncated to the size that a Close can carry. Without
/// a code it is empty, as the reply to an empty Close.
pub fn close_frame(code: Option<u16>, reason: &str) -> Bytes {
    let mut payload = BytesMut::with_capacity(2 + reason.len());
    if let Some(code) = code {
        payload.put_u16(code);
        payload.put_slice(cut_reason(reason).as_bytes());
    }
    frame(Opcode::Close, &payload)
}

fn frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    const FINAL: u8 = 0x80;
    let mut frame = BytesMut::with_capacity(10 + payload.len());
    frame.put_u8(FINAL | opcode.bits());
    match payload.len() {
        length @ 0..=125 => frame.put_u8(length as u8),
        length @ 126..=0xffff => {
            frame.put_u8(126);
            frame.put_u16(length as u16);
        }
        length => {
            frame.put_u8(127);
            frame.put_u64(length as u64);
        }
    }
    frame.put_slice(payload);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_its_header() {
        for (length, header) in [
            (0, &[0x81, 0][..]),
            (125, &[0x81, 125]),
            (126, &[0x81, 126, 0, 126]),
            (65_535, &[0x81, 126, 0xff, 0xff]),
            (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let frame = text_frame(&"x".repeat(length));
            assert_eq!(&frame[..header.len()], header);
            assert_eq!(frame.len(), header.len() + length);
        }
    }

    #[test]
    fn a_close_reason_is_truncated_to_what_fits() {
        let frame = close_frame(Some(1008), &"r".repeat(500));
        assert_eq!(frame.len(), 2 + 125);
        assert_eq!(&frame[..4], &[0x88, 125, 0x03, 0xf0]);
        assert_eq!(close_frame(None, "ignored").as_ref(), &[0x88, 0]);
    }
}
