//! The command `heartline connect`: a terminal client for chats, which can also show every frame.
//!
//! `input` reads lines and `line` parses them; `terminal` is the main loop and `chats` its part
//! about chats; `chat_list` holds the known chats, `pending` the unanswered messages; `request`
//! defines the REST requests and `rest` sends them; `view` formats lines and `screen` writes them;
//! `tokens` finds the token; `exit_message` explains the exit.

mod input;
mod line;
mod terminal;
mod chats;
mod chat_list;
mod pending;
mod path;
mod request;
mod rest;
mod view;
mod screen;
mod tokens;
mod exit_message;

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use futures_util::Stream;
use heartline_auth::DATA_DIRECTORY;
use heartline_client::{Authentication, Backlog, ChatClient, ChatConfig, ClientConfig};
use heartline_protocol::{DeviceId, Token, UserId};
use tokio::io::AsyncRead;

pub use self::tokens::Tokens;

use self::chat_list::ChatList;
use self::input::Input;
use self::pending::Pending;
use self::rest::Rest;
use self::screen::Screen;
use self::terminal::Terminal;
use self::view::View;

/// The environment variable that may hold the token.
pub const TOKEN_VARIABLE: &str = "HEARTLINE_TOKEN";

/// Unread messages of a chat that are shown at the start; `/history` shows more.
const UNREAD_MAX: u64 = 50;

/// Chat in a terminal.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Once connected, type /help for the commands.")]
pub struct ConnectArgs {
    /// The URL of the server; repeat the option to list several nodes
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:7400")]
    pub url: Vec<String>,
    /// Connect as this user of the development server, with tokens signed by its secret
    #[arg(long, value_name = "ID")]
    pub user: Option<UserId>,
    /// Connect with this token; other users of the machine can see it in `ps`, so prefer the
    /// variable HEARTLINE_TOKEN
    #[arg(long, value_name = "TOKEN", conflicts_with = "user", value_parser = parse_token)]
    pub token: Option<Token>,
    /// Connect as this device; by default the server creates a device id
    #[arg(long, value_name = "ID")]
    pub device: Option<DeviceId>,
    /// The data directory of the development server, which has its secret
    #[arg(long, value_name = "DIRECTORY", default_value = DATA_DIRECTORY)]
    pub data_dir: PathBuf,
    /// How to send the token
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = AuthMethod::Header)]
    pub auth: AuthMethod,
    /// Show the frames of the protocol
    #[arg(long)]
    pub frames: bool,
    /// Show the answers to the client's own heartbeats
    #[arg(long, overrides_with = "hide_heartbeats")]
    pub heartbeats: bool,
    /// Hide the answers to the client's own heartbeats (default)
    #[arg(long, overrides_with = "heartbeats")]
    pub hide_heartbeats: bool,
    /// Write without colours
    #[arg(long)]
    pub no_color: bool,
}

/// How the client sends the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthMethod {
    /// In the Authorization header
    Header,
    /// In the list of subprotocols, as browsers do
    Subprotocol,
    /// In an authenticate frame, after the server's challenge
    Message,
}

fn parse_token(text: &str) -> Result<Token, String> {
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(Token(text.to_owned())) }
}

/// The streams of a terminal.
#[derive(Debug)]
pub struct Console<R, O, E, S> {
    /// The typed lines.
    pub input: R,
    /// Whether a person types. If so, commands work at any time and the end of input exits at once;
    /// otherwise input waits for the connection, and the exit for the answers.
    pub is_interactive: bool,
    /// The stream for events and answers.
    pub output: O,
    /// The stream for errors.
    pub errors: E,
    /// Whether the output has colours.
    pub with_colours: bool,
    /// Each item requests the exit.
    pub signals: S,
}

/// Runs the terminal until the input ends, a signal requests the exit or the client stops. Returns
/// the exit code.
///
/// # Errors
/// An argument is invalid, or the console fails.
pub async fn connect<R, O, E, S>(
    arguments: ConnectArgs,
    tokens: Tokens,
    console: Console<R, O, E, S>,
) -> anyhow::Result<u8>
where
    R: AsyncRead + Unpin,
    O: Write,
    E: Write,
    S: Stream<Item = ()> + Unpin,
{
    let screen = Screen {
        output: console.output,
        errors: console.errors,
        view: View { with_colours: console.with_colours },
        with_frames: arguments.frames,
        with_heartbeats: arguments.heartbeats,
        heartbeats_typed: 0,
    };
    let config = client_config(arguments, &tokens);
    let rest = Rest::new(&config.tls_config());
    let (client, events) = ChatClient::start(config, chat_config())?;
    let terminal = Terminal {
        client,
        events,
        input: Input::new(console.input),
        is_interactive: console.is_interactive,
        signals: console.signals,
        screen,
        tokens,
        rest,
        chat_list: ChatList::default(),
        pending: Pending::default(),
    };
    Ok(terminal.run().await?)
}

/// The terminal stores no messages, so it begins with the unread ones.
fn chat_config() -> ChatConfig {
    ChatConfig {
        backlog: Backlog::Unread { messages_max: UNREAD_MAX },
        reports_outgoing: true,
        ..ChatConfig::default()
    }
}

fn client_config(arguments: ConnectArgs, tokens: &Tokens) -> ClientConfig {
    let mut config = ClientConfig::new(String::new(), tokens.clone());
    config.urls = arguments.url;
    config.device_id = arguments.device;
    config.authentication = match arguments.auth {
        AuthMethod::Header => Authentication::Header,
        AuthMethod::Subprotocol => Authentication::Subprotocol,
        AuthMethod::Message => Authentication::Message,
    };
    config
}

#[cfg(test)]
mod tests;
