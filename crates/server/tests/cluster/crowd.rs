//! Many users, and observers that count the presence events about them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;
use heartline_client::raw::connect_raw_from;
use heartline_testing::{PATIENCE, Socket, bearer};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::nodes::Node;
use crate::recording_socket::{Received, RecordingSocket};

/// Upgrades under way at the same time.
const CONNECTING: usize = 32;

/// Users that one observer may watch.
const WATCHED_MAX: usize = 1000;

/// Users that one frame may name.
const NAMED_MAX: usize = 100;

/// The ids of `count` users.
pub(crate) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// Connects all of them, in no order. They come from addresses of their own, so that they leave
/// the usual one's ports to those who need a certain one.
pub(crate) async fn connect_all(node: &Node, names: &[String]) -> Vec<Socket> {
    let sockets = iter(names.iter().enumerate()).map(|(number, name)| async move {
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1 + (number % 200) as u8));
        let bearer = bearer(name);
        let headers = [("Authorization", bearer.as_str()), ("X-Device-ID", node.id.as_str())];
        let upgrade = connect_raw_from(source, node.address, "/v1/ws", &headers).await.unwrap();
        assert_eq!(upgrade.status, 101, "{name}");
        let mut socket = Socket { stream: upgrade.stream };
        assert_eq!(socket.json().await["type"], "connection_established");
        socket
    });
    sockets.buffer_unordered(CONNECTING).collect().await
}

/// Observers on one node, who watch as many users as are named.
pub(crate) struct Observers {
    recordings: Vec<RecordingSocket>,
}

impl Observers {
    /// Subscribes to these users, who must all be online.
    pub(crate) async fn watch(node: &Node, names: &[String]) -> Self {
        let mut recordings = Vec::new();
        for (number, names) in names.chunks(WATCHED_MAX).enumerate() {
            let mut observer = node.connect(&format!("observer-{number}-of-{}", node.id)).await;
            for names in names.chunks(NAMED_MAX) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                timeout(PATIENCE, see_online(&mut observer, &names)).await.expect("all are online");
            }
            recordings.push(RecordingSocket::of(observer));
        }
        Self { recordings }
    }

    /// The presence events that the members received, of any user.
    pub(crate) fn told(&self) -> Vec<Received> {
        let received = self.recordings.iter().flat_map(RecordingSocket::received);
        received.filter(|received| received.frame["type"] == "presence_changed").collect()
    }

    /// How often each user was reported offline, and the time of the last report.
    pub(crate) fn departures(&self) -> HashMap<String, (usize, Instant)> {
        let mut departures = HashMap::new();
        for Received { at, frame } in self.told() {
            assert_eq!(frame["status"], "offline", "{frame}");
            let user = frame["user_id"].as_str().unwrap().to_owned();
            let departure = departures.entry(user).or_insert((0, at));
            *departure = (departure.0 + 1, at);
        }
        departures
    }

    /// Whether all of them are still connected.
    pub(crate) fn are_open(&self) -> bool {
        self.recordings.iter().all(RecordingSocket::is_open)
    }
}

/// Subscribes until all users are online, because a busy node may report a stale state first.
async fn see_online(observer: &mut Socket, names: &[&str]) {
    loop {
        let snapshot = observer.subscribe(names).await;
        // Five presence frames a second are allowed.
        sleep(Duration::from_millis(220)).await;
        if snapshot.iter().all(|seen| seen["status"] == "online") {
            return;
        }
    }
}

/// Whether a frame is a transition to online or offline.
pub(crate) fn is_transition(frame: &Value) -> bool {
    frame["type"] == "presence_changed"
        && (frame["status"] == "online" || frame["status"] == "offline")
}
