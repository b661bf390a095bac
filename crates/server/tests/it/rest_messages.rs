//! Messages over REST: sent without a socket, received on sockets, read page by page.

use serde_json::{Value, json};

use crate::rest_client::Rest;

fn sequences(page: &Value) -> Vec<u64> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["sequence"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn what_is_sent_over_rest_is_stored_once_and_heard_on_sockets() {
    let rest = Rest::start().await;
    let chat = rest.group("ana", &["bo"]).await;
    let (mut ana, mut bo) = (rest.server.connect("ana").await, rest.server.connect("bo").await);
    let sent = rest.user("ana").send(&chat, "m1", "hello").await.is(201);
    assert_eq!((&sent["sequence"], &sent["duplicate"]), (&json!(1), &json!(false)));
    assert_eq!((&sent["sender_id"], &sent["content_type"]), (&json!("ana"), &json!("text/plain")));
    // All devices receive the message, because it was not sent over a connection.
    for socket in [&mut ana, &mut bo] {
        let received = socket.json_of("message").await;
        for field in ["message_id", "sequence", "content", "sender_id", "created_at"] {
            assert_eq!(received[field], sent[field], "{received}");
        }
    }
    let again = rest.user("ana").send(&chat, "m1", "hello").await.is(200);
    assert_eq!((&again["message_id"], &again["duplicate"]), (&sent["message_id"], &json!(true)));
    rest.user("ana").send(&chat, "m1", "other").await.refuses(409, "CONFLICT");
    let of_bo = rest.user("bo").send(&chat, "m1", "mine").await.is(201);
    assert_eq!(of_bo["sequence"], 2);
    assert_eq!(ana.json_of("message").await["sequence"], 2);

    let body = json!({ "client_message_id": "m2", "content": "{}", "content_type": "app/json" });
    let path = format!("/v1/chats/{chat}/messages");
    let typed = rest.user("ana").post(&path, &body).await.is(201);
    assert_eq!(typed["content_type"], "app/json");
}

#[tokio::test]
async fn only_a_service_sends_for_others_and_only_for_members() {
    let rest = Rest::start().await;
    let chat = rest.group("ana", &["bo"]).await;
    let path = format!("/v1/chats/{chat}/messages");
    let of = |sender: &str| json!({ "client_message_id": "m1", "content": "hello", "sender_id": sender });
    let error = rest.user("ana").post(&path, &of("bo")).await.refuses(403, "FORBIDDEN");
    assert_eq!(error["details"]["field"], "sender_id");
    let sent = rest.service().post(&path, &of("bo")).await.is(201);
    assert_eq!(sent["sender_id"], "bo");
    rest.service().post(&path, &of("stranger")).await.refuses(403, "NOT_A_MEMBER");
    rest.service().send(&chat, "m2", "as itself").await.refuses(403, "NOT_A_MEMBER");
}

#[tokio::test]
async fn pages_ascend_in_both_directions_and_meet_all_messages() {
    let rest = Rest::start().await;
    let chat = rest.group("ana", &["bo"]).await;
    for number in 1..=12 {
        let body = json!({
            "client_message_id": format!("m{number}"), "content": "x", "sender_id": "ana"
        });
        rest.service().post(&format!("/v1/chats/{chat}/messages"), &body).await.is(201);
    }
    let bo = rest.user("bo");
    let path = format!("/v1/chats/{chat}/messages");
    let get = async |query: &str| bo.get(&format!("{path}?{query}")).await.is(200);
    let all: Vec<u64> = (1..=12).collect();
    assert_eq!(sequences(&get("").await), all);
    assert_eq!(sequences(&get("after_sequence=0").await), all);
    assert_eq!(sequences(&get("limit=3").await), [10, 11, 12]);
    assert_eq!(sequences(&get("before_sequence=5&limit=3").await), [2, 3, 4]);
    assert_eq!(sequences(&get("after_sequence=5&limit=3").await), [6, 7, 8]);
    assert_eq!(sequences(&get("before_sequence=1").await), [0; 0]);
    assert_eq!(sequences(&get("before_sequence=0").await), [0; 0]);
    assert_eq!(sequences(&get("after_sequence=12").await), [0; 0]);
    let end = u64::MAX;
    assert_eq!(sequences(&get(&format!("after_sequence={end}")).await), [0; 0]);
    assert_eq!(sequences(&get(&format!("before_sequence={end}&limit=1")).await), [12]);

    for start in ["after_sequence=0&limit=5", "limit=5"] {
        let mut page = get(start).await;
        let mut found = sequences(&page);
        while let Some(cursor) = page["next_cursor"].as_str() {
            page = get(&format!("limit=5&cursor={cursor}")).await;
            found.extend(sequences(&page));
        }
        found.sort_unstable();
        assert_eq!(found, all, "{start}");
    }
}

#[tokio::test]
async fn a_new_member_reads_everything_and_a_removed_one_nothing() {
    let rest = Rest::start().await;
    let chat = rest.group("ana", &["bo"]).await;
    rest.user("ana").send(&chat, "m1", "before cy").await.is(201);
    let members = format!("/v1/chats/{chat}/members");
    rest.user("ana").post(&members, &json!({ "user_id": "cy" })).await.is(201);
    let path = format!("/v1/chats/{chat}/messages");
    assert_eq!(sequences(&rest.user("cy").get(&path).await.is(200)), [1]);
    rest.user("ana").delete(&format!("{members}/bo")).await.is(204);
    rest.user("bo").get(&path).await.refuses(403, "NOT_A_MEMBER");
    rest.user("bo").send(&chat, "m1", "hello").await.refuses(403, "NOT_A_MEMBER");
}

#[tokio::test]
async fn delivery_shows_how_far_each_member_has_received() {
    let rest = Rest::start_with("[presence]\ndefault_visibility = \"everyone\"\n").await;
    let chat = rest.group("ana", &["bo"]).await;
    for number in 1..=3 {
        rest.user("ana").send(&chat, &format!("m{number}"), "hello").await.is(201);
    }
    let path = format!("/v1/chats/{chat}/delivery");
    let first = rest.user("ana").get(&path).await.is(200);
    let of = |page: &Value, user: &str| {
        let items = page["items"].as_array().unwrap();
        let item = items.iter().find(|item| item["user_id"] == user).unwrap();
        item["last_acked_sequence"].as_u64()
    };
    assert_eq!((of(&first, "ana"), of(&first, "bo")), (Some(0), None));
    let mut bo = rest.server.connect("bo").await;
    bo.send(&json!({ "type": "ack", "chat_id": chat, "last_acked_sequence": 2 })).await;
    bo.is_open().await;
    rest.user("ana").until(&path, |page| of(page, "bo") == Some(2)).await;
    // The own list shows it too.
    let list = rest.user("bo").get("/v1/chats").await.is(200);
    assert_eq!(list["items"][0]["last_acked_sequence"], 2);
}

#[tokio::test]
async fn a_user_who_sends_too_fast_is_told_when_to_go_on() {
    let rest = Rest::start_with("[limits]\nsend_rate = 1\nsend_burst = 3\n").await;
    let chat = rest.group("ana", &["bo"]).await;
    for number in 1..=3 {
        rest.user("ana").send(&chat, &format!("m{number}"), "hello").await.is(201);
    }
    let refused = rest.user("ana").send(&chat, "m4", "hello").await;
    refused.refuses(429, "RATE_LIMITED");
    assert_eq!(refused.header("retry-after"), Some("1"));
    rest.user("bo").send(&chat, "m1", "nobody pays for another").await.is(201);
}
