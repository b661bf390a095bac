//! Records the envelopes that nodes send each other through Redis.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartline_runtime::TaskSet;
use heartline_testing::{PATIENCE, eventually};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};

use crate::nodes::{Cluster, Node};

/// A `redis-cli` that is subscribed to the channels of some nodes.
pub(crate) struct LinkMonitor {
    received: Arc<Mutex<Vec<u8>>>,
    /// Both end with this.
    _child: Child,
    _task: TaskSet<()>,
}

impl LinkMonitor {
    /// Listens from now on to what is sent to these nodes.
    pub(crate) async fn on(cluster: &Cluster, nodes: &[&Node]) -> Self {
        let channels = nodes.iter().map(|node| channel(&node.id));
        let mut command = Command::new("redis-cli");
        command.args(["-p", &cluster.redis.port().to_string(), "SUBSCRIBE"]).args(channels);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let mut task = TaskSet::new();
        task.spawn(listen(child.stdout.take().unwrap(), Arc::clone(&received)));
        let monitor = Self { received, _child: child, _task: task };
        let count = nodes.len();
        let is_subscribed = async || monitor.text().matches("subscribe\n").count() == count;
        eventually("redis-cli is subscribed", PATIENCE, is_subscribed).await;
        monitor
    }

    /// Waits until something with this content was sent to a node.
    pub(crate) async fn receives(&self, node_id: &str, content: &str, within: Duration) {
        let start = format!("{}\n", channel(node_id));
        let is_heard = async || {
            let text = self.text();
            let messages = text.split("message\n");
            messages.filter(|it| it.starts_with(&start)).any(|it| it.contains(content))
        };
        eventually("it was sent to the node through Redis", within, is_heard).await;
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received.lock().unwrap()).into_owned()
    }
}

fn channel(node_id: &str) -> String {
    format!("server:{node_id}:deliver")
}

async fn listen(mut output: ChildStdout, received: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(read) = output.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        received.lock().unwrap().extend_from_slice(&buffer[..read]);
    }
}
