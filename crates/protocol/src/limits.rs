//! Limits of the protocol with their defaults; each name ends with its unit.
//!
//! An operator can configure other values. `connection_established` announces the limits that a
//! client can reach.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Frames that one connection's data lane may hold.
pub const OUTBOX_MESSAGES_MAX: usize = 1000;
/// Bytes that one connection's data lane may hold.
pub const OUTBOX_BYTES_MAX: usize = 1024 * 1024;
/// The share of a lane's bound, in percent, above which the pressure is logged and counted.
pub const OUTBOX_WARNING_PERCENT: usize = 80;
/// The share of a lane's bound, in percent, above which the client receives `SLOW_CONSUMER`.
pub const OUTBOX_CRITICAL_PERCENT: usize = 95;
/// The time that a slow consumer has to fall below the warning threshold.
pub const SLOW_GRACE: Duration = Duration::from_secs(5);
/// `SLOW_CONSUMER` episodes within [`SLOW_EPISODES_WINDOW`] that close the connection.
pub const SLOW_EPISODES_MAX: usize = 3;
/// The window in which slow-consumer episodes are counted.
pub const SLOW_EPISODES_WINDOW: Duration = Duration::from_secs(60);
/// Frames that one connection's urgent lane may hold before reading pauses.
pub const URGENT_FRAMES_MAX: usize = 128;
/// Frames of one vectored write.
pub const WRITE_BATCH_FRAMES_MAX: usize = 64;

/// Pending requests of one connection.
pub const INBOUND_REQUESTS_MAX: usize = 100;
/// `SERVER_BUSY` answers within [`BUSY_WINDOW`] that close the connection.
pub const BUSY_REJECTIONS_MAX: usize = 3;
/// The window in which `SERVER_BUSY` answers are counted.
pub const BUSY_WINDOW: Duration = Duration::from_secs(10);
/// Sends under way per chat.
pub const INGEST_PER_CHAT_MAX: usize = 256;
/// Sends under way per node.
pub const INGEST_PER_NODE_MAX: usize = 10_000;
/// Sync reads under way per node.
pub const SYNC_READS_MAX: usize = 64;

/// Sustained `send_message` frames per second and connection.
pub const SEND_RATE_PER_SECOND: u32 = 10;
/// `send_message` frames that may arrive at once.
pub const SEND_BURST: u32 = 20;
/// Sustained other frames per second and connection.
pub const FRAME_RATE_PER_SECOND: u32 = 50;
/// Other frames that may arrive at once.
pub const FRAME_BURST: u32 = 100;
/// `typing` frames per second and chat; the excess is coalesced.
pub const TYPING_RATE_PER_SECOND: u32 = 1;
/// Presence frames per second and connection.
pub const PRESENCE_RATE_PER_SECOND: u32 = 5;
/// `RATE_LIMITED` answers within [`RATE_LIMITED_WINDOW`] that close the connection.
pub const RATE_LIMITED_MAX: usize = 100;
/// The window in which `RATE_LIMITED` answers are counted.
pub const RATE_LIMITED_WINDOW: Duration = Duration::from_secs(60);
/// Bad frames within [`BAD_FRAMES_WINDOW`] that close the connection.
pub const BAD_FRAMES_MAX: usize = 10;
/// The window in which bad frames are counted.
pub const BAD_FRAMES_WINDOW: Duration = Duration::from_secs(60);

/// Bytes of UTF-8 in a message's content.
pub const CONTENT_BYTES_MAX: usize = 4096;
/// Bytes of a message's content type.
pub const CONTENT_TYPE_BYTES_MAX: usize = 64;
/// Bytes of one inbound WebSocket message.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// WebSocket frames (fragments) of one inbound message.
pub const FRAGMENTS_MAX: usize = 128;
/// Levels of nested arrays and objects in an inbound frame.
pub const JSON_DEPTH_MAX: usize = 64;
/// Bytes of a token, checked before anything parses it.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Bytes of an HTTP request head.
pub const REQUEST_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the `data` of an `event`, as JSON.
pub const EVENT_DATA_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the `name` of an `event`.
pub const EVENT_NAME_BYTES_MAX: usize = 128;
/// Users that one `POST /v1/push` may name.
pub const PUSH_USERS_MAX: usize = 1000;
/// Bytes of a WebSocket close reason; common libraries drop a longer one.
pub const CLOSE_REASON_BYTES_MAX: usize = 123;

/// Messages of a sync page unless the client requests another number.
pub const SYNC_PAGE_MESSAGES: u32 = 100;
/// Messages of the largest sync page.
pub const SYNC_PAGE_MESSAGES_MAX: u32 = 500;
/// Bytes of the largest sync page.
pub const SYNC_PAGE_BYTES_MAX: usize = 256 * 1024;
/// Chats of one page of the manifest.
pub const MANIFEST_PAGE_CHATS: usize = 200;
/// Users named in one presence frame.
pub const PRESENCE_USERS_PER_FRAME_MAX: usize = 100;
/// Users whose presence one connection may subscribe to.
pub const PRESENCE_USERS_PER_CONNECTION_MAX: usize = 1000;
/// Chats in the `sync_hints` of a `connection_closing`.
pub const SYNC_HINTS_MAX: usize = 50;

/// The time limit of a durable write, from when its frame is read.
pub const DURABILITY_DEADLINE: Duration = Duration::from_secs(5);
/// Infrastructure failures within [`BREAKER_WINDOW`] that open a breaker.
pub const BREAKER_FAILURES: usize = 5;
/// The window in which a breaker counts failures.
pub const BREAKER_WINDOW: Duration = Duration::from_secs(30);
/// The time that a breaker stays open before it lets one call through.
pub const BREAKER_OPEN: Duration = Duration::from_secs(30);

/// Live connections per user in the whole cluster.
pub const CONNECTIONS_PER_USER_MAX: usize = 20;
/// Live connections per address and node.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 1000;
/// The maximum age of a connection; each connection's own is randomised.
pub const CONNECTION_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The share of the process' memory that all outboxes together may hold, in percent.
pub const OUTBOX_MEMORY_PERCENT: u64 = 25;
/// The share of the outbox memory, in percent, above which new sockets are rejected.
pub const OUTBOX_MEMORY_REFUSE_PERCENT: usize = 90;

/// The time that a client has to authenticate after the challenge.
pub const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for the head of an HTTP request.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that pending requests have to complete when the server closes a connection.
pub const CLOSE_ANSWER_DEADLINE: Duration = Duration::from_secs(5);
/// The time limit for writing the last replies and the Close frame.
pub const CLOSE_WRITE_DEADLINE: Duration = Duration::from_secs(2);
/// The time after a token's expiry in which pushes continue and the client can refresh it.
pub const TOKEN_GRACE: Duration = Duration::from_secs(30);
/// The interval at which a client sends `heartbeat`.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// The time without any frame after which a connection counts as lost.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay before the first reconnect; each failure doubles it.
pub const RECONNECT_DELAY_MIN: Duration = Duration::from_secs(1);
/// The longest delay before a reconnect.
pub const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(16);
/// The random variation of a reconnect delay up or down, in percent.
pub const RECONNECT_JITTER_PERCENT: u32 = 20;
/// The longest `reconnect_delay_ms` of a drain. Shorter than a lease, so that a client that
/// reconnects causes no presence transition.
pub const DRAIN_RECONNECT_DELAY_MAX: Duration = Duration::from_secs(8);

const _: () = {
    assert!(OUTBOX_WARNING_PERCENT < OUTBOX_CRITICAL_PERCENT && OUTBOX_CRITICAL_PERCENT < 100);
    assert!(SEND_RATE_PER_SECOND <= SEND_BURST && FRAME_RATE_PER_SECOND <= FRAME_BURST);
    assert!(HEARTBEAT_INTERVAL.as_millis() * 2 <= HEARTBEAT_TIMEOUT.as_millis());
    // JSON encodes a byte in at most six; the rest of the frame needs far less than 4 KiB.
    assert!(CONTENT_BYTES_MAX * 6 + 4096 <= FRAME_BYTES_MAX);
    assert!(TOKEN_BYTES_MAX < REQUEST_HEAD_BYTES_MAX && TOKEN_BYTES_MAX < FRAME_BYTES_MAX);
    // A sync page must fit beside frames that are queued already, without making the client a slow
    // consumer.
    assert!(SYNC_PAGE_BYTES_MAX * 2 < OUTBOX_BYTES_MAX);
    assert!(WRITE_BATCH_FRAMES_MAX < OUTBOX_MESSAGES_MAX);
};

/// The limits that a client can reach, as `connection_established` announces them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLimits {
    /// Bytes of one frame to the server.
    pub frame_bytes: u64,
    /// Bytes of a message's content.
    pub content_bytes: u64,
    /// Frames that may be queued for this connection before the server closes it.
    pub outbox_messages: u64,
    /// Bytes that may be queued for this connection before the server closes it.
    pub outbox_bytes: u64,
    /// The time that a slow consumer has to recover.
    pub slow_grace_ms: u64,
    /// Requests that may be pending.
    pub inbound_requests: u64,
    /// Sustained `send_message` frames per second.
    pub send_rate: u64,
    /// `send_message` frames that may arrive at once.
    pub send_burst: u64,
    /// Sustained other frames per second.
    pub frame_rate: u64,
    /// Other frames that may arrive at once.
    pub frame_burst: u64,
    /// `typing` frames per second and chat.
    pub typing_rate: u64,
    /// Presence frames per second.
    pub presence_rate: u64,
    /// Users that one presence frame may name.
    pub presence_users_per_frame: u64,
    /// Users whose presence one connection may subscribe to.
    pub presence_users_per_connection: u64,
    /// Messages of the largest sync page.
    pub sync_page_messages: u64,
    /// Connections that one user may have.
    pub connections_per_user: u64,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            frame_bytes: FRAME_BYTES_MAX as u64,
            content_bytes: CONTENT_BYTES_MAX as u64,
            outbox_messages: OUTBOX_MESSAGES_MAX as u64,
            outbox_bytes: OUTBOX_BYTES_MAX as u64,
            slow_grace_ms: SLOW_GRACE.as_millis() as u64,
            inbound_requests: INBOUND_REQUESTS_MAX as u64,
            send_rate: SEND_RATE_PER_SECOND.into(),
            send_burst: SEND_BURST.into(),
            frame_rate: FRAME_RATE_PER_SECOND.into(),
            frame_burst: FRAME_BURST.into(),
            typing_rate: TYPING_RATE_PER_SECOND.into(),
            presence_rate: PRESENCE_RATE_PER_SECOND.into(),
            presence_users_per_frame: PRESENCE_USERS_PER_FRAME_MAX as u64,
            presence_users_per_connection: PRESENCE_USERS_PER_CONNECTION_MAX as u64,
            sync_page_messages: SYNC_PAGE_MESSAGES_MAX.into(),
            connections_per_user: CONNECTIONS_PER_USER_MAX as u64,
        }
    }
}
