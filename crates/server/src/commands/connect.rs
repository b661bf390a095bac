//! `heartline connect`: a terminal client on the streams of the process.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::{Context, Result};
use heartline_terminal::{ConnectArgs, Console, TOKEN_VARIABLE, Tokens};

use crate::lifecycle::Signals;
use crate::telemetry;

/// Runs the command.
///
/// # Errors
/// There is no token, an argument cannot be used, or the terminal fails.
pub fn run(arguments: ConnectArgs) -> Result<ExitCode> {
    // The client has a thread of its own, so that a blocked terminal does not delay heartbeats.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("the runtime cannot start")?;
    let code = runtime.block_on(connect(arguments));
    // A pending read from stdin cannot be cancelled, and nothing waits for it any more.
    runtime.shutdown_background();
    code
}

async fn connect(arguments: ConnectArgs) -> Result<ExitCode> {
    let variable = std::env::var(TOKEN_VARIABLE).ok();
    let tokens = Tokens::find(&arguments, variable)?;
    let signals = Signals::listen().context("signals cannot be handled")?;
    let wants_colours =
        telemetry::wants_colours(io::stdout().is_terminal(), |name| std::env::var_os(name));
    let console = Console {
        input: tokio::io::stdin(),
        is_interactive: io::stdin().is_terminal(),
        output: io::stdout(),
        errors: io::stderr(),
        with_colours: !arguments.no_color && wants_colours,
        signals,
    };
    Ok(heartline_terminal::connect(arguments, tokens, console).await?.into())
}
