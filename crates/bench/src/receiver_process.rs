//! A process that holds the receiving connections of one node.
//!
//! One process may not open enough files for the connections of all nodes, and a single reading
//! process would be the bottleneck of the measurement. A run therefore starts this program once
//! per node. The two processes exchange one line of JSON per request and reply.

mod messages;
mod serve;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use self::messages::{Reply, Request};
use super::child::ChildProcess;
use super::counters::Epoch;
use super::signer::Secret;

pub(super) use self::messages::{CheckResult, Deliveries, Receiver, ReceiverPlan};
pub(super) use self::serve::serve;

/// Deadline for a reply that needs no waiting.
const REPLY_WITHIN: Duration = Duration::from_secs(30);
/// Deadline for connecting all receivers.
const OPEN_WITHIN: Duration = Duration::from_secs(600);
/// Deadline for the deliveries of a window.
const DELIVERIES_WITHIN: Duration = Duration::from_secs(120);
/// Number of clock requests. The one with the shortest round trip gives the clock offset.
const CLOCK_READINGS: usize = 20;

/// A running process with the receivers of one node. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct ReceiverProcess {
    stream: BufReader<UnixStream>,
    _child: ChildProcess,
    /// Nanoseconds from the run's epoch to the start of the process.
    clock_offset_nanos: u64,
}

impl ReceiverProcess {
    /// Starts the process and measures its clock offset from the run's epoch.
    pub(super) async fn start(secret: &Secret, epoch: Epoch) -> Result<Self> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = ChildProcess::receivers(secret, &OwnedFd::from(theirs))?;
        let stream = BufReader::new(UnixStream::from_std(ours)?);
        let mut process = Self { stream, _child: child, clock_offset_nanos: 0 };
        let mut shortest = u64::MAX;
        for _ in 0..CLOCK_READINGS {
            let sent = epoch.nanos();
            let Reply::Clock { nanos } = process.request(&Request::Clock, REPLY_WITHIN).await?
            else {
                bail!("unexpected reply of a receiver process to `clock`");
            };
            let round_trip = epoch.nanos() - sent;
            if round_trip < shortest {
                shortest = round_trip;
                process.clock_offset_nanos = (sent + round_trip / 2).saturating_sub(nanos);
            }
        }
        Ok(process)
    }

    /// Connects all receivers of the plan. Sets the plan's clock offset.
    pub(super) async fn open(&mut self, plan: ReceiverPlan) -> Result<()> {
        let plan = ReceiverPlan { clock_offset_nanos: self.clock_offset_nanos, ..plan };
        match self.request(&Request::Open(plan), OPEN_WITHIN).await? {
            Reply::Opened => Ok(()),
            _ => bail!("unexpected reply of a receiver process to `open`"),
        }
    }

    /// Waits until the receivers have had this many deliveries since they were opened, or until
    /// deliveries stop, and returns the deliveries since the previous call.
    pub(super) async fn wait_for_deliveries(&mut self, deliveries: u64) -> Result<Deliveries> {
        match self.request(&Request::WaitForDeliveries { deliveries }, DELIVERIES_WITHIN).await? {
            Reply::Deliveries(deliveries) => Ok(deliveries),
            _ => bail!("unexpected reply of a receiver process to `wait_for_deliveries`"),
        }
    }

    /// Finds the receivers that did not get each message of their chat once and in order.
    pub(super) async fn check(&mut self, head_sequences: &[u64]) -> Result<CheckResult> {
        let head_sequences = head_sequences.to_vec();
        match self.request(&Request::Check { head_sequences }, REPLY_WITHIN).await? {
            Reply::Checked(result) => Ok(result),
            _ => bail!("unexpected reply of a receiver process to `check`"),
        }
    }

    async fn request(&mut self, request: &Request, within: Duration) -> Result<Reply> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let mut reply = String::new();
        let exchange = async {
            self.stream.get_mut().write_all(&line).await?;
            self.stream.read_line(&mut reply).await
        };
        let read = timeout(within, exchange)
            .await
            .with_context(|| format!("a receiver process did not reply within {within:?}"))??;
        if read == 0 {
            bail!("a receiver process ended unexpectedly");
        }
        match serde_json::from_str(&reply)? {
            Reply::Failed { reason } => bail!("{reason}"),
            reply => Ok(reply),
        }
    }
}

impl CheckResult {
    /// Adds the result of another receiver process.
    pub(super) fn add(&mut self, other: Self) {
        self.faulty += other.faulty;
        self.examples.extend(other.examples);
        self.examples.truncate(serve::EXAMPLES_MAX);
    }
}
