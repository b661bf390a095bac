//! The chat rules against a small server that fails in every way that the protocol allows.
//!
//! Pushes are lost, repeated and reordered, requests are rejected, connections break, old messages
//! expire. In the end the application must have received every message that the server still has,
//! once and in order, and every message that it sent must be stored once, unless it was rejected.

mod server;

use std::collections::BTreeMap;
use std::time::Duration;

use heartline_protocol::server_frame::Message;
use heartline_protocol::{ClientMessageId, ErrorCode, ServerFrame};
use proptest::prelude::*;
use ulid::Ulid;

use self::server::{Behaviour, Server};
use super::*;
use crate::chat::fixtures::{connected, disconnected, draft, frame, message};
use crate::clock;
use crate::event::ClientEvent;

const CHATS: u128 = 5;

/// One step of the model. Indexes are taken modulo the number of items.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send {
        chat: u128,
    },
    OtherUserSends {
        chat: u128,
    },
    /// The client writes all frames that are due.
    Write,
    /// The server handles the next frame.
    Serve(Behaviour),
    /// A frame of the server arrives, perhaps before earlier ones.
    Arrive {
        index: usize,
    },
    LosePush {
        index: usize,
    },
    RepeatPush {
        index: usize,
    },
    Wait {
        ms: u64,
    },
    Connect,
    Break,
    Resync {
        chat: Option<u128>,
    },
    Expire {
        chat: u128,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let codes = vec![
        ErrorCode::RateLimited,
        ErrorCode::ServerBusy,
        ErrorCode::ServiceUnavailable,
        ErrorCode::InternalError,
        ErrorCode::Unauthorized,
        ErrorCode::NotAMember,
    ];
    let behaviour = prop_oneof![
        6 => Just(Behaviour::Succeed),
        1 => prop::sample::select(codes).prop_map(Behaviour::Fail),
        1 => any::<bool>().prop_map(|stored| Behaviour::Unknown { stored }),
    ];
    let chat = 0..CHATS;
    let wait = prop::sample::select(vec![1, 100, 300, 2_000, 20_000]);
    let step = prop_oneof![
        4 => chat.clone().prop_map(|chat| Step::Send { chat }),
        6 => chat.clone().prop_map(|chat| Step::OtherUserSends { chat }),
        8 => Just(Step::Write),
        8 => behaviour.prop_map(Step::Serve),
        14 => (0..4_usize).prop_map(|index| Step::Arrive { index }),
        2 => any::<usize>().prop_map(|index| Step::LosePush { index }),
        1 => any::<usize>().prop_map(|index| Step::RepeatPush { index }),
        3 => wait.prop_map(|ms| Step::Wait { ms }),
        2 => Just(Step::Connect),
        1 => Just(Step::Break),
        1 => prop::option::of(chat.clone()).prop_map(|chat| Step::Resync { chat }),
        1 => chat.prop_map(|chat| Step::Expire { chat }),
    ];
    prop::collection::vec(step, 1..200)
}

struct World {
    state: ChatState,
    now: Instant,
    connections: u128,
    server: Server,
    to_server: VecDeque<ClientFrame>,
    to_client: Vec<ServerFrame>,
    /// The messages that the application sent and received, and the results that it was given.
    drafts: Vec<Draft>,
    seen: BTreeMap<ChatId, Vec<Message>>,
    sent: Vec<ClientMessageId>,
    rejected: Vec<ClientMessageId>,
    synced_on: u128,
}

impl World {
    fn new() -> Self {
        Self {
            state: ChatState::new(ChatConfig::default(), BackOffConfig::default(), 1),
            now: clock::now(),
            connections: 0,
            server: Server::new((0..CHATS).map(|chat| ChatId(Ulid(chat)))),
            to_server: VecDeque::new(),
            to_client: Vec::new(),
            drafts: Vec::new(),
            seen: BTreeMap::new(),
            sent: Vec::new(),
            rejected: Vec::new(),
            synced_on: 0,
        }
    }

    fn is_connected(&self) -> bool {
        self.state.connection_id().is_some()
    }

    fn apply(&mut self, step: Step) {
        let chat_of = |chat| ChatId(Ulid(chat));
        match step {
            Step::Send { chat } => {
                let draft = draft(chat_of(chat), &format!("ana-{}", self.drafts.len()));
                self.drafts.push(draft.clone());
                self.state.send(draft).unwrap();
            }
            Step::OtherUserSends { chat } => self.other_user_sends(chat_of(chat)),
            Step::Write => self.write(),
            Step::Serve(behaviour) => self.serve(behaviour),
            Step::Arrive { index } => self.arrive(index),
            Step::LosePush { index } => _ = self.push_at(index).map(|at| self.to_client.remove(at)),
            Step::RepeatPush { index } => {
                let push = self.push_at(index).map(|at| self.to_client[at].clone());
                self.to_client.extend(push);
            }
            Step::Wait { ms } => self.now += Duration::from_millis(ms),
            Step::Connect if !self.is_connected() => {
                self.connections += 1;
                self.on_event(connected(self.connections));
            }
            Step::Connect => {}
            Step::Break => self.break_connection(),
            Step::Resync { chat } => {
                let chat_ids = chat.map(|chat| vec![chat_of(chat)]);
                let reason = "gap".to_owned();
                self.send_to_client(ServerFrame::ResyncRequired { reason, chat_ids, delay_ms: 50 });
            }
            Step::Expire { chat } => {
                self.server.log(chat_of(chat)).expire();
            }
        }
    }

    fn other_user_sends(&mut self, chat_id: ChatId) {
        let message = message(chat_id, self.server.log(chat_id).head() + 1);
        self.server.log(chat_id).messages.push(message.clone());
        self.send_to_client(ServerFrame::Message(message));
    }

    fn break_connection(&mut self) {
        self.to_server.clear();
        self.to_client.clear();
        if self.is_connected() {
            self.on_event(disconnected());
        }
    }

    /// Sends a frame to the client, if there is a connection.
    fn send_to_client(&mut self, frame: ServerFrame) {
        if self.is_connected() {
            self.to_client.push(frame);
        }
    }

    fn push_at(&self, index: usize) -> Option<usize> {
        let is_push = |at: &usize| matches!(self.to_client[*at], ServerFrame::Message(_));
        let pushes: Vec<usize> = (0..self.to_client.len()).filter(is_push).collect();
        (!pushes.is_empty()).then(|| pushes[index % pushes.len()])
    }

    fn arrive(&mut self, index: usize) {
        if !self.to_client.is_empty() {
            let index = index % self.to_client.len();
            let arrived = self.to_client.remove(index);
            self.on_event(frame(arrived));
        }
    }

    /// Passes an event to the client, and its events to the application.
    fn on_event(&mut self, event: ClientEvent) {
        self.state.on_event(event, self.now);
        while let Some(event) = self.state.next_event(self.now) {
            match event {
                ChatEvent::Message { message, own } => {
                    assert_eq!(own, message.sender_id.as_str() == "ana");
                    self.seen.entry(message.chat_id).or_default().push(message);
                }
                ChatEvent::Sent { ack } => self.sent.push(ack.client_message_id),
                ChatEvent::Rejected { client_message_id, .. } => {
                    self.rejected.push(client_message_id)
                }
                ChatEvent::Synced => self.synced_on = self.connections,
                ChatEvent::Connection(_)
                | ChatEvent::ChatChanged { .. }
                | ChatEvent::Outgoing { .. }
                | ChatEvent::Presence(_)
                | ChatEvent::SubscriptionRejected { .. }
                | ChatEvent::Typing { .. } => {}
            }
        }
    }

    fn write(&mut self) {
        while let Some(frame) = self.state.next_frame(self.now) {
            self.to_server.push_back(frame);
        }
    }

    fn serve(&mut self, behaviour: Behaviour) {
        let request = self.to_server.pop_front();
        if let Some(reply) = request.and_then(|request| self.server.serve(request, behaviour)) {
            self.send_to_client(reply);
        }
    }

    /// Runs without failures until nothing is left to do.
    fn run_to_completion(&mut self) {
        self.apply(if self.is_connected() { Step::Resync { chat: None } } else { Step::Connect });
        for _ in 0..10_000 {
            self.write();
            if !self.to_server.is_empty() {
                self.serve(Behaviour::Succeed);
            } else if !self.to_client.is_empty() {
                self.arrive(0);
            } else if let Some(at) = self.state.next_frame_at(self.now) {
                self.now = at.max(self.now);
            } else {
                return;
            }
        }
        panic!("the client never becomes idle");
    }

    fn check(self) {
        for (chat_id, log) in &self.server.logs {
            let seen = self.seen.get(chat_id).map_or(&[][..], Vec::as_slice);
            assert!(seen.is_sorted_by(|one, next| one.sequence < next.sequence), "{seen:?}");
            for message in seen {
                assert_eq!(message, &log.messages[message.sequence as usize - 1]);
            }
            for message in log.messages.iter().skip(log.expired as usize) {
                assert!(seen.contains(message), "{message:?} was not seen");
            }
            assert_eq!(log.acked, log.head(), "everything is acknowledged");
            let stored = log.messages.iter().map(|message| &message.client_message_id);
            let stored: Vec<_> = stored.filter(|id| id.as_str().starts_with("ana-")).collect();
            let drafts = self.drafts.iter().filter(|draft| draft.chat_id == *chat_id);
            let drafts = drafts.map(|draft| &draft.client_message_id);
            let expected: Vec<_> = drafts.filter(|id| !self.rejected.contains(id)).collect();
            assert_eq!(stored, expected, "stored once, in the order of sending");
        }
        let answers = self.sent.len() + self.rejected.len();
        assert_eq!(answers, self.drafts.len(), "every message has one result");
        assert_eq!(self.synced_on, self.connections, "the end of the sync is reported");
        assert_eq!(self.state.into_drafts(), []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_is_delivered_once_in_order_and_every_send_is_stored_once(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.run_to_completion();
        world.check();
    }
}
