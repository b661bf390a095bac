//! A WebSocket that sends nothing by itself, not even a pong.

use heartline_client::raw::{
    OPCODE_CLOSE, OPCODE_TEXT, RawFrame, RawUpgrade, masked_frame, masked_text_frame,
    read_server_frame,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::PATIENCE;

/// A WebSocket that sends nothing by itself, not even a pong.
#[derive(Debug)]
pub struct Socket {
    /// The connection below the frames.
    pub stream: TcpStream,
}

impl Socket {
    /// Sends a frame of the protocol.
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Sends a text frame.
    pub async fn send_text(&mut self, text: &str) {
        self.send_bytes(&masked_text_frame(text)).await;
    }

    /// Sends a WebSocket frame of any kind.
    pub async fn send_frame(&mut self, opcode: u8, fin: bool, payload: &[u8]) {
        self.send_bytes(&masked_frame(opcode, fin, payload)).await;
    }

    /// Sends raw bytes.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame of any kind.
    pub async fn frame(&mut self) -> RawFrame {
        let frame = timeout(PATIENCE, read_server_frame(&mut self.stream)).await;
        frame.expect("a frame in time").expect("a frame")
    }

    /// The next text frame as JSON; fails on a Close. Skips other frames, and `chat_changed` of a
    /// created chat, which a client that connects just afterwards may or may not receive.
    pub async fn json(&mut self) -> Value {
        loop {
            let frame = self.any_json().await;
            if (&frame["type"], &frame["change"]) != (&json!("chat_changed"), &json!("created")) {
                return frame;
            }
        }
    }

    async fn any_json(&mut self) -> Value {
        loop {
            let frame = self.frame().await;
            match frame.opcode {
                OPCODE_TEXT => return serde_json::from_slice(&frame.payload).unwrap(),
                OPCODE_CLOSE => panic!("closed: {:?}", close_of(&frame)),
                _ => {}
            }
        }
    }

    /// Reads to the next text frame of this type.
    pub async fn json_of(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.any_json().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Asserts that the connection is open: its heartbeat is acknowledged.
    pub async fn is_open(&mut self) {
        self.send(&json!({ "type": "heartbeat" })).await;
        assert_eq!(self.json().await["type"], "heartbeat_ack");
    }

    /// Reads to the next error frame, which must have this code.
    pub async fn error(&mut self, code: &str) -> Value {
        let error = self.json_of("error").await;
        assert_eq!(error["code"], code, "{error}");
        error
    }

    /// Reads to the end: `connection_closing` with this reason, a Close with this code and reason,
    /// and the end of the stream.
    pub async fn closes(&mut self, reason: &str, code: u16) -> Value {
        let closing = self.json_of("connection_closing").await;
        assert_eq!(closing["reason"], reason, "{closing}");
        assert!(closing["reconnect_delay_ms"].is_u64(), "{closing}");
        let close = self.frame().await;
        assert_eq!(close_of(&close), Some((code, reason.to_owned())));
        self.ends().await;
        closing
    }

    /// Asserts that the stream ends without another frame.
    pub async fn ends(&mut self) {
        let mut rest = Vec::new();
        let read = timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await;
        read.expect("the end in time").expect("a clean end");
        assert!(rest.is_empty(), "{} bytes after the Close", rest.len());
    }
}

/// The JSON body of a rejected upgrade.
pub async fn read_refusal(upgrade: &mut RawUpgrade) -> Value {
    assert_ne!(upgrade.status, 101);
    let length = upgrade.headers["content-length"].to_str().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    let read = timeout(PATIENCE, upgrade.stream.read_exact(&mut body)).await;
    read.expect("a body in time").unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Code and reason of a Close frame.
pub fn close_of(frame: &RawFrame) -> Option<(u16, String)> {
    let (code, reason) = frame.payload.split_at_checked(2)?;
    (frame.opcode == OPCODE_CLOSE).then(|| {
        let code = u16::from_be_bytes([code[0], code[1]]);
        (code, String::from_utf8(reason.to_vec()).unwrap())
    })
}
