//! What is measured: a server or the bare loop, in a process of its own.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use heartline_routing::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Common;
use super::child::{Allowance, ChildProcess, Footing, random_secret};
use super::process::Usage;
use super::signer::{Secret, Signer};

/// How long a server may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How often it is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The process under test and how it is reached.
#[derive(Debug)]
pub(super) struct Subject {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// What goes into `Host`.
    pub(super) host: String,
    /// Signs the tokens that it accepts; absent for the bare loop, which asks for none.
    pub(super) signer: Option<Signer>,
    pid: Option<u32>,
    child: Option<ChildProcess>,
}

impl Subject {
    /// The server at `--url`, or one that is started with room for this many connections.
    pub(super) async fn server(common: &Common, connections: usize) -> Result<Self> {
        Self::start(common, connections, Allowance::Usual, &Footing::default()).await
    }

    /// The same, with limits that nobody reaches.
    pub(super) async fn unlimited(common: &Common, connections: usize) -> Result<Self> {
        Self::unlimited_on(&Footing::default(), common, connections).await
    }

    /// The same, on a database or among other nodes.
    pub(super) async fn unlimited_on(
        footing: &Footing,
        common: &Common,
        connections: usize,
    ) -> Result<Self> {
        Self::start(common, connections, Allowance::Unlimited, footing).await
    }

    /// One of several servers that accept the same tokens, with limits that nobody reaches.
    pub(super) async fn node(
        footing: &Footing,
        secret: &Secret,
        connections: usize,
    ) -> Result<Self> {
        let mut subject = Self::child(connections, secret, Allowance::Unlimited, footing)?;
        subject.wait_until_ready().await?;
        Ok(subject)
    }

    async fn start(
        common: &Common,
        connections: usize,
        allowance: Allowance,
        footing: &Footing,
    ) -> Result<Self> {
        let mut subject = match &common.url {
            Some(url) => Self::at_url(url, common).await?,
            None => Self::child(connections, &random_secret(), allowance, footing)?,
        };
        subject.wait_until_ready().await?;
        Ok(subject)
    }

    fn child(
        connections: usize,
        secret: &Secret,
        allowance: Allowance,
        footing: &Footing,
    ) -> Result<Self> {
        let (child, address) = ChildProcess::server(connections, secret, allowance, footing)?;
        Ok(Self {
            address,
            host: address.to_string(),
            signer: Some(Signer::new(secret, Clock::system())),
            pid: Some(child.pid()),
            child: Some(child),
        })
    }

    /// The bare loop.
    pub(super) fn bare() -> Result<Self> {
        let (child, address) = ChildProcess::bare()?;
        let pid = Some(child.pid());
        Ok(Self { address, host: address.to_string(), signer: None, pid, child: Some(child) })
    }

    /// Something that speaks like a server, or like the bare loop, and whose process is not
    /// looked at.
    pub(super) fn reached_at(address: SocketAddr, signer: Option<Signer>) -> Self {
        Self { address, host: address.to_string(), signer, pid: None, child: None }
    }

    async fn at_url(url: &str, common: &Common) -> Result<Self> {
        let host = host_of(url)?;
        let secret = common.secret.as_ref().context(
            "--url needs the server's HS256 secret: give --secret or set HEARTLINE_SECRET",
        )?;
        let address = tokio::net::lookup_host(&host)
            .await
            .with_context(|| format!("{host} could not be looked up"))?
            .next()
            .with_context(|| format!("{host} has no address"))?;
        let signer = Some(Signer::new(secret, Clock::system()));
        Ok(Self { address, host, signer, pid: common.pid, child: None })
    }

    /// What the process has used up to now; absent when its process id is not known.
    pub(super) fn usage(&self) -> Result<Option<Usage>> {
        self.pid.map(Usage::of).transpose()
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Clock::system().now() + READY_WITHIN;
        loop {
            if let Some(child) = &mut self.child {
                child.require_running()?;
            }
            let last = match timeout(Duration::from_secs(2), self.ask_readyz()).await {
                Ok(Ok(200)) => return Ok(()),
                Ok(Ok(status)) => format!("/readyz answered {status}"),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "/readyz did not answer".to_owned(),
            };
            if Clock::system().now() >= deadline {
                bail!("the server at {} was not ready in {READY_WITHIN:?}: {last}", self.host);
            }
            sleep(ASK_EVERY).await;
        }
    }

    async fn ask_readyz(&self) -> Result<u16> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request =
            format!("GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host);
        stream.write_all(request.as_bytes()).await?;
        let mut status_line = [0; 12];
        stream.read_exact(&mut status_line).await?;
        status_of(&status_line).context("this is not an HTTP server")
    }
}

/// The status of a response that begins so.
pub(super) fn status_of(head: &[u8]) -> Option<u16> {
    let status = head.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(status).ok()?.parse().ok()
}

/// `host:port` of a URL. TLS is refused: its cost would be measured instead of the server's.
fn host_of(url: &str) -> Result<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    if !matches!(scheme, "http" | "ws") {
        bail!("--url {url}: the bench speaks plain HTTP; give http://host:port");
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
    fn a_url_gives_host_and_port() {
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
