//! The lifetime of leases and connections.

use std::time::Duration;

use heartline_testing::bearer;
use serde_json::json;

use crate::HEARTLINE;
use crate::peers::{Attentive, Device, Received, now};

const ACTIVE: &str = "gateway_connections_active";

/// Connections live for so long, with a tenth of jitter.
pub(crate) fn aging(max_connection_age: &str) -> String {
    format!(
        "[gateway]\nheartbeat_interval = \"300ms\"\nheartbeat_timeout = \"900ms\"\n\
         max_connection_age = \"{max_connection_age}\"\n"
    )
}

#[tokio::test]
async fn a_connection_that_is_old_enough_is_asked_to_come_again() {
    let server = HEARTLINE.start_with(&aging("2s")).await;
    let connected_at = now();
    let received = Attentive::new(server.connect("ana").await).ended().await;
    let age = now() - connected_at;
    assert!(age > Duration::from_millis(1850), "{age:?}");
    assert!(age < Duration::from_secs(5), "{age:?}");
    let [Received::Other(closing), close] = &received[..] else { panic!("{received:?}") };
    assert_eq!(closing["type"], "connection_closing");
    assert_eq!(closing["reason"], "max_age");
    assert_eq!(closing["reconnect_allowed"], true);
    assert_eq!(*close, Received::Close(1001, "max_age".to_owned()));
    server.leases_become("ana", 0).await;
}

#[tokio::test]
async fn a_client_comes_back_by_itself_after_its_connection_was_old_enough() {
    let server = HEARTLINE.start_with(&aging("1s")).await;
    let mut device = Device::start("ana", &[server.address]);
    let first = device.connected().await;
    let second = device.connected().await;
    assert_ne!(first.connection_id, second.connection_id);
    assert_eq!(first.server_id, second.server_id);
}

#[tokio::test]
async fn both_devices_of_a_user_get_a_push_and_only_the_same_device_is_replaced() {
    let server = HEARTLINE.start().await;
    let authorization = bearer("ana");
    let headers = |device| [("Authorization", authorization.as_str()), ("X-Device-ID", device)];
    let (mut phone, _) = server.connect_with(&headers("phone")).await;
    let (mut laptop, _) = server.connect_with(&headers("laptop")).await;
    assert_eq!(server.push(&["ana"], "first", json!(1)).await, 2);
    assert_eq!(phone.json_of("event").await["name"], "first");
    assert_eq!(laptop.json_of("event").await["name"], "first");
    let (mut new_phone, _) = server.connect_with(&headers("phone")).await;
    phone.closes("session_replaced", 4409).await;
    drop(phone);
    server.metric_becomes(ACTIVE, 2.0).await;
    assert_eq!(server.push(&["ana"], "second", json!(2)).await, 2);
    assert_eq!(new_phone.json_of("event").await["name"], "second");
    assert_eq!(laptop.json_of("event").await["name"], "second");
    let leases = server.leases("ana").await;
    let mut devices: Vec<_> = leases.iter().map(|lease| &lease["device_id"]).collect();
    devices.sort_by_key(|device| device.to_string());
    assert_eq!(devices, ["laptop", "phone"]);
}

#[tokio::test]
async fn a_lease_outlives_its_length_while_its_connection_stands_and_ends_with_it() {
    let routing =
        "[routing]\nlease = \"1s\"\nrenew_interval = \"300ms\"\nsweep_interval = \"100ms\"";
    let server = HEARTLINE.start_with(routing).await;
    let mut device = Attentive::new(server.connect("ana").await);
    // Several lengths of the lease.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(device.is_open());
    assert_eq!(server.leases("ana").await.len(), 1);
    assert_eq!(server.push(&["ana"], "hello", json!({ "number": 1 })).await, 1);
    device.has(1).await;
    drop(device);
    server.leases_become("ana", 0).await;
    assert_eq!(server.push(&["ana"], "hello", json!({ "number": 2 })).await, 0);
}
