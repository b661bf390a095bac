//! Nodes that do not run every plane.

use heartline_testing::{PATIENCE, bearer, token};
use serde_json::json;

use crate::nodes::Setup;
use crate::recording_socket::RecordingSocket;

#[tokio::test]
async fn a_node_without_the_gateway_plane_stores_and_delivers_and_accepts_no_connections() {
    let setup = Setup::nodes(2).environment(1, &[("HEARTLINE__SERVER__PLANES", "ingest,fanout")]);
    let cluster = setup.start().await;
    let [full, narrowed] = cluster.all();
    let page = full.admin("GET", "/v1/admin/nodes").await;
    let planes: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|item| &item["planes"]).collect();
    assert_eq!(planes, [&json!(["gateway", "ingest", "fanout"]), &json!(["ingest", "fanout"])]);

    // Its REST interface stores a message, and its fanout plane delivers it to the other node.
    let chat = narrowed.create_group("ana", &["bo"]).await;
    let bo = RecordingSocket::of(full.connect("bo").await);
    let body = json!({ "client_message_id": "m1", "content": "over REST" });
    let path = format!("/v1/chats/{chat}/messages");
    narrowed.rest("ana", "POST", &path, Some(&body)).await.is(201);
    bo.receives_message("over REST", PATIENCE).await;
    narrowed.push(&["bo"], "greeting", json!({ "text": "hello" })).await;
    bo.receives("the push", PATIENCE, |frame| frame["name"] == "greeting").await;

    // Connections and party sessions are the gateway's.
    let bearer = bearer("bo");
    let (_, body) = narrowed.refused(&[("Authorization", bearer.as_str())], 404, "NOT_FOUND").await;
    assert!(body["error"]["message"].as_str().unwrap().contains("gateway plane"), "{body}");
    for path in ["/graphql", "/health", "/join/a-session"] {
        let refused =
            narrowed.http("GET", path, &token("bo"), None).await.refuses(404, "NOT_FOUND");
        assert!(
            refused["message"].as_str().unwrap().contains("gateway plane"),
            "{path}: {refused}"
        );
    }
    assert_eq!(narrowed.readiness().await.0, 200);
}

#[tokio::test]
async fn a_node_without_the_gateway_plane_drains_and_exits_cleanly() {
    let setup = Setup::nodes(2).environment(1, &[("HEARTLINE__SERVER__PLANES", "ingest,fanout")]);
    let mut cluster = setup.start().await;
    let chat = cluster.node(1).create_group("ana", &["bo"]).await;
    let narrowed = cluster.node(1);
    narrowed.signal("TERM").await;
    assert_eq!(narrowed.exit_code().await, Some(0));
    assert!(cluster.node(0).history("ana", &chat).await.is_empty());
}
