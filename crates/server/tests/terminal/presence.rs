//! People who look at each other, each at a terminal of their own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;

/// Longer than anything that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The output of a terminal so far.
#[derive(Clone)]
struct Paper {
    text: Arc<Mutex<Vec<u8>>>,
    written: Arc<watch::Sender<()>>,
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.lock().unwrap().extend_from_slice(bytes);
        self.written.send_replace(());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A user at a terminal.
struct Person {
    keyboard: DuplexStream,
    paper: Paper,
    /// Up to where the paper was read.
    read: usize,
    task: TaskSet<u8>,
}

impl Person {
    fn sit_down(node: &Node, user: &str) -> Self {
        let arguments = node.arguments(&["--user", user, "--device", "terminal"]);
        let tokens = Tokens::find(&arguments, None).unwrap();
        let paper = Paper { text: Arc::default(), written: Arc::new(watch::channel(()).0) };
        let (keyboard, lines) = tokio::io::duplex(1024);
        let console = Console {
            input: lines,
            is_interactive: true,
            output: paper.clone(),
            errors: paper.clone(),
            with_colours: false,
            signals: stream::pending(),
        };
        let mut task = TaskSet::new();
        task.spawn(async move {
            heartline_terminal::connect(arguments, tokens, console).await.unwrap()
        });
        Self { keyboard, paper, read: 0, task }
    }

    async fn types(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Waits for a line that contains this, after those that were seen before.
    async fn sees(&mut self, part: &str) {
        let mut written = self.paper.written.subscribe();
        let find = || {
            let text = self.paper.text.lock().unwrap();
            let text = String::from_utf8_lossy(&text[self.read..]).into_owned();
            text.find(part).map(|at| at + part.len())
        };
        let found = timeout(PATIENCE, written.wait_for(|()| find().is_some())).await;
        assert!(matches!(found, Ok(Ok(_))), "{part} was not seen: {}", self.text());
        self.read += find().unwrap();
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.paper.text.lock().unwrap()).into_owned()
    }

    async fn leaves(mut self) -> String {
        self.types("/quit").await;
        assert_eq!(self.task.join_next().await.unwrap().unwrap(), 0);
        self.text()
    }
}

#[tokio::test]
async fn a_watched_user_is_seen_to_come_and_go_and_to_hide() {
    let node = Node::start().await;
    let mut ana = Person::sit_down(&node, "ana");
    ana.sees("you have no chats yet").await;
    ana.types("/watch bo, cy").await;
    for line in ["-- the status of bo is unknown\n", "-- the status of cy is unknown\n"] {
        ana.sees(line).await;
    }
    let mut bo = Person::sit_down(&node, "bo");
    ana.sees("-- bo is online\n").await;
    bo.sees("you have no chats yet").await;
    bo.types("/visibility nobody").await;
    bo.sees("nobody sees whether you are online\n").await;
    ana.sees("-- the status of bo is unknown\n").await;
    bo.types("/visibility contacts_only").await;
    bo.sees("your contacts see whether you are online: /contact USER adds one\n").await;
    bo.types("/contact ana").await;
    bo.sees("ana is added; you are contacts once ana has added you too\n").await;
    ana.types("/contact bo").await;
    ana.sees("-- bo is online\n").await;
    bo.types("/uncontact ana").await;
    bo.sees("ana is removed from your contacts\n").await;
    ana.sees("-- the status of bo is unknown\n").await;
    bo.types("/visibility everyone").await;
    ana.sees("-- bo is online\n").await;
    ana.types("/watch bo").await;
    ana.sees("-- bo is online\n").await;
    // An unchanged presence is not printed again.
    ana.types("/drop").await;
    ana.sees("-- connected as ana").await;
    bo.leaves().await;
    ana.sees("-- bo is offline, last seen at ").await;
    ana.types("/unwatch bo").await;
    ana.types("/contact ana").await;
    ana.sees("a user cannot be their own contact").await;
    let bo = Person::sit_down(&node, "bo");
    let _cy = Person::sit_down(&node, "cy");
    ana.sees("-- cy is online\n").await;
    let output = ana.leaves().await;
    assert_eq!(output.matches("bo is online").count(), 4, "{output}");
    drop(bo);
}

#[tokio::test]
async fn too_many_users_cannot_be_watched() {
    let node = Node::start().await;
    let users: Vec<String> = (0..1001).map(|number| format!("u{number}")).collect();
    let input = format!("/watch {}\n/watch u0\n", users.join(" "));
    let arguments = node.arguments(&["--user", "ana"]);
    let Outcome { code, output, .. } = run_on(arguments, false, &input).await;
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("you can watch at most 1000 users: /unwatch USER removes"), "{output}");
    assert_eq!(output.matches(" is unknown").count(), 1, "{output}");
}
