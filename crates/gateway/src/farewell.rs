//! The last words of a socket, whatever it spoke: written within a deadline, and then the end of TCP.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use crate::outbox::{Flushed, Outbox};
use crate::transport::Transport;

/// Bytes of a peer that are read and passed over at a time.
const READ_BYTES: usize = 4096;

/// Writes what is left and ends our half, until the timer; then waits for the peer to end its own.
/// Answers whether the last words were out in time.
pub(crate) async fn say(
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

/// Reads until the peer has ended its half too, so that the last words are not lost to a reset; a
/// peer that has not by the timer loses nothing by our end.
fn poll_peer_end(
    transport: &mut Transport,
    timer: Pin<&mut Sleep>,
    context: &mut Context<'_>,
) -> Poll<()> {
    // First, while this turn has budget left: a peer that never stops sending must not outlast the
    // deadline.
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
