//! A socket whose frames the caller writes and reads as bytes.
//!
//! For tests that must violate the protocol, and for load generators with too many sockets for a
//! task with timers each. Nothing happens automatically: no heartbeats, no Pongs, no reconnects.

use std::io;
use std::net::{IpAddr, SocketAddr};

use heartline_runtime::Random;
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::upgrade;

/// A frame that continues a message.
pub const OPCODE_CONTINUATION: u8 = 0x0;
/// A frame with text.
pub const OPCODE_TEXT: u8 = 0x1;
/// A frame with bytes.
pub const OPCODE_BINARY: u8 = 0x2;
/// A frame that closes the connection.
pub const OPCODE_CLOSE: u8 = 0x8;
/// A frame that requests a Pong.
pub const OPCODE_PING: u8 = 0x9;
/// The answer to a Ping.
pub const OPCODE_PONG: u8 = 0xA;

/// Bytes of the largest frame that [`read_server_frame`] accepts.
pub const SERVER_FRAME_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The server's response to an upgrade, and the connection. With status 101 frames can be exchanged
/// on it; otherwise the body of the response can be read from it.
#[derive(Debug)]
pub struct RawUpgrade {
    /// The HTTP status.
    pub status: u16,
    /// The headers of the response.
    pub headers: HeaderMap,
    /// The connection, read exactly to the end of the head.
    pub stream: TcpStream,
}

/// A frame from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// The opcode of the frame.
    pub opcode: u8,
    /// Whether the frame is the last one of its message.
    pub fin: bool,
    /// The payload of the frame.
    pub payload: Vec<u8>,
}

/// Connects and requests an upgrade of `path`. A header replaces the default header of the same
/// name.
pub async fn connect_raw(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> io::Result<RawUpgrade> {
    upgrade_raw(TcpStream::connect(address).await?, path, headers).await
}

/// Like [`connect_raw`] from a given local address, because the ports of one address are limited.
pub async fn connect_raw_from(
    source: IpAddr,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> io::Result<RawUpgrade> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(SocketAddr::new(source, 0))?;
    upgrade_raw(socket.connect(address).await?, path, headers).await
}

async fn upgrade_raw(
    mut stream: TcpStream,
    path: &str,
    headers: &[(&str, &str)],
) -> io::Result<RawUpgrade> {
    stream.set_nodelay(true)?;
    let host = stream.peer_addr()?.to_string();
    let request = upgrade::request_head(&host, path, &upgrade::new_key(Random::system()), headers);
    stream.write_all(&request).await?;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        // Frames may follow at once, so only bytes that belong to the head are read from the
        // socket.
        let available = stream.peek(&mut buffer).await?;
        if available == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (taken, complete) = upgrade::append_head(&mut head, &buffer[..available])?;
        stream.read_exact(&mut buffer[..taken]).await?;
        if complete {
            let head = upgrade::parse_head(&head)?;
            return Ok(RawUpgrade { status: head.status, headers: head.headers, stream });
        }
    }
}

/// The bytes of a whole text message in one frame.
pub fn masked_text_frame(payload: &str) -> Vec<u8> {
    masked_frame(OPCODE_TEXT, true, payload.as_bytes())
}

/// The bytes of any frame, masked as the protocol requires of clients.
pub fn masked_frame(opcode: u8, fin: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 14);
    frame.push(opcode | if fin { 0x80 } else { 0 });
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xFFFF => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    let mask: [u8; 4] = Random::system().draw();
    frame.extend_from_slice(&mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Reads the next frame. The future is not cancel-safe: bytes that it has read would be lost.
pub async fn read_server_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<RawFrame> {
    let mut start = [0; 2];
    stream.read_exact(&mut start).await?;
    let [first, second] = start;
    if second & 0x80 != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of the server is masked"));
    }
    let length = match second {
        126 => u64::from(stream.read_u16().await?),
        127 => stream.read_u64().await?,
        length => u64::from(length),
    };
    if length > SERVER_FRAME_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a frame of the server is too large",
        ));
    }
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await?;
    Ok(RawFrame { opcode: first & 0x0F, fin: first & 0x80 != 0, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes the mask, so that a client's frame can be read as a server's.
    fn unmasked(frame: &[u8]) -> Vec<u8> {
        let length_bytes = match frame[1] & 0x7F {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let (head, rest) = frame.split_at(2 + length_bytes);
        let (mask, payload) = rest.split_at(4);
        let mut plain = head.to_vec();
        plain[1] &= 0x7F;
        plain.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        plain
    }

    #[tokio::test]
    async fn a_frame_of_any_length_is_read_as_encoded() {
        for length in [0, 1, 125, 126, 0xFFFF, 0x1_0000, 300_000] {
            let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let bytes = unmasked(&masked_frame(OPCODE_BINARY, false, &payload));
            let mut reader = &bytes[..];
            let frame = read_server_frame(&mut reader).await.unwrap();
            assert_eq!(frame, RawFrame { opcode: OPCODE_BINARY, fin: false, payload });
            assert!(reader.is_empty());
        }
    }

    #[tokio::test]
    async fn a_masked_or_endless_frame_from_a_server_is_rejected() {
        let masked = masked_text_frame("hello");
        assert!(read_server_frame(&mut &masked[..]).await.is_err());
        let endless = [0x82, 127, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
        assert!(read_server_frame(&mut &endless[..]).await.is_err());
    }
}
