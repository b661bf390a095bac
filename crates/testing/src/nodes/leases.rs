//! The leases of users, through the admin API.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{PATIENCE, Server, service_token};

impl Server {
    /// A user's live connections, from the admin API.
    pub async fn leases(&self, user: &str) -> Vec<Value> {
        let path = format!("/v1/admin/users/{user}/connections");
        let response = self.http("GET", &path, &service_token(), None).await;
        assert_eq!(response.status, 200, "{}", response.body);
        response.json()["items"].as_array().unwrap().clone()
    }

    /// Waits until a user has this many live connections.
    pub async fn leases_become(&self, user: &str, count: usize) {
        let wait = async {
            while self.leases(user).await.len() != count {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("the number of leases changes in time");
    }
}
