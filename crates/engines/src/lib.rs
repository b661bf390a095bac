//! Real engines for tests and benchmarks, started privately on free ports.
//!
//! Each engine has its own temporary directory and listens only on loopback. An engine ends with
//! the process that started it, even if that process is killed.

mod port;
pub mod postgres;
mod processes;
pub mod proxy;
pub mod redis;

pub use port::{HeldPort, free_port, hold_port};
pub use postgres::Postgres;
pub use proxy::FaultProxy;
pub use redis::{Redis, RedisCluster};
