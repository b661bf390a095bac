//! The processes that a run starts, and that never outlive it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use heartline_engines::free_port;

use super::signer::Secret;

/// A child that is killed and waited for when it is dropped, however the run ends.
#[derive(Debug)]
pub(super) struct ChildProcess {
    child: Child,
    /// Held for as long as the child may read its configuration.
    _directory: Option<PrivateDirectory>,
}

impl ChildProcess {
    /// Starts this binary's own server, on a free port and with a secret made for it.
    pub(super) fn server(
        connections: usize,
        secret: &Secret,
        allowance: Allowance,
        footing: &Footing,
    ) -> Result<(Self, SocketAddr)> {
        let directory = PrivateDirectory::create()?;
        let address = free_address();
        let file = directory.path.join("bench.toml");
        let configuration = configuration(address, &directory.path, connections, secret)
            + allowance.toml()
            + &footing.toml(free_address());
        write_private(&file, &configuration)?;
        let child = Command::new(this_program()?)
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("the server under test could not be started")?;
        Ok((Self { child, _directory: Some(directory) }, address))
    }

    /// Starts the bare loop. It says where it listens, and ends when its input does.
    pub(super) fn bare() -> Result<(Self, SocketAddr)> {
        let child = Command::new(this_program()?)
            .args(["bench", "bare"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the bare loop could not be started")?;
        let mut this = Self { child, _directory: None };
        let output = this.child.stdout.take().context("the bare loop has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse().context("the bare loop did not say where it listens")?;
        Ok((this, address))
    }

    /// Starts the embedded store by itself, with a directory of its own. Its figures are what it
    /// writes to its output, which ends with it.
    pub(super) fn store(arguments: &[String]) -> Result<(Self, ChildStdout)> {
        let directory = PrivateDirectory::create()?;
        let child = Command::new(this_program()?)
            .args(["bench", "store", "--directory"])
            .arg(&directory.path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("the store could not be started")?;
        let mut this = Self { child, _directory: Some(directory) };
        let output = this.child.stdout.take().context("the store has no output")?;
        Ok((this, output))
    }

    /// Starts the process of an audience, which is asked through this. The secret is not among
    /// its arguments, which everybody on the machine can read.
    pub(super) fn audience(secret: &Secret, line: &OwnedFd) -> Result<Self> {
        let child = Command::new(this_program()?)
            .args(["bench", "audience"])
            .env("HEARTLINE_SECRET", &secret.0)
            .stdin(line.try_clone()?)
            .stdout(line.try_clone()?)
            .spawn()
            .context("an audience could not be started")?;
        Ok(Self { child, _directory: None })
    }

    /// The child's process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails once the child has ended by itself, which it never should.
    pub(super) fn require_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the server under test ended by itself: {status}"),
            None => Ok(()),
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Both fail only when the child is gone already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What a server under test lets its clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowance {
    /// What a newcomer's server does.
    Usual,
    /// As many messages as it can take: a limit would be measured instead of the server. Its
    /// metrics can be read.
    Unlimited,
}

impl Allowance {
    /// What is added to the section `[limits]`, and what follows it.
    const fn toml(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Unlimited => {
                "send_rate = 100000\nsend_burst = 100000\ninbound_requests = 10000\n\
                 ingest_per_chat = 100000\ningest_per_node = 1000000\n\n\
                 [metrics]\nlisten = \"main\"\n\n[party]\nedit_rate = 10000\n"
            }
        }
    }
}

/// What a server under test stands on: by default on itself alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Footing {
    /// The database, if it is not to be a file of its own.
    pub(super) store_url: Option<String>,
    /// Where it meets other nodes, if it is to have any.
    pub(super) meeting: Option<Meeting>,
}

/// Where the nodes of a cluster meet.
#[derive(Debug, Clone)]
pub(super) struct Meeting {
    /// Their Redis.
    pub(super) redis_url: String,
    /// What their keys begin with there.
    pub(super) key_prefix: String,
    /// What they prove to each other that they belong together.
    pub(super) secret: Secret,
}

impl Footing {
    /// The sections that follow all others.
    fn toml(&self, cluster_address: SocketAddr) -> String {
        let mut text = String::new();
        if let Some(url) = &self.store_url {
            text += &format!("\n[store]\nurl = \"{url}\"\n");
        }
        if let Some(Meeting { redis_url, key_prefix, secret }) = &self.meeting {
            text += &format!(
                "\n[redis]\nurl = \"{redis_url}\"\nkey_prefix = \"{key_prefix}\"\n\n\
                 [cluster]\nlisten = \"{cluster_address}\"\nsecret = \"{}\"\n",
                secret.0
            );
        }
        text
    }
}

/// A directory that only this user can read, removed with all it holds when dropped.
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
            .with_context(|| format!("{} could not be created", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // What stays behind is a small directory in the temporary one.
        fs::remove_dir_all(&self.path).ok();
    }
}

/// 32 random bytes in hex, as good as a secret that lives for one run needs to be.
pub(super) fn random_secret() -> Secret {
    Secret((0..4).map(|_| format!("{:016x}", random_number())).collect())
}

fn random_number() -> u64 {
    rand::random()
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("this program's own file could not be found")
}

fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}

/// Everything but the address limit and the log is as a newcomer's server would have it.
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
    fn the_configuration_is_toml_with_room_for_every_socket() {
        let address = free_address();
        let secret = random_secret();
        let text = configuration(address, Path::new("/data"), 10_000, &secret);
        for allowance in [Allowance::Usual, Allowance::Unlimited] {
            let table: toml::Table = (text.clone() + allowance.toml()).parse().unwrap();
            assert_eq!(table["auth"]["hmac_secret"].as_str(), Some(&*secret.0));
            assert_eq!(table["limits"]["connections_per_address"].as_integer(), Some(11_000));
            let is_raised = table["limits"].get("send_rate").is_some();
            assert_eq!(is_raised, allowance == Allowance::Unlimited);
        }
        assert_eq!(secret.0.len(), 64);
    }

    #[test]
    fn what_a_server_stands_on_follows_its_own_sections() {
        let (address, secret) = (free_address(), random_secret());
        let meeting = Meeting {
            redis_url: "redis://127.0.0.1:7000".to_owned(),
            key_prefix: "one:".to_owned(),
            secret: random_secret(),
        };
        let store_url = Some("postgres://127.0.0.1/bench".to_owned());
        let footing = Footing { store_url, meeting: Some(meeting) };
        let text = configuration(address, Path::new("/data"), 1, &secret)
            + Allowance::Unlimited.toml()
            + &footing.toml(address);
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["store"]["url"].as_str(), Some("postgres://127.0.0.1/bench"));
        assert_eq!(table["redis"]["key_prefix"].as_str(), Some("one:"));
        assert_eq!(table["cluster"]["listen"].as_str(), Some(&*address.to_string()));
        assert_eq!(Footing::default().toml(address), "");
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
