//! A subscription that never ends, and says where it may have lost something.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, Value, cmd};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::client::RedisClient;
use super::failure::RedisFailure;
use super::mailbox::Mailbox;
use super::topology::{Master, connect, masters};

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it was published.
    pub channel: String,
    /// What was said.
    pub payload: Bytes,
}

/// What a subscription yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A message.
    Message(Message),
    /// Messages may be missing before this point: the connection was made again, or the reader
    /// was too slow. Whatever is published from now on is heard, so that a reader who now reads
    /// the state that the messages speak of is up to date.
    Lost,
}

/// How often the connection is checked: one that is cut without a word looks like silence.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// How long connecting, subscribing or a check may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The shortest and the longest wait before subscribing again.
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// A subscription to some channels. It reconnects for ever, and ends when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    mailbox: Arc<Mailbox>,
    is_established: watch::Receiver<bool>,
    /// Owns the task, which is aborted with it.
    _keeper: JoinSet<()>,
}

impl Subscription {
    pub(super) fn start(client: &RedisClient, channels: Vec<String>) -> Self {
        let mailbox = Arc::new(Mailbox::new(client.counters().clone()));
        let (established, is_established) = watch::channel(false);
        let keeper = Keeper {
            client: client.clone(),
            channels: channels.into(),
            mailbox: Arc::clone(&mailbox),
            established,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper.run());
        Self { mailbox, is_established, _keeper: tasks }
    }

    /// Waits until every channel is subscribed for the first time. Before that nothing is heard.
    pub async fn established(&self) {
        let mut is_established = self.is_established.clone();
        // The sender lives in the task, which ends only with this subscription.
        let _ = is_established.wait_for(|is_established| *is_established).await;
    }

    /// The next message, or that some may be missing.
    pub async fn next(&mut self) -> Event {
        self.mailbox.next().await
    }
}

/// Keeps the subscription alive.
struct Keeper {
    client: RedisClient,
    channels: Arc<[String]>,
    mailbox: Arc<Mailbox>,
    established: watch::Sender<bool>,
}

impl Keeper {
    async fn run(self) {
        let mut back_off = BACK_OFF_MIN;
        loop {
            match self.hold().await {
                Ok(()) => {
                    warn!(channels = self.channels.len(), "a subscription to Redis was lost");
                    back_off = BACK_OFF_MIN;
                }
                Err(failure) => debug!(%failure, "a subscription to Redis was not made"),
            }
            let jitter = rand::random_range(0.5..1.0);
            sleep(back_off.mul_f64(jitter)).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }

    /// Subscribes, and returns when the subscription is lost; an error if it was never made.
    async fn hold(&self) -> Result<(), RedisFailure> {
        let listener = Arc::new(Listener {
            mailbox: Arc::clone(&self.mailbox),
            unconfirmed: AtomicUsize::new(self.channels.len()),
            is_first: !*self.established.borrow(),
            ended: Notify::new(),
        });
        let subscribing = timeout(PATIENCE, self.subscribe(&listener)).await;
        let mut connections = subscribing.map_err(|_| RedisFailure::Timeout)??;
        if !listener.is_first {
            self.client.counters().reconnects.inc();
        }
        self.established.send_replace(true);
        loop {
            tokio::select! {
                () = listener.ended.notified() => return Ok(()),
                () = sleep(PING_INTERVAL) => {}
            }
            let pings = connections
                .iter_mut()
                .map(async |connection| cmd("PING").query_async::<Value>(connection).await);
            match timeout(PATIENCE, try_join_all(pings)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => return Ok(()),
            }
        }
    }

    /// Connects to every server that holds a channel and subscribes there.
    async fn subscribe(
        &self,
        listener: &Arc<Listener>,
    ) -> Result<Vec<MultiplexedConnection>, RedisFailure> {
        let mut connections = Vec::new();
        for master in masters(self.client.config()).await? {
            let held: Vec<&str> =
                self.channels.iter().map(String::as_str).filter(|key| master.holds(key)).collect();
            if !held.is_empty() {
                connections.push(self.subscribe_at(&master, &held, listener).await?);
            }
        }
        match listener.unconfirmed.load(Ordering::Acquire) {
            0 => Ok(connections),
            _ => Err(RedisFailure::Unable("a channel has no master".to_owned())),
        }
    }

    async fn subscribe_at(
        &self,
        master: &Master,
        channels: &[&str],
        listener: &Arc<Listener>,
    ) -> Result<MultiplexedConnection, RedisFailure> {
        let config = self.client.config();
        let heard = Arc::clone(listener);
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE))
            .set_push_sender(move |push| {
                heard.hear(push);
                Ok::<(), ()>(())
            });
        let protocol = ProtocolVersion::RESP3;
        let mut connection = connect(config, &master.server, protocol, &settings).await?;
        if config.is_cluster() {
            // Channels of different slots cannot share a command.
            let each = channels.iter().map(|channel| {
                let mut connection = connection.clone();
                let command = cmd("SSUBSCRIBE").arg(channel).to_owned();
                async move { command.query_async::<Value>(&mut connection).await }
            });
            try_join_all(each).await?;
        } else {
            connection.subscribe(channels).await?;
        }
        Ok(connection)
    }
}

/// Hears what the connections receive, in the order in which they do, and must not block.
struct Listener {
    mailbox: Arc<Mailbox>,
    unconfirmed: AtomicUsize,
    is_first: bool,
    ended: Notify,
}

impl Listener {
    fn hear(&self, push: PushInfo) {
        match push.kind {
            PushKind::Message | PushKind::SMessage => {
                let mut parts = push.data.into_iter();
                let (channel, payload) = (parts.next(), parts.next());
                if let (Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) =
                    (channel, payload)
                {
                    let channel = String::from_utf8_lossy(&channel).into_owned();
                    self.mailbox.message(Message { channel, payload: payload.into() });
                }
            }
            PushKind::Subscribe | PushKind::SSubscribe => {
                // What was published while nobody listened is missing; said when all is heard.
                let is_last = self.unconfirmed.fetch_sub(1, Ordering::AcqRel) == 1;
                if is_last && !self.is_first {
                    self.mailbox.lost();
                }
            }
            // A slot that moves to another master takes its channels along.
            PushKind::SUnsubscribe | PushKind::Disconnection => self.ended.notify_one(),
            _ => {}
        }
    }
}
