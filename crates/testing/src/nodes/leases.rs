//! Connections as the directory knows them.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{PATIENCE, Server, service_token};

impl Server {
    /// A user's live connections, as an operator sees them.
    pub async fn leases(&self, user: &str) -> Vec<Value> {
        let path = format!("/v1/admin/users/{user}/connections");
        let answer = self.http("GET", &path, &service_token(), None).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["items"].as_array().unwrap().clone()
    }

    /// Waits until a user has this many live connections.
    pub async fn leases_become(&self, user: &str, count: usize) {
        let wait = async {
            while self.leases(user).await.len() != count {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("the leases change");
    }
}
