//! `heartline store`: backs up, restores and checks the embedded store.

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

/// How long a backup may take before its progress is printed, and the interval after that.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// The store that a command works on.
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
    /// The configuration file that was given, if any.
    ///
    /// # Errors
    /// The configuration is invalid.
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

    /// The embedded store.
    ///
    /// # Errors
    /// The configuration is invalid, or names another engine.
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

/// Backs up the embedded store, restores a backup, or checks the store.
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

/// Runs the command and returns its exit code: 0, or 1 with an error message.
pub fn run(arguments: &StoreArguments, output: &mut dyn Write, errors: &mut dyn Write) -> u8 {
    let done = match &arguments.command {
        StoreCommand::Backup { file, force, store } => backup(store, file, *force, errors),
        StoreCommand::Restore { file, force, store } => restore_backup(store, file, *force),
        StoreCommand::Check { full, store } => check(store, *full),
    };
    print_outcome(done, output, errors)
}

/// Prints the outcome and returns the exit code. A reader that closed the pipe is no error.
pub(super) fn print_outcome(
    done: Result<String>,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> u8 {
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
            // The receiver waits for this one message.
            let _ = done.send(back_up(&store, file, force));
        });
        loop {
            match finished.recv_timeout(PROGRESS_INTERVAL) {
                Ok(result) => break result.map_err(anyhow::Error::from),
                Err(RecvTimeoutError::Timeout) => {
                    let _ = progress(file, errors);
                }
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the backup was aborted"),
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

fn restore_backup(location: &StoreLocation, file: &Path, force: bool) -> Result<String> {
    let store = location.find()?.path;
    restore(&store, file, force)?;
    Ok(format!("{} was restored to {}", file.display(), store.display()))
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
    use heartline_runtime::Clock;
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
    async fn a_backup_of_a_running_store_can_be_restore_backup() {
        let scratch = Scratch::new();
        let copy = scratch.path().join("copy.db");
        let copy = copy.to_str().unwrap();
        let config = SqliteConfig::in_directory(scratch.path());
        let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
        named(&store, "first").await;
        let (code, printed) = run_in(&scratch, &["backup", copy]);
        assert_eq!(code, 0, "{printed}");
        assert!(printed.contains("and checked"), "{printed}");
        assert!(!unfinished(Path::new(copy)).exists());
        let (code, printed) = run_in(&scratch, &["backup", copy]);
        assert_eq!(code, 1);
        assert!(printed.contains("replace it with --force"), "{printed}");
        named(&store, "second").await;
        assert_eq!(run_in(&scratch, &["check", "--full"]).0, 0);

        let (code, printed) = run_in(&scratch, &["restore", copy, "--force"]);
        assert_eq!(code, 1);
        assert!(printed.contains("in use by another Heartline"), "{printed}");
        drop(store);
        let (code, printed) = run_in(&scratch, &["restore", copy]);
        assert_eq!(code, 1);
        assert!(printed.contains("there is a store at"), "{printed}");
        let (code, printed) = run_in(&scratch, &["restore", copy, "--force"]);
        assert_eq!(code, 0, "{printed}");
        let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
        assert_eq!(name(&store).await.as_deref(), Some("first"));
    }

    #[test]
    fn what_is_no_store_is_refused_and_nothing_is_touched() {
        let scratch = Scratch::new();
        let (code, printed) = run_in(&scratch, &["check"]);
        assert_eq!(code, 1);
        assert!(printed.contains("there is no store at"), "{printed}");
        let text = scratch.path().join("text");
        fs::write(&text, "no database at all, but long enough to be looked at").unwrap();
        let (code, printed) = run_in(&scratch, &["restore", text.to_str().unwrap()]);
        assert_eq!(code, 1);
        assert!(printed.contains("text cannot be restored"), "{printed}");
        assert!(!scratch.path().join("heartline.db").exists());
    }
}
