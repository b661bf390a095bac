//! The command `heartline connect`: a terminal to chat in, which shows every frame to those who want it.
//!
//! `input` reads lines and `line` says what each means; `terminal` is the loop around everything
//! and `talk` what it does about chats; `book` knows the chats, `pending` the messages without an
//! answer; `request` asks the server outside the socket, through `rest`; `view` says how things
//! look and `screen` writes them; `tokens` finds the token; `farewell` explains the end.

mod input;
mod line;
mod terminal;
mod talk;
mod book;
mod pending;
mod path;
mod request;
mod rest;
mod view;
mod screen;
mod tokens;
mod farewell;

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use futures_util::Stream;
use heartline_auth::DATA_DIRECTORY;
use heartline_client::{Authentication, Backlog, ChatClient, ChatConfig, ClientConfig};
use heartline_protocol::{DeviceId, Token, UserId};
use tokio::io::AsyncRead;

pub use self::tokens::Tokens;

use self::book::Book;
use self::input::Input;
use self::pending::Pending;
use self::rest::Rest;
use self::screen::Screen;
use self::terminal::Terminal;
use self::view::View;

/// The variable that may hold the token.
pub const TOKEN_VARIABLE: &str = "HEARTLINE_TOKEN";

/// Unread messages of a chat that are shown at first; `/history` shows more.
const UNREAD_MAX: u64 = 50;

/// Connects a terminal to chat in.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Type /help once it runs.")]
pub struct ConnectArgs {
    /// Where the server is; give it more than once to name several nodes
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:7400")]
    pub url: Vec<String>,
    /// Connect as this user of the development server, with tokens signed by its secret
    #[arg(long, value_name = "ID")]
    pub user: Option<UserId>,
    /// Connect with this token; other users of the machine see it in `ps`, so better put it into
    /// HEARTLINE_TOKEN
    #[arg(long, value_name = "TOKEN", conflicts_with = "user", value_parser = parse_token)]
    pub token: Option<Token>,
    /// Connect as this device; without one the server makes one
    #[arg(long, value_name = "ID")]
    pub device: Option<DeviceId>,
    /// The directory of the development server
    #[arg(long, value_name = "DIRECTORY", default_value = DATA_DIRECTORY)]
    pub data_dir: PathBuf,
    /// How the token travels
    #[arg(long, value_name = "WAY", value_enum, default_value_t = TokenWay::Header)]
    pub auth: TokenWay,
    /// Show the frames of the protocol too
    #[arg(long)]
    pub frames: bool,
    /// Show the answers to heartbeats too
    #[arg(long, overrides_with = "hide_heartbeats")]
    pub heartbeats: bool,
    /// Hide the answers to heartbeats that nobody typed, which is the default
    #[arg(long, overrides_with = "heartbeats")]
    pub hide_heartbeats: bool,
    /// Write without colours
    #[arg(long)]
    pub no_color: bool,
}

/// How the token travels to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TokenWay {
    /// In the Authorization header
    Header,
    /// In the list of subprotocols, as browsers do it
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
    /// The lines that are typed.
    pub input: R,
    /// Whether a person types: then commands work at any time, and the end of input ends the
    /// terminal at once. A pipe waits until it is connected, and for its answers.
    pub is_interactive: bool,
    /// Where events and answers are written.
    pub output: O,
    /// Where errors are written.
    pub errors: E,
    /// Whether the output has colours.
    pub with_colours: bool,
    /// Each item asks for the end.
    pub signals: S,
}

/// Connects and talks until the input ends, a signal asks for the end or the server refuses. The
/// result is the exit code.
///
/// # Errors
/// An argument cannot be used, or the console fails.
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
    let rest = Rest::new(&config.trust());
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
        book: Book::default(),
        pending: Pending::default(),
    };
    Ok(terminal.run().await?)
}

/// A terminal keeps nothing: it begins with what is unread.
fn chat_config() -> ChatConfig {
    ChatConfig {
        backlog: Backlog::Unread { messages_max: UNREAD_MAX },
        tells_outgoing: true,
        ..ChatConfig::default()
    }
}

fn client_config(arguments: ConnectArgs, tokens: &Tokens) -> ClientConfig {
    let mut config = ClientConfig::new(String::new(), tokens.clone());
    config.urls = arguments.url;
    config.device_id = arguments.device;
    config.authentication = match arguments.auth {
        TokenWay::Header => Authentication::Header,
        TokenWay::Subprotocol => Authentication::Subprotocol,
        TokenWay::Message => Authentication::Message,
    };
    config
}

#[cfg(test)]
mod tests;
