//! The socket under a connection: plain or TLS, read and written by polling only.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use heartline_runtime::{Socket, SocketIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A socket. A plain one can be written by anybody who holds the outbox' lock; a TLS one only by
/// its connection's task, because its encryption has state.
#[derive(Debug)]
pub enum Transport {
    /// The socket as it is.
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

    /// A vectored write that answers `WouldBlock` instead of waiting.
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

    /// Pushes out what TLS still holds encrypted; a plain socket holds nothing.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_writable(context)
    }

    /// Ends the server's half, so that the peer sees the end after the last frame.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => Poll::Ready(socket.shutdown()),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }

    /// Makes the coming close a reset: the kernel frees what the peer never read.
    pub(crate) fn abort(&self) {
        self.socket().abort();
    }
}
