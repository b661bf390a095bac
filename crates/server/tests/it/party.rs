//! Party sessions over GraphQL: sockets, plain HTTP, and what a crash leaves behind.

use heartline_client::raw::{OPCODE_CLOSE, OPCODE_TEXT, connect_raw};
use serde_json::{Value, json};

use crate::harness::{Server, Socket, close_of, token};
use crate::presence_people::OPEN;

const PROTOCOL: (&str, &str) = ("Sec-WebSocket-Protocol", "graphql-transport-ws");

const JOIN: &str = "mutation($s: ID!) { joinSession(sessionId: $s, boardPath: \"/board/1\") {
    clientId isLeader users { id } queueState { sequence stateHash queue { uuid } } } }";
const ADD: &str = "mutation($item: ClimbQueueItemInput!) { addQueueItem(item: $item) { uuid } }";
const UPDATES: &str = "subscription($s: ID!) { queueUpdates(sessionId: $s) { __typename
    ... on FullSync { sequence state { stateHash queue { uuid } } }
    ... on QueueItemAdded { sequence stateHash addedItem: item { uuid } position } } }";

/// A client of the party.
struct Guest {
    socket: Socket,
    asked: usize,
    /// What came for operations that nobody waited for yet.
    heard: Vec<Value>,
}

impl Guest {
    /// Connects and is acknowledged.
    async fn arrive(server: &Server, user: Option<&str>) -> Self {
        let mut guest = Self::knock(server).await;
        let payload = json!({ "authToken": user.map(token) });
        guest.socket.send(&json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(guest.socket.json().await, json!({ "type": "connection_ack" }));
        guest
    }

    /// Connects, and says nothing.
    async fn knock(server: &Server) -> Self {
        let upgrade = connect_raw(server.address, "/graphql", &[PROTOCOL]).await.unwrap();
        assert_eq!(upgrade.status, 101);
        Self { socket: Socket { stream: upgrade.stream }, asked: 0, heard: Vec::new() }
    }

    /// Begins an operation, and answers its id.
    async fn begin(&mut self, query: &str, variables: Value) -> String {
        self.asked += 1;
        let id = format!("operation-{}", self.asked);
        let payload = json!({ "query": query, "variables": variables });
        self.socket.send(&json!({ "type": "subscribe", "id": id, "payload": payload })).await;
        id
    }

    /// The next message of an operation.
    async fn of(&mut self, id: &str) -> Value {
        if let Some(place) = self.heard.iter().position(|message| message["id"] == id) {
            return self.heard.remove(place);
        }
        loop {
            let message = self.socket.json().await;
            if message["id"] == id {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Runs a query or a mutation to its end, and answers its only result.
    async fn run(&mut self, query: &str, variables: Value) -> Value {
        let id = self.begin(query, variables).await;
        let next = self.of(&id).await;
        assert_eq!(next["type"], "next", "{next}");
        assert_eq!(self.of(&id).await["type"], "complete");
        next["payload"].clone()
    }

    async fn joins(&mut self, session: &str) -> Value {
        let joined = self.run(JOIN, json!({ "s": session })).await;
        assert!(joined["errors"].is_null(), "{joined}");
        joined["data"]["joinSession"].clone()
    }

    async fn adds(&mut self, number: usize) {
        let added = self.run(ADD, json!({ "item": item(number) })).await;
        assert_eq!(added["data"]["addQueueItem"]["uuid"], uuid(number), "{added}");
    }

    /// The next event of a subscription.
    async fn event(&mut self, id: &str, field: &str) -> Value {
        let next = self.of(id).await;
        assert_eq!(next["type"], "next", "{next}");
        next["payload"]["data"][field].clone()
    }

    /// The close code with which the server ends the conversation.
    async fn closed_with(mut self) -> u16 {
        loop {
            let frame = self.socket.frame().await;
            if frame.opcode == OPCODE_CLOSE {
                return close_of(&frame).unwrap().0;
            }
            assert_eq!(frame.opcode, OPCODE_TEXT);
        }
    }
}

fn uuid(number: usize) -> String {
    format!("11111111-1111-4111-8111-{number:012}")
}

fn item(number: usize) -> Value {
    let climb = json!({
        "uuid": format!("climb-{number}"), "setter_username": "setter", "name": "A climb",
        "description": "", "frames": "p1r1", "angle": 40, "ascensionist_count": 1,
        "difficulty": "6a", "quality_average": "3", "stars": 3.0, "difficulty_error": "0",
        "litUpHoldsMap": {}, "mirrored": false,
    });
    json!({ "uuid": uuid(number), "climb": climb })
}

#[tokio::test]
async fn everybody_in_a_session_sees_the_same_queue_in_the_same_order() {
    let server = Server::start().await;
    let (mut ana, mut bo) =
        (Guest::arrive(&server, Some("ana")).await, Guest::arrive(&server, None).await);
    // A client that comes back subscribes before it has joined.
    let stream = bo.begin(UPDATES, json!({ "s": "wall" })).await;
    assert_eq!(ana.joins("wall").await["isLeader"], true);
    let joined = bo.joins("wall").await;
    assert_eq!(
        (&joined["isLeader"], joined["users"].as_array().unwrap().len()),
        (&json!(false), 2)
    );
    let first = bo.event(&stream, "queueUpdates").await;
    assert_eq!((&first["__typename"], &first["sequence"]), (&json!("FullSync"), &json!(0)));
    for number in 1..=20 {
        let guest = if number % 2 == 0 { &mut ana } else { &mut bo };
        guest.adds(number).await;
    }
    let mut last = Value::Null;
    for number in 1..=20 {
        last = bo.event(&stream, "queueUpdates").await;
        assert_eq!((&last["sequence"], &last["position"]), (&json!(number), &json!(number - 1)));
    }
    let seen = ana.joins("wall").await;
    assert_eq!(seen["queueState"]["stateHash"], last["stateHash"]);
    assert_eq!(seen["isLeader"], true, "to join again changes nothing");

    let left = bo.run("mutation { leaveSession }", json!({})).await;
    assert_eq!(left["data"]["leaveSession"], true);
    assert_eq!(bo.of(&stream).await["type"], "complete", "who left hears no more");
    let refused = bo.run(ADD, json!({ "item": item(99) })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_A_MEMBER", "{refused}");
}

#[tokio::test]
async fn an_edit_that_was_acknowledged_is_there_after_a_kill() {
    let server = Server::start().await;
    let mut ana = Guest::arrive(&server, Some("ana")).await;
    ana.joins("wall").await;
    for number in 1..=5 {
        ana.adds(number).await;
    }
    let files = server.ended_by("KILL").await;
    let server = Server::start_on(files, "").await;
    let mut bo = Guest::arrive(&server, None).await;
    let joined = bo.joins("wall").await;
    let queue = joined["queueState"]["queue"].as_array().unwrap().iter();
    let uuids: Vec<&str> = queue.map(|item| item["uuid"].as_str().unwrap()).collect();
    assert_eq!(uuids, (1..=5).map(uuid).collect::<Vec<_>>());
    bo.adds(6).await;
}

#[tokio::test]
async fn a_signed_in_member_of_a_party_is_online_and_gets_no_chat_frames() {
    let server = Server::start_with(OPEN).await;
    let mut ana = Guest::arrive(&server, Some("ana")).await;
    assert_eq!(server.seen("bo", "ana").await["status"], "online");
    assert_eq!(server.push(&["ana"], "hello", json!({})).await, 0, "it is no target");
    ana.socket.send(&json!({ "type": "ping" })).await;
    assert_eq!(ana.socket.json().await, json!({ "type": "pong" }));
}

#[tokio::test]
async fn whoever_breaks_the_rules_of_the_transport_is_told_by_the_code() {
    let server = Server::start().await;
    let upgrade = connect_raw(server.address, "/graphql", &[]).await.unwrap();
    assert_eq!(upgrade.status, 101);
    let socket = Socket { stream: upgrade.stream };
    let guest = Guest { socket, asked: 0, heard: Vec::new() };
    assert_eq!(guest.closed_with().await, 4406);

    let init = json!({ "type": "connection_init" });
    let bad = json!({ "type": "connection_init", "payload": { "authToken": "nonsense" } });
    let subscribe = json!({ "type": "subscribe", "id": "1", "payload": { "query": "{a}" } });
    for (said, code) in [
        (vec![json!([])], 4400),
        (vec![subscribe.clone()], 4401),
        (vec![bad], 4401),
        (vec![init.clone(), init], 4429),
    ] {
        let mut guest = Guest::knock(&server).await;
        for message in &said {
            guest.socket.send(message).await;
        }
        assert_eq!(guest.closed_with().await, code, "{said:?}");
    }
    let mut guest = Guest::arrive(&server, None).await;
    for _ in 0..2 {
        let payload = json!({ "query": UPDATES, "variables": { "s": "wall" } });
        guest.socket.send(&json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
    }
    assert_eq!(guest.closed_with().await, 4409);
    assert_eq!(Guest::knock(&server).await.closed_with().await, 4408, "nothing was said for 3 s");
}

#[tokio::test]
async fn a_query_that_does_not_parse_or_is_too_deep_leaves_the_socket_open() {
    let server = Server::start().await;
    let mut guest = Guest::arrive(&server, None).await;
    let deep =
        format!("{{ session(sessionId: {}1{}) {{ id }} }}", "[".repeat(1600), "]".repeat(1600));
    for query in ["{nope", deep.as_str(), "{ unknown }"] {
        let id = guest.begin(query, json!({})).await;
        let answer = guest.of(&id).await;
        assert_eq!(answer["type"], "error", "{answer}");
        assert_eq!(answer["payload"][0]["extensions"]["code"], "INVALID_MESSAGE", "{answer}");
    }
    guest.joins("wall").await;
}

#[tokio::test]
async fn a_drained_node_asks_party_clients_to_come_back() {
    let mut server = Server::start().await;
    let mut ana = Guest::arrive(&server, None).await;
    ana.joins("wall").await;
    ana.adds(1).await;
    server.signal("TERM").await;
    assert_eq!(ana.closed_with().await, 1012);
    assert_eq!(server.exit_code().await, Some(0));
}

#[tokio::test]
async fn plain_http_answers_queries_and_knows_its_limits() {
    let server = Server::start_with("[party]\nsite_url = \"https://site.example\"\n").await;
    let mut ana = Guest::arrive(&server, Some("ana")).await;
    ana.joins("wall").await;
    let session =
        json!({ "query": "{ session(sessionId: \"wall\") { boardPath participantCount } }" });
    let answer = server.http("POST", "/graphql", &token("bo"), Some(&session)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected =
        json!({ "data": { "session": { "boardPath": "/board/1", "participantCount": 1 } } });
    assert_eq!(answer.json(), expected);
    let edit = json!({ "query": ADD, "variables": { "item": item(1) } });
    let refused = server.http("POST", "/graphql", &token("ana"), Some(&edit)).await.json();
    assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_A_MEMBER", "{refused}");
    let bad = json!({ "query": "{nope" });
    assert_eq!(server.http("POST", "/graphql", &token("bo"), Some(&bad)).await.status, 400);
    let health = server.http("GET", "/health", &token("bo"), None).await;
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("healthy")));
    let way =
        server.ask(b"GET /join/wall HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").await;
    assert_eq!(way.status, 302, "{way:?}");
    let nowhere = server.http("GET", "/join/unknown", &token("bo"), None).await;
    assert_eq!(nowhere.status, 404);
}
