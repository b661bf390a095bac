//! The socket under a connection: plain or TLS, read and written by polling only.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use heartline_runtime::{Socket, SocketIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A socket. Any holder of the outbox' lock may write to a plain one; only the connection's task
/// writes to a TLS one, because encryption has state.
#[derive(Debug)]
pub enum Transport {
    /// The plain socket.
    Plain(Arc<dyn Socket>),
    /// TLS over a socket.
    Tls(Box<TlsStream<SocketIo>>),
}

impl Transport {
    fn socket(&self) -> &dyn Socket {
        match self {
            Self::Plain(socket) => &**socket,
            Self::Tls(tls) => &**tls.get_ref().0.socket(),
        }
    }

    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_read(context, buffer),
            Self::Tls(tls) => {
                let mut buffer = ReadBuf::new(buffer);
                ready!(Pin::new(tls).poll_read(context, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
        }
    }

    /// A vectored write that returns `WouldBlock` instead of waiting.
    pub(crate) fn write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write(slices),
            Self::Tls(tls) => match Pin::new(tls).poll_write_vectored(context, slices) {
                Poll::Ready(written) => written,
                Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            },
        }
    }

    /// Writes the bytes that TLS still holds encrypted; a plain socket holds none.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_writable(context)
    }

    /// Closes the server's half, so that the peer sees the end after the last frame.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => Poll::Ready(socket.shutdown()),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }

    /// Makes the coming close a reset: the kernel frees the bytes that the peer never read.
    pub(crate) fn abort(&self) {
        self.socket().abort();
    }
}
