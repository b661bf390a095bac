//! Arguments, then one command, then its exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use heartline::commands::config::{self, ConfigArguments};
use heartline::commands::connect;
use heartline::commands::doctor::{self, DoctorArguments};
use heartline::commands::repair::{self, RepairArguments};
use heartline::commands::serve::{self, DevArguments, ServeArguments, StartError};
use heartline::commands::store::{self, StoreArguments};
use heartline::commands::token::{self, SECRET_VARIABLE, TokenArguments};
use heartline::lifecycle::Exit;
use heartline_bench::{self as bench, BenchArgs};
use heartline_runtime::Clock;
use heartline_terminal::ConnectArgs;

/// Party sessions allocate often and on every thread. With glibc's allocator an edit costs half as
/// much CPU again, at the same memory per connection.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A real-time server: WebSocket connections, durable chat, presence and party sessions.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one node with an embedded store, for development
    Dev(DevArguments),
    /// Run a node with a configuration file
    Serve(ServeArguments),
    /// Sign a token for a user of the development server
    Token(TokenArguments),
    /// Chat from a terminal
    Connect(ConnectArgs),
    /// Print the commented default configuration, or check a file
    Config(ConfigArguments),
    /// Back up, restore or check the embedded store
    Store(StoreArguments),
    /// Check configuration, engines, nodes and invariants, and print what to do
    Doctor(DoctorArguments),
    /// Repair the counter of a halted chat
    Repair(RepairArguments),
    /// Measure the cost of connections, sends and deliveries
    Bench(BenchArgs),
}

fn main() -> ExitCode {
    let (mut output, mut errors) = (io::stdout(), io::stderr());
    match Arguments::parse().command {
        Command::Dev(arguments) => started(serve::dev(&arguments)),
        Command::Serve(arguments) => started(serve::serve(&arguments)),
        Command::Token(arguments) => {
            let secret = std::env::var(SECRET_VARIABLE).ok();
            token::run(&arguments, secret, Clock::system().wall(), &mut output, &mut errors).into()
        }
        Command::Connect(arguments) => reported(connect::run(arguments)),
        Command::Config(arguments) => {
            let environment = std::env::vars_os().collect();
            config::run(&arguments, environment, &mut output, &mut errors).into()
        }
        Command::Store(arguments) => store::run(&arguments, &mut output, &mut errors).into(),
        Command::Doctor(arguments) => {
            doctor::run(&arguments, Clock::system(), &mut output, &mut errors).into()
        }
        Command::Repair(arguments) => {
            repair::run(&arguments, Clock::system(), &mut output, &mut errors).into()
        }
        Command::Bench(arguments) => reported(bench::run(&arguments)),
    }
}

fn started(result: Result<Exit, StartError>) -> ExitCode {
    match result {
        Ok(exit) => exit.code().into(),
        Err(error @ (StartError::Config(_) | StartError::Unusable(_))) => {
            print_error(&error.to_string());
            2.into()
        }
        Err(StartError::Other(error)) => {
            print_error(&format!("{error:#}"));
            1.into()
        }
    }
}

fn reported(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        print_error(&format!("{error:#}"));
        1.into()
    })
}

/// Errors while writing to stderr are ignored: nothing else is left to report them to.
fn print_error(sentence: &str) {
    let _ = writeln!(io::stderr(), "heartline: {sentence}");
}
