//! A member of a measured session: one GraphQL socket that edits, and a copy built from its events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_client::raw::{
    OPCODE_CLOSE, OPCODE_PING, OPCODE_TEXT, connect_raw, masked_text_frame, read_server_frame,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::watch;
use tokio::time::timeout;

use super::super::counters::{Counters, Tally};
use super::super::frame_writer::{FrameWriter, PONG, masked_frame};
use super::super::server_under_test::ServerUnderTest;
use super::edits::{EditScript, JOIN, UPDATES, intended_nanos, subscribe};
use super::replica::{Message, Replica};

const PROTOCOL: (&str, &str) = ("Sec-WebSocket-Protocol", "graphql-transport-ws");

/// The ids of the operations that are not edits.
const JOIN_ID: &str = "join";
const UPDATES_ID: &str = "updates";
const FINAL_STATE_ID: &str = "final-state";

/// Deadline for a response before and after the measurement.
const RESPONSE_WITHIN: Duration = Duration::from_secs(30);

/// Counts how many members of a session have received each event.
#[derive(Debug)]
pub(super) struct EventTracker {
    members: usize,
    /// The number of members that have received an event, by sequence, until all have.
    received: Mutex<HashMap<u64, usize>>,
}

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    writer: FrameWriter,
    edits: Mutex<EditScript>,
    replica: Mutex<Replica>,
    /// The session as the server returns it at the end.
    final_state: watch::Sender<Option<Replica>>,
    faults: Mutex<Vec<String>>,
    tracker: Arc<EventTracker>,
    counters: Arc<Counters>,
}

/// The reading half of a member, run as a task.
#[derive(Debug)]
pub(super) struct MemberReader {
    member: Arc<Member>,
    source: BufReader<OwnedReadHalf>,
}

#[derive(Deserialize)]
struct Response {
    payload: ResponsePayload,
}

#[derive(Deserialize)]
struct ResponsePayload {
    #[serde(default)]
    errors: Vec<IgnoredAny>,
}

impl EventTracker {
    /// A tracker for a session with this many members.
    pub(super) fn new(members: usize) -> Arc<Self> {
        Arc::new(Self { members, received: Mutex::default() })
    }

    /// Counts one more member that has received an event; returns whether all have.
    fn received(&self, sequence: u64) -> bool {
        let mut received = lock(&self.received);
        let count = received.entry(sequence).or_default();
        *count += 1;
        let is_complete = *count == self.members;
        if is_complete {
            received.remove(&sequence);
        }
        is_complete
    }
}

impl Member {
    /// Connects, joins and subscribes. The first member passes the initial queue.
    pub(super) async fn join(
        node: &ServerUnderTest,
        session_id: &str,
        edits: EditScript,
        queue: Option<Vec<Value>>,
        tracker: &Arc<EventTracker>,
        counters: &Arc<Counters>,
    ) -> Result<(Arc<Self>, MemberReader)> {
        let upgrade = connect_raw(node.address, "/graphql", &[PROTOCOL]).await?;
        ensure!(upgrade.status == 101, "the upgrade returned status {}", upgrade.status);
        let (read_half, write_half) = upgrade.stream.into_split();
        let member = Arc::new(Self {
            writer: FrameWriter::new(write_half),
            edits: Mutex::new(edits),
            replica: Mutex::default(),
            final_state: watch::Sender::new(None),
            faults: Mutex::default(),
            tracker: Arc::clone(tracker),
            counters: Arc::clone(counters),
        });
        let mut reader =
            MemberReader { member: Arc::clone(&member), source: BufReader::new(read_half) };
        member.send(&json!({ "type": "connection_init" }).to_string());
        reader.wait_for("connection_ack", "").await?;
        let variables = json!({ "sessionId": session_id, "initialQueue": queue });
        member.send(&subscribe(JOIN_ID, JOIN, &variables));
        let joined = reader.wait_for("next", JOIN_ID).await?;
        ensure!(!has_errors(&joined), "joining failed: {}", String::from_utf8_lossy(&joined));
        member.send(&subscribe(UPDATES_ID, UPDATES, &json!({ "sessionId": session_id })));
        let first = reader.wait_for("next", UPDATES_ID).await?;
        lock(&member.replica).apply(first)?;
        Ok((member, reader))
    }

    /// Sends edits that were due at this time.
    pub(super) fn edit(&self, count: u64, intended_nanos: u64) {
        self.counters.add(Tally::Sent, count);
        let mut edits = lock(&self.edits);
        self.writer.write(|frames| {
            for _ in 0..count {
                frames.extend(masked_text_frame(&edits.next_edit(intended_nanos)));
            }
        });
    }

    /// The sequence of the member's copy.
    pub(super) fn sequence(&self) -> u64 {
        lock(&self.replica).sequence
    }

    /// Reads the session from the server again and compares it with the copy. Returns the faults.
    pub(super) async fn check(&self, session_id: &str) -> Vec<String> {
        self.send(&subscribe(FINAL_STATE_ID, UPDATES, &json!({ "sessionId": session_id })));
        let mut received = self.final_state.subscribe();
        let session = match timeout(RESPONSE_WITHIN, received.wait_for(Option::is_some)).await {
            Ok(Ok(session)) => session.clone().unwrap_or_default(),
            Ok(Err(_)) | Err(_) => Replica::default(),
        };
        let replica = lock(&self.replica).clone();
        let mut faults = lock(&self.faults).clone();
        if replica.resyncs > 0 {
            faults.push(format!("{} full states in place of events", replica.resyncs));
        }
        faults.extend(replica.check(&session).err().map(|error| format!("{error:#}")));
        faults
    }

    fn send(&self, text: &str) {
        self.writer.write(|frames| frames.extend(masked_text_frame(text)));
    }

    fn receive(&self, text: Vec<u8>) {
        let message: Message<'_> = match serde_json::from_slice(&text) {
            Ok(message) => message,
            Err(error) => {
                return lock(&self.faults).push(format!("a message is not valid JSON: {error}"));
            }
        };
        match (message.kind, message.id) {
            ("next", UPDATES_ID) => self.receive_event(text),
            ("next", FINAL_STATE_ID) => {
                // Only the first event has the full state; others may follow.
                let mut state = Replica::default();
                let is_read = self.final_state.borrow().is_none() && state.apply(text).is_ok();
                is_read.then(|| self.final_state.send_replace(Some(state)));
            }
            ("next", id) if !has_errors(&text) => self.receive_response(id),
            ("next" | "error", _) => self.counters.rejected(&text[..text.len().min(300)]),
            ("complete", UPDATES_ID) => {
                lock(&self.faults).push("its subscription ended".to_owned());
            }
            _ => {}
        }
    }

    fn receive_event(&self, text: Vec<u8>) {
        let now = self.counters.epoch().nanos();
        let applied = match lock(&self.replica).apply(text) {
            Ok(applied) => applied,
            Err(error) => return lock(&self.faults).push(format!("{error:#}")),
        };
        self.counters.add(Tally::Deliveries, 1);
        let intended = applied.correlation_id.as_deref().and_then(intended_nanos);
        if let Some(intended) = intended
            && self.tracker.received(applied.sequence)
        {
            self.counters.record(&[now.saturating_sub(intended)]);
        }
    }

    fn receive_response(&self, id: &str) {
        let now = self.counters.epoch().nanos();
        let Some(intended) = intended_nanos(id) else { return };
        self.counters.add(Tally::Acks, 1);
        self.counters.record_acks(&[now.saturating_sub(intended)]);
        // Also writes bytes that the socket did not accept before, even if no edit follows.
        self.edit(u64::from(self.counters.repeats_at(now)), now);
    }
}

impl MemberReader {
    /// Reads until the connection ends.
    pub(super) async fn run(mut self) {
        while let Ok(text) = self.text().await {
            self.member.receive(text);
        }
        self.member.counters.add(Tally::Closed, 1);
    }

    /// The next message of this kind and operation; others are skipped.
    async fn wait_for(&mut self, kind: &str, id: &str) -> Result<Vec<u8>> {
        let wait = async {
            loop {
                let text = self.text().await?;
                let message: Message<'_> = serde_json::from_slice(&text)?;
                if (message.kind, message.id) == (kind, id) {
                    return Ok(text);
                }
                let reason = String::from_utf8_lossy(&text);
                ensure!(message.kind != "error", "the server rejected the operation: {reason}");
            }
        };
        timeout(RESPONSE_WITHIN, wait)
            .await
            .with_context(|| format!("no {kind} {id} within {RESPONSE_WITHIN:?}"))?
    }

    async fn text(&mut self) -> Result<Vec<u8>> {
        loop {
            let frame = read_server_frame(&mut self.source).await?;
            match frame.opcode {
                OPCODE_TEXT => return Ok(frame.payload),
                OPCODE_PING => {
                    let pong = masked_frame(PONG, &frame.payload);
                    self.member.writer.write(|frames| frames.extend(pong));
                }
                OPCODE_CLOSE => {
                    let reason = String::from_utf8_lossy(&frame.payload).into_owned();
                    anyhow::bail!("the server closed the connection: {reason:?}");
                }
                _ => {}
            }
        }
    }
}

fn has_errors(text: &[u8]) -> bool {
    let response = serde_json::from_slice::<Response>(text);
    response.is_ok_and(|response| !response.payload.errors.is_empty())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
