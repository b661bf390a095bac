//! A hidden user is indistinguishable, byte for byte, from a user that does not exist.

use std::time::Duration;

use heartline_client::raw::OPCODE_TEXT;
use heartline_testing::presence::SENTINEL;
use heartline_testing::{Response, Server, Socket};
use serde_json::{Value, json};

use crate::HEARTLINE;

/// Everything that an observer got, as text in which the person's id and all times are replaced.
struct Trace {
    about: &'static str,
    entries: Vec<String>,
}

impl Trace {
    fn note(&mut self, what: &str, text: &str) {
        let text = text.replace(self.about, "SOMEBODY");
        self.entries.push(format!("{what}: {}", without_times(&text)));
    }

    /// A whole answer, with its head.
    fn answer(&mut self, what: &str, answer: &Response) {
        let head = answer.head.lines().filter(|line| !line.starts_with("date:"));
        let head = head.collect::<Vec<_>>().join("|");
        self.note(what, &format!("{head} {}", answer.body));
    }
}

/// A text with every time replaced.
fn without_times(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(end) = rest.find("Z\"") {
        // Such as 2023-11-14T22:13:20.000Z.
        let is_time = |time: &&str| time.as_bytes()[4] == b'-' && time.as_bytes()[10] == b'T';
        let start = end.checked_sub(23);
        let time = start.and_then(|start| rest.get(start..end)).filter(is_time);
        result.push_str(&rest[..end - time.map_or(0, str::len)]);
        result.push_str(if time.is_some() { "TIME" } else { "Z" });
        rest = &rest[end + 1..];
    }
    result + rest
}

/// An observer and its connection.
struct Observer<'a> {
    server: &'a Server,
    socket: Socket,
    chat: &'a str,
    trace: Trace,
}

impl Observer<'_> {
    /// Everything that came until the sentinel was seen to come and go, but for the sentinel.
    async fn listen(&mut self, stage: &str) {
        let sentinel = self.server.connect(SENTINEL).await;
        self.until_sentinel(stage, "online").await;
        sentinel.leaves().await;
        self.until_sentinel(stage, "offline").await;
    }

    async fn until_sentinel(&mut self, stage: &str, status: &str) {
        loop {
            let frame = self.socket.frame().await;
            assert_eq!(frame.opcode, OPCODE_TEXT);
            let text = String::from_utf8(frame.payload.to_vec()).unwrap();
            let json: Value = serde_json::from_str(&text).unwrap();
            if json["user_id"] != SENTINEL {
                self.trace.note(&format!("{stage} push"), &text);
            } else if json["status"] == status {
                return;
            }
        }
    }

    /// Asks in every way that there is.
    async fn ask(&mut self, stage: &str) {
        let about = self.trace.about;
        let frame = json!({
            "type": "presence_subscribe", "request_id": "ask", "user_ids": [about, "nobody"]
        });
        self.socket.send(&frame).await;
        let snapshot = self.socket.frame().await;
        let snapshot = String::from_utf8(snapshot.payload.to_vec()).unwrap();
        self.trace.note(&format!("{stage} snapshot"), &snapshot);
        let query = json!({ "user_ids": [about, "nobody"] });
        let delivery = format!("/v1/chats/{}/delivery", self.chat);
        let chat = format!("/v1/chats/{}", self.chat);
        let (presence, user) = (format!("/v1/presence/{about}"), format!("/v1/users/{about}"));
        for (method, path, body) in [
            ("GET", presence.as_str(), None),
            ("POST", "/v1/presence/query", Some(&query)),
            ("GET", delivery.as_str(), None),
            ("GET", user.as_str(), None),
            ("GET", chat.as_str(), None),
        ] {
            let answer = self.server.rest("ana", method, path, body).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            self.trace.answer(&format!("{stage} {method}"), &answer);
        }
    }
}

/// Waits until it is stored that a user has received the first message of a chat.
async fn has_acknowledged(server: &Server, user: &str, chat: &str) {
    let own = json!({ "user_id": user, "last_acked_sequence": 1 });
    let path = format!("/v1/chats/{chat}/delivery");
    let is_stored = async |()| {
        let page = server.rest(user, "GET", &path, None).await.json();
        page["items"].as_array().unwrap().contains(&own)
    };
    while !is_stored(()).await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Everything that ana receives about a member of a shared active chat, who connects, types,
/// acknowledges and disconnects, or does nothing at all.
async fn trace_of(server: &Server, about: &'static str, is_real: bool) -> Vec<String> {
    let chat = server.active_group("ana", &[about, SENTINEL]).await;
    let socket = server.connect("ana").await;
    let trace = Trace { about, entries: Vec::new() };
    let mut ana = Observer { server, socket, chat: &chat, trace };
    // The events that she receives before any request.
    if is_real {
        server.connect(about).await.leaves().await;
    }
    ana.listen("unasked").await;
    ana.ask("away").await;
    let mut there = None;
    if is_real {
        there = Some(server.connect(about).await);
    }
    ana.listen("came").await;
    ana.ask("here").await;
    if let Some(there) = &mut there {
        there.types(&chat).await;
        there.acknowledge(&chat, 1).await;
        has_acknowledged(server, about, &chat).await;
    }
    ana.listen("typed").await;
    ana.ask("acked").await;
    if let Some(there) = there {
        there.leaves().await;
    }
    ana.listen("left").await;
    ana.ask("gone").await;
    ana.socket.leaves().await;
    ana.socket = server.connect("ana").await;
    ana.ask("anew").await;
    let normal = |entry: String| entry.replace(&chat, "CHAT");
    ana.trace.entries.into_iter().map(normal).collect()
}

/// Both traces must be the same; the first difference is shown.
fn are_alike(one: &[String], other: &[String]) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other);
    }
    assert_eq!(one.len(), other.len(), "{one:#?} {other:#?}");
}

fn config(default_visibility: &str) -> String {
    format!(
        "[presence]\ndefault_visibility = \"{default_visibility}\"\n\
         [gateway]\nheartbeat_interval = \"60s\"\nheartbeat_timeout = \"120s\"\n"
    )
}

async fn start(default_visibility: &str) -> Server {
    let server = HEARTLINE.start_with(&config(default_visibility)).await;
    server.set_visibility(SENTINEL, "everyone").await;
    server
}

#[tokio::test]
async fn who_hides_from_contacts_is_like_one_who_never_came() {
    let server = start("contacts_only").await;
    server.make_contacts("ana", "hidden").await;
    server.set_visibility("hidden", "nobody").await;
    server.add_contact("ana", "absent").await;
    let absent = trace_of(&server, "absent", false).await;
    are_alike(&trace_of(&server, "hidden", true).await, &absent);
}

#[tokio::test]
async fn a_stranger_is_like_one_who_never_came_whoever_of_the_two_wants_to_be_a_contact() {
    let server = start("contacts_only").await;
    let absent = trace_of(&server, "absent", false).await;
    are_alike(&trace_of(&server, "normal", true).await, &absent);
    server.add_contact("wanted", "ana").await;
    are_alike(&trace_of(&server, "wanted", true).await, &absent);
    server.add_contact("ana", "wants1").await;
    are_alike(&trace_of(&server, "wants1", true).await, &absent);
}

#[tokio::test]
async fn the_trace_would_show_somebody_who_does_not_hide() {
    let server = start("contacts_only").await;
    let absent = trace_of(&server, "absent", false).await;
    server.make_contacts("ana", "friend").await;
    let friend = trace_of(&server, "friend", true).await;
    for (stage, difference) in [
        ("unasked push", "offline"),
        ("away snapshot", "offline"),
        ("came push", "online"),
        ("here snapshot", "online"),
        ("here GET", "online"),
        ("here POST", "online"),
        ("typed push", "typing_indicator"),
        ("left push", "offline"),
        ("gone GET", "\"last_acked_sequence\":1"),
    ] {
        let is_it = |entry: &&String| entry.starts_with(stage) && entry.contains(difference);
        assert!(friend.iter().any(|entry| is_it(&entry)), "{stage} {difference}: {friend:#?}");
        let about = absent.iter().filter(is_it).filter(|entry| !entry.contains("\"ana\""));
        assert_eq!(about.count(), 0, "{stage} {difference}: {absent:#?}");
    }
}

#[tokio::test]
async fn who_hides_where_everybody_is_shown_is_like_one_who_never_came() {
    let server = start("everyone").await;
    server.set_visibility("hidden", "nobody").await;
    let absent = trace_of(&server, "absent", false).await;
    let hidden = trace_of(&server, "hidden", true).await;
    are_alike(&hidden, &absent);
}
