//! The errors of requests while the store accepts nothing.

use heartline_testing::Response;
use serde_json::json;

use crate::HEARTLINE;
use crate::rest_client::Rest;

/// More than a disk of a test machine has free, so every write is refused.
const FULL_DISK: &str = "[store]\ndisk_reserve = \"1024GiB\"\n";

fn is_unavailable(answer: &Response) {
    let error = answer.refuses(503, "SERVICE_UNAVAILABLE");
    assert_eq!(error["details"]["outcome"], "rejected", "{answer:?}");
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{answer:?}");
    for internal in ["sqlite", "disk", "/", "GiB"] {
        let message = error["message"].as_str().unwrap().to_lowercase();
        assert!(!message.contains(internal), "{answer:?}");
    }
}

#[tokio::test]
async fn changes_are_refused_with_a_pause_and_reads_go_on() {
    let directory = HEARTLINE.scratch();
    let data = format!("[server]\ndata_dir = \"{}\"\n", directory.join("data").display());
    let mut before = Rest::start_with(&data).await;
    let chat = before.group("ana", &["bo"]).await;
    before.user("ana").send(&chat, "m1", "hello").await.is(201);
    before.server.signal("TERM").await;
    assert_eq!(before.server.exit_code().await, Some(0));

    let rest = Rest::start_with(&format!("{data}{FULL_DISK}")).await;
    let ana = rest.user("ana");
    let path = format!("/v1/chats/{chat}");
    is_unavailable(&ana.post("/v1/chats", &json!({ "type": "group", "member_ids": [] })).await);
    is_unavailable(&ana.patch(&path, &json!({ "name": "Other" })).await);
    is_unavailable(&ana.post(&format!("{path}/members"), &json!({ "user_id": "cy" })).await);
    is_unavailable(&ana.delete(&path).await);
    is_unavailable(&ana.patch("/v1/users/me", &json!({ "display_name": "Ana" })).await);
    let setting = json!({ "visibility": "nobody" });
    is_unavailable(&ana.put("/v1/presence/visibility", Some(&setting)).await);
    is_unavailable(&ana.put("/v1/contacts/bo", None).await);
    is_unavailable(&ana.delete("/v1/contacts/bo").await);
    is_unavailable(&rest.service().delete("/v1/users/ana").await);
    // The first requests reach a store that fails, the later ones an open breaker.
    for number in 0..8 {
        is_unavailable(&ana.send(&chat, &format!("n{number}"), "hello").await);
    }
    assert_eq!(ana.get(&path).await.is(200)["head_sequence"], 1);
    let messages = ana.get(&format!("{path}/messages")).await.is(200);
    assert_eq!(messages["items"][0]["content"], "hello");
    ana.get("/v1/users/me").await.is(200);
    ana.get("/v1/contacts").await.is(200);
    ana.get("/v1/presence/visibility").await.is(200);
    drop(rest);
    std::fs::remove_dir_all(directory).unwrap();
}
