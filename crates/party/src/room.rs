//! Sessions on a node: the tasks that own them, and the ports to the stores.
//!
//! [`rooms`] has one [`task`] for every session that concerns this node. The task commits facts to
//! the port in [`store`] and sends events to each [`listener`]; `restore` restores a session
//! that the store has lost, `archivist` writes it to the port in [`archive`], and `live_nodes`
//! decides which nodes are alive. [`party_socket`] is the state of one connection.

pub mod store;
pub mod archive;
mod metrics;
pub mod listener;
pub mod parts;
pub mod rooms;
pub mod task;
pub(crate) mod unavailable;
mod restore;
mod archivist;
mod live_nodes;
pub(crate) mod uuid;
pub mod rate;
pub mod party_socket;
