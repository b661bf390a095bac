//! The permissions of roles in a chat, and the events about its members.

use heartline_testing::{Response, Socket};
use serde_json::{Value, json};

use crate::rest_client::Rest;

/// A group with one of each: ana owns it, adam and tess are admins, mel and tom plain members.
async fn society(rest: &Rest) -> String {
    let chat = rest.group("ana", &["adam", "tess", "mel", "tom"]).await;
    for admin in ["adam", "tess"] {
        let path = format!("/v1/chats/{chat}/members/{admin}");
        rest.user("ana").patch(&path, &json!({ "role": "admin" })).await.is(200);
    }
    chat
}

async fn act(rest: &Rest, who: &str, action: &str) -> Response {
    let chat = format!("/v1/chats/{}", society(rest).await);
    let caller = if who == "service" { rest.service() } else { rest.user(who) };
    let members = format!("{chat}/members");
    match action {
        "rename" => caller.patch(&chat, &json!({ "name": "Other" })).await,
        "add a member" => caller.post(&members, &json!({ "user_id": "new" })).await,
        "add an admin" => {
            caller.post(&members, &json!({ "user_id": "new", "role": "admin" })).await
        }
        "promote" => caller.patch(&format!("{members}/tom"), &json!({ "role": "admin" })).await,
        "demote" => caller.patch(&format!("{members}/tess"), &json!({ "role": "member" })).await,
        "remove a member" => caller.delete(&format!("{members}/tom")).await,
        "remove an admin" => caller.delete(&format!("{members}/tess")).await,
        "remove the owner" => caller.delete(&format!("{members}/ana")).await,
        "delete" => caller.delete(&chat).await,
        other => panic!("no such action: {other}"),
    }
}

#[tokio::test]
async fn each_role_may_do_what_the_table_says() {
    let rest = Rest::start().await;
    let who = ["ana", "adam", "mel", "stranger", "service"];
    for (action, statuses) in [
        ("rename", [200, 200, 403, 403, 200]),
        ("add a member", [201, 201, 403, 403, 201]),
        ("add an admin", [201, 403, 403, 403, 201]),
        ("promote", [200, 403, 403, 403, 200]),
        ("demote", [200, 403, 403, 403, 200]),
        ("remove a member", [204, 204, 403, 403, 204]),
        ("remove an admin", [204, 403, 403, 403, 204]),
        ("remove the owner", [409, 403, 403, 403, 409]),
        ("delete", [204, 403, 403, 403, 204]),
    ] {
        for (who, status) in who.into_iter().zip(statuses) {
            let answer = act(&rest, who, action).await;
            assert_eq!(answer.status, status, "{who} {action}: {answer:?}");
            if status == 403 {
                let code = if who == "stranger" { "NOT_A_MEMBER" } else { "FORBIDDEN" };
                answer.refuses(403, code);
            }
        }
    }
}

#[tokio::test]
async fn an_owner_leaves_only_after_making_another_one_owner() {
    let rest = Rest::start().await;
    let chat = format!("/v1/chats/{}", rest.group("ana", &["bo", "cy"]).await);
    let leave = format!("{chat}/leave");
    let error = rest.user("ana").post(&leave, &Value::Null).await.refuses(409, "CONFLICT");
    assert_eq!(error["details"]["reason"], "owner_must_stay");
    let owner = json!({ "role": "owner" });
    let made = rest.user("ana").patch(&format!("{chat}/members/bo"), &owner).await.is(200);
    assert_eq!(made, json!({ "user_id": "bo", "role": "owner" }));
    let members = rest.user("bo").get(&chat).await.is(200)["members"].clone();
    let ana = members.as_array().unwrap().iter().find(|member| member["user_id"] == "ana");
    assert_eq!(ana.unwrap()["role"], "admin");
    rest.user("ana").post(&leave, &Value::Null).await.is(204);
    rest.user("ana").get(&chat).await.refuses(403, "NOT_A_MEMBER");
    rest.user("cy").post(&leave, &Value::Null).await.is(204);
    assert_eq!(rest.user("bo").get(&chat).await.is(200)["members"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_member_is_added_once_and_missed_when_absent() {
    let rest = Rest::start().await;
    let chat = format!("/v1/chats/{}", rest.group("ana", &[]).await);
    let members = format!("{chat}/members");
    let ana = rest.user("ana");
    let bo = json!({ "user_id": "bo" });
    let member = json!({ "user_id": "bo", "role": "member" });
    assert_eq!(ana.post_once(&members, "add", &bo).await.is(201), member);
    assert_eq!(ana.post(&members, &bo).await.is(200), member);
    let admin = json!({ "user_id": "bo", "role": "admin" });
    let error = ana.post(&members, &admin).await.refuses(409, "CONFLICT");
    assert_eq!(error["details"]["reason"], "already_member");
    let error = ana.post_once(&members, "add", &admin).await.refuses(409, "CONFLICT");
    assert_eq!(error["details"]["reason"], "idempotency_key_reused");
    ana.delete(&format!("{members}/bo")).await.is(204);
    // The same idempotency key returns the first result and does not add the member again.
    assert_eq!(ana.post_once(&members, "add", &bo).await.is(200), member);
    rest.user("bo").get(&chat).await.refuses(403, "NOT_A_MEMBER");
    ana.delete(&format!("{members}/bo")).await.refuses(404, "NOT_FOUND");
    let role = json!({ "role": "admin" });
    ana.patch(&format!("{members}/bo"), &role).await.refuses(404, "NOT_FOUND");
}

async fn receives(socket: &mut Socket, change: &str) -> Value {
    let frame = socket.json_of("chat_changed").await;
    assert_eq!(frame["change"], change, "{frame}");
    frame
}

#[tokio::test]
async fn everybody_concerned_hears_of_every_change() {
    let rest = Rest::start().await;
    let (mut ana, mut bo) = (rest.server.connect("ana").await, rest.server.connect("bo").await);
    let owner = rest.user("ana");
    let id = rest.group("ana", &["bo"]).await;
    let chat = format!("/v1/chats/{id}");
    for socket in [&mut ana, &mut bo] {
        let frame = receives(socket, "created").await;
        assert_eq!((&frame["chat_id"], &frame["chat"]["chat_id"]), (&json!(id), &json!(id)));
    }
    owner.patch(&chat, &json!({ "name": "Other" })).await.is(200);
    assert_eq!(receives(&mut bo, "renamed").await["chat"]["name"], "Other");
    receives(&mut ana, "renamed").await;

    let mut cy = rest.server.connect("cy").await;
    owner.post(&format!("{chat}/members"), &json!({ "user_id": "cy" })).await.is(201);
    for socket in [&mut ana, &mut bo, &mut cy] {
        let frame = receives(socket, "member_added").await;
        assert_eq!(frame["chat"]["members"].as_array().unwrap().len(), 3);
    }
    owner.patch(&format!("{chat}/members/cy"), &json!({ "role": "admin" })).await.is(200);
    for socket in [&mut ana, &mut bo, &mut cy] {
        receives(socket, "role_changed").await;
    }
    // A request without effect is not announced: the next event is the removal.
    owner.patch(&chat, &json!({ "name": "Other" })).await.is(200);
    owner.delete(&format!("{chat}/members/cy")).await.is(204);
    let gone = receives(&mut cy, "member_removed").await;
    assert_eq!((&gone["chat_id"], gone.get("chat")), (&json!(id), None));
    for socket in [&mut ana, &mut bo] {
        let frame = receives(socket, "member_removed").await;
        assert_eq!(frame["chat"]["members"].as_array().unwrap().len(), 2);
    }
    owner.delete(&chat).await.is(204);
    for socket in [&mut ana, &mut bo] {
        assert_eq!(receives(socket, "member_removed").await.get("chat"), None);
    }
}
