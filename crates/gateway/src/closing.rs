//! The end of a socket of any protocol: the last frames are written within a deadline, then TCP
//! is closed.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use crate::outbox::{Flushed, Outbox};
use crate::transport::Transport;

/// Bytes of a peer that are read and discarded at a time.
const READ_BYTES: usize = 4096;

/// Writes the rest of the outbox and closes the server's half of TCP, then waits until the peer
/// has closed its own half; both only until the timer. Returns whether everything was written.
pub(crate) async fn finish(
    outbox: &Outbox,
    transport: &mut Transport,
    mut timer: Pin<&mut Sleep>,
) -> bool {
    let is_delivered = poll_fn(|context| {
        if let Poll::Ready(written) = poll_write_all(outbox, transport, context) {
            return Poll::Ready(written.is_ok());
        }
        timer.as_mut().poll(context).map(|()| false)
    })
    .await;
    if is_delivered {
        poll_fn(|context| poll_peer_end(transport, timer.as_mut(), context)).await;
    } else {
        transport.abort();
    }
    is_delivered
}

fn poll_write_all(
    outbox: &Outbox,
    transport: &mut Transport,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    loop {
        match outbox.flush_with(|slices| transport.write(context, slices))? {
            Flushed::All => break,
            Flushed::Blocked => ready!(transport.poll_writable(context))?,
        }
    }
    ready!(transport.poll_flush(context))?;
    transport.poll_shutdown(context)
}

/// Reads until the peer has closed its half too, because closing a socket with unread bytes resets
/// it, and a reset can destroy frames that the peer has not read yet.
fn poll_peer_end(
    transport: &mut Transport,
    timer: Pin<&mut Sleep>,
    context: &mut Context<'_>,
) -> Poll<()> {
    // The timer comes first, so that a peer that never stops sending cannot outlast the deadline.
    if timer.poll(context).is_ready() {
        return Poll::Ready(());
    }
    let mut buffer = [0; READ_BYTES];
    loop {
        match transport.poll_read(context, &mut buffer) {
            Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
            Poll::Ready(Ok(_)) => {}
            Poll::Pending => return Poll::Pending,
        }
    }
}
