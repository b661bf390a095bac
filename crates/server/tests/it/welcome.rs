//! The first minute of a new user.

use serde_json::json;

use crate::HEARTLINE;

#[tokio::test]
async fn a_device_connects_hears_a_push_and_is_listed() {
    let server = HEARTLINE.start().await;
    let mut ana = server.connect("ana").await;
    assert_eq!(server.push(&["ana", "nobody"], "hello", json!({ "n": 1 })).await, 1);
    let event = ana.json_of("event").await;
    assert_eq!(event["name"], "hello");
    assert_eq!(event["data"], json!({ "n": 1 }));
    ana.send(&json!({ "type": "heartbeat" })).await;
    assert!(ana.json_of("heartbeat_ack").await["server_time"].is_string());
}
