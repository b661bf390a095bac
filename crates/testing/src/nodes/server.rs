//! A server process and connections to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartline_client::raw::{RawUpgrade, connect_raw};
use heartline_engines::free_port;
use heartline_runtime::TaskSet;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::nodes::http::send_request;
use crate::{
    Binary, PATIENCE, Response, SECRET, Socket, bearer, is_stopped, read_refusal, request,
    service_token,
};

/// A running `heartline serve`, killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    /// The address that it listens on.
    pub address: SocketAddr,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    lines: watch::Receiver<usize>,
    files: Files,
    /// The task that reads the log; ends with the server.
    _tasks: TaskSet<()>,
}

// === impl Binary ===

impl Binary {
    /// Starts a server with the default configuration and [`SECRET`].
    pub async fn start(&self) -> Server {
        self.start_with("").await
    }

    /// Starts a server with additional sections of configuration, in TOML. `[auth]` has [`SECRET`]
    /// unless given.
    pub async fn start_with(&self, more: &str) -> Server {
        self.start_on(Files(self.scratch()), more).await
    }

    /// Starts a server on the files of an earlier one.
    pub async fn start_on(&self, files: Files, more: &str) -> Server {
        let auth = if more.contains("[auth]") {
            String::new()
        } else {
            format!("[auth]\nhmac_secret = \"{SECRET}\"\n")
        };
        let metrics =
            if more.contains("[metrics]") { "" } else { "[metrics]\nlisten = \"main\"\n" };
        let path = files.0.join("heartline.toml");
        std::fs::write(&path, format!("{auth}{metrics}{more}")).unwrap();
        let mut command = self.command();
        // A port that another server can bind after this one has ended.
        let listen = format!("127.0.0.1:{}", free_port());
        command.args(["serve", "--listen", &listen, "--config"]).arg(&path);
        if !more.contains("data_dir") {
            command.env("HEARTLINE__SERVER__DATA_DIR", files.data());
        }
        Server::spawn(command, files).await
    }
}

// === impl Server ===

impl Server {
    /// Runs a command that starts a server, and waits until it listens.
    pub async fn spawn(mut command: Command, files: impl Into<Files>) -> Self {
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
        let mut tasks = TaskSet::new();
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

    /// Ends the process with a signal, such as `KILL`; returns its files.
    pub async fn stop_with(mut self, signal: &str) -> Files {
        self.signal(signal).await;
        self.exit_code().await;
        self.files
    }

    /// The directory of the server's own files.
    pub fn data(&self) -> PathBuf {
        self.files.data()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the server is running")
    }

    /// Sends a signal by its name, such as `TERM`, `STOP` or `CONT`. After `STOP`, waits until
    /// every thread of the process is stopped.
    pub async fn signal(&self, name: &str) {
        let arguments = [format!("-{name}"), self.pid().to_string()];
        let status = Command::new("kill").args(arguments).status().await.unwrap();
        assert!(status.success());
        while name == "STOP" && !is_stopped(self.pid()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits for the process to end and returns its exit code.
    pub async fn exit_code(&mut self) -> Option<i32> {
        timeout(PATIENCE * 2, self.child.wait()).await.expect("the server ends").unwrap().code()
    }

    /// The log lines so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until a log line contains all of these words.
    pub async fn logged(&self, words: &[&str]) -> String {
        let find = || {
            let log = self.log.lock().unwrap();
            log.iter().find(|line| words.iter().all(|word| line.contains(word))).cloned()
        };
        let mut lines = self.lines.clone();
        let found = timeout(PATIENCE, lines.wait_for(|_| find().is_some())).await;
        assert!(found.is_ok(), "no log line has {words:?}: {:#?}", self.log());
        find().unwrap()
    }

    /// Waits until the log is as expected; returns whether that happened in time.
    pub async fn log_becomes(&self, is_expected: impl Fn(&[String]) -> bool) -> bool {
        let mut lines = self.lines.clone();
        let becomes = lines.wait_for(|_| is_expected(&self.log.lock().unwrap()));
        matches!(timeout(PATIENCE, becomes).await, Ok(Ok(_)))
    }

    /// Sends an HTTP request.
    pub async fn http(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> Response {
        request(self.address, method, path, token, body).await
    }

    /// Sends raw bytes; reads the response until the server closes the connection.
    pub async fn http_raw(&self, request: &[u8]) -> Response {
        send_request(self.address, request).await
    }

    /// Sends raw bytes; reads one response, whether or not the connection stays open.
    pub async fn http_raw_open(&self, request: &[u8]) -> Response {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request).await.unwrap();
        let mut bytes = Vec::new();
        while !Response::is_complete(&bytes) {
            let read = timeout(PATIENCE, socket.read_buf(&mut bytes)).await;
            if read.expect("a response in time").expect("a response and no reset") == 0 {
                break;
            }
        }
        // Frames may follow the response to an upgrade.
        Response::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Pushes an event to users; returns the number of connections that it was queued for.
    pub async fn push(&self, users: &[&str], name: &str, data: Value) -> u64 {
        let body = json!({ "user_ids": users, "name": name, "data": data });
        let response = self.http("POST", "/v1/push", &service_token(), Some(&body)).await;
        assert_eq!(response.status, 200, "{}", response.body);
        response.json()["connections"].as_u64().unwrap()
    }

    /// The value of a metric; zero if it does not exist yet.
    pub async fn metric(&self, name: &str) -> f64 {
        let response = self.http("GET", "/metrics", "", None).await;
        let line = response
            .body
            .lines()
            .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// Waits until a metric has this value.
    pub async fn metric_becomes(&self, name: &str, value: f64) {
        let wait = async {
            while self.metric(name).await != value {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let in_time = timeout(PATIENCE, wait).await.is_ok();
        assert!(in_time, "{name} is {} and not {value}", self.metric(name).await);
    }

    /// An authenticated socket, past its `connection_established`.
    pub async fn connect(&self, user: &str) -> Socket {
        let (socket, established) = self.connect_with(&[("Authorization", &bearer(user))]).await;
        assert_eq!(established["type"], "connection_established");
        socket
    }

    /// A socket whose upgrade carries these headers, and its first frame.
    pub async fn connect_with(&self, headers: &[(&str, &str)]) -> (Socket, Value) {
        let upgrade = self.upgrade(headers).await;
        assert_eq!(upgrade.status, 101);
        let mut socket = Socket { stream: upgrade.stream };
        let first = socket.json().await;
        (socket, first)
    }

    /// Sends an upgrade request with these headers.
    pub async fn upgrade(&self, headers: &[(&str, &str)]) -> RawUpgrade {
        connect_raw(self.address, "/v1/ws", headers).await.unwrap()
    }

    /// A socket without a token, past its `auth_challenge`.
    pub async fn challenged(&self) -> Socket {
        let (socket, challenge) = self.connect_with(&[]).await;
        assert_eq!(challenge["type"], "auth_challenge");
        assert_eq!(challenge["code"], 401);
        socket
    }

    /// Sends an upgrade request that must be rejected with this status and code.
    pub async fn refused(
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

/// The files of a server, removed when this is dropped.
#[derive(Debug)]
pub struct Files(PathBuf);

impl Files {
    /// The directory of the server's own files.
    pub fn data(&self) -> PathBuf {
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

fn address_in(log: &[String]) -> Option<SocketAddr> {
    let line = log.iter().find(|line| line.contains("listening"))?;
    if let Ok(event) = serde_json::from_str::<Value>(line) {
        return event["address"].as_str()?.parse().ok();
    }
    let value = line.split("address=").nth(1)?.split_whitespace().next()?;
    value.parse().ok()
}
