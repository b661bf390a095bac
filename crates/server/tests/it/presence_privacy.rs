//! Privacy of presence on every path, and how soon a change of visibility takes effect.

use std::time::Duration;

use heartline_testing::presence::{OPEN, SENTINEL, is_known, is_presence, unknown};
use heartline_testing::{Server, Socket, service_token};
use serde_json::{Value, json};

use crate::HEARTLINE;
use crate::peers::now;

const PATIENT: &str = "[gateway]\nheartbeat_interval = \"60s\"\nheartbeat_timeout = \"120s\"\n";

/// One user who looks at another, who has chosen something and has put each other or not.
struct Case {
    visibility: &'static str,
    /// Whether the observer has put the target as a contact, and the other way round.
    contacts: (bool, bool),
    observer: String,
    target: String,
    sentinel: String,
    chat: String,
}

impl Case {
    async fn prepare(
        server: &Server,
        number: usize,
        visibility: &'static str,
        contacts: (bool, bool),
    ) -> Self {
        let name = |role: &str| format!("{role}-{number}");
        let (observer, target, sentinel) = (name("observer"), name("target"), name("sentinel"));
        server.set_visibility(&target, visibility).await;
        server.set_visibility(&sentinel, "everyone").await;
        if contacts.0 {
            server.add_contact(&observer, &target).await;
        }
        if contacts.1 {
            server.add_contact(&target, &observer).await;
        }
        let chat = server.active_group(&observer, &[&target, &sentinel]).await;
        Self { visibility, contacts, observer, target, sentinel, chat }
    }

    fn is_seen(&self) -> bool {
        match self.visibility {
            "everyone" => true,
            "contacts_only" => self.contacts == (true, true),
            _ => false,
        }
    }

    /// Asserts that a query returns the same presence as the pushed events.
    async fn is_asked(&self, server: &Server, status: &str) {
        let Self { observer, target, .. } = self;
        let [one] = [server.seen(observer, target).await];
        let many = server.all_seen(observer, &[target, "nobody"]).await;
        assert_eq!(many, [one.clone(), unknown("nobody")], "both kinds of query agree");
        if self.is_seen() {
            is_known(&one, target, status);
        } else {
            assert_eq!(one, unknown(target));
        }
    }

    /// The watermark of the target in the chat, as the observer sees it.
    async fn delivery(&self, server: &Server) -> Option<u64> {
        let path = format!("/v1/chats/{}/delivery", self.chat);
        let page = server.rest(&self.observer, "GET", &path, None).await.json();
        let items = page["items"].as_array().unwrap().iter();
        let mut targets = items.filter(|item| item["user_id"] == self.target.as_str());
        targets.next().unwrap()["last_acked_sequence"].as_u64()
    }

    /// Both of the observer's devices must have received this, or nothing if they may not.
    async fn is_heard(
        &self,
        server: &Server,
        devices: [&mut Socket; 2],
        what: impl Fn(&Value) -> bool,
    ) {
        for received in server.frames_until_sentinel_of(devices, &self.sentinel).await {
            let is_right = match received.as_slice() {
                [] => !self.is_seen(),
                [event] => self.is_seen() && what(event),
                _ => false,
            };
            assert!(is_right, "{} {:?}: {received:#?}", self.visibility, self.contacts);
        }
    }

    /// The target comes, types, acknowledges and goes; one device of the observer has subscribed
    /// and the other has not.
    async fn run(self, server: &Server) {
        let Self { observer, target, sentinel, chat, .. } = &self;
        let mut asking = server.connect_device(observer, "asking").await;
        let mut quiet = server.connect_device(observer, "quiet").await;
        let first = asking.subscribe(&[target, sentinel]).await;
        assert_eq!(first, [unknown(target), unknown(sentinel)], "nobody was here yet");
        let mut there = server.connect(target).await;
        let came = |event: &Value| is_presence(event, target, "online");
        self.is_heard(server, [&mut asking, &mut quiet], came).await;
        self.is_asked(server, "online").await;
        let again = asking.subscribe(&[target]).await;
        assert_eq!(again, [server.seen(observer, target).await], "a snapshot says the same");

        there.types(chat).await;
        let typed = |event: &Value| {
            event["type"] == "typing_indicator" && event["user_id"] == target.as_str()
        };
        self.is_heard(server, [&mut asking, &mut quiet], typed).await;

        there.acknowledge(chat, 1).await;
        there.leaves().await;
        let went = |event: &Value| is_presence(event, target, "offline");
        self.is_heard(server, [&mut asking, &mut quiet], went).await;
        self.is_asked(server, "offline").await;
        if self.is_seen() {
            while self.delivery(server).await != Some(1) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        } else {
            assert_eq!(self.delivery(server).await, None);
        }
    }
}

#[tokio::test]
async fn everybody_is_seen_by_those_whom_they_chose_and_by_nobody_else_on_any_path() {
    let server = HEARTLINE.start_with(PATIENT).await;
    let mut cases = Vec::new();
    for visibility in ["everyone", "contacts_only", "nobody"] {
        for contacts in [(true, true), (true, false), (false, true), (false, false)] {
            cases.push(Case::prepare(&server, cases.len(), visibility, contacts).await);
        }
    }
    assert_eq!(cases.iter().filter(|case| case.is_seen()).count(), 5);
    futures_util::future::join_all(cases.into_iter().map(|case| case.run(&server))).await;
}

#[tokio::test]
async fn those_who_hide_still_see_themselves_and_what_others_show() {
    let server = HEARTLINE.start_with(OPEN).await;
    server.set_visibility("bo", "nobody").await;
    let mut phone = server.connect_device("bo", "phone").await;
    let users = phone.subscribe(&["bo", "ana"]).await;
    is_known(&users[0], "bo", "online");
    is_known(&server.seen("bo", "bo").await, "bo", "online");
    let _ana = server.connect("ana").await;
    phone.presence("ana", "online").await;
}

/// The presence events that an observer receives after changes of visibility, and their delays.
struct Told<'a> {
    server: &'a Server,
    ana: Socket,
    events: Vec<Value>,
    took: Vec<Duration>,
}

impl Told<'_> {
    /// The next presence event of ana must be about bo, and equal to the result of a query.
    async fn is(&mut self, status: &str) {
        let changed_at = now();
        self.events.push(self.ana.presence("bo", status).await);
        self.took.push(now() - changed_at);
        let seen = self.server.all_seen("ana", &["bo"]).await;
        assert_eq!(seen, [self.server.seen("ana", "bo").await]);
        assert_eq!(seen[0]["status"], status);
    }

    fn of(&self, status: &str) -> Vec<Value> {
        let mut events = self.events.clone();
        events.retain(|event| event["status"] == status);
        for event in &mut events {
            event.as_object_mut().unwrap().remove("timestamp");
        }
        events
    }
}

#[tokio::test]
async fn a_change_of_mind_shows_within_a_second_on_an_open_socket() {
    let server = HEARTLINE.start_with(PATIENT).await;
    server.set_visibility(SENTINEL, "everyone").await;
    let mut ana = server.connect("ana").await;
    let _bo = server.connect("bo").await;
    assert_eq!(ana.subscribe(&["bo", SENTINEL]).await[0], unknown("bo"));
    server.add_contact("ana", "bo").await;
    server.receives_nothing_else(&mut ana).await;
    let mut told = Told { server: &server, ana, events: Vec::new(), took: Vec::new() };
    server.add_contact("bo", "ana").await;
    told.is("online").await;
    for _ in 0..2 {
        server.set_visibility("bo", "nobody").await;
        told.is("unknown").await;
        server.set_visibility("bo", "everyone").await;
        told.is("online").await;
        server.set_visibility("bo", "contacts_only").await;
        server.receives_nothing_else(&mut told.ana).await;
        // Either of the two can end it.
        for (one, other) in [("bo", "ana"), ("ana", "bo")] {
            server.remove_contact(one, other).await;
            told.is("unknown").await;
            server.add_contact(one, other).await;
            told.is("online").await;
        }
    }
    let unknown = json!({ "type": "presence_changed", "user_id": "bo", "status": "unknown" });
    assert!(told.of("unknown").iter().all(|event| *event == unknown), "every way looks the same");
    let shown = told.of("online");
    assert!(shown.iter().all(|event| *event == shown[0]), "nobody came or left: {shown:?}");
    told.took.sort_unstable();
    let median = told.took[told.took.len() / 2];
    assert!(median < Duration::from_secs(1), "{:?}", told.took);
}

#[tokio::test]
async fn a_change_of_mind_while_offline_shows_when_they_were_last_here_or_not() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut ana = server.connect("ana").await;
    ana.subscribe(&["bo", SENTINEL]).await;
    server.connect("bo").await.leaves().await;
    ana.until_presence("bo", "offline").await;
    server.set_visibility("bo", "nobody").await;
    ana.presence("bo", "unknown").await;
    server.connect("bo").await.leaves().await;
    server.receives_nothing_else(&mut ana).await;
    server.set_visibility("bo", "everyone").await;
    is_known(&ana.presence("bo", "offline").await, "bo", "offline");
}

#[tokio::test]
async fn those_who_were_told_unasked_are_told_of_a_change_of_mind_too() {
    let server = HEARTLINE.start_with(OPEN).await;
    let chat = server.active_group("ana", &["bo", SENTINEL]).await;
    let mut ana = server.connect("ana").await;
    let mut bo = server.connect("bo").await;
    ana.presence("bo", "online").await;
    server.set_visibility("bo", "nobody").await;
    ana.presence("bo", "unknown").await;
    bo.types(&chat).await;
    bo.leaves().await;
    let bo = server.connect("bo").await;
    server.receives_nothing_else(&mut ana).await;
    server.set_visibility("bo", "everyone").await;
    ana.presence("bo", "online").await;
    drop(bo);
}

#[tokio::test]
async fn somebody_who_is_deleted_is_unknown_to_former_contacts() {
    let server = HEARTLINE.start_with(PATIENT).await;
    server.make_contacts("ana", "bo").await;
    let mut ana = server.connect("ana").await;
    let _bo = server.connect("bo").await;
    is_known(&ana.subscribe(&["bo"]).await[0], "bo", "online");
    let answer = server.http("DELETE", "/v1/users/bo", &service_token(), None).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    ana.presence("bo", "unknown").await;
}
