//! One live connection: to a server, or to all masters of a Cluster.

use std::collections::HashMap;

use futures_util::future::join_all;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, Slot, SlotAddr};
use redis::{Arg, AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, Value};
use tokio::time::{Instant, timeout_at};

use super::config::RedisConfig;
use super::failure::RedisFailure;

/// A connection that any number of calls share: they are pipelined over it. Cloning is cheap, and
/// it ends with its last clone.
#[derive(Clone)]
pub(super) enum Connection {
    Standalone(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Connects and authenticates. The caller limits the time.
    pub(super) async fn open(config: &RedisConfig) -> Result<Self, RedisFailure> {
        if config.is_cluster() {
            let client = config.cluster_client()?;
            return Ok(Self::Cluster(client.get_async_connection().await?));
        }
        let client = config.client(&config.seeds()[0], ProtocolVersion::RESP2)?;
        // Deadlines are the client's: they also cover the wait for a connection.
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.deadline))
            .set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&settings).await?;
        Ok(Self::Standalone(connection))
    }

    /// Sends one command.
    pub(super) async fn command(&mut self, command: &Cmd) -> Result<Value, RedisFailure> {
        let value = match self {
            Self::Standalone(connection) => connection.req_packed_command(command).await?,
            Self::Cluster(connection) => match key_of(command) {
                Some(key) => {
                    let route = Route::with_key(key, SlotAddr::Master);
                    let route = SingleNodeRoutingInfo::SpecificNode(route);
                    let route = RoutingInfo::SingleNode(route);
                    connection.route_command(command.clone(), route).await?
                }
                None => connection.req_packed_command(command).await?,
            },
        };
        reply(value)
    }

    /// Sends commands together and returns a result for each. A master of a Cluster has until
    /// `parts_end`, which is before the deadline of the call: otherwise one master that hangs would
    /// void the replies of the others.
    pub(super) async fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        parts_end: Instant,
    ) -> Vec<Result<Value, RedisFailure>> {
        match self {
            Self::Standalone(connection) => {
                let answer = connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
                each(answer, pipeline.len())
            }
            Self::Cluster(connection) => cluster_pipeline(connection, pipeline, parts_end).await,
        }
    }
}

/// Sends the commands of each slot together, and all slots at the same time.
async fn cluster_pipeline(
    connection: &ClusterConnection,
    pipeline: &Pipeline,
    parts_end: Instant,
) -> Vec<Result<Value, RedisFailure>> {
    let mut parts: HashMap<Option<Slot>, (Pipeline, Vec<usize>)> = HashMap::new();
    // A command without a key goes where its neighbour goes: the one before it, or else the first
    // that has a key.
    let mut slot = pipeline.cmd_iter().find_map(key_of).map(Slot::for_key);
    for (index, command) in pipeline.cmd_iter().enumerate() {
        slot = key_of(command).map(Slot::for_key).or(slot);
        let (part, indexes) = parts.entry(slot).or_default();
        part.add_command(command.clone());
        indexes.push(index);
    }
    let sent = parts.into_iter().map(|(slot, (part, indexes))| {
        let mut connection = connection.clone();
        async move {
            let route = slot.map(|slot| Route::with_slot(slot, SlotAddr::Master));
            let count = part.len();
            let answer = connection.route_pipeline(part, 0, count, route.into());
            let results = match timeout_at(parts_end, answer).await {
                Ok(answer) => each(answer, count),
                Err(_) => vec![Err(RedisFailure::Timeout); count],
            };
            indexes.into_iter().zip(results).collect::<Vec<_>>()
        }
    });
    let mut results: Vec<_> = join_all(sent).await.into_iter().flatten().collect();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn each(replies: redis::RedisResult<Vec<Value>>, count: usize) -> Vec<Result<Value, RedisFailure>> {
    match replies {
        Ok(values) => values.into_iter().map(reply).collect(),
        Err(error) => vec![Err(RedisFailure::from(error)); count],
    }
}

/// A reply, or the error that Redis replied with.
fn reply(value: Value) -> Result<Value, RedisFailure> {
    match value {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

/// The key that decides which master of a Cluster a command goes to. Of the commands that this
/// crate sends, a script names its keys behind their count, a few have none, and for all others
/// the key (or the shard channel) comes first.
pub(super) fn key_of(command: &Cmd) -> Option<&[u8]> {
    let mut arguments = command.args_iter().map(|argument| match argument {
        Arg::Simple(bytes) => bytes,
        _ => &[],
    });
    let name = arguments.next()?;
    match name {
        b"TIME" | b"PING" | b"INFO" | b"CONFIG" | b"CLUSTER" | b"SCRIPT" | b"SCAN" | b"DBSIZE" => {
            None
        }
        b"EVAL" | b"EVALSHA" => {
            let key_count = arguments.nth(1)?;
            if key_count == b"0" { None } else { arguments.next() }
        }
        _ => arguments.next(),
    }
}

#[cfg(test)]
mod tests {
    use redis::cmd;

    use super::*;

    #[test]
    fn a_command_is_routed_by_its_first_key() {
        assert_eq!(key_of(cmd("HGETALL").arg("user")), Some(b"user".as_slice()));
        assert_eq!(key_of(cmd("SPUBLISH").arg("channel").arg("x")), Some(b"channel".as_slice()));
        let script = cmd("EVALSHA").arg("hash").arg(2).arg("first").arg("second").to_owned();
        assert_eq!(key_of(&script), Some(b"first".as_slice()));
        assert_eq!(key_of(cmd("EVALSHA").arg("hash").arg(0).arg("argument")), None);
        assert_eq!(key_of(&cmd("TIME")), None);
    }
}
