//! An echo server made of the gateway's own WebSocket parts, for the conformance suite.
//!
//! `echo PORT` listens on 127.0.0.1 (port 0 takes a free one) and writes the address to standard
//! output. Every message comes back as it was sent; a violation is answered by a Close with its
//! code. There is no session here: what is judged is the frame reader and the frame writers.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use heartline_gateway::websocket::{
    FrameReader, Incoming, ReaderLimits, Upgrade, binary_frame, close_frame, pong_frame, text_frame,
};

/// The suite sends messages of 16 MiB, and cuts them into as many fragments as it likes.
const LIMITS: ReaderLimits =
    ReaderLimits { message_bytes: 64 * 1024 * 1024, fragments: 1024 * 1024 };

const HEAD_BYTES_MAX: usize = 16 * 1024;

/// How long a client may take to end its half after the Close.
const LINGER: Duration = Duration::from_secs(2);

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse::<u16>().ok());
    let port = port.ok_or_else(|| io::Error::other("usage: echo PORT"))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    std::thread::scope(|connections| {
        for stream in listener.incoming() {
            let stream = stream?;
            // A client that breaks off mid-way is part of the suite, not a fault of this server.
            connections.spawn(|| serve(stream));
        }
        Ok(())
    })
}

/// One connection from its upgrade to the end of TCP.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (head, early) = read_head(&mut stream)?;
    let Some(Ok(upgrade)) = parse_head(&head).as_ref().map(Upgrade::from_request) else {
        return stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    };
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        upgrade.accept
    );
    stream.write_all(answer.as_bytes())?;
    let last_words = echo(&mut stream, &early)?;
    stream.write_all(&last_words)?;
    end(&mut stream)
}

/// Echoes until somebody closes; answers the Close frame to end with.
fn echo(stream: &mut TcpStream, early: &[u8]) -> io::Result<Bytes> {
    let mut reader = FrameReader::new(LIMITS);
    reader.feed(early);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        loop {
            let answer = match reader.next() {
                Ok(None) => break,
                Ok(Some(Incoming::Text(text))) => text_frame(&text),
                Ok(Some(Incoming::Binary(payload))) => binary_frame(&payload),
                Ok(Some(Incoming::Ping(payload))) => pong_frame(&payload),
                Ok(Some(Incoming::Pong)) => continue,
                Ok(Some(Incoming::Close(code))) => return Ok(close_frame(code, "")),
                Err(error) => return Ok(close_frame(Some(error.close_code()), &error.to_string())),
            };
            stream.write_all(&answer)?;
        }
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => reader.feed(&buffer[..read]),
        }
    }
}

/// Ends our half and reads the client's to its end, so that the Close is not lost to a reset.
fn end(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(LINGER))?;
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// The request's head, and the bytes that came after it.
fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    const END: &[u8] = b"\r\n\r\n";
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1024]);
    while bytes.len() < HEAD_BYTES_MAX {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(at) = bytes.windows(END.len()).position(|window| window == END) {
            let early = bytes.split_off(at + END.len());
            let head = String::from_utf8(bytes).map_err(io::Error::other)?;
            return Ok((head, early));
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// The head as the upgrade wants it; `None` if it is not that of an HTTP request.
fn parse_head(head: &str) -> Option<http::request::Parts> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let mut request = http::Request::builder().method(words.next()?).uri(words.next()?);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        request = request.header(name, value.trim());
    }
    Some(request.body(()).ok()?.into_parts().0)
}
