//! The socket under a connection: plain TCP or TLS, read and written by polling only.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A socket. A plain one can be written by anybody who holds the outbox' lock; a TLS one only by
/// its connection's task, because its encryption has state.
#[derive(Debug)]
pub enum Transport {
    /// TCP as it is.
    Plain(Arc<TcpStream>),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(tcp) => loop {
                ready!(tcp.poll_read_ready(context))?;
                match tcp.try_read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Poll::Ready(read),
                }
            },
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
            Self::Plain(tcp) => try_write(tcp, slices),
            Self::Tls(tls) => match Pin::new(tls).poll_write_vectored(context, slices) {
                Poll::Ready(written) => written,
                Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            },
        }
    }

    /// Pushes out what TLS still holds encrypted; plain TCP holds nothing.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp().poll_write_ready(context)
    }

    /// Ends the server's half, so that the peer sees the end after the last frame.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(tcp) => {
                Poll::Ready(SockRef::from(&**tcp).shutdown(std::net::Shutdown::Write))
            }
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }

    /// Makes the coming close a reset: the kernel frees what the peer never read.
    pub(crate) fn abort(&self) {
        // A socket that is gone already cannot be told; that is the aim anyway.
        let _ = SockRef::from(self.tcp()).set_linger(Some(Duration::ZERO));
    }
}

/// A write that does not block. One frame, the usual case, takes the shorter way into the kernel.
pub(crate) fn try_write(tcp: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    match slices {
        [frame] => tcp.try_write(frame),
        frames => tcp.try_write_vectored(frames),
    }
}
