//! The process under test: a server or the bare loop.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use heartline_runtime::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Common;
use super::child::{Backends, ChildProcess, Limits, random_secret};
use super::process::Usage;
use super::signer::{Secret, Signer};

/// Deadline for a server to become ready.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How often readiness is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running server or bare loop, its address and its process.
#[derive(Debug)]
pub(super) struct ServerUnderTest {
    /// The address that it listens on.
    pub(super) address: SocketAddr,
    /// The value of the `Host` header.
    pub(super) host: String,
    /// Signs tokens that the server accepts; none for the bare loop, which needs no tokens.
    pub(super) signer: Option<Signer>,
    pid: Option<u32>,
    child: Option<ChildProcess>,
}

impl ServerUnderTest {
    /// The server at `--url`, or a new one that accepts this many connections.
    pub(super) async fn start(common: &Common, connections: usize) -> Result<Self> {
        Self::launch(common, connections, Limits::Default, &Backends::default()).await
    }

    /// Like [`Self::start`], with limits that no run reaches.
    pub(super) async fn start_unlimited(common: &Common, connections: usize) -> Result<Self> {
        Self::start_unlimited_on(&Backends::default(), common, connections).await
    }

    /// Like [`Self::start_unlimited`], with these backends.
    pub(super) async fn start_unlimited_on(
        backends: &Backends,
        common: &Common,
        connections: usize,
    ) -> Result<Self> {
        Self::launch(common, connections, Limits::Unlimited, backends).await
    }

    /// One node of several that accept the same tokens, with limits that no run reaches.
    pub(super) async fn start_node(
        backends: &Backends,
        secret: &Secret,
        connections: usize,
    ) -> Result<Self> {
        let mut server = Self::child(connections, secret, Limits::Unlimited, backends)?;
        server.wait_until_ready().await?;
        Ok(server)
    }

    async fn launch(
        common: &Common,
        connections: usize,
        limits: Limits,
        backends: &Backends,
    ) -> Result<Self> {
        let mut server = match &common.url {
            Some(url) => Self::at_url(url, common).await?,
            None => Self::child(connections, &random_secret(), limits, backends)?,
        };
        server.wait_until_ready().await?;
        Ok(server)
    }

    fn child(
        connections: usize,
        secret: &Secret,
        limits: Limits,
        backends: &Backends,
    ) -> Result<Self> {
        let (child, address) = ChildProcess::server(connections, secret, limits, backends)?;
        Ok(Self {
            address,
            host: address.to_string(),
            signer: Some(Signer::new(secret, Clock::system())),
            pid: Some(child.pid()),
            child: Some(child),
        })
    }

    /// Starts the bare loop.
    pub(super) fn bare() -> Result<Self> {
        let (child, address) = ChildProcess::bare()?;
        let pid = Some(child.pid());
        Ok(Self { address, host: address.to_string(), signer: None, pid, child: Some(child) })
    }

    /// A server, or a bare loop if there is no signer, whose process is not measured.
    pub(super) fn at_address(address: SocketAddr, signer: Option<Signer>) -> Self {
        Self { address, host: address.to_string(), signer, pid: None, child: None }
    }

    async fn at_url(url: &str, common: &Common) -> Result<Self> {
        let host = host_of(url)?;
        let secret = common.secret.as_ref().context(
            "--url needs the server's HS256 secret: give --secret or set HEARTLINE_SECRET",
        )?;
        let address = tokio::net::lookup_host(&host)
            .await
            .with_context(|| format!("looking up {host} failed"))?
            .next()
            .with_context(|| format!("{host} has no address"))?;
        let signer = Some(Signer::new(secret, Clock::system()));
        Ok(Self { address, host, signer, pid: common.pid, child: None })
    }

    /// CPU time and memory of the process; none if its process id is not known.
    pub(super) fn usage(&self) -> Result<Option<Usage>> {
        self.pid.map(Usage::of).transpose()
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Clock::system().now() + READY_WITHIN;
        loop {
            if let Some(child) = &mut self.child {
                child.require_running()?;
            }
            let last = match timeout(Duration::from_secs(2), self.request_readyz()).await {
                Ok(Ok(200)) => return Ok(()),
                Ok(Ok(status)) => format!("/readyz returned {status}"),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "/readyz did not respond".to_owned(),
            };
            if Clock::system().now() >= deadline {
                bail!("the server at {} was not ready in {READY_WITHIN:?}: {last}", self.host);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn request_readyz(&self) -> Result<u16> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request =
            format!("GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host);
        stream.write_all(request.as_bytes()).await?;
        let mut status_line = [0; 12];
        stream.read_exact(&mut status_line).await?;
        status_of(&status_line).context("the response is not HTTP/1.1")
    }
}

/// The status code of a response, from its first bytes.
pub(super) fn status_of(head: &[u8]) -> Option<u16> {
    let status = head.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(status).ok()?.parse().ok()
}

/// `host:port` of a URL. TLS is rejected, because its cost would be measured with the server's.
fn host_of(url: &str) -> Result<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    if !matches!(scheme, "http" | "ws") {
        bail!("--url {url}: the bench supports only plain HTTP; give http://host:port");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        bail!("--url {url}: give http://host:port");
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_read_from_a_url() {
        assert_eq!(host_of("http://127.0.0.1:7400").unwrap(), "127.0.0.1:7400");
        assert_eq!(host_of("ws://chat.example/v1/ws").unwrap(), "chat.example:80");
        assert_eq!(host_of("[::1]:7400").unwrap(), "[::1]:7400");
        for bad in ["https://chat.example", "http://", "http://a@b"] {
            assert!(host_of(bad).unwrap_err().to_string().contains("http://host:port"), "{bad}");
        }
    }

    #[test]
    fn a_status_is_read_from_the_status_line() {
        assert_eq!(status_of(b"HTTP/1.1 503 Service Unavailable"), Some(503));
        assert_eq!(status_of(b"SSH-2.0-"), None);
    }
}
