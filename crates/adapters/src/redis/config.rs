//! The configuration of connections to Redis.

use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, TlsCertificates,
};

/// The default deadline of a call.
pub const DEADLINE_DEFAULT: Duration = Duration::from_millis(500);

/// The longest legal key prefix.
const KEY_PREFIX_LENGTH_MAX: usize = 64;

/// The configuration of connections to Redis.
///
/// The configuration contains credentials, so neither it nor the URL is ever printed: logs use
/// [`RedisConfig::address`].
#[derive(Clone)]
pub struct RedisConfig {
    seeds: Vec<ConnectionInfo>,
    is_cluster: bool,
    key_prefix: String,
    tls_root: Option<Vec<u8>>,
    /// The deadline of a call, including the wait for a connection.
    pub deadline: Duration,
}

/// A Redis URL or key prefix that cannot be used. The error never repeats the URL, which may
/// contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedisConfigError {
    /// The URL begins with something else.
    #[error("redis.url must begin with redis://, rediss://, redis-cluster:// or rediss-cluster://")]
    Scheme,
    /// The part behind the scheme is not right.
    #[error("redis.url is not a legal URL: {0}")]
    Url(&'static str),
    /// The prefix has characters that would make keys ambiguous.
    #[error("redis.key_prefix must be at most 64 characters of A-Z a-z 0-9 _ . : -")]
    KeyPrefix,
    /// The root certificate cannot be read.
    #[error("the root certificate for Redis is not a PEM certificate")]
    RootCertificate,
}

impl RedisConfig {
    /// Reads `redis://[user:password@]host[:port][/database]`, the same with `rediss` for TLS, and
    /// `redis-cluster://[user:password@]host:port,host:port…` likewise. A Cluster is asked for its
    /// other nodes, so one reachable host is enough.
    pub fn from_url(url: &str, key_prefix: &str) -> Result<Self, RedisConfigError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        if key_prefix.len() > KEY_PREFIX_LENGTH_MAX || !key_prefix.bytes().all(legal) {
            return Err(RedisConfigError::KeyPrefix);
        }
        let (scheme, rest) = url.split_once("://").ok_or(RedisConfigError::Scheme)?;
        let (scheme, is_cluster) = match scheme {
            "redis" | "rediss" => (scheme, false),
            "redis-cluster" => ("redis", true),
            "rediss-cluster" => ("rediss", true),
            _ => return Err(RedisConfigError::Scheme),
        };
        let seeds =
            if is_cluster { cluster_seeds(scheme, rest)? } else { vec![seed(scheme, rest)?] };
        Ok(Self {
            seeds,
            is_cluster,
            key_prefix: key_prefix.to_owned(),
            tls_root: None,
            deadline: DEADLINE_DEFAULT,
        })
    }

    /// Trusts this certificate authority (PEM) instead of those of the system.
    pub fn with_tls_root(mut self, pem: Vec<u8>) -> Result<Self, RedisConfigError> {
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.clone()) };
        let probe = "rediss://localhost".into_connection_info().and_then(|info| {
            Client::build_with_tls(info, certificates).map_err(|error| {
                tracing::warn!(%error, "the root certificate for Redis was not taken");
                error
            })
        });
        probe.map_err(|_| RedisConfigError::RootCertificate)?;
        self.tls_root = Some(pem);
        Ok(self)
    }

    /// Whether the server is a Redis Cluster.
    pub fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// The prefix of every key and channel.
    pub fn key_prefix(&self) -> &str {
        &self.key_prefix
    }

    /// The hosts and ports, without credentials, for people.
    pub fn address(&self) -> String {
        let addresses: Vec<String> =
            self.seeds.iter().map(|seed| seed.addr().to_string()).collect();
        addresses.join(",")
    }

    /// The addresses to begin with.
    pub(super) fn seeds(&self) -> &[ConnectionInfo] {
        &self.seeds
    }

    /// A client of one server.
    pub(super) fn client(
        &self,
        server: &ConnectionInfo,
        protocol: ProtocolVersion,
    ) -> redis::RedisResult<Client> {
        let settings = server.redis_settings().clone().set_protocol(protocol);
        let info = server.clone().set_redis_settings(settings);
        match (&self.tls_root, info.addr()) {
            (Some(_), ConnectionAddr::TcpTls { .. }) => {
                Client::build_with_tls(info, self.certificates())
            }
            _ => Client::open(info),
        }
    }

    /// A client of the Cluster.
    pub(super) fn cluster_client(&self) -> redis::RedisResult<ClusterClient> {
        // Our own deadline ends every call; within it, a few quick retries follow a moved slot. A
        // master that hangs is dialled twice before the first call, which must leave time for that.
        let mut builder: ClusterClientBuilder = ClusterClient::builder(self.seeds.clone())
            .connection_timeout(self.deadline / 3)
            .response_timeout(self.deadline)
            .overall_response_timeout(None)
            .retries(3)
            .min_retry_wait(20)
            .max_retry_wait(200);
        if self.tls_root.is_some() {
            builder = builder.certs(self.certificates());
        }
        builder.build()
    }

    /// The same credentials and TLS for another server of the Cluster.
    pub(super) fn server_at(&self, host: &str, port: u16) -> ConnectionInfo {
        let seed = &self.seeds[0];
        let host = if host.is_empty() { host_of(seed.addr()) } else { host.to_owned() };
        let address = match seed.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host, port),
        };
        seed.clone().set_addr(address)
    }

    fn certificates(&self) -> TlsCertificates {
        TlsCertificates { client_tls: None, root_cert: self.tls_root.clone() }
    }
}

impl std::fmt::Debug for RedisConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RedisConfig")
            .field("address", &self.address())
            .field("is_cluster", &self.is_cluster)
            .field("key_prefix", &self.key_prefix)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

fn host_of(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => String::new(),
    }
}

fn seed(scheme: &str, rest: &str) -> Result<ConnectionInfo, RedisConfigError> {
    if rest.contains('#') {
        return Err(RedisConfigError::Url("it must not have a fragment"));
    }
    let refused = RedisConfigError::Url("it must be [user:password@]host[:port][/database]");
    let info = format!("{scheme}://{rest}").into_connection_info().map_err(|_| refused)?;
    // Naming the library takes a permission that we need for nothing else.
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    let info = info.set_redis_settings(settings);
    Ok(info.set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true)))
}

fn cluster_seeds(scheme: &str, rest: &str) -> Result<Vec<ConnectionInfo>, RedisConfigError> {
    let rest = rest.trim_end_matches('/');
    let (credentials, hosts) = match rest.rsplit_once('@') {
        Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
        None => (String::new(), rest),
    };
    if hosts.contains('/') {
        return Err(RedisConfigError::Url("a Cluster has only database 0"));
    }
    hosts.split(',').map(|host| seed(scheme, &format!("{credentials}{host}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_one_server_or_the_seeds_of_a_cluster() {
        let one = RedisConfig::from_url("redis://:secret@localhost:7000/2", "").unwrap();
        assert_eq!((one.address().as_str(), one.is_cluster()), ("localhost:7000", false));
        let cluster = RedisConfig::from_url("redis-cluster://u:p@a:1,b:2,[::1]:3/", "x:").unwrap();
        assert!(cluster.is_cluster());
        assert_eq!(cluster.seeds().len(), 3);
        let credentials = |seed: &ConnectionInfo| {
            let settings = seed.redis_settings();
            (settings.username() == Some("u")) && (settings.password() == Some("p"))
        };
        assert!(cluster.seeds().iter().all(credentials), "all seeds have the credentials");
        let tls = RedisConfig::from_url("rediss-cluster://a:1", "").unwrap();
        assert!(matches!(tls.server_at("b", 2).addr(), ConnectionAddr::TcpTls { port: 2, .. }));
    }

    #[test]
    fn nothing_about_a_configuration_shows_its_password() {
        let config = RedisConfig::from_url("redis://user:hunter2@localhost", "").unwrap();
        assert!(!format!("{config:?} {}", config.address()).contains("hunter2"));
        for url in [
            "http://user:hunter2@localhost",
            "redis://user:hunter2@local host",
            "redis://user:hunter2@localhost:port",
            "redis://user:hunter2@localhost/database",
            "rediss://user:hunter2@localhost#insecure",
            "redis-cluster://user:hunter2@a:1,b:x",
            "redis-cluster://user:hunter2@a:1/3",
            "hunter2",
        ] {
            let error = RedisConfig::from_url(url, "").unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_prefix_that_would_be_a_hash_tag_or_a_pattern_is_refused() {
        for prefix in ["{a}", "a*", "a/b", "ä", &"p".repeat(65)] {
            let refused = RedisConfig::from_url("redis://localhost", prefix).unwrap_err();
            assert_eq!(refused, RedisConfigError::KeyPrefix);
        }
    }
}
