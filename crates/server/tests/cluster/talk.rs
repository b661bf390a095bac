//! Users on several nodes who send messages all the time, and the outcome of every message.

use std::collections::HashMap;
use std::time::Duration;

use heartline_testing::PATIENCE;
use heartline_testing::chat::send_frame;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::nodes::now;
use crate::recording_socket::{Received, RecordingSocket};

/// How often each user sends a message.
const PACE: Duration = Duration::from_millis(250);

/// A sent message.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) id: String,
    /// The index of the talker.
    pub(crate) talker: usize,
    pub(crate) at: Instant,
}

/// Has every talker say something four times a second until it is enough.
pub(crate) async fn talk(
    talkers: &mut [RecordingSocket],
    chat: &str,
    is_enough: &watch::Receiver<bool>,
) -> Vec<Said> {
    let mut said = Vec::new();
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*is_enough.borrow() {
        ticks.tick().await;
        for (talker, recording) in talkers.iter_mut().enumerate() {
            let id = format!("said-{}-by-{talker}", said.len());
            said.push(Said { id: id.clone(), talker, at: now() });
            recording.send(&send_frame(chat, &id, &id)).await;
        }
    }
    said
}

/// The time until each message was acknowledged; every message must be.
pub(crate) fn ack_times(talkers: &[RecordingSocket], said: &[Said]) -> Vec<Duration> {
    let acks: Vec<_> = talkers.iter().map(acknowledged).collect();
    let took = said.iter().map(|Said { id, talker, at }| {
        let acked_at = acks[*talker].get(id).unwrap_or_else(|| panic!("{id} was not acked"));
        *acked_at - *at
    });
    took.collect()
}

/// Asserts that 99% took no longer than this, and none three times as long: a busy machine may
/// delay one message, a hang delays several. Returns the longest.
pub(crate) fn are_prompt(took: &[Duration], within: Duration) -> Duration {
    let late = took.iter().filter(|took| **took > within).count();
    let slowest = took.iter().max().copied().expect("something was said");
    let is_fine = late * 100 <= took.len() && slowest <= within * 3;
    assert!(is_fine, "{late} of {} took longer than {within:?}, up to {slowest:?}", took.len());
    slowest
}

/// When each request of a talker was answered, which must have been by an acknowledgement.
fn acknowledged(talker: &RecordingSocket) -> HashMap<String, Instant> {
    let mut acknowledged = HashMap::new();
    for Received { at, frame } in talker.received() {
        assert_ne!(frame["type"], "error", "{frame}");
        if frame["type"] == "message_ack" {
            acknowledged.insert(frame["client_message_id"].as_str().unwrap().to_owned(), at);
        }
    }
    acknowledged
}

/// When a listener was pushed each message, by its id.
fn pushed(listener: &RecordingSocket) -> HashMap<String, Instant> {
    let messages = listener.received().into_iter().filter(|it| it.frame["type"] == "message");
    let by_id = |Received { at, frame }: Received| {
        (frame["client_message_id"].as_str().unwrap().to_owned(), at)
    };
    messages.map(by_id).collect()
}

/// Whether a listener was pushed the messages of each chat in rising order.
pub(crate) fn hears_in_order(listener: &RecordingSocket) {
    let mut highest: HashMap<String, u64> = HashMap::new();
    for Received { frame, .. } in listener.received() {
        if frame["type"] == "message" {
            let chat = frame["chat_id"].as_str().unwrap().to_owned();
            let sequence = frame["sequence"].as_u64().unwrap();
            let before = highest.insert(chat, sequence);
            assert!(before < Some(sequence), "{sequence} after {before:?}");
        }
    }
}

/// The time at which a listener last received `resync_required`.
fn told_to_sync(listener: &RecordingSocket) -> Option<Instant> {
    let is_it = |frame: &Value| frame["type"] == "resync_required";
    let received = listener.received().into_iter().filter(|received| is_it(&received.frame));
    for received in listener.received().into_iter().filter(|received| is_it(&received.frame)) {
        let delay_ms = received.frame["delay_ms"].as_u64();
        assert!(delay_ms.is_some_and(|delay_ms| delay_ms <= 2000), "{}", received.frame);
    }
    received.map(|received| received.at).next_back()
}

/// The messages of others that a listener received.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// Pushed messages: the time of the send, and the latency.
    pub(crate) pushes: Vec<(Instant, Duration)>,
    /// Messages that were not pushed, but followed by `resync_required`.
    pub(crate) synced: Vec<Instant>,
}

impl Reach {
    /// Waits until a listener got everything. Whatever was not pushed must have been followed by
    /// the advice to sync.
    pub(crate) async fn of(listener: &RecordingSocket, said: &[Said]) -> Self {
        let judging = async {
            loop {
                match Self::judge(listener, said) {
                    Ok(reach) => return reach,
                    Err(_) => sleep(PACE).await,
                }
            }
        };
        match timeout(PATIENCE, judging).await {
            Ok(reach) => reach,
            Err(_) => panic!("{:?}", Self::judge(listener, said).err()),
        }
    }

    /// The messages that a listener received, or a description of those that are missing.
    fn judge(listener: &RecordingSocket, said: &[Said]) -> Result<Self, String> {
        let (pushed, sync_at) = (pushed(listener), told_to_sync(listener));
        let mut reach = Self::default();
        for Said { id, at, .. } in said {
            match pushed.get(id) {
                Some(pushed_at) => reach.pushes.push((*at, *pushed_at - *at)),
                None if sync_at.is_some_and(|sync_at| sync_at > *at) => reach.synced.push(*at),
                None => {
                    let ago = sync_at.map(|sync_at| *at - sync_at);
                    return Err(format!(
                        "{id} was neither pushed nor followed by resync_required, which was told \
                         {ago:?} before"
                    ));
                }
            }
        }
        Ok(reach)
    }

    /// The latencies of all messages sent in this time; all of them must have been pushed.
    pub(crate) fn times(&self, from: Instant, to: Instant) -> Vec<Duration> {
        let missed = self.synced.iter().filter(|at| (from..to).contains(at)).count();
        assert_eq!(missed, 0, "messages that were not pushed");
        let pushes = self.pushes.iter().filter(|(at, _)| (from..to).contains(at));
        pushes.map(|(_, took)| *took).collect()
    }
}
