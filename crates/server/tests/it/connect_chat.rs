//! People who chat in terminals: real processes on pipes, and a real server.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use heartline_engines::free_port;
use heartline_runtime::TaskSet;
use heartline_testing::{PATIENCE, Server};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::HEARTLINE;

/// A directory of a development server, which outlives the server's processes.
struct Home {
    directory: PathBuf,
}

impl Home {
    fn new() -> Self {
        Self { directory: HEARTLINE.scratch() }
    }

    /// `heartline dev` in this directory.
    async fn serve(&self, listen: &str) -> Server {
        let mut command = HEARTLINE.command();
        command.args(["dev", "--listen", listen, "--data-dir"]).arg(&self.directory);
        Server::spawn(command, HEARTLINE.scratch()).await
    }

    /// `heartline connect` to it.
    fn connect(&self, server: &Server, user: &str) -> Person {
        Person::start(&self.directory, &format!("ws://{}", server.address), user)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A user at a terminal.
struct Person {
    child: Child,
    keyboard: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    count: watch::Receiver<usize>,
    /// The tasks that read the two streams; they end with the process.
    tasks: TaskSet<()>,
}

impl Person {
    fn start(directory: &Path, url: &str, user: &str) -> Self {
        let mut command = HEARTLINE.command();
        command.args(["connect", "--user", user, "--url", url, "--data-dir"]).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, count) = watch::channel(0);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = TaskSet::new();
        let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        tasks.spawn(collect(output, Arc::clone(&lines), sender.clone()));
        tasks.spawn(collect(errors, Arc::clone(&lines), sender));
        Self { keyboard: child.stdin.take(), child, lines, count, tasks }
    }

    async fn types(&mut self, line: &str) {
        let keyboard = self.keyboard.as_mut().unwrap();
        keyboard.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Waits until a line contains this.
    async fn sees(&self, text: &str) {
        self.sees_times(text, 1).await;
    }

    /// Waits until this many lines contain the text.
    async fn sees_times(&self, text: &str, times: usize) {
        let mut count = self.count.clone();
        let enough = count.wait_for(|_| self.times(text) >= times);
        let is_seen = matches!(timeout(PATIENCE, enough).await, Ok(Ok(_)));
        assert!(is_seen, "{text} was not seen: {:#?}", self.lines.lock().unwrap());
    }

    /// How many lines contain this.
    fn times(&self, text: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    /// Closes the input and waits; returns the exit code and every line.
    async fn leaves(mut self) -> (Option<i32>, Vec<String>) {
        self.keyboard = None;
        self.ends().await
    }

    /// Waits for the end of the process.
    async fn ends(mut self) -> (Option<i32>, Vec<String>) {
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        while self.tasks.join_next().await.is_some() {}
        (status.code(), self.lines.lock().unwrap().clone())
    }

    /// Sends SIGINT, like Ctrl-C.
    async fn interrupt(&self) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    }
}

async fn collect(
    stream: impl AsyncRead + Unpin,
    lines: Arc<Mutex<Vec<String>>>,
    count: watch::Sender<usize>,
) {
    let mut stream = BufReader::new(stream).lines();
    while let Ok(Some(line)) = stream.next_line().await {
        lines.lock().unwrap().push(line);
        count.send_modify(|count| *count += 1);
    }
}

#[tokio::test]
async fn two_people_chat_in_two_terminals() {
    let home = Home::new();
    let server = home.serve("127.0.0.1:0").await;
    let (mut ana, mut bo) = (home.connect(&server, "ana"), home.connect(&server, "bo"));
    bo.sees("you have no chats yet").await;
    bo.types("hello?").await;
    bo.sees("you are in no chat: /chats lists yours, /join CHAT opens one").await;
    ana.types("/new \"Book club\" bo").await;
    ana.sees("you are in Book club: no messages yet").await;
    bo.sees("you are now a member of Book club (2 members): type a message to send it").await;
    ana.types("hello bo \u{1b}[2J").await;
    bo.sees(" ana: hello bo \\u001b[2J").await;
    ana.sees(" ana: hello bo \\u001b[2J").await;
    bo.types("hello ana").await;
    ana.sees(" bo: hello ana").await;
    bo.types("/typing").await;
    ana.sees("bo is typing in Book club").await;
    bo.types("/chats").await;
    bo.sees("  1 * Book club (2 members, 2 messages, ").await;
    bo.types("/rename Tea").await;
    bo.sees("your role in this chat does not allow it: /who lists the roles").await;
    ana.types("/rename Tea").await;
    bo.sees("Book club was renamed to Tea").await;
    ana.types("/leave").await;
    ana.sees("the owner must make another member owner first: use /add USER owner").await;
    ana.types("/add bo owner").await;
    bo.sees("bo is now an owner of Tea").await;
    bo.types("/who").await;
    bo.sees("  owner  bo").await;
    bo.types("/direct ana").await;
    ana.sees("new direct chat with bo: /join bo opens it").await;
    bo.types("just us").await;
    ana.sees("[bo] bo: just us").await;
    bo.types("/join tea").await;
    bo.sees("you are in Tea: 2 messages").await;
    bo.types("/remove ana").await;
    ana.sees("you are no longer a member of Tea").await;
    ana.types("anybody?").await;
    ana.sees("you are in no chat").await;
    for person in [ana, bo] {
        let (code, lines) = person.leaves().await;
        assert_eq!(code, Some(0), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains('\u{1b}')), "{lines:#?}");
    }
}

#[tokio::test]
async fn a_message_typed_while_the_server_was_down_arrives_once() {
    let home = Home::new();
    let address = format!("127.0.0.1:{}", free_port());
    let mut server = home.serve(&address).await;
    let (mut ana, bo) = (home.connect(&server, "ana"), home.connect(&server, "bo"));
    bo.sees("you have no chats yet").await;
    ana.types("/new club bo").await;
    ana.types("before").await;
    bo.sees(" ana: before").await;

    // This one is on its way when the server dies without having read it.
    server.signal("STOP").await;
    ana.types("into the pause").await;
    ana.sees(" ana: into the pause (waiting for the server)").await;
    server.signal("KILL").await;
    assert_eq!(server.exit_code().await, None);
    ana.sees("-- disconnected: ").await;
    ana.types("while it was down").await;
    let server = home.serve(&address).await;
    for person in [&ana, &bo] {
        person.sees_times("-- connected as ", 2).await;
    }
    bo.sees(" ana: while it was down").await;
    ana.types("after").await;
    bo.sees(" ana: after").await;
    ana.sees(" ana: after").await;
    let said = ["before", "into the pause", "while it was down", "after"];
    for text in said.map(|text| format!(" ana: {text}")) {
        assert_eq!(bo.times(&text), 1, "{text}");
        let waiting = ana.times(&format!("{text} (waiting for the server)"));
        assert_eq!(ana.times(&text) - waiting, 1, "{text}");
    }

    // A terminal that comes later sees the same, in the order in which it was typed; what was
    // unread may come before it.
    let mut later = home.connect(&server, "ana");
    later.types("/history").await;
    let (code, lines) = later.leaves().await;
    assert_eq!(code, Some(0), "{lines:#?}");
    let shown = lines.iter().filter_map(|line| line.split_once(" ana: ")).map(|(_, text)| text);
    assert!(shown.collect::<Vec<_>>().ends_with(&said), "{lines:#?}");

    // A message without a reply at the end is reported.
    server.signal("STOP").await;
    ana.types("never").await;
    ana.sees(" ana: never (waiting for the server)").await;
    ana.interrupt().await;
    let (code, lines) = ana.ends().await;
    assert_eq!(code, Some(1), "{lines:#?}");
    let expected = "heartline: the server has not acknowledged 1 message of yours: \"never\"";
    assert!(lines.iter().any(|line| line.starts_with(expected)), "{lines:#?}");
}
