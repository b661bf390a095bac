//! A real server process and sockets to it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartline_client::raw::{
    OPCODE_CLOSE, OPCODE_TEXT, RawFrame, RawUpgrade, connect_raw, masked_frame, masked_text_frame,
    read_server_frame,
};
use heartline_engines::free_port;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The secret that test servers accept.
pub(crate) const SECRET: &str = "a secret for tests that is long enough to be taken";

/// Longer than anything that is waited for; a test that gets here has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running `heartline serve`, killed when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    lines: watch::Receiver<usize>,
    files: Files,
    /// Who reads the log; it ends with the server.
    _tasks: JoinSet<()>,
}

impl Server {
    /// A server with the defaults and the tests' secret.
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// A server with more configuration: whole sections in TOML. `[auth]` is the tests' own unless
    /// given.
    pub(crate) async fn start_with(more: &str) -> Self {
        Self::start_on(Files(scratch()), more).await
    }

    /// The same on the files that an earlier server has left.
    pub(crate) async fn start_on(files: Files, more: &str) -> Self {
        let auth = if more.contains("[auth]") {
            String::new()
        } else {
            format!("[auth]\nhmac_secret = \"{SECRET}\"\n")
        };
        let metrics =
            if more.contains("[metrics]") { "" } else { "[metrics]\nlisten = \"main\"\n" };
        let path = files.0.join("heartline.toml");
        std::fs::write(&path, format!("{auth}{metrics}{more}")).unwrap();
        let mut command = heartline();
        // One that may be listened on again.
        let listen = format!("127.0.0.1:{}", free_port());
        command.args(["serve", "--listen", &listen, "--config"]).arg(&path);
        if !more.contains("data_dir") {
            command.env("HEARTLINE__SERVER__DATA_DIR", files.data());
        }
        Self::spawn(command, files).await
    }

    /// Runs a command that starts a server, and waits until it listens.
    pub(crate) async fn spawn(mut command: Command, files: impl Into<Files>) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (count, mut lines) = watch::channel(0);
        let collected = Arc::clone(&log);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut reader = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = reader.next_line().await {
                collected.lock().unwrap().push(line);
                count.send_modify(|count| *count += 1);
            }
        });
        let listening = lines.wait_for(|_| address_in(&log.lock().unwrap()).is_some());
        let is_listening = matches!(timeout(PATIENCE, listening).await, Ok(Ok(_)));
        assert!(is_listening, "the server did not start: {:#?}", log.lock().unwrap());
        let address = address_in(&log.lock().unwrap()).unwrap();
        Self { address, child, log, lines, files: files.into(), _tasks: tasks }
    }

    /// Ends the process by a signal, such as `KILL`; answers the files that it leaves.
    pub(crate) async fn ended_by(mut self, signal: &str) -> Files {
        self.signal(signal).await;
        self.exit_code().await;
        self.files
    }

    /// The directory of the server's own files.
    pub(crate) fn data(&self) -> PathBuf {
        self.files.data()
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the server is running")
    }

    /// Sends a signal by its name, such as `TERM`, `STOP` or `CONT`. After `STOP` no thread of the
    /// process runs any more.
    pub(crate) async fn signal(&self, name: &str) {
        let arguments = [format!("-{name}"), self.pid().to_string()];
        let status = Command::new("kill").args(arguments).status().await.unwrap();
        assert!(status.success());
        while name == "STOP" && !is_stopped(self.pid()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits for the process to end and answers its exit code.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        timeout(PATIENCE * 2, self.child.wait()).await.expect("the server ends").unwrap().code()
    }

    /// The log lines so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until a log line contains all of these words.
    pub(crate) async fn logged(&self, words: &[&str]) -> String {
        let find = || {
            let log = self.log.lock().unwrap();
            log.iter().find(|line| words.iter().all(|word| line.contains(word))).cloned()
        };
        let mut lines = self.lines.clone();
        let found = timeout(PATIENCE, lines.wait_for(|_| find().is_some())).await;
        assert!(found.is_ok(), "no log line has {words:?}: {:#?}", self.log());
        find().unwrap()
    }

    /// An HTTP request; answers status, headers and body.
    pub(crate) async fn http(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> Answer {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.http_raw(request.as_bytes()).await
    }

    /// Bytes as they are; answers what comes back until the end.
    pub(crate) async fn http_raw(&self, request: &[u8]) -> Answer {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request).await.unwrap();
        let mut bytes = Vec::new();
        timeout(PATIENCE, socket.read_to_end(&mut bytes)).await.expect("an answer").unwrap();
        Answer::parse(&String::from_utf8(bytes).unwrap())
    }

    /// Bytes as they are; answers one response, whether or not the connection stays open.
    pub(crate) async fn ask(&self, request: &[u8]) -> Answer {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request).await.unwrap();
        let mut bytes = Vec::new();
        while !Answer::is_whole(&bytes) {
            let read = timeout(PATIENCE, socket.read_buf(&mut bytes)).await;
            if read.expect("an answer in time").expect("an answer and no reset") == 0 {
                break;
            }
        }
        // Frames may follow the answer to an upgrade.
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Pushes an event to users; answers for how many connections it was queued.
    pub(crate) async fn push(&self, users: &[&str], name: &str, data: Value) -> u64 {
        let body = json!({ "user_ids": users, "name": name, "data": data });
        let answer = self.http("POST", "/v1/push", &service_token(), Some(&body)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["connections"].as_u64().unwrap()
    }

    /// The value of a metric; zero if it is not there yet.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let answer = self.http("GET", "/metrics", "", None).await;
        let line = answer
            .body
            .lines()
            .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// Waits until a metric has this value.
    pub(crate) async fn metric_becomes(&self, name: &str, value: f64) {
        let wait = async {
            while self.metric(name).await != value {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let in_time = timeout(PATIENCE, wait).await.is_ok();
        assert!(in_time, "{name} is {} and not {value}", self.metric(name).await);
    }

    /// An authenticated socket, past its `connection_established`.
    pub(crate) async fn connect(&self, user: &str) -> Socket {
        let (socket, established) = self.connect_with(&[("Authorization", &bearer(user))]).await;
        assert_eq!(established["type"], "connection_established");
        socket
    }

    /// A socket whose upgrade carries these headers, and its first frame.
    pub(crate) async fn connect_with(&self, headers: &[(&str, &str)]) -> (Socket, Value) {
        let upgrade = self.upgrade(headers).await;
        assert_eq!(upgrade.status, 101);
        let mut socket = Socket { stream: upgrade.stream };
        let first = socket.json().await;
        (socket, first)
    }

    /// The answer to an upgrade request with these headers.
    pub(crate) async fn upgrade(&self, headers: &[(&str, &str)]) -> RawUpgrade {
        connect_raw(self.address, "/v1/ws", headers).await.unwrap()
    }

    /// A socket without a token, past its `auth_challenge`.
    pub(crate) async fn challenged(&self) -> Socket {
        let (socket, challenge) = self.connect_with(&[]).await;
        assert_eq!(challenge["type"], "auth_challenge");
        assert_eq!(challenge["code"], 401);
        socket
    }

    /// An upgrade request with these headers that must be refused with a status and a code.
    pub(crate) async fn refused(
        &self,
        headers: &[(&str, &str)],
        status: u16,
        code: &str,
    ) -> (RawUpgrade, Value) {
        let mut upgrade = self.upgrade(headers).await;
        let body = read_refusal(&mut upgrade).await;
        assert_eq!(upgrade.status, status, "{body}");
        assert_eq!(body["error"]["code"], code, "{body}");
        assert!(body["error"]["request_id"].as_str().unwrap().starts_with("req_"), "{body}");
        (upgrade, body)
    }
}

/// The files of a server, removed when nobody needs them any more.
pub(crate) struct Files(PathBuf);

impl Files {
    /// The directory of the server's own files.
    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl From<PathBuf> for Files {
    fn from(directory: PathBuf) -> Self {
        Self(directory)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether every thread of a process stands still: a signal that was sent has not always arrived.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.filter_map(Result::ok).all(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in brackets and may hold anything.
        state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

/// The command under test.
pub(crate) fn heartline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heartline"));
    // Whatever a test forgets to place elsewhere stays out of the sources.
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    command.env_remove("HEARTLINE_SECRET").kill_on_drop(true);
    command
}

/// An empty directory of the test's own.
pub(crate) fn scratch() -> PathBuf {
    let name = format!("heartline-it-{:032x}", rand::random::<u128>());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir(&path).unwrap();
    path
}

fn address_in(log: &[String]) -> Option<SocketAddr> {
    let line = log.iter().find(|line| line.contains("listening"))?;
    let value = line.split("address=").nth(1)?.split_whitespace().next()?;
    value.parse().ok()
}

/// Seconds since the epoch, moved by so many.
pub(crate) fn seconds_from_now(seconds: i64) -> i64 {
    let now = heartline_routing::Clock.wall().unix_ms / 1000;
    now as i64 + seconds
}

/// A token of these claims, signed with the tests' secret.
pub(crate) fn sign(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

/// A good token for a user.
pub(crate) fn token(user: &str) -> String {
    sign(&json!({ "sub": user, "exp": seconds_from_now(3600) }))
}

/// The Authorization header of a user.
pub(crate) fn bearer(user: &str) -> String {
    format!("Bearer {}", token(user))
}

/// A token with the scope `service`.
pub(crate) fn service_token() -> String {
    sign(&json!({ "sub": "backend", "exp": seconds_from_now(3600), "scope": "service" }))
}

/// What an HTTP request was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not an HTTP answer: {text:?}"));
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Whether these bytes hold a head and all of the body that it announces.
    fn is_whole(bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        body.len() >= length.map_or(0, |length| length.parse().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A WebSocket as bytes: it answers nothing by itself.
pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
}

impl Socket {
    pub(crate) async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.send_bytes(&masked_text_frame(text)).await;
    }

    pub(crate) async fn send_frame(&mut self, opcode: u8, fin: bool, payload: &[u8]) {
        self.send_bytes(&masked_frame(opcode, fin, payload)).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame of any kind.
    pub(crate) async fn frame(&mut self) -> RawFrame {
        let frame = timeout(PATIENCE, read_server_frame(&mut self.stream)).await;
        frame.expect("a frame in time").expect("a frame")
    }

    /// The next text frame as JSON; others are passed over, a Close fails. So is the word that a
    /// chat was made: to one who connects just after, it comes or it does not.
    pub(crate) async fn json(&mut self) -> Value {
        loop {
            let frame = self.any_json().await;
            if (&frame["type"], &frame["change"]) != (&json!("chat_changed"), &json!("created")) {
                return frame;
            }
        }
    }

    async fn any_json(&mut self) -> Value {
        loop {
            let frame = self.frame().await;
            match frame.opcode {
                OPCODE_TEXT => return serde_json::from_slice(&frame.payload).unwrap(),
                OPCODE_CLOSE => panic!("closed: {:?}", close_of(&frame)),
                _ => {}
            }
        }
    }

    /// Reads to the next text frame of this type.
    pub(crate) async fn json_of(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.any_json().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// A connection that was refused something must go on: its heartbeat is answered.
    pub(crate) async fn is_open(&mut self) {
        self.send(&json!({ "type": "heartbeat" })).await;
        assert_eq!(self.json().await["type"], "heartbeat_ack");
    }

    /// The next error frame must have this code.
    pub(crate) async fn error(&mut self, code: &str) -> Value {
        let error = self.json_of("error").await;
        assert_eq!(error["code"], code, "{error}");
        error
    }

    /// Reads to the end: `connection_closing` with this reason, then Close with this code and the
    /// reason in it, then the end of the stream.
    pub(crate) async fn closes(&mut self, reason: &str, code: u16) -> Value {
        let closing = self.json_of("connection_closing").await;
        assert_eq!(closing["reason"], reason, "{closing}");
        assert!(closing["reconnect_delay_ms"].is_u64(), "{closing}");
        let close = self.frame().await;
        assert_eq!(close_of(&close), Some((code, reason.to_owned())));
        self.ends().await;
        closing
    }

    /// The stream must end without another frame.
    pub(crate) async fn ends(&mut self) {
        let mut rest = Vec::new();
        let read = timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await;
        read.expect("the end in time").expect("a clean end");
        assert!(rest.is_empty(), "{} bytes after the Close", rest.len());
    }
}

/// The JSON body that follows the head of a refused upgrade.
pub(crate) async fn read_refusal(upgrade: &mut RawUpgrade) -> Value {
    assert_ne!(upgrade.status, 101);
    let length = upgrade.headers["content-length"].to_str().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    let read = timeout(PATIENCE, upgrade.stream.read_exact(&mut body)).await;
    read.expect("a body in time").unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Code and reason of a Close frame.
pub(crate) fn close_of(frame: &RawFrame) -> Option<(u16, String)> {
    let (code, reason) = frame.payload.split_at_checked(2)?;
    (frame.opcode == OPCODE_CLOSE).then(|| {
        let code = u16::from_be_bytes([code[0], code[1]]);
        (code, String::from_utf8(reason.to_vec()).unwrap())
    })
}
