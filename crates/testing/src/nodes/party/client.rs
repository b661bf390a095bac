//! A client of party sessions that records every message with its time and answers pings.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartline_client::raw::{
    OPCODE_CLOSE, OPCODE_PING, OPCODE_PONG, OPCODE_TEXT, connect_raw, masked_frame,
    masked_text_frame, read_server_frame,
};
use heartline_runtime::{Clock, TaskSet};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::{Instant, timeout};

use crate::{PATIENCE, close_of, token};

/// The WebSocket subprotocol of the server.
pub const PROTOCOL: (&str, &str) = ("Sec-WebSocket-Protocol", "graphql-transport-ws");

const ITEM: &str = "fragment Item on ClimbQueueItem { uuid addedBy addedByUser { id username
    avatarUrl } tickedBy suggested climb { uuid layoutId setter_username name description frames
    angle ascensionist_count difficulty quality_average stars difficulty_error litUpHoldsMap
    mirrored benchmark_difficulty userAscents userAttempts boardType } }
    fragment State on QueueState { sequence incarnation stateHash orderHash
    queue { ...Item } currentClimbQueueItem { ...Item } }";
const JOIN: &str =
    "mutation($s: ID!, $path: String!, $name: String, $queue: [ClimbQueueItemInput!],
    $current: ClimbQueueItemInput, $resumable: Boolean, $token: String) { joinSession(sessionId: $s,
    boardPath: $path, username: $name, initialQueue: $queue, initialCurrentClimb: $current,
    resumable: $resumable, resumeToken: $token) { id boardPath clientId isLeader resumeToken
    users { id username isLeader } queueState { ...State } } }";
/// Adds an item to the queue.
pub const ADD: &str = "mutation($item: ClimbQueueItemInput!, $at: Int, $id: ID) {
    addQueueItem(item: $item, position: $at, correlationId: $id) { uuid } }";
const QUEUE_UPDATES: &str = "subscription($s: ID!) { queueUpdates(sessionId: $s) { __typename
    ... on FullSync { sequence incarnation state { ...State } }
    ... on QueueItemAdded { sequence incarnation stateHash orderHash clientId correlationId
        addedItem: item { ...Item } position }
    ... on QueueItemRemoved { sequence incarnation stateHash orderHash clientId correlationId uuid }
    ... on QueueReordered { sequence incarnation stateHash orderHash clientId correlationId uuid
        oldIndex newIndex }
    ... on CurrentClimbChanged { sequence incarnation stateHash orderHash clientId correlationId
        currentItem: item { ...Item } }
    ... on ClimbMirrored { sequence incarnation stateHash orderHash clientId correlationId
        mirrored } } }";
const SESSION_UPDATES: &str = "subscription($s: ID!) { sessionUpdates(sessionId: $s) { __typename
    ... on UserJoined { sequence incarnation user { id username isLeader } }
    ... on UserLeft { sequence incarnation userId }
    ... on LeaderChanged { sequence incarnation leaderId }
    ... on SessionEnded { sequence incarnation reason } } }";

/// A message and the time of its arrival.
#[derive(Debug, Clone)]
pub struct Received {
    /// The time of arrival.
    pub at: Instant,
    /// The message.
    pub message: Value,
}

/// The outcome of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The operation succeeded; the data of the response.
    Done(Value),
    /// The operation was rejected with this code and message.
    Refused(String, String),
    /// No response: the connection ended first, or the deadline passed.
    Unknown,
}

/// The arguments of a join.
#[derive(Debug, Default, Clone)]
pub struct Join {
    /// The board path; `/board/1` by default.
    pub path: Option<String>,
    /// The user name.
    pub name: Option<String>,
    /// The queue of a new session.
    pub queue: Option<Vec<Value>>,
    /// The current item of a new session.
    pub current: Option<Value>,
    /// Whether to request a resume token.
    pub is_resumable: bool,
    /// The resume token of an earlier join.
    pub token: Option<String>,
}

/// A client of party sessions. A task reads its socket all the time.
#[derive(Debug)]
pub struct PartyClient {
    writer: Arc<AsyncMutex<OwnedWriteHalf>>,
    operations: usize,
    received: Arc<Mutex<Log>>,
    count: watch::Receiver<usize>,
    /// The number of messages of each operation that were returned already.
    returned: HashMap<String, usize>,
    /// The task that reads; ends with the client.
    _task: TaskSet<()>,
}

#[derive(Debug, Default)]
struct Log {
    /// Messages of no operation.
    others: Vec<Received>,
    operations: HashMap<String, Vec<Received>>,
    /// The code of the Close frame.
    close_code: Option<u16>,
    has_ended: bool,
}

impl PartyClient {
    /// Connects and waits for `connection_ack`.
    pub async fn connect(address: SocketAddr, user: Option<&str>) -> Self {
        let connected = Self::try_connect(address, user, PATIENCE).await;
        connected.expect("a connection is acknowledged")
    }

    /// Like [`Self::connect`]; none if the server does not accept the connection in time.
    pub async fn try_connect(
        address: SocketAddr,
        user: Option<&str>,
        within: Duration,
    ) -> Option<Self> {
        let connecting = async {
            let upgrade = connect_raw(address, "/graphql", &[PROTOCOL]).await.ok()?;
            let mut party_client = (upgrade.status == 101).then(|| Self::on(upgrade.stream))?;
            let payload = json!({ "authToken": user.map(token) });
            party_client.try_send(&json!({ "type": "connection_init", "payload": payload })).await;
            let is_acknowledged = party_client.other().await?["type"] == "connection_ack";
            is_acknowledged.then_some(party_client)
        };
        timeout(within, connecting).await.ok().flatten()
    }

    /// Opens a socket without sending `connection_init`.
    pub async fn open(address: SocketAddr) -> Self {
        let upgrade = connect_raw(address, "/graphql", &[PROTOCOL]).await.unwrap();
        assert_eq!(upgrade.status, 101);
        Self::on(upgrade.stream)
    }

    /// A client on an upgraded connection.
    pub fn on(stream: TcpStream) -> Self {
        let (reader, writer) = stream.into_split();
        let (writer, received) = (Arc::new(AsyncMutex::new(writer)), Arc::default());
        let (counter, count) = watch::channel(0);
        let mut task = TaskSet::new();
        task.spawn(read_messages(reader, Arc::clone(&writer), Arc::clone(&received), counter));
        Self { writer, operations: 0, received, count, returned: HashMap::new(), _task: task }
    }

    /// Sends a message.
    pub async fn send(&self, message: &Value) {
        assert!(self.try_send(message).await, "the connection is open");
    }

    /// Sends a message; returns whether the connection was open.
    async fn try_send(&self, message: &Value) -> bool {
        let frame = masked_text_frame(&message.to_string());
        self.writer.lock().await.write_all(&frame).await.is_ok()
    }

    /// Sends several messages in one write.
    pub async fn send_together(&self, messages: &[Value]) {
        let frames = messages.iter().flat_map(|it| masked_text_frame(&it.to_string()));
        let frames: Vec<u8> = frames.collect();
        self.writer.lock().await.write_all(&frames).await.expect("the connection is open");
    }

    /// Sends a text frame.
    pub async fn send_text(&self, text: &str) {
        let frame = masked_text_frame(text);
        self.writer.lock().await.write_all(&frame).await.expect("the connection is open");
    }

    /// Starts an operation and returns its id.
    pub async fn begin(&mut self, query: &str, variables: Value) -> String {
        self.operations += 1;
        let id = format!("operation-{}", self.operations);
        // GraphQL rejects documents with unused fragments.
        let has_items = query.contains("...State");
        let query = if has_items { format!("{query} {ITEM}") } else { query.to_owned() };
        let payload = json!({ "query": query, "variables": variables });
        // A failure shows as a missing response.
        self.try_send(&json!({ "type": "subscribe", "id": id, "payload": payload })).await;
        id
    }

    /// The next message of no operation, such as a pong; none after the end of the connection.
    pub async fn other(&mut self) -> Option<Value> {
        self.next_message("", |log| &log.others).await
    }

    /// The next message of an operation; fails if none arrives in time.
    pub async fn of(&mut self, id: &str) -> Value {
        let next = timeout(PATIENCE, self.try_of(id)).await.expect("a message in time");
        next.unwrap_or_else(|| panic!("the connection ended: {:?}", self.close_code()))
    }

    /// The next message of an operation; none after the end of the connection.
    pub async fn try_of(&mut self, id: &str) -> Option<Value> {
        const NONE: &Vec<Received> = &Vec::new();
        self.next_message(id, |log| log.operations.get(id).unwrap_or(NONE)).await
    }

    async fn next_message(
        &mut self,
        id: &str,
        of: impl Fn(&Log) -> &Vec<Received>,
    ) -> Option<Value> {
        let returned = self.returned.entry(id.to_owned()).or_default();
        let mut count = self.count.clone();
        let next = |log: &Log| of(log).get(*returned).map(|received| received.message.clone());
        let is_ready = |log: &Log| log.has_ended || next(log).is_some();
        // The counting task ends only after it has recorded every message.
        let _ = count.wait_for(|_| is_ready(&self.received.lock().unwrap())).await;
        let message = next(&self.received.lock().unwrap())?;
        *returned += 1;
        Some(message)
    }

    /// All messages of an operation so far.
    pub fn received(&self, id: &str) -> Vec<Received> {
        self.received.lock().unwrap().operations.get(id).cloned().unwrap_or_default()
    }

    /// The events of a subscription so far.
    pub fn events(&self, id: &str) -> Vec<Received> {
        self.events_from(id, 0)
    }

    /// The events of a subscription so far, without the first ones.
    pub fn events_from(&self, id: &str, first: usize) -> Vec<Received> {
        let log = self.received.lock().unwrap();
        let messages = log.operations.get(id).into_iter().flatten().skip(first);
        let messages = messages.take_while(|received| received.message["type"] == "next");
        messages
            .map(|received| Received { at: received.at, message: event_of(&received.message) })
            .collect()
    }

    /// Waits for an event of a subscription, which may have arrived already.
    pub async fn receives(
        &self,
        id: &str,
        what: &str,
        within: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Received {
        let find = || self.events(id).into_iter().find(|received| is_it(&received.message));
        let mut count = self.count.clone();
        let found = timeout(within, count.wait_for(|_| find().is_some())).await.is_ok();
        assert!(found, "{what} was not received within {within:?}: {:#?}", self.events(id));
        find().unwrap_or_else(|| panic!("{what} was not received: {:#?}", self.events(id)))
    }

    /// Runs a query or a mutation and returns its result.
    pub async fn run(&mut self, query: &str, variables: Value) -> Value {
        let id = self.begin(query, variables).await;
        let next = self.of(&id).await;
        assert_eq!(next["type"], "next", "{next}");
        assert_eq!(self.of(&id).await["type"], "complete");
        next["payload"].clone()
    }

    /// Runs a query or a mutation and returns its outcome.
    pub async fn attempt(&mut self, query: &str, variables: Value, within: Duration) -> Outcome {
        let id = self.begin(query, variables).await;
        let Ok(Some(next)) = timeout(within, self.try_of(&id)).await else {
            return Outcome::Unknown;
        };
        let payload = &next["payload"];
        let error = if payload.is_array() { &payload[0] } else { &payload["errors"][0] };
        if error.is_null() {
            return Outcome::Done(payload["data"].clone());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Outcome::Refused(text(&error["extensions"]["code"]), text(&error["message"]))
    }

    /// Joins a session and returns it; fails if the join is rejected.
    pub async fn joins(&mut self, session: &str) -> Value {
        self.joins_as(session, Join::default()).await
    }

    /// Like [`Self::joins`], with arguments.
    pub async fn joins_as(&mut self, session: &str, join: Join) -> Value {
        match self.try_join(session, join, PATIENCE).await {
            Outcome::Done(joined) => joined,
            other => panic!("{other:?}"),
        }
    }

    /// Tries to join a session.
    pub async fn try_join(&mut self, session: &str, join: Join, within: Duration) -> Outcome {
        let path = join.path.unwrap_or_else(|| "/board/1".to_owned());
        let variables = json!({
            "s": session, "path": path, "name": join.name, "queue": join.queue,
            "current": join.current, "resumable": join.is_resumable, "token": join.token,
        });
        match self.attempt(JOIN, variables, within).await {
            Outcome::Done(data) => Outcome::Done(data["joinSession"].clone()),
            other => other,
        }
    }

    /// Subscribes to the queue; returns the id of the subscription.
    pub async fn follows_queue(&mut self, session: &str) -> String {
        self.begin(QUEUE_UPDATES, json!({ "s": session })).await
    }

    /// Subscribes to the members; returns the id of the subscription.
    pub async fn follows_session(&mut self, session: &str) -> String {
        self.begin(SESSION_UPDATES, json!({ "s": session })).await
    }

    /// Adds an item at the end; fails if it is rejected.
    pub async fn adds(&mut self, number: usize) {
        let added = self.run(ADD, json!({ "item": item(number) })).await;
        assert_eq!(added["data"]["addQueueItem"]["uuid"], uuid(number), "{added}");
    }

    /// Leaves the session; fails if the client is in none.
    pub async fn leaves(&mut self) {
        let left = self.run("mutation { leaveSession }", json!({})).await;
        assert_eq!(left["data"]["leaveSession"], true, "{left}");
    }

    /// Tries to end a session.
    pub async fn try_end(&mut self, session: &str, within: Duration) -> Outcome {
        const END: &str = "mutation($s: ID!) { endSession(sessionId: $s) { sessionId } }";
        self.attempt(END, json!({ "s": session }), within).await
    }

    /// The next event of a subscription.
    pub async fn event(&mut self, id: &str) -> Value {
        let next = self.of(id).await;
        assert_eq!(next["type"], "next", "{next}");
        event_of(&next)
    }

    /// Whether the connection has not ended.
    pub fn is_open(&self) -> bool {
        !self.received.lock().unwrap().has_ended
    }

    /// The close code of the server, if it has closed the connection.
    pub fn close_code(&self) -> Option<u16> {
        self.received.lock().unwrap().close_code
    }

    /// Waits until the server closes the connection; returns the close code.
    pub async fn closed_with(self) -> u16 {
        self.closed().await;
        self.close_code().expect("a Close before the end")
    }

    /// Waits until the server closes the connection; returns the time.
    pub async fn closed(&self) -> Instant {
        let mut count = self.count.clone();
        let closed = count.wait_for(|_| self.close_code().is_some());
        let _ = timeout(PATIENCE, closed).await.expect("a Close in time");
        Clock::system().now()
    }
}

async fn read_messages(
    mut reader: OwnedReadHalf,
    writer: Arc<AsyncMutex<OwnedWriteHalf>>,
    log: Arc<Mutex<Log>>,
    counter: watch::Sender<usize>,
) {
    loop {
        let frame = read_server_frame(&mut reader).await;
        let at = Clock::system().now();
        match &frame {
            Ok(frame) if frame.opcode == OPCODE_TEXT => {
                let message: Value = serde_json::from_slice(&frame.payload).unwrap();
                let mut log = log.lock().unwrap();
                let place = match message["id"].as_str() {
                    Some(id) => log.operations.entry(id.to_owned()).or_default(),
                    None => &mut log.others,
                };
                place.push(Received { at, message });
            }
            Ok(frame) if frame.opcode == OPCODE_PING => {
                let pong = masked_frame(OPCODE_PONG, true, &frame.payload);
                // A broken connection shows in the next read.
                let _ = writer.lock().await.write_all(&pong).await;
            }
            Ok(frame) if frame.opcode == OPCODE_CLOSE => {
                log.lock().unwrap().close_code = close_of(frame).map(|(code, _)| code);
            }
            Ok(_) => {}
            Err(_) => log.lock().unwrap().has_ended = true,
        }
        counter.send_modify(|count| *count += 1);
        if frame.is_err() {
            return;
        }
    }
}

/// The event in a message of a subscription.
fn event_of(message: &Value) -> Value {
    let data = message["payload"]["data"].as_object();
    let event = data.and_then(|data| data.values().next());
    event.unwrap_or_else(|| panic!("no event: {message}")).clone()
}

/// The id of a numbered item.
pub fn uuid(number: usize) -> String {
    format!("11111111-1111-4111-8111-{number:012}")
}

/// A numbered item.
pub fn item(number: usize) -> Value {
    let climb = json!({
        "uuid": format!("climb-{number}"), "setter_username": "setter", "name": "A climb",
        "description": "", "frames": "p1r1", "angle": 40, "ascensionist_count": 1,
        "difficulty": "6a", "quality_average": "3", "stars": 3.0, "difficulty_error": "0",
        "litUpHoldsMap": {}, "mirrored": false,
    });
    json!({ "uuid": uuid(number), "climb": climb })
}
