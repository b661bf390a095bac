//! Mounts that only a test and its server see, and that go with them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A mount namespace, held by a process that waits for the end of its input: when the test ends,
/// in whatever way, the holder ends, and with it every mount.
#[derive(Debug)]
pub(crate) struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Creates a mount namespace and runs a shell script in it. A failed mount fails the test,
    /// because a skipped test proves nothing.
    pub(crate) async fn new(script: &str) -> Self {
        let script = format!("set -e\n{script}\necho ready\nexec cat >/dev/null");
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("unshare is installed (package util-linux)");
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap();
        assert_eq!(
            line.as_deref(),
            Some("ready"),
            "this proof mounts file systems of its own: run it as root, where mounting is allowed"
        );
        Self { holder }
    }

    fn pid(&self) -> String {
        self.holder.id().expect("the holder runs").to_string()
    }

    /// A command that runs inside.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid(), "--mount", "--", program]);
        command
    }

    /// Runs a shell script inside.
    pub(crate) async fn run(&self, script: &str) {
        let output = self.command("sh").args(["-ec", script]).output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script} failed: {errors}");
    }

    /// A path inside, as it is reached from outside.
    pub(crate) fn path(&self, inside: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.pid()));
        root.join(inside.strip_prefix("/").unwrap())
    }
}
