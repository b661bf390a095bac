//! The interface as clients use it, on one node or on two: documents in, JSON out.

mod documents;
mod lost_results;
mod memory;
mod queue;
mod refusals;
mod rooms;
mod sessions;
mod streams;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use heartline_protocol::NodeId;
use heartline_protocol::graphql::{GraphQlRequest, Reply};
use heartline_routing::{MemoryDirectory, NodeRecord, Nodes};
use heartline_runtime::{Clock, Random, TaskSet};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Caller, Party};
use crate::room::parts::{PartyConfig, PartyParts};
use crate::room::party_socket::PartySocket;
use crate::room::rate::PartyRates;
use crate::room::rooms::Rooms;
use crate::value::log::LogLimits;
use crate::{Limits, PartyStore};

use memory::{MemoryArchive, MemoryStore};

/// The longest wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

const JOIN: &str = "mutation Join($id: ID!, $name: String, $token: String, $resumable: Boolean) {
    joinSession(sessionId: $id, boardPath: \"/kilter/1/2/3\", username: $name,
        resumeToken: $token, resumable: $resumable) {
        id name boardPath clientId isLeader resumeToken participantCount
        users { id username isLeader avatarUrl }
        queueState { sequence incarnation stateHash orderHash queue { uuid }
            currentClimbQueueItem { uuid } }
    }
}";

const ADD: &str = "mutation($item: ClimbQueueItemInput!, $position: Int, $correlation: ID) {
    addQueueItem(item: $item, position: $position, correlationId: $correlation) {
        uuid climb { name litUpHoldsMap stars } }
}";

const QUEUE: &str = "subscription Queue($id: ID!) { queueUpdates(sessionId: $id) {
    __typename
    ... on FullSync { sequence incarnation state { sequence stateHash orderHash
        queue { uuid climb { uuid name frames litUpHoldsMap } }
        currentClimbQueueItem { uuid } } }
    ... on QueueItemAdded { sequence stateHash orderHash clientId correlationId
        addedItem: item { uuid climb { uuid name frames litUpHoldsMap } } position }
    ... on QueueItemRemoved { sequence stateHash uuid }
    ... on QueueReordered { sequence stateHash uuid oldIndex newIndex }
    ... on CurrentClimbChanged { sequence stateHash currentItem: item { uuid } clientId
        correlationId }
    ... on ClimbMirrored { sequence stateHash mirrored } } }";

const MEMBERS: &str = "subscription($id: ID!) { sessionUpdates(sessionId: $id) {
    __typename
    ... on UserJoined { sequence user { id username isLeader } }
    ... on UserLeft { sequence userId }
    ... on LeaderChanged { sequence leaderId }
    ... on SessionEnded { reason newPath } } }";

/// Nodes that share a store and an archive. Their tasks end with it.
struct World {
    store: Arc<MemoryStore>,
    archive: Arc<MemoryArchive>,
    nodes: Vec<Party>,
    sockets: AtomicU64,
    _tasks: TaskSet<()>,
}

impl World {
    async fn of(count: usize) -> Self {
        let mut rates = PartyRates::default();
        rates.edits.burst = 10_000;
        Self::with(count, rates).await
    }

    async fn with(count: usize, rates: PartyRates) -> Self {
        let (store, archive) = (Arc::new(MemoryStore::new()), Arc::new(MemoryArchive::default()));
        let directory: Arc<dyn Nodes> = Arc::new(MemoryDirectory::new(16, Clock::system()));
        let (mut nodes, mut tasks) = (Vec::new(), TaskSet::new());
        for number in 0..count {
            let node_id: NodeId = format!("node-{number}").parse().unwrap();
            let record = NodeRecord {
                node_id: node_id.clone(),
                address: None,
                planes: String::new(),
                started_at: Clock::system().wall(),
                connections: 0,
            };
            directory.announce(&record, Duration::from_secs(3600)).await.unwrap();
            let config = PartyConfig {
                limits: Limits::default(),
                log: LogLimits::default(),
                auto_end: None,
                archive_debounce: Duration::from_secs(30),
                subscription_queue: 1000,
            };
            let live = match count {
                1 => PartyStore::of_one_node(Arc::clone(&store)),
                _ => PartyStore::shared(Arc::clone(&store)),
            };
            let rooms = Rooms::new(PartyParts {
                store: live,
                archive: archive.clone(),
                node_id,
                config,
                clock: Clock::system(),
                random: Random::system(),
            });
            tasks.spawn(rooms.clone().run(Arc::clone(&directory)));
            nodes.push(Party::new(rooms, rates));
        }
        let world = Self { store, archive, nodes, sockets: AtomicU64::new(1), _tasks: tasks };
        // Rooms receive commits only once they have subscribed to the store.
        while world.store.subscribers() < count {
            tokio::task::yield_now().await;
        }
        world
    }

    /// A connection to a node, signed in if it has an account.
    fn connect(&self, node: usize, account: Option<&str>) -> Client {
        let number = self.sockets.fetch_add(1, Ordering::Relaxed);
        let account = account.map(|account| account.parse().unwrap());
        let party = self.nodes[node].clone();
        Client { socket: Some(party.open(account, number)), party, account: None }
    }

    /// Requests without a connection.
    fn http(&self, account: Option<&str>) -> Client {
        Client { party: self.nodes[0].clone(), socket: None, account: account.map(str::to_owned) }
    }

    /// Connections of the first node that have joined a session; the first of them leads.
    async fn party<const N: usize>(&self, session_id: &str) -> [Client; N] {
        let clients = std::array::from_fn(|_| self.connect(0, None));
        for client in &clients {
            client.join(session_id).await;
        }
        clients
    }
}

/// A caller, with or without a connection.
#[derive(Clone)]
struct Client {
    party: Party,
    socket: Option<Arc<PartySocket>>,
    account: Option<String>,
}

/// An open subscription.
struct Replies(BoxStream<'static, Reply>);

impl Client {
    fn run(&self, query: &str, variables: Value) -> Replies {
        let caller = match &self.socket {
            Some(socket) => Caller::Socket(Arc::clone(socket)),
            None => Caller::Http {
                account: self.account.as_ref().map(|account| account.parse().unwrap()),
            },
        };
        let request = GraphQlRequest { query: query.to_owned(), operation_name: None, variables };
        Replies(self.party.run(caller, request))
    }

    /// The one reply.
    async fn reply(&self, query: &str, variables: Value) -> Reply {
        let mut replies = self.run(query, variables);
        let reply = replies.reply().await.expect("there is a reply");
        assert!(replies.reply().await.is_none(), "there is one reply");
        reply
    }

    /// The data of the one reply.
    async fn ask(&self, query: &str, variables: Value) -> Value {
        let Reply::Next(json) = self.reply(query, variables).await else {
            panic!("the document was not run")
        };
        let mut reply: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(reply.get("errors"), None);
        reply["data"].take()
    }

    /// The code and message of the only error.
    async fn refusal(&self, query: &str, variables: Value) -> (String, String) {
        refusal(&self.reply(query, variables).await)
    }

    async fn join(&self, session_id: &str) -> Value {
        self.ask(JOIN, json!({ "id": session_id })).await["joinSession"].take()
    }

    async fn add(&self, number: u32) -> Value {
        self.ask(ADD, json!({ "item": item(number) })).await["addQueueItem"].take()
    }

    fn queue(&self, session_id: &str) -> Replies {
        self.run(QUEUE, json!({ "id": session_id }))
    }

    fn members(&self, session_id: &str) -> Replies {
        self.run(MEMBERS, json!({ "id": session_id }))
    }

    fn id(&self) -> String {
        self.socket.as_ref().unwrap().member_id().to_string()
    }

    async fn close(&self) {
        self.socket.as_ref().unwrap().close().await;
    }
}

impl Replies {
    async fn reply(&mut self) -> Option<Reply> {
        timeout(PATIENCE, self.0.next()).await.expect("a reply comes in time")
    }

    /// The next event.
    async fn event(&mut self) -> Value {
        match self.reply().await {
            Some(Reply::Next(json)) => {
                let mut reply: Value = serde_json::from_slice(&json).unwrap();
                assert_eq!(reply.get("errors"), None);
                reply["data"].as_object_mut().unwrap().values_mut().next().unwrap().take()
            }
            other => panic!("{other:?} is not an event"),
        }
    }

    /// The names of the next events.
    async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.event().await["__typename"].as_str().unwrap().to_owned());
        }
        names
    }
}

fn refusal(reply: &Reply) -> (String, String) {
    let errors: Value = match reply {
        Reply::Next(json) => serde_json::from_slice::<Value>(json).unwrap()["errors"].take(),
        Reply::Error(json) => serde_json::from_slice(json).unwrap(),
    };
    let error = &errors.as_array().expect("there are errors")[0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&error["extensions"]["code"]), text(&error["message"]))
}

fn uuid(number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

fn item(number: u32) -> Value {
    json!({
        "uuid": uuid(number),
        "climb": {
            "uuid": format!("climb{number}"),
            "setter_username": "setter",
            "name": format!("Climb {number}"),
            "description": "",
            "frames": "p1r12",
            "angle": 40,
            "ascensionist_count": 3,
            "difficulty": "6a/V3",
            "quality_average": "2.5",
            "stars": 3,
            "difficulty_error": "0.1",
            "litUpHoldsMap": { "12": { "state": "HAND" } },
            "mirrored": null,
        },
        "addedBy": null,
    })
}
