//! The whole server over real sockets: a real process, real signals, real time.

mod harness;
mod welcome;
