//! The bare loop: what the kernel asks for a delivery, without any protocol.
//!
//! A connection says one line, gets one line, and is then written to. A control connection sends
//! a range of connections and bytes; the loop writes the bytes to each of them, one system call
//! per connection, in the order in which they came.

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

use super::fleet::discard;

/// What a connection says that wants to be written to.
pub(super) const GREETING: &[u8; 8] = b"receive\n";
/// What a connection says that commands.
pub(super) const CONTROL: &[u8; 8] = b"control\n";
/// What both are answered.
pub(super) const WELCOME: &[u8; 8] = b"welcome\n";
/// Bytes of a command's head: first connection, number of connections, length of the bytes.
pub(super) const COMMAND_HEAD_BYTES: usize = 12;

type Receivers = Arc<Mutex<Vec<OwnedWriteHalf>>>;

/// Serves until the standard input ends, so that it never outlives the bench.
pub(super) async fn serve() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    let mut input = tokio::io::stdin();
    tokio::select! {
        failed = accept(listener) => failed.map(|never| match never {}),
        _ = input.read_u8() => Ok(()),
    }
}

/// Attends to every connection that comes.
pub(super) async fn accept(listener: TcpListener) -> Result<Infallible> {
    let receivers = Receivers::default();
    let tasks = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await.context("the bare loop cannot accept")?;
        stream.set_nodelay(true)?;
        tasks.spawn(attend(stream, receivers.clone()));
    }
}

/// A connection's end, however it comes, is nobody else's affair.
async fn attend(mut stream: TcpStream, receivers: Receivers) {
    let mut greeting = [0; GREETING.len()];
    let greeted = async {
        stream.read_exact(&mut greeting).await?;
        stream.write_all(WELCOME).await
    };
    if greeted.await.is_err() {
        return;
    }
    if &greeting == CONTROL {
        obey(stream, &receivers).await.ok();
    } else {
        let (read_half, write_half) = stream.into_split();
        receivers.lock().await.push(write_half);
        discard(read_half).await;
    }
}

async fn obey(mut stream: TcpStream, receivers: &Mutex<Vec<OwnedWriteHalf>>) -> Result<()> {
    let mut bytes = Vec::new();
    loop {
        let first = stream.read_u32().await? as usize;
        let count = stream.read_u32().await? as usize;
        let length = stream.read_u32().await? as usize;
        bytes.resize(length, 0);
        stream.read_exact(&mut bytes).await?;
        let receivers = receivers.lock().await;
        let Some(chosen) = receivers.get(first..first + count) else {
            bail!("there are only {} connections", receivers.len());
        };
        for receiver in chosen {
            write_all(receiver, &bytes).await.ok();
        }
        stream.write_u32(count as u32).await?;
    }
}

/// One call when the socket has room, which it has unless the reader is late.
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
