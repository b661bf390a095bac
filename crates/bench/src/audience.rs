//! An audience: the connections of one node, in a process of their own.
//!
//! One process may open only so many files, and one that read for all nodes would be the slowest
//! part of what is measured. So a run starts this program again for each node, tells it by its
//! input whom to connect, and asks it what they heard.

mod hall;
mod words;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use self::words::{Reply, Request};
use super::child::ChildProcess;
use super::counters::Epoch;
use super::signer::Secret;

pub(super) use self::hall::serve;
pub(super) use self::words::{Checked, Heard, Listener, Plan};

/// How long an answer may take that needs no waiting.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long all may take to connect.
const OPEN_WITHIN: Duration = Duration::from_secs(600);
/// How long the deliveries of a window may take to arrive.
const HEAR_WITHIN: Duration = Duration::from_secs(120);
/// How often its clock is asked for: the quickest answer is the most exact.
const CLOCK_READINGS: usize = 20;

/// The connections of one node, in a process of their own, which ends with this.
#[derive(Debug)]
pub(super) struct Audience {
    stream: BufReader<UnixStream>,
    _child: ChildProcess,
    /// How many nanoseconds the run's times began before those of the process.
    ahead_nanos: u64,
}

impl Audience {
    /// Starts the process, whose times shall count from the same moment.
    pub(super) async fn start(secret: &Secret, epoch: Epoch) -> Result<Self> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = ChildProcess::audience(secret, &OwnedFd::from(theirs))?;
        let stream = BufReader::new(UnixStream::from_std(ours)?);
        let mut audience = Self { stream, _child: child, ahead_nanos: 0 };
        let mut quickest = u64::MAX;
        for _ in 0..CLOCK_READINGS {
            let asked = epoch.nanos();
            let Reply::Clock { nanos } = audience.ask(&Request::Clock, ANSWER_WITHIN).await? else {
                bail!("an audience has no clock");
            };
            let took = epoch.nanos() - asked;
            if took < quickest {
                quickest = took;
                audience.ahead_nanos = (asked + took / 2).saturating_sub(nanos);
            }
        }
        Ok(audience)
    }

    /// Has everybody connect; it says itself from when times count.
    pub(super) async fn open(&mut self, plan: Plan) -> Result<()> {
        let plan = Plan { ahead_nanos: self.ahead_nanos, ..plan };
        match self.ask(&Request::Open(plan), OPEN_WITHIN).await? {
            Reply::Opened => Ok(()),
            _ => bail!("an audience did not open"),
        }
    }

    /// What it heard since it was last asked, once there were so many deliveries since it was
    /// opened, or none came any more.
    pub(super) async fn hear(&mut self, deliveries: u64) -> Result<Heard> {
        match self.ask(&Request::Hear { deliveries }, HEAR_WITHIN).await? {
            Reply::Heard(heard) => Ok(heard),
            _ => bail!("an audience did not say what it heard"),
        }
    }

    /// Which devices did not hear each message of their chat once and in order.
    pub(super) async fn check(&mut self, head_sequences: &[u64]) -> Result<Checked> {
        let head_sequences = head_sequences.to_vec();
        match self.ask(&Request::Check { head_sequences }, ANSWER_WITHIN).await? {
            Reply::Checked(checked) => Ok(checked),
            _ => bail!("an audience could not be checked"),
        }
    }

    async fn ask(&mut self, request: &Request, within: Duration) -> Result<Reply> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let mut answer = String::new();
        let exchange = async {
            self.stream.get_mut().write_all(&line).await?;
            self.stream.read_line(&mut answer).await
        };
        let read = timeout(within, exchange).await.context("an audience did not answer")??;
        if read == 0 {
            bail!("the process of an audience ended by itself");
        }
        match serde_json::from_str(&answer)? {
            Reply::Failed { reason } => bail!("{reason}"),
            reply => Ok(reply),
        }
    }
}

impl Checked {
    /// Adds what another audience answered.
    pub(super) fn add(&mut self, more: Self) {
        self.faulty += more.faulty;
        self.examples.extend(more.examples);
        self.examples.truncate(hall::EXAMPLES_MAX);
    }
}
