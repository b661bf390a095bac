//! One user whom many watch.

use heartline_runtime::TaskSet;
use heartline_testing::presence::{OPEN, SENTINEL};
use heartline_testing::{PATIENCE, Server, Socket};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::HEARTLINE;

const WATCHERS: usize = 200;
const TRANSITIONS: usize = 50;

/// Many observers, each of which records the events about one user.
struct Crowd {
    told: Vec<watch::Receiver<Told>>,
    tasks: TaskSet<Vec<Value>>,
}

/// The events that an observer has received.
#[derive(Debug, Default)]
struct Told {
    /// How often of the star.
    times: usize,
    /// Whether of the sentinel's coming.
    has_seen_sentinel: bool,
}

impl Crowd {
    async fn gather(server: &Server) -> Self {
        let (mut told, mut tasks) = (Vec::new(), TaskSet::new());
        for number in 0..WATCHERS {
            let mut socket = server.connect(&format!("watcher-{number}")).await;
            let first = socket.subscribe(&["star", SENTINEL]).await;
            assert_eq!(first[0]["status"], "unknown");
            let (sender, receiver) = watch::channel(Told::default());
            told.push(receiver);
            tasks.spawn(listen(socket, sender));
        }
        Self { told, tasks }
    }

    /// Waits until every observer has received this many events.
    async fn were_told(&mut self, times: usize) {
        self.all(|told| told.times >= times).await;
    }

    async fn all(&mut self, enough: impl Fn(&Told) -> bool) {
        for told in &mut self.told {
            let waited = timeout(PATIENCE, told.wait_for(&enough)).await;
            let is_enough = matches!(waited, Ok(Ok(_)));
            drop(waited);
            assert!(is_enough, "a watcher was only told {:?}", told.borrow());
        }
    }

    /// All presence events that each observer received; the sentinel's last event follows all
    /// others.
    async fn notes(mut self, server: &Server) -> Vec<Vec<Value>> {
        let sentinel = server.connect(SENTINEL).await;
        self.all(|told| told.has_seen_sentinel).await;
        sentinel.leaves().await;
        timeout(PATIENCE, self.tasks.join_all()).await.expect("everybody sees the sentinel go")
    }
}

/// Records the events about the observed user until the sentinel has connected and disconnected.
async fn listen(mut socket: Socket, told: watch::Sender<Told>) -> Vec<Value> {
    let mut notes = Vec::new();
    loop {
        let frame = socket.json().await;
        assert_eq!(frame["type"], "presence_changed", "{frame}");
        if frame["user_id"] == "star" {
            notes.push(frame);
            told.send_modify(|told| told.times = notes.len());
        } else if frame["status"] == "online" {
            told.send_modify(|told| told.has_seen_sentinel = true);
        } else {
            return notes;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_is_told_every_state_once_and_in_order() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut crowd = Crowd::gather(&server).await;
    let mut star = None;
    for number in 1..=TRANSITIONS {
        match star.take() {
            None => star = Some(server.connect("star").await),
            Some(socket) => Socket::leaves(socket).await,
        }
        crowd.were_told(number).await;
    }
    let notes = crowd.notes(&server).await;
    assert_eq!(notes.len(), WATCHERS);
    let states = |notes: &[Value]| -> Vec<(String, u64)> {
        let state = |note: &Value| (note["status"].to_string(), note["version"].as_u64().unwrap());
        notes.iter().map(state).collect()
    };
    let first = states(&notes[0]);
    assert_eq!(first.len(), TRANSITIONS);
    for (index, (status, _)) in first.iter().enumerate() {
        assert_eq!(status, ["\"online\"", "\"offline\""][index % 2]);
    }
    assert!(first.is_sorted_by(|one, next| one.1 < next.1), "versions rise: {first:?}");
    for notes in &notes {
        assert_eq!(states(notes), first, "everybody is told the same");
    }
    assert_eq!(server.seen("ana", "star").await["status"], "offline");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_flaps_is_told_in_order_and_as_they_are_in_the_end() {
    let server = HEARTLINE.start_with(OPEN).await;
    let mut crowd = Crowd::gather(&server).await;
    for _ in 0..TRANSITIONS {
        server.connect("star").await.leaves().await;
    }
    let star = server.connect("star").await;
    crowd.were_told(1).await;
    let version = server.seen("ana", "star").await["version"].clone();
    for notes in crowd.notes(&server).await {
        let versions: Vec<_> = notes.iter().map(|note| note["version"].as_u64().unwrap()).collect();
        assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
        // An absence that is too short to be reported does not change the version.
        assert_eq!(notes.last().unwrap()["status"], "online");
        assert!(versions.last() <= version.as_u64().as_ref(), "{versions:?} {version}");
    }
    drop(star);
}
