//! The same request many times concurrently, and requests whose sender does not wait.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use heartline_testing::token;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::rest_client::Rest;

const ATTEMPTS: usize = 20;

fn only_one_is_new(answers: &[(u16, Value)]) {
    let count = |wanted: u16| answers.iter().filter(|(status, _)| *status == wanted).count();
    assert_eq!((count(201), count(200)), (1, ATTEMPTS - 1), "{answers:?}");
    let ids: BTreeSet<_> = answers.iter().map(|(_, id)| id.to_string()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

#[tokio::test]
async fn of_many_equal_requests_at_once_one_does_the_work() {
    let rest = Rest::start_with("[limits]\nsend_rate = 1000\nsend_burst = 1000\n").await;
    let ana = rest.user("ana");
    let group = json!({ "type": "group", "name": "Friends", "member_ids": ["bo"] });
    let made = (0..ATTEMPTS).map(|_| ana.post_once("/v1/chats", "key", &group));
    let made: Vec<_> = join_all(made).await;
    let made: Vec<_> = made.iter().map(|one| (one.status, one.json()["chat_id"].clone())).collect();
    only_one_is_new(&made);

    let direct = json!({ "type": "direct", "member_ids": ["bo"] });
    let made = (0..ATTEMPTS).map(|_| ana.post("/v1/chats", &direct));
    let made: Vec<_> = join_all(made).await;
    let made: Vec<_> = made.iter().map(|one| (one.status, one.json()["chat_id"].clone())).collect();
    only_one_is_new(&made);

    let chat = made[0].1.as_str().unwrap();
    let sent: Vec<_> = join_all((0..ATTEMPTS).map(|_| ana.send(chat, "m1", "hello"))).await;
    let sent: Vec<_> =
        sent.iter().map(|one| (one.status, one.json()["message_id"].clone())).collect();
    only_one_is_new(&sent);
}

#[tokio::test]
async fn a_change_whose_requester_hangs_up_is_not_made_or_everybody_hears_of_it() {
    let rest = Rest::start().await;
    let mut bo = rest.server.connect("bo").await;
    let body = json!({ "type": "group", "member_ids": ["bo"] }).to_string();
    let request = format!(
        "POST /v1/chats HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        token("ana"),
        body.len()
    );
    for _ in 0..ATTEMPTS {
        let mut socket = TcpStream::connect(rest.server.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
    }
    rest.group("ana", &["bo"]).await;
    let page = rest.user("bo").get("/v1/chats").await.is(200);
    let items = page["items"].as_array().unwrap().iter();
    let mut unheard: BTreeSet<_> = items.map(|item| item["chat_id"].to_string()).collect();
    assert!(!unheard.is_empty());
    while !unheard.is_empty() {
        let frame = bo.json_of("chat_changed").await;
        assert_eq!(frame["change"], "created");
        unheard.remove(&frame["chat_id"].to_string());
    }
}
