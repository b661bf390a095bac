//! The consumer, with members that can be made unreadable.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use heartline_durability::{
    Announcements, Event, EventBus, InProcessBus, Publications, Published, StoreError, Stored,
    Unpublished,
};
use heartline_fanout::{Audience, Audiences, Consumer, Fanout, Metrics, TypingFanout, TypingQueue};
use heartline_protocol::server_frame::{Chat, ChatChange, ChatKind, ChatMember, Message, Role};
use heartline_protocol::{
    ChatId, MessageId, NodeId, ServerFrame, Timestamp, UserId, decode_server,
};
use heartline_routing::{Answering, DirectoryError, Envelope, LocalLink, NoSockets, Route, Routes};
use heartline_runtime::{Clock, TaskSet};
use tokio::sync::mpsc;
use ulid::Ulid;

const CHAT: ChatId = ChatId(Ulid(7));

/// The members of one chat, controlled by the test.
#[derive(Debug, Default)]
struct Membership {
    audience: Mutex<(u64, Vec<UserId>)>,
    is_down: AtomicBool,
    reads: AtomicUsize,
}

#[async_trait]
impl Audiences for Membership {
    async fn audience(&self, _: ChatId) -> Result<Option<Audience>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.is_down.load(Ordering::Relaxed) {
            return Err(StoreError::rejected("it is down"));
        }
        let (members_version, user_ids) = self.audience.lock().unwrap().clone();
        Ok(Some(Audience { members_version, user_ids: user_ids.into() }))
    }

    async fn companions(
        &self,
        user_ids: &[UserId],
        _: Duration,
        _: usize,
    ) -> Result<Vec<Vec<UserId>>, StoreError> {
        Ok(vec![Vec::new(); user_ids.len()])
    }
}

/// Keeps the messages that were recorded as published.
#[derive(Debug, Default)]
struct Records(Mutex<Vec<Published>>);

#[async_trait]
impl Announcements for Records {
    async fn record_published(&self, ranges: Vec<Published>) -> Result<(), StoreError> {
        self.0.lock().unwrap().extend(ranges);
        Ok(())
    }

    async fn unpublished(&self, _: Duration, _: usize) -> Result<Vec<Unpublished>, StoreError> {
        Ok(Vec::new())
    }
}

/// Routes without other nodes, which can be made unreadable.
#[derive(Debug, Default)]
struct Nowhere {
    is_down: AtomicBool,
}

#[async_trait]
impl Routes for Nowhere {
    async fn routes(&self, _: &[UserId], _: &NodeId) -> Result<Vec<Route>, DirectoryError> {
        match self.is_down.load(Ordering::Relaxed) {
            true => Err(DirectoryError("it is down".into())),
            false => Ok(Vec::new()),
        }
    }
}

impl Answering for Nowhere {
    fn silence(&self) -> Duration {
        Duration::ZERO
    }
}

struct Stage {
    bus: InProcessBus,
    typing: TypingQueue,
    publications: Publications,
    membership: Arc<Membership>,
    routes: Arc<Nowhere>,
    envelopes: mpsc::Receiver<Envelope>,
    metrics: Metrics,
    _tasks: TaskSet<()>,
}

fn stage(members: &[&str]) -> Stage {
    let node_id: NodeId = "node-1".parse().unwrap();
    let (link, envelopes) = LocalLink::new(node_id.clone());
    let metrics = Metrics::default();
    let routes = Arc::new(Nowhere::default());
    let fanout = Fanout {
        node_id,
        routes: Arc::clone(&routes) as Arc<dyn Routes>,
        link: Arc::new(link),
        sockets: Arc::new(NoSockets),
        clock: Clock::system(),
        metrics: metrics.clone(),
    };
    let membership = Arc::new(Membership::default());
    *membership.audience.lock().unwrap() = (1, users(members));
    let publications = Publications::default();
    let audiences = Arc::clone(&membership) as Arc<dyn Audiences>;
    let (typing, notices) = TypingQueue::new(metrics.clone());
    let typing_task = TypingFanout::new(notices, fanout.clone(), Arc::clone(&audiences));
    let consumer = Consumer::new(fanout, audiences);
    let bus = InProcessBus::new(publications.clone(), Clock::system());
    let source = Box::new(bus.source());
    let mut tasks = TaskSet::new();
    tasks.spawn(async move { consumer.run(source).await.unwrap() });
    tasks.spawn(typing_task.run());
    Stage { bus, typing, publications, membership, routes, envelopes, metrics, _tasks: tasks }
}

fn users(names: &[&str]) -> Vec<UserId> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn message(sequence: u64, members_version: u64) -> Event {
    let message = Message {
        chat_id: CHAT,
        sequence,
        message_id: MessageId(Ulid(1)),
        sender_id: "ana".parse().unwrap(),
        client_message_id: "m".parse().unwrap(),
        content: "hello".to_owned(),
        content_type: "text/plain".to_owned(),
        created_at: Timestamp { unix_ms: 0 },
        deleted: false,
    };
    let message = Arc::new(message);
    Event::Message(Stored { message, members_version, origin: None, committed_at: None })
}

impl Stage {
    async fn publish(&self, event: Event) {
        self.bus.publish(vec![event]).await.unwrap();
    }

    async fn delivery(&mut self) -> (u64, Vec<UserId>) {
        match self.envelopes.recv().await.unwrap() {
            Envelope::Message(delivery) => (delivery.sequence, delivery.user_ids.to_vec()),
            other => panic!("{other:?} is no message"),
        }
    }

    async fn push(&mut self) -> (ServerFrame, Vec<UserId>) {
        match self.envelopes.recv().await.unwrap() {
            Envelope::Push { user_ids, frame, .. } => {
                let frame = decode_server(std::str::from_utf8(&frame).unwrap()).unwrap();
                (frame, user_ids.to_vec())
            }
            other => panic!("{other:?} is no push"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_audience_is_read_once_per_version_of_the_membership() {
    let mut stage = stage(&["ana", "bo"]);
    for sequence in 1..=3 {
        stage.publish(message(sequence, 1)).await;
        assert_eq!(stage.delivery().await, (sequence, users(&["ana", "bo"])));
    }
    assert_eq!(stage.membership.reads.load(Ordering::Relaxed), 1);
    *stage.membership.audience.lock().unwrap() = (2, users(&["ana"]));
    stage.publish(message(4, 2)).await;
    assert_eq!(stage.delivery().await, (4, users(&["ana"])));
    stage.publish(message(5, 1)).await;
    assert_eq!(stage.delivery().await, (5, users(&["ana"])), "a newer audience stays");
    assert_eq!(stage.membership.reads.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_message_is_delivered_to_the_present_members() {
    let mut stage = stage(&["ana", "bo"]);
    stage.publish(message(1, 1)).await;
    assert_eq!(stage.delivery().await, (1, users(&["ana", "bo"])));
    // Another node has removed a member since this one received the second message.
    *stage.membership.audience.lock().unwrap() = (2, users(&["ana"]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.publish(message(2, 1)).await;
    assert_eq!(stage.delivery().await, (2, users(&["ana"])));
}

#[tokio::test(start_paused = true)]
async fn local_members_do_not_sync_while_routes_are_unreadable() {
    let mut stage = stage(&["ana", "bo"]);
    stage.routes.is_down.store(true, Ordering::Relaxed);
    // The relay announces it again every second.
    for _ in 0..5 {
        stage.publish(message(1, 1)).await;
        assert_eq!(stage.delivery().await.0, 1, "local members receive it");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(stage.metrics.dirty_chats.get(), 1);
    assert!(stage.envelopes.is_empty());
    stage.routes.is_down.store(false, Ordering::Relaxed);
    let envelope = stage.envelopes.recv().await.unwrap();
    assert!(matches!(envelope, Envelope::Resync { user_ids: Some(_), .. }), "{envelope:?}");
}

#[tokio::test(start_paused = true)]
async fn undeliverable_messages_end_in_a_sync_when_the_store_is_back() {
    let mut stage = stage(&["ana", "bo"]);
    stage.membership.is_down.store(true, Ordering::Relaxed);
    stage.publish(message(1, 1)).await;
    stage.publish(message(2, 1)).await;
    while stage.metrics.dirty_chats.get() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(stage.envelopes.is_empty());
    stage.membership.is_down.store(false, Ordering::Relaxed);
    let Envelope::Resync { user_ids, chat_ids, .. } = stage.envelopes.recv().await.unwrap() else {
        panic!("a resync");
    };
    assert_eq!(user_ids.unwrap().to_vec(), users(&["ana", "bo"]));
    assert_eq!(chat_ids, Some(vec![CHAT]));
    stage.publish(message(3, 1)).await;
    assert_eq!(stage.delivery().await.0, 3);
    assert_eq!(stage.metrics.dirty_chats.get(), 0);
    let records = Records::default();
    while records.0.lock().unwrap().is_empty() {
        stage.publications.record(&records).await;
        tokio::task::yield_now().await;
    }
    let announced = [Published { chat_id: CHAT, first: 3, last: 3 }];
    assert_eq!(*records.0.lock().unwrap(), announced, "the relay announces the rest again");
}

#[tokio::test]
async fn a_change_is_pushed_to_members_with_the_chat_and_to_removed_users_without() {
    let mut stage = stage(&["ana", "bo"]);
    let chat = Chat {
        chat_id: CHAT,
        kind: ChatKind::Group,
        name: Some("Tea".to_owned()),
        members: vec![ChatMember { user_id: "ana".parse().unwrap(), role: Role::Owner }],
        head_sequence: 0,
        created_at: Timestamp { unix_ms: 0 },
    };
    let (change, removed) = (ChatChange::MemberRemoved, users(&["bo"]));
    let event =
        Event::ChatChanged { change, chat: Arc::new(chat.clone()), removed, members_version: 2 };
    stage.publish(event).await;
    let expected = ServerFrame::ChatChanged { chat_id: CHAT, change, chat: Some(chat) };
    assert_eq!(stage.push().await, (expected, users(&["ana"])));
    let expected = ServerFrame::ChatChanged { chat_id: CHAT, change, chat: None };
    assert_eq!(stage.push().await, (expected, users(&["bo"])));
    stage.publish(message(1, 2)).await;
    assert_eq!(stage.delivery().await, (1, users(&["ana"])));
    assert_eq!(stage.membership.reads.load(Ordering::Relaxed), 0, "the event has the members");
}

#[tokio::test]
async fn typing_reaches_the_other_members_and_only_from_a_member() {
    let mut stage = stage(&["ana", "bo", "cy"]);
    for user in ["eve", "ana"] {
        assert!(stage.typing.typing(CHAT, user.parse().unwrap(), true));
    }
    let envelope = stage.envelopes.recv().await.unwrap();
    let Envelope::Typing { user_ids, chat_id, user_id, is_typing } = envelope else {
        panic!("{envelope:?} is no typing")
    };
    assert_eq!((user_ids.to_vec(), chat_id, is_typing), (users(&["bo", "cy"]), CHAT, true));
    assert_eq!(user_id.as_str(), "ana");
    assert_eq!(stage.metrics.typing_dropped.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_typing_and_counts_it() {
    let stage = stage(&["ana", "bo"]);
    let typing = || stage.typing.typing(CHAT, "ana".parse().unwrap(), true);
    for _ in 0..heartline_fanout::typing::TYPING_QUEUE_NOTICES {
        assert!(typing());
    }
    assert!(!typing());
    assert_eq!(stage.metrics.typing_dropped.get(), 1);
}
