//! `heartline store`: copies of the embedded store, and a look whether it is whole.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;
use heartline_adapters::sqlite::{
    SqliteConfig, Thoroughness, back_up, check_store, restore, unfinished,
};
use heartline_auth::DATA_DIRECTORY;

use crate::config::{Config, Disk, Layer, Sources, StoreEngine, load};

/// How long a backup may take before it says how far it has come, and how often it then does.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Which store a command works on.
#[derive(Debug, Clone, clap::Args)]
pub struct StoreLocation {
    /// The data directory of the server [default: .heartline]
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "config")]
    pub data_dir: Option<PathBuf>,
    /// The configuration of the server, as for `heartline serve`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl StoreLocation {
    /// The configuration that was named, if one was.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn configuration(&self) -> Result<Option<Config>> {
        let Some(file) = &self.config else { return Ok(None) };
        let loaded = load(&Sources {
            preset: Layer::default(),
            file: Some(file),
            environment: std::env::vars_os().collect(),
            arguments: Layer::default(),
            files: &Disk,
        })?;
        Ok(Some(loaded.config))
    }

    /// Where the embedded store is.
    ///
    /// # Errors
    /// The configuration is refused, or names another kind of store.
    pub fn find(&self) -> Result<SqliteConfig> {
        let Some(config) = self.configuration()? else {
            let directory = self.data_dir.as_deref().unwrap_or(Path::new(DATA_DIRECTORY));
            return Ok(SqliteConfig::in_directory(directory));
        };
        let (store, server) = (&config.store, &config.server);
        anyhow::ensure!(
            StoreEngine::of(&store.url) == StoreEngine::Sqlite,
            "store.url is a PostgreSQL database: copy and check it with PostgreSQL's own tools, \
             such as pg_dump and pg_amcheck"
        );
        let mut config =
            SqliteConfig::from_url(&store.url, &server.data_dir).context("store.url")?;
        config.allow_unsafe = store.allow_unsafe;
        config.disk_reserve_bytes = store.disk_reserve;
        Ok(config)
    }
}

/// Copies the embedded store, puts a copy back, or checks it.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Copy the store to FILE; the server may be running
    Backup {
        /// The file to write; it appears under this name only when it is complete
        file: PathBuf,
        /// Replace FILE if it exists
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        store: StoreLocation,
    },
    /// Replace the store by a copy; the server must be stopped
    Restore {
        /// A file that `heartline store backup` has written
        file: PathBuf,
        /// Replace an existing store; its content is lost
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        store: StoreLocation,
    },
    /// Check the integrity of the store; the server may be running
    Check {
        /// Also compare every index with its table, which takes longer
        #[arg(long)]
        full: bool,
        #[command(flatten)]
        store: StoreLocation,
    },
}

/// Runs the command and answers its exit code: 0, or 1 with a sentence.
pub fn run(arguments: &StoreArguments, output: &mut dyn Write, errors: &mut dyn Write) -> u8 {
    let done = match &arguments.command {
        StoreCommand::Backup { file, force, store } => backup(store, file, *force, errors),
        StoreCommand::Restore { file, force, store } => put_back(store, file, *force),
        StoreCommand::Check { full, store } => check(store, *full),
    };
    told(done, output, errors)
}

/// Tells what was done, or why not, and answers the exit code. A reader that went away is no
/// error.
pub(super) fn told(done: Result<String>, output: &mut dyn Write, errors: &mut dyn Write) -> u8 {
    let (code, written) = match done {
        Ok(sentence) => (0, writeln!(output, "{sentence}").and_then(|()| output.flush())),
        Err(error) => (1, writeln!(errors, "heartline: {error:#}")),
    };
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => 1,
        Ok(()) | Err(_) => code,
    }
}

fn backup(
    location: &StoreLocation,
    file: &Path,
    force: bool,
    errors: &mut dyn Write,
) -> Result<String> {
    let store = location.find()?.path;
    let (done, finished) = sync_channel(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The other side waits for exactly this.
            let _ = done.send(back_up(&store, file, force));
        });
        loop {
            match finished.recv_timeout(PROGRESS_INTERVAL) {
                Ok(result) => break result.map_err(anyhow::Error::from),
                Err(RecvTimeoutError::Timeout) => {
                    let _ = progress(file, errors);
                }
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the backup broke off"),
            }
        }
    })?;
    let bytes = std::fs::metadata(file).with_context(|| file.display().to_string())?.len();
    let (store, file) = (store.display(), file.display());
    Ok(format!("{store} was copied to {file} and checked ({})", mebibytes(bytes)))
}

fn progress(file: &Path, errors: &mut dyn Write) -> io::Result<()> {
    let bytes = std::fs::metadata(unfinished(file)).map_or(0, |file| file.len());
    writeln!(errors, "… {} written", mebibytes(bytes))
}

fn put_back(location: &StoreLocation, file: &Path, force: bool) -> Result<String> {
    let store = location.find()?.path;
    restore(&store, file, force)?;
    Ok(format!("{} was put in the place of {}", file.display(), store.display()))
}

fn check(location: &StoreLocation, full: bool) -> Result<String> {
    let store = location.find()?.path;
    let thoroughness = if full { Thoroughness::Full } else { Thoroughness::Quick };
    let faults = check_store(&store, thoroughness)?;
    if faults.is_empty() {
        return Ok(format!("{} is whole", store.display()));
    }
    anyhow::bail!(
        "{} is damaged; restore a backup, or keep the file for an expert:\n  {}",
        store.display(),
        faults.join("\n  ")
    )
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1024 * 1024))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use heartline_adapters::sqlite::SqliteStore;
    use heartline_durability::People;
    use heartline_routing::Clock;
    use heartline_runtime::Random;

    use super::*;
    use crate::dev::tests::Scratch;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        store: StoreArguments,
    }

    fn run_in(scratch: &Scratch, arguments: &[&str]) -> (u8, String) {
        let directory = scratch.path().to_str().unwrap();
        let mut line = vec!["store"];
        line.extend(arguments);
        line.extend(["--data-dir", directory]);
        let line = Line::try_parse_from(line).map_err(|error| error.to_string());
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let code =
            run(&line.unwrap_or_else(|error| panic!("{error}")).store, &mut output, &mut errors);
        output.extend(errors);
        (code, String::from_utf8(output).unwrap())
    }

    async fn named(store: &SqliteStore, name: &str) {
        let user = "ana".parse().unwrap();
        store.set_display_name(&user, Some(name.to_owned())).await.unwrap();
    }

    async fn name(store: &SqliteStore) -> Option<String> {
        store.profile(&"ana".parse().unwrap()).await.unwrap().display_name
    }

    #[tokio::test]
    async fn a_backup_of_a_running_store_can_be_put_back() {
        let scratch = Scratch::new();
        let copy = scratch.path().join("copy.db");
        let copy = copy.to_str().unwrap();
        let config = SqliteConfig::in_directory(scratch.path());
        let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
        named(&store, "first").await;
        let (code, told) = run_in(&scratch, &["backup", copy]);
        assert_eq!(code, 0, "{told}");
        assert!(told.contains("and checked"), "{told}");
        assert!(!unfinished(Path::new(copy)).exists());
        let (code, told) = run_in(&scratch, &["backup", copy]);
        assert_eq!(code, 1);
        assert!(told.contains("replace it with --force"), "{told}");
        named(&store, "second").await;
        assert_eq!(run_in(&scratch, &["check", "--full"]).0, 0);

        let (code, told) = run_in(&scratch, &["restore", copy, "--force"]);
        assert_eq!(code, 1);
        assert!(told.contains("in use by another Heartline"), "{told}");
        drop(store);
        let (code, told) = run_in(&scratch, &["restore", copy]);
        assert_eq!(code, 1);
        assert!(told.contains("there is a store at"), "{told}");
        let (code, told) = run_in(&scratch, &["restore", copy, "--force"]);
        assert_eq!(code, 0, "{told}");
        let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
        assert_eq!(name(&store).await.as_deref(), Some("first"));
    }

    #[test]
    fn what_is_no_store_is_refused_and_nothing_is_touched() {
        let scratch = Scratch::new();
        let (code, told) = run_in(&scratch, &["check"]);
        assert_eq!(code, 1);
        assert!(told.contains("there is no store at"), "{told}");
        let text = scratch.path().join("text");
        fs::write(&text, "no database at all, but long enough to be looked at").unwrap();
        let (code, told) = run_in(&scratch, &["restore", text.to_str().unwrap()]);
        assert_eq!(code, 1);
        assert!(told.contains("text cannot be restored"), "{told}");
        assert!(!scratch.path().join("heartline.db").exists());
    }
}
