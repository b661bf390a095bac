//! The bare loop: the baseline of a delivery, without any protocol.
//!
//! A receiving connection sends a greeting, is sent a welcome, and is then written to. A control
//! connection sends commands with a range of connections and bytes; the loop writes the bytes to
//! each of these connections, one system call per connection, in the order in which they connected.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use super::client_sockets::discard;

/// The greeting of a receiving connection.
pub(super) const GREETING: &[u8; 8] = b"receive\n";
/// The greeting of a control connection.
pub(super) const CONTROL: &[u8; 8] = b"control\n";
/// The response to both greetings.
pub(super) const WELCOME: &[u8; 8] = b"welcome\n";
/// Bytes of a command's header: first connection, number of connections, length of the bytes.
pub(super) const COMMAND_HEAD_BYTES: usize = 12;

type Receivers = Arc<Mutex<Vec<OwnedWriteHalf>>>;

/// Serves until the standard input ends, so that the process never outlives the bench.
pub(super) async fn serve() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    let mut input = tokio::io::stdin();
    tokio::select! {
        failed = accept(listener) => failed.map(|never| match never {}),
        _ = input.read_u8() => Ok(()),
    }
}

/// Accepts connections, each served by its own task.
#[expect(clippy::disallowed_methods, reason = "the baseline has nothing around a task")]
pub(super) async fn accept(listener: TcpListener) -> Result<Infallible> {
    let receivers = Receivers::default();
    let tasks = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await.context("accepting a connection failed")?;
        stream.set_nodelay(true)?;
        tasks.spawn(serve_connection(stream, receivers.clone()));
    }
}

/// Serves one connection. Its errors end only this connection.
async fn serve_connection(mut stream: TcpStream, receivers: Receivers) {
    let mut greeting = [0; GREETING.len()];
    let greeted = async {
        stream.read_exact(&mut greeting).await?;
        stream.write_all(WELCOME).await
    };
    if greeted.await.is_err() {
        return;
    }
    if &greeting == CONTROL {
        run_commands(stream, &receivers).await.ok();
    } else {
        let (read_half, write_half) = stream.into_split();
        receivers.lock().await.push(write_half);
        discard(read_half).await;
    }
}

async fn run_commands(mut stream: TcpStream, receivers: &Mutex<Vec<OwnedWriteHalf>>) -> Result<()> {
    let mut bytes = Vec::new();
    loop {
        let first = stream.read_u32().await? as usize;
        let count = stream.read_u32().await? as usize;
        let length = stream.read_u32().await? as usize;
        bytes.resize(length, 0);
        stream.read_exact(&mut bytes).await?;
        let receivers = receivers.lock().await;
        let Some(selected) = receivers.get(first..first + count) else {
            bail!("a command names more than the {} connections", receivers.len());
        };
        for receiver in selected {
            write_all(receiver, &bytes).await.ok();
        }
        stream.write_u32(count as u32).await?;
    }
}

/// Needs one system call unless the reader is late and the socket buffer is full.
async fn write_all(receiver: &OwnedWriteHalf, mut bytes: &[u8]) -> io::Result<()> {
    loop {
        match receiver.try_write(bytes) {
            Ok(written) if written == bytes.len() => return Ok(()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        receiver.writable().await?;
    }
}
