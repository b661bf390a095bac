//! Sockets without a kernel: bounded buffers between two ends, and listeners under addresses.
//!
//! They keep the contract of [`Socket`] as TCP does (bounded buffers, half-close, reset), so that
//! any number of nodes and clients run in one process under simulated time.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc;

use crate::socket::{Listener, Socket};

/// Connections that a listener holds until they are accepted; more are refused.
const BACKLOG: usize = 128;

/// The first port of connecting ends.
const FIRST_CLIENT_PORT: u16 = 49152;

/// One end of a connection inside the process. Dropping it closes its half: the peer reads the
/// written bytes and then the end, and the peer's writes fail.
#[derive(Debug)]
pub struct MemorySocket {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
}

impl MemorySocket {
    /// Two ends of a connection; each direction holds at most `capacity` bytes.
    pub fn pair(capacity: usize) -> (Self, Self) {
        let (there, back) = (Arc::new(Pipe::new(capacity)), Arc::new(Pipe::new(capacity)));
        let near = Self { incoming: Arc::clone(&back), outgoing: Arc::clone(&there) };
        (near, Self { incoming: there, outgoing: back })
    }
}

impl Socket for MemorySocket {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.incoming.lock();
        if state.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if state.bytes.is_empty() {
            if state.is_ended {
                return Poll::Ready(Ok(0));
            }
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = state.bytes.len().min(buffer.len());
        for (slot, byte) in buffer.iter_mut().zip(state.bytes.drain(..count)) {
            *slot = byte;
        }
        wake(state.writer.take(), state);
        Poll::Ready(Ok(count))
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.outgoing.lock();
        state.check_writer()?;
        if slices.iter().all(|slice| slice.is_empty()) {
            return Ok(0);
        }
        let mut room = self.outgoing.capacity - state.bytes.len();
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut written = 0;
        for slice in slices {
            let count = slice.len().min(room);
            state.bytes.extend(&slice[..count]);
            (room, written) = (room - count, written + count);
        }
        wake(state.reader.take(), state);
        Ok(written)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.outgoing.lock();
        // The next write returns the error.
        if state.check_writer().is_err() || state.bytes.len() < self.outgoing.capacity {
            return Poll::Ready(Ok(()));
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    fn shutdown(&self) -> io::Result<()> {
        self.outgoing.change(|state| state.is_ended = true);
        Ok(())
    }

    fn abort(&self) {
        for pipe in [&self.incoming, &self.outgoing] {
            pipe.change(|state| {
                state.is_reset = true;
                state.bytes = VecDeque::new();
            });
        }
    }
}

impl Drop for MemorySocket {
    fn drop(&mut self) {
        self.outgoing.change(|state| state.is_ended = true);
        self.incoming.change(|state| {
            state.is_unread = true;
            state.bytes = VecDeque::new();
        });
    }
}

/// One direction of a connection.
#[derive(Debug)]
struct Pipe {
    capacity: usize,
    state: Mutex<PipeState>,
}

#[derive(Debug, Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    /// The writing end has closed its half.
    is_ended: bool,
    /// The reading end was dropped.
    is_unread: bool,
    /// An end has reset the connection.
    is_reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a pipe needs a capacity above zero");
        Self { capacity, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes both ends.
    fn change(&self, change: impl FnOnce(&mut PipeState)) {
        let mut state = self.lock();
        change(&mut state);
        let wakers = [state.reader.take(), state.writer.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl PipeState {
    fn check_writer(&self) -> io::Result<()> {
        if self.is_reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.is_ended || self.is_unread {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }
}

/// Wakes after the lock is released.
fn wake(waker: Option<Waker>, state: MutexGuard<'_, PipeState>) {
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Connects clients to listeners inside the process. Clones share the addresses.
#[derive(Debug, Clone)]
pub struct MemoryNetwork(Arc<Network>);

#[derive(Debug)]
struct Network {
    /// Bytes that each direction of a connection holds.
    capacity: usize,
    listeners: Mutex<BTreeMap<SocketAddr, mpsc::Sender<Incoming>>>,
    next_port: AtomicU16,
}

type Incoming = (MemorySocket, SocketAddr);

impl MemoryNetwork {
    /// A network whose connections hold at most `capacity` bytes in each direction.
    pub fn new(capacity: usize) -> Self {
        let next_port = AtomicU16::new(FIRST_CLIENT_PORT);
        Self(Arc::new(Network { capacity, listeners: Mutex::default(), next_port }))
    }

    /// Listens under an address until the listener is dropped.
    ///
    /// # Errors
    /// `AddrInUse` while another listener has the address.
    pub fn listen(&self, address: SocketAddr) -> io::Result<MemoryListener> {
        let mut listeners = self.lock();
        if listeners.get(&address).is_some_and(|listener| !listener.is_closed()) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (sender, incoming) = mpsc::channel(BACKLOG);
        listeners.insert(address, sender);
        Ok(MemoryListener { address, incoming: Mutex::new(incoming) })
    }

    /// Connects to a listener.
    ///
    /// # Errors
    /// `ConnectionRefused` if nothing listens there or the listener's backlog is full.
    pub fn connect(&self, address: SocketAddr) -> io::Result<MemorySocket> {
        let listener = self.lock().get(&address).cloned();
        let listener = listener.ok_or(io::ErrorKind::ConnectionRefused)?;
        let (near, far) = MemorySocket::pair(self.0.capacity);
        let port = self.0.next_port.fetch_add(1, Ordering::Relaxed);
        let peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        listener.try_send((far, peer)).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(near)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, mpsc::Sender<Incoming>>> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts the connections of a [`MemoryNetwork`] under one address.
#[derive(Debug)]
pub struct MemoryListener {
    address: SocketAddr,
    incoming: Mutex<mpsc::Receiver<Incoming>>,
}

impl Listener for MemoryListener {
    fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Arc<dyn Socket>, SocketAddr)>> {
        let mut incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        match incoming.poll_recv(context) {
            Poll::Ready(Some((socket, peer))) => Poll::Ready(Ok((Arc::new(socket), peer))),
            // Without the network no connection can arrive any more.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
