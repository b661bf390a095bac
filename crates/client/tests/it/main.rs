//! The client against servers that the tests control, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should send where")]

mod chat_harness;
mod harness;

mod authentication;
mod backpressure;
mod chat;
mod liveness;
mod raw;
mod reconnect;
mod refresh;
mod tls;
