//! People over REST: what they show, and how they are forgotten.

use serde_json::{Value, json};

use crate::rest_client::Rest;

#[tokio::test]
async fn a_user_says_what_they_want_to_be_called() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    assert_eq!(ana.get("/v1/users/me").await.is(200), json!({ "user_id": "ana" }));
    let named = json!({ "user_id": "ana", "display_name": "Ana María" });
    let update = json!({ "display_name": "Ana María" });
    assert_eq!(ana.patch("/v1/users/me", &update).await.is(200), named);
    assert_eq!(rest.user("bo").get("/v1/users/ana").await.is(200), named);
    let none = json!({ "display_name": null });
    assert_eq!(ana.patch("/v1/users/me", &none).await.is(200), json!({ "user_id": "ana" }));
}

#[tokio::test]
async fn one_who_never_came_looks_like_one_who_said_nothing() {
    let rest = Rest::start().await;
    rest.server.connect("bo").await;
    let bo = rest.user("ana").get("/v1/users/bo").await;
    let nobody = rest.user("ana").get("/v1/users/no").await;
    assert_eq!(bo.body.replace("bo", "no"), nobody.body);
    assert_eq!(bo.status, nobody.status);
}

#[tokio::test]
async fn a_deleted_person_is_forgotten_and_the_numbers_stay() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    ana.patch("/v1/users/me", &json!({ "display_name": "Ana" })).await.is(200);
    let owned = rest.group("ana", &["bo", "cy"]).await;
    let joined = rest.group("bo", &["ana"]).await;
    let alone = rest.group("ana", &[]).await;
    ana.send(&owned, "m1", "a secret").await.is(201);
    rest.user("bo").send(&owned, "m1", "not a secret").await.is(201);
    ana.delete("/v1/users/ana").await.refuses(403, "FORBIDDEN");

    let mut bo = rest.server.connect("bo").await;
    assert_eq!(rest.service().delete("/v1/users/ana").await.is(204), Value::Null);
    let mut told = Vec::new();
    for _ in 0..2 {
        let frame = bo.json_of("chat_changed").await;
        assert_eq!(frame["change"], "member_removed");
        let members = frame["chat"]["members"].as_array().unwrap();
        assert!(members.iter().all(|member| member["user_id"] != "ana"), "{frame}");
        told.push(frame["chat_id"].as_str().unwrap().to_owned());
    }
    told.sort_unstable();
    let mut expected = vec![owned.clone(), joined];
    expected.sort_unstable();
    assert_eq!(told, expected);

    assert_eq!(ana.get("/v1/users/me").await.is(200), json!({ "user_id": "ana" }));
    assert_eq!(ana.get("/v1/chats").await.is(200)["items"], json!([]));
    rest.service().get(&format!("/v1/chats/{alone}")).await.refuses(403, "NOT_A_MEMBER");
    let chat = rest.user("bo").get(&format!("/v1/chats/{owned}")).await.is(200);
    let owners = chat["members"].as_array().unwrap().iter();
    assert_eq!(owners.filter(|member| member["role"] == "owner").count(), 1);
    let path = format!("/v1/chats/{owned}/messages");
    let page = rest.user("bo").until(&path, |page| page["items"][0]["deleted"] == true).await;
    assert_eq!(
        (&page["items"][0]["sequence"], &page["items"][0]["content"]),
        (&json!(1), &json!(""))
    );
    assert_eq!(page["items"][1]["content"], "not a secret");
    rest.service().delete("/v1/users/ana").await.is(204);
}
