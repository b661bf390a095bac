//! A private PostgreSQL server.

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

use heartline_runtime::Random;
use rustix::process::Signal;

use crate::port::free_port;
use crate::processes;

/// Deadline for starting and for stopping.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often the state is polled while starting or stopping.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The settings of every cluster, before those of the caller. None of them reduces durability.
const SETTINGS: [(&str, &str); 6] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "200"),
    ("shared_buffers", "64MB"),
    ("max_wal_size", "1GB"),
    ("log_min_messages", "fatal"),
];

/// The programs that must be installed.
const PROGRAMS: [&str; 5] = ["initdb", "postgres", "createdb", "psql", "pg_isready"];

/// Runs beside the cluster and waits for the end of its standard input, which closes when the
/// process that started the cluster ends for any reason. Then kills the cluster and removes its
/// directory.
const CLEANUP_SCRIPT: &str = r#"
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

/// A PostgreSQL cluster in a temporary directory, on a free port of loopback, without passwords.
/// Dropping the value stops the cluster and removes the directory.
#[derive(Debug)]
pub struct Postgres {
    directory: PathBuf,
    binaries: PathBuf,
    owner: Option<Owner>,
    port: u16,
    state: Mutex<State>,
    cleanup: Child,
}

/// The mutable state of a cluster.
#[derive(Debug, Default)]
struct State {
    settings: Vec<(String, String)>,
    server: Option<Child>,
    databases: usize,
}

/// The user that the server runs as if this process is root, because PostgreSQL does not run as
/// root.
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
        let name = format!("heartline-postgres-{:032x}", Random::system().draw::<u128>());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a temporary directory can be created");
        let cleanup = cleanup(&directory);
        let state = Mutex::new(State::default());
        let postgres = Self { directory, binaries, owner, port: free_port(), state, cleanup };
        postgres.set_owner(&postgres.directory);
        let mut initdb = postgres.command("initdb");
        initdb.args(["--no-sync", "--no-instructions", "--auth=trust", "--username=postgres"]);
        initdb.args(["--encoding=UTF8", "--no-locale", "--pgdata"]).arg(postgres.data());
        run(initdb);
        postgres.restart_with(settings);
        postgres
    }

    /// A cluster that all callers in this process share. The cluster ends with the process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// The URL of the database `postgres`, without TLS.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The port of loopback that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates a database and returns its URL, without TLS.
    ///
    /// # Panics
    /// A database of this name exists, or the cluster does not run.
    pub fn create_database(&self, name: &str) -> String {
        let mut createdb = self.command("createdb");
        let port = self.port.to_string();
        createdb.args(["--host=127.0.0.1", "--username=postgres", "--port", &port, name]);
        run(createdb);
        self.url_of(name)
    }

    /// Creates a database with a new name and returns its URL, without TLS.
    ///
    /// # Panics
    /// The cluster does not run.
    pub fn fresh_database(&self) -> String {
        // The lock serializes the calls, because each copies the same template database.
        let mut state = self.lock();
        state.databases += 1;
        let number = state.databases;
        self.create_database(&format!("fresh_{number}"))
    }

    /// Runs SQL and returns its output: one line per row, columns separated by `|`.
    ///
    /// # Panics
    /// The SQL fails.
    pub fn sql(&self, url: &str, sql: &str) -> String {
        let mut psql = self.command("psql");
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        psql.args(["--set=ON_ERROR_STOP=1", "--command", sql, url]);
        run(psql)
    }

    /// Writes a file that only the server can read, and returns its path.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn put_file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.directory.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(content)).expect("a file can be written");
        self.set_owner(&path);
        path
    }

    /// Kills every process of the cluster, like a power failure.
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
        assert!(wait_until(are_gone), "the processes of PostgreSQL did not end");
    }

    /// Stops the cluster if it runs, and starts it again.
    ///
    /// # Panics
    /// The server does not start.
    pub fn restart(&self) {
        self.restart_with(&[]);
    }

    /// Restarts the cluster with additional settings, which later restarts keep.
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
        let log = self.open_log();
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        state.server = Some(server.spawn().expect("the server can be started"));
        drop(state);
        assert!(wait_until(|| self.is_ready()), "PostgreSQL does not start: {}", self.read_log());
    }

    /// Suspends every process of the cluster, like a machine that hangs.
    pub fn pause(&self) {
        processes::signal(&self.processes(), Signal::STOP);
    }

    /// Resumes the processes after [`Postgres::pause`].
    pub fn resume(&self) {
        processes::signal(&self.processes(), Signal::CONT);
    }

    /// The processes of the cluster. The server comes first, so that it starts no further child.
    fn processes(&self) -> Vec<u32> {
        let state = self.lock();
        let Some(server) = &state.server else { return Vec::new() };
        let mut processes = vec![server.id()];
        processes.extend(processes::children_of(server.id()));
        processes
    }

    /// Whether the server accepts queries; recovery after a kill takes some time.
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

    fn open_log(&self) -> Stdio {
        let path = self.directory.join("log");
        let log = OpenOptions::new().append(true).create(true).open(path);
        log.expect("a log can be written").into()
    }

    fn read_log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// A PostgreSQL program, run as the owner of the cluster.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        command.current_dir(&self.directory).env("LC_ALL", "C").env_remove("PGOPTIONS");
        if let Some(Owner { user, group }) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn set_owner(&self, path: &Path) {
        if let Some(Owner { user, group }) = self.owner {
            chown(path, Some(user), Some(group)).expect("root can change the owner of a file");
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
            // An immediate shutdown releases shared memory; a kill does not.
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
        // The cleanup process reads the end of its input and removes the directory.
        drop(self.cleanup.stdin.take());
        let _ = self.cleanup.wait();
    }
}

fn cleanup(directory: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", CLEANUP_SCRIPT, "heartline-cleanup"]).arg(directory).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a shell can be started")
}

/// The directory of PostgreSQL's programs: in `PATH`, or in Debian's directories, newest version
/// first. The directory must have all of them, because some systems link only a few into `PATH`.
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

/// The owner of the cluster if this process is root.
fn owner() -> Option<Owner> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let id = |flag: &str| {
        let mut id = Command::new("id");
        id.args([flag, "postgres"]);
        run(id).trim().parse().expect("`id` prints a number")
    };
    Some(Owner { user: id("-u"), group: id("-g") })
}

/// Runs a command to its end and returns its output.
fn run(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {errors}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let attempts = DEADLINE.as_millis() / POLL_INTERVAL.as_millis();
    for _ in 0..attempts {
        if condition() {
            return true;
        }
        thread::sleep(POLL_INTERVAL);
    }
    false
}
