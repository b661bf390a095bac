//! The processes that a run starts. None outlives the run.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use heartline_engines::free_port;
use heartline_runtime::Random;

use super::signer::Secret;

/// A child process that is killed and waited for when the value is dropped.
#[derive(Debug)]
pub(super) struct ChildProcess {
    child: Child,
    /// Contains the child's configuration and data.
    _directory: Option<PrivateDirectory>,
}

impl ChildProcess {
    /// Starts `heartline serve` on a free port.
    pub(super) fn server(
        connections: usize,
        secret: &Secret,
        limits: Limits,
        backends: &Backends,
    ) -> Result<(Self, SocketAddr)> {
        let directory = PrivateDirectory::create()?;
        let address = free_address();
        let file = directory.path.join("bench.toml");
        let configuration = configuration(address, &directory.path, connections, secret)
            + limits.toml()
            + &backends.toml(free_address());
        write_private(&file, &configuration)?;
        let child = Command::new(this_program()?)
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("starting the server under test failed")?;
        Ok((Self { child, _directory: Some(directory) }, address))
    }

    /// Starts the bare loop, which prints its address and ends with its standard input.
    pub(super) fn bare() -> Result<(Self, SocketAddr)> {
        let child = Command::new(this_program()?)
            .args(["bench", "bare"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the bare loop failed")?;
        let mut this = Self { child, _directory: None };
        let output = this.child.stdout.take().context("the bare loop has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse().context("the bare loop did not print its address")?;
        Ok((this, address))
    }

    /// Starts the embedded store in a new directory. The process prints its figures and ends.
    pub(super) fn store(arguments: &[String]) -> Result<(Self, ChildStdout)> {
        let directory = PrivateDirectory::create()?;
        let child = Command::new(this_program()?)
            .args(["bench", "store", "--directory"])
            .arg(&directory.path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the store failed")?;
        let mut this = Self { child, _directory: Some(directory) };
        let output = this.child.stdout.take().context("the store has no output")?;
        Ok((this, output))
    }

    /// Starts a receiver process with this socket as its input and output. The secret is passed in
    /// the environment, because other users of the machine can read arguments.
    pub(super) fn receivers(secret: &Secret, socket: &OwnedFd) -> Result<Self> {
        let child = Command::new(this_program()?)
            .args(["bench", "receivers"])
            .env("HEARTLINE_SECRET", &secret.0)
            .stdin(socket.try_clone()?)
            .stdout(socket.try_clone()?)
            .spawn()
            .context("starting a receiver process failed")?;
        Ok(Self { child, _directory: None })
    }

    /// The process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails if the child has ended.
    pub(super) fn require_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the server under test ended unexpectedly: {status}"),
            None => Ok(()),
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Both fail only if the child has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The limits of a server under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limits {
    /// The default limits.
    Default,
    /// Limits that no run reaches, so that the server is measured and not its limits. The metrics
    /// are served on the main address.
    Unlimited,
}

impl Limits {
    /// The rest of the section `[limits]`, and the sections after it.
    const fn toml(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Unlimited => {
                "send_rate = 100000\nsend_burst = 100000\ninbound_requests = 10000\n\
                 ingest_per_chat = 100000\ningest_per_node = 1000000\n\n\
                 [metrics]\nlisten = \"main\"\n\n[party]\nedit_rate = 10000\n"
            }
        }
    }
}

/// The store and the cluster of a server under test; by default an embedded store and no cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Backends {
    /// The URL of the store; none for the embedded one.
    pub(super) store_url: Option<String>,
    /// The cluster that the server joins.
    pub(super) cluster: Option<ClusterConfig>,
}

/// The configuration that the nodes of a cluster share.
#[derive(Debug, Clone)]
pub(super) struct ClusterConfig {
    /// The URL of the shared Redis.
    pub(super) redis_url: String,
    /// The prefix of all keys in Redis.
    pub(super) key_prefix: String,
    /// The secret by which nodes authenticate each other.
    pub(super) secret: Secret,
}

impl Backends {
    /// The sections `[store]`, `[redis]` and `[cluster]`.
    fn toml(&self, cluster_address: SocketAddr) -> String {
        let mut text = String::new();
        if let Some(url) = &self.store_url {
            text += &format!("\n[store]\nurl = \"{url}\"\n");
        }
        if let Some(ClusterConfig { redis_url, key_prefix, secret }) = &self.cluster {
            text += &format!(
                "\n[redis]\nurl = \"{redis_url}\"\nkey_prefix = \"{key_prefix}\"\n\n\
                 [cluster]\nlisten = \"{cluster_address}\"\nsecret = \"{}\"\n",
                secret.0
            );
        }
        text
    }
}

/// A directory that only this user can read, removed with its content when the value is dropped.
#[derive(Debug)]
struct PrivateDirectory {
    path: PathBuf,
}

impl PrivateDirectory {
    fn create() -> Result<Self> {
        let name = format!("heartline-bench-{}-{:016x}", std::process::id(), random_number());
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("creating {} failed", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // A failure leaves only a small directory below the temporary one.
        fs::remove_dir_all(&self.path).ok();
    }
}

/// 32 random bytes in hex: a secret for one run.
pub(super) fn random_secret() -> Secret {
    Secret((0..4).map(|_| format!("{:016x}", random_number())).collect())
}

fn random_number() -> u64 {
    Random::system().draw()
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding the path of this program failed")
}

fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}

/// The default configuration except for the limit per address and the log level.
fn configuration(
    address: SocketAddr,
    directory: &Path,
    connections: usize,
    secret: &Secret,
) -> String {
    format!(
        "[server]\nlisten = \"{address}\"\ndata_dir = \"{}\"\n\n\
         [auth]\nhmac_secret = \"{}\"\n\n\
         [log]\nlevel = \"error\"\n\n\
         [limits]\nconnections_per_address = {}\n",
        directory.display(),
        secret.0,
        connections + 1000,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_toml_and_allows_all_connections() {
        let address = free_address();
        let secret = random_secret();
        let text = configuration(address, Path::new("/data"), 10_000, &secret);
        for limits in [Limits::Default, Limits::Unlimited] {
            let table: toml::Table = (text.clone() + limits.toml()).parse().unwrap();
            assert_eq!(table["auth"]["hmac_secret"].as_str(), Some(&*secret.0));
            assert_eq!(table["limits"]["connections_per_address"].as_integer(), Some(11_000));
            let is_raised = table["limits"].get("send_rate").is_some();
            assert_eq!(is_raised, limits == Limits::Unlimited);
        }
        assert_eq!(secret.0.len(), 64);
    }

    #[test]
    fn the_backends_are_sections_of_the_configuration() {
        let (address, secret) = (free_address(), random_secret());
        let cluster = ClusterConfig {
            redis_url: "redis://127.0.0.1:7000".to_owned(),
            key_prefix: "one:".to_owned(),
            secret: random_secret(),
        };
        let store_url = Some("postgres://127.0.0.1/bench".to_owned());
        let backends = Backends { store_url, cluster: Some(cluster) };
        let text = configuration(address, Path::new("/data"), 1, &secret)
            + Limits::Unlimited.toml()
            + &backends.toml(address);
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["store"]["url"].as_str(), Some("postgres://127.0.0.1/bench"));
        assert_eq!(table["redis"]["key_prefix"].as_str(), Some("one:"));
        assert_eq!(table["cluster"]["listen"].as_str(), Some(&*address.to_string()));
        assert_eq!(Backends::default().toml(address), "");
    }

    #[test]
    fn a_directory_is_private_and_does_not_outlive_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let directory = PrivateDirectory::create().unwrap();
        let path = directory.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        write_private(&path.join("file"), "text").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
