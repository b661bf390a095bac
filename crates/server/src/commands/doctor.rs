//! `heartline doctor`: checks a node or a cluster, and prints what to do.
//!
//! The command checks the configuration, the engines, the nodes and every invariant: by the entries
//! in Redis, by a probe with users of its own, or by naming the test that checks it. Nothing of
//! other users is changed. Nodes write at the same time, so a suspicious entry is read again before
//! it is reported.

mod clocks;
mod configuration;
mod evidence;
mod invariants;
mod nodes;
mod probe;
mod redis;
mod report;
mod store;
mod web;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use heartline_auth::{DATA_DIRECTORY, SECRET_BYTES_MIN, Secret, read_dev_secret};
use heartline_runtime::Clock;

use self::evidence::Evidence;
use self::probe::Probe;
use self::report::{Finding, Report};
use crate::config::{ConfigErrors, Disk, Layer, Loaded, Sources, load};

pub use self::invariants::{INVARIANTS, Invariant};

/// The exit code when a check has failed.
const FAILED: u8 = 1;

/// The exit code for an invalid configuration.
const REFUSED: u8 = 2;

/// How long a check may take before its progress is printed, and the interval after that.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Checks configuration, engines, nodes and invariants, and prints what to do.
#[derive(Debug, clap::Args)]
pub struct DoctorArguments {
    /// The configuration of the server, as for `heartline serve`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data directory of `heartline dev` [default: .heartline]
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "config")]
    pub data_dir: Option<PathBuf>,
    /// Probe the node at this URL with test users, such as http://127.0.0.1:7400; may be repeated
    #[arg(long, value_name = "URL")]
    pub url: Vec<String>,
    /// A file with the secret for the probe's tokens [default: the configured one]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub json: bool,
}

/// Runs the command and returns its exit code: 0, 1 if a check failed, or 2 for an invalid
/// configuration.
pub fn run(
    arguments: &DoctorArguments,
    clock: Clock,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> u8 {
    let mut report = Report::new(arguments.json, output, errors);
    let loaded = match load_configuration(arguments) {
        Ok(loaded) => loaded,
        Err(problems) => {
            for problem in problems.to_string().lines() {
                let advice = "change the key; `heartline config` prints every key with its meaning";
                report.note(Finding::fail("configuration", problem).advise(advice));
            }
            return report.finish().max(REFUSED);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let examined = match runtime.context("the runtime cannot start") {
        Ok(runtime) => runtime.block_on(examine(arguments, &loaded, clock, &mut report)),
        Err(error) => Err(error),
    };
    if let Err(error) = examined {
        report.note(Finding::fail("doctor", format!("{error:#}")));
    }
    report.finish()
}

/// Runs every check in order.
async fn examine(
    arguments: &DoctorArguments,
    loaded: &Loaded,
    clock: Clock,
    report: &mut Report<'_>,
) -> Result<()> {
    let config = &loaded.config;
    let mut evidence = Vec::<Evidence>::new();
    evidence.extend(configuration::examine(loaded, report));
    evidence.extend(store::examine(arguments, config, clock, report).await);
    let roster = match redis::connect(config, clock)? {
        Some(client) => {
            evidence.extend(redis::examine(&client, config, report).await);
            nodes::examine_roster(&client, config, report).await
        }
        None => {
            let why = "redis.url is not set: this is a single node, and its directory is in memory";
            report.note(Finding::skipped("redis", why));
            None
        }
    };
    if arguments.url.is_empty() {
        let why = "pass --url to test messages and presence on a node";
        report.note(Finding::skipped("probe", why));
    } else {
        nodes::examine_urls(&arguments.url, roster.as_ref(), report).await;
        match probe_secret(arguments, loaded) {
            Ok(Some(secret)) => {
                let probe = Probe::new(&arguments.url, secret, loaded, clock);
                evidence.extend(probe.run(report).await);
            }
            Ok(None) => {
                let why = "tokens cannot be signed: the configuration has no shared secret, so \
                           name one with --secret-file";
                report.note(Finding::skipped("probe", why));
            }
            Err(error) => report.note(Finding::fail("probe", format!("{error:#}"))),
        }
    }
    for invariant in INVARIANTS {
        report.note(invariant.finding(&evidence));
    }
    Ok(())
}

/// Loads the configuration of `serve`, or that of `dev` if the directory holds its secret.
fn load_configuration(arguments: &DoctorArguments) -> Result<Loaded, ConfigErrors> {
    let mut preset = Layer::default();
    if arguments.config.is_none() {
        let directory = arguments.data_dir.as_deref().unwrap_or(Path::new(DATA_DIRECTORY));
        if let Ok(secret) = read_dev_secret(directory) {
            let directory = directory.display().to_string();
            preset = preset
                .with("dev", "server", "data_dir", &directory)
                .with("dev", "auth", "hmac_secret", secret.expose())
                .with("dev", "presence", "default_visibility", "everyone");
        }
    }
    load(&Sources {
        preset,
        file: arguments.config.as_deref(),
        environment: std::env::vars_os().collect(),
        arguments: Layer::default(),
        files: &Disk,
    })
}

/// The secret for the probe's tokens: the given file, else the configured secret.
fn probe_secret(arguments: &DoctorArguments, loaded: &Loaded) -> Result<Option<Secret>> {
    let Some(path) = &arguments.secret_file else {
        let configured = loaded.auth_keys.hmac_secrets.first();
        return Ok(configured.map(|secret| Secret::new(secret.clone())));
    };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let text = text.trim_end();
    anyhow::ensure!(
        text.len() >= SECRET_BYTES_MIN,
        "the secret in {} has {} bytes, but a secret needs at least {SECRET_BYTES_MIN}",
        path.display(),
        text.len()
    );
    Ok(Some(Secret::new(text.to_owned())))
}
