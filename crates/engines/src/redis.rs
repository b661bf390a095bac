//! A private Redis server, alone or as a Cluster.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use heartline_runtime::Random;
use rustix::process::Signal;

use crate::port::free_port;
use crate::processes;

/// Deadline for starting.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often the state is polled while starting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Attempts to find a port that is still free when the server binds it.
const ATTEMPTS: usize = 5;

/// Runs beside the server and waits for the end of its standard input, which closes when the
/// process that started the server ends for any reason. Then kills the server and removes its
/// directory.
const CLEANUP_SCRIPT: &str = r#"
cat > /dev/null
pid=$(cat "$1/redis.pid" 2> /dev/null)
if [ -n "$pid" ] && grep -qs redis "/proc/$pid/comm"; then
    kill -KILL "$pid" 2> /dev/null
fi
rm -rf "$1"
"#;

/// A Redis server without persistence in a temporary directory, on a free port of loopback.
/// Dropping the value stops the server and removes the directory.
#[derive(Debug)]
pub struct Redis {
    directory: PathBuf,
    port: u16,
    arguments: Vec<String>,
    server: Mutex<Option<Child>>,
    cleanup: Child,
}

impl Redis {
    /// Starts a server.
    ///
    /// # Panics
    /// Redis is not installed, or does not start.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional arguments, for example `["--maxmemory", "5mb"]`.
    ///
    /// # Panics
    /// Redis is not installed, or does not start.
    pub fn start_with(arguments: &[&str]) -> Self {
        let owned: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self::start_in(|_, port| {
            let port = ["--port".to_owned(), port.to_string()];
            port.into_iter().chain(owned.iter().cloned()).collect()
        })
    }

    /// Starts a server with the arguments that `prepare` returns, including `--port`. `prepare` may
    /// write files into the server's directory.
    ///
    /// # Panics
    /// Redis is not installed, or does not start.
    pub fn start_in(prepare: impl Fn(&Path, u16) -> Vec<String>) -> Self {
        for _ in 0..ATTEMPTS {
            let name = format!("heartline-redis-{:032x}", Random::system().draw::<u128>());
            let directory = std::env::temp_dir().join(name);
            fs::create_dir(&directory).expect("a temporary directory can be created");
            let cleanup = cleanup(&directory);
            let port = free_port();
            let arguments = prepare(&directory, port);
            let redis = Self { directory, port, arguments, server: Mutex::new(None), cleanup };
            if redis.launch() {
                return redis;
            }
            let log = redis.log();
            assert!(log.contains("already in use"), "Redis does not start: {log}");
        }
        panic!("no port of loopback stays free");
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port of loopback that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs a command with `redis-cli` and returns its output.
    ///
    /// # Panics
    /// The server cannot be reached.
    pub fn command(&self, arguments: &[&str]) -> String {
        let mut shell = Command::new("redis-cli");
        shell.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]).args(arguments);
        run(shell)
    }

    /// Kills the server, like a power failure. All data is lost.
    ///
    /// # Panics
    /// Waiting for the process fails.
    pub fn stop(&self) {
        let Some(mut server) = self.lock().take() else { return };
        processes::signal(&[server.id()], Signal::KILL);
        server.wait().expect("a child can be waited for");
    }

    /// Starts the server again on the same port, without data.
    ///
    /// # Panics
    /// Redis does not start.
    pub fn restart(&self) {
        self.stop();
        assert!(self.launch(), "Redis does not start again: {}", self.log());
    }

    /// Suspends the server: the kernel still accepts connections, but no command gets a reply.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the server after [`Redis::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(server) = &*self.lock() {
            processes::signal(&[server.id()], signal);
        }
    }

    /// Starts the process and waits until it accepts connections; false if it ended instead.
    fn launch(&self) -> bool {
        let log = self.directory.join("log");
        let output = OpenOptions::new().write(true).create(true).truncate(true).open(&log);
        let output = output.expect("a log can be written");
        let mut server = Command::new("redis-server");
        server.current_dir(&self.directory).args(["--bind", "127.0.0.1", "--save", ""]);
        server.args(["--appendonly", "no", "--pidfile"]).arg(self.directory.join("redis.pid"));
        server.args(&self.arguments).process_group(0);
        server.stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
        let started = server.spawn();
        let mut server =
            started.expect("Redis must be installed: on Debian, apt-get install redis-server");
        let attempts = DEADLINE.as_millis() / POLL_INTERVAL.as_millis();
        for _ in 0..attempts {
            if self.log().contains("Ready to accept connections") {
                *self.lock() = Some(server);
                return true;
            }
            if server.try_wait().expect("a child can be waited for").is_some() {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
        processes::signal(&[server.id()], Signal::KILL);
        let _ = server.wait();
        false
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
        // The cleanup process reads the end of its input and removes the directory.
        drop(self.cleanup.stdin.take());
        let _ = self.cleanup.wait();
    }
}

/// A Cluster of three masters without replicas.
#[derive(Debug)]
pub struct RedisCluster {
    /// The masters, in no particular order.
    pub masters: Vec<Redis>,
}

impl RedisCluster {
    /// Starts three servers and creates a Cluster from them.
    ///
    /// # Panics
    /// Redis is not installed, or the servers do not become a Cluster.
    pub fn start() -> Self {
        let masters: Vec<Redis> = (0..3).map(|_| Redis::start_in(cluster_arguments)).collect();
        let mut join = Command::new("redis-cli");
        join.args(["--cluster", "create"]);
        join.args(masters.iter().map(|master| format!("127.0.0.1:{}", master.port())));
        join.args(["--cluster-yes", "--cluster-replicas", "0"]);
        run(join);
        let cluster = Self { masters };
        let attempts = DEADLINE.as_millis() / POLL_INTERVAL.as_millis();
        for _ in 0..attempts {
            if cluster.is_ready() {
                return cluster;
            }
            thread::sleep(POLL_INTERVAL);
        }
        panic!("the servers do not become a Cluster");
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        let addresses: Vec<String> =
            self.masters.iter().map(|master| format!("127.0.0.1:{}", master.port())).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }

    fn is_ready(&self) -> bool {
        self.masters.iter().all(|master| {
            let info = master.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
    }
}

fn cluster_arguments(_directory: &Path, port: u16) -> Vec<String> {
    // The default cluster bus port is 10,000 higher and may not exist.
    let (port, bus_port) = (port.to_string(), free_port().to_string());
    let arguments = [
        ["--port", &port],
        ["--cluster-enabled", "yes"],
        ["--cluster-port", &bus_port],
        ["--cluster-node-timeout", "5000"],
    ];
    arguments.into_iter().flatten().map(str::to_owned).collect()
}

fn cleanup(directory: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", CLEANUP_SCRIPT, "heartline-cleanup"]).arg(directory).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a shell can be started")
}

/// Runs a command to its end and returns its output.
fn run(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed: {text} {errors}");
    text.trim_end().to_owned()
}
