//! A socket whose every frame is noted with the time at which it came.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartline_client::raw::{OPCODE_CLOSE, OPCODE_TEXT, masked_text_frame, read_server_frame};
use heartline_runtime::TaskSet;
use heartline_testing::{Socket, close_of};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::nodes::now;

/// A frame and when it came. The end of the connection is a frame of the type `end`.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) frame: Value,
}

/// A socket that is read all the time.
pub(crate) struct RecordingSocket {
    received: Arc<Mutex<Vec<Received>>>,
    count: watch::Receiver<usize>,
    writer: OwnedWriteHalf,
    /// The task that reads; ends with the socket.
    _task: TaskSet<()>,
}

impl RecordingSocket {
    pub(crate) fn of(socket: Socket) -> Self {
        let (reader, writer) = socket.stream.into_split();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (counter, count) = watch::channel(0);
        let mut task = TaskSet::new();
        task.spawn(listen(reader, Arc::clone(&received), counter));
        Self { received, count, writer, _task: task }
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.writer.write_all(&masked_text_frame(&frame.to_string())).await.unwrap();
    }

    /// Everything so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The presence events of a user so far, in order.
    pub(crate) fn presence_of(&self, user: &str) -> Vec<Value> {
        let is_it = |frame: &Value| frame["type"] == "presence_changed" && frame["user_id"] == user;
        self.received().into_iter().map(|received| received.frame).filter(is_it).collect()
    }

    /// Waits for a frame, which may have come already, for at most so long.
    pub(crate) async fn receives(
        &self,
        what: &str,
        within: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Received {
        let find = || {
            self.received.lock().unwrap().iter().find(|received| is_it(&received.frame)).cloned()
        };
        let mut count = self.count.clone();
        let found = timeout(within, count.wait_for(|_| find().is_some())).await.is_ok();
        if !found {
            panic!("{what} was not received within {within:?}: {:#?}", self.received());
        }
        find()
            .unwrap_or_else(|| panic!("{what} was not received to the end: {:#?}", self.received()))
    }

    /// Waits for the message that has this content.
    pub(crate) async fn receives_message(&self, content: &str, within: Duration) -> Received {
        let is_it = |frame: &Value| frame["type"] == "message" && frame["content"] == content;
        self.receives(content, within, is_it).await
    }

    /// Waits for the message with this content, live or by a sync that the server requested.
    pub(crate) async fn receives_live_or_by_sync(
        &mut self,
        chat: &str,
        content: &str,
        within: Duration,
    ) {
        let sync = json!({
            "type": "sync_request", "request_id": "sync", "chat_id": chat, "after_sequence": 0
        });
        let deadline = now() + within;
        for orders in 1.. {
            let received = Arc::clone(&self.received);
            let is_there = || received.lock().unwrap().iter().any(|it| has(&it.frame, content));
            let is_resync = |received: &&Received| received.frame["type"] == "resync_required";
            let is_told = || received.lock().unwrap().iter().filter(is_resync).count() >= orders;
            let mut count = self.count.clone();
            let wait = count.wait_for(|_| is_there() || is_told());
            if timeout_at(deadline, wait).await.is_err() {
                panic!("{content} was not received within {within:?}: {:#?}", self.received());
            }
            if is_there() {
                return;
            }
            self.send(&sync).await;
        }
    }

    /// Whether the connection has not ended.
    pub(crate) fn is_open(&self) -> bool {
        !self.received.lock().unwrap().iter().any(|received| received.frame["type"] == "end")
    }
}

/// Whether a frame brings the message that has this content.
fn has(frame: &Value, content: &str) -> bool {
    let page = frame["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_live = frame["type"] == "message" && frame["content"] == content;
    is_live || page.iter().any(|message| message["content"] == content)
}

async fn listen(
    mut reader: OwnedReadHalf,
    received: Arc<Mutex<Vec<Received>>>,
    counter: watch::Sender<usize>,
) {
    loop {
        let frame = read_server_frame(&mut reader).await;
        let frame = match &frame {
            Ok(frame) if frame.opcode == OPCODE_TEXT => {
                serde_json::from_slice(&frame.payload).unwrap()
            }
            Ok(frame) if frame.opcode == OPCODE_CLOSE => {
                json!({ "type": "close", "code": close_of(frame).map(|(code, _)| code) })
            }
            Ok(_) => continue,
            Err(error) => json!({ "type": "end", "error": error.to_string() }),
        };
        let is_end = frame["type"] == "end";
        received.lock().unwrap().push(Received { at: now(), frame });
        counter.send_modify(|count| *count += 1);
        if is_end {
            return;
        }
    }
}
