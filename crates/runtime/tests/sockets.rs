//! The contract of [`Socket`], kept by TCP and by sockets in memory alike.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::task::Poll;

use heartline_runtime::{Listener, MemoryNetwork, Socket, accept};
use tokio::net::{TcpListener, TcpStream};

/// Bytes that each direction of a socket in memory holds.
const CAPACITY: usize = 64 * 1024;

type Pair = (Arc<dyn Socket>, Arc<dyn Socket>);

async fn tcp() -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = TcpStream::connect(listener.local_address().unwrap());
    let (near, far) = tokio::join!(connecting, accept(&listener));
    (Arc::new(near.unwrap()), far.unwrap().0)
}

async fn memory() -> Pair {
    let network = MemoryNetwork::new(CAPACITY);
    let address = "10.0.0.1:80".parse().unwrap();
    let listener = network.listen(address).unwrap();
    let near = network.connect(address).unwrap();
    (Arc::new(near), accept(&listener).await.unwrap().0)
}

async fn read(socket: &dyn Socket) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 4096];
    let count = poll_fn(|context| socket.poll_read(context, &mut buffer)).await?;
    Ok(buffer[..count].to_vec())
}

/// Reads until so many bytes have come.
async fn read_bytes(socket: &dyn Socket, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let more = read(socket).await.unwrap();
        assert!(!more.is_empty(), "the socket ended after {} bytes", bytes.len());
        bytes.extend(more);
    }
    bytes
}

fn write(socket: &dyn Socket, bytes: &[u8]) -> io::Result<usize> {
    socket.try_write(&[IoSlice::new(bytes)])
}

/// Writes until the socket takes no more.
fn fill(socket: &dyn Socket) -> usize {
    let mut written = 0;
    loop {
        let bytes: Vec<u8> = (written..written + 4096).map(|index| index as u8).collect();
        match write(socket, &bytes) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn slices_arrive_in_order((near, far): Pair) {
    let slices = [b"one ".as_slice(), b"", b"two ", b"three"].map(IoSlice::new);
    assert_eq!(near.try_write(&slices).unwrap(), 13);
    assert_eq!(read_bytes(&*far, 13).await, b"one two three");
}

async fn a_full_socket_blocks_until_its_peer_reads((near, far): Pair) {
    poll_fn(|context| near.poll_writable(context)).await.unwrap();
    let written = fill(&*near);
    let is_writable = poll_fn(|context| Poll::Ready(near.poll_writable(context).is_ready())).await;
    assert!(!is_writable);
    let bytes = read_bytes(&*far, written).await;
    assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == index as u8));
    poll_fn(|context| near.poll_writable(context)).await.unwrap();
    assert_eq!(write(&*near, b"more").unwrap(), 4);
    assert_eq!(read_bytes(&*far, 4).await, b"more");
}

async fn an_ended_half_leaves_the_other_open((near, far): Pair) {
    write(&*near, b"last").unwrap();
    near.shutdown().unwrap();
    assert_eq!(write(&*near, b"late").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(read_bytes(&*far, 4).await, b"last");
    assert_eq!(read(&*far).await.unwrap(), b"");
    write(&*far, b"answer").unwrap();
    assert_eq!(read_bytes(&*near, 6).await, b"answer");
}

async fn a_dropped_socket_ends_after_its_last_byte((near, far): Pair) {
    write(&*near, b"last").unwrap();
    drop(near);
    assert_eq!(read_bytes(&*far, 4).await, b"last");
    assert_eq!(read(&*far).await.unwrap(), b"");
}

async fn an_abort_resets_the_peer((near, far): Pair) {
    fill(&*near);
    near.abort();
    drop(near);
    let error = loop {
        match read(&*far).await {
            Ok(bytes) => assert!(!bytes.is_empty(), "a reset is not an orderly end"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(write(&*far, b"x").is_err());
}

async fn a_waiting_reader_is_woken((near, far): Pair) {
    let reading = read_bytes(&*far, 5);
    let writing = async {
        tokio::task::yield_now().await;
        write(&*near, b"hello").unwrap();
    };
    let (bytes, ()) = tokio::join!(reading, writing);
    assert_eq!(bytes, b"hello");
}

#[tokio::test]
async fn tcp_keeps_the_contract() {
    slices_arrive_in_order(tcp().await).await;
    a_full_socket_blocks_until_its_peer_reads(tcp().await).await;
    an_ended_half_leaves_the_other_open(tcp().await).await;
    a_dropped_socket_ends_after_its_last_byte(tcp().await).await;
    an_abort_resets_the_peer(tcp().await).await;
    a_waiting_reader_is_woken(tcp().await).await;
}

#[tokio::test]
async fn sockets_in_memory_keep_the_contract() {
    slices_arrive_in_order(memory().await).await;
    a_full_socket_blocks_until_its_peer_reads(memory().await).await;
    an_ended_half_leaves_the_other_open(memory().await).await;
    a_dropped_socket_ends_after_its_last_byte(memory().await).await;
    an_abort_resets_the_peer(memory().await).await;
    a_waiting_reader_is_woken(memory().await).await;
}

#[tokio::test]
async fn a_socket_in_memory_holds_no_more_than_its_capacity() {
    let (near, _far) = memory().await;
    assert_eq!(fill(&*near), CAPACITY);
}

#[tokio::test]
async fn an_address_has_one_listener_and_nobody_else_answers() {
    let network = MemoryNetwork::new(CAPACITY);
    let address = "10.0.0.1:80".parse().unwrap();
    assert_eq!(network.connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let listener = network.listen(address).unwrap();
    assert_eq!(network.listen(address).unwrap_err().kind(), ErrorKind::AddrInUse);
    network.connect(address).unwrap();
    drop(listener);
    assert_eq!(network.connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    network.listen(address).unwrap();
}
