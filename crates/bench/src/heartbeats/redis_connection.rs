//! A connection to Redis that writes commands as bytes and only counts their replies.
//!
//! The baselines use this connection, so that no client library adds to their cost. `INFO` gives
//! the CPU time and memory of Redis.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Deadline for replies.
const RESPONSE_WITHIN: Duration = Duration::from_secs(30);
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// The port of a URL without one.
const DEFAULT_PORT: &str = "6379";

/// A connection to one Redis server.
#[derive(Debug)]
pub(super) struct RedisConnection {
    stream: TcpStream,
}

/// Commands of one pipeline.
#[derive(Debug, Default)]
pub(super) struct Commands {
    bytes: Vec<u8>,
    count: usize,
}

/// The output of `INFO`.
#[derive(Debug, Clone, Default)]
pub(super) struct Info {
    values: HashMap<String, String>,
}

impl Commands {
    /// Adds a command.
    pub(super) fn add(&mut self, arguments: &[&str]) {
        self.begin(arguments.len());
        for argument in arguments {
            self.argument(argument);
        }
    }

    /// Begins a command with this many arguments, including its name. The arguments must follow.
    pub(super) fn begin(&mut self, arguments: usize) {
        self.count += 1;
        self.bytes.extend(format!("*{arguments}\r\n").bytes());
    }

    /// Adds an argument to the command that was begun.
    pub(super) fn argument(&mut self, argument: &str) {
        self.bytes.extend(format!("${}\r\n", argument.len()).bytes());
        self.bytes.extend(argument.bytes());
        self.bytes.extend(b"\r\n");
    }
}

impl RedisConnection {
    /// Connects to `redis://[user:password@]host[:port]`.
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let Address { host, credentials } = Address::parse(url)?;
        let stream = timeout(RESPONSE_WITHIN, TcpStream::connect(&host)).await;
        let stream = stream.ok().and_then(Result::ok);
        let stream = stream.with_context(|| format!("connecting to Redis at {host} failed"))?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream };
        if let Some((user, password)) = credentials {
            let mut commands = Commands::default();
            match user.as_str() {
                "" => commands.add(&["AUTH", &password]),
                user => commands.add(&["AUTH", user, &password]),
            }
            connection.send(&commands).await.context("Redis rejected the credentials")?;
        }
        Ok(connection)
    }

    /// Sends the commands and waits for all replies; fails if one is an error.
    pub(super) async fn send(&mut self, commands: &Commands) -> Result<()> {
        self.exchange(commands).await.map(drop)
    }

    /// Runs `INFO everything`.
    pub(super) async fn info(&mut self) -> Result<Info> {
        let mut commands = Commands::default();
        commands.add(&["INFO", "everything"]);
        let reply = self.exchange(&commands).await?;
        Ok(Info::parse(&String::from_utf8_lossy(&reply)))
    }

    /// Sends the commands and returns the bytes of the last reply.
    async fn exchange(&mut self, commands: &Commands) -> Result<Vec<u8>> {
        let (mut reader, mut writer) = self.stream.split();
        let write = async { anyhow::Ok(writer.write_all(&commands.bytes).await?) };
        let read = async {
            let (mut unread, mut remaining) = (Vec::with_capacity(READ_BYTES), commands.count);
            let mut last = Vec::new();
            while remaining > 0 {
                ensure!(reader.read_buf(&mut unread).await? > 0, "Redis closed the connection");
                let mut parsed = 0;
                while remaining > 0
                    && let Some(length) = reply_length(&unread[parsed..])?
                {
                    remaining -= 1;
                    if remaining == 0 {
                        last = unread[parsed..parsed + length].to_vec();
                    }
                    parsed += length;
                }
                unread.drain(..parsed);
            }
            anyhow::Ok(last)
        };
        let both = async { tokio::try_join!(write, read) };
        let ((), last) = timeout(RESPONSE_WITHIN, both)
            .await
            .with_context(|| format!("no reply of Redis within {RESPONSE_WITHIN:?}"))??;
        Ok(last)
    }
}

/// The length of the reply at the beginning of these bytes; none if the reply is incomplete.
fn reply_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&bytes[..end])?;
    let (head, after) = (line.split_at_checked(1).context("an empty reply")?, end + 2);
    let number = || head.1.parse::<i64>().context("a length in a reply is not a number");
    match head.0 {
        "+" | ":" => Ok(Some(after)),
        "-" => bail!("Redis returned an error: {}", head.1),
        "$" => {
            let length = number()?.try_into().map_or(0, |length: usize| length + 2);
            Ok((bytes.len() >= after + length).then_some(after + length))
        }
        "*" => {
            let mut length = after;
            for _ in 0..number()?.max(0) {
                match reply_length(&bytes[length..])? {
                    Some(element) => length += element,
                    None => return Ok(None),
                }
            }
            Ok(Some(length))
        }
        _ => bail!("a reply has an unknown type"),
    }
}

/// The host and credentials of a URL.
struct Address {
    host: String,
    credentials: Option<(String, String)>,
}

impl Address {
    /// Errors do not contain the URL, because it may contain a password.
    fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("redis://");
        let rest = rest.context("--redis must be redis://host:port, without TLS or Cluster")?;
        let (credentials, host) = match rest.rsplit_once('@') {
            Some((credentials, host)) => (credentials.split_once(':'), host),
            None => (None, rest),
        };
        let host = host.trim_end_matches('/');
        ensure!(!host.is_empty() && !host.contains('/'), "--redis must name a host and database 0");
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") };
        let credentials =
            credentials.map(|(user, password)| (user.to_owned(), password.to_owned()));
        Ok(Self { host, credentials })
    }
}

impl Info {
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Self { values: lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    /// The server's version.
    pub(super) fn version(&self) -> &str {
        self.values.get("redis_version").map_or("unknown", String::as_str)
    }

    /// The CPU time of the process so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        Ok(Duration::from_secs_f64(self.number("used_cpu_user")? + self.number("used_cpu_sys")?))
    }

    /// The allocated bytes.
    pub(super) fn memory_bytes(&self) -> Result<f64> {
        self.number("used_memory")
    }

    /// The number of keys.
    pub(super) fn keys(&self) -> f64 {
        let database = self.values.get("db0").map_or("", String::as_str);
        let keys = database.split(',').find_map(|field| field.strip_prefix("keys="));
        keys.and_then(|keys| keys.parse().ok()).unwrap_or(0.0)
    }

    /// The number of calls of a command.
    pub(super) fn calls(&self, command: &str) -> f64 {
        let statistics = self.values.get(&format!("cmdstat_{command}")).map_or("", String::as_str);
        let calls = statistics.split(',').find_map(|field| field.strip_prefix("calls="));
        calls.and_then(|calls| calls.parse().ok()).unwrap_or(0.0)
    }

    fn number(&self, name: &str) -> Result<f64> {
        let value = self.values.get(name).with_context(|| format!("`INFO` has no {name}"))?;
        value.trim().parse().with_context(|| format!("{name} is not a number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_reply_is_known_once_it_is_complete() {
        let whole: [&[u8]; 5] =
            [b"+OK\r\n", b":12\r\n", b"$3\r\na\r\n\r\n", b"$-1\r\n", b"*2\r\n:1\r\n*1\r\n+a\r\n"];
        for reply in whole {
            assert_eq!(reply_length(reply).unwrap(), Some(reply.len()));
            for cut in 0..reply.len() {
                assert_eq!(reply_length(&reply[..cut]).unwrap(), None, "{reply:?} to {cut}");
            }
        }
        assert!(reply_length(b"-ERR no\r\n").unwrap_err().to_string().contains("ERR no"));
        assert!(reply_length(b"*1\r\n-ERR no\r\n").is_err());
    }

    #[test]
    fn commands_are_written_as_redis_reads_them() {
        let mut commands = Commands::default();
        commands.add(&["SET", "käse", "1"]);
        assert_eq!(commands.bytes, "*3\r\n$3\r\nSET\r\n$5\r\nkäse\r\n$1\r\n1\r\n".as_bytes());
        assert_eq!(commands.count, 1);
    }

    #[test]
    fn cpu_memory_keys_and_calls_are_read_from_info() {
        let info = Info::parse(
            "# CPU\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.25\r\nused_memory:1024\r\n\
             db0:keys=7,expires=3\r\ncmdstat_scan:calls=2,usec=9\r\n",
        );
        assert_eq!(info.cpu().unwrap(), Duration::from_millis(1750));
        assert!((info.memory_bytes().unwrap() - 1024.0).abs() < 1e-9);
        assert!((info.keys() - 7.0).abs() < 1e-9);
        assert!((info.calls("scan") - 2.0).abs() < 1e-9);
        assert!(info.calls("keys").abs() < 1e-9);
        assert!(Info::default().cpu().is_err());
    }

    #[test]
    fn host_and_credentials_are_read_from_a_url_that_no_error_contains() {
        let address = Address::parse("redis://u:hunter2@localhost").unwrap();
        assert_eq!(address.host, "localhost:6379");
        assert_eq!(address.credentials, Some(("u".to_owned(), "hunter2".to_owned())));
        assert_eq!(Address::parse("redis://[::1]:7000/").unwrap().host, "[::1]:7000");
        for bad in ["rediss://u:hunter2@localhost", "redis://u:hunter2@localhost/2", "hunter2"] {
            let Err(error) = Address::parse(bad) else { panic!("{bad} was accepted") };
            assert!(!format!("{error:#}").contains("hunter2"), "{error:#}");
        }
    }
}
