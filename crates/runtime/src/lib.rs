//! The inputs of a node from outside: time, randomness, sockets and an owner for its tasks.
//!
//! No other crate reads a clock, draws a random number or spawns a task by itself, so that any
//! number of nodes can run in one process, under simulated time and from one seed.

pub mod blocking;
pub mod clock;
pub mod hash;
pub mod memory_socket;
pub mod random;
pub mod socket;
pub mod supervise;
pub mod task_set;
pub mod tasks;

pub use blocking::blocking;
pub use clock::{Clock, TimeSource, until};
pub use hash::{Map, Set};
pub use memory_socket::{MemoryListener, MemoryNetwork, MemorySocket};
pub use random::{Random, RandomSource};
pub use socket::{Listener, Socket, SocketIo, accept};
pub use supervise::Supervisor;
pub use task_set::TaskSet;
pub use tasks::Tasks;
