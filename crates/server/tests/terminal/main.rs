//! The terminal of `heartline connect`, against a node in the same process.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod presence;

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use futures_util::stream;
use heartline::config::{Disk, Layer, Sources, load};
use heartline::dev::{DataDirectory, dev_preset};
use heartline::lifecycle::Lifecycle;
use heartline::{Engines, Listeners};
use heartline_runtime::{Clock, Random, TaskSet};
use heartline_terminal::{ConnectArgs, Console, Tokens};
use tokio::sync::oneshot;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    connect: ConnectArgs,
}

fn parse(arguments: &[&str]) -> Result<ConnectArgs, String> {
    CommandLine::try_parse_from(std::iter::once(&"connect").chain(arguments))
        .map(|line| line.connect)
        .map_err(|error| error.to_string())
}

/// An empty directory, removed with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = format!("heartline-terminal-{:032x}", Random::system().draw::<u128>());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A node with its own directory; it ends with this value.
struct Node {
    address: SocketAddr,
    scratch: Scratch,
    _directory: DataDirectory,
    _task: TaskSet<()>,
}

impl Node {
    async fn start() -> Self {
        let scratch = Scratch::new();
        let directory = DataDirectory::open(scratch.path()).unwrap();
        let secret = directory.dev_secret().unwrap();
        let loaded = load(&Sources {
            preset: dev_preset(&directory, &secret),
            file: None,
            environment: Vec::new(),
            arguments: Layer::default().with("test", "server", "listen", "127.0.0.1:0"),
            files: &Disk,
        })
        .unwrap();
        let (ready, address) = oneshot::channel();
        let mut task = TaskSet::new();
        task.spawn(async move {
            let (clock, random) = (Clock::system(), Random::system());
            let engines = Engines::open(&loaded, clock, random).await.unwrap();
            let node = heartline::assemble(loaded, engines, Lifecycle::new(), clock, random);
            let node = node.await.unwrap();
            let listeners = Listeners::bind(node.config()).unwrap();
            let node = heartline::run(node, listeners, stream::pending(), move |address| {
                ready.send(address).unwrap();
            });
            Box::pin(node).await.unwrap();
        });
        let address = address.await.unwrap();
        Self { address, scratch, _directory: directory, _task: task }
    }

    fn arguments(&self, more: &[&str]) -> ConnectArgs {
        let (url, directory) = (format!("ws://{}", self.address), self.scratch.path().display());
        let directory = directory.to_string();
        let mut all = vec!["--url", &url, "--data-dir", &directory];
        all.extend(more);
        parse(&all).unwrap()
    }
}

/// The exit code and the output of a terminal.
#[derive(Debug)]
struct Outcome {
    code: u8,
    output: String,
    errors: String,
}

async fn run_on(arguments: ConnectArgs, is_interactive: bool, input: &str) -> Outcome {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let code = terminal(arguments, is_interactive, input, &mut output, &mut errors).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome { code, output: text(output), errors: text(errors) }
}

async fn terminal(
    arguments: ConnectArgs,
    is_interactive: bool,
    input: &str,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> u8 {
    let tokens = Tokens::find(&arguments, None).unwrap();
    let console = Console {
        input: input.as_bytes(),
        is_interactive,
        output,
        errors,
        with_colours: false,
        signals: stream::pending(),
    };
    heartline_terminal::connect(arguments, tokens, console).await.unwrap()
}

#[tokio::test]
async fn piped_lines_are_sent_once_connected_and_their_answers_awaited() {
    let node = Node::start().await;
    let input = "/heartbeat\nhello\n{\"type\":\"sing\",\"request_id\":\"r-1\"}\n{broken";
    let arguments = node.arguments(&["--user", "ana", "--device", "phone", "--frames"]);
    let Outcome { code, output, errors } = run_on(arguments, false, input).await;
    assert_eq!((code, errors.as_str()), (0, ""), "{output}");
    let parts = [
        "-- connecting to ws://",
        "<- connection_established {",
        "-- connected as ana on device phone (conn_",
        "-- you have no chats yet: /new NAME USER…",
        "-> heartbeat {\"type\":\"heartbeat\"}",
        "you are in no chat: /chats lists yours, /join CHAT opens one",
        "-> sing {",
        "-> ? {broken",
    ];
    let mut rest = output.as_str();
    for part in parts {
        let (_, after) = rest.split_once(part).unwrap_or_else(|| panic!("{part}: {output}"));
        rest = after;
    }
    assert!(output.contains("<- heartbeat_ack {"), "{output}");
    assert!(output.contains("\"request_id\":\"r-1\",\"code\":\"INVALID_MESSAGE\""), "{output}");
    assert_eq!(output.matches("<- error {").count(), 2, "{output}");
}

#[tokio::test]
async fn a_refresh_is_answered_and_shows_no_token() {
    let node = Node::start().await;
    let arguments = node.arguments(&["--user", "ana", "--auth", "message", "--frames"]);
    let Outcome { code, output, .. } = run_on(arguments, false, "/refresh\n/quit\n/help\n").await;
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("<- auth_challenge {"), "{output}");
    assert!(output.contains("<- token_refreshed {"), "{output}");
    assert!(output.contains("-> sync_manifest {"), "{output}");
    assert!(!output.contains("eyJ"), "{output}");
    assert!(!output.contains("Ctrl-C"), "nothing is read after /quit: {output}");
}

#[tokio::test]
async fn a_dropped_connection_comes_back() {
    let node = Node::start().await;
    let arguments = node.arguments(&["--user", "ana", "--auth", "subprotocol"]);
    let Outcome { code, output, .. } = run_on(arguments, false, "/drop\n").await;
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("-- disconnected: you dropped the connection; reconnecting"),
        "{output}"
    );
    assert_eq!(output.matches("-- connected as ana").count(), 2, "{output}");
}

#[tokio::test]
async fn a_person_ends_it_at_once_connected_or_not() {
    for input in ["/quit\n", ""] {
        // No process listens on the port of a closed listener.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        drop(listener);
        let arguments = parse(&["--url", &url, "--token", "t"]).unwrap();
        let Outcome { code, errors, .. } = run_on(arguments, true, input).await;
        assert_eq!((code, errors.as_str()), (0, ""));
    }
}

#[tokio::test]
async fn a_refused_token_ends_it_with_advice() {
    let (node, other) = (Node::start().await, Node::start().await);
    let mut arguments = node.arguments(&["--user", "ana"]);
    arguments.data_dir = other.scratch.path().to_owned();
    let Outcome { code, output, errors } = run_on(arguments, false, "").await;
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("the server rejected the connection with HTTP 401"), "{output}");
    assert!(
        errors.contains("the server rejected the token, which was signed with the secret in "),
        "{errors}"
    );
    let arguments = node.arguments(&["--token", "nonsense"]);
    let Outcome { code, errors, .. } = run_on(arguments, false, "").await;
    assert_eq!(code, 1);
    assert!(errors.contains("it may have expired"), "{errors}");
}

#[tokio::test]
async fn only_who_asks_for_frames_or_speaks_in_them_sees_them() {
    let node = Node::start().await;
    let arguments = || node.arguments(&["--user", "ana"]);
    let Outcome { code, output, .. } = run_on(arguments(), false, "/direct bo\nhello\n").await;
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("ana: hello\n"), "{output}");
    assert!(!output.contains("<- ") && !output.contains("-> "), "{output}");
    let asks = "/heartbeat\n/refresh\n";
    let Outcome { output, .. } = run_on(arguments(), false, asks).await;
    for part in ["-> heartbeat {", "<- heartbeat_ack {", "-> refresh_token {", "<- token_refreshed"]
    {
        assert_eq!(output.matches(part).count(), 1, "{part}: {output}");
    }
    let frame = "{\"type\":\"sync_manifest\",\"request_id\":\"r-1\"}\n";
    let Outcome { output, .. } = run_on(arguments(), false, frame).await;
    assert!(output.contains("<- sync_manifest {"), "{output}");
    let Outcome { output, .. } = run_on(arguments(), false, "/frames\n/frames\n").await;
    assert!(output.contains("frames are shown from now on"), "{output}");
    assert!(output.contains("frames are hidden from now on"), "{output}");
}

#[tokio::test]
async fn mistakes_about_chats_are_answered_with_what_to_do() {
    let node = Node::start().await;
    let stranger = heartline_protocol::ChatId(ulid::Ulid(1));
    let long = "x".repeat(5000);
    let input = format!(
        "/leave\n/join nowhere\n/join {stranger}\n/direct ana\n/new club bo\n/add bo\n\
         /remove ana\n{long}\n/history\n"
    );
    let arguments = node.arguments(&["--user", "ana"]);
    let Outcome { code, output, errors } = run_on(arguments, false, &input).await;
    assert_eq!((code, errors.as_str()), (0, ""), "{output}");
    let parts = [
        "you are in no chat: /chats lists yours, /join CHAT opens one",
        "you have no chat nowhere: /chats lists yours",
        "you are not a member of this chat, or it does not exist: /chats lists yours",
        "a direct chat is with exactly one other user",
        "you are in club: no messages yet",
        "bo is already a member",
        "you cannot remove yourself: use /leave",
        "a message can have at most 4096 bytes, and this one has 5000: split it",
        "this chat has no messages yet",
    ];
    let mut rest = output.as_str();
    for part in parts {
        let (_, after) = rest.split_once(part).unwrap_or_else(|| panic!("{part}: {output}"));
        rest = after;
    }
}

#[tokio::test]
async fn without_a_server_a_command_says_so() {
    // No process listens on the port of a closed listener.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    drop(listener);
    let arguments = parse(&["--url", &url, "--token", "t"]).unwrap();
    let Outcome { code, output, .. } = run_on(arguments, true, "/chats\n/quit\n").await;
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("the server cannot be reached ("), "{output}");
}

/// The reader of this output has gone away.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_reader_that_went_away_ends_it_quietly() {
    let node = Node::start().await;
    let (arguments, mut errors) = (node.arguments(&["--user", "ana"]), Vec::new());
    let code = terminal(arguments, false, "/heartbeat\n", &mut Gone, &mut errors).await;
    assert_eq!((code, errors.len()), (0, 0));
}
