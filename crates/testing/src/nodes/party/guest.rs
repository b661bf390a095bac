//! A client of party sessions, written from the schema: it notes everything that it hears, with the
//! time, answers pings, and asserts nothing by itself unless its name says so.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartline_client::raw::{
    OPCODE_CLOSE, OPCODE_PING, OPCODE_PONG, OPCODE_TEXT, connect_raw, masked_frame,
    masked_text_frame, read_server_frame,
};
use heartline_runtime::Clock;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{PATIENCE, close_of, token};

/// The sub-protocol that the server speaks.
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

/// A message and when it came.
#[derive(Debug, Clone)]
pub struct Heard {
    /// When it came.
    pub at: Instant,
    /// The message.
    pub message: Value,
}

/// What became of something that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was done; the data of the answer.
    Done(Value),
    /// It was refused with this code and message.
    Refused(String, String),
    /// Nobody said: the connection ended first, or it took too long.
    Unknown,
}

/// How somebody joins.
#[derive(Debug, Default, Clone)]
pub struct Join {
    /// The board; `/board/1` if none is said.
    pub path: Option<String>,
    /// The user name.
    pub name: Option<String>,
    /// The queue of a new session.
    pub queue: Option<Vec<Value>>,
    /// The current item of a new session.
    pub current: Option<Value>,
    /// Whether to ask for a token.
    pub is_resumable: bool,
    /// The token of an earlier join.
    pub token: Option<String>,
}

/// A client of the party, which is read all the time.
#[derive(Debug)]
pub struct Guest {
    writer: Arc<AsyncMutex<OwnedWriteHalf>>,
    asked: usize,
    heard: Arc<Mutex<Log>>,
    count: watch::Receiver<usize>,
    /// How many messages of each operation were taken.
    taken: HashMap<String, usize>,
    /// The task that reads; it ends with the guest.
    _task: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Log {
    /// What belongs to no operation.
    others: Vec<Heard>,
    operations: HashMap<String, Vec<Heard>>,
    /// The code of the Close, if there was one.
    close_code: Option<u16>,
    has_ended: bool,
}

impl Guest {
    /// Connects and is acknowledged.
    pub async fn arrive(address: SocketAddr, user: Option<&str>) -> Self {
        let arrived = Self::try_arrive(address, user, PATIENCE).await;
        arrived.expect("a connection is acknowledged")
    }

    /// The same, where nobody may be there or answer in time.
    pub async fn try_arrive(
        address: SocketAddr,
        user: Option<&str>,
        within: Duration,
    ) -> Option<Self> {
        let arriving = async {
            let upgrade = connect_raw(address, "/graphql", &[PROTOCOL]).await.ok()?;
            let mut guest = (upgrade.status == 101).then(|| Self::on(upgrade.stream))?;
            let payload = json!({ "authToken": user.map(token) });
            guest.try_send(&json!({ "type": "connection_init", "payload": payload })).await;
            let is_acknowledged = guest.other().await?["type"] == "connection_ack";
            is_acknowledged.then_some(guest)
        };
        timeout(within, arriving).await.ok().flatten()
    }

    /// Connects, and says nothing.
    pub async fn knock(address: SocketAddr) -> Self {
        let upgrade = connect_raw(address, "/graphql", &[PROTOCOL]).await.unwrap();
        assert_eq!(upgrade.status, 101);
        Self::on(upgrade.stream)
    }

    /// On a connection that was upgraded.
    pub fn on(stream: TcpStream) -> Self {
        let (reader, writer) = stream.into_split();
        let (writer, heard) = (Arc::new(AsyncMutex::new(writer)), Arc::default());
        let (counter, count) = watch::channel(0);
        let mut task = JoinSet::new();
        task.spawn(listen(reader, Arc::clone(&writer), Arc::clone(&heard), counter));
        Self { writer, asked: 0, heard, count, taken: HashMap::new(), _task: task }
    }

    /// Sends a message as it is.
    pub async fn send(&self, message: &Value) {
        assert!(self.try_send(message).await, "the connection is open");
    }

    /// Sends a message; answers whether it could.
    async fn try_send(&self, message: &Value) -> bool {
        let frame = masked_text_frame(&message.to_string());
        self.writer.lock().await.write_all(&frame).await.is_ok()
    }

    /// Sends messages that arrive together.
    pub async fn send_together(&self, messages: &[Value]) {
        let frames = messages.iter().flat_map(|it| masked_text_frame(&it.to_string()));
        let frames: Vec<u8> = frames.collect();
        self.writer.lock().await.write_all(&frames).await.expect("the connection is open");
    }

    /// Sends a text as it is.
    pub async fn send_text(&self, text: &str) {
        let frame = masked_text_frame(text);
        self.writer.lock().await.write_all(&frame).await.expect("the connection is open");
    }

    /// Begins an operation, and answers its id.
    pub async fn begin(&mut self, query: &str, variables: Value) -> String {
        self.asked += 1;
        let id = format!("operation-{}", self.asked);
        // A document must use every fragment that it has.
        let has_items = query.contains("...State");
        let query = if has_items { format!("{query} {ITEM}") } else { query.to_owned() };
        let payload = json!({ "query": query, "variables": variables });
        // Whether it arrives is seen by what is answered.
        self.try_send(&json!({ "type": "subscribe", "id": id, "payload": payload })).await;
        id
    }

    /// The next message that belongs to no operation, such as a pong; none after the end.
    pub async fn other(&mut self) -> Option<Value> {
        self.take("", |log| &log.others).await
    }

    /// The next message of an operation, which must come.
    pub async fn of(&mut self, id: &str) -> Value {
        let next = timeout(PATIENCE, self.try_of(id)).await.expect("a message in time");
        next.unwrap_or_else(|| panic!("the connection ended: {:?}", self.close_code()))
    }

    /// The next message of an operation; none after the end.
    pub async fn try_of(&mut self, id: &str) -> Option<Value> {
        const NONE: &Vec<Heard> = &Vec::new();
        self.take(id, |log| log.operations.get(id).unwrap_or(NONE)).await
    }

    async fn take(&mut self, id: &str, of: impl Fn(&Log) -> &Vec<Heard>) -> Option<Value> {
        let taken = self.taken.entry(id.to_owned()).or_default();
        let mut count = self.count.clone();
        let next = |log: &Log| of(log).get(*taken).map(|heard| heard.message.clone());
        let is_settled = |log: &Log| log.has_ended || next(log).is_some();
        // Who counts has gone only if everything was noted before.
        let _ = count.wait_for(|_| is_settled(&self.heard.lock().unwrap())).await;
        let message = next(&self.heard.lock().unwrap())?;
        *taken += 1;
        Some(message)
    }

    /// Everything that an operation was told so far, with the times.
    pub fn heard(&self, id: &str) -> Vec<Heard> {
        self.heard.lock().unwrap().operations.get(id).cloned().unwrap_or_default()
    }

    /// The events of a subscription so far, with the times.
    pub fn events(&self, id: &str) -> Vec<Heard> {
        self.events_from(id, 0)
    }

    /// The same without the first so many.
    pub fn events_from(&self, id: &str, first: usize) -> Vec<Heard> {
        let log = self.heard.lock().unwrap();
        let told = log.operations.get(id).into_iter().flatten().skip(first);
        let told = told.take_while(|heard| heard.message["type"] == "next");
        told.map(|heard| Heard { at: heard.at, message: event_of(&heard.message) }).collect()
    }

    /// Waits for an event of a subscription, which may have come already.
    pub async fn hears(
        &self,
        id: &str,
        what: &str,
        within: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Heard {
        let find = || self.events(id).into_iter().find(|heard| is_it(&heard.message));
        let mut count = self.count.clone();
        let found = timeout(within, count.wait_for(|_| find().is_some())).await.is_ok();
        assert!(found, "{what} was not heard within {within:?}: {:#?}", self.events(id));
        find().unwrap_or_else(|| panic!("{what} was not heard: {:#?}", self.events(id)))
    }

    /// Runs a query or a mutation; answers its only result.
    pub async fn run(&mut self, query: &str, variables: Value) -> Value {
        let id = self.begin(query, variables).await;
        let next = self.of(&id).await;
        assert_eq!(next["type"], "next", "{next}");
        assert_eq!(self.of(&id).await["type"], "complete");
        next["payload"].clone()
    }

    /// The same, and what became of it if that was said in time.
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

    /// Joins, and answers the session; it must be let in.
    pub async fn joins(&mut self, session: &str) -> Value {
        self.joins_as(session, Join::default()).await
    }

    /// The same in another way.
    pub async fn joins_as(&mut self, session: &str, join: Join) -> Value {
        match self.try_join(session, join, PATIENCE).await {
            Outcome::Done(joined) => joined,
            other => panic!("{other:?}"),
        }
    }

    /// Tries to join; answers the session.
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

    /// Begins to hear of the queue; answers the id of the subscription.
    pub async fn follows_queue(&mut self, session: &str) -> String {
        self.begin(QUEUE_UPDATES, json!({ "s": session })).await
    }

    /// Begins to hear of the members; answers the id of the subscription.
    pub async fn follows_session(&mut self, session: &str) -> String {
        self.begin(SESSION_UPDATES, json!({ "s": session })).await
    }

    /// Adds an item at the end; it must be.
    pub async fn adds(&mut self, number: usize) {
        let added = self.run(ADD, json!({ "item": item(number) })).await;
        assert_eq!(added["data"]["addQueueItem"]["uuid"], uuid(number), "{added}");
    }

    /// Leaves; it must have been in a session.
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
        !self.heard.lock().unwrap().has_ended
    }

    /// The code with which the server closed the connection, if it has.
    pub fn close_code(&self) -> Option<u16> {
        self.heard.lock().unwrap().close_code
    }

    /// The close code with which the server ends the conversation.
    pub async fn closed_with(self) -> u16 {
        self.closed().await;
        self.close_code().expect("a Close before the end")
    }

    /// Waits until the server has closed the connection; answers when that was seen.
    pub async fn closed(&self) -> Instant {
        let mut count = self.count.clone();
        let closed = count.wait_for(|_| self.close_code().is_some());
        let _ = timeout(PATIENCE, closed).await.expect("a Close in time");
        Clock::system().now()
    }
}

async fn listen(
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
                place.push(Heard { at, message });
            }
            Ok(frame) if frame.opcode == OPCODE_PING => {
                let pong = masked_frame(OPCODE_PONG, true, &frame.payload);
                // A connection that has ended is seen by reading.
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
