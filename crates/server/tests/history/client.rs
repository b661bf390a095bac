//! A client of a run, which sends, retries, forgets, disconnects and reconnects at random.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::limits::CONTENT_BYTES_MAX;
use heartline_runtime::Clock;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, sleep_until};

use crate::cursor::Cursor;
use crate::history::{Event, Seen};
use crate::run::{Phase, Shared};
use crate::session::{Draft, Outcome, Session};

/// Sends that one client has open at most.
const IN_FLIGHT_MAX: usize = 24;

/// Acknowledged messages that a client keeps to repeat.
const KEPT_MAX: usize = 64;

/// Messages that a client keeps to send again.
const AGAIN_MAX: usize = 50;

/// How the content begins that contradicts what was sent before.
const OTHER: &str = "other";

/// A chat without members.
const NO_CHAT: &str = "chat_00000000000000000000000000";

/// The heartbeat interval of a client.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// One client, over all its connections.
#[derive(Debug)]
pub(crate) struct Client {
    shared: Arc<Shared>,
    index: usize,
    user: String,
    /// The node that it connects to next.
    node: usize,
    random: StdRng,
    cursors: HashMap<String, Cursor>,
    /// How many messages were sent to each chat: their names repeat from chat to chat and from
    /// client to client, as they may.
    sent: HashMap<String, u64>,
    again: Vec<Draft>,
    acknowledged: Vec<Draft>,
    heartbeat_at: Instant,
}

/// How the life of a connection went.
enum Lived {
    Lost,
    Dropped,
    Finished,
}

impl Client {
    pub(crate) fn new(shared: &Arc<Shared>, index: usize, seed: u64) -> Self {
        let cursors = shared.chats.iter().map(|chat| (chat.clone(), Cursor::default()));
        Self {
            shared: Arc::clone(shared),
            index,
            user: shared.users[index].clone(),
            node: index % shared.addresses.len(),
            random: StdRng::seed_from_u64(seed.wrapping_add(index as u64 + 1)),
            cursors: cursors.collect(),
            sent: HashMap::new(),
            again: Vec::new(),
            acknowledged: Vec::new(),
            heartbeat_at: Clock::system().now(),
        }
    }

    /// Runs until the final reads of the run are done.
    pub(crate) async fn run(mut self) {
        loop {
            let connecting = Session::connect(&self.shared, &self.user, self.node);
            let Some(mut session) = connecting.await else {
                self.node = (self.node + 1) % self.shared.addresses.len();
                let pause = Duration::from_millis(self.random.random_range(10..100));
                tokio::time::sleep(pause).await;
                continue;
            };
            let lived = self.live(&mut session).await;
            self.shared.settle(self.index, false);
            let in_flight = session.end(!matches!(lived, Lived::Lost));
            in_flight.into_iter().for_each(|draft| self.uncertain(draft));
            if matches!(lived, Lived::Finished) {
                return;
            }
            self.node = self.random.random_range(0..self.shared.addresses.len());
        }
    }

    /// One connection, from its beginning to its end.
    async fn live(&mut self, session: &mut Session) -> Lived {
        let mut phase = self.shared.phase.subscribe();
        let mut act_at = Clock::system().now();
        loop {
            tokio::select! {
                biased;
                said = session.next() => {
                    let Some(said) = said else { return Lived::Lost };
                    session.receive(said, &mut self.cursors).await;
                    let outcomes = std::mem::take(&mut session.outcomes);
                    outcomes.into_iter().for_each(|outcome| self.learn(outcome));
                }
                _ = phase.changed() => {}
                () = sleep_until(act_at) => {
                    let pause = self.random.random_range(self.shared.pace_ms.clone());
                    act_at = Clock::system().now() + Duration::from_millis(pause);
                    let busy = *phase.borrow() == Phase::Busy;
                    if busy && self.act(session).await {
                        return Lived::Dropped;
                    }
                    self.duties(session).await;
                }
            }
            if *phase.borrow() == Phase::Read {
                return if self.finish(session).await { Lived::Finished } else { Lived::Lost };
            }
            let settled = *phase.borrow() == Phase::Settle && self.is_settled(session);
            self.shared.settle(self.index, settled);
        }
    }

    fn is_settled(&self, session: &Session) -> bool {
        let complete = self.cursors.values().all(|cursor| !cursor.has_gap());
        session.is_idle() && session.is_informed() && self.again.is_empty() && complete
    }

    fn learn(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Stored(draft) => {
                if self.acknowledged.len() == KEPT_MAX {
                    let oldest = self.random.random_range(0..KEPT_MAX);
                    self.acknowledged.swap_remove(oldest);
                }
                self.acknowledged.push(draft);
            }
            Outcome::Refused(draft) | Outcome::Unknown(draft) => self.uncertain(draft),
            Outcome::Hopeless => {}
        }
    }

    /// Most of what did not succeed is tried again; some of it is forgotten.
    fn uncertain(&mut self, draft: Draft) {
        let is_legal = draft.chat != NO_CHAT && draft.content.len() <= CONTENT_BYTES_MAX;
        let is_kept = self.again.len() < AGAIN_MAX && self.random.random_ratio(3, 4);
        if is_legal && is_kept && !draft.content.starts_with(OTHER) {
            self.again.push(draft);
        }
    }

    /// The actions that a client must always take.
    async fn duties(&mut self, session: &mut Session) {
        let now = Clock::system().now();
        if now >= self.heartbeat_at {
            self.heartbeat_at = now + HEARTBEAT;
            session.heartbeat().await;
        }
        session.manifest_if_due().await;
        while session.in_flight < IN_FLIGHT_MAX
            && let Some(due) = self.again.iter().position(|draft| draft.not_before <= now)
        {
            session.send(self.again.swap_remove(due)).await;
        }
        self.heal(session).await;
    }

    /// Asks for what is missing, unless it may be the own message whose answer is under way.
    async fn heal(&mut self, session: &mut Session) {
        let in_flight = session.chats_in_flight();
        let gap = self
            .cursors
            .iter()
            .find(|(chat, cursor)| cursor.has_gap() && !in_flight.contains(chat.as_str()))
            .map(|(chat, cursor)| (chat.clone(), cursor.complete));
        if let Some((chat, after)) = gap {
            let limit = self.random.random_range(1..=500);
            session.sync(&chat, after, limit, &self.cursors[&chat]).await;
        }
    }

    /// Takes a random action; returns whether to disconnect.
    async fn act(&mut self, session: &mut Session) -> bool {
        let chat = self.shared.chats[self.random.random_range(0..self.shared.chats.len())].clone();
        match self.random.random_range(0..1000) {
            0..700 => self.burst(session).await,
            700..780 => self.repeat(session).await,
            780..800 => self.contradict(session).await,
            800..820 => {
                let bytes = self.random.random_range(CONTENT_BYTES_MAX + 1..6000);
                let draft = self.draft(&chat, bytes);
                session.send(draft).await;
            }
            820..840 => {
                let draft = self.draft(NO_CHAT, 10);
                session.send(draft).await;
            }
            840..930 if self.is_steady() => {}
            840..900 => {
                let after = self.random.random_range(0..=self.cursors[&chat].complete);
                let limit = self.random.random_range(1..=20);
                session.sync(&chat, after, limit, &self.cursors[&chat]).await;
            }
            900..930 => session.manifest().await,
            930..980 => session.watermark(&chat, self.cursors[&chat].complete).await,
            980..990 => return !self.is_steady(),
            _ => {
                self.burst(session).await;
                return !self.is_steady();
            }
        }
        false
    }

    /// Whether the client never disconnects and syncs only on `resync_required`, so that only the
    /// server's frames repair its copy.
    fn is_steady(&self) -> bool {
        self.index < self.shared.steady
    }

    fn draft(&mut self, chat: &str, bytes: usize) -> Draft {
        let number = self.sent.entry(chat.to_owned()).or_default();
        *number += 1;
        let id = format!("m{number}");
        let mut content = format!("{number} {} {:016x} ", self.user, self.random.random::<u64>());
        while content.len() < bytes {
            content.push(self.random.random_range('!'..='~'));
        }
        Draft { chat: chat.to_owned(), id, content, not_before: Clock::system().now() }
    }

    /// Sends some new messages at once, without waiting for an answer.
    async fn burst(&mut self, session: &mut Session) {
        for _ in 0..self.random.random_range(1..=6) {
            if session.in_flight >= IN_FLIGHT_MAX {
                return;
            }
            let index = self.random.random_range(0..self.shared.chats.len());
            let chat = self.shared.chats[index].clone();
            let bytes_max = [64, 64, 64, 500, CONTENT_BYTES_MAX][self.random.random_range(0..5)];
            let bytes = self.random.random_range(1..=bytes_max);
            let draft = self.draft(&chat, bytes);
            session.send(draft).await;
        }
    }

    /// Sends again what is stored, or what is still under way.
    async fn repeat(&mut self, session: &mut Session) {
        let open = session.any_in_flight().filter(|draft| draft.chat != NO_CHAT);
        let draft = match open {
            Some(draft) if self.random.random() => Some(draft),
            _ => self.any_acknowledged(),
        };
        if let Some(draft) = draft {
            session.send(draft).await;
        }
    }

    /// Sends other content under a name that is taken: it must be refused.
    async fn contradict(&mut self, session: &mut Session) {
        if let Some(mut draft) = self.any_acknowledged() {
            draft.content = format!("{OTHER} {}", self.random.random::<u64>());
            session.send(draft).await;
        }
    }

    fn any_acknowledged(&mut self) -> Option<Draft> {
        let count = self.acknowledged.len();
        (count > 0).then(|| self.acknowledged[self.random.random_range(0..count)].clone())
    }

    /// Acknowledges what the client has, syncs from there, and reads every chat from its beginning.
    async fn finish(&mut self, session: &mut Session) -> bool {
        self.shared.recorder.record(Event::Quiet { client: self.user.clone() });
        for chat in self.shared.chats.clone() {
            let after = self.cursors[&chat].complete;
            if self.pages(session, &chat, after).await.is_none() {
                return false;
            }
        }
        self.shared.recorder.record(Event::CaughtUp { client: self.user.clone() });
        for chat in self.shared.chats.clone() {
            let Some(messages) = self.pages(session, &chat, 0).await else { return false };
            let reader = self.user.clone();
            self.shared.recorder.record(Event::FinalRead { reader, chat, messages });
        }
        true
    }

    /// Every page of a chat after a number; none if the connection ends.
    async fn pages(
        &mut self,
        session: &mut Session,
        chat: &str,
        mut after: u64,
    ) -> Option<Vec<Seen>> {
        let mut all = Vec::new();
        loop {
            session.page = None;
            while !session.sync(chat, after, 500, &self.cursors[chat]).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            while !session.is_idle() {
                let said = session.next().await?;
                session.receive(said, &mut self.cursors).await;
            }
            let Some(page) = session.page.take() else { continue };
            after = page.messages.last().map_or(after, |last| last.sequence);
            all.extend(page.messages);
            if !page.has_more {
                return Some(all);
            }
        }
    }
}
