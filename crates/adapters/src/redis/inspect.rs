//! Reads everything that a directory has stored, and lists inconsistencies.
//!
//! The inspection only reads. Nodes write meanwhile, so an inconsistency is read again twice before
//! it is reported.

mod examine;
mod vitals;

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use heartline_protocol::{NodeId, UserId};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue, ProtocolVersion, cmd};
use tokio::time::sleep;

use self::examine::{Examiner, Item};
use super::client::RedisClient;
use super::failure::RedisFailure;
use super::keys::Keys;
use super::topology::{Master, connect, masters};

pub use self::vitals::{Roster, Sweeps, Vitals, roster, sweeps, vitals};

/// Items that one step of a scan reads.
const PAGE: usize = 500;

/// Items that are examined at the same time.
const IN_FLIGHT: usize = 32;

/// Items that are examined again at most; with more, the whole directory is inconsistent.
const SUSPECTS_MAX: usize = 1000;

/// How long to wait before an item is examined again: longer than any write, and than a sweep.
const PAUSE: Duration = Duration::from_millis(1500);

/// The invariants of the stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Every key ends by itself in time, and no lease is longer than a lease.
    KeysEnd,
    /// Nothing leads to a node or connection that is gone.
    NoZombies,
    /// A connection has one record, and all indexes agree whose and where it is.
    OneRecord,
    /// The routing table of a user counts exactly the user's connections.
    RoutesAgree,
    /// A user is online exactly while one of their leases is live.
    PresenceIsDerived,
}

/// An inconsistency of the stored data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// The key that is inconsistent.
    pub key: String,
    /// The broken rule.
    pub rule: Rule,
    /// The inconsistency, in a sentence.
    pub what: String,
}

/// The result of an inspection.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// Keys, leases and list entries that were examined.
    pub examined: u64,
    /// The inconsistencies.
    pub anomalies: Vec<Anomaly>,
    /// False if there were too many inconsistencies to examine all of them again.
    pub is_complete: bool,
}

/// Inspects the directory with these shards and leases of this length.
pub async fn inspect(
    client: &RedisClient,
    shards: u16,
    lease: Duration,
) -> Result<Inspection, RedisFailure> {
    let keys = Keys::new(client.config(), shards);
    let inspector =
        Inspector { examiner: Examiner::new(client.clone(), keys.clone(), lease), keys };
    let mut inspection = Inspection { is_complete: true, ..Inspection::default() };
    let mut suspects: Vec<Item> = Vec::new();
    for master in masters(client.config()).await? {
        inspector.survey(client, &master, &mut inspection, &mut suspects).await?;
    }
    for _ in 0..2 {
        if !suspects.is_empty() {
            sleep(PAUSE).await;
            suspects = inspector.suspicious(suspects).await?;
        }
    }
    for suspect in suspects {
        inspection.anomalies.extend(inspector.examiner.examine(&suspect).await?);
    }
    Ok(inspection)
}

struct Inspector {
    examiner: Examiner,
    keys: Keys,
}

impl Inspector {
    /// Walks through everything on one server.
    async fn survey(
        &self,
        client: &RedisClient,
        master: &Master,
        inspection: &mut Inspection,
        suspects: &mut Vec<Item>,
    ) -> Result<(), RedisFailure> {
        let config = client.config();
        let limits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.deadline))
            .set_response_timeout(Some(config.deadline));
        let protocol = ProtocolVersion::RESP2;
        let mut connection = connect(config, &master.server, protocol, &limits).await?;
        let pattern = format!("{}*", self.keys.prefix());
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(PAGE);
            let (next, names): (String, Vec<String>) = scan.query_async(&mut connection).await?;
            let mut items = HashSet::new();
            for name in names {
                self.items(&mut connection, name, &mut items).await?;
            }
            inspection.examined += items.len() as u64;
            let found = self.suspicious(items).await?;
            let room = SUSPECTS_MAX - suspects.len();
            inspection.is_complete &= found.len() <= room;
            suspects.extend(found.into_iter().take(room));
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// The items to examine for a key.
    async fn items(
        &self,
        connection: &mut MultiplexedConnection,
        name: String,
        items: &mut HashSet<Item>,
    ) -> Result<(), RedisFailure> {
        let Some(rest) = name.strip_prefix(self.keys.prefix()) else { return Ok(()) };
        if rest.starts_with("presence:leases:") {
            for (member, _) in scan::<(String, f64)>(connection, "ZSCAN", &name).await? {
                items.insert(Item::Lease(name.clone(), member));
            }
            return Ok(());
        }
        let Some((kind, id)) = rest.split_once(':') else { return Ok(()) };
        // On a Cluster the hash tag stands before the id.
        let id = if id.starts_with('{') { id.split_once(':').map_or(id, |(_, id)| id) } else { id };
        match kind {
            "user_servers" | "user_connections" | "user_presence" => {
                if let Ok(user_id) = id.parse::<UserId>() {
                    items.insert(Item::User(user_id));
                }
            }
            "connection" => {
                if let Ok(connection_id) = id.parse() {
                    items.insert(Item::Connection(connection_id));
                }
            }
            "server_connections" => {
                let Ok(node_id) = id.parse::<NodeId>() else { return Ok(()) };
                for listed in scan::<String>(connection, "SSCAN", &name).await? {
                    if let Ok(connection_id) = listed.parse() {
                        items.insert(Item::Listed(node_id.clone(), connection_id));
                    }
                }
            }
            "session" => {}
            _ => return Ok(()),
        }
        items.insert(Item::Key(name));
        Ok(())
    }

    /// The items that are inconsistent at this moment.
    async fn suspicious(
        &self,
        items: impl IntoIterator<Item = Item>,
    ) -> Result<Vec<Item>, RedisFailure> {
        let examined = futures_util::stream::iter(items)
            .map(async |item| {
                let anomalies = self.examiner.examine(&item).await?;
                Ok::<_, RedisFailure>((!anomalies.is_empty()).then_some(item))
            })
            .buffer_unordered(IN_FLIGHT)
            .collect::<Vec<_>>()
            .await;
        let mut suspects = Vec::new();
        for item in examined {
            suspects.extend(item?);
        }
        Ok(suspects)
    }
}

/// All elements of a set or sorted set, in pieces.
async fn scan<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    verb: &str,
    name: &str,
) -> Result<Vec<T>, RedisFailure> {
    let mut all = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let command = cmd(verb).arg(name).arg(&cursor).arg("COUNT").arg(PAGE).to_owned();
        let (next, page): (String, Vec<T>) = command.query_async(connection).await?;
        all.extend(page);
        if next == "0" {
            return Ok(all);
        }
        cursor = next;
    }
}
