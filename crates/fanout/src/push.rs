//! Pushes an event of the application's own back end to all devices of some users.

use std::sync::Arc;

use bytes::Bytes;
use heartline_protocol::limits::{EVENT_DATA_BYTES_MAX, EVENT_NAME_BYTES_MAX, PUSH_USERS_MAX};
use heartline_protocol::{ServerFrame, UserId, encode_server};
use heartline_routing::{DirectoryError, Envelope, LinkError, Route};
use heartline_runtime::Set;
use serde_json::Value;
use tracing::warn;

use crate::deliver::Fanout;

/// An event for the devices of some users.
#[derive(Debug, Clone, PartialEq)]
pub struct Push {
    /// The recipients: 1 to 1000 users.
    pub user_ids: Vec<UserId>,
    /// The name of the event.
    pub name: String,
    /// The application's data, at most 16 KiB as JSON.
    pub data: Value,
}

/// Why nothing was pushed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Too many users, or none.
    #[error("user_ids must name 1 to {PUSH_USERS_MAX} users")]
    Users,
    /// An empty or overlong name.
    #[error("name must have 1 to {EVENT_NAME_BYTES_MAX} bytes")]
    Name,
    /// Too much data.
    #[error("data may have at most {EVENT_DATA_BYTES_MAX} bytes as JSON")]
    Data,
    /// The routes of the users could not be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

impl Fanout {
    /// Pushes an `event`, encoded once. Returns the number of connections here for which it was
    /// queued plus the number of leases on other nodes.
    pub async fn push(&self, mut push: Push) -> Result<usize, PushError> {
        check(&push)?;
        // A user who is listed twice receives the event once.
        let mut named = Set::with_capacity_and_hasher(push.user_ids.len(), Default::default());
        push.user_ids.retain(|user_id| named.insert(user_id.clone()));
        let frame = ServerFrame::Event { name: push.name, data: push.data };
        let frame = Bytes::from(encode_server(&frame, self.clock.wall()));
        let user_ids: Arc<[UserId]> = push.user_ids.into();
        let elsewhere = self.push_elsewhere(&user_ids, &frame).await?;
        Ok(self.sockets.push(&user_ids, &frame).await + elsewhere)
    }

    /// Returns the number of leases on the nodes that the event was sent to. While routes cannot be
    /// read, the event goes to every node and counts none.
    async fn push_elsewhere(
        &self,
        user_ids: &Arc<[UserId]>,
        frame: &Bytes,
    ) -> Result<usize, PushError> {
        let route_all = |node_id| Route { node_id, user_ids: user_ids.to_vec(), connections: 0 };
        let mut routes = match self.routes(user_ids).await {
            Ok(routes) => routes,
            Err(error) => {
                let peers = self.link.peers();
                if peers.is_empty() {
                    return Err(PushError::Directory(error));
                }
                self.metrics.broadcasts.inc();
                peers.into_iter().map(route_all).collect()
            }
        };
        // Any user may be on a node that is cut off from the directory; only known leases count.
        for node_id in self.link.cut_off() {
            match routes.iter_mut().find(|route| route.node_id == node_id) {
                Some(route) => route.user_ids = user_ids.to_vec(),
                None => routes.push(route_all(node_id)),
            }
        }
        let mut elsewhere = 0;
        for Route { node_id, user_ids, connections } in routes {
            let user_ids = user_ids.into();
            let envelope = Envelope::Push { user_ids, frame: frame.clone() };
            match self.link.send(&node_id, envelope).await {
                Ok(()) => elsewhere += connections,
                Err(LinkError::Full | LinkError::Gone) => {
                    warn!(node = %node_id, "push not sent to a node");
                }
            }
        }
        Ok(elsewhere)
    }
}

fn check(push: &Push) -> Result<(), PushError> {
    if !(1..=PUSH_USERS_MAX).contains(&push.user_ids.len()) {
        return Err(PushError::Users);
    }
    if !(1..=EVENT_NAME_BYTES_MAX).contains(&push.name.len()) {
        return Err(PushError::Name);
    }
    if json_length(&push.data) > EVENT_DATA_BYTES_MAX {
        return Err(PushError::Data);
    }
    Ok(())
}

fn json_length(data: &Value) -> usize {
    data.to_string().len()
}
