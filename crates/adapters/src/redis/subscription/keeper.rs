//! Holds the connections of a subscription, and makes them again for ever.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, Value, cmd};
use tokio::sync::{Notify, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, warn};

use super::Message;
use super::channels::Channels;
use crate::redis::client::RedisClient;
use crate::redis::failure::RedisFailure;
use crate::redis::message_queue::MessageQueue;
use crate::redis::topology::{Master, connect, masters};

/// How often the connection is checked: a connection that was cut looks like an idle one.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// How long connecting, subscribing or a check may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The shortest and the longest wait before subscribing again.
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// Keeps the subscription alive.
pub(super) struct Keeper {
    pub(super) client: RedisClient,
    pub(super) channels: Arc<Channels>,
    pub(super) messages: Arc<MessageQueue>,
    pub(super) established: watch::Sender<bool>,
}

impl Keeper {
    pub(super) async fn run(self) -> Infallible {
        let mut back_off = BACK_OFF_MIN;
        loop {
            match self.hold().await {
                Ok(channels) => {
                    warn!(channels, "Redis subscription lost");
                    back_off = BACK_OFF_MIN;
                }
                Err(failure) => debug!(%failure, "subscribing to Redis failed"),
            }
            let jitter = self.client.random().draw_within(0.5..1.0);
            sleep(back_off.mul_f64(jitter)).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }

    /// Subscribes, and returns the number of channels when the subscription is lost; an error if it
    /// was never made.
    async fn hold(&self) -> Result<usize, RedisFailure> {
        let channels = self.channels.all();
        let listener = Arc::new(Listener {
            messages: Arc::clone(&self.messages),
            unconfirmed: AtomicUsize::new(channels.len()),
            is_first: !*self.established.borrow(),
            leaving: Mutex::default(),
            ended: Notify::new(),
        });
        let beginning = async {
            let mut held = Held::new(&self.client, &listener).await?;
            held.subscribe(channels).await?;
            Ok::<_, RedisFailure>(held)
        };
        let mut held = timeout(PATIENCE, beginning).await.map_err(|_| RedisFailure::Timeout)??;
        if !listener.is_first {
            self.client.counters().reconnects.inc();
        }
        self.channels.heard(&held.channels);
        self.established.send_replace(true);
        let mut pings = interval(PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let step = async {
                tokio::select! {
                    () = self.channels.changed() => Step::Adjust,
                    _ = pings.tick() => Step::Ping,
                }
            };
            let step = tokio::select! {
                () = listener.ended.notified() => return Ok(held.channels.len()),
                step = step => step,
            };
            let working = async {
                match step {
                    Step::Adjust => held.adjust(&self.channels).await,
                    Step::Ping => held.ping().await,
                }
            };
            if !matches!(timeout(PATIENCE, working).await, Ok(Ok(()))) {
                return Ok(held.channels.len());
            }
        }
    }
}

/// The next use of a connection.
enum Step {
    Adjust,
    Ping,
}

/// The connections to the servers that hold channels, and the channels that are subscribed there.
struct Held<'keeper> {
    client: &'keeper RedisClient,
    listener: &'keeper Arc<Listener>,
    masters: Vec<(Master, Option<MultiplexedConnection>)>,
    channels: HashSet<String>,
}

impl<'keeper> Held<'keeper> {
    async fn new(
        client: &'keeper RedisClient,
        listener: &'keeper Arc<Listener>,
    ) -> Result<Self, RedisFailure> {
        let masters = masters(client.config()).await?;
        let masters = masters.into_iter().map(|master| (master, None)).collect();
        Ok(Self { client, listener, masters, channels: HashSet::new() })
    }

    /// Subscribes to added channels and unsubscribes from removed ones.
    async fn adjust(&mut self, channels: &Channels) -> Result<(), RedisFailure> {
        let change = channels.take_change();
        let leaving: HashSet<String> =
            change.leaving.into_iter().filter(|channel| self.channels.contains(channel)).collect();
        self.unsubscribe(leaving).await?;
        let is_new = |channel: &&String| !self.channels.contains(*channel);
        let joining = change.joining.iter().filter(is_new).cloned().collect();
        self.subscribe(joining).await?;
        channels.heard(&change.joining);
        Ok(())
    }

    /// Subscribes at every server that holds one of the channels.
    async fn subscribe(&mut self, channels: HashSet<String>) -> Result<(), RedisFailure> {
        let (client, listener) = (self.client, self.listener);
        let mut subscribed = 0;
        for (master, connection) in &mut self.masters {
            let here: Vec<&String> = channels.iter().filter(|name| master.holds(name)).collect();
            if here.is_empty() {
                continue;
            }
            let connection = match connection {
                Some(connection) => connection,
                None => connection.insert(open(client, master, listener).await?),
            };
            if client.config().is_cluster() {
                each(connection, "SSUBSCRIBE", &here).await?;
            } else {
                connection.subscribe(&here).await?;
            }
            subscribed += here.len();
        }
        if subscribed < channels.len() {
            return Err(RedisFailure::Unable("a channel has no master".to_owned()));
        }
        self.channels.extend(channels);
        Ok(())
    }

    /// Unsubscribes from channels that are subscribed.
    async fn unsubscribe(&mut self, channels: HashSet<String>) -> Result<(), RedisFailure> {
        self.listener.leaving().extend(channels.iter().cloned());
        for (master, connection) in &mut self.masters {
            let here: Vec<&String> = channels.iter().filter(|name| master.holds(name)).collect();
            let Some(connection) = connection.as_mut().filter(|_| !here.is_empty()) else {
                continue;
            };
            if self.client.config().is_cluster() {
                each(connection, "SUNSUBSCRIBE", &here).await?;
            } else {
                connection.unsubscribe(&here).await?;
            }
        }
        self.channels.retain(|channel| !channels.contains(channel));
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), RedisFailure> {
        let connections = self.masters.iter_mut().filter_map(|(_, connection)| connection.as_mut());
        // Nothing else is an answer: replies that are out of step must not go unnoticed.
        let pings =
            connections.map(async |connection| cmd("PING").query_async::<String>(connection).await);
        try_join_all(pings).await?;
        Ok(())
    }
}

/// Connects to a server, whose messages go to the listener.
async fn open(
    client: &RedisClient,
    master: &Master,
    listener: &Arc<Listener>,
) -> Result<MultiplexedConnection, RedisFailure> {
    let receiver = Arc::clone(listener);
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE))
        .set_push_sender(move |push| {
            receiver.receive(push);
            Ok::<(), ()>(())
        });
    connect(client.config(), &master.server, ProtocolVersion::RESP3, &settings).await
}

/// Sends a command for each channel, because those of different slots cannot share one.
async fn each(
    connection: &MultiplexedConnection,
    verb: &str,
    channels: &[&String],
) -> Result<(), RedisFailure> {
    let sent = channels.iter().map(|channel| {
        let mut connection = connection.clone();
        let command = cmd(verb).arg(channel).to_owned();
        async move { command.query_async::<Value>(&mut connection).await }
    });
    for (channel, reply) in channels.iter().zip(try_join_all(sent).await?) {
        let Value::Push { data, .. } = reply else {
            return Err(RedisFailure::unexpected(verb));
        };
        if data.first() != Some(&Value::BulkString(channel.as_bytes().to_vec())) {
            return Err(RedisFailure::unexpected(verb));
        }
    }
    Ok(())
}

/// Receives the messages of the connections in their order, and must not block.
struct Listener {
    messages: Arc<MessageQueue>,
    /// Channels of the beginning whose subscription is not confirmed yet.
    unconfirmed: AtomicUsize,
    is_first: bool,
    /// Channels that are being left on purpose.
    leaving: Mutex<HashSet<String>>,
    ended: Notify,
}

impl Listener {
    fn receive(&self, push: PushInfo) {
        match push.kind {
            PushKind::Message | PushKind::SMessage => {
                let mut parts = push.data.into_iter();
                let (channel, payload) = (parts.next(), parts.next());
                if let (Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) =
                    (channel, payload)
                {
                    let channel = String::from_utf8_lossy(&channel).into_owned();
                    self.messages.message(Message { channel, payload: payload.into() });
                }
            }
            PushKind::Subscribe | PushKind::SSubscribe => self.confirmed(),
            PushKind::SUnsubscribe => {
                let is_left = match push.data.first() {
                    Some(Value::BulkString(channel)) => std::str::from_utf8(channel)
                        .is_ok_and(|channel| self.leaving().remove(channel)),
                    _ => false,
                };
                // If a slot moves to another master, its channels end here.
                if !is_left {
                    self.ended.notify_one();
                }
            }
            PushKind::Disconnection => self.ended.notify_one(),
            _ => {}
        }
    }

    /// Reports lost messages once all channels are subscribed again.
    fn confirmed(&self) {
        let count_down = |count: usize| count.checked_sub(1);
        let before = self.unconfirmed.fetch_update(Ordering::AcqRel, Ordering::Acquire, count_down);
        if before == Ok(1) && !self.is_first {
            self.messages.lost();
        }
    }

    fn leaving(&self) -> MutexGuard<'_, HashSet<String>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
