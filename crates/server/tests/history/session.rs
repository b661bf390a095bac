//! One connection of a client: what it asks and receives, written down as it happens.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use heartline_client::raw::{
    OPCODE_CLOSE, OPCODE_PING, OPCODE_PONG, OPCODE_TEXT, connect_raw, masked_frame,
    masked_text_frame, read_server_frame,
};
use heartline_runtime::{Clock, TaskSet};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::cursor::Cursor;
use crate::history::{End, Event, Key, Seen, SendOutcome, hash_of};
use crate::rest::token;
use crate::run::Shared;

/// Deadline for a connection: a paused server accepts the socket and sends nothing.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// The longest that a refused attempt waits before it is made again.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(1);

/// A message of this client, on its way or to be sent again.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) chat: String,
    pub(crate) id: String,
    pub(crate) content: String,
    pub(crate) not_before: Instant,
}

/// The requests without a reply.
#[derive(Debug)]
enum Pending {
    Send(Draft),
    /// A page of a chat that was then known to go this far.
    Sync {
        heard_of: u64,
    },
    Manifest,
}

/// The outcome of a send.
#[derive(Debug)]
pub(crate) enum Outcome {
    Stored(Draft),
    /// Nothing was stored, and it may be tried again.
    Refused(Draft),
    /// No retry can succeed.
    Hopeless,
    /// The outcome is unknown.
    Unknown(Draft),
}

/// A page that a sync brought.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) messages: Vec<Seen>,
    pub(crate) has_more: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    user: String,
    node: usize,
    connection: u64,
    writer: OwnedWriteHalf,
    incoming: mpsc::Receiver<Incoming>,
    _reader: TaskSet<()>,
    pending: HashMap<u64, Pending>,
    pub(crate) in_flight: usize,
    reading: bool,
    /// When the manifest is to be asked for, if it is.
    manifest_at: Option<Instant>,
    sync_not_before: Instant,
    informed: bool,
    closing: Option<String>,
    pub(crate) page: Option<Page>,
    pub(crate) outcomes: Vec<Outcome>,
}

/// A frame or event from the server.
#[derive(Debug)]
pub(crate) enum Incoming {
    Text(Value),
    Ping(Vec<u8>),
}

impl Session {
    /// Connects and is established; none if the server is not there.
    pub(crate) async fn connect(shared: &Arc<Shared>, user: &str, node: usize) -> Option<Self> {
        let bearer = format!("Bearer {}", token(user));
        let headers = [("Authorization", bearer.as_str()), ("X-Device-ID", "the-only-one")];
        let connecting = async {
            let upgrade = connect_raw(shared.addresses[node], "/v1/ws", &headers).await.ok()?;
            if upgrade.status != 101 {
                return None;
            }
            let (mut reader, writer) = upgrade.stream.into_split();
            let first = read_server_frame(&mut reader).await.ok()?;
            let first: Value = serde_json::from_slice(&first.payload).ok()?;
            let is_established = first["type"] == "connection_established";
            is_established.then(|| (reader, writer, text(&first, "connection_id")))
        };
        let Ok(connected) = timeout(CONNECT_MAX, connecting).await else {
            shared.recorder.record(Event::Abandoned { client: user.to_owned(), node });
            return None;
        };
        let (reader, writer, id) = connected?;
        let connection = shared.recorder.name();
        shared.recorder.record(Event::Connected { connection, client: user.to_owned(), node, id });
        let (sender, incoming) = mpsc::channel(256);
        let mut tasks = TaskSet::new();
        tasks.spawn(read(reader, sender));
        Some(Self {
            shared: Arc::clone(shared),
            user: user.to_owned(),
            node,
            connection,
            writer,
            incoming,
            _reader: tasks,
            pending: HashMap::new(),
            in_flight: 0,
            reading: false,
            manifest_at: Some(Clock::system().now()),
            sync_not_before: Clock::system().now(),
            informed: false,
            closing: None,
            page: None,
            outcomes: Vec::new(),
        })
    }

    /// Records the end of the connection; returns the sends in flight.
    pub(crate) fn end(mut self, dropped: bool) -> Vec<Draft> {
        let end = match self.closing.take() {
            _ if dropped => End::Dropped,
            Some(reason) => End::Closed { reason },
            None => End::Lost,
        };
        self.shared.recorder.record(Event::Ended { connection: self.connection, end });
        self.shared.in_flight[self.node].fetch_sub(self.in_flight, Ordering::Relaxed);
        let drafts = self.pending.into_values().filter_map(|pending| match pending {
            Pending::Send(draft) => Some(draft),
            Pending::Sync { .. } | Pending::Manifest => None,
        });
        drafts.collect()
    }

    /// Writes bytes. A broken connection shows when it is read.
    async fn write(&mut self, frame: &Value) {
        let _ = self.writer.write_all(&masked_text_frame(&frame.to_string())).await;
    }

    pub(crate) async fn heartbeat(&mut self) {
        self.write(&json!({ "type": "heartbeat" })).await;
    }

    /// Sends the watermark of a chat; the frame has no reply.
    pub(crate) async fn watermark(&mut self, chat: &str, sequence: u64) {
        let frame = json!({ "type": "ack", "chat_id": chat, "last_acked_sequence": sequence });
        self.write(&frame).await;
    }

    pub(crate) async fn send(&mut self, draft: Draft) {
        let request = self.shared.recorder.name();
        let (chat, id) = (draft.chat.clone(), draft.id.clone());
        let frame = json!({
            "type": "send_message", "request_id": request.to_string(), "chat_id": chat,
            "client_message_id": id, "content": draft.content,
        });
        let (connection, hash) = (self.connection, hash_of(&draft.content));
        let key = Key { chat, sender: self.user.clone(), id };
        self.shared.recorder.record(Event::SendInvoked { request, connection, key, hash });
        self.in_flight += 1;
        self.shared.in_flight[self.node].fetch_add(1, Ordering::Relaxed);
        self.pending.insert(request, Pending::Send(draft));
        self.write(&frame).await;
    }

    /// Requests a page, unless one is pending or an error asked to wait.
    pub(crate) async fn sync(
        &mut self,
        chat: &str,
        after: u64,
        limit: u64,
        known: &Cursor,
    ) -> bool {
        if self.reading || Clock::system().now() < self.sync_not_before {
            return false;
        }
        self.reading = true;
        let (request, connection) = (self.shared.recorder.name(), self.connection);
        let asked = Event::SyncInvoked { request, connection, chat: chat.to_owned(), after };
        self.shared.recorder.record(asked);
        self.pending.insert(request, Pending::Sync { heard_of: known.highest() });
        let frame = json!({
            "type": "sync_request", "request_id": request.to_string(), "chat_id": chat,
            "after_sequence": after, "limit": limit,
        });
        self.write(&frame).await;
        true
    }

    pub(crate) async fn manifest(&mut self) {
        let (request, connection) = (self.shared.recorder.name(), self.connection);
        self.shared.recorder.record(Event::ManifestInvoked { request, connection });
        self.pending.insert(request, Pending::Manifest);
        let frame = json!({ "type": "sync_manifest", "request_id": request.to_string() });
        self.write(&frame).await;
    }

    /// Asks for the manifest if it is time to.
    pub(crate) async fn manifest_if_due(&mut self) {
        if self.manifest_at.is_some_and(|at| at <= Clock::system().now()) {
            self.manifest_at = None;
            self.manifest().await;
        }
    }

    /// Whether every request was answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether a manifest was received on this connection, so that all earlier messages are known.
    /// A later manifest may show more.
    pub(crate) fn is_informed(&self) -> bool {
        self.informed && self.manifest_at.is_none()
    }

    /// The chats in which a send waits for its answer: a hole there may be the own message.
    pub(crate) fn chats_in_flight(&self) -> BTreeSet<&str> {
        let chats = self.pending.values().filter_map(|pending| match pending {
            Pending::Send(draft) => Some(draft.chat.as_str()),
            Pending::Sync { .. } | Pending::Manifest => None,
        });
        chats.collect()
    }

    /// A message of this connection whose answer is still open.
    pub(crate) fn any_in_flight(&self) -> Option<Draft> {
        self.pending.values().find_map(|pending| match pending {
            Pending::Send(draft) => Some(draft.clone()),
            Pending::Sync { .. } | Pending::Manifest => None,
        })
    }

    /// The next frame or event; none at the end. The future may be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    /// Applies a frame or event from the server.
    pub(crate) async fn receive(
        &mut self,
        incoming: Incoming,
        cursors: &mut HashMap<String, Cursor>,
    ) {
        match incoming {
            Incoming::Ping(payload) => {
                let pong = masked_frame(OPCODE_PONG, true, &payload);
                let _ = self.writer.write_all(&pong).await;
            }
            Incoming::Text(frame) => self.apply(&frame, cursors),
        }
    }

    fn apply(&mut self, frame: &Value, cursors: &mut HashMap<String, Cursor>) {
        let connection = self.connection;
        match frame["type"].as_str().unwrap() {
            "message" => {
                let message = seen_in(frame);
                hold(cursors, &message.key.chat, message.sequence);
                self.shared.recorder.record(Event::Pushed { connection, message });
            }
            "resync_required" => {
                let chats = frame["chat_ids"].as_array().map(|chats| {
                    chats.iter().filter_map(|chat| chat.as_str().map(str::to_owned)).collect()
                });
                let reason = text(frame, "reason");
                let told = Event::ResyncRequired { connection, reason, chats };
                self.shared.recorder.record(told);
                let delay = Duration::from_millis(frame["delay_ms"].as_u64().unwrap_or(0));
                self.manifest_at.get_or_insert(Clock::system().now() + delay);
            }
            "connection_closing" => {
                self.closing = Some(frame["reason"].as_str().unwrap().to_owned());
            }
            "message_ack" | "sync_response" | "sync_manifest" => self.answer(frame, cursors),
            "error" if frame["request_id"].is_string() => self.answer(frame, cursors),
            _ => {}
        }
    }

    fn answer(&mut self, frame: &Value, cursors: &mut HashMap<String, Cursor>) {
        let request: Option<u64> = frame["request_id"].as_str().and_then(|id| id.parse().ok());
        let open = request.and_then(|request| Some((request, self.pending.remove(&request)?)));
        let kind = frame["type"].as_str().unwrap();
        match open {
            Some((request, Pending::Send(draft))) if kind == "message_ack" => {
                self.acknowledged(request, draft, frame, cursors);
            }
            Some((request, Pending::Send(draft))) if kind == "error" => {
                self.refused(request, draft, frame);
            }
            Some((request, Pending::Sync { heard_of })) if kind == "sync_response" => {
                self.paged(request, heard_of, frame, cursors);
            }
            Some((request, Pending::Manifest)) if kind == "sync_manifest" => {
                self.listed(request, frame, cursors);
            }
            Some((request, asked @ (Pending::Sync { .. } | Pending::Manifest)))
                if kind == "error" =>
            {
                let code = text(frame, "code");
                self.shared.recorder.record(Event::ReadRefused { request, code });
                let again = Clock::system().now() + Duration::from_millis(100);
                match asked {
                    Pending::Manifest => self.manifest_at = Some(again),
                    Pending::Sync { .. } | Pending::Send(_) => {
                        self.reading = false;
                        self.sync_not_before = again;
                    }
                }
            }
            Some(_) | None => {
                let (connection, what) = (self.connection, frame.to_string());
                self.shared.recorder.record(Event::Stray { connection, what });
            }
        }
    }

    fn sent(&mut self) {
        self.in_flight -= 1;
        self.shared.in_flight[self.node].fetch_sub(1, Ordering::Relaxed);
    }

    fn acknowledged(
        &mut self,
        request: u64,
        draft: Draft,
        frame: &Value,
        cursors: &mut HashMap<String, Cursor>,
    ) {
        self.sent();
        let (chat, sequence) = (text(frame, "chat_id"), number(frame, "sequence"));
        hold(cursors, &chat, sequence);
        let answer = SendOutcome::Stored {
            chat,
            id: text(frame, "client_message_id"),
            sequence,
            message_id: text(frame, "message_id"),
            duplicate: frame["duplicate"].as_bool().unwrap(),
        };
        self.shared.recorder.record(Event::SendAnswered { request, answer });
        self.outcomes.push(Outcome::Stored(draft));
    }

    fn refused(&mut self, request: u64, mut draft: Draft, frame: &Value) {
        self.sent();
        let code = text(frame, "code");
        let said = frame["details"]["outcome"].as_str();
        let may_have_stored = matches!(code.as_str(), "SERVICE_UNAVAILABLE" | "INTERNAL_ERROR");
        let is_unknown = said == Some("unknown") || (may_have_stored && said != Some("rejected"));
        let wait = Duration::from_secs(frame["retry_after_seconds"].as_u64().unwrap_or(0));
        draft.not_before = Clock::system().now() + wait.min(RETRY_AFTER_MAX);
        let answer =
            if is_unknown { SendOutcome::Unknown { code } } else { SendOutcome::Refused { code } };
        self.outcomes.push(match &answer {
            SendOutcome::Unknown { .. } => Outcome::Unknown(draft),
            _ if frame["retryable"] == true => Outcome::Refused(draft),
            _ => Outcome::Hopeless,
        });
        self.shared.recorder.record(Event::SendAnswered { request, answer });
    }

    fn paged(
        &mut self,
        request: u64,
        heard_of: u64,
        frame: &Value,
        cursors: &mut HashMap<String, Cursor>,
    ) {
        self.reading = false;
        let messages: Vec<_> = frame["messages"].as_array().unwrap().iter().map(seen_in).collect();
        for seen in &messages {
            hold(cursors, &seen.key.chat, seen.sequence);
        }
        let (has_more, head) = (frame["has_more"] == true, number(frame, "head_sequence"));
        if let Some(cursor) = frame["chat_id"].as_str().and_then(|chat| cursors.get_mut(chat)) {
            cursor.hear_of(head);
            if !has_more && head < heard_of {
                cursor.ends_at(head);
            }
        }
        self.page = Some(Page { messages: messages.clone(), has_more });
        self.shared.recorder.record(Event::SyncAnswered { request, messages, has_more, head });
    }

    fn listed(&mut self, request: u64, frame: &Value, cursors: &mut HashMap<String, Cursor>) {
        self.informed = true;
        let chats = frame["chats"].as_array().unwrap();
        let heads: Vec<_> = chats
            .iter()
            .map(|chat| (text(chat, "chat_id"), number(chat, "head_sequence")))
            .collect();
        for (chat, head) in &heads {
            if let Some(cursor) = cursors.get_mut(chat) {
                cursor.hear_of(*head);
            }
        }
        self.shared.recorder.record(Event::ManifestAnswered { request, heads });
    }
}

fn hold(cursors: &mut HashMap<String, Cursor>, chat: &str, sequence: u64) {
    if let Some(cursor) = cursors.get_mut(chat) {
        cursor.hold(sequence);
    }
}

/// Reads until the connection ends or the receiver is dropped.
async fn read(mut reader: OwnedReadHalf, sender: mpsc::Sender<Incoming>) {
    while let Ok(frame) = read_server_frame(&mut reader).await {
        let incoming = match frame.opcode {
            OPCODE_TEXT => Incoming::Text(serde_json::from_slice(&frame.payload).unwrap()),
            OPCODE_PING => Incoming::Ping(frame.payload),
            OPCODE_CLOSE => return,
            _ => continue,
        };
        if sender.send(incoming).await.is_err() {
            return;
        }
    }
}

fn text(frame: &Value, field: &str) -> String {
    let text = frame[field].as_str();
    text.unwrap_or_else(|| panic!("{field} is missing: {frame}")).to_owned()
}

fn number(frame: &Value, field: &str) -> u64 {
    frame[field].as_u64().unwrap_or_else(|| panic!("{field} is missing: {frame}"))
}

/// A message as a push, a page or REST shows it.
pub(crate) fn seen_in(message: &Value) -> Seen {
    let key = Key {
        chat: text(message, "chat_id"),
        sender: text(message, "sender_id"),
        id: text(message, "client_message_id"),
    };
    let hash = hash_of(message["content"].as_str().unwrap());
    let (sequence, message_id) = (number(message, "sequence"), text(message, "message_id"));
    Seen { key, sequence, message_id, hash }
}
