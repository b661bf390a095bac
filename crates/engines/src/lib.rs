//! Real engines for tests and benchmarks, started privately on free ports.
//!
//! An engine lives in a temporary directory of its own and listens on loopback only. It ends with
//! whoever started it, also when that one is killed.

mod port;
pub mod postgres;
mod processes;
pub mod proxy;
pub mod redis;

pub use port::{HeldPort, free_port, hold_port};
pub use postgres::Postgres;
pub use proxy::FaultProxy;
pub use redis::{Redis, RedisCluster};
