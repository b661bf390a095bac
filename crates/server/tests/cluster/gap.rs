//! Envelopes that are lost between nodes, and nodes that send to one chat at the same time.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use heartline_client::{ChatClient, ChatConfig, ChatEvent, ClientConfig, ClientEvent};
use heartline_protocol::{ServerFrame, Token};
use heartline_testing::chat::send_frame;
use heartline_testing::{PATIENCE, Socket, token};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::link_monitor::LinkMonitor;
use crate::nodes::{Cluster, Network, Node, Setup, is_long, now};
use crate::recording_socket::RecordingSocket;
use crate::talk::{Reach, Said, ack_times, hears_in_order, talk};

/// How soon a reader is complete, whatever was lost between nodes.
const COMPLETE: Duration = Duration::from_secs(5);

/// A reader with the duties of a client.
struct Reader {
    _client: ChatClient,
    events: mpsc::Receiver<ChatEvent>,
}

impl Reader {
    async fn on(node: &Node, user: &str) -> Self {
        let config = ClientConfig::new(format!("ws://{}", node.address), Token(token(user)));
        let (client, events) = ChatClient::start(config, ChatConfig::default()).unwrap();
        let mut reader = Self { _client: client, events };
        while reader.next().await != ChatEvent::Synced {}
        reader
    }

    async fn next(&mut self) -> ChatEvent {
        let event = timeout(PATIENCE, self.events.recv()).await.expect("an event in time");
        event.expect("the client goes on")
    }

    /// Reads to the message with this content. Returns whether `resync_required` came before it.
    async fn reads(&mut self, content: &str) -> bool {
        let mut was_told = false;
        loop {
            match self.next().await {
                ChatEvent::Message { message, .. } if message.content == content => {
                    return was_told;
                }
                ChatEvent::Connection(ClientEvent::Frame { frame, .. }) => {
                    was_told |= matches!(*frame, ServerFrame::ResyncRequired { .. });
                }
                _ => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_envelope_that_was_the_last_of_its_chat_is_read_within_five_seconds() {
    let cluster = Setup::nodes(2).network(Network::Lossy).start().await;
    let [node1, node2] = cluster.all();
    let chat = node1.create_group("ana", &["bo", "cy"]).await;
    let mut ana = node1.connect("ana").await;
    let mut bo = Reader::on(node2, "bo").await;
    let cy = RecordingSocket::of(node2.connect("cy").await);
    ana.send_acked(&chat, "m1", "the first").await;
    assert!(!bo.reads("the first").await, "nothing was lost yet");
    node2.lossy_network().lose(&node1.id, "what is lost");
    ana.send_acked(&chat, "m2", "what is lost").await;
    let said_at = now();
    assert!(bo.reads("what is lost").await, "it came by sync");
    let took = now() - said_at;
    println!("complete after {took:?}");
    assert!(took <= COMPLETE, "{took:?}");
    assert_eq!(node2.lossy_network().losses(), 1, "the envelope was sent once, and lost");
    // A device that only receives gets `resync_required`, with the usual delay.
    let is_resync = |frame: &Value| frame["type"] == "resync_required";
    let resync = cy.receives("resync_required", COMPLETE, is_resync).await;
    assert!(resync.frame["delay_ms"].as_u64().unwrap() <= 2000, "{}", resync.frame);
    ana.send_acked(&chat, "m3", "the next").await;
    cy.receives_message("the next", PATIENCE).await;
    bo.reads("the next").await;
}

#[tokio::test]
async fn what_was_sent_while_a_node_was_not_subscribed_is_read_within_five_seconds() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let chat = node1.create_group("ana", &["bo"]).await;
    let mut ana = node1.connect("ana").await;
    let mut bo = Reader::on(node2, "bo").await;
    // Another subscriber keeps Redis from reporting zero receivers.
    let subscribers = subscribers(&cluster);
    let _eavesdropper = LinkMonitor::on(&cluster, &[node2]).await;
    let own = subscribers_but(&cluster, &subscribers);
    for round in 0..5 {
        for id in subscribers_but(&cluster, &own) {
            cluster.redis.command(&["CLIENT", "KILL", "ID", &id]);
        }
        let content = format!("in round {round}");
        ana.send_acked(&chat, &format!("m{round}"), &content).await;
        let said_at = now();
        bo.reads(&content).await;
        let took = now() - said_at;
        assert!(took <= COMPLETE, "round {round} took {took:?}");
    }
}

/// The connections of Redis that are subscribed to something, by id.
fn subscribers(cluster: &Cluster) -> Vec<String> {
    let list = cluster.redis.command(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    let id = |line: &str| line.strip_prefix("id=")?.split(' ').next().map(str::to_owned);
    list.lines().filter_map(id).collect()
}

/// The subscribers except these.
fn subscribers_but(cluster: &Cluster, except: &[String]) -> Vec<String> {
    subscribers(cluster).into_iter().filter(|id| !except.contains(id)).collect()
}

/// Messages of one sender that may be under way: all of them together stay below what a node takes
/// for one chat.
const UNDER_WAY: usize = 8;

/// Sends this many messages to one chat from many sockets concurrently, and waits for all acks.
async fn storm(senders: &mut [RecordingSocket], chat: &str, count: usize) -> Vec<Said> {
    let rounds = join_all(senders.iter_mut().enumerate().map(async |(talker, sender)| {
        let mut said = Vec::new();
        let ids: Vec<String> = (0..count).map(|number| format!("m{number}-of-{talker}")).collect();
        for ids in ids.chunks(UNDER_WAY) {
            for id in ids {
                said.push(Said { id: id.clone(), talker, at: now() });
                sender.send(&send_frame(chat, id, id)).await;
            }
            let is_acked = |frame: &Value| frame["request_id"] == ids[ids.len() - 1].as_str();
            sender.receives("the last ack", PATIENCE, is_acked).await;
        }
        said
    }));
    rounds.await.concat()
}

#[tokio::test]
async fn nodes_that_send_to_one_chat_at_once_are_heard_in_one_order() {
    let cluster = Cluster::start(3).await;
    let nodes: [&Node; 3] = cluster.all();
    let senders_count = 50;
    let names: Vec<String> = (0..senders_count).map(|number| format!("user-{number}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let chat = nodes[0].create_group("owner", &members).await;
    let mut senders = Vec::new();
    for (number, name) in names.iter().enumerate() {
        senders.push(RecordingSocket::of(nodes[number % 2].connect(name).await));
    }
    let mut listeners = Vec::new();
    for node in nodes {
        for device in ["phone", "laptop"] {
            let device = format!("{device}-on-{}", node.id);
            listeners.push(RecordingSocket::of(node.device("owner", &device).await.0));
        }
    }
    let each = if is_long() { 20 } else { 8 };
    let said = storm(&mut senders, &chat, each).await;
    ack_times(&senders, &said);
    let last = highest(&mut senders[0], &chat).await;
    assert_eq!(last, said.len() as u64, "no number is missing, and none was given twice");
    let senders = senders.iter().enumerate().map(|(number, recording)| (recording, Some(number)));
    for (recording, number) in senders.chain(listeners.iter().map(|recording| (recording, None))) {
        let not_own = |it: &&Said| Some(it.talker) != number;
        let others: Vec<Said> = said.iter().filter(not_own).cloned().collect();
        Reach::of(recording, &others).await;
        hears_in_order(recording);
    }
    is_gapless(nodes[2], &chat, last).await;
}

/// The head of a chat as a member's manifest names it.
async fn highest(member: &mut RecordingSocket, chat: &str) -> u64 {
    member.send(&json!({ "type": "sync_manifest", "request_id": "manifest" })).await;
    let is_it = |frame: &Value| frame["request_id"] == "manifest";
    let manifest = member.receives("the manifest", PATIENCE, is_it).await.frame;
    let chats = manifest["chats"].as_array().unwrap();
    let entry = chats.iter().find(|entry| entry["chat_id"] == chat).unwrap();
    entry["head_sequence"].as_u64().unwrap()
}

/// Every number is there once, with a message of its own.
async fn is_gapless(node: &Node, chat: &str, last: u64) {
    let mut owner: Socket = node.connect_device("owner", "reader").await;
    let (mut ids, mut after) = (BTreeSet::new(), 0);
    while after < last {
        let page = owner.sync(chat, after, Some(500)).await;
        for message in page["messages"].as_array().unwrap() {
            after += 1;
            assert_eq!(message["sequence"], after, "{message}");
            assert!(ids.insert(message["client_message_id"].as_str().unwrap().to_owned()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_from_the_store_says_so_and_stores_nothing_twice() {
    let cluster = Setup::nodes(2).network(Network::FaultyToStore).start().await;
    let [node1, node2] = cluster.all();
    let chat = node1.create_group("owner", &["ana", "bo"]).await;
    let mut ana = node1.connect("ana").await;
    let mut bo = node2.connect("bo").await;
    ana.send_acked(&chat, "before", "before").await;
    bo.receives("before").await;
    node1.network().cut();
    let asked_at = now();
    ana.send_message(&chat, "lost", "lost or not").await;
    bo.send_acked(&chat, "meanwhile", "meanwhile").await;
    let error = ana.reply_to("lost").await;
    assert_eq!(error["code"], "SERVICE_UNAVAILABLE", "{error}");
    assert!(now() - asked_at <= Duration::from_secs(6), "every request is answered");
    node1.network().heal();
    let again = async {
        loop {
            ana.send_message(&chat, "lost", "lost or not").await;
            let answer = ana.reply_to("lost").await;
            if answer["type"] == "message_ack" {
                return answer;
            }
            let seconds = answer["retry_after_seconds"].as_u64().unwrap_or(1);
            sleep(Duration::from_secs(seconds.min(5))).await;
        }
    };
    timeout(PATIENCE * 2, again).await.expect("the store is reached again");
    is_gapless(node2, &chat, 3).await;
}

#[tokio::test]
async fn what_nodes_send_to_one_chat_in_turn_is_not_announced_again() {
    let cluster = Cluster::start(2).await;
    let nodes: [&Node; 2] = cluster.all();
    let chat = nodes[0].create_group("ana", &["bo"]).await;
    let mut talkers = Vec::new();
    for (node, user) in nodes.into_iter().zip(["ana", "bo"]) {
        talkers.push(RecordingSocket::of(node.connect(user).await));
    }
    let (enough, is_enough) = watch::channel(false);
    let wait = async {
        sleep(Duration::from_secs(15)).await;
        enough.send_replace(true);
    };
    let (said, ()) = tokio::join!(talk(&mut talkers, &chat, &is_enough), wait);
    // As long as the relay would wait.
    sleep(Duration::from_secs(5)).await;
    let mut relayed = 0.0;
    for node in nodes {
        relayed += node.metric("durability_messages_relayed_total").await;
    }
    println!("{relayed} of {} messages were announced again", said.len());
    assert!(relayed <= said.len() as f64 / 10.0, "{relayed} of {} messages", said.len());
}
