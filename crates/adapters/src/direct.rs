//! Parcels from node to node over HTTP/2, without anything in between.
//!
//! A node keeps one long request open to every other node; its body is a stream of parcels, each
//! behind four bytes of length. The answer's head says that the receiver takes them, and which
//! node it is; the answer's body ends when the receiver does. It is plain HTTP/2 with prior
//! knowledge, for a private network, and every request carries the cluster's secret.

mod secret;
mod executor;
mod socket;
mod unpacker;
mod outgoing;
mod stream;
mod dial;
mod link;
mod carrier;
mod server;

pub use carrier::{DirectTasks, HttpCarrier};
pub use secret::ClusterSecret;
pub use server::{Answer, DirectServer};

use std::time::Duration;

use http::HeaderName;

/// Where parcels are sent.
pub const PARCELS_PATH: &str = "/cluster/v1/parcels";

/// Where a node says which one it is.
pub const NODE_PATH: &str = "/cluster/v1/node";

/// The node that sends.
const SENDER: HeaderName = HeaderName::from_static("heartline-sender");

/// The node that the sender means. A restarted node at the same address is another one.
const RECEIVER: HeaderName = HeaderName::from_static("heartline-receiver");

/// In answers: the node that answers.
const NODE: HeaderName = HeaderName::from_static("heartline-node");

/// How often each end checks that the other one is there, and how long it waits for the answer:
/// together the time in which a peer that vanished without a word is noticed.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_millis(1500);

/// Bytes that may be under way on one stream before the receiver has taken them.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// The same for a connection, which has one stream that matters.
const CONNECTION_WINDOW_BYTES: u32 = 2 * 1024 * 1024;

/// The largest frame of HTTP/2, so that what travels together arrives in one piece.
const FRAME_BYTES_MAX: u32 = 64 * 1024;
