//! The task that pushes presence. No other task does, so a connection's snapshot comes
//! before its events, and the events of a user stay in order.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heartline_durability::Sight;
use heartline_protocol::server_frame::{ErrorDetails, ErrorFrame, Presence};
use heartline_protocol::{ErrorCode, RequestId, ServerFrame, UserId, encode_server};
use heartline_routing::{Change, PresenceNews};
use heartline_runtime::{Set, until};
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::reader::{PresenceReader, unknown};
use super::watches::{TooMany, Watches};
use super::{Command, TypingNews, Watch};
use crate::handle::Handle;
use crate::hub::{Handles, Hub};
use crate::session::Response;
use crate::websocket::text_frame;

/// How long changes are collected, so that many of them are read together.
const GATHER_TIME: Duration = Duration::from_millis(100);

/// The pause before users are evaluated again whose presence could not be read.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How often to check whether the directory still answers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Checks between two searches for closed connections whose removal was dropped.
const CHECKS_PER_PRUNING: u32 = 30;

/// Pairs evaluated with one read of the directory and the store.
const SIGHTS_MAX: usize = 2000;

/// Commands that are performed together, at most.
const BATCH_COMMANDS: usize = 256;

/// Pushes presence to the observers of this node.
#[derive(Debug)]
pub struct PresenceTask {
    hub: Arc<Hub>,
    reader: PresenceReader,
    commands: mpsc::Receiver<Command>,
    changes: broadcast::Receiver<Change>,
    missed: Arc<Notify>,
    watches: Watches,
    /// Users to evaluate again.
    due: Set<UserId>,
    /// When to evaluate the due users.
    evaluate_at: Option<Instant>,
    /// Whether the directory is stale, and `unknown` was pushed to every observer.
    is_stale: bool,
}

impl PresenceTask {
    pub(super) fn new(
        hub: Arc<Hub>,
        reader: PresenceReader,
        commands: mpsc::Receiver<Command>,
        missed: Arc<Notify>,
    ) -> Self {
        // Subscribed before the first read, so that no change is missed.
        let changes = reader.states.changes();
        let (watches, due) = (Watches::default(), Set::default());
        Self {
            hub,
            reader,
            commands,
            changes,
            missed,
            watches,
            due,
            evaluate_at: None,
            is_stale: false,
        }
    }

    /// Runs until the gateway is dropped.
    pub async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH_COMMANDS);
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut checks_done = 0_u32;
        loop {
            tokio::select! {
                // Timers first, because they are rare and bounded; then changes, whose channel
                // drops the oldest when it is full; commands last, because their queue makes its
                // senders wait.
                biased;
                _ = checks.tick() => {
                    checks_done = checks_done.wrapping_add(1);
                    self.check(checks_done.is_multiple_of(CHECKS_PER_PRUNING));
                }
                () = until(self.evaluate_at) => self.evaluate_due().await,
                () = self.missed.notified() => self.all_are_due(),
                change = self.changes.recv() => self.receive(change),
                count = self.commands.recv_many(&mut batch, BATCH_COMMANDS) => {
                    if count == 0 {
                        return;
                    }
                    self.perform(&mut batch).await;
                }
            }
        }
    }

    fn receive(&mut self, change: Result<Change, broadcast::error::RecvError>) {
        match change {
            Ok(Change::Transition(transition) | Change::Decided(transition)) => {
                self.is_due(transition.user_id);
            }
            Ok(Change::Gap) | Err(broadcast::error::RecvError::Lagged(_)) => {
                self.all_are_due();
            }
            // The directory was dropped: the node is stopping.
            Err(broadcast::error::RecvError::Closed) => {}
        }
    }

    fn is_due(&mut self, user_id: UserId) {
        self.due.insert(user_id);
        self.evaluate_at.get_or_insert(self.hub.clock().now() + GATHER_TIME);
    }

    fn all_are_due(&mut self) {
        self.due.extend(self.watches.users());
        self.evaluate_at.get_or_insert(self.hub.clock().now() + GATHER_TIME);
    }

    async fn perform(&mut self, batch: &mut Vec<Command>) {
        let mut typing = Vec::new();
        let mut beginning = Vec::new();
        for command in batch.drain(..) {
            // The commands of one connection are performed in order.
            if command.ends_watches(&beginning) {
                self.begin(std::mem::take(&mut beginning)).await;
            }
            match command {
                Command::Watch(watch, answer) if watch.begins => beginning.push((watch, answer)),
                Command::Watch(watch, answer) => {
                    if let Some(connection_id) = watch.handle.connection_id() {
                        self.watches.unsubscribe(connection_id, &watch.user_ids);
                    }
                    self.snapshot(&watch.handle, watch.request_id, Vec::new(), answer);
                }
                Command::Leave(connection_id) => self.watches.leave(connection_id),
                Command::News(news) => news.into_iter().for_each(|news| self.add_observers(&news)),
                Command::PrivacyChanged(user_ids) => {
                    user_ids.into_iter().for_each(|user_id| self.is_due(user_id));
                }
                Command::Typing(news) => typing.push(news),
            }
        }
        self.begin(beginning).await;
        self.push_typing(typing).await;
        self.hub.metrics().presence.watches.set(self.watches.len() as i64);
    }

    /// Subscribes connections: first the subscription, then the read, so that no event is lost
    /// between the two.
    async fn begin(&mut self, watches: Vec<(Watch, oneshot::Sender<Response>)>) {
        let mut sights = Vec::new();
        let mut begun = Vec::new();
        for (watch, answer) in watches {
            let Some(identity) = watch.handle.identity() else { continue };
            let observer_id = &identity.key.user_id;
            match self.watches.subscribe(&watch.handle, &watch.user_ids) {
                Ok(()) => {
                    let sight = |user_id: &UserId| Sight {
                        observer_id: observer_id.clone(),
                        user_id: user_id.clone(),
                    };
                    sights.extend(watch.user_ids.iter().map(sight));
                    begun.push((watch, answer));
                }
                Err(TooMany) => {
                    // The client may have disconnected.
                    let _ = answer.send(Response::Reply(too_many(watch.request_id)));
                }
            }
        }
        if begun.is_empty() {
            return;
        }
        let mut seen = self.reader.read(&sights).await.into_iter();
        for (watch, answer) in begun {
            let users: Vec<Presence> = seen.by_ref().take(watch.user_ids.len()).collect();
            if let Some(connection_id) = watch.handle.connection_id() {
                users.iter().for_each(|seen| self.watches.record_snapshot(connection_id, seen));
            }
            let unreadable = users.iter().filter(|seen| seen.stale && !self.is_stale);
            let unreadable: Vec<UserId> = unreadable.map(|seen| seen.user_id.clone()).collect();
            unreadable.into_iter().for_each(|user_id| self.retry_later(user_id));
            self.snapshot(&watch.handle, watch.request_id, users, answer);
        }
    }

    /// Queues a snapshot in the data lane, as events are, so that no event overtakes it.
    fn snapshot(
        &self,
        handle: &Arc<Handle>,
        request_id: RequestId,
        users: Vec<Presence>,
        answer: oneshot::Sender<Response>,
    ) {
        let frame = self.encode(&ServerFrame::PresenceSnapshot { request_id, users });
        self.hub.write_to(handle, &frame, self.hub.clock().now());
        // The client may have disconnected.
        let _ = answer.send(Response::AlreadyQueued);
    }

    /// Stop 9 of the life of a presence transition: observed. Lets members of shared active chats
    /// observe a user without a subscription.
    fn add_observers(&mut self, news: &PresenceNews) {
        tracing::trace!(target: "heartline::life", presence_stop = 9, "observed");
        let user_id = &news.transition.user_id;
        for observer_id in news.observer_ids.iter().filter(|observer| *observer != user_id) {
            for handle in self.hub.connections_of(observer_id) {
                self.watches.observe(&handle, user_id);
            }
        }
        self.is_due(user_id.clone());
    }

    /// Stop 10 of the life of a presence transition: evaluated. Reads the due users, and pushes
    /// each observer the states that have changed.
    async fn evaluate_due(&mut self) {
        tracing::trace!(target: "heartline::life", presence_stop = 10, "evaluated");
        self.evaluate_at = None;
        let due: Vec<UserId> = self.due.drain().collect();
        let mut sights = Vec::new();
        for user_id in due {
            let observers = self.watches.observers(&user_id).into_iter();
            let sight = |observer_id| Sight { observer_id, user_id: user_id.clone() };
            sights.extend(observers.map(sight));
            if sights.len() >= SIGHTS_MAX {
                self.push_changes(std::mem::take(&mut sights)).await;
            }
        }
        self.push_changes(sights).await;
    }

    /// Stop 12 of the life of a presence transition: pushed, to connections to which another
    /// state was pushed last.
    async fn push_changes(&mut self, sights: Vec<Sight>) {
        if sights.is_empty() {
            return;
        }
        let seen = self.reader.read(&sights).await;
        let now = self.hub.clock().now();
        // Most observers of one user see the same state, which is encoded once.
        let mut last: Option<(Presence, Bytes)> = None;
        for (sight, seen) in sights.into_iter().zip(seen) {
            if seen.stale {
                self.hub.metrics().presence.unjudged.inc();
                self.retry_later(sight.user_id);
                continue;
            }
            for handle in self.outdated(&sight.observer_id, &seen) {
                let frame = match &last {
                    Some((same, frame)) if *same == seen => frame.clone(),
                    _ => self.encode(&ServerFrame::PresenceChanged(seen.clone())),
                };
                tracing::trace!(target: "heartline::life", presence_stop = 12, "pushed");
                self.hub.write_to(&handle, &frame, now);
                self.hub.metrics().presence.events.inc();
                last = Some((seen.clone(), frame));
            }
        }
    }

    /// The connections of an observer to which another state of the user was pushed last.
    fn outdated(&mut self, observer_id: &UserId, seen: &Presence) -> Handles {
        let mut handles = self.hub.connections_of(observer_id);
        handles.retain(|handle| {
            handle.connection_id().is_some_and(|id| self.watches.record_change(id, seen))
        });
        handles
    }

    fn retry_later(&mut self, user_id: UserId) {
        self.due.insert(user_id);
        self.evaluate_at.get_or_insert(self.hub.clock().now() + RETRY_PAUSE);
    }

    /// When the directory becomes stale, pushes `unknown` for every observed user, once.
    fn check(&mut self, prunes: bool) {
        if prunes {
            self.watches.closing().into_iter().for_each(|gone| self.watches.leave(gone));
        }
        let is_stale = self.reader.is_stale();
        if is_stale == self.is_stale {
            return;
        }
        self.is_stale = is_stale;
        if !is_stale {
            return self.all_are_due();
        }
        let now = self.hub.clock().now();
        for user_id in self.watches.users() {
            let is_unknown = unknown(&user_id, true);
            let frame = self.encode(&ServerFrame::PresenceChanged(is_unknown.clone()));
            for observer_id in self.watches.observers(&user_id) {
                for handle in self.outdated(&observer_id, &is_unknown) {
                    self.hub.write_to(&handle, &frame, now);
                    self.hub.metrics().presence.events.inc();
                }
            }
        }
    }

    /// Pushes typing to the recipients that may see the typing user.
    async fn push_typing(&self, typing: Vec<TypingNews>) {
        let here = |news: &TypingNews| -> Vec<Sight> {
            let others = news.user_ids.iter().filter(|other| **other != news.user_id);
            let here = others.filter(|other| !self.hub.connections_of(other).is_empty());
            let sight = |observer_id: &UserId| Sight {
                observer_id: observer_id.clone(),
                user_id: news.user_id.clone(),
            };
            here.map(sight).collect()
        };
        let observers: Vec<Vec<Sight>> = typing.iter().map(here).collect();
        let sights: Vec<Sight> = observers.iter().flatten().cloned().collect();
        if sights.is_empty() {
            return;
        }
        let mut allowed = self.reader.may_see(&sights).await.into_iter();
        let now = self.hub.clock().now();
        for (news, observers) in typing.into_iter().zip(observers) {
            let TypingNews { chat_id, user_id, is_typing, .. } = news;
            let frame = self.encode(&ServerFrame::TypingIndicator { chat_id, user_id, is_typing });
            for (sight, is_allowed) in observers.iter().zip(allowed.by_ref()) {
                if is_allowed {
                    for handle in self.hub.connections_of(&sight.observer_id) {
                        self.hub.write_to(&handle, &frame, now);
                    }
                }
            }
        }
    }

    fn encode(&self, frame: &ServerFrame) -> Bytes {
        text_frame(&encode_server(frame, self.hub.clock().wall()))
    }
}

impl Command {
    /// Whether the command removes subscriptions of a connection that are about to begin.
    fn ends_watches(&self, beginning: &[(Watch, oneshot::Sender<Response>)]) -> bool {
        let ending = match self {
            Self::Leave(connection_id) => Some(*connection_id),
            Self::Watch(watch, _) if !watch.begins => watch.handle.connection_id(),
            _ => None,
        };
        let is_its = |(watch, _): &(Watch, _)| watch.handle.connection_id() == ending;
        ending.is_some() && beginning.iter().any(is_its)
    }
}

fn too_many(request_id: RequestId) -> ServerFrame {
    let reason = Some("too_many_subscriptions".to_owned());
    let message =
        "this connection observes the maximum number of users: unsubscribe from some first";
    ServerFrame::Error(ErrorFrame {
        request_id: Some(request_id),
        details: Some(ErrorDetails { reason, ..Default::default() }),
        ..ErrorFrame::new(ErrorCode::Conflict, message)
    })
}
