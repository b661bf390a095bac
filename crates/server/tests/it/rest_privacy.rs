//! Privacy over REST: contacts, who may see whom, and how far others have received.

use heartline_testing::Server;
use heartline_testing::chat::open_store;
use serde_json::{Value, json};

use crate::HEARTLINE;
use crate::rest_client::{Caller, Rest};

const VISIBILITY: &str = "/v1/presence/visibility";

impl Rest {
    /// Makes two users each other's contacts.
    async fn make_contacts(&self, one: &str, other: &str) {
        for (one, other) in [(one, other), (other, one)] {
            self.user(one).add_contact(other).await;
        }
    }
}

impl Caller<'_> {
    async fn add_contact(&self, other: &str) {
        let nothing = self.put(&format!("/v1/contacts/{other}"), None).await.is(204);
        assert_eq!(nothing, Value::Null);
    }

    async fn remove_contact(&self, other: &str) {
        let nothing = self.delete(&format!("/v1/contacts/{other}")).await.is(204);
        assert_eq!(nothing, Value::Null);
    }

    async fn contacts(&self) -> Vec<String> {
        names(&self.get("/v1/contacts").await.is(200))
    }

    async fn set_visibility(&self, visibility: &str) {
        let setting = json!({ "visibility": visibility });
        assert_eq!(self.put(VISIBILITY, Some(&setting)).await.is(200), setting);
    }

    async fn visibility(&self) -> Value {
        self.get(VISIBILITY).await.is(200)["visibility"].clone()
    }
}

fn names(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["user_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn contacts_come_and_go() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    assert_eq!(ana.get("/v1/contacts").await.is(200), json!({ "items": [], "next_cursor": null }));
    for other in ["cy", "bo", "who.never@came", "bo"] {
        ana.add_contact(other).await;
    }
    assert_eq!(ana.contacts().await, ["bo", "cy", "who.never@came"]);
    let bo = ana.get("/v1/contacts?limit=1").await.is(200)["items"][0].clone();
    assert_eq!(bo, json!({ "user_id": "bo" }), "and nothing more is told");
    assert!(rest.user("bo").contacts().await.is_empty(), "the lists are their owners'");
    for _ in 0..2 {
        ana.remove_contact("cy").await;
        assert_eq!(ana.contacts().await, ["bo", "who.never@came"]);
    }
}

#[tokio::test]
async fn contacts_are_read_page_by_page() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    let mut expected: Vec<_> = (0..7).map(|number| format!("user-{number}")).collect();
    expected.push("User".to_owned());
    expected.sort_unstable();
    for other in &expected {
        ana.add_contact(other).await;
    }
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ana.get(&format!("/v1/contacts?limit=3{cursor}")).await.is(200);
        listed.extend(names(&page));
        assert!(listed.len() <= expected.len());
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert_eq!(names(&page).len(), 3);
        cursor = format!("&cursor={next}");
    }
    assert_eq!(listed, expected);
    let full = ana.get("/v1/contacts?limit=8").await.is(200);
    assert_eq!(full["next_cursor"], Value::Null, "a page that ends the list says so");

    let page = ana.get("/v1/contacts?limit=3").await.is(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    let own = format!("/v1/contacts?cursor={cursor}");
    rest.user("bo").get(&own).await.refuses(400, "INVALID_MESSAGE");
    let other_list = format!("/v1/chats?cursor={cursor}");
    ana.get(&other_list).await.refuses(400, "INVALID_MESSAGE");
}

#[tokio::test]
async fn there_is_an_end_to_contacts() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    ana.add_contact("bo").await;
    // All but the last place are taken behind the server's back, which is quicker.
    let shell = open_store(&rest.server.data());
    shell
        .execute_batch(
            "INSERT INTO users (user_id)
                WITH RECURSIVE numbers(n) AS
                    (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 4998)
                SELECT 'other-' || n FROM numbers;
             INSERT INTO contacts
                SELECT ana.user_key, other.user_key FROM users ana, users other
                WHERE ana.user_id = 'ana' AND other.user_id LIKE 'other-%';",
        )
        .unwrap();
    ana.add_contact("the-5000th").await;
    let error = ana.put("/v1/contacts/cy", None).await.refuses(409, "CONFLICT");
    assert_eq!(error["details"]["reason"], "contacts_full");
    ana.add_contact("bo").await;
    ana.remove_contact("bo").await;
    ana.add_contact("cy").await;
    ana.put("/v1/contacts/bo", None).await.refuses(409, "CONFLICT");
    rest.user("bo").add_contact("ana").await;
}

#[tokio::test]
async fn nobody_is_their_own_contact() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    for answer in [ana.put("/v1/contacts/ana", None).await, ana.delete("/v1/contacts/ana").await] {
        let error = answer.refuses(400, "INVALID_MESSAGE");
        assert_eq!(error["details"]["field"], "user_id");
    }
    for answer in [ana.put("/v1/contacts/a%20b", None).await, ana.delete("/v1/contacts/*").await] {
        let error = answer.refuses(400, "INVALID_MESSAGE");
        assert_eq!(error["details"]["field"], "user_id");
    }
    assert!(ana.contacts().await.is_empty());
}

#[tokio::test]
async fn a_choice_is_kept_and_the_default_is_told_until_then() {
    let rest = Rest::start().await;
    let ana = rest.user("ana");
    assert_eq!(ana.visibility().await, "contacts_only");
    for choice in ["everyone", "contacts_only", "nobody", "nobody"] {
        ana.set_visibility(choice).await;
        assert_eq!(ana.visibility().await, choice);
    }
    assert_eq!(rest.user("bo").visibility().await, "contacts_only", "others have not chosen");
    for body in [json!({ "visibility": "friends" }), json!({ "visibility": null }), json!({})] {
        let error = ana.put(VISIBILITY, Some(&body)).await.refuses(400, "INVALID_MESSAGE");
        assert_eq!(error["details"]["field"], "visibility", "{body}");
    }
    assert_eq!(ana.visibility().await, "nobody");
    let directory = rest.server.stop_with("KILL").await;
    let more = "[presence]\ndefault_visibility = \"everyone\"\n";
    let rest = Rest::on(HEARTLINE.start_on(directory, more).await).await;
    assert_eq!(rest.user("ana").visibility().await, "nobody", "a choice outlives a crash");
    assert_eq!(rest.user("bo").visibility().await, "everyone", "the default is the operator's");
}

#[tokio::test]
async fn a_server_for_development_shows_everybody() {
    let directory = HEARTLINE.scratch();
    let mut command = HEARTLINE.command();
    command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.join("data"));
    command.env("HEARTLINE__AUTH__HMAC_SECRET", heartline_testing::SECRET);
    let rest = Rest::on(Server::spawn(command, directory).await).await;
    assert_eq!(rest.user("ana").visibility().await, "everyone");
}

/// Creates a group whose members have all received the first message.
async fn group_with_watermarks(rest: &Rest) -> String {
    let users = ["ana", "bo", "cy"];
    let chat = rest.group("ana", &users[1..]).await;
    rest.user("ana").send(&chat, "m1", "hello").await.is(201);
    let path = format!("/v1/chats/{chat}/delivery");
    for user in users {
        let mut socket = rest.server.connect(user).await;
        socket.send(&json!({ "type": "ack", "chat_id": chat, "last_acked_sequence": 1 })).await;
        let own = json!({ "user_id": user, "last_acked_sequence": 1 });
        let is_stored = |page: &Value| page["items"].as_array().unwrap().contains(&own);
        rest.user(user).until(&path, is_stored).await;
    }
    chat
}

/// The members of a chat whose watermark the caller may see.
async fn shown(asker: &Caller<'_>, chat: &str) -> Vec<String> {
    let page = asker.get(&format!("/v1/chats/{chat}/delivery")).await.is(200);
    let items = page["items"].as_array().unwrap();
    let mut all = names(&page);
    all.sort_unstable();
    assert_eq!(all, ["ana", "bo", "cy"], "every member is named");
    let told = items.iter().filter(|item| item.get("last_acked_sequence").is_some());
    let mut told: Vec<_> = told.map(|item| item["user_id"].as_str().unwrap().to_owned()).collect();
    told.sort_unstable();
    told
}

#[tokio::test]
async fn how_far_others_have_received_is_told_to_those_who_may_see_them() {
    let rest = Rest::start().await;
    let [ana, bo, cy] = ["ana", "bo", "cy"].map(|name| rest.user(name));
    let chat = group_with_watermarks(&rest).await;
    assert_eq!(shown(&ana, &chat).await, ["ana"], "only the own, as nobody is a contact");
    bo.add_contact("ana").await;
    assert_eq!(shown(&ana, &chat).await, ["ana"], "one of the two is not both");
    ana.add_contact("bo").await;
    assert_eq!(shown(&ana, &chat).await, ["ana", "bo"]);
    assert_eq!(shown(&bo, &chat).await, ["ana", "bo"]);
    cy.set_visibility("everyone").await;
    assert_eq!(shown(&ana, &chat).await, ["ana", "bo", "cy"]);
    assert_eq!(shown(&cy, &chat).await, ["cy"], "who shows themselves sees no more for it");
    bo.set_visibility("nobody").await;
    assert_eq!(shown(&ana, &chat).await, ["ana", "cy"], "not even to contacts");
    assert_eq!(shown(&bo, &chat).await, ["ana", "bo", "cy"], "but oneself");
    bo.set_visibility("contacts_only").await;
    ana.remove_contact("bo").await;
    assert_eq!(shown(&ana, &chat).await, ["ana", "cy"]);
    assert_eq!(shown(&rest.service(), &chat).await, ["ana", "bo", "cy"], "the back end sees all");
}

#[tokio::test]
async fn who_may_see_whom_must_be_known_before_anything_is_told() {
    let rest = Rest::start_with("[presence]\ndefault_visibility = \"everyone\"\n").await;
    let chat = group_with_watermarks(&rest).await;
    assert_eq!(shown(&rest.user("ana"), &chat).await, ["ana", "bo", "cy"]);
    let shell = open_store(&rest.server.data());
    shell.execute_batch("ALTER TABLE contacts RENAME TO lost").unwrap();
    let path = format!("/v1/chats/{chat}/delivery");
    let answer = rest.user("ana").get(&path).await;
    answer.refuses(503, "SERVICE_UNAVAILABLE");
    assert!(!answer.body.contains("last_acked_sequence"), "{answer:?}");
    rest.user("ana").get(&format!("/v1/chats/{chat}")).await.is(200);
    shell.execute_batch("ALTER TABLE lost RENAME TO contacts").unwrap();
    assert_eq!(shown(&rest.user("ana"), &chat).await, ["ana", "bo", "cy"]);
}

#[tokio::test]
async fn a_deleted_person_is_out_of_every_list() {
    let rest = Rest::start().await;
    rest.make_contacts("ana", "bo").await;
    rest.make_contacts("bo", "cy").await;
    rest.user("bo").set_visibility("everyone").await;
    rest.service().delete("/v1/users/bo").await.is(204);
    for name in ["ana", "bo", "cy"] {
        assert!(rest.user(name).contacts().await.is_empty(), "{name}");
    }
    assert_eq!(rest.user("bo").visibility().await, "contacts_only");
}
