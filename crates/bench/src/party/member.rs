//! A member of a measured session: one GraphQL socket that edits, hears and remembers.

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
use super::super::subject::Subject;
use super::super::voice::{PONG, Voice, masked_frame};
use super::part::{JOIN, Part, UPDATES, intended_nanos, subscribe};
use super::replica::{Message, Replica};

const PROTOCOL: (&str, &str) = ("Sec-WebSocket-Protocol", "graphql-transport-ws");

/// The operations that are not edits.
const JOINING: &str = "join";
const HEARING: &str = "updates";
const LOOKING: &str = "truth";

/// How long an answer may take before and after the measurement.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// One session as its members hear it.
#[derive(Debug)]
pub(super) struct Circle {
    members: usize,
    /// How many have heard an event, until all have.
    heard: Mutex<HashMap<u64, usize>>,
}

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    voice: Voice,
    part: Mutex<Part>,
    replica: Mutex<Replica>,
    /// The session as the server shows it when it is asked in the end.
    truth: watch::Sender<Option<Replica>>,
    faults: Mutex<Vec<String>>,
    circle: Arc<Circle>,
    counters: Arc<Counters>,
}

/// What a member reads, to be run as a task.
#[derive(Debug)]
pub(super) struct Ear {
    member: Arc<Member>,
    source: BufReader<OwnedReadHalf>,
}

#[derive(Deserialize)]
struct Answer {
    payload: AnswerPayload,
}

#[derive(Deserialize)]
struct AnswerPayload {
    #[serde(default)]
    errors: Vec<IgnoredAny>,
}

impl Circle {
    /// Of so many members.
    pub(super) fn new(members: usize) -> Arc<Self> {
        Arc::new(Self { members, heard: Mutex::default() })
    }

    /// Another member has heard an event; answers whether everyone has.
    fn hears(&self, sequence: u64) -> bool {
        let mut heard = lock(&self.heard);
        let count = heard.entry(sequence).or_default();
        *count += 1;
        let is_everyone = *count == self.members;
        if is_everyone {
            heard.remove(&sequence);
        }
        is_everyone
    }
}

impl Member {
    /// Connects, joins and listens. Whoever comes first brings the queue along.
    pub(super) async fn enter(
        node: &Subject,
        session_id: &str,
        part: Part,
        queue: Option<Vec<Value>>,
        circle: &Arc<Circle>,
        counters: &Arc<Counters>,
    ) -> Result<(Arc<Self>, Ear)> {
        let upgrade = connect_raw(node.address, "/graphql", &[PROTOCOL]).await?;
        ensure!(upgrade.status == 101, "the upgrade was answered by {}", upgrade.status);
        let (read_half, write_half) = upgrade.stream.into_split();
        let member = Arc::new(Self {
            voice: Voice::new(write_half),
            part: Mutex::new(part),
            replica: Mutex::default(),
            truth: watch::Sender::new(None),
            faults: Mutex::default(),
            circle: Arc::clone(circle),
            counters: Arc::clone(counters),
        });
        let mut ear = Ear { member: Arc::clone(&member), source: BufReader::new(read_half) };
        member.say(&json!({ "type": "connection_init" }).to_string());
        ear.until("connection_ack", "").await?;
        let variables = json!({ "sessionId": session_id, "initialQueue": queue });
        member.say(&subscribe(JOINING, JOIN, &variables));
        let joined = ear.until("next", JOINING).await?;
        ensure!(!has_errors(&joined), "joining: {}", String::from_utf8_lossy(&joined));
        member.say(&subscribe(HEARING, UPDATES, &json!({ "sessionId": session_id })));
        let first = ear.until("next", HEARING).await?;
        lock(&member.replica).take(first)?;
        Ok((member, ear))
    }

    /// Edits so often, as was due at this moment.
    pub(super) fn edit(&self, count: u64, intended_nanos: u64) {
        self.counters.add(Tally::Sent, count);
        let mut part = lock(&self.part);
        self.voice.say(|frames| {
            for _ in 0..count {
                frames.extend(masked_text_frame(&part.next_edit(intended_nanos)));
            }
        });
    }

    /// How far its copy is.
    pub(super) fn sequence(&self) -> u64 {
        lock(&self.replica).sequence
    }

    /// Asks the server for the session once more, and compares. Answers what is wrong.
    pub(super) async fn check(&self, session_id: &str) -> Vec<String> {
        self.say(&subscribe(LOOKING, UPDATES, &json!({ "sessionId": session_id })));
        let mut truth = self.truth.subscribe();
        let truth = match timeout(ANSWER_WITHIN, truth.wait_for(Option::is_some)).await {
            Ok(Ok(truth)) => truth.clone().unwrap_or_default(),
            Ok(Err(_)) | Err(_) => Replica::default(),
        };
        let replica = lock(&self.replica).clone();
        let mut faults = lock(&self.faults).clone();
        if replica.resyncs > 0 {
            faults.push(format!("{} whole states in place of events", replica.resyncs));
        }
        faults.extend(replica.check(&truth).err().map(|error| format!("{error:#}")));
        faults
    }

    fn say(&self, text: &str) {
        self.voice.say(|frames| frames.extend(masked_text_frame(text)));
    }

    fn hear(&self, text: Vec<u8>) {
        let message: Message<'_> = match serde_json::from_slice(&text) {
            Ok(message) => message,
            Err(error) => return lock(&self.faults).push(format!("no message: {error}")),
        };
        match (message.kind, message.id) {
            ("next", HEARING) => self.hear_event(text),
            ("next", LOOKING) => {
                // Only the first answer counts: events may follow it.
                let mut truth = Replica::default();
                let is_read = self.truth.borrow().is_none() && truth.take(text).is_ok();
                is_read.then(|| self.truth.send_replace(Some(truth)));
            }
            ("next", id) if !has_errors(&text) => self.hear_answer(id),
            ("next" | "error", _) => self.counters.refused(&text[..text.len().min(300)]),
            ("complete", HEARING) => {
                lock(&self.faults).push("its subscription ended".to_owned());
            }
            _ => {}
        }
    }

    fn hear_event(&self, text: Vec<u8>) {
        let now = self.counters.epoch().nanos();
        let taken = match lock(&self.replica).take(text) {
            Ok(taken) => taken,
            Err(error) => return lock(&self.faults).push(format!("{error:#}")),
        };
        self.counters.add(Tally::Deliveries, 1);
        let intended = taken.correlation_id.as_deref().and_then(intended_nanos);
        if let Some(intended) = intended
            && self.circle.hears(taken.sequence)
        {
            self.counters.record(&[now.saturating_sub(intended)]);
        }
    }

    fn hear_answer(&self, id: &str) {
        let now = self.counters.epoch().nanos();
        let Some(intended) = intended_nanos(id) else { return };
        self.counters.add(Tally::Acks, 1);
        self.counters.record_acks(&[now.saturating_sub(intended)]);
        // What the socket did not take before is tried again in any case.
        self.edit(u64::from(self.counters.repeats_at(now)), now);
    }
}

impl Ear {
    /// Hears until the connection ends.
    pub(super) async fn run(mut self) {
        while let Ok(text) = self.text().await {
            self.member.hear(text);
        }
        self.member.counters.add(Tally::Closed, 1);
    }

    /// The next message of this kind and operation; others are passed over.
    async fn until(&mut self, kind: &str, id: &str) -> Result<Vec<u8>> {
        let wait = async {
            loop {
                let text = self.text().await?;
                let message: Message<'_> = serde_json::from_slice(&text)?;
                if (message.kind, message.id) == (kind, id) {
                    return Ok(text);
                }
                let said = String::from_utf8_lossy(&text);
                ensure!(message.kind != "error", "the server refused: {said}");
            }
        };
        timeout(ANSWER_WITHIN, wait).await.with_context(|| format!("no {kind} {id} in time"))?
    }

    async fn text(&mut self) -> Result<Vec<u8>> {
        loop {
            let frame = read_server_frame(&mut self.source).await?;
            match frame.opcode {
                OPCODE_TEXT => return Ok(frame.payload),
                OPCODE_PING => {
                    let pong = masked_frame(PONG, &frame.payload);
                    self.member.voice.say(|frames| frames.extend(pong));
                }
                OPCODE_CLOSE => {
                    let said = String::from_utf8_lossy(&frame.payload).into_owned();
                    anyhow::bail!("the server closed the connection: {said:?}");
                }
                _ => {}
            }
        }
    }
}

fn has_errors(text: &[u8]) -> bool {
    serde_json::from_slice::<Answer>(text).is_ok_and(|answer| !answer.payload.errors.is_empty())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
