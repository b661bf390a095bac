//! The real server: a process that can be killed, paused and started again on the same data.

use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use heartline_engines::free_port;
use heartline_runtime::TaskSet;
use heartline_testing::{SECRET, is_stopped};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::HEARTLINE;
use crate::mounts::Namespace;
use crate::run::{Target, end_of};

/// How long a server may take to start: after a crash it has files to mend.
const START_MAX: Duration = Duration::from_secs(30);

/// How long a drain may take by default, and what the machine may add to it.
const DRAIN_MAX: Duration = Duration::from_secs(30 + 5);

/// A server's files, and the process while it runs.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    directory: PathBuf,
    /// Where its mounts are, if it has its own.
    pub(crate) namespace: Option<Namespace>,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// The task that reads the log.
    _reader: TaskSet<()>,
}

impl Server {
    /// Makes the files of a server that has its data below `data`, or in its own directory, and
    /// starts it. `more` is configuration: further limits, then whole sections.
    pub(crate) async fn start_new(namespace: Option<Namespace>, data: &str, more: &str) -> Self {
        let directory = HEARTLINE.scratch();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let data = directory.join(data);
        let configuration = format!(
            "[server]\nlisten = \"{address}\"\ndata_dir = \"{}\"\n\
             [auth]\nhmac_secret = \"{SECRET}\"\n\
             [limits]\nsend_rate = 10000\nsend_burst = 10000\n\
             frame_rate = 10000\nframe_burst = 10000\nbreaker_open = \"1s\"\n{more}",
            data.display()
        );
        let file = directory.join("heartline.toml");
        std::fs::write(&file, configuration).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let mut server = Self { address, directory, namespace, process: None };
        server.start().await;
        server
    }

    /// Starts the process and waits until it listens.
    pub(crate) async fn start(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let mut command = match &self.namespace {
            Some(namespace) => namespace.command(HEARTLINE.path),
            None => HEARTLINE.command(),
        };
        command.args(["serve", "--config"]).arg(self.directory.join("heartline.toml"));
        command.env_remove("HEARTLINE_SECRET").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = self.log_path();
        let (sender, mut listening) = watch::channel(false);
        let mut reader = TaskSet::new();
        reader.spawn(async move {
            let mut log = OpenOptions::new().create(true).append(true).open(log).unwrap();
            while let Ok(Some(line)) = lines.next_line().await {
                writeln!(log, "{line}").unwrap();
                if line.contains("listening") {
                    sender.send_replace(true);
                }
            }
        });
        let listens = timeout(START_MAX, listening.wait_for(|listens| *listens)).await;
        assert!(matches!(listens, Ok(Ok(_))), "the server did not start:\n{}", end_of(&self.log()));
        self.process = Some(Process { child, _reader: reader });
    }

    /// Kills the process.
    pub(crate) async fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.child.start_kill().unwrap();
        process.child.wait().await.unwrap();
    }

    /// Asks the process to end, which takes it as long as it has something to say, and is a
    /// success.
    pub(crate) async fn drain(&mut self) {
        self.signal("TERM").await;
        let mut process = self.process.take().expect("it runs");
        let ended = timeout(DRAIN_MAX, process.child.wait()).await;
        let status = ended.expect("a drain has an end").unwrap();
        assert!(status.success(), "a drain ends with {status}:\n{}", end_of(&self.log()));
    }

    pub(crate) fn pid(&self) -> u32 {
        let process = self.process.as_ref().expect("it runs");
        process.child.id().expect("it has not been waited for")
    }

    /// Sends a signal by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let (name, pid) = (format!("-{name}"), self.pid().to_string());
        let status = Command::new("kill").args([name, pid]).status().await.unwrap();
        assert!(status.success(), "the server takes a signal");
    }

    /// Stops every thread of the process. When the call returns, nothing more is sent or written.
    pub(crate) async fn freeze(&self) {
        self.signal("STOP").await;
        while !is_stopped(self.pid()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("server.log")
    }

    /// The log of the server, including its earlier processes.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }
}

impl Target for Server {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn logs(&self) -> Vec<String> {
        vec![self.log()]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
