//! Two nodes and two clients live through an hour of simulated time in seconds.
//!
//! The runtime has no IO driver and one thread: nothing can wait for anything but simulated time.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use heartline::config::{Disk, Layer, Sources, load};
use heartline::lifecycle::{Exit, Lifecycle};
use heartline::{Engines, InProcess, Listeners, Node, assemble, run};
use heartline_adapters::sqlite::{Execution, SqliteConfig, SqliteStore};
use heartline_client::{
    ChatClient, ChatConfig, ChatEvent, ClientConfig, ClientEvent, Dialer, TokenError, TokenNeed,
    TokenProvider,
};
use heartline_durability::{Chats, NewChat};
use heartline_protocol::server_frame::ChatKind;
use heartline_protocol::{ChatId, Timestamp, Token};
use heartline_routing::MemoryDirectory;
use heartline_routing::link::MemoryLinks;
use heartline_runtime::{Clock, MemoryNetwork, Random, Socket, TaskSet, hash};
use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;

const SECRET: &str = "a secret of at least thirty-two bytes";
const START: Timestamp = Timestamp { unix_ms: 1_900_000_000_000 };
const HOUR: Duration = Duration::from_secs(3600);
/// Messages of each user, one every ten seconds.
const MESSAGES: usize = 360;
const PAUSE: Duration = Duration::from_secs(10);
/// How long a token is valid, so that each client brings several during the hour.
const TOKEN_SECONDS: u64 = 600;

/// Opens sockets inside the process.
#[derive(Debug)]
struct MemoryDialer(MemoryNetwork);

#[async_trait]
impl Dialer for MemoryDialer {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Arc<dyn Socket>> {
        let host: IpAddr = host.parse().map_err(io::Error::other)?;
        Ok(Arc::new(self.0.connect(SocketAddr::new(host, port))?))
    }
}

/// Signs tokens by the simulated time of day.
struct Tokens {
    user_id: &'static str,
    clock: Clock,
}

#[async_trait]
impl TokenProvider for Tokens {
    async fn token(&self, _need: TokenNeed) -> Result<Token, TokenError> {
        let expires_at = self.clock.wall().unix_ms / 1000 + TOKEN_SECONDS;
        let claims = json!({ "sub": self.user_id, "exp": expires_at });
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        Ok(Token(jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap()))
    }
}

/// The messages and events that one client received.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Every event, in order, with the simulated time.
    events: Vec<String>,
    /// The messages among them: the sequence and the content.
    messages: Vec<(u64, String)>,
    /// How many connections it made.
    connections: usize,
}

/// A directory of one run, removed with it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the hour on a runtime of its own: what Ana and Bo saw.
fn hour(seed: u64) -> [Seen; 2] {
    let random = Random::seeded(seed);
    hash::seed_thread(random);
    let name = format!("heartline-hour-{:032x}", Random::system().draw::<u128>());
    let scratch = Scratch(std::env::temp_dir().join(name));
    std::fs::create_dir(&scratch.0).unwrap();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(simulate(&scratch, random))
}

async fn simulate(scratch: &Scratch, random: Random) -> [Seen; 2] {
    let clock = Clock::simulated(START);
    let file = scratch.0.join("heartline.db");
    let config = SqliteConfig { execution: Execution::Inline, ..SqliteConfig::new(file) };
    let shared = InProcess {
        store: SqliteStore::open(&config, clock, random).unwrap(),
        directory: Arc::new(MemoryDirectory::new(64, clock)),
        links: MemoryLinks::default(),
    };
    let new = NewChat {
        kind: ChatKind::Direct,
        name: None,
        creator_id: "ana".parse().unwrap(),
        member_ids: vec!["bo".parse().unwrap()],
    };
    let chat_id = shared.store.create(new, None).await.unwrap().unwrap().chat.chat_id;
    let network = MemoryNetwork::new(64 * 1024);
    let lifecycles = [Lifecycle::new(), Lifecycle::new()];
    let mut nodes = TaskSet::new();
    for (lifecycle, number) in lifecycles.iter().zip(1..) {
        let name = format!("node-{number}");
        let data_dir = scratch.0.join(&name);
        let node = node(&name, &data_dir, shared.clone(), lifecycle.clone(), clock, random).await;
        let address = format!("10.0.0.{number}:80").parse().unwrap();
        let main = Box::new(network.listen(address).unwrap());
        let listeners = Listeners { main, metrics: None, cluster: None };
        nodes.spawn(async move { run(node, listeners, stream::pending(), |_| {}).await.unwrap() });
    }
    let start = |user_id, node| {
        let url = format!("ws://10.0.0.{node}");
        let mut config = ClientConfig::new(url, Tokens { user_id, clock });
        (config.clock, config.random) = (clock, random);
        config.device_id = Some(format!("phone-of-{user_id}").parse().unwrap());
        config.dialer = Arc::new(MemoryDialer(network.clone()));
        client(config, chat_id, user_id, clock)
    };
    let (ana, bo) = tokio::join!(start("ana", 1), start("bo", 2));
    lifecycles.iter().for_each(Lifecycle::stop);
    assert_eq!(nodes.join_all().await, [Exit::Finished; 2]);
    [ana, bo]
}

async fn node(
    name: &str,
    data_dir: &Path,
    shared: InProcess,
    lifecycle: Lifecycle,
    clock: Clock,
    random: Random,
) -> Node {
    let preset = Layer::default()
        .with("test", "server", "name", name)
        .with("test", "server", "data_dir", data_dir.to_str().unwrap())
        .with("test", "auth", "hmac_secret", SECRET);
    let loaded = load(&Sources {
        preset,
        file: None,
        environment: Vec::new(),
        arguments: Layer::default(),
        files: &Disk,
    })
    .unwrap();
    let engines = Engines::in_process(&loaded, shared, clock, random).unwrap();
    assemble(loaded, engines, lifecycle, clock, random).await.unwrap()
}

/// Sends a message every ten seconds and receives all messages, for an hour and a
/// little longer.
async fn client(config: ClientConfig, chat_id: ChatId, user_id: &str, clock: Clock) -> Seen {
    let begun = clock.now();
    let (client, mut received) = ChatClient::start(config, ChatConfig::default()).unwrap();
    let mut pauses = tokio::time::interval(PAUSE);
    let mut seen = Seen { events: Vec::new(), messages: Vec::new(), connections: 0 };
    let mut sent = 0;
    loop {
        tokio::select! {
            biased;
            event = received.recv() => {
                let event = event.unwrap();
                let at = (clock.now() - begun).as_millis();
                seen.events.push(format!("{at} {event:?}"));
                match event {
                    ChatEvent::Message { message, .. } => {
                        seen.messages.push((message.sequence, message.content));
                    }
                    ChatEvent::Connection(ClientEvent::Connected(_)) => seen.connections += 1,
                    _ => {}
                }
            }
            _ = pauses.tick(), if sent < MESSAGES => {
                client.send(chat_id, format!("{user_id} {sent}"), None).await.unwrap();
                sent += 1;
            }
            () = tokio::time::sleep_until(begun + HOUR + PAUSE) => break,
        }
    }
    assert!(client.close().await.is_empty(), "every message has an answer");
    seen
}

#[test]
fn every_message_of_a_simulated_hour_arrives_once_and_in_order() {
    let began = Clock::system().wall().unix_ms;
    let [ana, bo] = hour(7);
    let took_ms = Clock::system().wall().unix_ms - began;
    assert!(took_ms < 120_000, "an hour took {took_ms} ms");
    assert_eq!(ana.messages, bo.messages);
    let sequences: Vec<u64> = ana.messages.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences, (1..=2 * MESSAGES as u64).collect::<Vec<_>>());
    for user_id in ["ana", "bo"] {
        let of_user = ana.messages.iter().map(|(_, content)| content.as_str());
        let of_user: Vec<&str> = of_user.filter(|content| content.starts_with(user_id)).collect();
        let expected: Vec<_> = (0..MESSAGES).map(|number| format!("{user_id} {number}")).collect();
        assert_eq!(of_user, expected);
    }
    assert_eq!((ana.connections, bo.connections), (1, 1), "nothing broke a connection");
}

#[test]
fn one_seed_gives_the_same_hour_again() {
    let [first, second] = [hour(11), hour(11)];
    for (one, other) in first.iter().zip(&second) {
        let differs = one.events.iter().zip(&other.events).find(|(one, other)| one != other);
        assert_eq!(differs, None);
    }
    assert_eq!(first, second);
}
