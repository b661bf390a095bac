//! One binary: Heartline, a real-time server.
