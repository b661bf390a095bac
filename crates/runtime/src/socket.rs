//! The sockets and listeners that a node and a client use.
//!
//! In production they are TCP's; [`crate::memory_socket`] has others for many nodes in one process.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// A stream of bytes to a peer and back.
///
/// One task reads and waits; any number of tasks may write. Bytes arrive once and in the order of
/// the writes. Every call returns at once: a write accepts as many bytes as the socket has room
/// for, and returns `WouldBlock` without room.
pub trait Socket: Send + Sync + fmt::Debug {
    /// Reads into the buffer; zero bytes mean that the peer has closed its half.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes the slices in their order, as far as there is room, and returns the number of bytes.
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Ready when a write may find room again. Only the latest waker is woken.
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Closes this side's half: the peer reads the end after the last written byte.
    fn shutdown(&self) -> io::Result<()>;

    /// Makes the coming close a reset: bytes that the peer has not received are dropped. The
    /// socket closes when its last reference is dropped.
    fn abort(&self);
}

/// Accepts sockets.
pub trait Listener: Send + Sync + fmt::Debug {
    /// The next socket and its peer's address. Only the latest waker is woken.
    fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Arc<dyn Socket>, SocketAddr)>>;

    /// The address that peers connect to.
    fn local_address(&self) -> io::Result<SocketAddr>;
}

/// Waits for the next socket.
pub async fn accept(listener: &dyn Listener) -> io::Result<(Arc<dyn Socket>, SocketAddr)> {
    poll_fn(|context| listener.poll_accept(context)).await
}

/// A socket with the traits of `tokio::io`, for libraries that need them.
#[derive(Debug, Clone)]
pub struct SocketIo(Arc<dyn Socket>);

impl SocketIo {
    /// Adapts a socket.
    pub fn new(socket: Arc<dyn Socket>) -> Self {
        Self(socket)
    }

    /// The socket itself.
    pub fn socket(&self) -> &Arc<dyn Socket> {
        &self.0
    }

    /// Returns the socket without the traits.
    pub fn into_socket(self) -> Arc<dyn Socket> {
        self.0
    }

    fn poll_write_slices(
        &self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_writable(context))?;
            match self.0.try_write(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncRead for SocketIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(self.0.poll_read(context, buffer.initialize_unfilled()))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SocketIo {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_slices(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_slices(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown())
    }
}

// === impl TCP ===

impl Socket for TcpStream {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_read_ready(context))?;
            match self.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// A single slice, the usual case, needs a cheaper system call.
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            [slice] => self.try_write(slice),
            slices => self.try_write_vectored(slices),
        }
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(context)
    }

    fn shutdown(&self) -> io::Result<()> {
        SockRef::from(self).shutdown(Shutdown::Write)
    }

    fn abort(&self) {
        // A closed socket has nothing left to drop.
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl Listener for TcpListener {
    fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Arc<dyn Socket>, SocketAddr)>> {
        let (socket, peer) = ready!(self.poll_accept(context))?;
        Poll::Ready(Ok((Arc::new(socket), peer)))
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }
}
