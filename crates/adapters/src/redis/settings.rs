//! Checks of the settings of Redis servers.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, cmd};

use super::client::RedisClient;
use super::failure::RedisFailure;
use super::topology::{connect, masters};

/// The oldest version that has every command in use.
const VERSION_MIN: u32 = 7;

/// Enough for the connections of about a hundred nodes, and for operators.
const MAX_CLIENTS_MIN: u64 = 512;

/// The bytes that Redis must buffer for a subscriber before it disconnects it.
const SUBSCRIBER_BUFFER_MIN: u64 = 32 * 1024 * 1024;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Leases could vanish or nothing works: a node must not start.
    Refuse,
    /// The setting can cause a failure later.
    Warn,
    /// The setting could not be read, for example because the permission is missing.
    Unchecked,
}

/// A setting of a server that should be changed or could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The server, as `host:port`.
    pub server: String,
    /// The setting.
    pub setting: &'static str,
    /// The value; none if it could not be read.
    pub value: Option<String>,
    /// The remedy, in a sentence.
    pub advice: &'static str,
}

/// Checks the settings of every server that holds data. Correct settings are not listed.
pub async fn check_settings(client: &RedisClient) -> Result<Vec<Finding>, RedisFailure> {
    let config = client.config();
    let limits = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(config.deadline))
        .set_response_timeout(Some(config.deadline));
    let mut findings = Vec::new();
    for master in masters(config).await? {
        let protocol = ProtocolVersion::RESP2;
        let mut connection = connect(config, &master.server, protocol, &limits).await?;
        let mut server = Server { name: master.server.addr().to_string(), findings: &mut findings };
        server.check_information(&mut connection).await?;
        server.check_configuration(&mut connection).await?;
    }
    Ok(findings)
}

/// One server under examination.
struct Server<'findings> {
    name: String,
    findings: &'findings mut Vec<Finding>,
}

impl Server<'_> {
    /// The settings in `INFO`, which most operators allow.
    async fn check_information(
        &mut self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), RedisFailure> {
        let advice = "allow the command INFO to have this checked";
        let Some(text) = permitted::<String>(connection, &cmd("INFO")).await? else {
            for setting in ["redis_version", "maxmemory-policy", "maxclients"] {
                self.find(Severity::Unchecked, setting, None, advice);
            }
            return Ok(());
        };
        let facts: HashMap<&str, &str> =
            text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let fact = |name: &str| facts.get(name).copied().unwrap_or_default();

        let version = fact("redis_version");
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < VERSION_MIN) {
            let advice = "use Redis 7.0 or newer";
            self.find(Severity::Refuse, "redis_version", Some(version), advice);
        }
        let policy = fact("maxmemory_policy");
        if policy != "noeviction" {
            let is_bounded = fact("maxmemory") != "0";
            let severity = if is_bounded { Severity::Refuse } else { Severity::Warn };
            let advice = "set it to noeviction: any other policy drops live connections' entries";
            self.find(severity, "maxmemory-policy", Some(policy), advice);
        }
        let max_clients = fact("maxclients");
        if max_clients.parse::<u64>().is_ok_and(|clients| clients < MAX_CLIENTS_MIN) {
            let advice = "set it to 512 or more: every node needs a handful of connections";
            self.find(Severity::Warn, "maxclients", Some(max_clients), advice);
        }
        Ok(())
    }

    /// The settings that only `CONFIG GET` returns, which many forbid, since it also returns
    /// passwords.
    async fn check_configuration(
        &mut self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), RedisFailure> {
        let settings = ["timeout", "client-output-buffer-limit"];
        let command = cmd("CONFIG").arg("GET").arg(&settings).to_owned();
        let stored = permitted::<HashMap<String, String>>(connection, &command).await?;
        let value = |name: &str| stored.as_ref().and_then(|stored| stored.get(name)).cloned();
        for setting in settings {
            let advice = "look at it by hand: reading it is not allowed here";
            match (setting, value(setting)) {
                (_, None) => self.find(Severity::Unchecked, setting, None, advice),
                ("timeout", Some(value)) if value != "0" => {
                    let advice = "set it to 0: idle subscriptions must not be closed";
                    self.find(Severity::Warn, setting, Some(&value), advice);
                }
                ("client-output-buffer-limit", Some(value)) if !has_room(&value) => {
                    let advice =
                        "set pubsub to 32mb 8mb 60 or more: a burst must not cut a node off";
                    self.find(Severity::Warn, setting, Some(&value), advice);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn find(
        &mut self,
        severity: Severity,
        setting: &'static str,
        value: Option<&str>,
        advice: &'static str,
    ) {
        let (server, value) = (self.name.clone(), value.map(str::to_owned));
        self.findings.push(Finding { severity, server, setting, value, advice });
    }
}

/// The answer to a command, or none if it is not allowed.
async fn permitted<T: redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &redis::Cmd,
) -> Result<Option<T>, RedisFailure> {
    match command.query_async(connection).await.map_err(RedisFailure::from) {
        Ok(value) => Ok(Some(value)),
        Err(RedisFailure::Rejected(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Whether `… pubsub <hard> <soft> <seconds>` lets a burst wait.
fn has_room(limits: &str) -> bool {
    let mut words = limits.split_whitespace().skip_while(|word| *word != "pubsub").skip(1);
    let hard = words.next().and_then(|word| word.parse::<u64>().ok());
    hard.is_some_and(|hard| hard == 0 || hard >= SUBSCRIBER_BUFFER_MIN)
}
