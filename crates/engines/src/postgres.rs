//! A PostgreSQL of one's own.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::port::free_port;
use crate::processes;

/// How long it may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked whether it has begun or ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What every cluster is started with, before what the caller asks for. Nothing here makes it
/// less durable.
const SETTINGS: [(&str, &str); 6] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "200"),
    ("shared_buffers", "64MB"),
    ("max_wal_size", "1GB"),
    ("log_min_messages", "fatal"),
];

/// The programs that are needed.
const PROGRAMS: [&str; 5] = ["initdb", "postgres", "createdb", "psql", "pg_isready"];

/// What runs when the one who started the cluster is gone, however it went: its end of a pipe is
/// closed then.
const JANITOR: &str = r#"
cat > /dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
if [ -n "$pid" ]; then
    kill -CONT "$pid" $(cat "/proc/$pid/task/$pid/children") 2> /dev/null
    kill -QUIT "$pid" 2> /dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ -d "/proc/$pid" ] || break
        sleep 0.1
    done
    kill -KILL "$pid" 2> /dev/null
fi
rm -rf "$1"
"#;

/// A cluster of its own in a temporary directory, on a free port of loopback, without passwords.
/// Dropping it ends it and removes the directory.
#[derive(Debug)]
pub struct Postgres {
    directory: PathBuf,
    binaries: PathBuf,
    owner: Option<Owner>,
    port: u16,
    state: Mutex<State>,
    janitor: Child,
}

/// What changes while it is in use.
#[derive(Debug, Default)]
struct State {
    settings: Vec<(String, String)>,
    server: Option<Child>,
    databases: usize,
}

/// The user that the server runs as, because it refuses to run as root.
#[derive(Debug, Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

impl Postgres {
    /// Starts a cluster.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a cluster with settings of `postgresql.conf`.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        let binaries = binaries();
        let owner = owner();
        let name = format!("heartline-postgres-{:032x}", rand::random::<u128>());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a temporary directory can be made");
        let janitor = janitor(&directory);
        let state = Mutex::new(State::default());
        let postgres = Self { directory, binaries, owner, port: free_port(), state, janitor };
        postgres.give_away(&postgres.directory);
        let mut initdb = postgres.command("initdb");
        initdb.args(["--no-sync", "--no-instructions", "--auth=trust", "--username=postgres"]);
        initdb.args(["--encoding=UTF8", "--no-locale", "--pgdata"]).arg(postgres.data());
        run(initdb);
        postgres.restart_with(settings);
        postgres
    }

    /// One cluster for everybody in this process. It ends with the process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// The URL of the database `postgres`, without TLS.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The port of loopback that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes a database and answers its URL, without TLS.
    ///
    /// # Panics
    /// There is one of this name, or the cluster does not run.
    pub fn create_database(&self, name: &str) -> String {
        let mut createdb = self.command("createdb");
        let port = self.port.to_string();
        createdb.args(["--host=127.0.0.1", "--username=postgres", "--port", &port, name]);
        run(createdb);
        self.url_of(name)
    }

    /// Makes a database that nobody else knows and answers its URL, without TLS.
    ///
    /// # Panics
    /// The cluster does not run.
    pub fn fresh_database(&self) -> String {
        // One after the other, because each copies the same template.
        let mut state = self.lock();
        state.databases += 1;
        let number = state.databases;
        self.create_database(&format!("fresh_{number}"))
    }

    /// Runs SQL and answers what it printed: one line per row, columns parted by `|`.
    ///
    /// # Panics
    /// The server refuses it.
    pub fn sql(&self, url: &str, sql: &str) -> String {
        let mut psql = self.command("psql");
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        psql.args(["--set=ON_ERROR_STOP=1", "--command", sql, url]);
        run(psql)
    }

    /// Puts a file where the server may read it and nobody else, and answers its path.
    ///
    /// # Panics
    /// The disk is full, or the like.
    pub fn put_file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.directory.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(content)).expect("a file can be written");
        self.give_away(&path);
        path
    }

    /// Kills every process of the cluster at once, as a power cut would.
    ///
    /// # Panics
    /// The processes do not end.
    pub fn stop(&self) {
        let Some(mut server) = self.lock().server.take() else { return };
        let children = processes::children_of(server.id());
        processes::signal(&[server.id()], Signal::KILL);
        processes::signal(&children, Signal::KILL);
        server.wait().expect("a child can be waited for");
        let are_gone = || children.iter().all(|pid| !processes::is_running(*pid));
        assert!(wait_until(are_gone), "the server's processes must end");
    }

    /// Starts the cluster again after [`Postgres::stop`], or stops it first.
    ///
    /// # Panics
    /// The server does not start.
    pub fn restart(&self) {
        self.restart_with(&[]);
    }

    /// Starts the cluster again with more settings, which stay.
    ///
    /// # Panics
    /// The server does not start.
    pub fn restart_with(&self, settings: &[(&str, &str)]) {
        self.stop();
        let mut state = self.lock();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        state.settings.extend(settings.iter().map(owned));
        let mut server = self.command("postgres");
        server.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        let given = state.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in SETTINGS.into_iter().chain(given) {
            server.args(["-c", &format!("{name}={value}")]);
        }
        let log = self.log();
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        state.server = Some(server.spawn().expect("the server can be started"));
        drop(state);
        assert!(wait_until(|| self.is_ready()), "the server does not start: {}", self.complaints());
    }

    /// Stops every process of the cluster where it stands, as a machine that hangs would.
    pub fn pause(&self) {
        processes::signal(&self.processes(), Signal::STOP);
    }

    /// Lets them go on.
    pub fn resume(&self) {
        processes::signal(&self.processes(), Signal::CONT);
    }

    /// The server first, so that no child is started meanwhile.
    fn processes(&self) -> Vec<u32> {
        let state = self.lock();
        let Some(server) = &state.server else { return Vec::new() };
        let mut processes = vec![server.id()];
        processes.extend(processes::children_of(server.id()));
        processes
    }

    /// Whether it answers; recovery after a kill takes a moment.
    fn is_ready(&self) -> bool {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            return false;
        }
        let mut ready = self.command("pg_isready");
        let port = self.port.to_string();
        ready.args(["--quiet", "--host=127.0.0.1", "--username=postgres", "--port", &port]);
        ready.status().is_ok_and(|status| status.success())
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self) -> Stdio {
        let path = self.directory.join("log");
        let log = OpenOptions::new().append(true).create(true).open(path);
        log.expect("a log can be written").into()
    }

    fn complaints(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// A command of PostgreSQL, run as the user that may run it.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        command.current_dir(&self.directory).env("LC_ALL", "C").env_remove("PGOPTIONS");
        if let Some(Owner { user, group }) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn give_away(&self, path: &Path) {
        if let Some(Owner { user, group }) = self.owner {
            chown(path, Some(user), Some(group)).expect("root may give files away");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.resume();
        if let Some(server) = &self.lock().server {
            // An immediate shutdown gives its shared memory back, which a kill does not.
            processes::signal(&[server.id()], Signal::QUIT);
        }
        let mut state = self.lock();
        let mut has_ended = || match &mut state.server {
            Some(server) => server.try_wait().is_ok_and(|status| status.is_some()),
            None => true,
        };
        let ended = wait_until(&mut has_ended);
        drop(state);
        if !ended {
            self.stop();
        }
        // The janitor sees the end of its pipe and removes the directory.
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

fn janitor(directory: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", JANITOR, "janitor"]).arg(directory).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a shell can be started")
}

/// Where PostgreSQL's programs are: in the path, or where Debian puts them, the newest first;
/// all in one place, because some systems link only a few into the path.
fn binaries() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    let number = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).and_then(|name| name.parse::<u32>().ok())
    };
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    directories.extend(versions.into_iter().map(|version| version.join("bin")));
    let has_all =
        |directory: &PathBuf| PROGRAMS.iter().all(|program| directory.join(program).exists());
    let found = directories.into_iter().find(has_all);
    found.expect("PostgreSQL must be installed: on Debian, apt-get install postgresql")
}

/// Who must own the cluster, if we are root.
fn owner() -> Option<Owner> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let id = |flag: &str| {
        let mut id = Command::new("id");
        id.args([flag, "postgres"]);
        run(id).trim().parse().expect("id answers a number")
    };
    Some(Owner { user: id("-u"), group: id("-g") })
}

/// Runs a command to its end and answers what it printed.
fn run(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {complaints}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let attempts = PATIENCE.as_millis() / POLL_INTERVAL.as_millis();
    for _ in 0..attempts {
        if condition() {
            return true;
        }
        thread::sleep(POLL_INTERVAL);
    }
    false
}
