//! Many clients that reconnect at once receive everything, and connected clients are still served.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use heartline_client::raw::{OPCODE_CLOSE, OPCODE_TEXT};
use heartline_runtime::{Random, TaskSet};
use heartline_testing::chat::PATIENT;
use heartline_testing::{Server, Socket, close_of, token};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::HEARTLINE;
use crate::peers::{connect_from, now};

/// Members of each of the two groups.
const MEMBERS: usize = 1000;

/// Messages of each group that the crowd has missed.
const MISSED: u64 = 200;

/// The content of the last message of a group.
const LAST: &str = "that was all";

/// How long the whole return may take.
const LONG: Duration = Duration::from_secs(240);

const LIMITS: &str = "[limits]\nsync_reads = 16\nconnections_per_address = 100000\n\
                      send_rate = 1000\nsend_burst = 1000\ninbound_requests = 1000\n";

/// The fields of a frame that a member reads.
#[derive(Deserialize)]
struct Frame {
    r#type: String,
    sequence: Option<u64>,
    content: Option<String>,
    #[serde(default)]
    messages: Vec<Numbered>,
    #[serde(default)]
    chats: Vec<Head>,
    code: Option<String>,
    retry_after_seconds: Option<u64>,
}

#[derive(Deserialize)]
struct Numbered {
    sequence: u64,
    content: String,
}

#[derive(Deserialize)]
struct Head {
    chat_id: String,
    head_sequence: u64,
}

/// A member that reconnects without any message and stays until the last one.
struct Member {
    socket: Socket,
    chat: Arc<str>,
    /// The sequences that have arrived, from 1.
    has: Vec<bool>,
    /// All numbers up to here have come.
    cursor: u64,
    /// The highest number known to exist, once the manifest has come.
    head: Option<u64>,
    last: Option<u64>,
    busy: u64,
}

impl Member {
    async fn come_back(address: SocketAddr, number: usize, token: &str, chat: Arc<str>) -> Self {
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 2, (number / 500) as u8 + 1));
        let socket = connect_from(source, address, token).await;
        Self { socket, chat, has: Vec::new(), cursor: 0, head: None, last: None, busy: 0 }
    }

    /// Syncs and receives until every message is here, and signals when the sync is done. Returns
    /// how often the server was busy.
    async fn stay(mut self, synced: mpsc::Sender<()>) -> u64 {
        self.ask().await;
        let mut is_synced = false;
        while self.last.is_none_or(|last| self.cursor < last) {
            let frame = self.next().await;
            match frame.r#type.as_str() {
                "message" => self.take(frame.sequence.unwrap(), &frame.content.unwrap()),
                "sync_manifest" => {
                    let head = frame.chats.iter().find(|head| *head.chat_id == *self.chat);
                    self.head = Some(head.expect("a member's chat").head_sequence);
                    self.ask().await;
                }
                "sync_response" => {
                    for Numbered { sequence, content } in &frame.messages {
                        self.take(*sequence, content);
                    }
                    self.ask().await;
                }
                "error" => {
                    assert_eq!(frame.code.as_deref(), Some("SERVER_BUSY"));
                    self.busy += 1;
                    let seconds = frame.retry_after_seconds.expect("when to come again") as f64;
                    let jitter = 1.0 + 0.5 * Random::system().draw::<f64>();
                    tokio::time::sleep(Duration::from_secs_f64(seconds * jitter)).await;
                    self.ask().await;
                }
                // On a machine that has much else to do a lease may run out.
                "resync_required" => {
                    self.head = None;
                    self.ask().await;
                }
                "connection_established" | "chat_changed" => {}
                other => panic!("unexpected: {other}"),
            }
            if !is_synced && self.head.is_some_and(|head| self.cursor >= head) {
                is_synced = true;
                synced.send(()).await.unwrap();
            }
        }
        self.busy
    }

    /// Asks for what is missing, if something is.
    async fn ask(&mut self) {
        let Some(head) = self.head else {
            let manifest = json!({ "type": "sync_manifest", "request_id": "manifest" });
            return self.socket.send(&manifest).await;
        };
        if self.cursor < head {
            let page = json!({
                "type": "sync_request", "request_id": "page", "chat_id": *self.chat,
                "after_sequence": self.cursor
            });
            self.socket.send(&page).await;
        }
    }

    async fn next(&mut self) -> Frame {
        loop {
            let frame = self.socket.frame().await;
            match frame.opcode {
                OPCODE_TEXT => return serde_json::from_slice(&frame.payload).unwrap(),
                OPCODE_CLOSE => panic!("cut: {:?}", close_of(&frame)),
                _ => {}
            }
        }
    }

    fn take(&mut self, sequence: u64, content: &str) {
        let index = sequence as usize - 1;
        self.has.resize(self.has.len().max(index + 1), false);
        self.has[index] = true;
        let rest = self.has[self.cursor as usize..].iter();
        self.cursor += rest.take_while(|has| **has).count() as u64;
        if content == LAST {
            self.last = Some(sequence);
        }
    }
}

/// Two groups full of messages that only their owners have received.
async fn groups(server: &Server) -> [Arc<str>; 2] {
    let mut chats = Vec::new();
    for group in 0..2 {
        let members: Vec<_> = (1..MEMBERS).map(|number| user(group, number)).collect();
        let members: Vec<_> = members.iter().map(String::as_str).collect();
        let owner = user(group, 0);
        let chat = server.create_group(&owner, &members).await;
        let mut socket = server.connect(&owner).await;
        for number in 1..=MISSED {
            socket
                .send_message(&chat, &format!("m{number}"), &format!("missed number {number}"))
                .await;
        }
        for _ in 1..=MISSED {
            socket.json_of("message_ack").await;
        }
        chats.push(chat.into());
    }
    chats.try_into().unwrap()
}

fn user(group: usize, number: usize) -> String {
    format!("user-{group}-{number}")
}

/// A user who keeps sending; every message must be acknowledged at the end.
struct Talker {
    socket: Socket,
    chat: Arc<str>,
    said: u64,
    retries: u64,
    took: Vec<Duration>,
}

impl Talker {
    async fn new(server: &Server, user: &str, chat: &Arc<str>) -> Self {
        let (socket, chat) = (server.connect(user).await, Arc::clone(chat));
        Self { socket, chat, said: 0, retries: 0, took: Vec::new() }
    }

    /// Sends a message until it is acknowledged, with the same id and after the delay that the
    /// server asks for. A retry counts as part of the wait.
    async fn talk(&mut self, content: &str) {
        self.said += 1;
        let id = format!("live-{}", self.said);
        let began = now();
        loop {
            self.socket.send_message(&self.chat, &id, content).await;
            let answer = self.socket.reply_to(&id).await;
            if answer["type"] == "message_ack" {
                break;
            }
            self.retries += 1;
            let seconds = answer["retry_after_seconds"].as_u64();
            let seconds = seconds.unwrap_or_else(|| panic!("refused for good: {answer}"));
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        self.took.push(now() - began);
    }

    /// Talks until there is something else to do.
    async fn go_on(&mut self, every: Duration) {
        loop {
            self.talk("meanwhile").await;
            tokio::time::sleep(every).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_who_come_back_at_once_get_everything_while_others_talk() {
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let server = HEARTLINE.start_with(&format!("{PATIENT}{LIMITS}")).await;
    let chats = groups(&server).await;
    let small = server.create_group("ana", &["bo"]).await.into();
    let mut talkers = [
        Talker::new(&server, &user(0, 0), &chats[0]).await,
        Talker::new(&server, &user(1, 0), &chats[1]).await,
        Talker::new(&server, "ana", &small).await,
    ];
    let began = now();
    let (synced, mut all_synced) = mpsc::channel(2 * MEMBERS);
    let mut crowd = TaskSet::new();
    for number in 0..2 * MEMBERS {
        let (group, address) = (number % 2, server.address);
        let (chat, synced) = (Arc::clone(&chats[group]), synced.clone());
        let token = token(&user(group, number / 2));
        crowd.spawn(async move {
            Member::come_back(address, number, &token, chat).await.stay(synced).await
        });
    }
    drop(synced);
    let [first, second, third] = &mut talkers;
    let talk = async {
        let often = Duration::from_millis(50);
        let rarely = Duration::from_secs(1);
        tokio::join!(first.go_on(rarely), second.go_on(rarely), third.go_on(often))
    };
    let wait = async {
        for _ in 0..2 * MEMBERS {
            all_synced.recv().await.expect("nobody leaves before everybody has synced");
        }
    };
    tokio::select! {
        _ = timeout(LONG, talk) => panic!("not all have synced after {LONG:?}"),
        () = wait => {}
    }
    let synced_after = now() - began;
    for talker in &mut talkers[..2] {
        // An answer that was still on its way is passed over with it.
        talker.talk(LAST).await;
    }
    let complete =
        timeout(LONG, crowd.join_all()).await.expect("everybody receives the last message");
    let mut took: Vec<_> = talkers.iter().flat_map(|talker| talker.took.clone()).collect();
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    let busy: u64 = complete.iter().sum();
    let retries: u64 = talkers.iter().map(|talker| talker.retries).sum();
    println!(
        "{} members complete: synced after {synced_after:?}, {busy} times busy; {} messages \
         meanwhile, {retries} retried, acknowledged p50 {:?} p99 {p99:?} max {:?}",
        complete.len(),
        took.len(),
        took[took.len() / 2],
        took[took.len() - 1],
    );
    // On a machine that has much else to do everything takes longer.
    assert!(p99 < Duration::from_secs(5).max(synced_after / 5), "{p99:?}");
    assert!(busy > 0, "the gate was never full");
    assert_eq!(server.metric("durability_reads_busy_total").await, busy as f64);
    assert_eq!(server.metric("gateway_slow_consumer_disconnects_total").await, 0.0);
    assert_eq!(server.metric("gateway_slow_consumer_warnings_total").await, 0.0);
}
