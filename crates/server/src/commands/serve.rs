//! `heartline dev` and `heartline serve`: run a node.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heartline_auth::{DATA_DIRECTORY, Secret};
use heartline_runtime::{Clock, Random};

use crate::config::{ConfigErrors, Disk, Layer, Loaded, Sources, load};
use crate::dev::{DataDirectory, dev_preset};
use crate::lifecycle::{Exit, Lifecycle, Signals};
use crate::{Engines, Listeners, assemble, run, telemetry};

/// Runs one node with everything embedded, for trying out and developing.
#[derive(Debug, clap::Args)]
pub struct DevArguments {
    /// The directory for the node's files and its secret
    #[arg(long, value_name = "DIRECTORY", default_value = DATA_DIRECTORY)]
    pub data_dir: PathBuf,
    /// Address and port to listen on [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// A configuration file that overrides the defaults of `dev`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Runs a node as configured.
#[derive(Debug, clap::Args)]
pub struct ServeArguments {
    /// The configuration file; `heartline config` prints the commented defaults
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address and port to listen on; overrides the configuration
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// The planes to run, separated by commas: gateway, ingest, fanout; overrides the configuration
    #[arg(long, value_name = "PLANES")]
    pub planes: Option<String>,
}

/// Why a node did not start: exit code 2 for a configuration, 1 for anything else.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The configuration names a key, a certificate or a store that cannot be used.
    #[error("{0:#}")]
    Unusable(anyhow::Error),
    /// Another error.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// Runs `heartline dev`.
///
/// # Errors
/// The node cannot start.
pub fn dev(arguments: &DevArguments) -> Result<Exit, StartError> {
    let directory = DataDirectory::open(&arguments.data_dir).map_err(anyhow::Error::from)?;
    let secret = directory.dev_secret().map_err(anyhow::Error::from)?;
    let preset = dev_preset(&directory, &secret);
    let listen = arguments.listen.as_deref();
    let command_line = Layer::default().with_argument("--listen", "server", "listen", listen);
    let mut loaded = configuration(preset, arguments.config.as_deref(), command_line)?;
    loaded.development = loaded.auth_keys.hmac_secrets.first().cloned().map(Secret::new);
    let data_dir = arguments.data_dir.clone();
    start(loaded, move |address| print_next_steps(address, &data_dir))
}

/// Runs `heartline serve`.
///
/// # Errors
/// The node cannot start.
pub fn serve(arguments: &ServeArguments) -> Result<Exit, StartError> {
    let (listen, planes) = (arguments.listen.as_deref(), arguments.planes.as_deref());
    let command_line = Layer::default()
        .with_argument("--listen", "server", "listen", listen)
        .with_argument("--planes", "server", "planes", planes);
    let loaded = configuration(Layer::default(), arguments.config.as_deref(), command_line)?;
    let data_dir = &loaded.config.server.data_dir;
    let _directory = DataDirectory::open(data_dir).map_err(anyhow::Error::from)?;
    start(loaded, |_| ())
}

fn configuration(
    preset: Layer,
    file: Option<&Path>,
    arguments: Layer,
) -> Result<Loaded, ConfigErrors> {
    let environment = std::env::vars_os().collect();
    load(&Sources { preset, file, environment, arguments, files: &Disk })
}

fn start(loaded: Loaded, ready: impl FnOnce(SocketAddr)) -> Result<Exit, StartError> {
    let with_colours =
        telemetry::wants_colours(std::io::stderr().is_terminal(), |name| std::env::var_os(name));
    telemetry::install(&loaded.config.log, with_colours).map_err(anyhow::Error::from)?;
    for warning in &loaded.warnings {
        tracing::warn!(%warning, "configuration should be changed");
    }
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime failed")?;
    runtime.block_on(async {
        let signals = Signals::listen().context("installing signal handlers failed")?;
        let (clock, random) = (Clock::system(), Random::system());
        let engines = Engines::open(&loaded, clock, random).await;
        let engines = engines.map_err(StartError::Unusable)?;
        let node = assemble(loaded, engines, Lifecycle::new(), clock, random);
        let node = node.await.map_err(StartError::Unusable)?;
        let listeners = Listeners::bind(node.config())?;
        Ok(run(node, listeners, signals, ready).await?)
    })
}

/// Raises the soft limit of open files to the hard limit, because every connection needs a file
/// descriptor.
fn raise_file_limit() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(files) => tracing::debug!(files, "open files"),
        Err(error) => tracing::warn!(%error, "raising the limit of open files failed"),
    }
}

/// Prints the next steps. A reader that closed the pipe is no error.
fn print_next_steps(address: SocketAddr, data_dir: &Path) {
    let data_dir = match data_dir.to_str() {
        Some(DATA_DIRECTORY) | None => String::new(),
        Some(other) => format!(" --data-dir {other}"),
    };
    let url = match address.port() {
        7400 => String::new(),
        _ => format!(" --url ws://{address}"),
    };
    let program = std::env::args().next().unwrap_or_else(|| "heartline".to_owned());
    let _ = writeln!(
        std::io::stdout(),
        "Heartline is listening on http://{address} (development server)

Open each of these in a separate tab, and chat:
  http://{address}/#/as/ana/chats/@bo
  http://{address}/#/as/bo/chats/@ana
The same in two other terminals:
  {program} connect{data_dir}{url} --user ana
  {program} connect{data_dir}{url} --user bo
In ana's terminal type /direct bo and then hello; /help lists the commands.

Push an event as an application's back end, in a third terminal:
  curl -sS http://{address}/v1/push -H 'Content-Type: application/json' \\
    -H \"Authorization: Bearer $({program} token{data_dir} --user backend --scope service)\" \\
    -d '{{\"user_ids\":[\"ana\",\"bo\"],\"name\":\"hello\",\"data\":{{\"from\":\"curl\"}}}}'

Health: http://{address}/readyz   Metrics: http://{address}/metrics   Stop: Ctrl-C"
    );
}
