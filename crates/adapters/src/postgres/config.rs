//! The configuration of the PostgreSQL store, read from a URL.

use std::path::PathBuf;
use std::time::Duration;

use heartline_runtime::Random;
use rand::seq::SliceRandom;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};

/// The default size of the connection pool.
pub const POOL_SIZE: usize = 16;

/// The largest size of the connection pool.
const POOL_SIZE_MAX: usize = 1000;

/// How long connecting to one of several servers may take: at most half of the shortest deadline,
/// so that time is left for the next server.
pub(super) const SERVER_TIMEOUT: Duration = Duration::from_millis(1500);

const EXPECTED: &str = "expected postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full";

/// Parameters of a URL that are passed to the PostgreSQL driver.
const COMMON_PARAMETERS: [&str; 6] =
    ["application_name", "host", "load_balance_hosts", "options", "port", "sslnegotiation"];

/// The encryption of connections to the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encryption {
    /// No encryption.
    Disable,
    /// Encryption without verification of the server.
    Require,
    /// Encryption, and the certificate of the server must name the host of the URL.
    VerifyFull {
        /// A PEM file of trusted certificate authorities; without it, those that browsers trust.
        roots_file: Option<PathBuf>,
    },
}

/// PostgreSQL's `synchronous_commit`: what a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynchronousCommit {
    /// Waits for nothing: acknowledged messages are lost if the server crashes.
    Off,
    /// Waits for the server's own disk: acknowledged messages are lost if a standby takes over.
    Local,
    /// Waits for the server's own disk and the memory of its synchronous standbys.
    RemoteWrite,
    /// Waits for the server's own disk and the disks of its synchronous standbys.
    On,
    /// Waits as `On`, and until readers of the standbys see the commit.
    RemoteApply,
}

impl SynchronousCommit {
    const ALL: [Self; 5] = [Self::Off, Self::Local, Self::RemoteWrite, Self::On, Self::RemoteApply];

    /// The value of the setting in PostgreSQL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Local => "local",
            Self::RemoteWrite => "remote_write",
            Self::On => "on",
            Self::RemoteApply => "remote_apply",
        }
    }
}

/// The deadlines of calls, including the wait for a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// The deadline of writes. Below the deadline of a send, so that the send fails with the error
    /// of the store.
    pub(super) write: Duration,
    /// The deadline of reads.
    pub(super) read: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { write: Duration::from_millis(4500), read: Duration::from_millis(3000) }
    }
}

/// The configuration of a PostgreSQL store.
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    /// The encryption of connections.
    pub encryption: Encryption,
    /// `synchronous_commit` of every database session, whatever is set for the server or the role.
    pub synchronous_commit: SynchronousCommit,
    /// The size of the connection pool.
    pub pool_size: usize,
    /// Whether the operator accepts that acknowledged messages may be lost.
    pub allow_unsafe: bool,
    /// The deadlines of calls.
    pub(super) deadlines: Deadlines,
    /// Hosts, user, password and other settings of the driver. Its `Debug` hides the password.
    pub(super) server: tokio_postgres::Config,
}

/// An invalid URL of a PostgreSQL store. The error does not repeat the URL, which contains a
/// password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not the URL of a PostgreSQL store: {problem}")]
pub struct UrlError {
    /// The problem, and what is expected.
    pub problem: String,
}

impl PostgresConfig {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE` with the parameters
    /// `sslmode=disable|require|verify-full` (`require` by default), `sslrootcert=FILE`,
    /// `pool_size=NUMBER`, `synchronous_commit=on` and a few parameters of PostgreSQL's own.
    ///
    /// # Errors The URL has another form, or an unknown parameter.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let scheme = ["postgres://", "postgresql://"].into_iter().find(|it| url.starts_with(it));
        let scheme = scheme.ok_or_else(|| wrong(EXPECTED))?;
        let (place, query) =
            url[scheme.len()..].split_once('?').unwrap_or((&url[scheme.len()..], ""));
        if place.matches('@').count() > 1 {
            return Err(wrong("an @ in a name or password is written %40"));
        }
        let mut own = OwnParameters::default();
        let mut common = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            // A password with an unescaped ? ends up here, so only known names are repeated.
            let (name, value) = parameter.split_once('=').ok_or_else(|| {
                wrong("a parameter has no value; a ? or & in a password is written %3F or %26")
            })?;
            if COMMON_PARAMETERS.contains(&name) {
                common.push(parameter);
            } else {
                own.set(name, value)?;
            }
        }
        let url = format!("postgres://{place}?{}", common.join("&"));
        let server: tokio_postgres::Config =
            url.parse().map_err(|error| wrong(format!("{}; {EXPECTED}", reason(&error))))?;
        own.into_config(server)
    }

    /// The hosts and the database, without user and password.
    pub fn address(&self) -> String {
        let hosts = self.server.get_hosts().iter().enumerate().map(|(index, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", self.port(index)),
            Host::Unix(path) => path.display().to_string(),
        });
        let database = self.server.get_dbname().unwrap_or_default();
        format!("{}/{database}", hosts.collect::<Vec<_>>().join(","))
    }

    /// The settings of the driver for each host, in the order in which the hosts are tried.
    pub(super) fn servers(&self, mut random: Random) -> Vec<tokio_postgres::Config> {
        let hosts = self.server.get_hosts().len();
        let mut servers: Vec<_> = (0..hosts).map(|index| self.server_alone(index)).collect();
        if self.server.get_load_balance_hosts() == LoadBalanceHosts::Random {
            servers.shuffle(&mut random);
        }
        servers
    }

    /// The settings of the driver with one of the hosts.
    fn server_alone(&self, index: usize) -> tokio_postgres::Config {
        let all = &self.server;
        let mut server = tokio_postgres::Config::new();
        match &all.get_hosts()[index] {
            Host::Tcp(name) => server.host(name),
            Host::Unix(path) => server.host_path(path),
        };
        server.port(self.port(index));
        server.user(all.get_user().unwrap_or_default());
        server.dbname(all.get_dbname().unwrap_or_default());
        if let Some(password) = all.get_password() {
            server.password(password);
        }
        if let Some(options) = all.get_options() {
            server.options(options);
        }
        server.application_name(all.get_application_name().unwrap_or("heartline"));
        server.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
        server.load_balance_hosts(all.get_load_balance_hosts());
        server.target_session_attrs(all.get_target_session_attrs());
        // A host may have several addresses, of which the first may be unreachable.
        server.connect_timeout(SERVER_TIMEOUT);
        // A server that does not answer within these times is gone.
        server.keepalives_idle(Duration::from_secs(10));
        server.keepalives_interval(Duration::from_secs(3));
        server.keepalives_retries(3);
        server.tcp_user_timeout(Duration::from_secs(10));
        server
    }

    fn port(&self, index: usize) -> u16 {
        let ports = self.server.get_ports();
        ports.get(index).or(ports.last()).copied().unwrap_or(5432)
    }
}

/// The parameters of a URL that Heartline reads itself.
#[derive(Default)]
struct OwnParameters {
    sslmode: Option<String>,
    roots_file: Option<PathBuf>,
    pool_size: Option<usize>,
    synchronous_commit: Option<SynchronousCommit>,
}

impl OwnParameters {
    fn set(&mut self, name: &str, value: &str) -> Result<(), UrlError> {
        match name {
            "sslmode" => self.sslmode = Some(value.to_owned()),
            "sslrootcert" => self.roots_file = Some(PathBuf::from(value)),
            "pool_size" => {
                let size = value.parse().ok().filter(|size| (2..=POOL_SIZE_MAX).contains(size));
                let problem = || wrong(format!("pool_size must be 2 to {POOL_SIZE_MAX}"));
                self.pool_size = Some(size.ok_or_else(problem)?);
            }
            "synchronous_commit" => {
                let known = SynchronousCommit::ALL.into_iter().find(|it| it.as_str() == value);
                let problem =
                    "synchronous_commit must be off, local, remote_write, on or remote_apply";
                self.synchronous_commit = Some(known.ok_or_else(|| wrong(problem))?);
            }
            _ => {
                let known = "sslmode, sslrootcert, pool_size, synchronous_commit";
                let common = COMMON_PARAMETERS.join(", ");
                return Err(wrong(format!("its parameters may be {known}, {common}")));
            }
        }
        Ok(())
    }

    fn into_config(self, mut server: tokio_postgres::Config) -> Result<PostgresConfig, UrlError> {
        if server.get_hosts().is_empty() {
            return Err(wrong(format!("it names no host; {EXPECTED}")));
        }
        if server.get_user().is_none_or(str::is_empty) {
            return Err(wrong(format!("it names no user; {EXPECTED}")));
        }
        if server.get_dbname().is_none_or(str::is_empty) {
            return Err(wrong(format!("it names no database; {EXPECTED}")));
        }
        let encryption = match (self.sslmode.as_deref(), self.roots_file) {
            (Some("disable"), None) => Encryption::Disable,
            (Some("require") | None, None) => Encryption::Require,
            (Some("verify-full"), roots_file) => Encryption::VerifyFull { roots_file },
            (Some("disable" | "require") | None, Some(_)) => {
                return Err(wrong("sslrootcert has a meaning only with sslmode=verify-full"));
            }
            (Some(_), _) => {
                return Err(wrong("sslmode must be disable, require or verify-full"));
            }
        };
        server.ssl_mode(match encryption {
            Encryption::Disable => SslMode::Disable,
            Encryption::Require | Encryption::VerifyFull { .. } => SslMode::Require,
        });
        if server.get_hosts().len() > 1 {
            server.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if server.get_application_name().is_none() {
            server.application_name("heartline");
        }
        Ok(PostgresConfig {
            encryption,
            synchronous_commit: self.synchronous_commit.unwrap_or(SynchronousCommit::On),
            pool_size: self.pool_size.unwrap_or(POOL_SIZE),
            allow_unsafe: false,
            deadlines: Deadlines::default(),
            server,
        })
    }
}

fn wrong(problem: impl Into<String>) -> UrlError {
    UrlError { problem: problem.into() }
}

/// The cause of an error of the driver's own URL parser.
fn reason(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "postgres://ana:s3cret@db.example:6432/chat";

    fn read(url: &str) -> Result<PostgresConfig, String> {
        PostgresConfig::from_url(url).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_safe() {
        let config = read(PLACE).unwrap();
        assert_eq!(config.address(), "db.example:6432/chat");
        assert_eq!(config.encryption, Encryption::Require);
        assert_eq!(config.synchronous_commit, SynchronousCommit::On);
        assert_eq!((config.pool_size, config.allow_unsafe), (POOL_SIZE, false));
        assert_eq!(config.servers(Random::system())[0].get_password(), Some(&b"s3cret"[..]));
        let other = read("postgresql://ana@db.example/chat").unwrap();
        assert_eq!(other.address(), "db.example:5432/chat");
    }

    #[test]
    fn parameters_are_read() {
        let with = |parameters: &str| read(&format!("{PLACE}?{parameters}")).unwrap();
        assert_eq!(with("sslmode=disable").encryption, Encryption::Disable);
        let verified = Encryption::VerifyFull { roots_file: Some(PathBuf::from("/ca.pem")) };
        assert_eq!(with("sslmode=verify-full&sslrootcert=/ca.pem").encryption, verified);
        assert_eq!(with("pool_size=4").pool_size, 4);
        let off = with("synchronous_commit=off&application_name=x");
        assert_eq!(off.synchronous_commit, SynchronousCommit::Off);
        assert_eq!(off.servers(Random::system())[0].get_application_name(), Some("x"));
        let standby = read("postgres://ana@a,b:6000/chat").unwrap();
        assert_eq!(standby.address(), "a:5432,b:6000/chat");
        let servers = standby.servers(Random::system());
        for (server, host, port) in [(&servers[0], "a", 5432), (&servers[1], "b", 6000)] {
            assert_eq!(server.get_hosts(), [Host::Tcp(host.to_owned())]);
            assert_eq!((server.get_ports(), server.get_user()), (&[port][..], Some("ana")));
            assert_eq!(server.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
    }

    #[test]
    fn an_invalid_url_is_explained_without_its_password() {
        let table = [
            ("mysql://ana:s3cret@db/chat", "expected postgres://"),
            ("postgres://db/chat", "it names no user"),
            ("postgres://ana:s3cret@/chat", "it names no host"),
            ("postgres://ana:s3cret@db", "it names no database"),
            ("postgres://ana:s3cret@db:x/chat", "port"),
            ("postgres://ana:se?s3cret@db/chat", "a parameter has no value"),
            ("postgres://ana:se?s3cret=x@db/chat", "its parameters may be sslmode"),
            ("postgres://ana:at@s3cret@db/chat", "is written %40"),
            ("postgres://ana:s3cret@db/chat?sslmode=prefer", "disable, require or verify-full"),
            ("postgres://ana:s3cret@db/chat?sslrootcert=x", "only with sslmode=verify-full"),
            ("postgres://ana:s3cret@db/chat?pool_size=1", "pool_size must be 2 to"),
            ("postgres://ana:s3cret@db/chat?synchronous_commit=maybe", "must be off, local"),
            ("postgres://ana:s3cret@db/chat?passfile=x", "its parameters may be"),
        ];
        for (url, expected) in table {
            let refusal = read(url).unwrap_err();
            assert!(refusal.contains(expected), "{url}: {refusal}");
            assert!(!refusal.contains("s3cret"), "{refusal}");
        }
        assert!(!format!("{:?}", read(PLACE).unwrap()).contains("s3cret"));
    }
}
