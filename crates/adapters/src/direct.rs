//! Parcels from node to node over HTTP/2, without Redis.
//!
//! A node keeps one long request open to every other node; its body is a stream of parcels, each
//! behind four bytes of length. The head of the response says that the receiver accepts them, and
//! which node it is; the body of the response ends when the receiver does. The protocol is plain
//! HTTP/2 with prior knowledge, for a private network, and every request carries the cluster's
//! secret.

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
pub use server::{DirectServer, ResponseBody};

use std::time::Duration;

use http::HeaderName;

/// The path to which parcels are sent.
pub const PARCELS_PATH: &str = "/cluster/v1/parcels";

/// The path at which a node returns its id.
pub const NODE_PATH: &str = "/cluster/v1/node";

/// In requests: the id of the node that sends.
const SENDER: HeaderName = HeaderName::from_static("heartline-sender");

/// In requests: the id of the node for which the parcels are. A restarted node at the same address
/// has another id.
const RECEIVER: HeaderName = HeaderName::from_static("heartline-receiver");

/// In responses: the id of the node that responds.
const NODE: HeaderName = HeaderName::from_static("heartline-node");

/// How often each end pings the other, and how long it waits for the reply: together the time in
/// which a peer that vanished is detected.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_millis(1500);

/// Bytes of one stream that may be in flight before the receiver has read them.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// The same for a connection, which has one stream of parcels.
const CONNECTION_WINDOW_BYTES: u32 = 2 * 1024 * 1024;

/// The largest HTTP/2 frame, so that a batch of parcels arrives in one piece.
const FRAME_BYTES_MAX: u32 = 64 * 1024;
